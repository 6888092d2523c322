/* SPDX-License-Identifier: Apache-2.0 */
#include "nodeagent/report/neighbours.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/sb.h"
#include "base/xalloc.h"

#include "interop/neighbour_pods.h"
#include "service/conditions.h"

enum { WORDS_BYTES = 8192 };

/* --- The list --- */

void neighbours_add(struct neighbours *l, const char *ns, const char *pod, const char *container)
{
    const struct neighbour *is = neighbour_of_pod(pod, container);
    assert(l->n <= NEIGHBOURS_MAX);
    for (size_t i = 0; i < l->n && is; i++)
        if (strcmp(l->items[i].pod, pod) == 0 && strcmp(l->items[i].ns, ns) == 0)
            return;
    if (is && l->n < NEIGHBOURS_MAX)
        l->items[l->n++] = (struct neighbour_pod){is, xstrdup(ns), xstrdup(pod)};
}

bool neighbours_equal(const struct neighbours *a, const struct neighbours *b)
{
    bool same = a->n == b->n;
    for (size_t i = 0; i < a->n && same; i++)
        same = a->items[i].is == b->items[i].is && strcmp(a->items[i].ns, b->items[i].ns) == 0 &&
               strcmp(a->items[i].pod, b->items[i].pod) == 0;
    return same;
}

void neighbours_done(struct neighbours *l)
{
    for (size_t i = 0; i < l->n; i++) {
        free(l->items[i].ns);
        free(l->items[i].pod);
    }
    *l = (struct neighbours){0};
}

/* --- What is said --- */

/* Another plugin is what --resources=none is for. */
static bool counts(const struct node_state *s, const struct neighbour *is)
{
    return is->does == NEIGHBOUR_CUTS || s->means.publisher != API_PUBLISHER_OTHER;
}

static void add_pod(const struct node_state *s, const struct neighbour_pod *p, struct sb *out)
{
    const char *does = p->is->does == NEIGHBOUR_CUTS
                           ? "changes cards by the same label of the node as Cleave does"
                           : "offers cards to the kubelet that the agent offers too";
    sb_addf(out, "%s%s %s (pod %s/%s): ", out->len ? "; " : "", p->is->title, does, p->ns, p->pod);
    if (p->is->switch_off)
        sb_addf(out, "kubectl label node %s --overwrite %s", s->node ? s->node : "NODE",
                p->is->switch_off);
    else
        sb_addf(out, "have its DaemonSet leave this node out (nodeSelector)%s",
                p->is->does == NEIGHBOUR_SERVES ? ", or give the agents --resources=none" : "");
}

char *neighbours_words(const struct node_state *s, const char **ret_reason)
{
    auto_sb struct sb out = SB_INIT(WORDS_BYTES);
    const char *reason = NULL;
    for (size_t i = 0; s->neighbours && i < s->neighbours->n; i++) {
        const struct neighbour_pod *p = &s->neighbours->items[i];
        if (!counts(s, p->is))
            continue;
        if (!reason)
            reason = p->is->does == NEIGHBOUR_CUTS ? "MIGManager" : "DevicePlugin";
        add_pod(s, p, &out);
    }
    if (s->contested && !reason)
        reason = "Contested";
    if (s->contested)
        sb_addf(&out,
                "%sanother program has registered %s with the kubelet, which asks that one and not "
                "the agent for it: find out who it is (kubectl get pods -A -o wide "
                "--field-selector spec.nodeName=%s)",
                out.len ? "; " : "", s->contested, s->node ? s->node : "NODE");
    *ret_reason = reason;
    return reason ? sb_take(&out) : NULL;
}

void neighbours_build(const struct node_state *s, int64_t now_ms, struct device_status *ret)
{
    const char *reason;
    auto_free char *words = neighbours_words(s, &reason);
    if (words)
        (void)condition_set(&ret->conditions, NEIGHBOURS_CONDITION, CONDITION_TRUE, reason, words,
                            s->generation, now_ms);
    else
        (void)condition_remove(&ret->conditions, NEIGHBOURS_CONDITION);
}
