/* SPDX-License-Identifier: Apache-2.0 */
#include "reconcilers/records/node_taint.h"

#include <string.h>

#include "base/jx.h"

#define EFFECT "NoSchedule"

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
