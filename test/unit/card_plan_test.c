/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "base/sb.h"
#include "base/xalloc.h"

#include "nodeagent/change/card_plan.h"
#include "test/unit/gpu_fake_support.h"

static const unsigned whole_1[] = {1, 0};
static const unsigned whole_2[] = {2, 0};
static const unsigned whole_3[] = {3, 0};

/* The card as a reading shows it, with its users. Freed by gpu_card_done. */
static struct gpu_card look(struct fake_hw *hw, const struct fake_card *c)
{
    auto_gpu struct gpu *g = gpu_fake_open(hw);
    struct gpu_card card = {0};
    cr_assert_eq(g->ops->read_card(g, c->card.uuid, &card, NULL), 0);
    return card;
}

static void want(struct card_wish *w, const struct fake_card *c, const char *profile,
                 unsigned ci_slices, unsigned count)
{
    w->mode = GPU_MIG;
    w->wants.items[w->wants.n++] = (struct mig_want){.profile = fake_profile(c, profile),
                                                     .ci_slices = ci_slices,
                                                     .count = count};
}

/* The plan in words, one step a piece: what the golden texts below compare. */
static void check_plan(struct fake_hw *hw, const struct fake_card *c, const struct card_wish *w,
                       enum card_verdict verdict, const char *golden)
{
    auto_gpu_card struct gpu_card card = look(hw, c);
    static struct card_plan plan;
    auto_sb struct sb text = SB_INIT(4096);
    card_plan(&card, w, &plan);
    for (unsigned i = 0; i < plan.steps.n; i++) {
        auto_free char *step = card_step_text(&plan.steps.items[i], &card.mig);
        sb_addf(&text, "%s%s", i ? "; " : "", step);
    }
    cr_expect_eq(plan.verdict, verdict, "%s", plan.message);
    cr_expect_str_eq(sb_str(&text), golden);
}

Test(card_plan, native_hopper_becomes_mig_without_a_reset)
{
    struct fake_hw hw = {0};
    struct fake_card *c = fake_add(&hw, FAKE_H100);
    struct card_wish w = {0};
    want(&w, c, "7g.80gb", 0, 1);
    check_plan(&hw, c, &w, CARD_CHANGE,
               "switch MIG on; create 7g.80gb at 0; create compute instance 7c at 0");
}

Test(card_plan, native_ampere_becomes_mig_by_a_reset)
{
    struct fake_hw hw = {0};
    struct fake_card *c = fake_add(&hw, FAKE_A100);
    struct card_wish w = {0};
    want(&w, c, "3g.40gb", 0, 1);
    auto_gpu_card struct gpu_card card = look(&hw, c);
    struct card_plan plan;
    card_plan(&card, &w, &plan);
    cr_expect_eq(plan.verdict, CARD_CHANGE);
    cr_expect(plan.resets);
    cr_expect_eq(plan.steps.items[0].kind, CARD_MODE_SET);
    cr_expect_eq(plan.steps.items[1].kind, CARD_RESET);
}

Test(card_plan, pending_mode_that_is_wanted_needs_only_the_reset)
{
    struct fake_hw hw = {0};
    struct fake_card *c = fake_add(&hw, FAKE_A100);
    struct card_wish w = {.mode = GPU_MIG};
    c->card.pending_mode = GPU_MIG;
    check_plan(&hw, c, &w, CARD_CHANGE, "reset the card");
}

Test(card_plan, pending_mode_that_is_not_wanted_is_taken_back_without_a_reset)
{
    struct fake_hw hw = {0};
    struct fake_card *c = fake_add(&hw, FAKE_A100);
    struct card_wish w = {.mode = GPU_NATIVE};
    c->card.pending_mode = GPU_MIG;
    check_plan(&hw, c, &w, CARD_CHANGE, "switch MIG off");
}

Test(card_plan, leaving_mig_takes_the_instances_away_first)
{
    struct fake_hw hw = {0};
    struct fake_card *c = fake_add(&hw, FAKE_A100);
    struct card_wish w = {.mode = GPU_NATIVE};
    c->card.mode = c->card.pending_mode = GPU_MIG;
    fake_put(c, "2g.20gb", 0, (const unsigned[]){1, 1, 0});
    check_plan(&hw, c, &w, CARD_CHANGE,
               "destroy compute instance 0 (1c) at 0; destroy compute instance 1 (1c) at 0; "
               "destroy 2g.20gb at 0; switch MIG off; reset the card");
}

