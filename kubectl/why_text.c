/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/jx.h"
#include "base/xalloc.h"

#include "api/kinds.h"
#include "kubectl/label_fix.h"
#include "kubectl/safe_text.h"
#include "kubectl/text.h"
#include "kubectl/why.h"
#include "kubectl/word_list.h"

/* Pods that one line names. */
enum { MAX_NAMED = 8 };

/* The verdict in a sentence. */
static char *verdict(const struct why *y)
{
    bool offered = false;
    bool usable = false;
    bool misfits = false;
    for (size_t i = 0; i < y->n_nodes; i++) {
        offered |= y->nodes[i].offered > 0;
        usable |= y->nodes[i].offered > 0 && !y->nodes[i].refusal;
        misfits |= y->nodes[i].misfit && !y->nodes[i].refusal;
    }
    auto_free char *unknown = why_unknown(y);
    if (!offered)
        return xasprintf("No node offers %s%s%s.", y->resource, unknown ? ": " : "",
                         unknown ? unknown : "");
    if (!usable)
        return xasprintf("No node that the pod may have offers %s.", y->resource);
    if (!why_has_room(y) && misfits)
        return xstrdup("No node that the pod may have has room for its slices.");
    if (!why_has_room(y))
        return xasprintf("No node that the pod may have has %lld free of %s.", (long long)y->count,
                         y->resource);
    return xasprintf("%s is free: something other than GPUs keeps the pod waiting.", y->resource);
}

static void add_node(const struct why_node *n, const struct screen *s, struct sb *b)
{
    auto_free char *name = safe_text(n->name);
    sb_addf(b, "  %s  ", name);
    if (n->offered)
        sb_addf(b, "offers %lld, %lld free", (long long)n->offered,
                (long long)(n->taken < n->offered ? n->offered - n->taken : 0));
    else
        sb_add(b, "offers none");
    if (n->misfit) {
        sb_add(b, "; ");
        screen_paint_foreign(s, b, INK_BUSY, n->misfit);
    }
    if (n->refusal) {
        sb_add(b, "; ");
        screen_paint_foreign(s, b, INK_BAD, n->refusal);
    }
    sb_add_char(b, '\n');
    struct word_list l = {.out = b, .screen = s, .heading = "    held by  ", .ink = INK_BUSY};
    for (size_t i = 0; i < n->n_holders && i < MAX_NAMED; i++)
        word_list_add(&l, n->holders[i]);
    if (n->n_holders > MAX_NAMED) {
        auto_free char *more = xasprintf("and %zu more", n->n_holders - MAX_NAMED);
        word_list_add(&l, more);
    }
    word_list_end(&l);
}

static char *price(const struct layout_fix *f)
{
    unsigned n = f->cost.goes;
    auto_free char *goes = n == 0 ? xstrdup("nothing that stands goes")
                                  : xasprintf("%u part%s that nobody uses go%s", n,
                                              n == 1 ? "" : "s", n == 1 ? "es" : "");
    return xasprintf("%s%s", goes, f->cost.modes ? ", and the card's mode changes" : "");
}

/* Adds the new layout of a card that was named, and what it costs. */
static void add_layout(const struct card_fix *c, const struct screen *s, struct sb *b)
{
    const struct layout_fix *f = &c->layout;
    auto_free char *source = safe_text(c->source);
    auto_free char *costs = price(f);
    if (c->source)
        sb_addf(b, ", which %s%s governs,", c->by_label ? "the label " LABEL_MIG_CONFIG "=" : "",
                source);
    sb_addf(b, " as\n    ");
    screen_paint(s, b, INK_GOOD, f->layout);
    const char *are = strchr(f->at, ',') ? " are made; " : " is made; ";
    sb_addf(b, "\n  %s%s%s.\n", f->at, *f->at ? are : "", costs);
}

/* Says that no change was found. */
static void add_no_fix(const struct why *y, struct sb *b)
{
    if (y->count == 1)
        sb_add(b, "No new layout of a single card gives the pod one");
    else
        sb_addf(b, "No new layouts of one node's cards give the pod all %lld", (long long)y->count);
    sb_add(b, " while all other pods stay");
    sb_add(b, y->effort.cut ? ", among those that were looked at: there are more.\n" : ".\n");
}

/* Counts the nodes left out: a pod that may have them could get its part there. */
static void add_left_out(const struct why *y, struct sb *b)
{
    size_t n = why_left_out(y);
    if (n == 1)
        sb_add(b, "1 node with cards is left out, for the reason behind its name.\n");
    else if (n)
        sb_addf(b, "%zu nodes with cards are left out, each for the reason behind its name.\n", n);
}

static bool is_by_label(const struct node_fix *f)
{
    for (size_t i = 0; i < f->n; i++)
        if (f->cards[i].by_label)
            return true;
    return false;
}

