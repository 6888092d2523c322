/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/file.h"
#include "base/xalloc.h"

#include "nodeagent/change/journal.h"
#include "nodeagent/change/transaction.h"
#include "test/unit/gpu_fake_support.h"

/*
 * Every scenario is run once undisturbed, then again with a fault at its call k, for every k. After
 * each the card shows the old layout or the target, nothing in use was attacked, no other card was
 * touched, and a clean second run reaches the target.
 */

static char dir[64];

/* Takes the place of the C library's: a folder that cannot be synced, so that a file which stands
 * there already counts as not written. */
static unsigned failing_folder_syncs;

int fsync(int fd)
{
    struct stat st;
    if (failing_folder_syncs && fstat(fd, &st) == 0 && S_ISDIR(st.st_mode)) {
        failing_folder_syncs--;
        errno = EIO;
        return -1;
    }
    return (int)syscall(SYS_fsync, fd);
}

static void make_dir(void)
{
    /* In memory where there is such a place: hundreds of journals are fsynced. */
    const char *root = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
    (void)snprintf(dir, sizeof(dir), "%s/txn-test-XXXXXX", root);
    cr_assert(mkdtemp(dir));
}

static void remove_dir(void)
{
    auto_free char *command = xasprintf("rm -rf '%s'", dir);
    cr_assert_eq(system(command), 0);
}

TestSuite(transaction, .init = make_dir, .fini = remove_dir);

/* --- scenarios --- */

struct scenario {
    const char *name;
    enum fake_model model;
    enum gpu_mode mode; /* at the start */
    struct piece {
        const char *profile;
        unsigned start;
        unsigned cis[4];
        bool in_use;
    } stands[8];
    enum gpu_mode wanted_mode;
    struct {
        const char *profile;
        unsigned ci_slices, count;
    } wants[4];
    /* Slices with quotas. */
    int qos;
    struct slice {
        const char *alias;
        struct sgpu_quota quota;
        bool in_use, foreign;
    } slices[4];
    struct sgpu_wants wanted_slices;
};

static const struct scenario scenarios[] = {
    {.name = "native to MIG on Hopper",
     .model = FAKE_H100,
     .mode = GPU_NATIVE,
     .stands = {{0}},
     .wanted_mode = GPU_MIG,
     .wants = {{"1g.10gb", 0, 2}, {"2g.20gb", 0, 1}, {"3g.40gb", 0, 1}}},
    {.name = "re-cut that keeps what can stay, one in use",
     .model = FAKE_H100,
     .mode = GPU_MIG,
     .stands = {{"3g.40gb", 0, {3}, true}, {"2g.20gb", 4, {2}, false}, {"1g.10gb", 6, {1}, false}},
     .wanted_mode = GPU_MIG,
     .wants = {{"3g.40gb", 0, 2}}},
    {.name = "shrink",
     .model = FAKE_H100,
     .mode = GPU_MIG,
     .stands = {{"1g.10gb", 0, {1}, false}, {"1g.10gb", 3, {1}, true}, {"1g.10gb", 5, {1}, false}},
     .wanted_mode = GPU_MIG,
     .wants = {{"1g.10gb", 0, 1}}},
    {.name = "MIG to native on Hopper",
     .model = FAKE_H100,
     .mode = GPU_MIG,
     .stands = {{"4g.40gb", 0, {2, 2}, false}, {"3g.40gb", 4, {3}, false}},
     .wanted_mode = GPU_NATIVE,
     .wants = {{0}}},
    {.name = "Ampere gets MIG by a reset",
     .model = FAKE_A100,
     .mode = GPU_NATIVE,
     .stands = {{0}},
     .wanted_mode = GPU_MIG,
     .wants = {{"3g.40gb", 0, 1}, {"1g.10gb+me", 0, 1}}},
    {.name = "Ampere leaves MIG by a reset",
     .model = FAKE_A100,
     .mode = GPU_MIG,
     .stands = {{"2g.20gb", 2, {1, 1}, false}, {"1g.20gb", 6, {1}, false}},
     .wanted_mode = GPU_NATIVE,
     .wants = {{0}}},
    {.name = "compute instances are cut anew, one in use",
     .model = FAKE_H100,
     .mode = GPU_MIG,
     .stands = {{"3g.40gb", 0, {2, 1}, false}, {"2g.20gb", 4, {1, 1}, true}},
     .wanted_mode = GPU_MIG,
     .wants = {{"3g.40gb", 1, 3}, {"2g.20gb", 1, 2}}},
    {.name = "everything anew",
     .model = FAKE_H100,
     .mode = GPU_MIG,
     .stands = {{"7g.80gb", 0, {4, 2, 1}, false}},
     .wanted_mode = GPU_MIG,
     .wants = {{"1g.10gb", 0, 7}}},
    {.name = "native to slices of another policy and time slice",
     .model = FAKE_C500,
     .wanted_mode = GPU_SGPU,
     .wanted_slices = {.qos = API_BURST_SHARE,
                       .timeslice_ms = 20,
                       .n = 2,
                       .items = {{"a", {1024, 10}}, {"b", {2048, 20}}}}},
    {.name = "one slice changes beside one in use and a foreign one",
     .model = FAKE_C500,
     .mode = GPU_SGPU,
     .slices = {{"a", {1024, 10}, true, false},
                {"b", {2048, 20}, false, false},
                {"x", {4096, 30}, false, true},
                {"", {128, 1}, false, true}}, /* like one that comes */
     .wanted_mode = GPU_SGPU,
     .wanted_slices = {.n = 3, .items = {{"a", {1024, 10}}, {"b", {3072, 20}}, {"c", {128, 1}}}}},
    {.name = "two slices of one name, of which one goes",
     .model = FAKE_C500,
     .mode = GPU_SGPU,
     .slices = {{"a", {1024, 10}, false, false},
                {"a", {1024, 10}, false, false},
                {"b", {2048, 20}, false, false}},
     .wanted_mode = GPU_SGPU,
     .wanted_slices = {.n = 2, .items = {{"a", {1024, 10}}, {"c", {2048, 20}}}}},
    {.name = "another policy takes every slice along",
     .model = FAKE_C500,
     .mode = GPU_SGPU,
     .qos = API_FIXED_SHARE,
     .slices = {{"a", {1024, 10}, false, false}, {"b", {2048, 20}, false, false}},
     .wanted_mode = GPU_SGPU,
     .wanted_slices = {.qos = API_BURST_SHARE,
                       .n = 2,
                       .items = {{"a", {1024, 10}}, {"b", {2048, 20}}}}},
    {.name = "slices to native",
     .model = FAKE_C500,
     .mode = GPU_SGPU,
     .slices = {{"a", {1024, 10}, false, false}, {"b", {2048, 20}, false, false}},
     .wanted_mode = GPU_NATIVE},
    {.name = "slices to slices for pods, under another policy",
     .model = FAKE_C500,
     .mode = GPU_SGPU,
     .slices = {{"a", {1024, 10}, false, false}},
     .wanted_mode = GPU_SGPU,
     .wanted_slices = {.qos = API_FIXED_SHARE, .dynamic = true}},
};

