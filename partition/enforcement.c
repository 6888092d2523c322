/* SPDX-License-Identifier: Apache-2.0 */
#include "partition/enforcement.h"

#include <stddef.h>

static bool asks_for_memory(const struct device_enforcement *e)
{
    return e->has_memory && e->memory != API_MEMORY_AUTO && e->memory != API_MEMORY_NONE;
}

static bool asks_for_compute(const struct device_enforcement *e)
{
    return e->has_compute && e->compute != API_COMPUTE_AUTO && e->compute != API_COMPUTE_NONE;
}

const char *enforcement_missing(const struct device_fractional *terms)
{
    if (asks_for_memory(&terms->enforcement))
        return "nothing holds containers to their memory yet: leave enforcement.memory out, or "
               "write auto or none";
    if (asks_for_compute(&terms->enforcement))
        return "nothing holds containers to their compute yet: leave enforcement.compute out, or "
               "write auto or none";
    if (terms->has_qos_policy && terms->qos_policy != API_BEST_EFFORT)
        return "nothing divides a card's compute among its shares yet: leave qosPolicy out, or "
               "write best-effort";
    if (terms->has_on_exceed)
        return "nothing measures what shares use yet: leave onExceed out";
    return NULL;
}

bool enforcement_gives_shares(const struct device_want *want)
{
    return want && want->has_sharing && want->sharing.has_fractional &&
           !enforcement_missing(&want->sharing.fractional);
}
