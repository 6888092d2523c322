/* SPDX-License-Identifier: Apache-2.0 */
#include "interop/hami_pod.h"

#include <string.h>

#include "base/jx.h"
#include "base/num.h"
#include "base/sb.h"
#include "base/xalloc.h"

enum {
    MAX_WEIGHT = 1000,
    MAX_TEXT_BYTES = 1 << 18, /* of all annotations of an object together */
    MAX_PERCENT = 100,
};

#define DEVICE_TYPE "NVIDIA"

static const char *annotation(const json_t *pod, const char *key)
{
    return JX_STR_AT(pod, "metadata", "annotations", key);
}

/* --- Wishes --- */

/* The next piece of text up to one of the separators, copied; NULL: the text is at its end. */
static char *next_piece(const char **text, const char *separators)
{
    if (!*text)
        return NULL;
    size_t len = strcspn(*text, separators);
    char *piece = xstrndup(*text, len);
    *text = (*text)[len] ? *text + len + 1 : NULL;
    return piece;
}

/* The same without the blanks around it. */
static char *next_word(const char **text, const char *separators)
{
    static const char blanks[] = " \t\n\v\f\r";
    auto_free char *piece = next_piece(text, separators);
    if (!piece)
        return NULL;
    const char *word = piece + strspn(piece, blanks);
    size_t len = strlen(word);
    while (len && strchr(blanks, word[len - 1]))
        len--;
    return xstrndup(word, len);
}

static int index_of(const char *word, const char *const *words, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(words[i], word) == 0)
            return (int)i;
    return -1;
}

static int refuse(const char *key, const char *value, const char *allowed, struct err *e)
{
    return err_set(e, ERR_INVALID, "annotation %s: \"%.64s\" is none of %s", key, value, allowed);
}

/* One of these words; *ret stays where the pod has no such annotation. */
static int take_word(const json_t *pod, const char *key, const char *const *words, size_t n,
                     const char *allowed, int *ret, struct err *e)
{
    const char *text = annotation(pod, key);
    if (!text || !*text)
        return 0;
    int i = index_of(text, words, n);
    if (i < 0)
        return refuse(key, text, allowed, e);
    *ret = i;
    return 0;
}

/* "numa,binpack". A policy that is named twice counts once; empty items are passed over. */
static int take_policies(const json_t *pod, struct fraction_wish *ret, struct err *e)
{
    static const char allowed[] = "binpack, spread, numa, mutex, topology-aware";
    const char *text = annotation(pod, HAMI_CARD_POLICY);
    const char *rest = text;
    bool seen[FRACTION_N_POLICIES] = {false};
    if (!text || !*text)
        return 0;
    while (rest) {
        auto_free char *word = next_word(&rest, ",");
        if (!*word)
            continue;
        int i = index_of(word, fraction_policy_names, FRACTION_N_POLICIES);
        if (i < 0)
            return refuse(HAMI_CARD_POLICY, word, allowed, e);
        if (!seen[i])
            ret->policies[ret->n_policies++] = (enum fraction_policy)i;
        seen[i] = true;
    }
    return ret->n_policies ? 0 : refuse(HAMI_CARD_POLICY, text, allowed, e);
}

/* "slot=1, core=1, memory=3": all three are needed. */
static int take_weights(const json_t *pod, struct fraction_wish *ret, struct err *e)
{
    static const char *const names[] = {"slot", "core", "memory"};
    unsigned *const weights[] = {&ret->weights.shares, &ret->weights.percent, &ret->weights.memory};
    const char *text = annotation(pod, HAMI_WEIGHTS);
    const char *rest = text;
    unsigned seen = 0;
    if (!text || !*text)
        return 0;
    while (rest) {
        auto_free char *item = next_piece(&rest, ",");
        const char *item_rest = item;
        auto_free char *name = next_word(&item_rest, "=");
        auto_free char *value = next_word(&item_rest, "");
        int64_t n = 0;
        int i = value ? index_of(name, names, ARRAY_LEN(names)) : -1;
        if (i < 0 || num_parse(value, 0, MAX_WEIGHT, &n, NULL) < 0)
            return refuse(HAMI_WEIGHTS, text,
                          "the form slot=1,core=1,memory=3 with whole numbers up to 1000", e);
        if (seen >> i & 1)
            return refuse(HAMI_WEIGHTS, text,
                          "the form slot=1,core=1,memory=3, which has each once", e);
        *weights[i] = (unsigned)n;
        seen |= 1U << i;
    }
    return seen == 7 ? 0
                     : refuse(HAMI_WEIGHTS, text,
                              "the form slot=1,core=1,memory=3, which has all "
                              "three",
                              e);
}

/* A comma list; *ret stays NULL where the pod has no such annotation, or only blanks. One without
 * items would allow nothing in HAMi and everything here. */