static void set_up(const struct scenario *s, struct fake_hw *hw, struct card_wish *wish)
{
    *hw = (struct fake_hw){0};
    struct fake_card *c = fake_add(hw, s->model);
    struct fake_card *other = fake_add(hw, FAKE_H100);
    other->card.mode = other->card.pending_mode = GPU_MIG;
    fake_put(other, "7g.80gb", 0, (const unsigned[]){7, 0});
    c->card.mode = c->card.pending_mode = s->mode;
    unsigned pid = 100;
    for (size_t i = 0; i < ARRAY_LEN(s->stands) && s->stands[i].profile; i++) {
        const struct piece *p = &s->stands[i];
        fake_put(c, p->profile, p->start, p->cis);
        if (p->in_use)
            fake_attach(c, (struct fake_process){.pid = pid++,
                                                 .start = (int)p->start,
                                                 .ci_start = -1});
    }
    c->card.sgpu.qos = s->qos;
    for (size_t i = 0; i < ARRAY_LEN(s->slices) && s->slices[i].alias; i++) {
        const struct slice *p = &s->slices[i];
        unsigned id = fake_slice(c, p->alias, p->quota, p->foreign);
        if (p->in_use)
            fake_attach(c, (struct fake_process){.pid = pid++, .start = (int)id, .ci_start = -1});
    }
    *wish = (struct card_wish){.mode = s->wanted_mode, .sgpu = s->wanted_slices};
    for (size_t i = 0; i < ARRAY_LEN(s->wants) && s->wants[i].profile; i++)
        wish->wants.items[wish->wants.n++] =
            (struct mig_want){.profile = fake_profile(c, s->wants[i].profile),
                              .ci_slices = s->wants[i].ci_slices,
                              .count = s->wants[i].count};
}

/* --- running and looking --- */

static void apply(struct fake_hw *hw, const struct card_wish *wish, enum txn_policy policy,
                  struct txn_result *ret)
{
    auto_gpu struct gpu *g = gpu_fake_open(hw);
    struct txn_deps d = {.gpu = g, .state_dir = dir, .boot_id = "boot-1"};
    txn_apply(&d, hw->cards[0].card.uuid, wish, policy, ret);
}

static void recover(struct fake_hw *hw, const char *boot_id, struct txn_result *ret)
{
    auto_gpu struct gpu *g = gpu_fake_open(hw);
    struct txn_deps d = {.gpu = g, .state_dir = dir, .boot_id = boot_id};
    txn_recover(&d, hw->cards[0].card.uuid, ret);
}

static bool shows(const struct fake_hw *hw, const struct card_layout *l)
{
    return card_layout_matches(&hw->cards[0].card, l);
}

static bool shows_slices(const struct sgpu_state *now, const struct card_wish *w)
{
    struct sgpu_plan p;
    sgpu_plan(now, &w->sgpu, &p);
    return w->mode == GPU_NATIVE ? now->n == 0 : p.verdict == SGPU_PLAN_NOTHING;
}

static bool shows_wish(const struct fake_hw *hw, const struct card_wish *w)
{
    const struct gpu_card *c = &hw->cards[0].card;
    if (c->mode != w->mode || c->pending_mode != w->mode)
        return false;
    if (c->sgpu_capable)
        return shows_slices(&c->sgpu, w);
    return w->mode == GPU_NATIVE ? c->state.n == 0 : mig_matches(&c->mig, &c->state, &w->wants);
}

static char *journal_path(const struct fake_hw *hw)
{
    return xasprintf("%s/%s.json", dir, hw->cards[0].card.uuid);
}

static bool has_journal(const struct fake_hw *hw)
{
    auto_free char *path = journal_path(hw);
    return access(path, F_OK) == 0;
}

static unsigned foreign_count(const struct fake_hw *hw)
{
    unsigned n = 0;
    for (unsigned i = 0; i < hw->cards[0].card.sgpu.n; i++)
        n += hw->cards[0].card.sgpu.items[i].foreign;
    return n;
}

static unsigned others_of(const struct scenario *s)
{
    unsigned n = 0;
    for (size_t i = 0; i < ARRAY_LEN(s->slices); i++)
        n += s->slices[i].foreign;
    return n;
}

/* What holds after any disturbed run and its recovery. */
static void check_whole(const struct scenario *s, const struct fake_hw *hw,
                        const struct card_layout *old, const struct card_wish *wish,
                        const char *how, unsigned k)
{
    cr_expect(shows(hw, old) || shows_wish(hw, wish), "%s: between, %s %u", s->name, how, k);
    cr_expect_eq(hw->violations, 0, "%s: attacked something in use, %s %u", s->name, how, k);
    cr_expect_eq(hw->cards[1].mutations, 0, "%s: touched another card, %s %u", s->name, how, k);
    cr_expect(!has_journal(hw), "%s: journal left, %s %u", s->name, how, k);
    cr_expect_eq(foreign_count(hw), others_of(s), "%s: left nameless, %s %u", s->name, how, k);
}

