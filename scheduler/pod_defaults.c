/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler/pod_defaults.h"

#include <stdbool.h>
#include <string.h>

#include "base/jx.h"
#include "base/quantity.h"
#include "base/sb.h"
#include "base/xalloc.h"

#include "api/share_request.h"
#include "interop/gpushare.h"
#include "interop/koordinator_pod.h"

#define IGNORE_LABEL "hami.io/webhook"
/* The same names in a JSON pointer. */
#define SHARE_COUNT_POINTER   "nvidia.com~1gpu"
#define SHARE_MEMORY_POINTER  "nvidia.com~1gpumem"
#define SHARE_PERCENT_POINTER "nvidia.com~1gpumem-percentage"
#define SHARE_SLOT_POINTER    "gpu.cleave.dev~1share"
#define SHARE_CLAMPED_POINTER "gpu.cleave.dev~1clamped"

static const char *const lists[] = {"containers", "initContainers"};
static const char *const kinds[] = {"limits", "requests"};

enum {
    ALL_PERCENT = 100,
    MAX_NOTE_BYTES = 1 << 14,
};

/* --- The shape --- */

static int check_member(const json_t *of, const char *key, bool is_list, const char *where,
                        struct err *e)
{
    const json_t *member = json_object_get(of, key);
    if (!member || json_is_null(member) ||
        (is_list ? json_is_array(member) : json_is_object(member)))
        return 0;
    return err_set(e, ERR_INVALID, "%s.%s of the pod is no %s", where, key,
                   is_list ? "list" : "object");
}

static int check_container(const json_t *container, const char *where, struct err *e)
{
    if (!json_is_object(container))
        return err_set(e, ERR_INVALID, "%s of the pod is no object", where);
    TRY(check_member(container, "resources", /* is_list= */ false, where, e));
    const json_t *resources = json_object_get(container, "resources");
    auto_free char *inner = xasprintf("%s.resources", where);
    for (size_t k = 0; k < ARRAY_LEN(kinds); k++)
        TRY(check_member(resources, kinds[k], /* is_list= */ false, inner, e));
    return 0;
}

static int check_list(const json_t *spec, const char *list, struct err *e)
{
    const json_t *containers = json_object_get(spec, list);
    TRY(check_member(spec, list, /* is_list= */ true, "spec", e));
    if (json_array_size(containers) > POD_DEFAULTS_MAX_CONTAINERS)
        return err_set(e, ERR_TOO_LARGE, "spec.%s of the pod has more than %d containers", list,
                       POD_DEFAULTS_MAX_CONTAINERS);
    for (size_t i = 0; i < json_array_size(containers); i++) {
        auto_free char *where = xasprintf("spec.%s[%zu]", list, i);
        TRY(check_container(json_array_get(containers, i), where, e));
    }
    return 0;
}

static int check_shape(const json_t *pod, struct err *e)
{
    const json_t *spec = json_object_get(pod, "spec");
    if (!json_is_object(spec))
        return err_set(e, ERR_INVALID, "the pod has no spec");
    for (size_t l = 0; l < ARRAY_LEN(lists); l++)
        TRY(check_list(spec, lists[l], e));
    return 0;
}

/* --- The rules --- */

static bool names_a_size(const json_t *container)
{
    static const char *const sizes[] = {SHARE_MEMORY, SHARE_MEMORY_PERCENT, SHARE_COMPUTE};
    const json_t *limits = JX_AT(container, "resources", "limits");
    for (size_t i = 0; i < ARRAY_LEN(sizes); i++)
        if (json_object_get(limits, sizes[i]))
            return true;
    return false;
}

/* 0: the container asks in words of ours, or not in gpushare's, or they do not count. */
static int64_t gib_of(const json_t *container, bool gpushare)
{
    const json_t *limits = JX_AT(container, "resources", "limits");
    bool ours = names_a_size(container) || json_object_get(limits, SHARE_COUNT) ||
                json_object_get(limits, SHARE_SLOT);
    return gpushare && !ours ? gpushare_gib(container) : 0;
}

