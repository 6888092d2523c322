/* SPDX-License-Identifier: Apache-2.0 */
#include "kubectl/plan_text.h"

#include <string.h>

#include "base/xalloc.h"

#include "kubectl/safe_text.h"
#include "kubectl/status_card.h"
#include "kubectl/word_list.h"

/* Nodes that one line of the order names; a large cluster's order is in -o json. */
enum { MAX_NAMED = 20, MAX_OTHERS_BYTES = 4096 };

struct sums {
    size_t changing, only_orders, standing, refusing, rejected, ill, goes, comes, evicted,
        waited_for;
};

/* --- Lines --- */

static void add_line(struct sb *b, const struct screen *s, enum ink ink, const char *before,
                     const char *text)
{
    sb_add(b, before);
    screen_paint_foreign(s, b, ink, text);
    sb_add_char(b, '\n');
}

static void add_parts(struct sb *b, const struct screen *s, enum ink ink, const char *heading,
                      const struct plan_parts *parts)
{
    struct word_list l = {.out = b, .screen = s, .heading = heading, .ink = ink};
    for (size_t i = 0; i < parts->n; i++)
        word_list_add(&l, parts->items[i]);
    word_list_end(&l);
}

static char *user_words(const struct plan_user *u)
{
    if (u->name)
        return xasprintf("%s/%s", u->ns ? u->ns : "", u->name);
    if (u->uid)
        return xasprintf("the pod with uid %s", u->uid);
    return xasprintf("%s (pid %lld)", u->process ? u->process : "a process", (long long)u->pid);
}

static void add_users(struct sb *b, const struct screen *s, const struct card_plan_view *c)
{
    struct word_list evicted = {.out = b, .screen = s, .heading = "    evicts  ", .ink = INK_BAD};
    struct word_list waits = {.out = b, .screen = s, .heading = "    waits for  ", .ink = INK_BUSY};
    for (size_t pass = 0; pass < 2; pass++) {
        struct word_list *l = pass ? &waits : &evicted;
        for (size_t i = 0; i < c->n_users; i++) {
            auto_free char *words = user_words(&c->users[i]);
            if (plan_user_is_evicted(c, &c->users[i]) != (pass == 1))
                word_list_add(l, words);
        }
        word_list_end(l);
    }
    if (c->n_users == 0 && c->fate == FATE_DRAINS)
        add_line(b, s, INK_BUSY, "    waits: ", c->message);
}

/* --- Cards --- */

/* True for a card that cannot change because it is ill. One that is as wanted is shown like any
 * other. */
static bool is_ill(const struct card_plan_view *c)
{
    return c->fate == FATE_CANNOT && c->ill;
}

static void add_card_head(struct sb *b, const struct screen *s, const struct card_plan_view *c)
{
    static const char *const words[] = {[FATE_STAYS] = "as wanted",
                                        [FATE_CHANGES] = "changes",
                                        [FATE_DRAINS] = "changes when it is free",
                                        [FATE_CANNOT] = "cannot be"};
    static const enum ink inks[] = {[FATE_STAYS] = INK_DIM,
                                    [FATE_CHANGES] = INK_GOOD,
                                    [FATE_DRAINS] = INK_BUSY,
                                    [FATE_CANNOT] = INK_BAD};
    auto_free char *title = status_card_title(c->vendor, c->index);
    auto_free char *model = safe_text(c->model);
    auto_free char *source = safe_text(c->source);
    sb_addf(b, "  %s  %s  by %s: ", title, model, source);
    const char *word = c->fate == FATE_STAYS && c->sharing ? "its sharing changes" : words[c->fate];
    if (is_ill(c))
        word = "stays as it is, for it is ill";
    screen_paint(s, b, inks[c->fate], word);
    sb_add_char(b, '\n');
}

static void add_card(struct sb *b, const struct screen *s, const struct card_plan_view *c)
{
    add_card_head(b, s, c);
    if (c->fate == FATE_CANNOT) {
        auto_free char *why = xasprintf("%s: %s", c->reason, c->message);
        add_line(b, s, INK_BAD, "    ", why);
        return;
    }
    if (c->mode != c->wanted_mode) {
        auto_free char *modes =
            xasprintf("from %s to %s", api_mode_names[c->mode], api_mode_names[c->wanted_mode]);
        add_line(b, s, INK_PLAIN, "    mode    ", modes);
    }
    if (c->fate != FATE_STAYS) {
        add_parts(b, s, INK_DIM, "    stays   ", &c->stays);
        add_parts(b, s, INK_BAD, "    goes    ", &c->goes);
        add_parts(b, s, INK_GOOD, "    comes   ", &c->comes);
    }
    if (c->sharing) {
        auto_free char *words = xasprintf("from %s to %s", c->sharing, c->wanted_sharing);
        add_line(b, s, INK_PLAIN, "    sharing ", words);
    }
    add_users(b, s, c);
}