Test(card_plan, growing_keeps_what_stands)
{
    struct fake_hw hw = {0};
    struct fake_card *c = fake_add(&hw, FAKE_H100);
    struct card_wish w = {0};
    c->card.mode = c->card.pending_mode = GPU_MIG;
    fake_put(c, "3g.40gb", 4, whole_3);
    want(&w, c, "3g.40gb", 0, 2);
    check_plan(&hw, c, &w, CARD_CHANGE, "create 3g.40gb at 0; create compute instance 3c at 0");
}

Test(card_plan, card_as_wanted_needs_nothing)
{
    struct fake_hw hw = {0};
    struct fake_card *c = fake_add(&hw, FAKE_H100);
    struct card_wish w = {0};
    c->card.mode = c->card.pending_mode = GPU_MIG;
    fake_put(c, "1g.10gb", 3, whole_1);
    want(&w, c, "1g.10gb", 0, 1);
    check_plan(&hw, c, &w, CARD_NOTHING, "");
}

Test(card_plan, instance_left_without_its_compute_instance_gets_it_back)
{
    struct fake_hw hw = {0};
    struct fake_card *c = fake_add(&hw, FAKE_H100);
    c->card.mode = c->card.pending_mode = GPU_MIG;
    fake_put(c, "2g.20gb", 2, whole_2);
    auto_gpu_card struct gpu_card whole = look(&hw, c);
    struct card_layout layout;
    card_layout_of(&whole, &layout);
    auto_gpu_card struct gpu_card bare = look(&hw, c);
    bare.state.items[0].n_cis = bare.n_partitions = 0;
    struct card_steps steps;
    card_steps_to(&bare, &layout, &steps);
    cr_expect_eq(steps.n, 1);
    cr_expect_eq(steps.items[0].kind, CARD_CI_CREATE);
    cr_expect_eq(steps.items[0].ci_start, 0);
}

Test(card_plan, recutting_a_free_instance_keeps_the_gpu_instance)
{
    struct fake_hw hw = {0};
    struct fake_card *c = fake_add(&hw, FAKE_H100);
    struct card_wish w = {0};
    c->card.mode = c->card.pending_mode = GPU_MIG;
    fake_put(c, "3g.40gb", 4, whole_3);
    want(&w, c, "3g.40gb", 1, 3);
    check_plan(&hw, c, &w, CARD_CHANGE,
               "destroy compute instance 0 (3c) at 4; create compute instance 1c at 4; "
               "create compute instance 1c at 4; create compute instance 1c at 4");
}

Test(card_plan, what_is_in_use_and_must_go_is_a_drain_that_names_its_user)
{
    struct fake_hw hw = {0};
    struct fake_card *c = fake_add(&hw, FAKE_H100);
    struct card_wish w = {0};
    c->card.mode = c->card.pending_mode = GPU_MIG;
    fake_put(c, "7g.80gb", 0, (const unsigned[]){7, 0});
    fake_attach(c, (struct fake_process){.pid = 77, .start = 0, .ci_start = -1});
    want(&w, c, "1g.10gb", 0, 7);
    auto_gpu_card struct gpu_card card = look(&hw, c);
    struct card_plan plan;
    card_plan(&card, &w, &plan);
    cr_expect_eq(plan.verdict, CARD_DRAIN);
    cr_expect_eq(plan.steps.blocking, 1);
    cr_expect_str_eq(plan.message, "7g.80gb at memory slice 0 is in use by train (pid 77)");
}

Test(card_plan, instance_in_use_stays_where_it_is_when_there_is_room)
{
    struct fake_hw hw = {0};
    struct fake_card *c = fake_add(&hw, FAKE_H100);
    struct card_wish w = {0};
    c->card.mode = c->card.pending_mode = GPU_MIG;
    fake_put(c, "1g.10gb", 0, whole_1);
    fake_attach(c, (struct fake_process){.pid = 77, .start = 0, .ci_start = -1});
    want(&w, c, "3g.40gb", 0, 1);
    want(&w, c, "1g.10gb", 0, 1);
    check_plan(&hw, c, &w, CARD_CHANGE, "create 3g.40gb at 4; create compute instance 3c at 4");
}

