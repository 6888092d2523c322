/* SPDX-License-Identifier: Apache-2.0 */
#include "reconcilers/taint_policy.h"

#include <string.h>

static const struct gpuprofile_spec *profile_of(const struct node_view *v,
                                                const struct device_want *want)
{
    if (!want->has_source || want->source.kind != API_SOURCE_PROFILE)
        return NULL;
    for (size_t i = 0; i < v->profiles.count; i++) {
        const struct profile_record *p = object_payload(v->profiles.items[i]);
        if (strcmp(object_name(v->profiles.items[i]), want->source.name) == 0 && !p->spec_error)
            return &p->spec;
    }
    return NULL;
}

bool taint_policy_wants(const struct node_view *v)
{
    for (size_t i = 0; v->device && i < v->device->n_cards; i++) {
        const struct card_record *card = &v->device->cards[i];
        const struct device_want *want = device_spec_want(&v->result.spec, card->uuid);
        const struct gpuprofile_spec *p = !card->healthy && want ? profile_of(v, want) : NULL;
        if (p && p->health.taint == API_TAINT_NO_SCHEDULE)
            return true;
    }
    return false;
}