/* The amount of a resource as it is written; below 0: none is, or no whole number, which is refused
 * elsewhere. */
static int64_t amount_of(const json_t *amounts, const char *key)
{
    const json_t *value = json_object_get(amounts, key);
    const char *text = json_string_value(value);
    int64_t n = json_is_integer(value) ? json_integer_value(value) : -1;
    return text && quantity_parse(text, &n, /* e= */ NULL) < 0 ? -1 : n;
}

/* Whole cards too: only cleave-scheduler knows which cards are free where others are shared. */
static bool asks_for_cards(const json_t *container, bool gpushare)
{
    return names_a_size(container) || gib_of(container, gpushare) ||
           amount_of(JX_AT(container, "resources", "limits"), SHARE_COUNT) > 0;
}

static bool has_cards_asked_for(const json_t *pod, bool gpushare)
{
    for (size_t l = 0; l < ARRAY_LEN(lists); l++) {
        const json_t *list = JX_AT(pod, "spec", lists[l]);
        for (size_t i = 0; i < json_array_size(list); i++)
            if (asks_for_cards(json_array_get(list, i), gpushare))
                return true;
    }
    return false;
}

static bool is_to_be_ignored(const json_t *pod)
{
    const char *label = JX_STR_AT(pod, "metadata", "labels", IGNORE_LABEL);
    return label && strcmp(label, "ignore") == 0;
}

static void add(json_t *patch, const char *path, const char *value)
{
    (void)json_array_append_new(patch, json_pack("{s:s,s:s,s:s}", "op", "add", "path", path,
                                                 "value", value));
}

/* The API server's default stands in a pod that names no scheduler. */
static void add_scheduler(const json_t *pod, json_t *patch)
{
    const char *scheduler = JX_STR_AT(pod, "spec", "schedulerName");
    const char *node = JX_STR_AT(pod, "spec", "nodeName");
    if ((!scheduler || strcmp(scheduler, "default-scheduler") == 0) && (!node || !*node))
        add(patch, "/spec/schedulerName", "cleave-scheduler");
}

/* --- Values that do not count as they are written --- */

/* kube-scheduler counts what is written: what counts as less is written as that. */
struct clamp {
    const char *key, *pointer;
};
static const struct clamp percents[] = {
    {SHARE_COMPUTE, "nvidia.com~1gpucores"},
    {SHARE_MEMORY_PERCENT, SHARE_PERCENT_POINTER},
};

static bool is_beside_memory(const json_t *amounts, const char *key)
{
    return strcmp(key, SHARE_MEMORY_PERCENT) == 0 && amount_of(amounts, SHARE_MEMORY) > 0 &&
           amount_of(amounts, key) > 0;
}

static bool is_too_much(const json_t *amounts, const char *key)
{
    return amount_of(amounts, key) > ALL_PERCENT && !is_beside_memory(amounts, key);
}

/* Clamps a container's limits or requests, which stand at `path`. */
static void clamp_amounts(const json_t *amounts, const char *path, json_t *patch)
{
    for (size_t i = 0; i < ARRAY_LEN(percents); i++) {
        auto_free char *pointer = xasprintf("%s/%s", path, percents[i].pointer);
        if (is_too_much(amounts, percents[i].key))
            add(patch, pointer, "100");
        if (is_beside_memory(amounts, percents[i].key))
            (void)json_array_append_new(patch,
                                        json_pack("{s:s,s:s}", "op", "remove", "path", pointer));
    }
}