static void check_converges(const struct scenario *s, struct fake_hw *hw,
                            const struct card_wish *wish, const char *how, unsigned k)
{
    struct txn_result r;
    fake_heal(hw);
    apply(hw, wish, TXN_ROLLBACK, &r);
    cr_expect(r.outcome == TXN_APPLIED || r.outcome == TXN_NOTHING_TO_DO, "%s: %s after %s %u: %s",
              s->name, txn_outcome_name(r.outcome), how, k, r.message);
    cr_expect(shows_wish(hw, wish), "%s: not there after %s %u", s->name, how, k);
    cr_expect_eq(hw->violations, 0);
}

static unsigned undisturbed_calls(const struct scenario *s)
{
    struct fake_hw hw;
    struct card_wish wish;
    struct txn_result r;
    set_up(s, &hw, &wish);
    apply(&hw, &wish, TXN_ROLLBACK, &r);
    cr_assert_eq(r.outcome, TXN_APPLIED, "%s: %s", s->name, r.message);
    cr_assert(shows_wish(&hw, &wish), "%s", s->name);
    cr_assert(r.changed);
    cr_assert(!has_journal(&hw));
    cr_assert_eq(hw.violations, 0);
    return hw.calls;
}

/* --- faults --- */

static void fail_each_call(const struct scenario *s, bool after, unsigned count)
{
    unsigned calls = undisturbed_calls(s);
    for (unsigned k = 1; k <= calls; k++) {
        struct fake_hw hw;
        struct card_wish wish;
        struct card_layout old;
        struct txn_result r;
        set_up(s, &hw, &wish);
        card_layout_of(&hw.cards[0].card, &old);
        *(after ? &hw.fail_after_at : &hw.fail_at) = k;
        hw.fail_count = count;
        apply(&hw, &wish, TXN_ROLLBACK, &r);
        if (r.outcome == TXN_APPLIED)
            cr_expect(shows_wish(&hw, &wish), "%s: applied is a lie at %u", s->name, k);
        if (r.outcome == TXN_ROLLED_BACK)
            cr_expect(shows(&hw, &old), "%s: rolled back is a lie at %u", s->name, k);
        if (r.outcome == TXN_FAILED && has_journal(&hw)) {
            fake_heal(&hw);
            recover(&hw, "boot-1", &r);
        }
        check_whole(s, &hw, &old, &wish, after ? "failing after" : "failing at", k);
        check_converges(s, &hw, &wish, "failing", k);
    }
}

Test(transaction, failed_at_every_call_stands_old_or_new)
{
    for (size_t i = 0; i < ARRAY_LEN(scenarios); i++)
        fail_each_call(&scenarios[i], /* after= */ false, 1);
}

Test(transaction, failed_after_every_call_stands_old_or_new)
{
    for (size_t i = 0; i < ARRAY_LEN(scenarios); i++)
        fail_each_call(&scenarios[i], /* after= */ true, 1);
}

Test(transaction, failing_for_long_is_ended_by_the_next_run)
{
    for (size_t i = 0; i < ARRAY_LEN(scenarios); i++)
        for (unsigned count = 2; count <= 8; count++)
            fail_each_call(&scenarios[i], /* after= */ false, count);
}

/* The journal as it was when the process died: what the code did afterwards, a dead process would
 * not have done. */
struct grave {
    const struct fake_hw *hw;
    char *text; /* NULL: no journal */
};

static void bury(void *arg)
{
    struct grave *g = arg;
    auto_free char *path = journal_path(g->hw);
    if (file_read(path, 1 << 20, &g->text, NULL, NULL) < 0)
        g->text = NULL; /* it died before there was one */
}

static void dig_up(const struct grave *g)
{
    auto_free char *path = journal_path(g->hw);
    (void)unlink(path);
    if (g->text)
        cr_assert_eq(file_write_atomic(path, g->text, strlen(g->text), 0600, NULL), 0);
}

static void kill_once(const struct scenario *s, bool after, unsigned k, bool second_kill)
{
    struct fake_hw hw;
    struct card_wish wish;
    struct card_layout old;
    struct txn_result r;
    set_up(s, &hw, &wish);
    card_layout_of(&hw.cards[0].card, &old);
    struct grave grave = {.hw = &hw};
    *(after ? &hw.kill_after_at : &hw.kill_at) = k;
    hw.on_kill = bury;
    hw.on_kill_arg = &grave;
    apply(&hw, &wish, TXN_ROLLBACK, &r);
    dig_up(&grave);
    free(TAKE(grave.text));
    fake_heal(&hw);
    if (second_kill) {
        hw.kill_after_at = 2; /* while recovering, behind its first step */
        hw.on_kill = bury;
        recover(&hw, "boot-1", &r);
        if (hw.dead)
            dig_up(&grave);
        free(TAKE(grave.text));
        fake_heal(&hw);
    }
    recover(&hw, "boot-1", &r);
    cr_expect_neq(r.outcome, TXN_FAILED, "%s: recovery at %u: %s", s->name, k, r.message);
    check_whole(s, &hw, &old, &wish, after ? "killed after" : "killed at", k);
    check_converges(s, &hw, &wish, "killed", k);
}

static void kill_each_call(bool after, bool second_kill)
{
    for (size_t i = 0; i < ARRAY_LEN(scenarios); i++) {
        unsigned calls = undisturbed_calls(&scenarios[i]);
        for (unsigned k = 1; k <= calls; k++)
            kill_once(&scenarios[i], after, k, second_kill);
    }
}

Test(transaction, killed_before_every_call_recovers_to_old_or_new)
{
    kill_each_call(/* after= */ false, /* second_kill= */ false);
}

Test(transaction, killed_after_every_call_recovers_to_old_or_new)
{
    kill_each_call(/* after= */ true, /* second_kill= */ false);
}

