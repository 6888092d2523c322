/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <string.h>

#include "base/jx.h"

#include "kubectl/plan_text.h"
#include "kubectl/safe_text.h"
#include "kubectl/text.h"

static json_t *names(char *const *items, size_t n)
{
    json_t *list = json_array();
    for (size_t i = 0; i < n; i++)
        (void)json_array_append_new(list, json_string(items[i]));
    return list;
}

static void set_names(json_t *o, const char *key, char *const *items, size_t n)
{
    if (n)
        (void)json_object_set_new(o, key, names(items, n));
}

static json_t *users(const struct card_plan_view *c)
{
    json_t *list = json_array();
    for (size_t i = 0; i < c->n_users; i++) {
        const struct plan_user *u = &c->users[i];
        json_t *o = json_object();
        text_set(o, "namespace", u->ns);
        text_set(o, "name", u->name);
        text_set(o, "uid", u->uid);
        text_set(o, "process", u->process);
        if (!u->name && u->pid)
            (void)json_object_set_new(o, "pid", json_integer(u->pid));
        (void)json_array_append_new(list, o);
    }
    return list;
}

static json_t *card(const struct card_plan_view *c)
{
    static const char *const fates[] = {[FATE_STAYS] = "AsWanted",
                                        [FATE_CHANGES] = "Changes",
                                        [FATE_DRAINS] = "Drains",
                                        [FATE_CANNOT] = "Cannot"};
    json_t *o = json_object();
    (void)json_object_set_new(o, "index", json_integer(c->index));
    text_set(o, "uuid", c->uuid);
    text_set(o, "vendor", c->vendor);
    text_set(o, "model", c->model);
    text_set(o, "source", c->source);
    (void)json_object_set_new(o, "ofFile", json_boolean(c->of_file));
    text_set(o, "fate", fates[c->fate]);
    text_set(o, "reason", c->reason);
    text_set(o, "message", c->message);
    text_set(o, "mode", api_mode_names[c->mode]);
    text_set(o, "wantedMode", api_mode_names[c->wanted_mode]);
    set_names(o, "stays", c->stays.items, c->stays.n);
    set_names(o, "goes", c->goes.items, c->goes.n);
    set_names(o, "comes", c->comes.items, c->comes.n);
    text_set(o, "sharing", c->sharing);
    text_set(o, "wantedSharing", c->wanted_sharing);
    if (c->n_users) {
        (void)json_object_set_new(o, "evicts", json_boolean(c->evicts));
        (void)json_object_set_new(o, "users", users(c));
    }
    return o;
}

static json_t *problem(const struct plan_problem *p)
{
    json_t *o = json_object();
    text_set(o, "source", p->source);
    text_set(o, "reason", p->reason);
    text_set(o, "message", p->message);
    (void)json_object_set_new(o, "refused", json_boolean(p->refused));
    (void)json_object_set_new(o, "ofFile", json_boolean(p->of_file));
    return o;
}

static json_t *node(const struct node_plan *n)
{
    json_t *o = json_object();
    json_t *cards = json_array();
    json_t *problems = json_array();
    for (size_t i = 0; i < n->n_cards; i++)
        (void)json_array_append_new(cards, card(&n->cards[i]));
    for (size_t i = 0; i < n->n_problems; i++)
        (void)json_array_append_new(problems, problem(&n->problems[i]));
    text_set(o, "name", n->name);
    (void)json_object_set_new(o, "changes", json_boolean(n->changes));
    (void)json_object_set_new(o, "problems", problems);
    (void)json_object_set_new(o, "cards", cards);
    return o;
}

static void set_number(json_t *o, const char *key, int64_t n)
{
    (void)json_object_set_new(o, key, json_integer((json_int_t)n));
}

static json_t *duration(const struct plan_time *t)
{
    json_t *o = json_object();
    set_number(o, "samples", (int64_t)t->samples);
    if (t->samples) {
        set_number(o, "seconds", t->all_s);
        set_number(o, "nodeSeconds", t->node_s);
        set_number(o, "nodeMostSeconds", t->node_most_s);
    }
    set_number(o, "evicting", (int64_t)t->evicting);
    if (t->evicting)
        set_number(o, "evictingMostSeconds", t->evicting_most_s);
    set_number(o, "waiting", (int64_t)t->waiting);
    return o;
}

