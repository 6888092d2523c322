/* SPDX-License-Identifier: Apache-2.0 */
#include "base/jx.h"
#include "base/xalloc.h"

#include "kubectl/command.h"
#include "kubectl/history.h"
#include "service/resources.h"

/* Events of objects without a namespace are in this one (docs/api.md). */
#define EVENTS_NS "default"

static const struct kc_resource events = {"events.k8s.io", "v1", "events", "Event", true};

struct telling {
    const struct command *c;
    const char *node;
    struct history history;
    struct unread unread;
    bool lacks_device, has_events; /* there is no Device; the Events were read */
};

static void telling_done(struct telling *t)
{
    unread_done(&t->unread);
    history_done(&t->history);
}

AUTO_DEFINE(telling, struct telling, telling_done)
#define auto_telling AUTO(telling)

static int read_device(struct telling *t, struct err *e)
{
    auto_err struct err why = {0};
    auto_json json_t *obj = NULL;
    auto_device_status struct device_status st = {0};
    const struct kc_target at = {.res = &resource_devices, .name = t->node};
    int rc = kc_get(t->c->kc, t->c->scope, &at, &obj, &why);
    t->lacks_device = rc == -ERR_NOT_FOUND;
    if (rc < 0)
        return unread_note(&t->unread, rc, "the Device",
                           "its conditions, and those of its cards, are not shown", &why, e);
    TRY(device_status_decode(obj, &st, e));
    history_add_device(&t->history, &st);
    return 0;
}

static int see_event(void *arg, const json_t *obj, struct err *e)
{
    (void)e;
    struct telling *t = arg;
    history_add_event(&t->history, t->node, obj);
    return 0;
}

static int read_events(struct telling *t, struct err *e)
{
    auto_err struct err why = {0};
    auto_free char *fields = xasprintf("regarding.name=%s", t->node);
    const struct kc_target at = {.res = &events, .ns = EVENTS_NS};
    const struct kc_list_opts o = {.fields = fields, .resource_version = "0"};
    int rc =
        kc_list_each(t->c->kc, t->c->scope, &at, &o, see_event, t, /* ret_version= */ NULL, &why);
    t->has_events = rc == 0;
    return unread_note(&t->unread, rc, "Events in the namespace " EVENTS_NS,
                       "what Cleave's programs said of the node is not shown", &why, e);
}

/* Checks that there is a node of this name, where neither a Device nor an Event tells of one. */
static int check_node(struct telling *t, struct err *e)
{
    auto_err struct err why = {0};
    auto_json json_t *obj = NULL;
    const struct kc_target at = {.res = &resource_nodes, .name = t->node};
    if (t->history.n || !t->lacks_device || !t->has_events)
        return 0;
    int rc = kc_get(t->c->kc, t->c->scope, &at, &obj, &why);
    if (rc == -ERR_NOT_FOUND)
        return err_set(e, ERR_INVALID, "there is no Node, no Device and no Event of the name %s",
                       t->node);
    return unread_note(&t->unread, rc, "the Node", "whether there is one of this name is not known",
                       &why, e);
}

/* True when something tells of the node, or all that could was asked. */
static bool is_known(const struct telling *t)
{
    return t->history.n || t->unread.n == 0 ||
           (t->lacks_device && t->has_events && t->unread.n == 1);
}

static int tell_json(const struct telling *t)
{
    auto_json json_t *doc =
        json_pack("{s:s, s:s, s:o, s:I, s:o}", "kind", "History", "node", t->node, "notRead",
                  unread_json(&t->unread), "older", (json_int_t)t->history.dropped, "entries",
                  history_json(&t->history));
    return command_print(t->c, doc);
}

static int tell_text(const struct telling *t)
{
    auto_sb struct sb b = SB_INIT(COMMAND_MAX_BYTES);
    history_text(&t->history, &t->c->screen, &b);
    if (t->history.n == 0)
        (void)fputs(is_known(t) ? "There are no conditions and no Events of this node.\n"
                                : "Nothing is known of this node: not all that tells of it can be "
                                  "read.\n",
                    t->c->err);
    return command_print_text(t->c, &b);
}

int command_history(const struct command *c, const char *node)
{
    auto_err struct err e = {0};
    auto_telling struct telling t = {.c = c, .node = node};
    if (command_is_unnamed(c, "node", node))
        return COMMAND_FAILED;
    if (read_device(&t, &e) < 0 || read_events(&t, &e) < 0 || check_node(&t, &e) < 0)
        return command_fail(c->err, c->server, &e);
    history_end(&t.history);
    command_notes(c, &t.unread);
    int code = c->output == OUTPUT_TEXT ? tell_text(&t) : tell_json(&t);
    return is_known(&t) ? code : COMMAND_FAILED;
}
