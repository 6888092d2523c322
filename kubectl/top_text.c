/* SPDX-License-Identifier: Apache-2.0 */
#include "kubectl/top_text.h"

#include <string.h>

#include "base/xalloc.h"

#include "kubectl/safe_text.h"
#include "kubectl/text.h"

#define GIB 1073741824.0

/* A double has at most some 310 digits before its point. */
enum { MAX_NUMBERS_BYTES = 4096 };

/* Columns; each but the first has a blank before it. */
enum {
    USE = 5,
    MEMORY = 15,
    TEMP = 5,
    POWER = 6,
    BAR = 12,
    BAR_FROM = 72, /* narrower screens have no bars */
    TEMP_FROM = 56 /* and these neither temperature nor power */
};

static size_t width_of_name(const struct screen *s)
{
    size_t rest = USE + MEMORY + 2;
    if (s->columns >= TEMP_FROM)
        rest += TEMP + POWER + 2;
    if (s->columns >= BAR_FROM)
        rest += BAR + 1;
    return s->columns > rest ? s->columns - rest : 1;
}

/* --- Numbers --- */

/* The number with its unit; "": it is not told. Caller frees. */
static char *number(double value, int decimals, const char *unit)
{
    return isnan(value) ? xstrdup("") : xasprintf("%.*f%s", decimals, value, unit);
}

static void add_number(struct sb *b, int width, double value, const char *unit)
{
    auto_free char *words = number(value, 0, unit);
    sb_addf(b, " %*s", width, words);
}

static void add_memory(const struct top_values *v, struct sb *b)
{
    auto_free char *total = number(v->total / GIB, 1, "");
    auto_free char *used = number(v->memory / GIB, 1, *total ? "/" : "");
    auto_free char *words = *used ? xasprintf("%s%s GiB", used, total) : xstrdup("");
    sb_addf(b, " %*s", MEMORY, words);
}

static enum ink ink_of(double part)
{
    return part >= 0.9 ? INK_BUSY : INK_GOOD;
}

static void add_bar(const struct top_values *v, const struct screen *s, struct sb *b)
{
    double part = v->memory / v->total;
    if (!(part >= 0) || isinf(part)) {
        sb_addf(b, " %*s", BAR, "");
        return;
    }
    char full[BAR] = "";
    size_t n = part >= 1 ? BAR - 2 : (size_t)(part * (BAR - 2) + 0.5);
    memset(full, '#', n);
    sb_add(b, " [");
    screen_paint(s, b, ink_of(part), full);
    for (; n < BAR - 2; n++)
        sb_add_char(b, '-');
    sb_add_char(b, ']');
}

static void trim(struct sb *b)
{
    while (b->len && b->data[b->len - 1] == ' ')
        b->data[--b->len] = '\0';
}

static void add_values(const struct top_values *v, const struct screen *s, struct sb *b)
{
    add_number(b, USE, v->use * 100, " %");
    if (s->columns >= BAR_FROM)
        add_bar(v, s, b);
    add_memory(v, b);
    if (s->columns >= TEMP_FROM) {
        add_number(b, TEMP, v->celsius, " C");
        add_number(b, POWER, v->watts, " W");
    }
}

/* --- Lines --- */

/* Appends a line: a name and its numbers. Names are never cut, as their ends tell pods apart: the
 * numbers of one that is too long stand below it. */
static void add_line(const char *name, enum ink ink, const struct top_values *v,
                     const struct screen *s, struct sb *b)
{
    size_t width = width_of_name(s);
    auto_free char *safe = safe_text(name);
    size_t columns = safe_text_columns(safe);
    auto_sb struct sb numbers = SB_INIT(MAX_NUMBERS_BYTES);
    add_values(v, s, &numbers);
    trim(&numbers);
    screen_paint(s, b, ink, safe);
    if (numbers.len && columns > width)
        sb_addf(b, "\n%*s", (int)width, "");
    else if (numbers.len)
        sb_addf(b, "%*s", (int)(width - columns), "");
    sb_addf(b, "%s\n", sb_str(&numbers));
}

static void add_user(const struct top_user *u, const char *before, const struct screen *s,
                     struct sb *b)
{
    auto_free char *name = xasprintf("%s%s/%s", before, u->ns, u->pod);
    struct top_values v = u->v;
    v.celsius = v.watts = TOP_NOT_TOLD; /* its card's, which stand there */
    add_line(name, INK_PLAIN, &v, s, b);
}

static void add_users(const struct top_user *users, size_t n, const char *before,
                      const struct screen *s, struct sb *b)
{
    for (size_t i = 0; i < n; i++)
        add_user(&users[i], before, s, b);
}