static json_t *queue(const struct plan_queue *q)
{
    json_t *o = json_object();
    text_set(o, "profile", q->profile);
    text_set(o, "maxUnavailable", q->max_unavailable);
    (void)json_object_set_new(o, "atOnce", json_integer((json_int_t)q->at_once));
    (void)json_object_set_new(o, "paused", json_boolean(q->paused));
    (void)json_object_set_new(o, "inChange", names(q->in_change, q->n_in_change));
    (void)json_object_set_new(o, "waiting", names(q->waiting, q->n_waiting));
    if (!q->paused && q->n_waiting + q->n_in_change)
        (void)json_object_set_new(o, "duration", duration(&q->time));
    return o;
}

/* --- The document --- */

static json_t *order(const struct cluster_plan *p)
{
    json_t *list = json_array();
    for (size_t i = 0; i < p->n_queues; i++)
        (void)json_array_append_new(list, queue(&p->queues[i]));
    return list;
}

static json_t *profiles(const struct cluster_plan *p)
{
    json_t *list = json_array();
    for (size_t i = 0; i < p->n_queues; i++) {
        const struct plan_queue *q = &p->queues[i];
        json_t *o = json_object();
        text_set(o, "name", q->profile);
        (void)json_object_set_new(o, "refused", json_boolean(q->verdict.refused));
        text_set(o, "reason", q->verdict.reason);
        text_set(o, "message", q->verdict.message);
        (void)json_array_append_new(list, o);
    }
    return list;
}

json_t *plan_json(const struct cluster_plan *p)
{
    json_t *o = json_object();
    json_t *nodes = json_array();
    for (size_t i = 0; i < p->n_nodes; i++)
        (void)json_array_append_new(nodes, node(&p->nodes[i]));
    text_set(o, "kind", "Plan");
    (void)json_object_set_new(o, "changes", json_boolean(cluster_plan_changes(p)));
    (void)json_object_set_new(o, "refused", json_boolean(cluster_plan_refuses(p)));
    (void)json_object_set_new(o, "nodes", nodes);
    (void)json_object_set_new(o, "profiles", profiles(p));
    (void)json_object_set_new(o, "order", order(p));
    (void)json_object_set_new(o, "notRead", unread_json(&p->unread));
    return o;
}

/* --- The same as text, node by node --- */

enum { INDENT = 4 };

/* Writes the text with its lines, but the first, so deep. A line break in JSON text is between
 * values: in strings it is an escape. */
static void put_shifted(FILE *out, int depth, const char *text)
{
    static const char blanks[] = "        ";
    assert((size_t)depth * INDENT < sizeof(blanks));
    for (const char *end; (end = strchr(text, '\n')); text = end + 1) {
        (void)fwrite(text, 1, (size_t)(end + 1 - text), out);
        (void)fwrite(blanks, 1, (size_t)depth * INDENT, out);
    }
    (void)fputs(text, out);
}

static void put_value(FILE *out, int depth, json_t *value_take)
{
    auto_json json_t *value = value_take;
    auto_free char *text = json_dumps(value, JSON_INDENT(INDENT) | JSON_ENCODE_ANY);
    auto_sb struct sb safe = SB_INIT(SIZE_MAX / 2);
    safe_text_add_document(&safe, text, strlen(text));
    put_shifted(out, depth, sb_str(&safe));
}

static void put_member(FILE *out, const char *name, json_t *value_take)
{
    (void)fprintf(out, ",\n%*s\"%s\": ", INDENT, "", name);
    put_value(out, 1, value_take);
}

static void put_nodes(FILE *out, const struct cluster_plan *p)
{
    (void)fprintf(out, ",\n%*s\"nodes\": [", INDENT, "");
    for (size_t i = 0; i < p->n_nodes; i++) {
        (void)fprintf(out, "%s\n%*s", i ? "," : "", 2 * INDENT, "");
        put_value(out, 2, node(&p->nodes[i]));
    }
    if (p->n_nodes)
        (void)fprintf(out, "\n%*s", INDENT, "");
    (void)fputc(']', out);
}

int plan_json_write(const struct cluster_plan *p, FILE *out)
{
    (void)fprintf(out, "{\n%*s\"kind\": \"Plan\"", INDENT, "");
    put_member(out, "changes", json_boolean(cluster_plan_changes(p)));
    put_member(out, "refused", json_boolean(cluster_plan_refuses(p)));
    put_nodes(out, p);
    put_member(out, "profiles", profiles(p));
    put_member(out, "order", order(p));
    put_member(out, "notRead", unread_json(&p->unread));
    (void)fputs("\n}\n", out);
    return fflush(out) == 0 && !ferror(out) ? 0 : -1;
}
