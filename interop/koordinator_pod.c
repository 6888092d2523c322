/* SPDX-License-Identifier: Apache-2.0 */
#include "interop/koordinator_pod.h"

#include <assert.h>
#include <stddef.h>
#include <string.h>

#include "base/auto.h"
#include "base/jx.h"

#include "api/koordinator.h"

enum {
    ALL_PERCENT = 100,
    MIB_BITS = 20,
    MAX_ANNOTATION_BYTES = 1 << 18,
};

/* --- Amounts --- */

struct words {
    bool has_gpu;
    int64_t gpu;
    struct koordinator_pod_amounts a;
};

static const struct jx_field word_fields[] =
    {JX_P(words, gpu, has_gpu, KOORDINATOR_GPU, JX_QUANTITY),
     JX_P(words, a.core, a.has_core, KOORDINATOR_CORE, JX_QUANTITY),
     JX_P(words, a.memory, a.has_memory, KOORDINATOR_MEMORY, JX_QUANTITY),
     JX_P(words, a.ratio, a.has_ratio, KOORDINATOR_RATIO, JX_QUANTITY),
     JX_F(words, a.cards, KOORDINATOR_SHARED, JX_QUANTITY),
     {0}};

int koordinator_pod_amounts(const json_t *list, struct koordinator_pod_amounts *ret, struct err *e)
{
    struct words w = {0};
    if (json_is_object(list))
        TRY(jx_decode(list, word_fields, &w, e));
    if (w.has_gpu) {
        w.a.has_core = w.a.has_ratio = true;
        w.a.core = w.a.ratio = w.gpu;
    }
    *ret = w.a;
    return 0;
}

/* An amount of 0 is none to Koordinator's scheduler (deviceshare/utils.go). */
static bool asks_for_memory(const struct koordinator_pod_amounts *a)
{
    return a->memory > 0 || a->ratio > 0;
}

/* --- What a container asks for --- */

static const json_t *list_of(const json_t *container)
{
    const json_t *limits = JX_AT(container, "resources", "limits");
    return limits ? limits : JX_AT(container, "resources", "requests");
}

static int count_of(const json_t *container, const char *resource, int64_t *ret, struct err *e)
{
    struct slots {
        int64_t n;
    } s = {0};
    const struct jx_field fields[] = {JX_F(slots, n, resource, JX_QUANTITY, .min = 0,
                                           .max = SHARE_MAX_COUNT),
                                      {0}};
    const json_t *list = list_of(container);
    if (json_is_object(list))
        TRY(jx_decode(list, fields, &s, e));
    *ret = s.n;
    return 0;
}

/* A percentage of all shares, for one of them. */
static int percent_of(const char *resource, int64_t all, int64_t shares, unsigned *ret,
                      struct err *e)
{
    assert(shares > 0);
    int64_t percent = all / shares;
    if (percent > ALL_PERCENT)
        return err_set(e, ERR_INVALID,
                       "%s is %lld, and a share has 100 of its card at most: write " SHARE_SLOT
                       ": %lld, or ask for less",
                       resource, (long long)all,
                       (long long)(all / ALL_PERCENT + (all % ALL_PERCENT > 0)));
    if (percent < 1)
        return err_set(e, ERR_INVALID, "%s is %lld; write from 1 to 100 for each share", resource,
                       (long long)all);
    *ret = (unsigned)percent;
    return 0;
}

static int memory_of(int64_t bytes, int64_t shares, unsigned *ret, struct err *e)
{
    assert(bytes > 0 && shares > 0);
    int64_t mib = bytes / shares >> MIB_BITS;
    if (mib < 1 || mib > SHARE_MAX_MIB)
        return err_set(e, ERR_INVALID,
                       KOORDINATOR_MEMORY " is %lld bytes; write from 1Mi to 16Ti for each share",
                       (long long)bytes);
    *ret = (unsigned)mib;
    return 0;
}

/* Koordinator's scheduler would not give such shares: it counts other cards for them, or none. */
static int check_words(const struct koordinator_pod_amounts *a, int64_t shares, struct err *e)
{
    if (!asks_for_memory(a))
        return err_set(e, ERR_INVALID,
                       "the container asks for " SHARE_SLOT
                       " and for no memory in Koordinator's words: write " KOORDINATOR_MEMORY
                       ", " KOORDINATOR_RATIO " or " KOORDINATOR_GPU " beside it, or " SHARE_COUNT
                       " alone for a whole card");
    if (a->cards > 0 && a->cards != shares)
        return err_set(e, ERR_INVALID,
                       SHARE_SLOT " is %lld and " KOORDINATOR_SHARED
                                  " is %lld: write the same number",
                       (long long)shares, (long long)a->cards);
    return 0;
}

int koordinator_pod_request(const json_t *container, struct share_request *ret, struct err *e)
{
    struct koordinator_pod_amounts a;
    struct share_request r = {.priority = -1};
    int64_t n = 0;
    TRY(count_of(container, SHARE_SLOT, &n, e));
    *ret = r;
    if (!n)
        return 0;
    TRY(koordinator_pod_amounts(list_of(container), &a, e));
    TRY(check_words(&a, n, e));
    r.count = (unsigned)n;
    if (a.core > 0)
        TRY(percent_of(KOORDINATOR_CORE, a.core, n, &r.compute, e));
    if (a.memory > 0)
        TRY(memory_of(a.memory, n, &r.memory_mib, e));
    else
        TRY(percent_of(KOORDINATOR_RATIO, a.ratio, n, &r.memory_percent, e));
    *ret = r;
    return 0;
}

/* --- What it means --- */