/* --- Nodes --- */

/* The number of the card in a message, "… GPU 3 …"; NULL: it names none. */
static const char *card_in(const char *message)
{
    const char *at = strstr(message, "GPU ");
    at = at ? at + strlen("GPU ") : NULL;
    return at && strspn(at, "0123456789") ? at : NULL;
}

/* True when the two differ in the card's number at most. */
static bool is_like(const struct plan_problem *a, const struct plan_problem *b)
{
    const char *x = card_in(a->message);
    const char *y = card_in(b->message);
    return x && y && a->refused == b->refused && strcmp(a->source, b->source) == 0 &&
           strcmp(a->reason, b->reason) == 0 && x - a->message == y - b->message &&
           strncmp(a->message, b->message, (size_t)(x - a->message)) == 0 &&
           strcmp(x + strspn(x, "0123456789"), y + strspn(y, "0123456789")) == 0;
}

static bool is_said(const struct node_plan *n, size_t i)
{
    for (size_t k = 0; k < i; k++)
        if (is_like(&n->problems[k], &n->problems[i]))
            return true;
    return false;
}

/* The other cards with this problem: "; the same of GPU 1, 2, 3". Caller frees. */
static char *others_like(const struct node_plan *n, size_t i)
{
    auto_sb struct sb b = SB_INIT(MAX_OTHERS_BYTES);
    for (size_t k = i + 1; k < n->n_problems; k++) {
        const char *card = card_in(n->problems[k].message);
        if (is_like(&n->problems[i], &n->problems[k]))
            sb_addf(&b, "%s%.*s", b.len ? ", " : "; the same of GPU ",
                    (int)strspn(card, "0123456789"), card);
    }
    return sb_take(&b);
}

static void add_problem(struct sb *b, const struct screen *s, const struct node_plan *n, size_t i)
{
    const struct plan_problem *p = &n->problems[i];
    auto_free char *others = others_like(n, i);
    auto_free char *words =
        xasprintf("%s%s%s: %s%s", p->source, *p->source ? ": " : "", p->reason, p->message, others);
    bool cannot = p->refused && p->of_file;
    add_line(b, s, cannot ? INK_BAD : INK_BUSY, cannot ? "  cannot be: " : "  note: ", words);
}

/* Cards with the same problem share a line. */
static void add_problems(struct sb *b, const struct screen *s, const struct node_plan *n)
{
    for (size_t i = 0; i < n->n_problems; i++)
        if (!is_said(n, i))
            add_problem(b, s, n, i);
}

static void add_node(struct sb *b, const struct screen *s, const struct node_plan *n)
{
    screen_paint_foreign(s, b, INK_STRONG, n->name);
    sb_add(b, n->cards_change ? "\n"
              : n->changes    ? "  only Device.spec changes, no card\n"
                              : "  nothing changes\n");
    add_problems(b, s, n);
    for (size_t i = 0; i < n->n_cards; i++)
        if (n->cards_change || n->cards[i].fate == FATE_CANNOT)
            add_card(b, s, &n->cards[i]);
}

/* --- Order --- */

static void add_names(struct sb *b, const struct screen *s, const char *heading, char *const *names,
                      size_t n)
{
    struct word_list l = {.out = b, .screen = s, .heading = heading};
    for (size_t i = 0; i < n && i < MAX_NAMED; i++)
        word_list_add(&l, names[i]);
    if (n > MAX_NAMED) {
        auto_free char *more = xasprintf("and %zu more", n - MAX_NAMED);
        word_list_add(&l, more);
    }
    word_list_end(&l);
}

static void add_duration(struct sb *b, int64_t seconds)
{
    enum { MINUTE = 60, HOUR = 60 * MINUTE };
    if (seconds < 2 * MINUTE)
        sb_addf(b, "%lld s", (long long)seconds);
    else if (seconds < 2 * HOUR)
        sb_addf(b, "%lld min", (long long)(seconds + MINUTE / 2) / MINUTE);
    else
        sb_addf(b, "%lld h", (long long)(seconds + HOUR / 2) / HOUR);
}

static void add_pace(struct sb *b, const struct plan_time *t)
{
    if (t->samples == 0) {
        sb_add(b, "  how long it takes is not known: no node's last order changed a card\n");
        return;
    }
    sb_add(b, "  takes about ");
    add_duration(b, t->all_s);
    sb_addf(b,
            "%s, if each node takes %lld s: the median of the last changes of %zu node%s, whatever "
            "they changed; the longest took %lld s\n",
            t->evicting || t->waiting ? " beside what it waits for" : "", (long long)t->node_s,
            t->samples, t->samples == 1 ? "" : "s", (long long)t->node_most_s);
}

