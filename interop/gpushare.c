/* SPDX-License-Identifier: Apache-2.0 */
#include "interop/gpushare.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/auto.h"
#include "base/jx.h"
#include "base/quantity.h"
#include "base/xalloc.h"

enum { WHOLE_PERCENT = 100, NUMBER_BYTES = 24 };

bool gpushare_is_resource(const char *name)
{
    return strcmp(name, GPUSHARE_MEMORY) == 0 || strcmp(name, GPUSHARE_COUNT) == 0;
}

void gpushare_sums_add(struct gpushare_sums *s, int64_t memory_mib,
                       const struct device_fractional *terms)
{
    /* Rounded down for each card: a pod's GiB are those of one. */
    s->gib += memory_mib * terms->memory_percent / WHOLE_PERCENT / GPUSHARE_MIB_OF_GIB;
    s->cards++;
}

/* XPUSH writes the count. NOLINTNEXTLINE(readability-non-const-parameter) */
void gpushare_sums_offer(const struct gpushare_sums *s, struct device_resource **list, size_t *n)
{
    const struct {
        const char *name;
        int64_t count;
    } all[] = {{GPUSHARE_COUNT, s->cards}, {GPUSHARE_MEMORY, s->gib}};
    for (size_t i = 0; s->cards && i < ARRAY_LEN(all); i++)
        *XPUSH(*list, *n) =
            (struct device_resource){xstrdup(all[i].name), all[i].count, API_PUBLISHER_CONTROLLER};
}

int64_t gpushare_gib(const json_t *container)
{
    const json_t *value = JX_AT(container, "resources", "limits", GPUSHARE_MEMORY);
    const char *text = json_string_value(value);
    int64_t gib = json_is_integer(value) ? json_integer_value(value) : 0;
    if (text && quantity_parse(text, &gib, /* e= */ NULL) < 0)
        return 0;
    return gib < 0 || gib >= GPUSHARE_MAX_GIB ? 0 : gib;
}

char *gpushare_allocation_text(const json_t *pod, const struct allocation *a,
                               gpushare_card_fn *card, void *arg)
{
    const json_t *containers = JX_AT(pod, "spec", "containers");
    auto_json json_t *all = json_object();
    for (size_t i = 0; i < json_array_size(containers); i++) {
        const json_t *container = json_array_get(containers, i);
        const char *name = JX_STR_AT(container, "name");
        int64_t gib = gpushare_gib(container);
        const struct allocation_container *c = gib && name ? allocation_of(a, name) : NULL;
        int64_t index = c && c->n_shares ? card(arg, c->shares[0].uuid) : -1;
        char position[NUMBER_BYTES];
        char number[NUMBER_BYTES];
        if (index < 0)
            continue;
        (void)snprintf(position, sizeof(position), "%zu", i);
        (void)snprintf(number, sizeof(number), "%" PRId64, index);
        (void)json_object_set_new(all, position, json_pack("{s:I}", number, (json_int_t)gib));
    }
    return json_object_size(all) ? json_dumps(all, JSON_COMPACT) : NULL;
}
