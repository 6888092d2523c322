/* SPDX-License-Identifier: Apache-2.0 */
#include <limits.h>
#include <math.h>
#include <stdlib.h>

#include "base/xalloc.h"

#include "nodeagent/vendor/nvidia/nvml_telemetry.h"

/* Bound on the samples that the driver is asked for at a time. */
enum { MAX_SAMPLES = 2048, US_OF_MS = 1000 };

/* An entry of one of the driver's lists. */
struct entry {
    struct telemetry_process process;
    unsigned ci;
};

struct entries {
    struct entry *items; /* owned */
    size_t n;
};

static int part_of(const struct nvml_process_info *raw)
{
    return raw->gpuInstanceId > INT_MAX ? -1 : (int)raw->gpuInstanceId;
}

static void note(void *arg, const struct nvml_process_info *raw)
{
    struct entries *all = arg;
    if (!raw->pid)
        return;
    *XPUSH(all->items, all->n) =
        (struct entry){.ci = raw->computeInstanceId,
                       .process = {.pid = raw->pid,
                                   .gi_id = part_of(raw),
                                   .memory_bytes = raw->usedGpuMemory != NVML_MEMORY_UNKNOWN
                                                       ? (double)raw->usedGpuMemory
                                                       : (double)NAN,
                                   .utilization = (double)NAN}};
}

static bool is_same(const struct telemetry_process *p, const struct telemetry_process *q)
{
    return p->pid == q->pid && p->gi_id == q->gi_id;
}

static int by_place(const void *a, const void *b)
{
    const struct entry *x = a;
    const struct entry *y = b;
    if (x->process.pid != y->process.pid)
        return x->process.pid < y->process.pid ? -1 : 1;
    if (x->process.gi_id != y->process.gi_id)
        return x->process.gi_id < y->process.gi_id ? -1 : 1;
    return (x->ci > y->ci) - (x->ci < y->ci);
}

/* A process of graphics and compute is in both lists, with the same memory. One in several compute
 * instances of a part has memory in each. */
static void take_entries(struct entries *all, struct telemetry_card *card)
{
    struct telemetry_process *list = NULL;
    size_t n = 0;
    if (all->n > 0)
        qsort(all->items, all->n, sizeof(*all->items), by_place);
    for (size_t i = 0; i < all->n; i++) {
        const struct entry *e = &all->items[i];
        if (n == 0 || !is_same(&list[n - 1], &e->process))
            *XPUSH(list, n) = e->process;
        else if (e->ci != e[-1].ci)
            list[n - 1].memory_bytes += e->process.memory_bytes;
    }
    telemetry_take_processes(card, list, n);
    free(list);
}

/* The mean of a process's samples; 0 without one: a process that did nothing has none. */
static double mean_of(unsigned pid, const struct nvml_process_sample *samples, unsigned n)
{
    double sum = 0;
    unsigned of_pid = 0;
    for (unsigned i = 0; i < n; i++) {
        if (samples[i].pid != pid)
            continue;
        if (samples[i].smUtil > 100)
            return (double)NAN;
        sum += samples[i].smUtil;
        of_pid++;
    }
    return of_pid ? sum / of_pid : 0;
}

/* The time stamp of the newest sample of the measure before, or 0 for all that the driver has. A
 * stamp in the future is of before the clock was set back: the driver would have no later sample
 * until that time has come again. */
static unsigned long long seen_us(const struct nvml_measure *m)
{
    bool is_past = m->kept->sampled_us / US_OF_MS <= (uint64_t)clock_wall_ms(m->n->clock);
    return is_past ? m->kept->sampled_us : 0;
}

/* Samples later than the last one that was seen. With MIG on there are none for any process. */
static nvml_ret ask_samples(struct nvml_measure *m, struct nvml_process_sample *ret,
                            unsigned *ret_n)
{
    struct nvml *n = m->n;
    *ret_n = MAX_SAMPLES;
    nvml_ret rc = NVML_CALL(n, process_samples, m->device, ret, ret_n, seen_us(m));
    if (rc == NVML_SUCCESS && *ret_n > MAX_SAMPLES)
        return NVML_INSUFFICIENT_SIZE;
    if (rc != NVML_SUCCESS)
        *ret_n = 0;
    return rc;
}

static void note_utilization(struct nvml_measured *kept, const struct nvml_process_sample *samples,
                             unsigned n, struct telemetry_card *card)
{
    for (unsigned i = 0; i < card->n_processes; i++)
        card->processes[i].utilization = mean_of(card->processes[i].pid, samples, n);
    /* The first counts even if it is older than the last measure's: the clock may have been set back. */
    for (unsigned i = 0; i < n; i++)
        if (i == 0 || samples[i].timeStamp > kept->sampled_us)
            kept->sampled_us = samples[i].timeStamp;
}

int nvml_measure_processes(struct nvml_measure *m, struct telemetry_card *ret, struct err *e)
{
    bool told;
    unsigned n = 0;
    struct entries all = {0};
    int rc = nvml_process_lists(m->n, m->device, note, &all, &told, e);
    take_entries(&all, ret);
    free(all.items);
    TRY(rc);
    auto_free struct nvml_process_sample *samples = xcalloc(MAX_SAMPLES, sizeof(*samples));
    nvml_ret answer = ask_samples(m, samples, &n);
    if (answer == NVML_SUCCESS || answer == NVML_NOT_FOUND)
        note_utilization(m->kept, samples, n, ret);
    return nvml_measure_check(m->n, nvml_names.process_samples, answer, e);
}