Test(transaction, killed_again_while_recovering_still_recovers)
{
    kill_each_call(/* after= */ false, /* second_kill= */ true);
    kill_each_call(/* after= */ true, /* second_kill= */ true);
}

/* A hold may last for days, and people make slices by hand meanwhile. */
Test(transaction, held_change_that_goes_on_takes_its_own_nameless_slices_and_no_other)
{
    const struct scenario *s = &scenarios[9];
    unsigned calls = undisturbed_calls(s);
    unsigned held = 0;
    for (unsigned k = 1; k <= calls; k++) {
        struct fake_hw hw;
        struct card_wish wish;
        struct txn_result r;
        set_up(s, &hw, &wish);
        hw.fail_after_at = k;
        apply(&hw, &wish, TXN_HOLD, &r);
        held += r.outcome == TXN_HELD;
        (void)fake_slice(&hw.cards[0], "", (struct sgpu_quota){512, 4}, /* foreign= */ true);
        check_converges(s, &hw, &wish, "held", k);
        cr_expect_eq(foreign_count(&hw), others_of(s) + 1, "at %u", k);
    }
    cr_expect_geq(held, 2);
}

/* Somebody takes an instance that must go, before call k. Up to the last look he is seen; after it
 * the driver refuses. Either way he keeps his instance. */
Test(transaction, consumer_that_comes_at_any_call_keeps_its_instance)
{
    const struct scenario *s = &scenarios[7];
    unsigned calls = undisturbed_calls(s);
    for (unsigned k = 1; k <= calls; k++) {
        struct fake_hw hw;
        struct card_wish wish;
        struct card_layout old;
        struct txn_result r;
        set_up(s, &hw, &wish);
        card_layout_of(&hw.cards[0].card, &old);
        hw.attach_at = k;
        hw.attach = (struct fake_process){.pid = 9, .start = 0, .ci_start = 6};
        apply(&hw, &wish, TXN_ROLLBACK, &r);
        if (k <= 2)
            cr_expect_eq(r.outcome, TXN_IN_USE, "%u: %s", k, r.message);
        cr_expect(shows(&hw, &old) || shows_wish(&hw, &wish), "%u: %s", k, r.message);
        cr_expect(k > 2 || hw.violations == 0, "%u", k);
    }
}

/* Every cut of a GPU instance into compute instances can follow every other: what stays never lies
 * in the way of what comes. */
static size_t list_cuts(const struct fake_card *c, const char *profile, struct mig_wants *ret,
                        size_t max)
{
    static const unsigned sizes[] = {1, 2, 3, 4};
    unsigned index = fake_profile(c, profile);
    unsigned room = c->card.mig.profiles[index].slices;
    size_t n = 0;
    for (unsigned code = 1; code < 8 * 4 * 3 * 2; code++) {
        const unsigned counts[] = {code % 8, code / 8 % 4, code / 32 % 3, code / 96};
        struct mig_wants w = {0};
        unsigned total = 0;
        for (size_t k = 0; k < ARRAY_LEN(sizes); k++) {
            total += counts[k] * sizes[k];
            if (counts[k])
                w.items[w.n++] =
                    (struct mig_want){.profile = index, .ci_slices = sizes[k], .count = counts[k]};
        }
        /* Full cuts alone: part of one would leave the number of GPU instances open. */
        if (total == room && mig_feasible(&c->card.mig, &w) && n < max)
            ret[n++] = w;
    }
    return n;
}

Test(transaction, every_cut_into_compute_instances_follows_every_other)
{
    static const char *const profiles[] = {"2g.20gb", "3g.40gb", "4g.40gb", "7g.80gb"};
    static struct mig_wants cuts[64];
    for (size_t p = 0; p < ARRAY_LEN(profiles); p++) {
        struct fake_hw hw = {0};
        struct fake_card *c = fake_add(&hw, FAKE_H100);
        size_t n = list_cuts(c, profiles[p], cuts, ARRAY_LEN(cuts));
        cr_assert_gt(n, 0);
        for (size_t from = 0; from < n; from++)
            for (size_t to = 0; to < n; to++) {
                struct txn_result r;
                struct card_wish first = {.mode = GPU_MIG, .wants = cuts[from]};
                struct card_wish second = {.mode = GPU_MIG, .wants = cuts[to]};
                apply(&hw, &first, TXN_ROLLBACK, &r);
                cr_expect(shows_wish(&hw, &first), "%s %zu: %s", profiles[p], from, r.message);
                apply(&hw, &second, TXN_ROLLBACK, &r);
                cr_expect(shows_wish(&hw, &second), "%s %zu to %zu: %s", profiles[p], from, to,
                          r.message);
            }
    }
}

/* --- outcomes --- */

Test(transaction, card_as_wanted_is_not_touched)
{
    struct fake_hw hw;
    struct card_wish wish;
    struct txn_result r;
    set_up(&scenarios[0], &hw, &wish);
    apply(&hw, &wish, TXN_ROLLBACK, &r);
    hw.cards[0].mutations = 0;
    apply(&hw, &wish, TXN_ROLLBACK, &r);
    cr_expect_eq(r.outcome, TXN_NOTHING_TO_DO);
    cr_expect(!r.changed);
    cr_expect_eq(hw.cards[0].mutations, 0);
}

Test(transaction, what_is_in_use_stops_the_change_before_it_begins)
{
    struct fake_hw hw;
    struct card_wish wish;
    struct txn_result r;
    set_up(&scenarios[7], &hw, &wish);
    fake_attach(&hw.cards[0], (struct fake_process){.pid = 9, .start = 0, .ci_start = 0});
    apply(&hw, &wish, TXN_ROLLBACK, &r);
    cr_expect_eq(r.outcome, TXN_IN_USE);
    cr_expect_str_eq(r.reason, "InUse");
    cr_expect(strstr(r.message, "train (pid 9)"), "%s", r.message);
    cr_expect_eq(hw.cards[0].mutations, 0);
    cr_expect(!has_journal(&hw));
}

