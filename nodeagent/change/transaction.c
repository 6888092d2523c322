/* SPDX-License-Identifier: Apache-2.0 */
#include "nodeagent/change/transaction.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/auto.h"
#include "base/log.h"

#include "nodeagent/change/card_run.h"
#include "nodeagent/change/journal.h"
#include "nodeagent/mode/card_mode.h"

/* Bound on planning again because the card changed between two readings. */
#define MAX_PLANS 3
/* A rollback works on hardware that just failed: one more try is worth it, a third is not. */
#define MAX_ROLLBACKS 2

struct txn {
    const struct txn_deps *d;
    const char *uuid;
    enum txn_policy policy;
    struct journal journal;
    bool has_left;       /* an earlier change has not ended: the card may be between two layouts */
    struct journal left; /* its journal, valid when has_left */
    struct txn_result *ret;
};

const char *txn_outcome_name(enum txn_outcome o)
{
    static const char *const names[] = {
        [TXN_APPLIED] = "Applied",
        [TXN_NOTHING_TO_DO] = "NothingToDo",
        [TXN_IN_USE] = "InUse",
        [TXN_ROLLED_BACK] = "RolledBack",
        [TXN_HELD] = "Held",
        [TXN_NOT_WITHDRAWN] = "NotWithdrawn",
        [TXN_INFEASIBLE] = "Infeasible",
        [TXN_RESET_REQUIRED] = "ResetRequired",
        [TXN_REBOOT_REQUIRED] = "RebootRequired",
        [TXN_FAILED] = "Failed",
    };
    static_assert(ARRAY_LEN(names) == TXN_FAILED + 1, "a name for each");
    return (size_t)o < ARRAY_LEN(names) ? names[o] : "Unknown";
}

static void conclude(struct txn_result *ret, enum txn_outcome outcome, const char *reason,
                     const char *fmt, ...) PRINTF_LIKE(4, 5);

static void conclude(struct txn_result *ret, enum txn_outcome outcome, const char *reason,
                     const char *fmt, ...)
{
    va_list ap;
    assert(outcome <= TXN_FAILED && *reason && strlen(reason) < sizeof(ret->reason));
    ret->outcome = outcome;
    (void)snprintf(ret->reason, sizeof(ret->reason), "%s", reason);
    va_start(ap, fmt);
    (void)vsnprintf(ret->message, sizeof(ret->message), fmt, ap);
    va_end(ap);
}

static const char *reason_or(const struct err *e, const char *otherwise)
{
    return e->reason ? e->reason : otherwise;
}

static bool has_reason(const struct err *e, const char *reason)
{
    return e->reason && strcmp(e->reason, reason) == 0;
}

static bool is_in_use(const struct err *e)
{
    return has_reason(e, "InUse");
}

static int err_reason(struct err *e, const char *reason, const char *text)
{
    int rc = err_set(e, ERR_UNAVAILABLE, "%s", text);
    if (e)
        e->reason = reason;
    return rc;
}

/* --- looking at the card --- */

/* A fresh reading with all known users. *ret was zeroed. */
static int read_with_users(struct txn *t, struct gpu_card *ret, struct err *e)
{
    TRY(t->d->gpu->ops->read_card(t->d->gpu, t->uuid, ret, e));
    if (t->d->observe)
        t->d->observe(t->d->arg, ret);
    return 0;
}

static int check_withdrawn(const struct txn *t, const struct card_steps *steps, struct err *e)
{
    if (!t->d->offered || card_offer_allows(t->d->offered, steps))
        return 0;
    return err_reason(e, "NotWithdrawn", "what would have to go is still on offer");
}

/* The steps to a layout. ERR_UNAVAILABLE, reason InUse or NotWithdrawn: something in use or on
 * offer blocks them. */
static int steps_to(const struct txn *t, const struct gpu_card *card,
                    const struct card_layout *layout, struct card_steps *ret, struct err *e)
{
    card_steps_to(card, layout, ret);
    if (ret->blocking || ret->card_blocking)
        return err_reason(e, "InUse", "what would have to go is in use");
    return check_withdrawn(t, ret, e);
}

/* --- going to a layout --- */

