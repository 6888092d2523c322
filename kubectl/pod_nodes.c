/* SPDX-License-Identifier: Apache-2.0 */
#include "kubectl/pod_nodes.h"

#include "base/jx.h"
#include "base/xalloc.h"

#include "kubectl/text.h"
#include "reconcilers/records/node_record.h"

/* --- Tolerations --- */

/* A toleration tolerates a taint that is equal to it in all of these, but for those that it leaves
 * open (kubernetes pkg/apis/core Toleration.ToleratesTaint). */
struct toleration {
    const char *key, *effect; /* NULL, or empty: all */
    const char *value;
    bool any_value;
};

static int order(const void *a, const void *b)
{
    const struct toleration *x = a;
    const struct toleration *y = b;
    int order = text_order(x->key, y->key);
    order = order ? order : text_order(x->effect, y->effect);
    order = order ? order : (int)x->any_value - (int)y->any_value;
    return order ? order : text_order(x->value, y->value);
}

/* A toleration that names no key tolerates every taint with Exists, and else none. */
static void add_toleration(struct pod_nodes *p, const json_t *from)
{
    const char *op = JX_STR_AT(from, "operator");
    const char *key = JX_STR_AT(from, "key");
    bool exists = text_equal(op, "Exists");
    if (!exists && (!key || !*key || (!text_equal(op, NULL) && !text_equal(op, "Equal"))))
        return;
    *XPUSH(p->tolerations, p->n) =
        (struct toleration){.key = key,
                            .effect = JX_STR_AT(from, "effect"),
                            .value = exists ? NULL : JX_STR_AT(from, "value"),
                            .any_value = exists};
}

void pod_nodes_read(const json_t *pod, struct pod_nodes *ret)
{
    size_t i;
    json_t *one;
    *ret = (struct pod_nodes){.selector = JX_AT(pod, "spec", "nodeSelector")};
    json_array_foreach(JX_AT(pod, "spec", "tolerations"), i, one)
        add_toleration(ret, one);
    if (ret->n)
        qsort(ret->tolerations, ret->n, sizeof(*ret->tolerations), order);
}

void pod_nodes_done(struct pod_nodes *p)
{
    free(p->tolerations);
    *p = (struct pod_nodes){0};
}

static bool is_tolerated(const struct pod_nodes *p, const json_t *taint)
{
    const char *key = JX_STR_AT(taint, "key");
    const char *effect = JX_STR_AT(taint, "effect");
    if (text_equal(effect, "PreferNoSchedule"))
        return true;
    for (unsigned open = 0; p->n && open < 8; open++) {
        bool any_value = open & 1;
        const struct toleration like = {.key = open & 2 ? NULL : key,
                                        .effect = open & 4 ? NULL : effect,
                                        .value = any_value ? NULL : JX_STR_AT(taint, "value"),
                                        .any_value = any_value};
        if (bsearch(&like, p->tolerations, p->n, sizeof(like), order))
            return true;
    }
    return false;
}

/* --- The reasons --- */

static char *taint_refusal(const struct pod_nodes *p, const json_t *node)
{
    size_t i;
    json_t *taint;
    json_array_foreach(JX_AT(node, "spec", "taints"), i, taint) {
        const char *value = JX_STR_AT(taint, "value");
        if (!is_tolerated(p, taint))
            return xasprintf("the pod does not tolerate the taint %s%s%s:%s",
                             JX_STR_AT(taint, "key") ? JX_STR_AT(taint, "key") : "",
                             value && *value ? "=" : "", value ? value : "",
                             JX_STR_AT(taint, "effect") ? JX_STR_AT(taint, "effect") : "");
    }
    return NULL;
}

static char *selector_refusal(const struct pod_nodes *p, const json_t *node)
{
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)p->selector, key, value) {
        const char *label = JX_STR_AT(node, "metadata", "labels", key);
        if (!label || !text_equal(label, json_string_value(value)))
            return xasprintf("the pod's nodeSelector asks for %s=%s", key,
                             json_string_value(value) ? json_string_value(value) : "");
    }
    return NULL;
}

char *pod_nodes_refusal(const struct pod_nodes *p, const json_t *node)
{
    if (!records_node_is_ready(node))
        return xstrdup("the node is not Ready");
    if (json_is_true(JX_AT(node, "spec", "unschedulable")))
        return xstrdup("the node is cordoned");
    char *taint = taint_refusal(p, node);
    return taint ? taint : selector_refusal(p, node);
}