static int take_list(const json_t *pod, const char *key, const char **ret, struct err *e)
{
    const char *text = annotation(pod, key);
    if (!text || !text[strspn(text, " \t")])
        return 0;
    if (strlen(text) > HAMI_MAX_LIST_BYTES)
        return err_set(e, ERR_INVALID, "annotation %s has %zu bytes; at most %d are allowed", key,
                       strlen(text), HAMI_MAX_LIST_BYTES);
    if (!text[strspn(text, " \t,")])
        return refuse(key, text, "the form one,two", e);
    *ret = text;
    return 0;
}

static int take_lists(const json_t *pod, struct fraction_wish *ret, struct err *e)
{
    TRY(take_list(pod, HAMI_USE_MODEL, &ret->use_models, e));
    TRY(take_list(pod, HAMI_NO_MODEL, &ret->no_models, e));
    TRY(take_list(pod, HAMI_USE_UUID, &ret->use_uuids, e));
    return take_list(pod, HAMI_NO_UUID, &ret->no_uuids, e);
}

/* HAMi reads truth by Go's strconv.ParseBool. */
static const char *const truths[] = {"0", "f", "F", "FALSE", "false", "False",
                                     "1", "t", "T", "TRUE",  "true",  "True"};
enum { FIRST_TRUE = ARRAY_LEN(truths) / 2 };

static int take_numa_bind(const json_t *pod, bool *ret, struct err *e)
{
    int i = 0;
    TRY(take_word(pod, HAMI_NUMA_BIND, truths, ARRAY_LEN(truths), "true, false", &i, e));
    *ret = i >= FIRST_TRUE;
    return 0;
}

static bool is_true(const char *value)
{
    for (size_t i = FIRST_TRUE; value && i < ARRAY_LEN(truths); i++)
        if (strcmp(truths[i], value) == 0)
            return true;
    return false;
}

/* The kubelet takes the last of a name. NULL: there is none, or its value is not in the pod. */
static const char *variable(const json_t *container, const char *wanted)
{
    const json_t *env = json_object_get(container, "env");
    const char *found = NULL;
    for (size_t i = 0; i < json_array_size(env); i++) {
        const char *name = JX_STR_AT(json_array_get(env, i), "name");
        if (name && strcmp(name, wanted) == 0)
            found = JX_STR_AT(json_array_get(env, i), "value");
    }
    return found;
}

bool hami_disables_control(const json_t *container)
{
    return is_true(variable(container, "CUDA_DISABLE_CONTROL"));
}

bool hami_caps_compute(const json_t *container)
{
    const char *policy = variable(container, "GPU_CORE_UTILIZATION_POLICY");
    return policy && (strcmp(policy, "force") == 0 || strcmp(policy, "FORCE") == 0);
}

int hami_wish_of(const json_t *pod, struct hami_wish *ret, struct err *e)
{
    static const char *const node_policies[] = {"binpack", "spread"};
    static const char *const modes[] = {"hami-core", "mig", "mps"};
    struct hami_wish w = {0};
    int nodes = HAMI_NODE_UNSET;
    int mode = HAMI_MODE_UNSET;
    TRY(take_word(pod, HAMI_NODE_POLICY, node_policies, ARRAY_LEN(node_policies), "binpack, spread",
                  &nodes, e));
    TRY(take_word(pod, HAMI_MODE, modes, ARRAY_LEN(modes), "hami-core, mig, mps", &mode, e));
    TRY(take_numa_bind(pod, &w.cards.one_numa, e));
    TRY(take_lists(pod, &w.cards, e));
    TRY(take_policies(pod, &w.cards, e));
    TRY(take_weights(pod, &w.cards, e));
    w.nodes = (enum hami_node_policy)nodes;
    w.mode = (enum hami_mode)mode;
    *ret = w;
    return 0;
}

/* --- What was given --- */

/* The containers of a pod in HAMi's order. */
struct walk {
    const json_t *lists[2];
    size_t list, at;
};

static struct walk walk_of(const json_t *pod)
{
    return (struct walk){
        .lists = {JX_AT(pod, "spec", "initContainers"), JX_AT(pod, "spec", "containers")}};
}

/* The same without init containers. */
static struct walk walk_of_apps(const json_t *pod)
{
    struct walk w = walk_of(pod);
    w.list = 1;
    return w;
}

bool hami_is_device_id(const char *id)
{
    static const char pattern[] = "GPU-xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx-";
    const char *p = pattern;
    for (; *p && *id; p++, id++)
        if (*p == 'x' ? !strchr("0123456789abcdefABCDEF", *id) : *p != *id)
            return false;
    return !*p && *id && !id[strspn(id, "0123456789")];
}

/* NULL: there are no more. */
static const char *next_container(struct walk *w)
{
    for (; w->list < ARRAY_LEN(w->lists); w->list++, w->at = 0)
        if (w->at < json_array_size(w->lists[w->list])) {
            const char *name = JX_STR_AT(json_array_get(w->lists[w->list], w->at++), "name");
            return name ? name : "";
        }
    return NULL;
}