/* True when the card matches the layout. The compute slices of instances count only with a driver
 * that accepts them; an old driver chooses them itself, and then the sizes decide. */
static bool stands(const struct gpu_card *card, const struct card_layout *layout)
{
    struct card_layout anywhere = *layout;
    for (unsigned i = 0; i < anywhere.n; i++)
        for (unsigned c = 0; c < anywhere.items[i].n_cis; c++)
            anywhere.items[i].ci_starts[c] = -1;
    return card_layout_matches(card, &anywhere);
}

static int check_stands(const struct gpu_card *card, const struct card_layout *layout,
                        struct err *e)
{
    if (stands(card, layout))
        return 0;
    return err_set(e, ERR_CONFLICT, "read back: the card does not show the layout it was given");
}

static int verify(struct txn *t, const struct card_layout *layout, struct err *e)
{
    auto_gpu_card struct gpu_card card = {0};
    TRY(read_with_users(t, &card, e));
    return check_stands(&card, layout, e);
}

/* The slices that an interrupted change made and did not name any more. */
static uint32_t unnamed(const struct journal *j, const struct gpu_card *card)
{
    return card_slices_unnamed(card, &j->nameless, &j->old.sgpu) |
           card_slices_unnamed(card, &j->nameless, &j->target.sgpu);
}

/* Without this they would count as foreign for ever: only the journal knows them. */
static int remove_unnamed(struct txn *t, struct err *e)
{
    auto_gpu_card struct gpu_card card = {0};
    if (t->journal.old.mode != GPU_SGPU && t->journal.target.mode != GPU_SGPU)
        return 0;
    TRY(read_with_users(t, &card, e));
    uint32_t ours = unnamed(&t->journal, &card);
    for (unsigned i = 0; i < card.sgpu.n; i++) {
        auto_err struct err why = {0};
        if (!(ours & (1U << i)))
            continue;
        t->ret->changed = true;
        const struct gpu_ops *ops = t->d->gpu->ops;
        if (ops->slice_destroy(t->d->gpu, t->uuid, card.sgpu.items[i].id, &why) < 0 &&
            why.kind != ERR_NOT_FOUND)
            return err_move(e, &why);
    }
    return 0;
}

/* Looks, takes the steps and verifies. Touches nothing when something in use blocks. */
static int reach_layout(struct txn *t, const struct card_layout *layout, struct err *e)
{
    TRY(remove_unnamed(t, e));
    auto_gpu_card struct gpu_card card = {0};
    struct card_steps steps;
    unsigned done = 0;
    TRY(read_with_users(t, &card, e));
    TRY(steps_to(t, &card, layout, &steps, e));
    if (steps.n == 0)
        return check_stands(&card, layout, e); /* some layouts are reached without steps */
    t->ret->changed = true;
    TRY(card_steps_run(t->d->gpu, &card, &steps, &done, e));
    return verify(t, layout, e);
}

/* --- the journal's ends --- */

/* The hardware is as it should be. A journal that cannot be removed is reported; the next run finds
 * everything in order and removes it. */
static void close_journal(struct txn *t)
{
    auto_err struct err why = {0};
    t->has_left = false;
    if (journal_remove(t->d->state_dir, t->uuid, &why) < 0)
        conclude(t->ret, TXN_FAILED, "JournalNotClosed", "%s, but: %s",
                 txn_outcome_name(t->ret->outcome), err_msg(&why));
}

/* Records why the direction changes. If that fails, the older record still leads to the old layout
 * or the target. */
static void turn(struct txn *t, enum journal_phase phase, const struct err *why)
{
    assert(phase != JOURNAL_FORWARD && t->ret->steps <= CARD_MAX_STEPS);
    t->journal.phase = phase;
    t->journal.step = t->ret->steps;
    (void)snprintf(t->journal.note, sizeof(t->journal.note), "%s", err_msg(why));
    auto_err struct err unsaid = {0};
    if (journal_write(t->d->state_dir, &t->journal, &unsaid) < 0)
        log_debug("Could not update journal", kv("gpu", t->uuid), kv_err(&unsaid));
}

/* --- after a failed step --- */