Test(transaction, infeasible_wish_touches_nothing)
{
    struct fake_hw hw;
    struct card_wish wish;
    struct txn_result r;
    set_up(&scenarios[1], &hw, &wish);
    wish.wants.items[0].count = 3;
    apply(&hw, &wish, TXN_ROLLBACK, &r);
    cr_expect_eq(r.outcome, TXN_INFEASIBLE);
    cr_expect_eq(hw.cards[0].mutations, 0);
}

Test(transaction, hold_stops_where_it_failed_and_the_next_run_goes_on)
{
    struct fake_hw hw;
    struct card_wish wish;
    struct txn_result r;
    set_up(&scenarios[7], &hw, &wish);
    hw.fail_at = 8;
    apply(&hw, &wish, TXN_HOLD, &r);
    cr_expect_eq(r.outcome, TXN_HELD, "%s", r.message);
    cr_expect(has_journal(&hw));
    fake_heal(&hw);
    recover(&hw, "boot-1", &r);
    cr_expect_eq(r.outcome, TXN_HELD);
    cr_expect(!r.changed);
    apply(&hw, &wish, TXN_HOLD, &r);
    cr_expect_eq(r.outcome, TXN_APPLIED, "%s", r.message);
    cr_expect(!has_journal(&hw));
}

Test(transaction, reset_that_this_machine_cannot_do_asks_for_a_reboot)
{
    struct fake_hw hw;
    struct card_wish wish;
    struct txn_result r;
    set_up(&scenarios[4], &hw, &wish);
    hw.reset_impossible = true;
    apply(&hw, &wish, TXN_ROLLBACK, &r);
    cr_expect_eq(r.outcome, TXN_REBOOT_REQUIRED, "%s", r.message);
    cr_expect_eq(hw.cards[0].card.mode, GPU_NATIVE);
    cr_expect_eq(hw.cards[0].card.pending_mode, GPU_MIG);
    cr_expect(!has_journal(&hw));
}

Test(transaction, reboot_during_a_change_drops_the_journal)
{
    struct fake_hw hw;
    struct card_wish wish;
    struct txn_result r;
    set_up(&scenarios[7], &hw, &wish);
    hw.fail_at = 8;
    apply(&hw, &wish, TXN_HOLD, &r);
    fake_heal(&hw);
    hw.cards[0].mutations = 0;
    recover(&hw, "boot-2", &r);
    cr_expect_eq(r.outcome, TXN_NOTHING_TO_DO);
    cr_expect_str_eq(r.reason, "Rebooted");
    cr_expect_eq(hw.cards[0].mutations, 0);
    cr_expect(!has_journal(&hw));
}

/* Virtual functions came, and the look that would have told failed. */
Test(transaction, a_layout_that_no_step_leads_to_does_not_stand)
{
    struct fake_hw hw;
    struct txn_result r;
    struct journal j = {.phase = JOURNAL_FORWARD,
                        .target = {.mode = GPU_SGPU,
                                   .sgpu = {.n = 1, .items = {{"a", {1024, 10}}}}}};
    hw = (struct fake_hw){0};
    struct gpu_card *card = &fake_add(&hw, FAKE_C500)->card;
    (void)snprintf(j.uuid, sizeof(j.uuid), "%s", card->uuid);
    cr_assert_eq(journal_write(dir, &j, NULL), 0);
    card->mode = card->pending_mode = GPU_VGPU;
    hw.fail_at = 1;
    recover(&hw, "boot-1", &r);
    cr_expect_eq(r.outcome, TXN_FAILED, "%s: %s", txn_outcome_name(r.outcome), r.message);
    cr_expect(has_journal(&hw));
    fake_heal(&hw);
    recover(&hw, "boot-1", &r);
    cr_expect_str_eq(r.reason, "Overtaken");
}

Test(transaction, corrupt_journal_is_loud_and_leaves_the_card_alone)
{
    struct fake_hw hw;
    struct card_wish wish;
    struct txn_result r;
    set_up(&scenarios[7], &hw, &wish);
    auto_free char *path = journal_path(&hw);
    cr_assert_eq(file_write_atomic(path, "junk", 4, 0600, NULL), 0);
    apply(&hw, &wish, TXN_ROLLBACK, &r);
    cr_expect_eq(r.outcome, TXN_FAILED);
    cr_expect_str_eq(r.reason, "JournalCorrupt");
    cr_expect_not(r.other_version);
    cr_expect_eq(hw.cards[0].mutations, 0);
    apply(&hw, &wish, TXN_ROLLBACK, &r);
    cr_expect_eq(r.outcome, TXN_APPLIED);
}

/* An agent that was downgraded in the middle of a change: the card is held as it is, nothing is
 * planned for it, and the release that began the change finds its journal as it left it. */
Test(transaction, journal_of_another_version_holds_the_card_and_stays)
{
    static const char newer[] = "{\"version\":2,\"wayBack\":\"only here\"}";
    struct fake_hw hw;
    struct card_wish wish;
    struct txn_result r;
    set_up(&scenarios[7], &hw, &wish);
    auto_free char *path = journal_path(&hw);
    auto_free char *text = NULL;
    cr_assert_eq(file_write_atomic(path, newer, strlen(newer), 0600, NULL), 0);
    for (int i = 0; i < 3; i++) {
        apply(&hw, &wish, i ? TXN_ROLLBACK : TXN_HOLD, &r);
        cr_expect_eq(r.outcome, TXN_FAILED);
        cr_expect_str_eq(r.reason, "OtherVersion");
        cr_expect(r.other_version);
        cr_expect(strstr(r.message, "of version 2 and this agent reads 1"), "%s", r.message);
        cr_expect(strstr(r.message, "the card was not touched"), "%s", r.message);
        recover(&hw, "boot-2", &r);
        cr_expect_str_eq(r.reason, "OtherVersion", "after a reboot as well");
        cr_expect(r.other_version);
    }
    cr_expect_eq(hw.cards[0].mutations, 0);
    cr_assert_eq(file_read(path, 4096, &text, NULL, NULL), 0);
    cr_expect_str_eq(text, newer);
    cr_assert_eq(unlink(path), 0);
    apply(&hw, &wish, TXN_ROLLBACK, &r);
    cr_expect_eq(r.outcome, TXN_APPLIED, "a person settled it");
}

