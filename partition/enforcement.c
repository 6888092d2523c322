/* SPDX-License-Identifier: Apache-2.0 */
#include "partition/enforcement.h"

#include <stddef.h>

const struct enforcement_means enforcement_anywhere = {.library = true};

static int memory_asked(const struct device_fractional *terms)
{
    return terms->enforcement.has_memory ? terms->enforcement.memory : API_MEMORY_AUTO;
}

static const char *memory_missing(const struct device_fractional *terms,
                                  const struct enforcement_means *has)
{
    int asked = memory_asked(terms);
    if (asked == API_MEMORY_DRIVER)
        return "limits of the driver are not there yet: write library, auto or none as "
               "enforcement.memory";
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

static const char *compute_missing(const struct device_fractional *terms,
                                   const struct enforcement_means *has)
{
    int asked = compute_asked(terms);
    if (asked == API_COMPUTE_MPS)
        return "parts of MPS for shares are not there yet: write library, auto or none as "
               "enforcement.compute";
    if (asked == API_COMPUTE_LIBRARY && !has->library)
        return "the limiter is not installed on this node, so that nothing holds containers to "
               "their compute: run an agent that has it, or write auto or none as "
               "enforcement.compute";
    if (divides_compute(terms) && enforcement_of_compute(terms, has) == API_LEVEL_NONE)
        return "nothing divides a card's compute among its shares here: leave qosPolicy out, or "
               "write best-effort";
    return NULL;
}

const char *enforcement_missing(const struct device_fractional *terms,
                                const struct enforcement_means *has)
{
    const char *missing = memory_missing(terms, has);
    if (!missing)
        missing = compute_missing(terms, has);
    if (!missing && terms->has_on_exceed)
        missing = "nothing measures what shares use yet: leave onExceed out";
    return missing;
}

bool enforcement_gives_shares(const struct device_want *want, const struct enforcement_means *has)
{
    return want && want->has_sharing && want->sharing.has_fractional &&
           !enforcement_missing(&want->sharing.fractional, has);
}

enum api_level enforcement_of_memory(const struct device_fractional *terms,
                                     const struct enforcement_means *has)
{
    return memory_asked(terms) != API_MEMORY_NONE && has->library ? API_LEVEL_LIBRARY
                                                                  : API_LEVEL_NONE;
}

enum api_level enforcement_of_compute(const struct device_fractional *terms,
                                      const struct enforcement_means *has)
{
    int asked = compute_asked(terms);
    return asked != API_COMPUTE_NONE && asked != API_COMPUTE_MPS && has->library ? API_LEVEL_LIBRARY
                                                                                 : API_LEVEL_NONE;
}