const char *const koordinator_pod_others[] = {"aliyun.com/",
                                              "amd.com/",
                                              "aws.amazon.com/",
                                              "birentech.com/",
                                              "cambricon.com/",
                                              "enflame.com/",
                                              "gpu.cleave.dev/",
                                              "huawei.com/",
                                              "hygon.com/",
                                              "iluvatar.ai/",
                                              "koordinator.sh/huawei-npu",
                                              "kunlunxin.com/",
                                              "metax-tech.com/",
                                              "mthreads.com/",
                                              "nvidia.com/",
                                              "vastaitech.com/",
                                              NULL};

static bool is_of_others(const char *resource)
{
    for (size_t i = 0; koordinator_pod_others[i]; i++)
        if (strncmp(resource, koordinator_pod_others[i], strlen(koordinator_pod_others[i])) == 0)
            return true;
    return false;
}

/* The number of cards that Koordinator's scheduler looks for (deviceshare/devicehandler_gpu.go). */
static int64_t cards_of(const struct koordinator_pod_amounts *a)
{
    if (!asks_for_memory(a))
        return 0;
    if (a->cards > 0)
        return a->cards;
    return a->ratio > ALL_PERCENT && a->ratio % ALL_PERCENT == 0 ? a->ratio / ALL_PERCENT : 1;
}

int64_t koordinator_pod_slots(const json_t *container)
{
    const char *key;
    json_t *value;
    json_t *limits = json_object_get(json_object_get(container, "resources"), "limits");
    struct koordinator_pod_amounts a;
    json_object_foreach(limits, key, value)
        if (is_of_others(key))
            return 0;
    if (koordinator_pod_amounts(limits, &a, /* e= */ NULL) < 0 || cards_of(&a) > SHARE_MAX_COUNT)
        return 0;
    return cards_of(&a);
}

/* --- Which cards --- */

static bool is_sidecar(const json_t *init_container)
{
    const char *policy = JX_STR_AT(init_container, "restartPolicy");
    return policy && strcmp(policy, "Always") == 0;
}

/* The place of a container's shares among those of the containers that run at the same time: the
 * sidecars before an init container, or all sidecars and all apps. */
struct rank {
    int64_t first, all;
    bool found;
};

static int rank_of(const json_t *pod, const char *container, const char *resource, struct rank *ret,
                   struct err *e)
{
    const json_t *lists[] = {JX_AT(pod, "spec", "initContainers"),
                             JX_AT(pod, "spec", "containers")};
    *ret = (struct rank){0};
    for (size_t i = 0; i < json_array_size(lists[0]) + json_array_size(lists[1]); i++) {
        bool init = i < json_array_size(lists[0]);
        const json_t *c = init ? json_array_get(lists[0], i)
                               : json_array_get(lists[1], i - json_array_size(lists[0]));
        const char *name = JX_STR_AT(c, "name");
        bool is_it = name && strcmp(name, container) == 0;
        bool stays = !init || is_sidecar(c);
        int64_t n = 0;
        TRY(count_of(c, resource, &n, e));
        if (is_it)
            *ret = (struct rank){ret->all, ret->all, true};
        if (is_it || stays)
            ret->all += n;
        if (is_it && !stays)
            return 0;
    }
    return 0;
}

/* Each share has a card of its own where there are as many; fewer cards are each for equally many
 * shares. */
static const json_t *card_of(const json_t *cards, const struct rank *r, size_t nth)
{
    size_t n = json_array_size(cards);
    size_t all = (size_t)r->all;
    size_t at = (size_t)r->first + nth;
    if (!n || (n < all && all % n))
        return NULL;
    return json_array_get(cards, n < all ? at / (all / n) : at);
}

/* Says why no card is for the container's nth share. */
static int refuse(const json_t *cards, const struct rank *r, const char *container, size_t nth,
                  struct err *e)
{
    if (!r->found || r->all == 0 || json_array_size(cards) == 0)
        return err_set(e, ERR_INVALID,
                       "annotation " KOORDINATOR_ALLOCATED " gives container %s no card",
                       container);
    if (card_of(cards, r, nth))
        return err_set(e, ERR_INVALID,
                       "annotation " KOORDINATOR_ALLOCATED
                       " names a card without its id: let Koordinator's scheduler write it");
    return err_set(
        e, ERR_INVALID,
        "annotation " KOORDINATOR_ALLOCATED
        " has %zu cards for %lld shares of the pod: let its containers ask for equal parts",
        json_array_size(cards), (long long)r->all);
}

int koordinator_pod_cards(const json_t *pod, const char *container, const char *resource, size_t n,
                          json_t **ret, struct err *e)
{
    const char *text = JX_STR_AT(pod, "metadata", "annotations", KOORDINATOR_ALLOCATED);
    auto_err struct err why = {0};
    auto_json json_t *doc = NULL;
    auto_json json_t *list = json_array();
    struct rank r;
    *ret = NULL;
    if (!text)
        return 0;
    TRY(rank_of(pod, container, resource, &r, e));
    if (jx_parse(text, strlen(text), MAX_ANNOTATION_BYTES, &doc, &why) < 0)
        return err_set(e, ERR_INVALID, "annotation " KOORDINATOR_ALLOCATED ": %s", err_msg(&why));
    const json_t *cards = json_object_get(doc, "gpu");
    for (size_t i = 0; i < n; i++) {
        const char *id = r.found ? JX_STR_AT(card_of(cards, &r, i), "id") : NULL;
        if (!id || !*id)
            return refuse(cards, &r, container, i, e);
        (void)json_array_append_new(list, json_string(id));
    }
    *ret = TAKE(list);
    return 0;
}
