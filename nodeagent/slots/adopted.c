/* SPDX-License-Identifier: Apache-2.0 */
#include "nodeagent/slots/adopted.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/jx.h"
#include "base/log.h"
#include "base/xalloc.h"

#include "api/allocation.h"
#include "api/mig_limits.h"
#include "interop/hami_pod.h"
#include "nodeagent/slots/pod_right.h"

enum { AGAIN_MS = 1000, MAX_SHARES = 128 /* of a pod */ };

static const struct backoff retry = {.base_ms = 200,
                                     .cap_ms = 10000,
                                     .factor = 2,
                                     .jitter_pct = 20};

static void forget_shares(struct adopted_pod *p)
{
    free(TAKE(p->shares));
    p->n_shares = 0;
}

static void pod_done(struct adopted_pod *p)
{
    forget_shares(p);
    free(p->ns);
    free(p->name);
    free(p->uid);
    free(p->trouble);
    *p = (struct adopted_pod){0};
}

/* --- Who they are --- */

static struct adopted_pod *find(struct adopted_pod *items, size_t n, const char *ns,
                                const char *name)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(items[i].ns, ns) == 0 && strcmp(items[i].name, name) == 0)
            return &items[i];
    return NULL;
}

static int by_name(const void *a, const void *b)
{
    const struct adopted_pod *x = a;
    const struct adopted_pod *y = b;
    int order = strcmp(x->ns, y->ns);
    return order ? order : strcmp(x->name, y->name);
}

static bool has_uid(const struct adopted *a, const char *uid)
{
    for (size_t i = 0; i < a->n_uids; i++)
        if (strcmp(a->uids[i], uid) == 0)
            return true;
    return false;
}

static void add_uid(struct adopted *a, const char *uid)
{
    if (!has_uid(a, uid))
        *XPUSH(a->uids, a->n_uids) = xstrdup(uid);
}

/* The pods that the kubelet's list shows with such identifiers, each as new, sorted by name. */
static struct adopted list_pods(const struct holders *h)
{
    struct adopted list = {0};
    for (size_t i = 0; i < h->n_listed; i++) {
        const struct holder *holder = &h->listed[i];
        if (!hami_is_device_id(holder->id))
            continue;
        if (!holder->ns || !holder->pod)
            add_uid(&list, holder->uid ? holder->uid : "");
        else if (!find(list.items, list.n, holder->ns, holder->pod))
            *XPUSH(list.items, list.n) = (struct adopted_pod){.ns = xstrdup(holder->ns),
                                                              .name = xstrdup(holder->pod),
                                                              .backoff = retry};
    }
    if (list.n)
        qsort(list.items, list.n, sizeof(*list.items), by_name);
    return list;
}

/* A pod that is still listed stays as it is: the two change places. */
static size_t carry_over(struct adopted *from, struct adopted *to)
{
    size_t n_kept = 0;
    for (size_t i = 0; i < to->n; i++) {
        struct adopted_pod *old = find(from->items, from->n, to->items[i].ns, to->items[i].name);
        if (!old)
            continue;
        const struct adopted_pod listed = to->items[i];
        to->items[i] = *old;
        *old = listed;
        n_kept++;
    }
    return n_kept;
}

static bool same_uids(const struct adopted *a, const struct adopted *b)
{
    bool same = a->n_uids == b->n_uids;
    for (size_t i = 0; i < a->n_uids && same; i++)
        same = has_uid(b, a->uids[i]);
    return same;
}

void adopted_follow(struct adopted *a, const struct holders *h)
{
    struct adopted now = list_pods(h);
    size_t n_kept = carry_over(a, &now);
    now.changed = a->changed || n_kept != a->n || n_kept != now.n || !same_uids(a, &now);
    if (now.n_uids && !same_uids(a, &now))
        log_info("Pods hold cards by HAMi's device plugin, and the kubelet does not name them",
                 kv_int("pods", (int64_t)now.n_uids), kv("uid", now.uids[0]));
    adopted_done(a);
    *a = now;
}

/* --- Reading them --- */

void adopted_ask(struct adopted *a, struct pod_reader *pods, const struct clock *clk)
{
    int64_t now = clock_mono_ms(clk);
    for (size_t i = 0; i < a->n; i++) {
        struct adopted_pod *p = &a->items[i];
        if (p->state != ADOPTED_NEW || p->due_mono_ms > now)
            continue;
        if (pod_reader_ask(pods, p->ns, p->name))
            p->state = ADOPTED_ASKED;
        else
            p->due_mono_ms = now + AGAIN_MS;
    }
}

static void add_share(struct adopted_pod *p, const struct allocation_share *s)
{
    struct adopted_share *to = XPUSH(p->shares, p->n_shares);
    int64_t most = MIG_MAX_MEMORY_MIB; /* what a Device may say */
    *to = (struct adopted_share){.memory_mib =
                                     (unsigned)(s->memory_mib < most ? s->memory_mib : most),
                                 .percent = (unsigned)s->compute,
                                 .ns = p->ns,
                                 .pod = p->name};
    (void)snprintf(to->card, sizeof(to->card), "%s", s->uuid);
}

