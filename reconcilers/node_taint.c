/* SPDX-License-Identifier: Apache-2.0 */
#include "reconcilers/node_taint.h"

#include <string.h>

#include "base/jx.h"

#include "reconcilers/node_view.h"

#define EFFECT "NoSchedule"

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

bool node_taint_wanted(const struct node_view *v)
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

/* Key and effect together identify a taint (kubernetes pkg/util/taints, MatchTaint). */
static bool is_our_taint(const json_t *taint)
{
    const char *key = JX_STR_AT(taint, "key");
    const char *effect = JX_STR_AT(taint, "effect");
    return key && effect && strcmp(key, NODE_TAINT_KEY) == 0 && strcmp(effect, EFFECT) == 0;
}

bool node_taint_stands(const json_t *node)
{
    size_t i;
    json_t *taint;
    json_array_foreach((json_t *)(uintptr_t)JX_AT(node, "spec", "taints"), i, taint)
        if (is_our_taint(taint))
            return true;
    return false;
}

json_t *node_taint_patch(const json_t *node, bool wanted)
{
    size_t i;
    json_t *taint;
    if (node_taint_stands(node) == wanted)
        return NULL;
    auto_json json_t *taints = json_array();
    json_array_foreach((json_t *)(uintptr_t)JX_AT(node, "spec", "taints"), i, taint)
        if (!is_our_taint(taint))
            (void)json_array_append(taints, taint);
    if (wanted)
        (void)json_array_append_new(taints, json_pack("{s:s, s:s, s:s}", "key", NODE_TAINT_KEY,
                                                      "value", "true", "effect", EFFECT));
    return json_pack("{s:{s:s, s:s}, s:{s:O?}}", "metadata", "uid",
                     JX_STR_AT(node, "metadata", "uid"), "resourceVersion",
                     JX_STR_AT(node, "metadata", "resourceVersion"), "spec", "taints",
                     json_array_size(taints) ? taints : NULL);
}
