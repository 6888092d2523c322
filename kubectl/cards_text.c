/* SPDX-License-Identifier: Apache-2.0 */
#include "kubectl/cards_text.h"

#include <string.h>

#include "base/xalloc.h"

#include "kubectl/bar.h"
#include "kubectl/safe_text.h"
#include "kubectl/status_card.h"
#include "kubectl/text.h"
#include "kubectl/word_list.h"
#include "service/conditions.h"

/* Before the lines that say who has a part. */
#define INDENT "     "

/* --- The node --- */

static void add_condition(const struct device_status *st, const struct screen *s, struct sb *b)
{
    const struct condition *ready = condition_get(&st->conditions, "Ready");
    if (!ready) {
        screen_paint(s, b, INK_BUSY, "  not reported");
        return;
    }
    if (ready->status == CONDITION_TRUE) {
        screen_paint(s, b, INK_GOOD, "  Ready");
        return;
    }
    auto_free char *words = xasprintf("  not ready: %s", ready->reason ? ready->reason : "");
    screen_paint_foreign(s, b, INK_BAD, words);
}

static void add_head(const struct node_cards_view *v, const struct screen *s, struct sb *b)
{
    screen_paint_foreign(s, b, INK_STRONG, v->name);
    if (v->status)
        add_condition(v->status, s, b);
    if (v->has_node && v->unready)
        screen_paint(s, b, INK_BAD, "  node NotReady");
    if (v->has_node && v->cordoned)
        screen_paint(s, b, INK_BUSY, "  cordoned");
    sb_add_char(b, '\n');
}

/* --- One card --- */

static char *user_words(const struct device_consumer *c)
{
    if (c->name)
        return xasprintf("%s/%s%s%s", c->namespace ? c->namespace : "", c->name,
                         c->container ? " " : "", c->container ? c->container : "");
    return xasprintf("%s (pid %lld)", c->process ? c->process : "a process", (long long)c->pid);
}

static void add_part_users(const struct device_card *card, const struct picture_part *p,
                           const struct screen *s, struct sb *b)
{
    size_t n;
    const struct device_consumer *users = picture_users(card, p, &n);
    auto_free char *name = safe_text(p->name);
    auto_free char *heading = xasprintf(INDENT "%s  ", name);
    struct word_list l = {.out = b, .screen = s, .heading = heading};
    for (size_t i = 0; i < n; i++) {
        auto_free char *words = user_words(&users[i]);
        word_list_add(&l, words);
    }
    if (n == 0 && p->state == PART_USED)
        word_list_add(&l, "in use");
    if (p->state == PART_ILL && p->from && p->from->unhealthy.message)
        word_list_add(&l, p->from->unhealthy.message);
    word_list_end(&l);
}

static void add_state(const struct device_card *card, const struct screen *s, struct sb *b)
{
    const struct condition *ill = condition_get(&card->conditions, "Healthy");
    const struct condition *applied = condition_get(&card->conditions, "Applied");
    if (!card->healthy) {
        sb_add(b, "  ");
        screen_paint_foreign(s, b, INK_BAD, ill && ill->reason ? ill->reason : "not healthy");
    } else if (applied && applied->status != CONDITION_TRUE) {
        sb_add(b, "  ");
        screen_paint_foreign(s, b, INK_BUSY, applied->reason);
    }
}

static void add_card(const struct device_card *card, const struct mig_table *table,
                     const struct screen *s, struct sb *b)
{
    auto_picture struct picture p = {0};
    auto_free char *title = status_card_title(card->vendor, card->index);
    auto_free char *model = safe_text(card->model);
    picture_make(card, table, &p);
    sb_addf(b, "  %s  %s  %s", title, model, api_mode_names[card->mode]);
    if (card->replicas)
        sb_addf(b, ", %lld replicas", (long long)card->replicas);
    add_state(card, s, b);
    sb_add(b, "\n" INDENT);
    bar_add(&p, s->columns - strlen(INDENT), s, b);
    sb_add_char(b, '\n');
    for (size_t i = 0; i < p.n; i++)
        add_part_users(card, &p.parts[i], s, b);
    struct word_list l = {.out = b, .screen = s, .heading = INDENT "free  ", .ink = INK_GOOD};
    if (*p.room)
        word_list_add(&l, p.room);
    word_list_end(&l);
}

