/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/jx.h"
#include "base/xalloc.h"

#include "kubectl/cards_text.h"
#include "kubectl/cluster_objects.h"
#include "kubectl/command.h"
#include "kubectl/redraw.h"
#include "reconcilers/records/node_record.h"
#include "service/resources.h"

/* One node's text or document, made as soon as its Device was read: a large cluster's Devices do
 * not fit in a small memory. */
struct told {
    char *name, *text;
    json_t *document;
};

struct walk {
    const struct command *c;
    const char *only; /* NULL: all nodes */
    struct cluster_objects *all;
    struct told *told;
    size_t n;
};

/* A Node, as far as it is shown. */
struct node_note {
    bool cordoned, unready;
};

static int read_node(const json_t *obj, void **ret, struct err *e)
{
    (void)e;
    struct node_note *n = xmalloc(sizeof(*n));
    n->cordoned = json_is_true(JX_AT(obj, "spec", "unschedulable"));
    n->unready = !records_node_is_ready(obj);
    *ret = n;
    return 0;
}

static const struct object_type node_note_type = {&resource_nodes, read_node, free};

static void tell(const struct walk *w, const struct node_cards_view *v, struct told *ret)
{
    ret->name = xstrdup(v->name);
    if (w->c->output != OUTPUT_TEXT) {
        ret->document = cards_json(v);
        return;
    }
    auto_sb struct sb text = SB_INIT(COMMAND_MAX_BYTES);
    cards_text(v, &w->c->screen, &text);
    ret->text = sb_take(&text);
}

static int walk_device(void *arg, const struct found_device *device, struct err *e)
{
    (void)e;
    struct walk *w = arg;
    const struct object_key key = object_key(device->object);
    if (w->only && strcmp(key.name, w->only) != 0)
        return 0;
    auto_object struct object *node = store_get(w->all->caches.nodes, &key);
    const struct node_note *note = node ? object_payload(node) : NULL;
    struct node_cards_view v = {.name = key.name,
                                .has_node = note,
                                .status = device->status,
                                .error = device->why};
    if (note) {
        v.cordoned = note->cordoned;
        v.unready = note->unready;
    }
    tell(w, &v, XPUSH(w->told, w->n));
    return 0;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct told *)a)->name, ((const struct told *)b)->name);
}

static char *documents(const struct walk *w)
{
    auto_json json_t *list = json_array();
    for (size_t i = 0; i < w->n; i++)
        (void)json_array_append(list, w->told[i].document);
    auto_json json_t *document = json_pack("{s:s, s:O}", "kind", "Cards", "nodes", list);
    return command_words(w->c, document);
}

static int texts(const struct walk *w, char **ret, struct err *e)
{
    auto_sb struct sb text = SB_INIT(COMMAND_MAX_BYTES);
    for (size_t i = 0; i < w->n; i++)
        sb_add(&text, w->told[i].text);
    TRY(sb_check(&text, e));
    *ret = sb_take(&text);
    return 0;
}

static int read_all(struct walk *w, struct err *e)
{
    const struct command *c = w->c;
    TRY(cluster_objects_read(w->all, c->kc, c->scope, &node_note_type, w->all->caches.nodes,
                             "whether nodes are ready or cordoned is not shown", e));
    return cluster_objects_each_device(w->all, c->kc, c->scope, walk_device, w, e);
}

static void say_what_lacks(const struct walk *w)
{
    command_notes(w->c, &w->all->unread);
    if (w->n == 0 && w->c->output == OUTPUT_TEXT && !w->only)
        (void)fputs("No Devices found: no node has reported its cards to Cleave.\n", w->c->err);
}

static int draw(struct walk *w, bool first, char **ret_text)
{
    auto_err struct err e = {0};
    const struct command *c = w->c;
    if (read_all(w, &e) < 0)
        return command_fail(c->err, c->server, &e);
    if (first)
        say_what_lacks(w);
    if (w->only && w->n == 0) {
        (void)err_set(&e, ERR_INVALID, "node %s has no Device", w->only);
        return command_fail(c->err, /* server= */ NULL, &e);
    }
    if (w->n)
        qsort(w->told, w->n, sizeof(*w->told), by_name);
    if (c->output != OUTPUT_TEXT)
        *ret_text = documents(w);
    else if (texts(w, ret_text, &e) < 0)
        return command_fail(c->err, /* server= */ NULL, &e);
    return COMMAND_OK;
}

struct cards_watch {
    const struct command *c;
    const char *node;
    bool goes_on; /* what could not be read was said */
};

static int picture(void *arg, char **ret_text, char **ret_version)
{
    struct cards_watch *cw = arg;
    auto_cluster_objects struct cluster_objects all = {0};
    cluster_objects_init(&all);
    struct walk w = {.c = cw->c, .only = cw->node, .all = &all};
    int code = draw(&w, !cw->goes_on, ret_text);
    cw->goes_on = true;
    *ret_version = TAKE(all.devices_version);
    for (size_t i = 0; i < w.n; i++) {
        free(w.told[i].name);
        free(w.told[i].text);
        json_decref(w.told[i].document);
    }
    free(w.told);
    return code;
}

int command_cards(const struct command *c, const char *node)
{
    struct cards_watch once = {.c = c, .node = node};
    auto_free char *text = NULL;
    auto_free char *version = NULL;
    if (node && command_is_unnamed(c, "node", node))
        return COMMAND_FAILED;
    int code = picture(&once, &text, &version);
    return code == COMMAND_OK ? command_put(c, text) : code;
}

int command_cards_watch(const struct command *c, const char *node)
{
    struct cards_watch cw = {.c = c, .node = node};
    const struct kc_target t = {.res = &resource_devices};
    if (node && command_is_unnamed(c, "node", node))
        return COMMAND_FAILED;
    auto_free char *fields = node ? xasprintf("metadata.name=%s", node) : NULL;
    return redraw_run(c, &t, fields, picture, &cw);
}
