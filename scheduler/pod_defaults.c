/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler/pod_defaults.h"

#include <stdbool.h>
#include <string.h>

#include "base/jx.h"
#include "base/quantity.h"
#include "base/xalloc.h"

#include "api/share_request.h"
#include "interop/gpushare.h"
#include "interop/koordinator_pod.h"

#define IGNORE_LABEL "hami.io/webhook"
/* SHARE_COUNT, SHARE_MEMORY and SHARE_SLOT in a JSON pointer. */
#define SHARE_COUNT_POINTER  "nvidia.com~1gpu"
#define SHARE_MEMORY_POINTER "nvidia.com~1gpumem"
#define SHARE_SLOT_POINTER   "gpu.cleave.dev~1share"

static const char *const lists[] = {"containers", "initContainers"};
static const char *const kinds[] = {"limits", "requests"};

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

static bool asks_for_shares(const json_t *pod, bool gpushare)
{
    for (size_t l = 0; l < ARRAY_LEN(lists); l++) {
        const json_t *list = JX_AT(pod, "spec", lists[l]);
        for (size_t i = 0; i < json_array_size(list); i++)
            if (names_a_size(json_array_get(list, i)) || gib_of(json_array_get(list, i), gpushare))
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

/* Adds what a container does not say to its limits or requests, which stand at `path`. */
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
    if (asks_for_shares(pod, words.gpushare))
        add_scheduler(pod, patch);
    for (size_t l = 0; l < ARRAY_LEN(lists); l++)
        add_to_list(pod, lists[l], words, patch);
    if (json_array_size(patch))
        *ret_patch = TAKE(patch);
    return 0;
}