void cards_text(const struct node_cards_view *v, const struct screen *s, struct sb *ret)
{
    add_head(v, s, ret);
    if (v->error) {
        sb_add(ret, "  ");
        screen_paint_foreign(s, ret, INK_BAD, v->error);
        sb_add_char(ret, '\n');
    }
    for (size_t i = 0; v->status && i < v->status->n_devices; i++) {
        auto_free struct mig_table *t = status_card_table(v->status, &v->status->devices[i]);
        add_card(&v->status->devices[i], t, s, ret);
    }
    if (v->status && v->status->n_devices == 0)
        sb_add(ret, "  no cards\n");
}

/* --- For programs --- */

static json_t *users_json(const struct device_card *card, const struct picture_part *p)
{
    size_t n;
    const struct device_consumer *users = picture_users(card, p, &n);
    json_t *list = json_array();
    for (size_t i = 0; i < n; i++) {
        json_t *o = json_object();
        text_set(o, "namespace", users[i].namespace);
        text_set(o, "name", users[i].name);
        text_set(o, "container", users[i].container);
        text_set(o, "process", users[i].process);
        if (users[i].pid)
            (void)json_object_set_new(o, "pid", json_integer(users[i].pid));
        (void)json_array_append_new(list, o);
    }
    return list;
}

static json_t *part_json(const struct device_card *card, const struct picture_part *p)
{
    static const char *const states[] = {[PART_FREE] = "Free",
                                         [PART_USED] = "Used",
                                         [PART_ILL] = "Unhealthy",
                                         [PART_UNCUT] = "Uncut"};
    json_t *o = json_object();
    text_set(o, "name", p->name);
    text_set(o, "state", states[p->state]);
    if (p->from) {
        text_set(o, "uuid", p->from->uuid);
        text_set(o, "placement", p->from->placement);
    }
    if (p->replicas)
        (void)json_object_set_new(o, "replicas", json_integer(p->replicas));
    if (p->from && p->from->has_slice) {
        (void)json_object_set_new(o, "memoryMiB", json_integer(p->from->slice.memory_mib));
        (void)json_object_set_new(o, "computePercent",
                                  json_integer(p->from->slice.compute_percent));
    }
    json_t *users = users_json(card, p);
    if (json_array_size(users))
        (void)json_object_set(o, "users", users);
    json_decref(users);
    return o;
}

static json_t *card_json(const struct device_card *card, const struct mig_table *table)
{
    auto_picture struct picture p = {0};
    json_t *o = json_object();
    json_t *parts = json_array();
    picture_make(card, table, &p);
    for (size_t i = 0; i < p.n; i++)
        (void)json_array_append_new(parts, part_json(card, &p.parts[i]));
    (void)json_object_set_new(o, "index", json_integer(card->index));
    text_set(o, "uuid", card->uuid);
    text_set(o, "vendor", card->vendor);
    text_set(o, "model", card->model);
    text_set(o, "mode", api_mode_names[card->mode]);
    (void)json_object_set_new(o, "healthy", json_boolean(card->healthy));
    (void)json_object_set_new(o, "parts", parts);
    text_set(o, "free", p.room);
    return o;
}

json_t *cards_json(const struct node_cards_view *v)
{
    json_t *o = json_object();
    json_t *cards = json_array();
    text_set(o, "name", v->name);
    text_set(o, "error", v->error);
    if (v->has_node) {
        (void)json_object_set_new(o, "nodeReady", json_boolean(!v->unready));
        (void)json_object_set_new(o, "cordoned", json_boolean(v->cordoned));
    }
    for (size_t i = 0; v->status && i < v->status->n_devices; i++) {
        auto_free struct mig_table *t = status_card_table(v->status, &v->status->devices[i]);
        (void)json_array_append_new(cards, card_json(&v->status->devices[i], t));
    }
    (void)json_object_set_new(o, "cards", cards);
    return o;
}