static void roll_back(struct txn *t, const struct err *why)
{
    auto_err struct err again = {0};
    turn(t, JOURNAL_BACK, why);
    int rc = -1;
    for (int i = 0; i < MAX_ROLLBACKS && rc < 0 && !is_in_use(&again); i++)
        rc = reach_layout(t, &t->journal.old, &again);
    if (rc == 0) {
        conclude(t->ret, TXN_ROLLED_BACK, reason_or(why, "StepFailed"),
                 "%s; the previous layout stands again", err_msg(why));
        close_journal(t);
        return;
    }
    conclude(t->ret, TXN_FAILED, is_in_use(&again) ? "InUse" : "RollbackFailed",
             "%s; going back: %s; will be tried again", err_msg(why), err_msg(&again));
}

static void hold(struct txn *t, const struct card_step *at, const struct err *why)
{
    bool reset = at && at->kind == CARD_RESET;
    turn(t, JOURNAL_HELD, why);
    conclude(t->ret, reset ? TXN_RESET_REQUIRED : TXN_HELD, reason_or(why, "StepFailed"),
             "%s; held there after %u steps, as the policy says", err_msg(why), t->ret->steps);
}

/* A failed call may have worked all the same: what the card shows decides. */
static void after_failure(struct txn *t, const struct card_step *at, const struct err *why)
{
    if (why->reason && strcmp(why->reason, "RebootRequired") == 0) {
        conclude(t->ret, TXN_REBOOT_REQUIRED, "RebootRequired", "%s", err_msg(why));
        close_journal(t);
    } else if (verify(t, &t->journal.target, NULL) == 0) {
        conclude(t->ret, TXN_APPLIED, "Applied", "the card shows the layout, although %s",
                 err_msg(why));
        close_journal(t);
    } else if (t->policy == TXN_HOLD) {
        hold(t, at, why);
    } else {
        roll_back(t, why);
    }
}

/* --- going forward --- */

static void go_forward(struct txn *t, const struct gpu_card *card, const struct card_steps *steps)
{
    auto_err struct err why = {0};
    assert(steps->n > 0 && t->journal.phase == JOURNAL_FORWARD);
    t->ret->changed = true;
    int rc = card_steps_run(t->d->gpu, card, steps, &t->ret->steps, &why);
    assert(rc == 0 || t->ret->steps < steps->n);
    const struct card_step *at = rc < 0 ? &steps->items[t->ret->steps] : NULL;
    if (rc == 0)
        rc = verify(t, &t->journal.target, &why);
    if (rc < 0) {
        after_failure(t, at, &why);
        return;
    }
    conclude(t->ret, TXN_APPLIED, "Applied", "the card shows the layout");
    close_journal(t);
}

static bool same_steps(const struct card_steps *a, const struct card_steps *b)
{
    return a->n == b->n && memcmp(a->items, b->items, a->n * sizeof(a->items[0])) == 0;
}

static int open_journal(struct txn *t, const struct gpu_card *card, const struct card_plan *plan,
                        struct err *e)
{
    struct journal *j = &t->journal;
    *j = (struct journal){.phase = JOURNAL_FORWARD, .target = plan->target};
    assert(strlen(t->uuid) < sizeof(j->uuid)); /* a card with this uuid was read */
    (void)snprintf(j->uuid, sizeof(j->uuid), "%s", t->uuid);
    (void)snprintf(j->boot_id, sizeof(j->boot_id), "%s", t->d->boot_id ? t->d->boot_id : "");
    if (t->has_left)
        j->old = t->left.old; /* the last complete layout is the one to go back to */
    else
        card_layout_of(card, &j->old);
    card_slices_nameless(card, t->has_left ? unnamed(&t->left, card) : 0, &j->nameless);
    return journal_write(t->d->state_dir, j, e);
}

/* Nothing was touched: restores the journal of the earlier change, or removes this one. */
static void unwrite_journal(struct txn *t)
{
    if (!t->has_left) {
        close_journal(t);
        return;
    }
    auto_err struct err why = {0};
    if (journal_write(t->d->state_dir, &t->left, &why) < 0)
        log_debug("Could not update journal", kv("gpu", t->uuid), kv_err(&why));
}