static void add_time(struct sb *b, const struct plan_queue *q)
{
    const struct plan_time *t = &q->time;
    if (q->paused)
        return;
    add_pace(b, t);
    if (t->evicting) {
        sb_addf(b, "  %zu node%s evict%s pods first, each for at most ", t->evicting,
                t->evicting == 1 ? "" : "s", t->evicting == 1 ? "s" : "");
        add_duration(b, t->evicting_most_s);
        sb_add(b, " (rollout.timeoutSeconds)\n");
    }
    if (t->waiting)
        sb_addf(b, "  %zu node%s wait%s for users whom nobody evicts: for how long is not known\n",
                t->waiting, t->waiting == 1 ? "" : "s", t->waiting == 1 ? "s" : "");
}

/* Adds the rejection of a profile which the plan of no node tells. */
static void add_rejection(struct sb *b, const struct screen *s, const struct plan_queue *q)
{
    const struct profile_verdict *v = &q->verdict;
    auto_free char *words = xasprintf("%s: %s: %s", q->profile, v->reason, v->message);
    add_line(b, s, INK_BAD, "Cannot be: ", words);
}

static void add_queue(struct sb *b, const struct screen *s, const struct plan_queue *q)
{
    if (q->n_waiting == 0 && q->n_in_change == 0)
        return;
    auto_free char *name = safe_text(q->profile);
    auto_free char *max = safe_text(q->max_unavailable);
    if (q->paused)
        sb_addf(b, "Order of %s: none begins, since it is paused (spec.paused)\n", name);
    else
        sb_addf(b,
                "Order of %s: by name, at most %zu node%s at a time (rollout.maxUnavailable: %s)\n",
                name, q->at_once, q->at_once == 1 ? "" : "s", max);
    add_names(b, s, "  in change already  ", q->in_change, q->n_in_change);
    add_names(b, s, "  ", q->waiting, q->n_waiting);
    add_time(b, q);
}

/* --- Sums --- */

static void sum_card(const struct card_plan_view *c, struct sums *ret)
{
    ret->goes += c->goes.n;
    ret->comes += c->comes.n;
    ret->ill += is_ill(c);
    for (size_t i = 0; i < c->n_users; i++)
        *(plan_user_is_evicted(c, &c->users[i]) ? &ret->evicted : &ret->waited_for) += 1;
}

static struct sums sum_up(const struct cluster_plan *p)
{
    struct sums r = {0};
    for (size_t i = 0; i < p->n_nodes; i++) {
        const struct node_plan *n = &p->nodes[i];
        *(n->changes ? &r.changing : &r.standing) += 1;
        r.only_orders += n->changes && !n->cards_change;
        r.refusing += node_plan_refuses(n);
        for (size_t k = 0; k < n->n_cards; k++)
            sum_card(&n->cards[k], &r);
    }
    for (size_t i = 0; i < p->n_queues; i++)
        r.rejected += cluster_plan_rejects(p, &p->queues[i]);
    return r;
}

static void add_count(struct sb *b, size_t n, const char *one, const char *many)
{
    if (n)
        sb_addf(b, ", %zu %s", n, n == 1 ? one : many);
}

static void add_sums(struct sb *b, const struct cluster_plan *p)
{
    const struct sums r = sum_up(p);
    if (p->n_nodes == 0)
        sb_addf(b, "Plan: concerns none of %zu nodes with a Device", p->n_devices);
    else
        sb_addf(b, "Plan: %zu of %zu nodes change%s", r.changing, p->n_nodes,
                r.changing == 1 ? "s" : "");
    add_count(b, r.only_orders, "of them in Device.spec only", "of them in Device.spec only");
    add_count(b, r.goes, "part goes", "parts go");
    add_count(b, r.comes, "part comes", "parts come");
    add_count(b, r.evicted, "pod is evicted", "pods are evicted");
    add_count(b, r.waited_for, "user is waited for", "users are waited for");
    add_count(b, r.refusing, "node cannot be as asked", "nodes cannot be as asked");
    add_count(b, r.rejected, "profile cannot be as asked", "profiles cannot be as asked");
    add_count(b, r.ill, "card is ill", "cards are ill");
    sb_add_char(b, '\n');
}

void plan_text(const struct cluster_plan *p, const struct screen *s, struct sb *ret)
{
    for (size_t i = 0; i < p->n_nodes; i++)
        add_node(ret, s, &p->nodes[i]);
    if (p->n_nodes)
        sb_add_char(ret, '\n');
    for (size_t i = 0; i < p->n_queues; i++)
        if (cluster_plan_rejects(p, &p->queues[i]))
            add_rejection(ret, s, &p->queues[i]);
    for (size_t i = 0; i < p->n_queues; i++)
        add_queue(ret, s, &p->queues[i]);
    add_sums(ret, p);
}
