/* SPDX-License-Identifier: Apache-2.0 */
#include <limits.h>
#include <math.h>

#include "base/xalloc.h"

#include "nodeagent/vendor/nvidia/nvml_telemetry.h"

/* Bound on the samples that the driver is asked for at a time. */
enum { MAX_SAMPLES = 2048 };

/* The processes found so far, with the compute instance that each was first found in. */
struct found {
    struct telemetry_card *card;
    unsigned ci[TELEMETRY_MAX_PROCESSES];
};

static int part_of(const struct nvml_process_info *raw)
{
    return raw->gpuInstanceId > INT_MAX ? -1 : (int)raw->gpuInstanceId;
}

/* A process of graphics and compute is in both lists, with the same memory. One in several compute
 * instances of a part has memory in each. */
static void note(void *arg, const struct nvml_process_info *raw)
{
    struct found *f = arg;
    struct telemetry_card *card = f->card;
    double bytes =
        raw->usedGpuMemory != NVML_MEMORY_UNKNOWN ? (double)raw->usedGpuMemory : (double)NAN;
    if (!raw->pid)
        return;
    for (unsigned i = 0; i < card->n_processes; i++) {
        struct telemetry_process *p = &card->processes[i];
        if (p->pid != raw->pid || p->gi_id != part_of(raw))
            continue;
        if (f->ci[i] != raw->computeInstanceId)
            p->memory_bytes += bytes;
        return;
    }
    if (card->n_processes == TELEMETRY_MAX_PROCESSES)
        return;
    f->ci[card->n_processes] = raw->computeInstanceId;
    card->processes[card->n_processes++] = (struct telemetry_process){.pid = raw->pid,
                                                                      .gi_id = part_of(raw),
                                                                      .memory_bytes = bytes,
                                                                      .utilization = (double)NAN};
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

/* Samples later than the last one that was seen. With MIG on there are none for any process. */
static nvml_ret ask_samples(struct nvml_measure *m, struct nvml_process_sample *ret,
                            unsigned *ret_n)
{
    struct nvml *n = m->n;
    *ret_n = MAX_SAMPLES;
    nvml_ret rc = NVML_CALL(n, process_samples, m->device, ret, ret_n, m->kept->sampled_us);
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
    for (unsigned i = 0; i < n; i++)
        if (samples[i].timeStamp > kept->sampled_us)
            kept->sampled_us = samples[i].timeStamp;
}

int nvml_measure_processes(struct nvml_measure *m, struct telemetry_card *ret, struct err *e)
{
    bool told;
    unsigned n = 0;
    struct found f = {.card = ret};
    TRY(nvml_process_lists(m->n, m->device, note, &f, &told, e));
    auto_free struct nvml_process_sample *samples = xcalloc(MAX_SAMPLES, sizeof(*samples));
    nvml_ret rc = ask_samples(m, samples, &n);
    if (rc == NVML_SUCCESS || rc == NVML_NOT_FOUND)
        note_utilization(m->kept, samples, n, ret);
    return nvml_measure_check(m->n, nvml_names.process_samples, rc, e);
}
