/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler/preempt.h"

#include <string.h>

#include "base/jx.h"
#include "base/xalloc.h"

#include "scheduler/choice.h"
#include "scheduler/extender_words.h"

/* --- One node --- */

static bool fits(struct view *v, const struct pod_ask *a, const struct preempt_node *n)
{
    auto_err struct err e = {0};
    const struct fraction_node *cards = view_node_without(v, n->node, n->uids, n->n);
    if (!cards) /* counted by kube-scheduler alone */
        return choice_check_unshared(v, a, n->node, &e) == 0;
    return choice_check(v, cards, a, &e) == 0;
}

static bool is_victim(const struct preempt_node *n, const char *uid)
{
    for (size_t i = 0; i < n->n; i++)
        if (strcmp(n->uids[i], uid) == 0)
            return true;
    return false;
}

/* Adds pods, the lowest priority first, until the pod fits. */
static bool add_victims(struct view *v, const struct pod_ask *a, int64_t priority, int64_t began_ms,
                        struct preempt_node *n)
{
    auto_free struct view_pod *pods = NULL;
    size_t n_pods = view_pods_below(v, n->node, priority, &pods);
    for (size_t i = 0; i < n_pods && choice_has_time(began_ms); i++) {
        if (is_victim(n, pods[i].uid))
            continue;
        *XPUSH(n->uids, n->n) = pods[i].uid;
        if (fits(v, a, n))
            return true;
    }
    return false;
}

/* Added victims that are not needed are spared, the highest priority first, which was added last. */
static void spare(struct view *v, const struct pod_ask *a, int64_t began_ms, size_t given,
                  struct preempt_node *n)
{
    for (size_t i = n->n; i > given && choice_has_time(began_ms); i--) {
        const char *uid = n->uids[i - 1];
        memmove(&n->uids[i - 1], &n->uids[i], (n->n - i) * sizeof(*n->uids));
        n->n--;
        if (fits(v, a, n))
            continue;
        memmove(&n->uids[i], &n->uids[i - 1], (n->n - (i - 1)) * sizeof(*n->uids));
        n->uids[i - 1] = uid;
        n->n++;
    }
}

/* kube-scheduler takes the first victim for the one of the highest priority. */
static void put_highest_first(struct preempt_node *n)
{
    for (size_t i = 0; i < n->n / 2; i++) {
        const char *held = n->uids[i];
        n->uids[i] = n->uids[n->n - 1 - i];
        n->uids[n->n - 1 - i] = held;
    }
}

void preempt_complete(struct view *v, const struct pod_ask *a, int64_t priority, int64_t began_ms,
                      struct preempt_node *n)
{
    size_t given = n->n;
    if (fits(v, a, n))
        return;
    n->hopeless = !add_victims(v, a, priority, began_ms, n);
    if (n->hopeless)
        return;
    spare(v, a, began_ms, given, n);
    put_highest_first(n);
}

/* --- The question --- */

static json_t *meta_victims(const struct preempt_node *n, const json_t *before)
{
    json_t *victims = json_object();
    json_t *pods = json_array();
    json_t *violations = json_object_get(before, "NumPDBViolations");
    for (size_t i = 0; i < n->n; i++)
        (void)json_array_append_new(pods, json_pack("{s:s}", "UID", n->uids[i]));
    (void)json_object_set_new(victims, "Pods", pods);
    (void)json_object_set_new(victims, "NumPDBViolations",
                              violations ? json_incref(violations) : json_integer(0));
    return victims;
}

static void answer_node(struct view *v, const struct pod_ask *a, const char *node,
                        const json_t *before, int64_t began_ms, json_t *answer)
{
    int64_t priority = json_integer_value(JX_AT(a->pod, "spec", "priority"));
    struct preempt_node n = {.node = node};
    const json_t *pods = json_object_get(before, "Pods");
    for (size_t i = 0; i < json_array_size(pods); i++) {
        const char *uid = JX_STR_AT(json_array_get(pods, i), "UID");
        if (uid)
            *XPUSH(n.uids, n.n) = uid;
    }
    preempt_complete(v, a, priority, began_ms, &n);
    if (!n.hopeless)
        (void)json_object_set_new(answer, node, meta_victims(&n, before));
    free(n.uids);
}

/* Somebody has ended, or was evicted for the pod, and the agent releases the share in a moment: nobody
 * else is to go. */
static bool is_room_coming(struct view *v, const struct pod_ask *a, int64_t began_ms)
{
    size_t pos = 0;
    const char *node;
    while (choice_has_time(began_ms) && (node = view_next_releasing(v, &pos))) {
        auto_err struct err e = {0};
        if (choice_check(v, view_node_without(v, node, /* uids= */ NULL, 0), a, &e) == 0)
            return true;
    }
    return false;
}

static json_t *answer_nodes(struct view *v, const struct pod_ask *a, json_t *nodes)
{
    int64_t began_ms = clock_mono_ms(clock_real());
    const char *node;
    json_t *before;
    json_t *answer = json_object();
    view_begin(v, a->uid);
    if (!is_room_coming(v, a, began_ms))
        json_object_foreach(nodes, node, before)
            if (choice_has_time(began_ms))
                answer_node(v, a, node, before, began_ms, answer);
    view_end(v);
    return answer;
}

int preempt_answer(struct view *v, const char *body, size_t len, json_t **ret, struct err *e)
{
    auto_json json_t *args = NULL;
    auto_pod_ask struct pod_ask ask = {0};
    TRY(extender_load(body, len, &args, e));
    json_t *pod = extender_member(args, "Pod");
    json_t *nodes = extender_member(args, "NodeNameToMetaVictims");
    if (!json_is_object(pod))
        return err_set(e, ERR_PROTOCOL, "the request has no Pod");
    if (!json_is_object(nodes))
        return err_set(
            e, ERR_INVALID,
            "the request has no NodeNameToMetaVictims: set nodeCacheCapable: true for this "
            "extender");
    TRY(pod_ask_of(pod, &ask, e));
    *ret = json_pack("{s:o}", "NodeNameToMetaVictims", answer_nodes(v, &ask, nodes));
    return 0;
}
