/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <string.h>

#include "base/auto.h"
#include "base/rng.h"

#include "partition/sgpu.h"

#define CARD_MIB 65536

static struct sgpu_slice slice(const char *alias, unsigned mib, unsigned percent)
{
    struct sgpu_slice s = {.quota = {mib, percent}};
    (void)snprintf(s.alias, sizeof(s.alias), "%s", alias);
    return s;
}

static struct sgpu_slice busy(struct sgpu_slice s)
{
    s.in_use = true;
    return s;
}

static struct sgpu_slice foreign(struct sgpu_slice s)
{
    s.foreign = true;
    return s;
}

static struct sgpu_want want(const char *alias, unsigned mib, unsigned percent)
{
    struct sgpu_want w = {.quota = {mib, percent}};
    (void)snprintf(w.alias, sizeof(w.alias), "%s", alias);
    return w;
}

static const struct sgpu_state empty = {.memory_mib = CARD_MIB, .qos = API_FIXED_SHARE};

static void expect_refused(const struct sgpu_state *now, const struct sgpu_wants *w,
                           const char *words)
{
    struct sgpu_plan p;
    sgpu_plan(now, w, &p);
    cr_expect_eq(p.verdict, SGPU_PLAN_INFEASIBLE, "%s", words);
    cr_expect(strstr(p.reason, words), "\"%s\" is not in \"%s\"", words, p.reason);
    cr_expect(!p.destroy && !p.create && !p.set_qos && !p.set_timeslice);
}

Test(sgpu, an_empty_card_gets_every_slice_that_is_asked_for)
{
    struct sgpu_wants w = {.qos = API_FIXED_SHARE,
                           .n = 2,
                           .items = {want("a", 1024, 10), want("b", 64512, 90)}};
    struct sgpu_plan p;
    sgpu_plan(&empty, &w, &p);
    cr_expect_eq(p.verdict, SGPU_PLAN_CHANGE);
    cr_expect_eq(p.create, 0x3);
    cr_expect(!p.set_qos && !p.destroy);
}

Test(sgpu, what_is_as_wanted_stays_and_the_rest_alone_is_made)
{
    struct sgpu_state now = empty;
    now.n = 2;
    now.items[0] = busy(slice("a", 1024, 10));
    now.items[1] = slice("b", 2048, 10);
    struct sgpu_wants w = {.qos = API_FIXED_SHARE,
                           .n = 2,
                           .items = {want("a", 1024, 10), want("b", 4096, 10)}};
    struct sgpu_plan p;
    sgpu_plan(&now, &w, &p);
    cr_expect_eq(p.verdict, SGPU_PLAN_CHANGE);
    cr_expect_eq(p.keep, 0x1);
    cr_expect_eq(p.destroy, 0x2);
    cr_expect_eq(p.create, 0x2);
}

Test(sgpu, a_slice_in_use_that_is_not_wanted_must_drain)
{
    struct sgpu_state now = empty;
    now.n = 1;
    now.items[0] = busy(slice("a", 1024, 10));
    struct sgpu_wants w = {.qos = API_FIXED_SHARE};
    struct sgpu_plan p;
    sgpu_plan(&now, &w, &p);
    cr_expect_eq(p.verdict, SGPU_PLAN_DRAIN);
    cr_expect_eq(p.blocking, 0x1);
}

Test(sgpu, another_class_takes_every_slice_along)
{
    struct sgpu_state now = empty;
    now.n = 1;
    now.items[0] = slice("a", 1024, 10);
    struct sgpu_wants w = {.qos = API_BURST_SHARE, .n = 1, .items = {want("a", 1024, 10)}};
    struct sgpu_plan p;
    sgpu_plan(&now, &w, &p);
    cr_expect_eq(p.verdict, SGPU_PLAN_CHANGE);
    cr_expect(p.set_qos);
    cr_expect_eq(p.destroy, 0x1);
    cr_expect_eq(p.create, 0x1);
    now.items[0] = busy(now.items[0]);
    sgpu_plan(&now, &w, &p);
    cr_expect_eq(p.verdict, SGPU_PLAN_DRAIN);
}