/* Ends before any step. */
static void end_untouched(struct txn *t, const struct err *why, const char *otherwise)
{
    enum txn_outcome outcome = is_in_use(why)                    ? TXN_IN_USE
                               : has_reason(why, "NotWithdrawn") ? TXN_NOT_WITHDRAWN
                                                                 : TXN_FAILED;
    conclude(t->ret, outcome, reason_or(why, otherwise), "%s; nothing was changed", err_msg(why));
}

/* The last look, with the journal written: a new user stops the change here, before the first
 * destructive step. False: the card differs from the one that was planned for. */
static bool carry_out(struct txn *t, const struct card_plan *plan)
{
    auto_err struct err why = {0};
    auto_gpu_card struct gpu_card card = {0};
    struct card_steps steps;
    int rc = read_with_users(t, &card, &why);
    if (rc == 0)
        rc = steps_to(t, &card, &plan->target, &steps, &why);
    if (rc < 0) {
        end_untouched(t, &why, "Failed");
        unwrite_journal(t);
        return true;
    }
    if (!same_steps(&steps, &plan->steps)) {
        unwrite_journal(t); /* the next plan may need no steps */
        return false;
    }
    go_forward(t, &card, &steps);
    return true;
}

/* Handles a verdict that needs no steps. True: the change is over. */
static bool told_by_verdict(struct txn *t, const struct card_plan *plan)
{
    switch (plan->verdict) {
    case CARD_NOTHING:
        conclude(t->ret, TXN_NOTHING_TO_DO, "Applied", "the card is as wanted");
        close_journal(t); /* of an earlier change that was held */
        return true;
    case CARD_DRAIN:
        conclude(t->ret, TXN_IN_USE, plan->reason, "%s", plan->message);
        return true;
    case CARD_INFEASIBLE:
        conclude(t->ret, TXN_INFEASIBLE, plan->reason, "%s", plan->message);
        return true;
    case CARD_CHANGE:
    default:
        return false;
    }
}

static int prepare(struct txn *t, const struct gpu_card *card, const struct card_plan *plan,
                   struct err *e)
{
    TRY(check_withdrawn(t, &plan->steps, e));
    return open_journal(t, card, plan, e);
}

/* One round of look, plan, prepare, carry out. False: the card changed meanwhile; plan again. */
static bool attempt(struct txn *t, const struct card_wish *wish)
{
    auto_err struct err why = {0};
    auto_gpu_card struct gpu_card card = {0};
    struct card_plan plan;
    if (read_with_users(t, &card, &why) < 0) {
        end_untouched(t, &why, "ReadFailed");
        return true;
    }
    card_plan(&card, wish, &plan);
    if (told_by_verdict(t, &plan))
        return true;
    if (prepare(t, &card, &plan, &why) < 0) {
        end_untouched(t, &why, "NotPrepared");
        unwrite_journal(t); /* a failed write may have left one */
        return true;
    }
    return carry_out(t, &plan);
}

/* --- after a crash --- */

/* The state of an earlier change. */
enum leftover {
    LEFT_NOTHING,  /* there was none, or it was just ended */
    LEFT_STANDING, /* its journal, now in t->journal, could not be closed */
    LEFT_UNUSABLE, /* its journal cannot be understood */
};

static enum leftover read_journal(struct txn *t)
{
    auto_err struct err why = {0};
    int rc = journal_read(t->d->state_dir, t->uuid, &t->journal, &why);
    if (rc == 0)
        return LEFT_STANDING;
    if (why.kind == ERR_NOT_FOUND) {
        conclude(t->ret, TXN_NOTHING_TO_DO, "NoJournal", "no change was under way");
        return LEFT_NOTHING;
    }
    const char *otherwise = why.kind == ERR_PROTOCOL ? "JournalCorrupt" : "JournalUnreadable";
    conclude(t->ret, TXN_FAILED, reason_or(&why, otherwise), "%s; the card was not touched",
             err_msg(&why));
    t->ret->other_version = why.kind == ERR_CONFLICT;
    return LEFT_UNUSABLE;
}

static bool rebooted_since(const struct txn *t)
{
    const char *now = t->d->boot_id;
    return now && now[0] && t->journal.boot_id[0] && strcmp(now, t->journal.boot_id) != 0;
}

