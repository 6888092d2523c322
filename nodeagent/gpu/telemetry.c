/* SPDX-License-Identifier: Apache-2.0 */
#include "nodeagent/gpu/telemetry.h"

#include <math.h>
#include <stdlib.h>

void telemetry_values_init(struct telemetry_values *v)
{
    for (size_t i = 0; i < TELEMETRY_VALUES; i++)
        v->of[i] = (double)NAN;
}

static int by_pid(const void *a, const void *b)
{
    const struct telemetry_process *x = a;
    const struct telemetry_process *y = b;
    if (x->pid != y->pid)
        return x->pid < y->pid ? -1 : 1;
    return (x->gi_id > y->gi_id) - (x->gi_id < y->gi_id);
}

/* A driver lists them in any order, and the same ones are to be left out each time. */
void telemetry_take_processes(struct telemetry_card *c, struct telemetry_process *list, size_t n)
{
    size_t room = TELEMETRY_MAX_PROCESSES;
    if (n > 0)
        qsort(list, n, sizeof(*list), by_pid);
    c->n_processes = (unsigned)(n < room ? n : room);
    c->n_left_out = (unsigned)n - c->n_processes;
    for (unsigned i = 0; i < c->n_processes; i++)
        c->processes[i] = list[i];
}