Test(sgpu, another_time_slice_waits_for_those_in_use_and_destroys_nothing)
{
    struct sgpu_state now = empty;
    now.timeslice_ms = 20;
    now.n = 1;
    now.items[0] = slice("a", 1024, 10);
    struct sgpu_wants w = {.qos = API_FIXED_SHARE,
                           .timeslice_ms = 5,
                           .n = 1,
                           .items = {want("a", 1024, 10)}};
    struct sgpu_plan p;
    sgpu_plan(&now, &w, &p);
    cr_expect_eq(p.verdict, SGPU_PLAN_CHANGE);
    cr_expect(p.set_timeslice && !p.destroy);
    now.items[0] = busy(now.items[0]);
    sgpu_plan(&now, &w, &p);
    cr_expect_eq(p.verdict, SGPU_PLAN_DRAIN);
    cr_expect_eq(p.blocking, 0x1);
    cr_expect_eq(p.destroy, 0);
    w.timeslice_ms = 0;
    sgpu_plan(&now, &w, &p);
    cr_expect_eq(p.verdict, SGPU_PLAN_NOTHING, "none asked for is as it is");
}

Test(sgpu, slices_of_pods_stay_where_slices_are_made_for_pods)
{
    struct sgpu_state now = empty;
    now.n = 2;
    now.items[0] = busy(slice("slot.0", 1024, 10));
    now.items[1] = slice("slot.15", 1024, 10);
    struct sgpu_wants w = {.qos = API_FIXED_SHARE, .dynamic = true};
    struct sgpu_plan p;
    sgpu_plan(&now, &w, &p);
    cr_expect_eq(p.verdict, SGPU_PLAN_NOTHING);
    cr_expect_eq(p.keep, 0x3);
}

Test(sgpu, slices_of_a_spec_go_where_slices_are_made_for_pods)
{
    struct sgpu_state now = empty;
    now.n = 2;
    now.items[0] = busy(slice("slot.3", 1024, 10));
    now.items[1] = slice("small-0", 1024, 10);
    struct sgpu_wants w = {.qos = API_FIXED_SHARE, .dynamic = true};
    struct sgpu_plan p;
    sgpu_plan(&now, &w, &p);
    cr_expect_eq(p.verdict, SGPU_PLAN_CHANGE);
    cr_expect_eq(p.destroy, 0x2);
}

Test(sgpu, slices_of_pods_go_where_a_spec_lists_its_own_once_they_are_free)
{
    struct sgpu_state now = empty;
    now.n = 1;
    now.items[0] = busy(slice("slot.3", 1024, 10));
    struct sgpu_wants w = {.qos = API_FIXED_SHARE, .n = 1, .items = {want("small", 1024, 10)}};
    struct sgpu_plan p;
    sgpu_plan(&now, &w, &p);
    cr_expect_eq(p.verdict, SGPU_PLAN_DRAIN);
    cr_expect_eq(p.blocking, 0x1);
}

Test(sgpu, a_slot_is_told_by_its_alias_and_a_kind_is_the_alias_without_its_number)
{
    char buf[SGPU_ALIAS_BYTES];
    sgpu_slot_alias(1023, buf);
    cr_expect_str_eq(buf, "slot.1023");
    cr_expect_eq(sgpu_slot_of("slot.1023"), 1023);
    cr_expect_eq(sgpu_slot_of("slot.0"), 0);
    cr_expect_eq(sgpu_slot_of("slot.1024"), -1);
    cr_expect_eq(sgpu_slot_of("slot.01"), -1);
    cr_expect_eq(sgpu_slot_of("slot.-1"), -1);
    cr_expect_eq(sgpu_slot_of("slot.1x"), -1);
    cr_expect_eq(sgpu_slot_of("slot"), -1);
    cr_expect_eq(sgpu_slot_of(""), -1);
    static const char *const kinds[][2] =
        {{"small-0", "small"}, {"small", "small"}, {"a-b-12", "a-b"}, {"a-1b", "a-1b"},
         {"7", "7"},           {"a-", "a-"},       {"", ""}};
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        sgpu_kind_of(kinds[i][0], buf);
        cr_expect_str_eq(buf, kinds[i][1], "%s", kinds[i][0]);
    }
}