/* The pod is the one that HAMi's plugin knew, and its annotation means parts of whole cards. */
static int check_pod(const json_t *pod, const char *node, struct err *e)
{
    const json_t *annotations = JX_AT(pod, "metadata", "annotations");
    const char *on = JX_STR_AT(pod, "spec", "nodeName");
    if (!on || strcmp(on, node) != 0 || !JX_STR_AT(pod, "metadata", "uid"))
        return err_set(e, ERR_CONFLICT, "the pod of this name is not on this node");
    if (json_object_get(annotations, ALLOCATION_ANNOTATION))
        return err_set(e, ERR_CONFLICT, "the pod of this name was made anew, and has annotation %s",
                       ALLOCATION_ANNOTATION);
    if (json_object_get(annotations, HAMI_MIG))
        return err_set(e, ERR_INVALID, "annotation " HAMI_MIG " says that it has MIG partitions");
    if (!JX_STR_AT(annotations, HAMI_ALLOCATED))
        return err_set(e, ERR_NOT_FOUND, "it has no annotation " HAMI_ALLOCATED);
    return 0;
}

static int take_container(struct adopted_pod *p, const struct allocation_container *c,
                          struct err *e)
{
    for (size_t i = 0; i < c->n_shares; i++) {
        if (strchr(c->shares[i].uuid, '['))
            return err_set(e, ERR_INVALID,
                           "annotation " HAMI_ALLOCATED " names a MIG partition, %s",
                           c->shares[i].uuid);
        if (p->n_shares == MAX_SHARES)
            return err_set(e, ERR_INVALID,
                           "annotation " HAMI_ALLOCATED " names more than %d shares", MAX_SHARES);
        add_share(p, &c->shares[i]);
    }
    return 0;
}

static int read_shares(struct adopted_pod *p, const json_t *pod, const char *node, struct err *e)
{
    AUTO(allocation) struct allocation a = {0};
    TRY(check_pod(pod, node, e));
    TRY(hami_allocated_parse(pod, JX_STR_AT(pod, "metadata", "annotations", HAMI_ALLOCATED), &a,
                             e));
    for (size_t c = 0; c < a.n_containers; c++)
        TRY(take_container(p, &a.containers[c], e));
    xstr_set(&p->uid, JX_STR_AT(pod, "metadata", "uid"));
    return 0;
}

static void put_off(struct adopted_pod *p, const struct err *why, const struct clock *clk,
                    struct rng *rng)
{
    auto_free char *text =
        xasprintf("it has cards from HAMi's device plugin, and it is not known which: %s. Until "
                  "that is known, or the pod has ended, nothing new is placed on the node",
                  why->kind == ERR_FORBIDDEN ? pod_right_missing : err_msg(why));
    forget_shares(p);
    p->state = ADOPTED_NEW;
    p->due_mono_ms = clock_mono_ms(clk) + backoff_next_ms(&p->backoff, clk, rng);
    if (p->trouble && strcmp(p->trouble, text) == 0)
        return;
    log_warn("Could not adopt a pod of HAMi's", kv("namespace", p->ns), kv("pod", p->name),
             kv_err(why));
    xstr_set(&p->trouble, text);
    p->news = true;
}

void adopted_take(struct adopted *a, const struct pod_answer *answer, const char *node,
                  const struct clock *clk, struct rng *rng)
{
    auto_err struct err e = {0};
    struct adopted_pod *p = find(a->items, a->n, answer->ns, answer->name);
    if (!p || p->state != ADOPTED_ASKED)
        return;
    if (!answer->pod || read_shares(p, answer->pod, node, &e) < 0) {
        put_off(p, answer->pod ? &e : &answer->err, clk, rng);
        return;
    }
    log_info("Adopted a pod of HAMi's", kv("namespace", p->ns), kv("pod", p->name),
             kv_int("shares", (int64_t)p->n_shares));
    p->state = ADOPTED_KNOWN;
    free(TAKE(p->trouble));
    p->news = false;
    a->changed = true;
}

/* --- What stands --- */

static bool is_known(const struct adopted *a, const char *uid)
{
    for (size_t i = 0; i < a->n; i++)
        if (a->items[i].state == ADOPTED_KNOWN && strcmp(a->items[i].uid, uid) == 0)
            return true;
    return false;
}

bool adopted_shares(struct adopted *a, struct shares *ret)
{
    struct adopted_share *list = NULL;
    size_t n = 0;
    bool is_adopting = false;
    if (!a->changed)
        return false;
    for (size_t i = 0; i < a->n; i++) {
        is_adopting |= a->items[i].state != ADOPTED_KNOWN;
        for (size_t k = 0; k < a->items[i].n_shares; k++)
            *XPUSH(list, n) = a->items[i].shares[k];
    }
    for (size_t i = 0; i < a->n_uids; i++)
        is_adopting |= !is_known(a, a->uids[i]);
    shares_adopt(ret, list, n, is_adopting);
    free(list);
    a->changed = false;
    return true;
}

int64_t adopted_due_mono_ms(const struct adopted *a)
{
    int64_t due = INT64_MAX;
    for (size_t i = 0; i < a->n; i++)
        if (a->items[i].state == ADOPTED_NEW && a->items[i].due_mono_ms < due)
            due = a->items[i].due_mono_ms;
    return due;
}

const struct adopted_pod *adopted_news(struct adopted *a)
{
    for (size_t i = 0; i < a->n; i++)
        if (a->items[i].news) {
            a->items[i].news = false;
            return &a->items[i];
        }
    return NULL;
}

void adopted_done(struct adopted *a)
{
    for (size_t i = 0; i < a->n; i++)
        pod_done(&a->items[i]);
    for (size_t i = 0; i < a->n_uids; i++)
        free(a->uids[i]);
    free(a->uids);
    free(a->items);
    *a = (struct adopted){0};
}