/* A pod that has the instance for itself is named on the instance's line. */
static void add_part(const struct top_part *p, const struct screen *s, struct sb *b)
{
    bool alone = p->n == 1;
    auto_free char *name = alone
                               ? xasprintf("    %s  %s/%s", p->profile, p->users->ns, p->users->pod)
                               : xasprintf("    %s", p->profile);
    add_line(name, INK_PLAIN, &p->v, s, b);
    if (!alone)
        add_users(p->users, p->n, "      ", s, b);
}

static void add_age(const struct top_card *c, const struct screen *s, struct sb *b)
{
    auto_free char *age = number(c->age_s, 0, " s");
    auto_free char *words =
        xasprintf("    not read for %s: these are the last values", *age ? age : "a while");
    screen_paint(s, b, INK_BAD, words);
    sb_add_char(b, '\n');
}

static void add_card(const struct top_card *c, const struct screen *s, struct sb *b)
{
    auto_free char *name = xasprintf("  GPU %s  %s", c->index, c->model);
    add_line(name, INK_STRONG, &c->v, s, b);
    if (c->is_stale)
        add_age(c, s, b);
    add_users(c->users, c->n, "    ", s, b);
    for (size_t i = 0; i < c->n_parts; i++)
        add_part(&c->parts[i], s, b);
}

void top_text_head(const struct screen *s, struct sb *ret)
{
    sb_addf(ret, "%-*s %*s", (int)width_of_name(s), "NODE / CARD / POD", USE, "USE");
    if (s->columns >= BAR_FROM)
        sb_addf(ret, " %*s", BAR, "");
    sb_addf(ret, " %*s", MEMORY, "MEMORY");
    if (s->columns >= TEMP_FROM)
        sb_addf(ret, " %*s %*s", TEMP, "TEMP", POWER, "POWER");
    sb_add_char(ret, '\n');
}

void top_text(const struct top_view *v, const struct screen *s, struct sb *ret)
{
    screen_paint_foreign(s, ret, INK_STRONG, v->name);
    if (v->error) {
        sb_add(ret, "  ");
        screen_paint_foreign(s, ret, INK_BAD, v->error);
    }
    sb_add_char(ret, '\n');
    for (size_t i = 0; v->node && i < v->node->n; i++)
        add_card(&v->node->cards[i], s, ret);
    if (v->node && v->node->n == 0)
        sb_add(ret, "  no cards\n");
}

/* --- For programs --- */

static void set_number(json_t *o, const char *key, double value)
{
    if (!isnan(value))
        (void)json_object_set_new(o, key, json_real(value));
}

static void set_bytes(json_t *o, const char *key, double value)
{
    if (!isnan(value) && value < 9e18)
        (void)json_object_set_new(o, key, json_integer((json_int_t)value));
}

static void set_values(json_t *o, const struct top_values *v)
{
    set_number(o, "use", v->use);
    set_bytes(o, "memoryUsedBytes", v->memory);
    set_bytes(o, "memoryTotalBytes", v->total);
}

static void set_users(json_t *o, const struct top_user *users, size_t n)
{
    json_t *list = json_array();
    for (size_t i = 0; i < n; i++) {
        json_t *user = json_object();
        text_set(user, "namespace", users[i].ns);
        text_set(user, "name", users[i].pod);
        text_set(user, "container", users[i].container);
        set_values(user, &users[i].v);
        (void)json_array_append_new(list, user);
    }
    (void)json_object_set_new(o, "users", list);
}

static json_t *part_json(const struct top_part *p)
{
    json_t *o = json_object();
    text_set(o, "profile", p->profile);
    text_set(o, "id", p->id);
    set_values(o, &p->v);
    set_users(o, p->users, p->n);
    return o;
}

static json_t *card_json(const struct top_card *c)
{
    json_t *o = json_object();
    json_t *parts = json_array();
    text_set(o, "index", c->index);
    text_set(o, "uuid", c->uuid);
    text_set(o, "model", c->model);
    set_values(o, &c->v);
    set_number(o, "celsius", c->v.celsius);
    set_number(o, "watts", c->v.watts);
    (void)json_object_set_new(o, "stale", json_boolean(c->is_stale));
    set_number(o, "ageSeconds", c->age_s);
    set_users(o, c->users, c->n);
    for (size_t i = 0; i < c->n_parts; i++)
        (void)json_array_append_new(parts, part_json(&c->parts[i]));
    (void)json_object_set_new(o, "parts", parts);
    return o;
}

json_t *top_json(const struct top_view *v)
{
    json_t *o = json_object();
    json_t *cards = json_array();
    text_set(o, "name", v->name);
    text_set(o, "error", v->error);
    for (size_t i = 0; v->node && i < v->node->n; i++)
        (void)json_array_append_new(cards, card_json(&v->node->cards[i]));
    (void)json_object_set_new(o, "cards", cards);
    return o;
}