Test(transaction, journal_that_cannot_be_written_stops_the_change)
{
    struct fake_hw hw;
    struct card_wish wish;
    struct txn_result r;
    set_up(&scenarios[7], &hw, &wish);
    auto_gpu struct gpu *g = gpu_fake_open(&hw);
    struct txn_deps d = {.gpu = g, .state_dir = "/proc/no-such-place"};
    txn_apply(&d, hw.cards[0].card.uuid, &wish, TXN_ROLLBACK, &r);
    cr_expect_eq(r.outcome, TXN_FAILED);
    cr_expect_eq(hw.cards[0].mutations, 0);
}

/* --- users that the driver does not see --- */

struct observer {
    struct fake_hw *hw;
    unsigned granted_at_look; /* from which look on a pod holds instance 0; 0: never */
    unsigned looks;
    bool whole_card_granted, stirs;
};

static void observe(void *arg, struct gpu_card *card)
{
    struct observer *o = arg;
    struct gpu_user pod = {.name = "team/pod-1", .part = -1, .ci = -1};
    if (o->stirs)
        card->state.items[0].cis[0].id += o->looks; /* never the same card twice */
    o->looks++;
    bool granted = o->granted_at_look && o->looks >= o->granted_at_look;
    if (granted)
        pod.part = (int)card->state.items[0].gi_id;
    gpu_card_set_holders(card, &pod, granted || o->whole_card_granted);
}

static void apply_observed(struct observer *o, const struct card_wish *wish, struct txn_result *ret)
{
    auto_gpu struct gpu *g = gpu_fake_open(o->hw);
    struct txn_deps d = {.gpu = g,
                         .state_dir = dir,
                         .boot_id = "boot-1",
                         .observe = observe,
                         .arg = o};
    txn_apply(&d, o->hw->cards[0].card.uuid, wish, TXN_ROLLBACK, ret);
}

Test(transaction, names_the_pod_that_holds_what_would_go)
{
    struct fake_hw hw;
    struct card_wish wish;
    struct txn_result r;
    set_up(&scenarios[7], &hw, &wish);
    struct observer o = {.hw = &hw, .granted_at_look = 1};
    apply_observed(&o, &wish, &r);
    cr_expect_eq(r.outcome, TXN_IN_USE);
    cr_expect(strstr(r.message, "by pod team/pod-1"), "%s", r.message);
    cr_expect_eq(hw.cards[0].mutations, 0);
}

Test(transaction, grant_that_arrives_at_the_last_look_wins)
{
    struct fake_hw hw;
    struct card_wish wish;
    struct txn_result r;
    set_up(&scenarios[7], &hw, &wish);
    struct observer o = {.hw = &hw, .granted_at_look = 2};
    apply_observed(&o, &wish, &r);
    cr_expect_eq(r.outcome, TXN_IN_USE);
    cr_expect_eq(hw.cards[0].mutations, 0);
    cr_expect(!has_journal(&hw));
}

/* What was planned for a card that is no longer so must not be carried out by the next start. */
Test(transaction, plan_that_was_given_up_is_not_on_record)
{
    struct fake_hw hw;
    struct card_wish wish;
    struct txn_result r;
    set_up(&scenarios[7], &hw, &wish);
    struct observer o = {.hw = &hw, .stirs = true, .granted_at_look = 3};
    apply_observed(&o, &wish, &r);
    cr_expect_eq(r.outcome, TXN_IN_USE, "%s", r.message);
    cr_expect_eq(hw.cards[0].mutations, 0);
    cr_expect(!has_journal(&hw));
    recover(&hw, "boot-1", &r);
    cr_expect_eq(hw.cards[0].mutations, 0);
}

/* A change that fails for good, both ways: the next run goes on from what stands, and when that
 * fails too it is the first layout that comes back. */
Test(transaction, layout_to_go_back_to_survives_a_failed_recovery)
{
    const struct scenario *s = &scenarios[7];
    struct fake_hw hw;
    struct card_wish wish;
    struct card_layout old;
    struct txn_result r;
    set_up(s, &hw, &wish);
    card_layout_of(&hw.cards[0].card, &old);
    hw.fail_at = 8;
    hw.fail_count = 1000;
    apply(&hw, &wish, TXN_ROLLBACK, &r);
    cr_expect_eq(r.outcome, TXN_FAILED);
    cr_assert(!shows(&hw, &old) && has_journal(&hw));
    fake_heal(&hw);
    hw.fail_at = 2; /* a step of one way and the look of the other */
    hw.fail_count = 2;
    hw.fail_after_at = 7; /* a step towards the wish */
    apply(&hw, &wish, TXN_ROLLBACK, &r);
    cr_expect_eq(r.outcome, TXN_ROLLED_BACK, "%s", r.message);
    cr_expect(shows(&hw, &old));
    cr_expect(!has_journal(&hw));
}

Test(transaction, held_change_that_fails_again_can_go_back_to_its_beginning)
{
    struct fake_hw hw;
    struct card_wish wish;
    struct card_layout old;
    struct txn_result r;
    set_up(&scenarios[7], &hw, &wish);
    card_layout_of(&hw.cards[0].card, &old);
    hw.fail_at = 8;
    apply(&hw, &wish, TXN_HOLD, &r);
    cr_assert_eq(r.outcome, TXN_HELD);
    cr_assert(!shows(&hw, &old));
    fake_heal(&hw);
    hw.fail_at = 5;
    apply(&hw, &wish, TXN_ROLLBACK, &r);
    cr_expect_eq(r.outcome, TXN_ROLLED_BACK, "%s", r.message);
    cr_expect(shows(&hw, &old));
}

