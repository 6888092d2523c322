/* SPDX-License-Identifier: Apache-2.0 */
#include "partition/share_numbers.h"

#include <assert.h>

#include "base/auto.h"
#include "base/xalloc.h"

#include "api/share_request.h"

enum { WHOLE_PERCENT = 100 };

void share_sums_add(struct share_sums *s, int64_t memory_mib, const struct device_fractional *terms)
{
    assert(memory_mib >= 0 && terms->memory_percent >= WHOLE_PERCENT);
    s->memory_mib += memory_mib * terms->memory_percent / WHOLE_PERCENT;
    s->memory_percent += terms->memory_percent;
    s->compute_percent += terms->compute_percent;
}

void share_sums_offer(const struct share_sums *s, struct device_resource **list, size_t *n)
{
    const struct {
        const char *name;
        int64_t count;
    } all[] = {
        {SHARE_COMPUTE, s->compute_percent},
        {SHARE_MEMORY, s->memory_mib},
        {SHARE_MEMORY_PERCENT, s->memory_percent},
    };
    for (size_t i = 0; i < ARRAY_LEN(all); i++)
        if (all[i].count > 0)
            *XPUSH(*list, *n) = (struct device_resource){xstrdup(all[i].name), all[i].count,
                                                         API_PUBLISHER_CONTROLLER};
}
