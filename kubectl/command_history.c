/* SPDX-License-Identifier: Apache-2.0 */
#include "base/jx.h"
#include "base/xalloc.h"

#include "kubectl/command.h"
#include "kubectl/history.h"
#include "service/resources.h"

/* Events of objects without a namespace are in this one (docs/api.md). */
#define EVENTS_NS "default"

enum { SOURCES = 2 }; /* the Device, and the Events */

static const struct kc_resource events = {"events.k8s.io", "v1", "events", "Event", true};

struct telling {
    const struct command *c;
    const char *node;
    struct history history;
    struct unread unread;
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
    return unread_note(&t->unread, rc, "Events in the namespace " EVENTS_NS,
                       "what Cleave's programs said of the node is not shown", &why, e);
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
        (void)fputs("There are no conditions and no Events of this node.\n", t->c->err);
    return command_print_text(t->c, &b);
}

int command_history(const struct command *c, const char *node)
{
    auto_err struct err e = {0};
    auto_telling struct telling t = {.c = c, .node = node};
    if (read_device(&t, &e) < 0 || read_events(&t, &e) < 0)
        return command_fail(c->err, c->server, &e);
    history_end(&t.history);
    command_notes(c, &t.unread);
    int code = c->output == OUTPUT_TEXT ? tell_text(&t) : tell_json(&t);
    return t.unread.n == SOURCES ? COMMAND_FAILED : code;
}
