/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/jx.h"
#include "base/xalloc.h"

#include "kubectl/command.h"
#include "kubectl/known_names.h"
#include "kubectl/pod_nodes.h"
#include "kubectl/safe_text.h"
#include "kubectl/share_why.h"
#include "kubectl/why.h"
#include "service/resources.h"

/* One answer for each resource that the pod asks for, or one for its shares. */
struct question {
    const struct command *c;
    json_t *pod;
    struct pod_wish wish;
    struct pod_nodes may;
    struct known_names known;
    struct why *whys;
    struct share_why shares;
    struct slot_ask slots;
    struct unread unread;
};

static void question_done(struct question *q)
{
    for (size_t i = 0; i < q->wish.n; i++)
        why_done(&q->whys[i]);
    unread_done(&q->unread);
    pod_nodes_done(&q->may);
    known_names_done(&q->known);
    free(q->whys);
    share_why_done(&q->shares);
    slot_ask_done(&q->slots);
    json_decref(q->pod);
}

AUTO_DEFINE(question, struct question, question_done)
#define auto_question AUTO(question)

/* --- Reading --- */

static int read_node(void *arg, const json_t *obj, struct err *e)
{
    (void)e;
    struct question *q = arg;
    auto_free char *refusal = pod_nodes_refusal(&q->may, obj);
    known_names_add_node(&q->known, obj);
    for (size_t i = 0; i < q->wish.n; i++)
        why_add_node(&q->whys[i], obj, refusal);
    return 0;
}

static int read_pod(void *arg, const json_t *obj, struct err *e)
{
    (void)e;
    struct question *q = arg;
    struct pod_wish wish;
    pod_wish_read(obj, &wish);
    for (size_t i = 0; i < q->wish.n; i++)
        why_add_pod(&q->whys[i], obj, &wish);
    return 0;
}

static int read_device(void *arg, const json_t *obj, struct err *e)
{
    (void)e;
    struct question *q = arg;
    auto_device_spec struct device_spec spec = {0};
    auto_device_status struct device_status st = {0};
    const char *name = JX_STR_AT(obj, "metadata", "name");
    if (device_status_decode(obj, &st, NULL) < 0)
        return 0;
    bool known = device_spec_decode(obj, &spec, NULL) == 0;
    known_names_add_device(&q->known, &st);
    for (size_t i = 0; i < q->wish.n; i++)
        why_add_device(&q->whys[i], name, &st, known ? &spec : NULL);
    return 0;
}

/* without: as in unread_note. */
static int list(struct question *q, const struct kc_resource *res, kc_item_fn *fn,
                const char *without, struct err *e)
{
    auto_err struct err why = {0};
    const struct kc_target t = {.res = res};
    const struct kc_list_opts o = {.resource_version = "0"};
    int rc = kc_list_each(q->c->kc, q->c->scope, &t, &o, fn, q, /* ret_version= */ NULL, &why);
    return unread_note(&q->unread, rc, res->plural, without, &why, e);
}

static int read_cluster(struct question *q, struct err *e)
{
    if (q->wish.shares)
        return share_why_make(q->c->kc, q->c->scope, q->pod, &q->may, &q->shares, e);
    TRY(list(q, &resource_nodes, read_node, NULL, e));
    TRY(list(q, &resource_pods, read_pod, "what other pods have is not known", e));
    return list(q, &resource_devices, read_device, "no change of layout can be named", e);
}

/* --- Telling --- */

/* The message of kube-scheduler in the pod's status; NULL: there is none. Borrowed. */
static const char *scheduler_words(const json_t *pod)
{
    size_t i;
    json_t *c;
    json_array_foreach(JX_AT(pod, "status", "conditions"), i, c) {
        const char *type = JX_STR_AT(c, "type");
        const char *status = JX_STR_AT(c, "status");
        if (type && status && strcmp(type, "PodScheduled") == 0 && strcmp(status, "False") == 0)
            return JX_STR_AT(c, "message");
    }
    return NULL;
}

/* The scheduler that the pod names, where it has said nothing of the pod; NULL: it has, or the pod
 * names none. Borrowed. */
static const char *silent_scheduler(const json_t *pod)
{
    const char *name = JX_STR_AT(pod, "spec", "schedulerName");
    bool other = name && *name && strcmp(name, "default-scheduler") != 0;
    return other && !scheduler_words(pod) ? name : NULL;
}

/* Why there is nothing to find out; NULL: there is. Caller frees. */
static char *settled(const struct question *q)
{
    const char *node = JX_STR_AT(q->pod, "spec", "nodeName");
    const json_t *gates = JX_AT(q->pod, "spec", "schedulingGates");
    if (node)
        return xasprintf("it is bound to node %s", node);
    if (json_array_size(gates)) {
        const char *gate = JX_STR_AT(json_array_get(gates, 0), "name");
        return xasprintf("kube-scheduler is not asked before its scheduling gate %s is gone",
                         gate ? gate : "");
    }
    const char *invalid = q->shares.invalid ? q->shares.invalid : q->slots.invalid;
    if (invalid)
        return xasprintf("what it asks for cannot be: %s", invalid);
    if (q->wish.n == 0 && !q->wish.shares)
        return xasprintf("it asks for no GPU, under none of the names that Cleave offers%s%s",
                         q->wish.foreign ? ", but for " : "",
                         q->wish.foreign ? q->wish.foreign : "");
    return NULL;
}

