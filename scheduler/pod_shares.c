/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler/pod_shares.h"

#include <string.h>

#include "base/jx.h"
#include "base/log.h"
#include "base/xalloc.h"

#include "kubeclient/client.h"
#include "scheduler/pod_ask.h"

static const struct kc_resource pod_resource = {"", "v1", "pods", "Pod", /* namespaced= */ true};

/* --- What the containers take together --- */

struct sums {
    struct pod_shares *shares;
    struct fraction_size *standing; /* by card: what runs to the pod's end */
    size_t n_standing;
    unsigned container; /* the place of the one that is being added */
};

static size_t card_of(struct sums *s, const char *uuid)
{
    for (size_t i = 0; i < s->shares->n; i++)
        if (strcmp(s->shares->items[i].uuid, uuid) == 0)
            return i;
    XPUSH(s->shares->items, s->shares->n)->uuid = xstrdup(uuid);
    (void)XPUSH(s->standing, s->n_standing);
    return s->shares->n - 1;
}

static unsigned more(unsigned a, unsigned b)
{
    return a > b ? a : b;
}

static void add_share(struct sums *s, const struct allocation_share *share,
                      enum fraction_phase phase)
{
    size_t i = card_of(s, share->uuid);
    struct fraction_size *most = &s->shares->items[i].size;
    const struct fraction_size size = {(unsigned)(share->memory_mib < INT32_MAX ? share->memory_mib
                                                                                : INT32_MAX),
                                       (unsigned)share->compute, 1};
    struct fraction_size now = fraction_add(s->standing[i], size);
    *XPUSH(s->shares->parts, s->shares->n_parts) =
        (struct pod_part){(unsigned)i, s->container, size.memory_mib, size.percent};
    if (phase != FRACTION_INIT)
        s->standing[i] = now;
    *most =
        (struct fraction_size){more(most->memory_mib, now.memory_mib),
                               more(most->percent, now.percent), more(most->shares, now.shares)};
}

static void add_container(struct sums *s, const json_t *container, bool is_init,
                          const struct allocation *a)
{
    const char *name = JX_STR_AT(container, "name");
    const struct allocation_container *given = name ? allocation_of(a, name) : NULL;
    for (size_t i = 0; given && i < given->n_shares; i++)
        add_share(s, &given->shares[i], pod_phase_of(container, is_init));
    s->container++;
}

void pod_shares_add(struct pod_shares *shares, const json_t *pod, const struct allocation *a)
{
    static const char *const lists[] = {"initContainers", "containers"};
    struct sums s = {.shares = shares};
    const char *ns = JX_STR_AT(pod, "metadata", "namespace");
    xstr_set(&shares->ns, ns ? ns : "");
    shares->priority = json_integer_value(JX_AT(pod, "spec", "priority"));
    for (size_t l = 0; l < ARRAY_LEN(lists); l++) {
        const json_t *list = JX_AT(pod, "spec", lists[l]);
        for (size_t i = 0; i < json_array_size(list); i++)
            add_container(&s, json_array_get(list, i), l == 0, a);
    }
    free(s.standing);
}

/* --- The record --- */

void pod_shares_done(struct pod_shares *s)
{
    for (size_t i = 0; i < s->n; i++)
        free(s->items[i].uuid);
    free(s->items);
    free(s->parts);
    free(s->node);
    free(s->ns);
    *s = (struct pod_shares){0};
}

static void free_shares(void *payload)
{
    struct pod_shares *s = payload;
    if (s)
        pod_shares_done(s);
    free(s);
}

static bool has_ended(const json_t *pod)
{
    const char *phase = JX_STR_AT(pod, "status", "phase");
    return phase && (strcmp(phase, "Succeeded") == 0 || strcmp(phase, "Failed") == 0);
}

static void complain(const json_t *pod, const struct err *e)
{
    log_warn("A pod's record cannot be read",
             kv("namespace", JX_STR_AT(pod, "metadata", "namespace")),
             kv("pod", JX_STR_AT(pod, "metadata", "name")), kv_err(e));
}

/* A record that cannot be read gives nothing: the agent refuses it, and makes no share. */
static int read_pod(const json_t *pod, void **ret, struct err *e)
{
    const char *node = JX_STR_AT(pod, "spec", "nodeName");
    const char *text = JX_STR_AT(pod, "metadata", "annotations", ALLOCATION_ANNOTATION);
    auto_err struct err why = {0};
    AUTO(allocation) struct allocation a = {0};
    (void)e;
    if (!node || !*node || !text || has_ended(pod))
        return 0;
    if (allocation_parse(text, &a, &why) < 0) {
        complain(pod, &why);
        return 0;
    }
    struct pod_shares *s = xmalloc(sizeof(*s));
    *s = (struct pod_shares){.node = xstrdup(node)};
    pod_shares_add(s, pod, &a);
    *ret = s;
    return 0;
}

const struct object_type pod_shares_type = {&pod_resource, read_pod, free_shares};

const struct pod_shares *pod_shares_of(const struct object *pod)
{
    return pod ? object_payload(pod) : NULL;
}