Test(sgpu, foreign_slices_are_left_alone_and_count)
{
    struct sgpu_state now = empty;
    now.n = 1;
    now.items[0] = foreign(slice("theirs", 60000 / 128 * 128, 50));
    struct sgpu_wants w = {.qos = API_FIXED_SHARE, .n = 1, .items = {want("a", 1024, 10)}};
    struct sgpu_plan p;
    sgpu_plan(&now, &w, &p);
    cr_expect_eq(p.verdict, SGPU_PLAN_CHANGE);
    cr_expect_eq(p.keep, 0x1);
    cr_expect_eq(p.destroy, 0);

    w.items[0] = want("a", 8192, 10);
    expect_refused(&now, &w, "8192 MiB of memory and the card has 5632 beside slices that Cleave");
    w.items[0] = want("a", 1024, 60);
    expect_refused(&now, &w, "60 % of compute and the card has 50");
    w.qos = API_BEST_EFFORT;
    expect_refused(&now, &w, "belongs to the whole card");
}

Test(sgpu, a_slice_named_as_wanted_that_is_foreign_is_not_taken_for_ours)
{
    struct sgpu_state now = empty;
    now.n = 1;
    now.items[0] = foreign(slice("a", 1024, 10));
    struct sgpu_wants w = {.qos = API_FIXED_SHARE, .n = 1, .items = {want("a", 1024, 10)}};
    struct sgpu_plan p;
    sgpu_plan(&now, &w, &p);
    cr_expect_eq(p.create, 0x1);
    cr_expect_eq(p.keep, 0x1);
}

struct bad {
    struct sgpu_wants w;
    const char *words;
};