Test(card_plan, native_card_in_use_cannot_change_its_mode)
{
    struct fake_hw hw = {0};
    struct fake_card *c = fake_add(&hw, FAKE_H100);
    struct card_wish w = {.mode = GPU_MIG};
    fake_attach(c, (struct fake_process){.pid = 9, .start = -1, .ci_start = -1});
    auto_gpu_card struct gpu_card card = look(&hw, c);
    struct card_plan plan;
    card_plan(&card, &w, &plan);
    cr_expect_eq(plan.verdict, CARD_DRAIN);
    cr_expect(plan.steps.card_blocking);
    cr_expect_str_eq(plan.message, "the card is in use by train (pid 9), and this change "
                                   "cannot begin before that ends");
}

Test(card_plan, geometry_that_cannot_stand_names_the_nearest)
{
    struct fake_hw hw = {0};
    struct fake_card *c = fake_add(&hw, FAKE_H100);
    struct card_wish w = {0};
    want(&w, c, "3g.40gb", 0, 3);
    auto_gpu_card struct gpu_card card = look(&hw, c);
    struct card_plan plan;
    card_plan(&card, &w, &plan);
    cr_expect_eq(plan.verdict, CARD_INFEASIBLE);
    cr_expect_str_eq(plan.reason, "Infeasible");
    cr_expect_gt(plan.nearest.n, 0);
}

Test(card_plan, card_without_mig_is_not_capable_but_native)
{
    struct fake_hw hw = {0};
    struct fake_card *c = fake_add(&hw, FAKE_NO_MIG);
    struct card_wish mig = {.mode = GPU_MIG};
    struct card_wish native = {.mode = GPU_NATIVE};
    check_plan(&hw, c, &mig, CARD_INFEASIBLE, "");
    check_plan(&hw, c, &native, CARD_NOTHING, "");
}

Test(card_plan, unhealthy_card_is_left_alone)
{
    struct gpu_card card = {.mig_capable = true, .unhealthy_message = "lost"};
    struct card_wish w = {.mode = GPU_MIG};
    struct card_plan plan;
    card_plan(&card, &w, &plan);
    cr_expect_eq(plan.verdict, CARD_INFEASIBLE);
    cr_expect_str_eq(plan.reason, "Unhealthy");
    cr_expect_eq(plan.steps.n, 0);
}

Test(card_plan, where_users_are_unknown_nothing_goes_and_more_may_come)
{
    struct fake_hw hw = {0};
    struct fake_card *c = fake_add(&hw, FAKE_H100);
    c->card.mode = c->card.pending_mode = GPU_MIG;
    c->card.users_unknown = true;
    fake_put(c, "1g.10gb", 0, (const unsigned[]){1, 0});
    struct card_wish more = {0};
    want(&more, c, "1g.10gb", 0, 1);
    want(&more, c, "3g.40gb", 0, 1);
    check_plan(&hw, c, &more, CARD_CHANGE, "create 3g.40gb at 4; create compute instance 3c at 4");
    struct card_wish other = {0};
    want(&other, c, "7g.80gb", 0, 1);
    struct card_plan plan;
    card_plan(&c->card, &other, &plan);
    cr_expect_eq(plan.verdict, CARD_INFEASIBLE);
    cr_expect_str_eq(plan.reason, "UsersUnknown");
    const struct card_wish native = {.mode = GPU_NATIVE};
    card_plan(&c->card, &native, &plan);
    cr_expect_eq(plan.verdict, CARD_INFEASIBLE);
}

Test(card_plan, old_compute_instances_are_told_apart_by_their_place)
{
    struct fake_hw hw = {0};
    struct fake_card *c = fake_add(&hw, FAKE_H100);
    c->card.mode = c->card.pending_mode = GPU_MIG;
    fake_put(c, "3g.40gb", 0, (const unsigned[]){2, 1, 0});
    auto_gpu_card struct gpu_card before = look(&hw, c);
    struct card_layout layout;
    card_layout_of(&before, &layout);
    c->card.state.n = c->card.n_partitions = 0;
    fake_put(c, "3g.40gb", 0, (const unsigned[]){1, 1, 1, 0});
    auto_gpu_card struct gpu_card now = look(&hw, c);
    struct card_steps steps;
    card_steps_to(&now, &layout, &steps);
    /* The one at slice 2 stays, those at 0 and 1 make room for the 2c at 0. */
    cr_assert_eq(steps.n, 3);
    cr_expect_eq(steps.items[0].ci_id, 0);
    cr_expect_eq(steps.items[1].ci_id, 1);
    cr_expect_eq(steps.items[2].ci_start, 0);
}

