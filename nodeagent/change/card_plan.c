/* SPDX-License-Identifier: Apache-2.0 */
#include "nodeagent/change/card_plan.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/sb.h"
#include "base/xalloc.h"

#include "nodeagent/mode/card_mode.h"

bool card_wish_equal(const struct card_wish *a, const struct card_wish *b)
{
    return a->mode == b->mode && memcmp(&a->wants, &b->wants, sizeof(a->wants)) == 0 &&
           sgpu_wants_equal(&a->sgpu, &b->sgpu);
}

static void infeasible(struct card_plan *ret, const char *reason, const char *message)
{
    assert(*reason); /* a condition needs one */
    ret->verdict = CARD_INFEASIBLE;
    ret->reason = reason;
    (void)snprintf(ret->message, sizeof(ret->message), "%s", message);
}

static void add_users(const struct gpu_card *card, int part, struct sb *b)
{
    unsigned shown = 0;
    for (unsigned i = 0; i < card->n_users; i++) {
        const struct gpu_user *p = &card->users[i];
        bool holds_all = p->is_pod && p->part < 0;
        if (part >= 0 && p->part != part && !holds_all)
            continue;
        if (shown++ >= 3)
            continue;
        const char *nameless = p->is_pod ? "a pod" : "a process";
        sb_addf(b, "%s%s%s", shown > 1 ? ", " : " by ", p->is_pod && *p->name ? "pod " : "",
                *p->name ? p->name : nameless);
        if (!p->is_pod)
            sb_addf(b, " (pid %u)", p->pid);
    }
    if (shown > 3)
        sb_addf(b, " and %u more", shown - 3);
}

static void explain_drain(const struct gpu_card *card, struct card_plan *ret)
{
    const struct card_mode *m = card_mode_of(card->mode);
    assert(m->blocking_item || !ret->steps.blocking);
    auto_sb struct sb b = SB_INIT(sizeof(ret->message) - 1);
    for (unsigned i = 0; m->blocking_item && i < 32; i++) {
        if (!(ret->steps.blocking & (1U << i)))
            continue;
        sb_add(&b, b.len ? "; " : "");
        int number = m->blocking_item(card, i, &b);
        sb_add(&b, " is in use");
        add_users(card, number, &b);
    }
    if (ret->steps.card_blocking) {
        sb_addf(&b, "%sthe card is in use", b.len ? "; " : "");
        add_users(card, -1, &b);
        sb_add(&b, ", and this change cannot begin before that ends");
    }
    (void)snprintf(ret->message, sizeof(ret->message), "%s", sb_str(&b));
}

static bool only_creates(const struct card_steps *steps)
{
    for (unsigned i = 0; i < steps->n; i++)
        if (steps->items[i].kind != CARD_GI_CREATE && steps->items[i].kind != CARD_CI_CREATE &&
            steps->items[i].kind != CARD_SLICE_CREATE)
            return false;
    return true;
}

static void set_verdict(const struct gpu_card *card, struct card_plan *ret)
{
    card_steps_to(card, &ret->target, &ret->steps);
    if (card->users_unknown && !only_creates(&ret->steps)) {
        infeasible(ret, "UsersUnknown",
                   "the driver does not report who uses the card, so nothing on it can be removed");
        return;
    }
    for (unsigned i = 0; i < ret->steps.n; i++)
        ret->resets |= ret->steps.items[i].kind == CARD_RESET;
    ret->verdict = ret->steps.n == 0 ? CARD_NOTHING : CARD_CHANGE;
    if (ret->steps.blocking == 0 && !ret->steps.card_blocking)
        return;
    ret->verdict = CARD_DRAIN;
    ret->reason = "InUse";
    explain_drain(card, ret);
}

/* Parts of others can be neither kept nor removed by a switch of modes. */
static bool has_foreign(const struct gpu_card *card, struct card_plan *ret)
{
    for (unsigned i = 0; i < card_parts(card); i++) {
        const struct card_part p = card_part_at(card, i);
        if (!p.foreign)
            continue;
        auto_free char *why =
            xasprintf("slice %d was not made by Cleave; %s stays on until it is gone", p.number,
                      card_mode_of(card->mode)->word);
        infeasible(ret, "Infeasible", why);
        return true;
    }
    return false;
}

static bool plan_target(const struct gpu_card *card, const struct card_wish *wish,
                        struct card_plan *ret)
{
    const struct card_mode *m = card_mode_of(wish->mode);
    struct card_unfit why = {.reason = ""};
    if (m->target_of && !m->target_of(card, wish, &ret->target, &why)) {
        infeasible(ret, why.reason, why.message);
        ret->nearest = why.nearest;
        return false;
    }
    return card->mode == wish->mode || !has_foreign(card, ret);
}

/* Where the card is as wanted, the number of its parts is the administrator's. */
static void plan_fixed(const struct gpu_card *card, const struct card_wish *wish,
                       const struct card_fixed *f, struct card_plan *ret)
{
    if (card->mode == wish->mode)
        return;
    if (card_mode_of(card->mode)->fixed)
        infeasible(ret, f->stands, f->stands_why);
    else
        infeasible(ret, f->missing, f->missing_why);
}

void card_plan(const struct gpu_card *card, const struct card_wish *wish, struct card_plan *ret)
{
    assert(card && wish && ret);
    const struct card_mode *m = card_mode_of(wish->mode);
    const struct card_fixed *fixed = card_fixed_of(card, wish->mode);
    *ret = (struct card_plan){.reason = "", .target = {.mode = wish->mode}};
    if (!card->healthy) {
        infeasible(ret, "Unhealthy", card->unhealthy_message);
        return;
    }
    if (fixed) {
        plan_fixed(card, wish, fixed, ret);
        return;
    }
    if (m->is_possible && !m->is_possible(card)) {
        auto_free char *why = xasprintf("this card has no %s", m->word);
        infeasible(ret, "NotCapable", why);
        return;
    }
    if (!card_can_be_cut(card))
        return; /* native, the only possibility */
    if (plan_target(card, wish, ret))
        set_verdict(card, ret);
    assert(ret->verdict != CARD_CHANGE || (ret->steps.n > 0 && !ret->steps.blocking));
    assert(ret->target.mode == wish->mode && ret->target.n <= MIG_MAX_INSTANCES);
}
