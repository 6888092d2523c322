/* SPDX-License-Identifier: Apache-2.0 */
#include "kubectl/cluster_plan.h"

#include <string.h>

#include "base/jx.h"
#include "base/rfc3339.h"
#include "base/xalloc.h"

#include "reconcilers/device_spec.h"
#include "reconcilers/standing.h"

/* The nodes that a queue's profile selects: their verdict on it, and how long their last changes
 * took. */
struct selected {
    struct profile_judge judge;
    struct plan_pace pace;
};

struct walk {
    struct cluster_objects *all;
    struct store *nodes_before; /* the cluster's Nodes of which the file has another */
    const struct plan_file *file;
    struct cluster_plan *ret;
    struct selected *selected; /* one for each queue */
};

/* --- Queues --- */

static void add_queue(const char *profile, struct cluster_plan *ret)
{
    struct plan_queue *q = XPUSH(ret->queues, ret->n_queues);
    q->profile = xstrdup(profile);
}

/* Enters the node as the controller's ledger would (reconcilers/node_ledger.c), with its last
 * change. */
static void enter(const struct node_view *v, const json_t *device, const struct device_status *st,
                  struct plan_queue *q, struct selected *s)
{
    const char *node = object_name(v->device_object);
    if (!node_view_profile(v, q->profile))
        return;
    plan_pace_add(&s->pace, device, st);
    if (!standing_is_settled(v, q->profile))
        *XPUSH(q->in_change, q->n_in_change) = xstrdup(node);
    else if (device_spec_needs_ticket(v, q->profile))
        *XPUSH(q->waiting, q->n_waiting) = xstrdup(node);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static void sort_names(char **names, size_t n)
{
    if (n)
        qsort(names, n, sizeof(*names), by_name);
}

/* The drains that the profile's cards of a node wait for. */
static struct plan_drains drains_of(const struct node_plan *n, const char *profile)
{
    struct plan_drains d = {0};
    for (size_t i = 0; i < n->n_cards; i++)
        if (strcmp(n->cards[i].source, profile) == 0)
            plan_drains_add(&d, &n->cards[i]);
    return d;
}

static void take_time(const struct cluster_plan *p, struct plan_pace *pace, struct plan_queue *q)
{
    plan_time_of(pace, q->n_waiting + q->n_in_change, q->at_once, &q->time);
    for (size_t i = 0; i < p->n_nodes; i++) {
        const struct plan_drains d = drains_of(&p->nodes[i], q->profile);
        plan_time_add(&q->time, &d);
    }
}

static int finish_queue(const struct cluster_objects *all, const struct profile_judge *j,
                        struct plan_queue *q, struct err *e)
{
    const struct profile_record *p = object_payload(j->profile);
    const char *max = p->spec.rollout.max_unavailable;
    size_t matched = j->survey.matched;
    profile_judge_end(j, all->caches.nodes, &q->verdict);
    q->paused = p->spec.paused;
    q->max_unavailable = xstrdup(max ? max : "1");
    sort_names(q->waiting, q->n_waiting);
    sort_names(q->in_change, q->n_in_change);
    return gpuprofile_max_unavailable(max, matched ? matched : 1, &q->at_once, e);
}

/* --- Nodes --- */

/* True when the file has the Node, or a profile that selects it. */
static bool is_concerned(const struct walk *w, const struct node_view *v)
{
    if (json_object_get(w->file->nodes, object_name(v->device_object)))
        return true;
    for (size_t i = 0; i < w->ret->n_queues; i++)
        if (node_view_profile(v, w->ret->queues[i].profile))
            return true;
    return false;
}

/* Plans a node, beside what it was before the file's Node took the place of the cluster's. */
static void plan_node(const struct walk *w, const struct node_view *v,
                      const struct device_status *st, struct node_plan *ret)
{
    const char *name = object_name(v->device_object);
    auto_node_view struct node_view before = {0};
    struct caches caches = w->all->caches;
    caches.nodes = w->nodes_before;
    if (json_object_get(w->file->nodes, name))
        node_view_read(&caches, name, &before);
    node_plan_make(&(struct node_case){v, before.node ? &before : NULL, w->file}, st, ret);
}

static int plan_device(void *arg, const struct found_device *device, struct err *e)
{
    (void)e;
    /* The standing says so of a status that cannot be read. */
    static const struct device_status unreadable;
    const struct device_status *st = device->status ? device->status : &unreadable;
    struct walk *w = arg;
    auto_node_view struct node_view v = {0};
    w->ret->n_devices++;
    node_view_read(&w->all->caches, object_name(device->object), &v);
    if (!v.node)
        return 0; /* its Node is gone */
    for (size_t i = 0; i < w->ret->n_queues; i++)
        profile_judge_add(&w->selected[i].judge, &v);
    bool concerned = is_concerned(w, &v);
    if (!concerned && json_object_size(w->file->configs) == 0)
        return 0;
    auto_node_plan struct node_plan p = {0};
    plan_node(w, &v, st, &p);
    if (!concerned && !p.changes && !node_plan_refuses(&p))
        return 0;
    for (size_t i = 0; i < w->ret->n_queues; i++)
        enter(&v, device->json, st, &w->ret->queues[i], &w->selected[i]);
    *XPUSH(w->ret->nodes, w->ret->n_nodes) = p;
    p = (struct node_plan){0};
    return 0;
}

static int by_node(const void *a, const void *b)
{
    return strcmp(((const struct node_plan *)a)->name, ((const struct node_plan *)b)->name);
}

/* --- The whole --- */

static int put_objects(json_t *objects, struct store *into, const struct object_type *type,
                       struct err *e)
{
    const char *name;
    json_t *doc;
    json_object_foreach(objects, name, doc)
        TRY(cluster_objects_put(into, type, doc, e));
    return 0;
}

/* Puts the MIGConfigs, each as old as the one of its name in the cluster, and one that is new there
 * as younger than all: an alias belongs to the oldest that has it. */
static int put_configs(json_t *configs, struct store *into, struct err *e)
{
    const char *name;
    json_t *doc;
    json_object_foreach(configs, name, doc) {
        char since[RFC3339_BYTES] = "9999-12-31T23:59:59Z";
        const struct object_key key = {.name = name};
        auto_object struct object *before = store_get(into, &key);
        if (before)
            (void)rfc3339_format(((const struct config_record *)object_payload(before))->created_ms,
                                 since);
        (void)json_object_set_new(json_object_get(doc, "metadata"), "creationTimestamp",
                                  json_string(since));
        TRY(cluster_objects_put(into, &records_config_type, doc, e));
    }
    return 0;
}

/* Keeps the Node that the cluster has, if it has one. */
static void keep_before(struct walk *w, const char *name)
{
    const struct object_key key = {.name = name};
    auto_object struct object *node = store_get(w->all->caches.nodes, &key);
    auto_object struct object *before = NULL;
    if (node)
        store_put(w->nodes_before, node, &before);
}

/* Puts a Node of the file: a whole one, as kubectl prints it, stands for itself; of another the
 * labels are added to those that the Node has, as kubectl apply does. */
static int put_node(struct walk *w, struct kc *kc, struct scope *s, const json_t *doc,
                    struct err *e)
{
    const char *name = JX_STR_AT(doc, "metadata", "name");
    const struct kc_target t = {.res = records_node_type.resource, .name = name};
    struct store *nodes = w->all->caches.nodes;
    auto_json json_t *node = NULL;
    keep_before(w, name);
    if (JX_STR_AT(doc, "metadata", "uid"))
        return cluster_objects_put(nodes, &records_node_type, doc, e);
    TRY(kc_get(kc, s, &t, &node, e));
    json_t *meta = json_object_get(node, "metadata");
    json_t *labels = json_object_get(meta, "labels");
    json_t *more = json_object_get(json_object_get(doc, "metadata"), "labels");
    if (more && (labels ? json_object_update(labels, more) : json_object_set(meta, "labels", more)))
        return err_set(e, ERR_PROTOCOL, "Node %s: its labels are no object", name);
    return cluster_objects_put(nodes, &records_node_type, node, e);
}

static int put_file(struct walk *w, struct kc *kc, struct scope *s, struct err *e)
{
    const char *name;
    json_t *doc;
    const struct caches *into = &w->all->caches;
    TRY(put_objects(w->file->profiles, into->profiles, &records_profile_type, e));
    TRY(put_configs(w->file->configs, into->configs, e));
    json_object_foreach(w->file->nodes, name, doc)
        TRY(put_node(w, kc, s, doc, e));
    return 0;
}

static int read_inputs(struct kc *kc, struct scope *s, struct cluster_objects *all, struct err *e)
{
    TRY(cluster_objects_read_metadata(all, kc, s, &records_node_type, all->caches.nodes, e));
    TRY(cluster_objects_read(
        all, kc, s, &records_profile_type, all->caches.profiles,
        "profiles that override or conflict with those of the file are not seen", e));
    return cluster_objects_read(all, kc, s, &records_config_type, all->caches.configs,
                                "only built-in layouts, and those of the file, are known by name",
                                e);
}

/* Plans each node, and then the order and the time of the queues. */
static int plan_devices(struct walk *w, struct kc *kc, struct scope *s, struct err *e)
{
    struct cluster_plan *p = w->ret;
    TRY(cluster_objects_each_device(w->all, kc, s, plan_device, w, e));
    if (p->n_nodes)
        qsort(p->nodes, p->n_nodes, sizeof(*p->nodes), by_node);
    for (size_t i = 0; i < p->n_queues; i++) {
        TRY(finish_queue(w->all, &w->selected[i].judge, &p->queues[i], e));
        take_time(p, &w->selected[i].pace, &p->queues[i]);
    }
    return 0;
}

/* Plans with the file's objects in their places. */
static int plan_all(struct walk *w, struct kc *kc, struct scope *s, struct err *e)
{
    const char *name;
    json_t *doc;
    struct cluster_plan *p = w->ret;
    TRY(put_file(w, kc, s, e));
    json_object_foreach(w->file->profiles, name, doc)
        add_queue(name, p);
    auto_free struct selected *selected = xcalloc(p->n_queues, sizeof(*selected));
    w->selected = selected;
    for (size_t i = 0; i < p->n_queues; i++) {
        const struct object_key key = {.name = p->queues[i].profile};
        profile_judge_begin(store_get(w->all->caches.profiles, &key), &selected[i].judge);
    }
    int rc = plan_devices(w, kc, s, e);
    for (size_t i = 0; i < p->n_queues; i++) {
        profile_judge_done(&selected[i].judge);
        plan_pace_done(&selected[i].pace);
    }
    return rc;
}

static int make(struct kc *kc, struct scope *s, const struct plan_file *file,
                struct cluster_plan *ret, struct err *e)
{
    auto_cluster_objects struct cluster_objects all = {0};
    cluster_objects_init(&all);
    TRY(cluster_objects_begin_devices(&all, kc, s, e));
    TRY(read_inputs(kc, s, &all, e));
    struct walk w = {.all = &all, .nodes_before = store_new(), .file = file, .ret = ret};
    int rc = plan_all(&w, kc, s, e);
    (void)store_free(w.nodes_before);
    ret->unread = all.unread;
    all.unread = (struct unread){0};
    return rc;
}

int cluster_plan_make(struct kc *kc, struct scope *s, const struct plan_file *file,
                      struct cluster_plan *ret, struct err *e)
{
    *ret = (struct cluster_plan){0};
    int rc = make(kc, s, file, ret, e);
    if (rc < 0)
        cluster_plan_done(ret);
    return rc;
}

bool cluster_plan_changes(const struct cluster_plan *p)
{
    for (size_t i = 0; i < p->n_nodes; i++)
        if (p->nodes[i].changes)
            return true;
    return false;
}

bool cluster_plan_refuses(const struct cluster_plan *p)
{
    for (size_t i = 0; i < p->n_nodes; i++)
        if (node_plan_refuses(&p->nodes[i]))
            return true;
    for (size_t i = 0; i < p->n_queues; i++)
        if (p->queues[i].verdict.refused)
            return true;
    return false;
}

static bool node_says(const struct node_plan *n, const struct plan_queue *q)
{
    for (size_t i = 0; i < n->n_problems; i++) {
        const struct plan_problem *p = &n->problems[i];
        if (p->refused && strcmp(p->source, q->profile) == 0 &&
            strcmp(p->reason, q->verdict.reason) == 0)
            return true;
    }
    return false;
}

bool cluster_plan_rejects(const struct cluster_plan *p, const struct plan_queue *q)
{
    if (!q->verdict.refused)
        return false;
    for (size_t i = 0; i < p->n_nodes; i++)
        if (node_says(&p->nodes[i], q))
            return false;
    return true;
}

static void names_free(char **names, size_t n)
{
    for (size_t i = 0; i < n; i++)
        free(names[i]);
    free(names);
}

void cluster_plan_done(struct cluster_plan *p)
{
    for (size_t i = 0; i < p->n_nodes; i++)
        node_plan_done(&p->nodes[i]);
    for (size_t i = 0; i < p->n_queues; i++) {
        struct plan_queue *q = &p->queues[i];
        names_free(q->waiting, q->n_waiting);
        names_free(q->in_change, q->n_in_change);
        profile_verdict_done(&q->verdict);
        free(q->profile);
        free(q->max_unavailable);
    }
    unread_done(&p->unread);
    free(p->queues);
    free(p->nodes);
    *p = (struct cluster_plan){0};
}