Test(card_plan, pending_mode_of_the_other_kind_is_matched_by_no_layout)
{
    struct fake_hw hw = {0};
    struct fake_card *c = fake_add(&hw, FAKE_A100);
    auto_gpu_card struct gpu_card card = look(&hw, c);
    struct card_layout layout;
    card_layout_of(&card, &layout);
    cr_expect(card_layout_matches(&card, &layout));
    card.pending_mode = GPU_MIG;
    cr_expect(!card_layout_matches(&card, &layout));
}

Test(card_plan, hopper_stuck_in_a_pending_mode_is_switched_again)
{
    struct fake_hw hw = {0};
    struct fake_card *c = fake_add(&hw, FAKE_H100);
    struct card_wish w = {.mode = GPU_MIG};
    c->card.pending_mode = GPU_MIG;
    check_plan(&hw, c, &w, CARD_CHANGE, "switch MIG on");
}

Test(card_plan, same_place_with_another_profile_is_another_instance)
{
    struct fake_hw hw = {0};
    struct fake_card *c = fake_add(&hw, FAKE_H100);
    c->card.mode = c->card.pending_mode = GPU_MIG;
    fake_put(c, "1g.10gb", 0, whole_1);
    auto_gpu_card struct gpu_card card = look(&hw, c);
    struct card_layout layout;
    card_layout_of(&card, &layout);
    layout.items[0].profile_id = 20; /* 1g.10gb+me: same place, same size */
    struct card_steps steps;
    card_steps_to(&card, &layout, &steps);
    cr_expect_eq(steps.n, 4);
    cr_expect_eq(steps.items[1].kind, CARD_GI_DESTROY);
    cr_expect_eq(steps.items[2].profile_id, 20);
}

Test(card_plan, places_that_are_not_told_are_matched_by_size)
{
    struct fake_hw hw = {0};
    struct fake_card *c = fake_add(&hw, FAKE_H100);
    c->card.mode = c->card.pending_mode = GPU_MIG;
    fake_put(c, "3g.40gb", 0, (const unsigned[]){2, 1, 0});
    auto_gpu_card struct gpu_card told = look(&hw, c);
    auto_gpu_card struct gpu_card untold = look(&hw, c);
    untold.partitions[0].ci_start = untold.partitions[1].ci_start = -1;
    struct card_layout layout;
    card_layout_of(&told, &layout);
    cr_expect(card_layout_matches(&untold, &layout));
    card_layout_of(&untold, &layout);
    cr_expect(card_layout_matches(&told, &layout));
    untold.n_partitions = 0;
    cr_expect(card_layout_matches(&untold, &layout));
}

Test(card_plan, of_two_that_would_do_the_one_in_use_stays)
{
    struct fake_hw hw = {0};
    struct fake_card *c = fake_add(&hw, FAKE_H100);
    c->card.mode = c->card.pending_mode = GPU_MIG;
    fake_put(c, "2g.20gb", 0, (const unsigned[]){1, 1, 0});
    fake_attach(c, (struct fake_process){.pid = 5, .start = 0, .ci_start = 1});
    auto_gpu_card struct gpu_card card = look(&hw, c);
    struct card_layout layout;
    card_layout_of(&card, &layout);
    layout.items[0].n_cis = 1;
    layout.items[0].ci_starts[0] = -1;
    struct card_steps steps;
    card_steps_to(&card, &layout, &steps);
    cr_assert_eq(steps.n, 1);
    cr_expect_eq(steps.items[0].ci_id, 0);
    cr_expect_eq(steps.blocking, 0);
}