static void add_slices(const struct why *y, struct sb *b)
{
    auto_free char *words = safe_text(y->slots ? y->slots->words : NULL);
    if (y->slots)
        sb_addf(b, " (%s)", words);
}

static void add_heading(const struct question *q, const char *name, const char *why_not,
                        struct sb *b)
{
    auto_free char *pod = safe_text(name);
    auto_free char *reason = safe_text(why_not);
    auto_free char *words = safe_text(scheduler_words(q->pod));
    auto_free char *asks = safe_text(q->shares.asks);
    if (why_not) {
        sb_addf(b, "%s: %s\n", pod, reason);
        return;
    }
    sb_addf(b, "%s asks for", pod);
    if (q->wish.shares)
        sb_addf(b, " shares of cards: %s", asks);
    for (size_t i = 0; !q->wish.shares && i < q->wish.n; i++) {
        auto_free char *resource = safe_text(q->wish.resources[i].name);
        sb_addf(b, "%s %lld %s", i ? "," : "", (long long)q->wish.resources[i].count, resource);
        add_slices(&q->whys[i], b);
    }
    sb_add_char(b, '\n');
    auto_free char *silent = safe_text(silent_scheduler(q->pod));
    if (*words)
        sb_addf(b, "kube-scheduler says: %s\n", words);
    if (*silent)
        sb_addf(b,
                "Its spec.schedulerName is %s, which has said nothing of it: does that scheduler "
                "run?\n",
                silent);
}

static int tell_text(const struct question *q, const char *name, const char *why_not)
{
    auto_sb struct sb b = SB_INIT(COMMAND_MAX_BYTES);
    add_heading(q, name, why_not, &b);
    if (!why_not && q->wish.shares)
        share_why_text(&q->shares, &q->c->screen, &b);
    for (size_t i = 0; !why_not && !q->wish.shares && i < q->wish.n; i++)
        why_text(&q->whys[i], &q->c->screen, &b);
    return command_print_text(q->c, &b);
}

static int tell_json(const struct question *q, const char *name, const char *why_not)
{
    json_t *list = json_array();
    for (size_t i = 0; !why_not && !q->wish.shares && i < q->wish.n; i++)
        (void)json_array_append_new(list, why_json(&q->whys[i]));
    auto_json json_t *doc =
        json_pack("{s:s, s:s, s:s*, s:s*, s:o}", "kind", "Why", "pod", name, "settled", why_not,
                  "scheduler", scheduler_words(q->pod), "resources", list);
    if (!why_not && q->wish.shares)
        (void)json_object_set_new(doc, "shares", share_why_json(&q->shares));
    return command_print(q->c, doc);
}

static void open_whys(struct question *q)
{
    known_names_init(&q->known);
    q->whys = xcalloc(q->wish.n, sizeof(*q->whys));
    for (size_t i = 0; i < q->wish.n; i++)
        why_init(&q->whys[i], q->wish.resources[i].name, q->wish.resources[i].count, &q->slots,
                 &q->known);
}

int command_why(const struct command *c, const char *ns, const char *pod)
{
    auto_err struct err e = {0};
    auto_question struct question q = {.c = c};
    const struct kc_target t = {.res = &resource_pods, .ns = ns, .name = pod};
    if (command_is_unnamed(c, "pod", pod) || command_is_unnamed(c, "namespace", ns))
        return COMMAND_FAILED;
    int rc = kc_get(c->kc, c->scope, &t, &q.pod, &e);
    if (rc == -ERR_NOT_FOUND) {
        auto_err struct err none = {0};
        (void)err_set(&none, ERR_INVALID, "pods \"%s\" not found in namespace %s", pod, ns);
        return command_fail(c->err, /* server= */ NULL, &none);
    }
    if (rc < 0)
        return command_fail(c->err, c->server, &e);
    auto_free char *name = xasprintf("%s/%s", ns, pod);
    pod_wish_read(q.pod, &q.wish);
    pod_nodes_read(q.pod, &q.may);
    slot_ask_read(q.pod, &q.slots);
    if (q.wish.more)
        unread_add(&q.unread,
                   xasprintf("the pod asks for more than %d of the vendors' resources: the others "
                             "are passed over",
                             (int)POD_WISH_MAX));
    open_whys(&q);
    auto_free char *why_not = settled(&q);
    if (!why_not && read_cluster(&q, &e) < 0)
        return command_fail(c->err, c->server, &e);
    if (!why_not)
        why_not = settled(&q); /* with what was read */
    command_notes(c, &q.unread);
    command_notes(c, &q.shares.unread);
    return c->output == OUTPUT_TEXT ? tell_text(&q, name, why_not) : tell_json(&q, name, why_not);
}