static enum leftover recovered(struct txn *t, bool forward)
{
    const char *how =
        forward ? "an interrupted change was completed" : "an interrupted change was taken back";
    conclude(t->ret, forward ? TXN_APPLIED : TXN_ROLLED_BACK, "Recovered", "%s", how);
    close_journal(t);
    if (t->ret->outcome != TXN_FAILED)
        t->ret->recovered = how;
    return LEFT_NOTHING;
}

static enum leftover finish_interrupted(struct txn *t)
{
    auto_err struct err first = {0};
    auto_err struct err second = {0};
    const struct journal *j = &t->journal;
    bool forward = j->phase == JOURNAL_FORWARD;
    const struct card_layout *one = forward ? &j->target : &j->old;
    const struct card_layout *other = forward ? &j->old : &j->target;
    if (reach_layout(t, one, &first) == 0)
        return recovered(t, forward);
    if (reach_layout(t, other, &second) == 0)
        return recovered(t, !forward);
    bool blocked = is_in_use(&first) && is_in_use(&second);
    conclude(t->ret, TXN_FAILED, blocked ? "InUse" : "RecoveryFailed",
             "an interrupted change can neither go on (%s) nor back (%s)",
             err_msg(forward ? &first : &second), err_msg(forward ? &second : &first));
    return LEFT_STANDING;
}

/* Virtual functions are made only on an unused card; then nothing of either layout is left. */
static bool was_overtaken(struct txn *t)
{
    auto_gpu_card struct gpu_card card = {0};
    return read_with_users(t, &card, NULL) == 0 && card_mode_of(card.mode)->fixed;
}

static enum leftover dropped(struct txn *t, const char *reason, const char *message)
{
    conclude(t->ret, TXN_NOTHING_TO_DO, reason, "%s", message);
    close_journal(t);
    return LEFT_NOTHING;
}

static enum leftover end_interrupted(struct txn *t)
{
    enum leftover found = read_journal(t);
    if (found != LEFT_STANDING)
        return found;
    if (rebooted_since(t))
        return dropped(t, "Rebooted", "the machine was rebooted during a change");
    if (was_overtaken(t))
        return dropped(t, "Overtaken", "the card was given virtual functions during a change");
    if (t->journal.phase == JOURNAL_HELD) {
        conclude(t->ret, TXN_HELD, "Held", "%s", t->journal.note);
        return LEFT_STANDING;
    }
    return finish_interrupted(t);
}

/* --- the change --- */

static void change(struct txn *t, const struct card_wish *wish)
{
    bool over = false;
    for (int i = 0; i < MAX_PLANS && !over; i++)
        over = attempt(t, wish);
    if (!over)
        conclude(t->ret, TXN_FAILED, "CardChanges",
                 "the card changes by itself; nothing was changed");
}

/* A change that can be neither completed nor rolled back must not keep the card from the present
 * want: the plan starts from the present layout. Only a journal that cannot be understood stops
 * this. */
void txn_apply(const struct txn_deps *d, const char *uuid, const struct card_wish *wish,
               enum txn_policy policy, struct txn_result *ret)
{
    assert(d && d->gpu && d->state_dir && uuid && wish && ret);
    struct txn t = {.d = d, .uuid = uuid, .policy = policy, .ret = ret};
    *ret = (struct txn_result){0};
    enum leftover leftover = end_interrupted(&t);
    if (leftover == LEFT_UNUSABLE)
        return;
    t.has_left = leftover == LEFT_STANDING;
    t.left = t.journal;
    if (t.has_left)
        (void)!remove_unnamed(&t,
                              /* e= */ NULL); /* if some stay, the plan reports what they block */
    *ret = (struct txn_result){.changed = ret->changed, .recovered = ret->recovered};
    change(&t, wish);
}

void txn_recover(const struct txn_deps *d, const char *uuid, struct txn_result *ret)
{
    assert(d && d->gpu && d->state_dir && uuid && ret);
    struct txn t = {.d = d, .uuid = uuid, .policy = TXN_ROLLBACK, .ret = ret};
    *ret = (struct txn_result){0};
    (void)end_interrupted(&t);
}