char *hami_allocated_text(const json_t *pod, const struct allocation *a)
{
    auto_sb struct sb out = SB_INIT(MAX_TEXT_BYTES);
    struct walk w = walk_of(pod);
    const char *name;
    while ((name = next_container(&w))) {
        const struct allocation_container *c = allocation_of(a, name);
        for (size_t i = 0; c && i < c->n_shares; i++)
            sb_addf(&out, "%s," DEVICE_TYPE ",%lld,%lld:", c->shares[i].uuid,
                    (long long)c->shares[i].memory_mib, (long long)c->shares[i].compute);
        sb_add_char(&out, ';');
    }
    return sb_take(&out);
}

/* "GPU-0fc3…,NVIDIA,3000,30" */
static int parse_share(const char *text, struct allocation_share *ret, struct err *e)
{
    const char *rest = text;
    auto_free char *uuid = next_piece(&rest, ",");
    auto_free char *type = next_piece(&rest, ",");
    auto_free char *memory = next_piece(&rest, ",");
    auto_free char *compute = next_piece(&rest, ",");
    if (!compute || rest || !*uuid || strcmp(type, DEVICE_TYPE) != 0 ||
        num_parse(memory, 1, INT32_MAX, &ret->memory_mib, NULL) < 0 ||
        num_parse(compute, 0, MAX_PERCENT, &ret->compute, NULL) < 0)
        return err_set(e, ERR_INVALID,
                       "annotation " HAMI_ALLOCATED ": \"%.96s\" is not uuid," DEVICE_TYPE
                       ",MiB,percent",
                       text);
    ret->uuid = TAKE(uuid);
    return 0;
}

/* Each share ends with ':'. */
static int parse_container(const char *text, struct allocation_container *ret, struct err *e)
{
    const char *rest = text;
    while (rest && *rest) {
        const char *end = strchr(rest, ':');
        if (!end)
            return err_set(e, ERR_INVALID,
                           "annotation " HAMI_ALLOCATED " is cut off after "
                           "\"%.96s\"",
                           rest);
        if (ret->n_shares == ALLOCATION_MAX_SHARES)
            return err_set(e, ERR_INVALID,
                           "annotation " HAMI_ALLOCATED " has more than %d devices of a container",
                           ALLOCATION_MAX_SHARES);
        auto_free char *share = xstrndup(rest, (size_t)(end - rest));
        struct allocation_share s = {0};
        TRY(parse_share(share, &s, e));
        *XPUSH(ret->shares, ret->n_shares) = s;
        rest = end + 1;
    }
    return 0;
}

/* Each container's entry ends with ';'. */
static size_t count_entries(const char *text)
{
    size_t n = 0;
    for (; *text; text++)
        n += *text == ';';
    return n;
}

/* Whose the entries are. */
static int walk_by_entries(const json_t *pod, const char *text, struct walk *ret, struct err *e)
{
    size_t n = count_entries(text);
    struct walk w = walk_of(pod);
    size_t inits = json_array_size(w.lists[0]);
    size_t apps = json_array_size(w.lists[1]);
    if (text[strlen(text) - 1] != ';')
        return err_set(e, ERR_INVALID, "annotation " HAMI_ALLOCATED " is cut off");
    if (n != inits + apps && n != apps)
        return err_set(e, ERR_INVALID,
                       "annotation " HAMI_ALLOCATED " has %zu entries, and the pod %zu containers",
                       n, inits + apps);
    *ret = n == inits + apps ? w : walk_of_apps(pod);
    return 0;
}

static int parse_all(const json_t *pod, const char *text, struct allocation *ret, struct err *e)
{
    const char *rest = text;
    struct walk w = walk_of(pod);
    if (*text)
        TRY(walk_by_entries(pod, text, &w, e));
    while (*rest) {
        size_t len = strcspn(rest, ";");
        const char *name = next_container(&w);
        auto_free char *devices = xstrndup(rest, len);
        rest += len + 1;
        if (!*devices)
            continue;
        struct allocation_container *c = XPUSH(ret->containers, ret->n_containers);
        c->name = xstrdup(name);
        TRY(parse_container(devices, c, e));
    }
    return ret->n_containers
               ? 0
               : err_set(e, ERR_NOT_FOUND, "annotation " HAMI_ALLOCATED " names no device");
}

int hami_allocated_parse(const json_t *pod, const char *text, struct allocation *ret, struct err *e)
{
    *ret = (struct allocation){.version = ALLOCATION_VERSION};
    TRY(parse_all(pod, text, ret, e));
    int rc = allocation_check(ret, e);
    return rc < 0 && e ? err_wrap(e, "annotation " HAMI_ALLOCATED) : rc;
}