static void note_container(const json_t *container, struct sb *out)
{
    const json_t *limits = JX_AT(container, "resources", "limits");
    const char *name = JX_STR_AT(container, "name");
    for (size_t i = 0; i < ARRAY_LEN(percents); i++) {
        const char *key = percents[i].key;
        bool beside = is_beside_memory(limits, key);
        if (!beside && !is_too_much(limits, key))
            continue;
        sb_addf(out, "%scontainer %s: %s ", out->len ? "; " : "", name ? name : "", key);
        if (beside)
            sb_add(out, "does not count beside " SHARE_MEMORY);
        else
            sb_addf(out, "counts as %d, not %lld", ALL_PERCENT, (long long)amount_of(limits, key));
    }
}

/* Leaves in the pod what was changed, which the policy cleave-pod-shares-warning tells its author. */
static void add_note(const json_t *pod, json_t *patch)
{
    auto_sb struct sb note = SB_INIT(MAX_NOTE_BYTES);
    const json_t *annotations = JX_AT(pod, "metadata", "annotations");
    for (size_t l = 0; l < ARRAY_LEN(lists); l++) {
        const json_t *list = JX_AT(pod, "spec", lists[l]);
        for (size_t i = 0; i < json_array_size(list); i++)
            note_container(json_array_get(list, i), &note);
    }
    if (!note.len)
        return;
    const char *text = note.overflow ? "more than can be listed here" : sb_str(&note);
    if (json_is_object(annotations))
        add(patch, "/metadata/annotations/" SHARE_CLAMPED_POINTER, text);
    else
        (void)json_array_append_new(patch, json_pack("{s:s,s:s,s:{s:s}}", "op", "add", "path",
                                                     "/metadata/annotations", "value",
                                                     SHARE_CLAMPED, text));
}

/* --- What a container does not say --- */

/* Adds it to the container's limits or requests, which stand at `path`. */
static void add_amounts(const json_t *container, const char *kind, struct pod_defaults_words words,
                        const char *path, json_t *patch)
{
    const json_t *amounts = JX_AT(container, "resources", kind);
    int64_t gib = gib_of(container, words.gpushare);
    int64_t slots = words.koordinator ? koordinator_pod_slots(container) : 0;
    auto_free char *count = xasprintf("%s/" SHARE_COUNT_POINTER, path);
    auto_free char *memory = xasprintf("%s/" SHARE_MEMORY_POINTER, path);
    auto_free char *slot = xasprintf("%s/" SHARE_SLOT_POINTER, path);
    auto_free char *mib = quantity_format(gib * GPUSHARE_MIB_OF_GIB);
    auto_free char *n = quantity_format(slots);
    if (!amounts)
        return;
    if ((gib || names_a_size(container)) && !json_object_get(amounts, SHARE_COUNT))
        add(patch, count, "1");
    if (gib)
        add(patch, memory, mib);
    if (slots)
        add(patch, slot, n);
    clamp_amounts(amounts, path, patch);
}

static void add_to_list(const json_t *pod, const char *list, struct pod_defaults_words words,
                        json_t *patch)
{
    const json_t *containers = JX_AT(pod, "spec", list);
    for (size_t k = 0; k < ARRAY_LEN(kinds); k++)
        for (size_t i = 0; i < json_array_size(containers); i++) {
            auto_free char *path = xasprintf("/spec/%s/%zu/resources/%s", list, i, kinds[k]);
            add_amounts(json_array_get(containers, i), kinds[k], words, path, patch);
        }
}

int pod_defaults_patch(const json_t *pod, struct pod_defaults_words words, json_t **ret_patch,
                       struct err *e)
{
    TRY(check_shape(pod, e));
    auto_json json_t *patch = json_array();
    *ret_patch = NULL;
    if (is_to_be_ignored(pod))
        return 0;
    if (has_cards_asked_for(pod, words.gpushare))
        add_scheduler(pod, patch);
    for (size_t l = 0; l < ARRAY_LEN(lists); l++)
        add_to_list(pod, lists[l], words, patch);
    add_note(pod, patch);
    if (json_array_size(patch))
        *ret_patch = TAKE(patch);
    return 0;
}
