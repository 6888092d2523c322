/* SPDX-License-Identifier: Apache-2.0 */
#include "nodeagent/telemetry/attribution.h"

#include <math.h>
#include <string.h>

/* True when the value of a shared place is split among its holders. */
static bool is_split(const struct telemetry_place *p, enum telemetry_value v)
{
    return p->is_shared && (v == TELEMETRY_UTILIZATION || v == TELEMETRY_MEMORY_USED);
}

static double measured(const struct telemetry_process *p, enum telemetry_value v)
{
    double value = v == TELEMETRY_UTILIZATION ? p->utilization : p->memory_bytes;
    return isfinite(value) && value >= 0 ? value : (double)NAN;
}

/* Linear: a place has at most some hundreds of processes. */
static struct attributed *part_of(struct attributed *parts, size_t n, const char *uid)
{
    for (size_t i = 0; i < n && *uid; i++)
        if (strcmp(parts[i].holder->uid, uid) == 0)
            return &parts[i];
    return NULL;
}

static size_t list_holders(const struct telemetry_place *p, struct attributed *ret)
{
    size_t n = 0;
    for (size_t i = 0; i < p->n_holders; i++)
        if (p->holders[i].uid)
            ret[n++] = (struct attributed){.holder = &p->holders[i]};
    return n;
}

/* Adds the value of each process to the part of its pod. False: there are processes, and the driver
 * reports the value of none of them. */
static bool add_processes(const struct telemetry_place *p, enum telemetry_value v, double factor,
                          const struct attribution_reading *r, struct attributed *parts, size_t n)
{
    bool any = false;
    bool reported = false;
    for (unsigned i = 0; i < r->card->n_processes; i++) {
        const struct telemetry_process *process = &r->card->processes[i];
        if (p->gi_id >= 0 && process->gi_id != p->gi_id)
            continue; /* a card has all, those in slices included */
        double value = measured(process, v);
        any = true;
        reported |= !isnan(value);
        struct attributed *part = isnan(value) ? NULL : part_of(parts, n, r->pods[i].pod_uid);
        if (part)
            part->value += value * factor;
    }
    return reported || !any;
}

static double sum_of(const struct attributed *parts, size_t n)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += parts[i].value;
    return sum;
}

size_t attribution_of(const struct telemetry_place *p, enum telemetry_value v, double whole,
                      double factor, const struct attribution_reading *r, struct attributed *ret)
{
    if (!isfinite(whole) || whole < 0)
        return 0;
    if (!is_split(p, v)) {
        bool alone = !p->is_shared && p->n_holders == 1;
        ret[0] = (struct attributed){.holder = alone ? &p->holders[0] : NULL, .value = whole};
        return 1;
    }
    size_t n = list_holders(p, ret);
    if (!add_processes(p, v, factor, r, ret, n))
        n = 0;
    double sum = sum_of(ret, n);
    for (size_t i = 0; i < n && sum > whole; i++)
        ret[i].value *= whole / sum;
    ret[n] = (struct attributed){.value = sum < whole ? whole - sum : 0};
    return n + 1;
}
