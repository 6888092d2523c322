/* SPDX-License-Identifier: Apache-2.0 */
#include "nodeagent/commands/readiness_text.h"

#include "nodeagent/report/node_readiness.h"
#include "service/conditions.h"

void readiness_text_add(struct sb *out, const struct conditions *c)
{
    static const char *const statuses[] =
        {[CONDITION_FALSE] = "False", [CONDITION_TRUE] = "True", [CONDITION_UNKNOWN] = "Unknown"};
    for (size_t i = 0; node_readiness_types[i]; i++) {
        const struct condition *one = condition_get(c, node_readiness_types[i]);
        if (one)
            sb_addf(out, "%-21s  %-7s  %s\n    %s\n", one->type, statuses[one->status], one->reason,
                    one->message);
    }
}
