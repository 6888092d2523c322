/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler/pod_ask.h"

#include <string.h>

#include "base/jx.h"
#include "base/xalloc.h"

#include "api/allocation.h"
#include "api/share_request.h"
#include "interop/gpushare.h"

enum fraction_phase pod_phase_of(const json_t *container, bool is_init)
{
    const char *restart = JX_STR_AT(container, "restartPolicy");
    if (!is_init)
        return FRACTION_APP;
    return restart && strcmp(restart, "Always") == 0 ? FRACTION_SIDECAR : FRACTION_INIT;
}

static int add_container(const json_t *container, bool is_init, struct pod_ask *a, struct err *e)
{
    const char *name = JX_STR_AT(container, "name");
    struct share_request r;
    if (a->n == FRACTION_MAX_CONTAINERS)
        return err_set(e, ERR_TOO_LARGE, "the pod has more than %d containers",
                       FRACTION_MAX_CONTAINERS);
    if (share_request_of(container, &r, /* warnings= */ NULL, e) < 0)
        return err_wrap(e, "container %s", name ? name : "");
    if (r.count > FRACTION_MAX_CARDS)
        return err_set(e, ERR_INVALID,
                       "container %s asks for %u cards, and no node has more than %d",
                       name ? name : "", r.count, FRACTION_MAX_CARDS);
    enum fraction_phase phase = pod_phase_of(container, is_init);
    struct fraction_ask *ask = &a->asks[a->n++];
    *ask = (struct fraction_ask){.container = name,
                                 .phase = phase,
                                 .count = r.count,
                                 .memory_mib = r.memory_mib,
                                 .memory_percent = r.memory_percent,
                                 .percent = r.compute};
    a->whole &= !r.count || fraction_is_whole(ask);
    if (phase == FRACTION_INIT)
        return 0;
    a->n_shares += r.count;
    if (r.priority > 0)
        a->priority = r.priority;
    return 0;
}

static int add_containers(const json_t *pod, struct pod_ask *a, struct err *e)
{
    static const char *const lists[] = {"initContainers", "containers"};
    for (size_t l = 0; l < ARRAY_LEN(lists); l++) {
        const json_t *list = JX_AT(pod, "spec", lists[l]);
        for (size_t i = 0; i < json_array_size(list); i++)
            TRY(add_container(json_array_get(list, i), l == 0, a, e));
    }
    return 0;
}

/* --- Init containers --- */

/* The amount that a share of `has` surely lacks for one of `needs`, in words with both; NULL: none.
 * Memory in MiB and in percent cannot be compared before there is a card, and compute without a
 * guarantee may be any. Caller frees. */
static char *lack_of(const struct fraction_ask *has, const struct fraction_ask *needs)
{
    if (has->memory_mib && has->memory_mib < needs->memory_mib)
        return xasprintf("%u MiB, which has %u", needs->memory_mib, has->memory_mib);
    if (!has->memory_mib && !needs->memory_mib && has->memory_percent < needs->memory_percent)
        return xasprintf("%u %% of a card's memory, which has %u", needs->memory_percent,
                         has->memory_percent);
    if (has->percent && has->percent < needs->percent)
        return xasprintf("%u %% of a card's compute, which has %u", needs->percent, has->percent);
    return NULL;
}

/* The kubelet gives the slots of an init container to those that come after it, in their order. */
static int check_init(const struct pod_ask *a, unsigned at, struct err *e)
{
    const struct fraction_ask *init = &a->asks[at];
    unsigned left = init->count;
    for (unsigned i = at + 1; left && i < a->n; i++) {
        const struct fraction_ask *after = &a->asks[i];
        if (after->phase == FRACTION_INIT || !after->count)
            continue;
        auto_free char *lack = lack_of(after, init);
        if (lack)
            return err_set(e, ERR_INVALID,
                           "init container %s uses the shares of container %s and asks for %s: ask "
                           "for no more",
                           init->container, after->container, lack);
        left -= after->count < left ? after->count : left;
    }
    return left ? err_set(e, ERR_INVALID,
                          "init container %s asks for %u shares, and the containers after it for "
                          "%u: it would wait for ever for the others; ask for no more",
                          init->container, init->count, init->count - left)
                : 0;
}

/* An init container gets no share of its own (docs/sharing.md). */
static int check_inits(const struct pod_ask *a, struct err *e)
{
    for (unsigned i = 0; i < a->n; i++)
        if (a->asks[i].phase == FRACTION_INIT)
            TRY(check_init(a, i, e));
    return 0;
}

/* --- The record --- */

/* Whatever is bound must be recorded, and the pod with its record must be one that the API server
 * takes. */
static int check_record(const struct pod_ask *a, struct err *e)
{
    size_t n_containers = 0;
    for (unsigned i = 0; i < a->n; i++)
        n_containers += a->asks[i].count > 0;
    TRY(allocation_check_size(n_containers, a->n_shares, ALLOCATION_MAX_UUID_BYTES, e));
    /* The text for HAMi's tools is no longer than the record and a byte for each container. */
    size_t hami = ALLOCATION_MAX_BYTES + a->n + sizeof(HAMI_ALLOCATED);
    size_t gpushare = a->n * GPUSHARE_ENTRY_BYTES + sizeof(GPUSHARE_ALLOCATION);
    return allocation_check_room(JX_AT(a->pod, "metadata", "annotations"), hami + gpushare, e);
}

/* Checks the bounds of a pod with shares, and of one of whole cards where cards give shares. Init
 * containers ask for nothing from here on. */
static int check_shares(struct pod_ask *a, struct err *e)
{
    int rc = check_inits(a, e);
    for (unsigned i = 0; i < a->n; i++)
        if (a->asks[i].phase == FRACTION_INIT)
            a->asks[i].count = 0;
    return rc == 0 && a->n_shares ? check_record(a, e) : rc;
}

static int check_mode(const struct pod_ask *a, struct err *e)
{
    if (a->wish.mode == HAMI_MODE_UNSET || a->wish.mode == HAMI_MODE_CORE)
        return 0;
    return err_set(e, ERR_INVALID,
                   "annotation " HAMI_MODE
                   " asks for cards that are shared in another way, and this "
                   "scheduler gives shares by limits: leave it out");
}

static int read_pod(struct pod_ask *a, struct err *e)
{
    const char *ns = JX_STR_AT(a->pod, "metadata", "namespace");
    const char *name = JX_STR_AT(a->pod, "metadata", "name");
    a->uid = JX_STR_AT(a->pod, "metadata", "uid");
    a->ns = ns ? ns : "";
    a->name = name ? name : "";
    a->whole = true;
    if (!a->uid || !*a->uid)
        return err_set(e, ERR_INVALID, "the pod has no metadata.uid");
    TRY(add_containers(a->pod, a, e));
    int rc = check_shares(a, a->whole ? &a->shared : e);
    if (rc < 0 && !a->whole)
        return rc;
    if (!a->n_shares)
        return 0;
    TRY(hami_wish_of(a->pod, &a->wish, e));
    return check_mode(a, e);
}

int pod_ask_of(json_t *pod, struct pod_ask *ret, struct err *e)
{
    *ret = (struct pod_ask){.pod = json_incref(pod)};
    int rc = read_pod(ret, e);
    if (rc < 0)
        pod_ask_done(ret);
    return rc;
}

void pod_ask_done(struct pod_ask *a)
{
    json_decref(a->pod);
    err_clear(&a->shared);
    *a = (struct pod_ask){0};
}