Test(card_plan, drain_names_each_instance_and_up_to_three_of_its_users)
{
    struct fake_hw hw = {0};
    struct fake_card *c = fake_add(&hw, FAKE_H100);
    struct card_wish w = {.mode = GPU_NATIVE};
    c->card.mode = c->card.pending_mode = GPU_MIG;
    fake_put(c, "1g.10gb", 0, whole_1);
    fake_put(c, "1g.10gb", 1, whole_1);
    fake_put(c, "2g.20gb", 2, whole_2);
    for (unsigned pid = 1; pid <= 5; pid++)
        fake_attach(c, (struct fake_process){.pid = pid, .start = 1, .ci_start = -1});
    fake_attach(c, (struct fake_process){.pid = 9, .start = 2, .ci_start = -1});
    auto_gpu_card struct gpu_card card = look(&hw, c);
    card.users[5].name[0] = '\0';
    card.state.items[2].profile = MIG_NO_PROFILE;
    struct card_plan plan;
    card_plan(&card, &w, &plan);
    cr_expect_eq(plan.verdict, CARD_DRAIN);
    cr_expect_eq(plan.steps.blocking, 0x6);
    cr_expect_str_eq(
        plan.message,
        "1g.10gb at memory slice 1 is in use by train (pid 1), train (pid 2), train (pid 3) "
        "and 2 more; an instance of unknown profile at memory slice 2 is in use by a process (pid 9)");
}

Test(card_plan, process_on_the_whole_of_a_mig_card_bars_leaving_mig)
{
    struct fake_hw hw = {0};
    struct fake_card *c = fake_add(&hw, FAKE_H100);
    struct card_wish w = {.mode = GPU_NATIVE};
    c->card.mode = c->card.pending_mode = GPU_MIG;
    fake_put(c, "1g.10gb", 0, whole_1);
    fake_attach(c, (struct fake_process){.pid = 4, .start = 0, .ci_start = -1});
    fake_attach(c, (struct fake_process){.pid = 5, .start = -1, .ci_start = -1});
    auto_gpu_card struct gpu_card card = look(&hw, c);
    struct card_plan plan;
    card_plan(&card, &w, &plan);
    cr_expect_eq(plan.verdict, CARD_DRAIN);
    cr_expect(plan.steps.card_blocking);
    cr_expect(strstr(plan.message, "; the card is in use"), "%s", plan.message);
}

Test(card_plan, pod_that_was_given_a_cut_card_as_a_whole_holds_what_stands_on_it)
{
    struct fake_hw hw = {0};
    struct fake_card *c = fake_add(&hw, FAKE_H100);
    struct card_wish w = {0};
    c->card.mode = c->card.pending_mode = GPU_MIG;
    fake_put(c, "7g.80gb", 0, (const unsigned[]){7, 0});
    want(&w, c, "1g.10gb", 0, 7);
    auto_gpu_card struct gpu_card card = look(&hw, c);
    const struct gpu_user pod = {.part = -1, .ci = -1, .name = "team/train-0"};
    struct card_plan plan;
    gpu_card_set_holders(&card, &pod, 1);
    card_plan(&card, &w, &plan);
    cr_expect_eq(plan.verdict, CARD_DRAIN);
    cr_expect_str_eq(plan.message, "7g.80gb at memory slice 0 is in use by pod team/train-0");
    gpu_card_set_holders(&card, NULL, 0);
    card_plan(&card, &w, &plan);
    cr_expect_eq(plan.verdict, CARD_CHANGE, "it has ended");
}

Test(card_plan, recut_that_nobody_in_use_leaves_room_for_is_a_drain)
{
    struct fake_hw hw = {0};
    struct fake_card *c = fake_add(&hw, FAKE_H100);
    struct card_wish w = {0};
    c->card.mode = c->card.pending_mode = GPU_MIG;
    fake_put(c, "4g.40gb", 0, (const unsigned[]){1, 1, 1, 1, 0});
    fake_attach(c, (struct fake_process){.pid = 5, .start = 0, .ci_start = 1});
    fake_attach(c, (struct fake_process){.pid = 6, .start = 0, .ci_start = 2});
    want(&w, c, "4g.40gb", 2, 1);
    want(&w, c, "4g.40gb", 1, 2);
    auto_gpu_card struct gpu_card card = look(&hw, c);
    struct card_plan plan;
    card_plan(&card, &w, &plan);
    cr_expect_eq(plan.verdict, CARD_DRAIN, "%s", plan.message);
}

