/* SPDX-License-Identifier: Apache-2.0 */
#include "partition/enforcement.h"

#include <stddef.h>

/* MPS serves so many clients of a card from Volta on. */
enum { WHOLE_PERCENT = 100, MPS_MAX_SHARES = 48 };

const struct enforcement_means enforcement_anywhere = {.library = true,
                                                       .driver = true,
                                                       .mps = true};

static int memory_asked(const struct device_fractional *terms)
{
    return terms->enforcement.has_memory ? terms->enforcement.memory : API_MEMORY_AUTO;
}

/* Limits of the driver together are no more than the card has: else one would fail below its own. */
static bool oversubscribes(const struct device_fractional *terms)
{
    return terms->memory_percent > WHOLE_PERCENT;
}

static const char *driver_missing(const struct device_fractional *terms,
                                  const struct enforcement_means *has)
{
    if (oversubscribes(terms))
        return "limits of the driver give out no more memory than there is: leave "
               "memoryOversubscriptionPercent at 100, or write library, auto or none as "
               "enforcement.memory";
    if (has->driver)
        return NULL;
    return has->driver_lacks ? has->driver_lacks
                             : "it is not known yet whether the driver on this node has limits of "
                               "memory: wait, or write library, auto or none as "
                               "enforcement.memory";
}

static const char *memory_missing(const struct device_fractional *terms,
                                  const struct enforcement_means *has)
{
    int asked = memory_asked(terms);
    if (asked == API_MEMORY_DRIVER)
        return driver_missing(terms, has);
    if (asked == API_MEMORY_LIBRARY && !has->library)
        return "the limiter is not installed on this node, so that nothing holds containers to "
               "their memory: run an agent that has it, or write auto or none as "
               "enforcement.memory";
    return NULL;
}

static int compute_asked(const struct device_fractional *terms)
{
    return terms->enforcement.has_compute ? terms->enforcement.compute : API_COMPUTE_AUTO;
}

static bool divides_compute(const struct device_fractional *terms)
{
    return terms->has_qos_policy && terms->qos_policy != API_BEST_EFFORT;
}

/* A part of MPS is fixed when a process starts, and is never more than what was asked for. */
static const char *mps_missing(const struct device_fractional *terms,
                               const struct enforcement_means *has)
{
    if (!has->mps)
        return "this agent runs no MPS daemons: write library, auto or none as "
               "enforcement.compute";
    if (terms->max_shares > MPS_MAX_SHARES)
        return "MPS serves 48 clients of a card at most: set maxShares to 48 or less, or write "
               "library, auto or none as enforcement.compute";
    if (terms->has_qos_policy && terms->qos_policy != API_FIXED_SHARE)
        return "parts of MPS are fixed: leave qosPolicy out, write fixed-share, or write library, "
               "auto or none as enforcement.compute";
    return NULL;
}

static const char *compute_missing(const struct device_fractional *terms,
                                   const struct enforcement_means *has)
{
    int asked = compute_asked(terms);
    if (asked == API_COMPUTE_MPS)
        return mps_missing(terms, has);
    if (asked == API_COMPUTE_LIBRARY && !has->library)
        return "the limiter is not installed on this node, so that nothing holds containers to "
               "their compute: run an agent that has it, or write auto or none as "
               "enforcement.compute";
    if (divides_compute(terms) && enforcement_of_compute(terms, has) == API_LEVEL_NONE)
        return "nothing divides a card's compute among its shares here: leave qosPolicy out, or "
               "write best-effort";
    return NULL;
}

/* A container is known by the folder that it has for the limiter. */
static const char *measure_missing(const struct device_fractional *terms,
                                   const struct enforcement_means *has)
{
    if (!terms->has_on_exceed)
        return NULL;
    if (enforcement_of_memory(terms, has) == API_LEVEL_NONE)
        return "only shares with a limit are measured, and these have none: leave onExceed out, or "
               "write library as enforcement.memory";
    if (!has->library)
        return "containers are measured where the limiter is installed, and it is not on this "
               "node: run an agent that has it, or leave onExceed out";
    return NULL;
}

const char *enforcement_missing(const struct device_fractional *terms,
                                const struct enforcement_means *has)
{
    const char *missing = memory_missing(terms, has);
    if (!missing)
        missing = compute_missing(terms, has);
    return missing ? missing : measure_missing(terms, has);
}

bool enforcement_gives_shares(const struct device_want *want, const struct enforcement_means *has)
{
    return want && want->has_sharing && want->sharing.has_fractional &&
           !enforcement_missing(&want->sharing.fractional, has);
}

enum api_level enforcement_of_memory(const struct device_fractional *terms,
                                     const struct enforcement_means *has)
{
    int asked = memory_asked(terms);
    bool may = asked == API_MEMORY_DRIVER || (asked == API_MEMORY_AUTO && !oversubscribes(terms));
    if (may && has->driver)
        return API_LEVEL_DRIVER;
    return asked != API_MEMORY_NONE && has->library ? API_LEVEL_LIBRARY : API_LEVEL_NONE;
}

enum api_level enforcement_of_compute(const struct device_fractional *terms,
                                      const struct enforcement_means *has)
{
    int asked = compute_asked(terms);
    if (asked == API_COMPUTE_MPS && has->mps)
        return API_LEVEL_MPS;
    return asked != API_COMPUTE_NONE && asked != API_COMPUTE_MPS && has->library ? API_LEVEL_LIBRARY
                                                                                 : API_LEVEL_NONE;
}

bool enforcement_asks_for_mps(const struct device_fractional *terms)
{
    return compute_asked(terms) == API_COMPUTE_MPS;
}