Test(transaction, held_change_stays_on_record_when_the_next_is_stopped_by_a_user)
{
    struct fake_hw hw;
    struct card_wish wish;
    struct txn_result r;
    set_up(&scenarios[7], &hw, &wish);
    hw.fail_at = 12;
    apply(&hw, &wish, TXN_HOLD, &r);
    cr_assert_eq(r.outcome, TXN_HELD);
    cr_assert_gt(hw.cards[0].card.state.n, 0);
    fake_heal(&hw);
    hw.attach_at = 2; /* between the plan and the last look */
    hw.attach = (struct fake_process){.pid = 9,
                                      .start = (int)hw.cards[0].card.state.items[0].start,
                                      .ci_start = -1};
    apply(&hw, &(struct card_wish){.mode = GPU_NATIVE}, TXN_HOLD, &r);
    cr_expect_eq(r.outcome, TXN_IN_USE, "%s", r.message);
    recover(&hw, "boot-1", &r);
    cr_expect_eq(r.outcome, TXN_HELD);
}

Test(transaction, card_granted_whole_does_not_change_its_mode)
{
    struct fake_hw hw;
    struct card_wish wish;
    struct txn_result r;
    set_up(&scenarios[0], &hw, &wish);
    struct observer o = {.hw = &hw, .whole_card_granted = true};
    apply_observed(&o, &wish, &r);
    cr_expect_eq(r.outcome, TXN_IN_USE, "%s", r.message);
    cr_expect_eq(hw.cards[0].mutations, 0);
    cr_expect(!has_journal(&hw));
}

Test(transaction, card_that_never_stands_still_is_not_touched)
{
    struct fake_hw hw;
    struct card_wish wish;
    struct txn_result r;
    set_up(&scenarios[7], &hw, &wish);
    struct observer o = {.hw = &hw, .stirs = true};
    apply_observed(&o, &wish, &r);
    cr_expect_eq(r.outcome, TXN_FAILED);
    cr_expect_str_eq(r.reason, "CardChanges");
    cr_expect_eq(hw.cards[0].mutations, 0);
    cr_expect(!has_journal(&hw));
}

/* --- recovery that meets users --- */

/* Holds the change of scenario 7 half-way and makes its journal an interrupted one. */
static void interrupt_half_way(struct fake_hw *hw, struct card_wish *wish, struct card_layout *old,
                               unsigned calls)
{
    struct txn_result r;
    struct journal j;
    set_up(&scenarios[7], hw, wish);
    card_layout_of(&hw->cards[0].card, old);
    hw->fail_at = calls;
    apply(hw, wish, TXN_HOLD, &r);
    cr_assert_eq(r.outcome, TXN_HELD);
    cr_assert_eq(journal_read(dir, hw->cards[0].card.uuid, &j, NULL), 0);
    j.phase = JOURNAL_FORWARD;
    cr_assert_eq(journal_write(dir, &j, NULL), 0);
    fake_heal(hw);
}

Test(transaction, interrupted_change_goes_back_when_a_user_bars_the_way_forward)
{
    struct fake_hw hw;
    struct card_wish wish;
    struct card_layout old;
    struct txn_result r;
    interrupt_half_way(&hw, &wish, &old, 4); /* one of three compute instances is gone */
    fake_attach(&hw.cards[0], (struct fake_process){.pid = 9, .start = 0, .ci_start = -1});
    recover(&hw, "boot-1", &r);
    cr_expect_eq(r.outcome, TXN_ROLLED_BACK, "%s", r.message);
    cr_assert_not_null(r.recovered);
    cr_expect_str_eq(r.recovered, "an interrupted change was taken back");
    cr_expect(shows(&hw, &old));
    cr_expect_eq(hw.violations, 0);
}

Test(transaction, a_new_change_says_that_it_ended_an_interrupted_one_first)
{
    struct fake_hw hw;
    struct card_wish wish;
    struct card_layout old;
    struct txn_result r;
    interrupt_half_way(&hw, &wish, &old, 4);
    apply(&hw, &wish, TXN_ROLLBACK, &r);
    cr_expect_eq(r.outcome, TXN_NOTHING_TO_DO, "%s", r.message);
    cr_assert_not_null(r.recovered);
    cr_expect_str_eq(r.recovered, "an interrupted change was completed");
    cr_expect(shows_wish(&hw, &wish));
    apply(&hw, &wish, TXN_ROLLBACK, &r);
    cr_expect_null(r.recovered, "there is no other");
}

Test(transaction, interrupted_change_with_both_ways_barred_waits_for_its_users)
{
    struct fake_hw hw;
    struct card_wish wish;
    struct card_layout old;
    struct txn_result r;
    interrupt_half_way(&hw, &wish, &old, 9); /* the first new instance stands */
    hw.cards[0].card.state.items[0].profile = fake_profile(&hw.cards[0], "1g.10gb+me");
    fake_attach(&hw.cards[0],
                (struct fake_process){.pid = 9,
                                      .start = (int)hw.cards[0].card.state.items[0].start,
                                      .ci_start = -1});
    recover(&hw, "boot-1", &r);
    cr_expect_eq(r.outcome, TXN_FAILED, "%s", r.message);
    cr_expect_str_eq(r.reason, "InUse");
    cr_expect_null(r.recovered);
    cr_expect_eq(hw.violations, 0);
    cr_expect(has_journal(&hw));
}

/* --- what hardware may answer --- */

Test(transaction, card_that_needs_a_reset_against_its_habit_gets_it)
{
    struct fake_hw hw;
    struct card_wish wish;
    struct txn_result r;
    set_up(&scenarios[0], &hw, &wish);
    hw.stubborn = GPU_MODE_NEEDS_RESET;
    apply(&hw, &wish, TXN_ROLLBACK, &r);
    cr_expect_eq(r.outcome, TXN_APPLIED, "%s", r.message);
    cr_expect(shows_wish(&hw, &wish));
}