Test(card_plan, recut_without_known_places_is_as_planned)
{
    struct fake_hw hw = {0};
    struct fake_card *c = fake_add(&hw, FAKE_H100);
    struct card_wish w = {0};
    c->card.mode = c->card.pending_mode = GPU_MIG;
    fake_put(c, "3g.40gb", 0, (const unsigned[]){1, 1, 1, 0});
    want(&w, c, "3g.40gb", 2, 1);
    want(&w, c, "3g.40gb", 1, 1);
    auto_gpu_card struct gpu_card card = look(&hw, c);
    for (unsigned i = 0; i < card.n_partitions; i++)
        card.partitions[i].ci_start = -1;
    struct card_plan plan;
    card_plan(&card, &w, &plan);
    cr_expect_eq(plan.verdict, CARD_CHANGE);
    cr_expect_eq(plan.steps.n, 3);
    cr_expect_eq(plan.steps.items[2].ci_start, -1);
}

Test(card_plan, steps_have_words_without_a_table_too)
{
    const struct card_step create = {.kind = CARD_GI_CREATE, .profile_id = 19, .start = 4};
    auto_free char *text = card_step_text(&create, NULL);
    cr_expect_str_eq(text, "create profile 19 at 4");
    struct mig_table empty = {0};
    auto_free char *again = card_step_text(&create, &empty);
    cr_expect_str_eq(again, "create profile 19 at 4");
    auto_free char *odd =
        card_step_text(&(struct card_step){.kind = (enum card_step_kind)99}, NULL);
    cr_expect_str_eq(odd, "?");
}

/* --- virtual functions --- */

static void check_vfs(enum gpu_mode is, enum gpu_mode wanted, const char *reason)
{
    static struct card_plan plan;
    const struct gpu_card card = {.healthy = true,
                                  .mode = is,
                                  .pending_mode = is,
                                  .sgpu_capable = is != GPU_VGPU,
                                  .n_vfs = is == GPU_VGPU ? 2 : 0};
    const struct card_wish wish = {.mode = wanted};
    card_plan(&card, &wish, &plan);
    cr_expect_eq(plan.verdict, *reason ? CARD_INFEASIBLE : CARD_NOTHING, "%s", plan.message);
    cr_expect_str_eq(plan.reason, reason);
    cr_expect_eq(plan.steps.n, 0, "never attempted");
    cr_expect(!*reason || strstr(plan.message, "mx-smi vm --"), "%s", plan.message);
}

Test(card_plan, functions_stand_or_do_not_and_no_step_changes_that)
{
    check_vfs(GPU_VGPU, GPU_VGPU, "");
    check_vfs(GPU_VGPU, GPU_NATIVE, "VirtualFunctionsStand");
    check_vfs(GPU_VGPU, GPU_SGPU, "VirtualFunctionsStand");
    check_vfs(GPU_VGPU, GPU_MIG, "VirtualFunctionsStand");
    check_vfs(GPU_NATIVE, GPU_VGPU, "VirtualFunctionsMissing");
    check_vfs(GPU_SGPU, GPU_VGPU, "VirtualFunctionsMissing");
}

/* As a change that was interrupted before they were made has it on record. */
Test(card_plan, a_layout_of_a_card_without_functions_is_none_of_one_with)
{
    struct card_steps steps;
    struct card_layout stands;
    const struct gpu_card card = {.healthy = true,
                                  .mode = GPU_VGPU,
                                  .pending_mode = GPU_VGPU,
                                  .n_vfs = 1};
    for (enum gpu_mode mode = GPU_NATIVE; mode < GPU_VGPU; mode++) {
        const struct card_layout other = {.mode = mode};
        cr_expect_not(card_layout_matches(&card, &other));
        card_steps_to(&card, &other, &steps);
        cr_expect_eq(steps.n, 0);
    }
    card_layout_of(&card, &stands);
    cr_expect(card_layout_matches(&card, &stands));
}

Test(card_plan, a_process_without_a_pid_is_not_a_pod)
{
    struct gpu_card card = {.mode = GPU_MIG, .state = {.n = 1}, .n_users = 1};
    card.users = xcalloc(1, sizeof(*card.users));
    card.users[0] = (struct gpu_user){.part = -1, .ci = -1};
    gpu_card_set_holders(&card, NULL, 0);
    cr_expect_eq(card.n_users, 1, "only pods are replaced");
    cr_expect_not(card.state.items[0].in_use, "only a pod holds every part of a cut card");
    gpu_card_done(&card);
}