Test(sgpu, what_makes_no_sense_is_refused_with_the_reason)
{
    const struct bad cases[] = {
        {{.qos = API_FIXED_SHARE, .n = 1, .items = {want("a", 50000, 10)}},
         "nearest: 49920 or 50048"},
        {{.qos = API_FIXED_SHARE, .n = 1, .items = {want("a", 0, 10)}}, "nearest: 128"},
        {{.qos = API_FIXED_SHARE, .n = 1, .items = {want("a", 128, 0)}}, "from 1 to 100"},
        {{.qos = API_BEST_EFFORT, .n = 1, .items = {want("a", 128, 101)}}, "from 0 to 100"},
        {{.qos = API_FIXED_SHARE, .n = 1, .items = {want("", 128, 1)}}, "no alias"},
        {{.qos = API_FIXED_SHARE, .n = 2, .items = {want("a", 128, 1), want("a", 128, 1)}},
         "two slices have the alias a"},
        {{.qos = API_BURST_SHARE, .n = 2, .items = {want("a", 128, 60), want("b", 128, 41)}},
         "adds up to 101 %"},
        {{.qos = API_FIXED_SHARE, .n = 17}, "17 slices are more than the 16"},
        {{.qos = API_FIXED_SHARE, .n = 2, .items = {want("a", 65536, 1), want("b", 128, 1)}},
         "65664 MiB of memory and the card has 65536"},
        {{.qos = API_FIXED_SHARE,
          .n = 2,
          .items = {want("a", 0xFFFFFF80, 1), want("b", 0xFFFFFF80, 1)}},
         "and the card has 65536"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        expect_refused(&empty, &cases[i].w, cases[i].words);
}

Test(sgpu, best_effort_gives_compute_without_a_sum)
{
    struct sgpu_state now = {.memory_mib = CARD_MIB};
    struct sgpu_wants w = {.qos = API_BEST_EFFORT,
                           .n = 3,
                           .items = {want("a", 128, 100), want("b", 128, 100), want("c", 128, 0)}};
    struct sgpu_plan p;
    sgpu_plan(&now, &w, &p);
    cr_expect_eq(p.verdict, SGPU_PLAN_CHANGE);
    cr_expect_eq(p.create, 0x7);
}

Test(sgpu, room_is_what_is_left_also_of_a_card_that_is_overfull)
{
    struct sgpu_state now = empty;
    now.n = 2;
    now.items[0] = slice("a", 65408, 90);
    now.items[1] = foreign(slice("b", 1024, 20));
    struct sgpu_room room = sgpu_room(&now);
    cr_expect_eq(room.memory_mib, 0);
    cr_expect_eq(room.compute_percent, 0);
    cr_expect_eq(room.slices, 14);
}

/* --- any state, any wish --- */

static const char *const names[] = {"a", "b", "c", "d", "e", "f"};

static struct sgpu_quota any_quota(struct rng *r)
{
    return (struct sgpu_quota){128 * (unsigned)rng_below(r, 200), (unsigned)rng_below(r, 60)};
}

static void any_state(struct rng *r, struct sgpu_state *ret)
{
    *ret = (struct sgpu_state){.memory_mib = CARD_MIB,
                               .qos = (int)rng_below(r, 3),
                               .timeslice_ms = (unsigned)rng_below(r, 3),
                               .n = (unsigned)rng_below(r, 7)};
    for (unsigned i = 0; i < ret->n; i++) {
        struct sgpu_quota q = any_quota(r);
        ret->items[i] = slice(names[rng_below(r, 6)], q.memory_mib, q.compute_percent);
        ret->items[i].in_use = rng_below(r, 3) == 0;
        ret->items[i].foreign = rng_below(r, 6) == 0;
    }
}

static void any_wants(struct rng *r, const struct sgpu_state *now, struct sgpu_wants *ret)
{
    *ret = (struct sgpu_wants){.qos = (int)rng_below(r, 3),
                               .timeslice_ms = (unsigned)rng_below(r, 3),
                               .dynamic = rng_below(r, 4) == 0};
    for (unsigned i = 0; !ret->dynamic && i < 6; i++) {
        if (rng_below(r, 2))
            continue;
        struct sgpu_quota q = any_quota(r);
        ret->items[ret->n++] = want(names[i], q.memory_mib, q.compute_percent);
    }
    for (unsigned i = 0; i < now->n && i < ret->n && rng_below(r, 2); i++)
        ret->items[i].quota = now->items[i].quota;
}

/* The state that the plan leads to. */
static void carry_out(const struct sgpu_state *now, const struct sgpu_wants *w,
                      const struct sgpu_plan *p, struct sgpu_state *ret)
{
    *ret = *now;
    ret->n = 0;
    for (unsigned i = 0; i < now->n; i++)
        if (p->keep & (1U << i))
            ret->items[ret->n++] = now->items[i];
    if (p->set_qos)
        ret->qos = w->qos;
    if (p->set_timeslice)
        ret->timeslice_ms = w->timeslice_ms;
    for (unsigned i = 0; i < w->n; i++)
        if (p->create & (1U << i))
            ret->items[ret->n++] = slice(w->items[i].alias, w->items[i].quota.memory_mib,
                                         w->items[i].quota.compute_percent);
}

static uint64_t memory_of(const struct sgpu_state *s)
{
    uint64_t sum = 0;
    for (unsigned i = 0; i < s->n; i++)
        sum += s->items[i].quota.memory_mib;
    return sum;
}

static void check_plan(const struct sgpu_state *now, const struct sgpu_wants *w,
                       const struct sgpu_plan *p, unsigned round)
{
    cr_assert_eq(p->keep & p->destroy, 0, "round %u", round);
    cr_assert_eq(p->keep | p->destroy, (1U << now->n) - 1, "round %u", round);
    for (unsigned i = 0; i < now->n; i++) {
        bool goes = p->destroy & (1U << i);
        cr_assert(!goes || !now->items[i].foreign, "round %u: a foreign slice goes", round);
        cr_assert(!goes || !now->items[i].in_use || p->blocking & (1U << i), "round %u", round);
    }
    struct sgpu_state after;
    carry_out(now, w, p, &after);
    struct sgpu_plan again;
    sgpu_plan(&after, w, &again);
    cr_assert(again.verdict == SGPU_PLAN_NOTHING, "round %u: the second plan is %d", round,
              (int)again.verdict);
    if (!w->dynamic)
        cr_assert_leq(memory_of(&after), CARD_MIB, "round %u", round);
}

Test(sgpu, every_plan_keeps_what_is_in_use_or_foreign_and_is_done_after_one_round)
{
    struct rng r;
    rng_init(&r, 7);
    unsigned planned = 0;
    for (unsigned round = 0; round < 20000; round++) {
        struct sgpu_state now;
        struct sgpu_wants w;
        struct sgpu_plan p;
        any_state(&r, &now);
        any_wants(&r, &now, &w);
        sgpu_plan(&now, &w, &p);
        if (p.verdict == SGPU_PLAN_INFEASIBLE) {
            cr_assert(p.reason[0]);
            continue;
        }
        planned++;
        check_plan(&now, &w, &p, round);
    }
    cr_expect_gt(planned, 1000);
}

/* --- from a spec --- */

static char large[] = "large";
static char small[] = "small";
static char endless[] = "an-alias-of-thirty-two-bytes-hah";

Test(sgpu, each_slice_of_a_spec_gets_an_alias_of_its_own)
{
    struct device_slice_want kinds[] = {{large, 32768, 50, 0}, {small, 1024, 5, 2}};
    const struct device_sgpu spec = {.qos_policy = API_BURST_SHARE,
                                     .timeslice_ms = 20,
                                     .slices = kinds,
                                     .n_slices = 2};
    struct sgpu_wants w;
    auto_err struct err e = {0};
    cr_assert_eq(sgpu_wants_of(&spec, &w, &e), 0);
    cr_expect_eq(w.n, 3);
    cr_expect_str_eq(w.items[0].alias, "large");
    cr_expect_str_eq(w.items[2].alias, "small-1");
    cr_expect_eq(w.items[2].quota.memory_mib, 1024);
    cr_expect_eq(w.timeslice_ms, 20);
    cr_expect(!w.dynamic);
}

Test(sgpu, a_spec_without_slices_has_them_made_for_pods)
{
    struct device_sgpu spec = {0};
    struct sgpu_wants w;
    struct sgpu_plan p;
    auto_err struct err e = {0};
    cr_assert_eq(sgpu_wants_of(&spec, &w, &e), 0);
    cr_expect(w.dynamic);
    sgpu_plan(&empty, &w, &p);
    cr_expect_eq(p.verdict, SGPU_PLAN_NOTHING, "the pods say under which policy");
    spec.has_qos_policy = true;
    spec.qos_policy = API_BURST_SHARE;
    cr_assert_eq(sgpu_wants_of(&spec, &w, &e), 0);
    sgpu_plan(&empty, &w, &p);
    cr_expect(p.set_qos);
}

Test(sgpu, a_spec_of_too_many_slices_or_too_long_a_name_is_refused)
{
    struct device_slice_want many[] = {{large, 128, 1, 16}, {small, 128, 1, 1}};
    struct device_slice_want wide[] = {{endless, 128, 1, 2}};
    const struct device_sgpu full = {.slices = many, .n_slices = 2};
    const struct device_sgpu wordy = {.slices = wide, .n_slices = 1};
    struct sgpu_wants w;
    auto_err struct err e = {0};
    cr_expect_eq(sgpu_wants_of(&full, &w, &e), -(int)ERR_INVALID);
    err_clear(&e);
    cr_expect_eq(sgpu_wants_of(&wordy, &w, &e), -(int)ERR_INVALID);
    cr_expect(strstr(err_msg(&e), "too long"));
}

Test(sgpu, an_alias_that_is_none_is_refused)
{
    static char aliases[][8] = {"Small", "a b", "a/b", "-a", "a-", "slot.3", ""};
    for (size_t i = 0; i < ARRAY_LEN(aliases); i++) {
        struct device_slice_want kinds[] = {{aliases[i], 128, 1, 1}};
        const struct device_sgpu spec = {.slices = kinds, .n_slices = 1};
        struct sgpu_wants w;
        cr_expect_eq(sgpu_wants_of(&spec, &w, NULL), -(int)ERR_INVALID, "%s", aliases[i]);
    }
}

Test(sgpu, an_alias_that_ends_like_a_numbered_one_is_refused)
{
    char alias[] = "small-1";
    struct device_slice_want kinds[] = {{alias, 128, 1, 1}};
    const struct device_sgpu spec = {.slices = kinds, .n_slices = 1};
    struct sgpu_wants w;
    auto_err struct err e = {0};
    cr_expect_eq(sgpu_wants_of(&spec, &w, &e), -(int)ERR_INVALID);
    cr_expect_str_eq(err_msg(&e),
                     "the alias small-1 is also that of slice 1 of small; choose another");
}