/* The label beats all profiles: the layout has to be where it points. */
static void add_label(const struct why *y, struct sb *b)
{
    if (!is_by_label(&y->fix))
        return;
    if (!y->config) {
        sb_add(b, "The label beats every profile, and no MIGConfig has such a layout: that of the "
                  "label has to leave these cards out.\n");
        return;
    }
    auto_free char *commands = label_fix_commands(y->fix_node, y->config);
    sb_add(b, "The label beats every profile. These commands give it such a layout:\n");
    safe_text_add_document(b, commands, strlen(commands));
}

static void add_fix(const struct why *y, const struct screen *s, struct sb *b)
{
    const struct node_fix *f = &y->fix;
    auto_free char *node = safe_text(y->fix_node);
    if (!y->fix_node) {
        if (y->n_tried)
            add_no_fix(y, b);
        add_left_out(y, b);
        return;
    }
    sb_add(b, y->effort.cut ? "The smallest change of those that were looked at (there are more): "
                            : "The smallest change: ");
    if (f->n == 1)
        sb_addf(b, "%s of node %s", f->cards[0].card, node);
    else
        sb_addf(b, "%zu cards of node %s\n", f->n, node);
    for (size_t i = 0; i < f->n; i++) {
        if (f->n > 1)
            sb_addf(b, "  %s", f->cards[i].card);
        add_layout(&f->cards[i], s, b);
    }
    add_label(y, b);
}

/* Adds the names that are there and look like the one that is not. */
static void add_near(const struct why *y, struct sb *b)
{
    auto_free char *near = known_names_near(y->known, y->resource);
    auto_free char *words = safe_text(near);
    if (near)
        sb_addf(b, "The nearest names here: %s\n", words);
}

void why_text(const struct why *y, const struct screen *s, struct sb *ret)
{
    auto_free char *words = verdict(y);
    screen_paint_foreign(s, ret, INK_STRONG, words);
    sb_add_char(ret, '\n');
    auto_free char *unknown = why_unknown(y);
    if (unknown) {
        add_near(y, ret);
        return;
    }
    for (size_t i = 0; i < y->n_nodes; i++)
        if (y->nodes[i].offered || y->nodes[i].has_cards || !y->nodes[i].refusal)
            add_node(&y->nodes[i], s, ret);
    if (!why_has_room(y))
        add_fix(y, s, ret);
}

static json_t *node_json(const struct why_node *n)
{
    json_t *holders = json_array();
    for (size_t i = 0; i < n->n_holders; i++)
        (void)json_array_append_new(holders, json_string(n->holders[i]));
    json_t *o = json_pack("{s:s, s:I, s:I, s:o}", "name", n->name, "offered",
                          (json_int_t)n->offered, "taken", (json_int_t)n->taken, "heldBy", holders);
    if (n->misfit)
        (void)json_object_set_new(o, "misfit", json_string(n->misfit));
    if (n->refusal)
        (void)json_object_set_new(o, "refusal", json_string(n->refusal));
    return o;
}

static json_t *fix_json(const struct why *y)
{
    json_t *cards = json_array();
    for (size_t i = 0; i < y->fix.n; i++) {
        const struct card_fix *c = &y->fix.cards[i];
        const struct layout_fix *f = &c->layout;
        (void)json_array_append_new(cards,
                                    json_pack("{s:s, s:s*, s:s, s:s, s:i, s:b}", "card", c->card,
                                              "source", c->source, "layout", f->layout, "makes",
                                              f->at, "goes", (int)f->cost.goes, "modeChanges",
                                              f->cost.modes > 0));
    }
    json_t *change = json_pack("{s:s, s:o}", "node", y->fix_node, "cards", cards);
    if (y->config)
        (void)json_object_set_new(change, "label",
                                  json_pack("{s:s, s:s, s:O}", "key", LABEL_MIG_CONFIG, "value",
                                            JX_STR_AT(y->config, "metadata", "name"), "config",
                                            y->config));
    return change;
}

json_t *why_json(const struct why *y)
{
    auto_free char *words = verdict(y);
    json_t *nodes = json_array();
    for (size_t i = 0; i < y->n_nodes; i++)
        (void)json_array_append_new(nodes, node_json(&y->nodes[i]));
    json_t *o = json_pack("{s:s, s:I, s:s, s:o}", "resource", y->resource, "count",
                          (json_int_t)y->count, "verdict", words, "nodes", nodes);
    auto_free char *unknown = why_unknown(y);
    auto_free char *near = unknown ? known_names_near(y->known, y->resource) : NULL;
    text_set(o, "nearest", near);
    if (y->slots)
        (void)json_object_set_new(o, "asks", json_string(y->slots->words));
    if (y->fix_node && !why_has_room(y))
        (void)json_object_set_new(o, "change", fix_json(y));
    if (y->effort.cut && !why_has_room(y))
        (void)json_object_set_new(o, "incomplete", json_true());
    return o;
}