Test(transaction, mode_that_waits_for_a_reboot_says_so)
{
    struct fake_hw hw;
    struct card_wish wish;
    struct txn_result r;
    set_up(&scenarios[4], &hw, &wish);
    hw.stubborn = GPU_MODE_NEEDS_REBOOT;
    apply(&hw, &wish, TXN_ROLLBACK, &r);
    cr_expect_eq(r.outcome, TXN_REBOOT_REQUIRED, "%s", r.message);
    cr_expect_eq(hw.cards[0].card.pending_mode, GPU_MIG);
}

Test(transaction, reset_that_fails_under_hold_leaves_the_mode_pending)
{
    struct fake_hw hw;
    struct card_wish wish;
    struct txn_result r;
    set_up(&scenarios[4], &hw, &wish);
    hw.fail_at = 4;
    apply(&hw, &wish, TXN_HOLD, &r);
    cr_expect_eq(r.outcome, TXN_RESET_REQUIRED, "%s", r.message);
    cr_expect_eq(hw.cards[0].card.pending_mode, GPU_MIG);
    fake_heal(&hw);
    apply(&hw, &wish, TXN_HOLD, &r);
    cr_expect_eq(r.outcome, TXN_APPLIED, "%s", r.message);
}

Test(transaction, driver_that_places_compute_instances_itself_is_believed)
{
    struct fake_hw hw;
    struct card_wish wish;
    struct txn_result r;
    set_up(&scenarios[6], &hw, &wish);
    hw.places_cis_itself = true;
    apply(&hw, &wish, TXN_ROLLBACK, &r);
    cr_expect_eq(r.outcome, TXN_APPLIED, "%s", r.message);
    cr_expect(shows_wish(&hw, &wish));
}

Test(transaction, outcomes_have_names)
{
    cr_expect_str_eq(txn_outcome_name(TXN_APPLIED), "Applied");
    cr_expect_str_eq(txn_outcome_name(TXN_FAILED), "Failed");
    cr_expect_str_eq(txn_outcome_name((enum txn_outcome)99), "Unknown");
}

/* --- What others were told to have --- */

Test(transaction, nothing_on_offer_is_taken_away)
{
    for (size_t i = 0; i < ARRAY_LEN(scenarios); i++) {
        struct fake_hw hw;
        struct card_wish wish;
        struct txn_result r;
        struct card_offer offer;
        set_up(&scenarios[i], &hw, &wish);
        card_offer_of(&hw.cards[0].card, &offer);
        auto_gpu struct gpu *g = gpu_fake_open(&hw);
        struct txn_deps d = {.gpu = g, .state_dir = dir, .boot_id = "boot-1", .offered = &offer};
        txn_apply(&d, hw.cards[0].card.uuid, &wish, TXN_ROLLBACK, &r);
        cr_expect_eq(r.outcome, TXN_NOT_WITHDRAWN, "%s: %s", scenarios[i].name, r.message);
        cr_expect_eq(hw.cards[0].mutations, 0, "%s", scenarios[i].name);
        cr_expect(!has_journal(&hw), "%s", scenarios[i].name);
        struct card_plan plan;
        auto_gpu_card struct gpu_card seen = {0};
        cr_assert_eq(g->ops->read_card(g, hw.cards[0].card.uuid, &seen, NULL), 0);
        card_plan(&seen, &wish, &plan);
        card_offer_withdraw(&offer, &plan.steps);
        txn_apply(&d, hw.cards[0].card.uuid, &wish, TXN_ROLLBACK, &r);
        cr_expect_eq(r.outcome, TXN_APPLIED, "%s: %s", scenarios[i].name, r.message);
    }
}

/* --- A journal that is not on the disk --- */

Test(transaction, a_change_refused_for_its_journal_is_not_resumed_later)
{
    for (unsigned syncs = 1; syncs <= 2; syncs++) {
        struct fake_hw hw;
        struct card_wish wish;
        struct txn_result r;
        struct card_layout old;
        set_up(&scenarios[7], &hw, &wish);
        card_layout_of(&hw.cards[0].card, &old);
        failing_folder_syncs = syncs; /* of the journal, and of its removal */
        apply(&hw, &wish, TXN_ROLLBACK, &r);
        failing_folder_syncs = 0;
        cr_expect_eq(r.outcome, TXN_FAILED, "%s", r.message);
        cr_expect_eq(hw.cards[0].mutations, 0);
        cr_expect(!has_journal(&hw), "%u", syncs);
        recover(&hw, "boot-1", &r);
        cr_expect_eq(r.outcome, TXN_NOTHING_TO_DO, "%s", r.message);
        cr_expect(shows(&hw, &old));
    }
}

/* What an earlier change left behind stays on record when the next one is refused. */
Test(transaction, a_change_refused_for_its_journal_leaves_the_older_record)
{
    struct fake_hw hw;
    struct card_wish wish;
    struct txn_result r;
    struct journal before;
    struct journal after;
    set_up(&scenarios[7], &hw, &wish);
    hw.fail_at = undisturbed_calls(&scenarios[7]) - 2;
    apply(&hw, &wish, TXN_HOLD, &r);
    cr_assert_eq(r.outcome, TXN_HELD, "%s", r.message);
    fake_heal(&hw);
    const char *uuid = hw.cards[0].card.uuid;
    cr_assert_eq(journal_read(dir, uuid, &before, NULL), 0);
    unsigned mutations = hw.cards[0].mutations;
    failing_folder_syncs = 1;
    apply(&hw, &wish, TXN_HOLD, &r);
    failing_folder_syncs = 0;
    cr_expect_eq(r.outcome, TXN_FAILED, "%s", r.message);
    cr_expect_eq(hw.cards[0].mutations, mutations);
    cr_assert_eq(journal_read(dir, uuid, &after, NULL), 0);
    cr_expect_eq(after.phase, JOURNAL_HELD);
    cr_expect_eq(memcmp(&after.old, &before.old, sizeof(after.old)), 0);
}
