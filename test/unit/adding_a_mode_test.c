/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/sb.h"
#include "base/xalloc.h"

#include "gpu_fake_support.h"
#include "nodeagent/change/card_run.h"
#include "nodeagent/change/journal.h"
#include "nodeagent/mode/card_mode.h"
#include "nodeagent/offer/card_holders.h"
#include "nodeagent/offer/node_offer.h"
#include "nodeagent/report/node_status.h"

/*
 * The code of docs/adding-a-mode.md: a mode that nothing else in the tree knows, in everything that
 * the agent does with a card.
 */

#define CARD "GPU-00000000-fake"
#define HALF "nvidia.example/half"

struct node {
    struct fake_hw hw;
    struct gpu_inventory inventory;
    struct card_view view;
    struct device_want want;
    struct device_spec spec;
    struct node_state state;
};

static void node_read(struct node *n)
{
    auto_gpu struct gpu *g = gpu_fake_open(&n->hw);
    gpu_card_done(&n->view.card);
    n->view.card = (struct gpu_card){0};
    cr_assert_eq(g->ops->read_card(g, CARD, &n->view.card, NULL), 0);
    n->state = (struct node_state){.inventory = &n->inventory,
                                   .cards = &n->view,
                                   .n_cards = 1,
                                   .spec = &n->spec,
                                   .spec_seen = true,
                                   .means.publisher = API_PUBLISHER_KUBELET};
}

static void node_init(struct node *n, enum gpu_mode mode)
{
    *n = (struct node){.want = {.uuid = (char *)(uintptr_t)CARD, .mode = API_MODE_HALVES}};
    n->spec = (struct device_spec){.mig_strategy = API_STRATEGY_MIXED,
                                   .devices = &n->want,
                                   .n_devices = 1};
    struct gpu_card *c = &fake_add(&n->hw, FAKE_H100)->card;
    c->mode = c->pending_mode = mode;
    c->memory_mib = 81920;
    node_read(n);
}

static void node_done(struct node *n)
{
    gpu_card_done(&n->view.card);
    gpu_inventory_done(&n->inventory);
}

/* As the kubelet's list has it: a pod that was granted this half. */
static void hold(struct gpu_card *card, unsigned half)
{
    auto_holders struct holders h = {0};
    struct holder *list = NULL;
    size_t n = 0;
    const struct device_slots none = {0};
    *XPUSH(list, n) = (struct holder){.id = xasprintf(CARD "/half@%u", half),
                                      .ns = xstrdup("team"),
                                      .pod = xstrdup("train"),
                                      .resource = xstrdup(HALF)};
    (void)holders_list(&h, list, n, 1);
    card_holders_mark(&h, &none, &(const struct shares){0}, card);
}

Test(adding_a_mode, it_is_one_file_and_a_line)
{
    cr_expect_str_eq(MODE_FILES, "api/modes.def nodeagent/mode/halves.c");
    cr_expect_str_eq(api_mode_names[API_MODE_HALVES], "halves");
    cr_expect_eq((int)GPU_HALVES, (int)API_MODE_HALVES);
    cr_expect_null(card_mode_at(GPU_HALVES + 1));
}

Test(adding_a_mode, its_parts_are_counted_and_described)
{
    struct node n;
    node_init(&n, GPU_HALVES);
    struct resolve_card view;
    struct profile_count *counts;
    card_resolve_view(&n.view.card, &view, &counts);
    cr_assert_eq(view.n_partitions, 1);
    cr_expect_str_eq(counts[0].profile, "half");
    cr_expect_eq(counts[0].count, 2);
    card_resolve_counts_free(counts, view.n_partitions);
    auto_free char *words = card_layout_words(&n.view.card);
    cr_expect_str_eq(words, "2xhalf");
    auto_sb struct sb line = SB_INIT(256);
    const struct card_part part = card_part_at(&n.view.card, 1);
    card_mode_of(GPU_HALVES)->describe(&n.view.card, &part, &line);
    cr_expect_str_eq(sb_str(&line), "half           1  40960 MiB");
    node_done(&n);
}

static void plan(const struct node *n, int mode, struct card_plan *ret)
{
    struct card_wish wish;
    const struct device_want want = {.mode = mode};
    cr_assert_eq(card_wish_of(&n->view.card, &want, &wish, NULL), 0);
    card_plan(&n->view.card, &wish, ret);
}

Test(adding_a_mode, it_is_switched_on_and_off)
{
    struct node n;
    struct card_plan p;
    unsigned done = 0;
    node_init(&n, GPU_NATIVE);
    auto_gpu struct gpu *g = gpu_fake_open(&n.hw);
    plan(&n, API_MODE_HALVES, &p);
    cr_assert_eq(p.verdict, CARD_CHANGE);
    cr_assert_eq(p.steps.n, 1);
    auto_free char *on = card_step_text(&p.steps.items[0], NULL);
    cr_expect_str_eq(on, "switch halves on");
    cr_assert_eq(card_steps_run(g, &n.view.card, &p.steps, &done, NULL), 0);
    node_read(&n);
    cr_expect_eq(n.view.card.mode, GPU_HALVES);
    cr_expect(card_layout_matches(&n.view.card, &p.target));
    plan(&n, API_MODE_NATIVE, &p);
    cr_assert_eq(p.steps.n, 1);
    auto_free char *off = card_step_text(&p.steps.items[0], NULL);
    cr_expect_str_eq(off, "switch halves off");
    node_done(&n);
}

Test(adding_a_mode, partitions_go_before_it_comes)
{
    static const unsigned whole[] = {1, 0};
    struct node n;
    struct card_plan p;
    node_init(&n, GPU_MIG);
    fake_put(&n.hw.cards[0], "1g.10gb", 0, whole);
    node_read(&n);
    plan(&n, API_MODE_HALVES, &p);
    cr_assert_eq(p.steps.n, 3);
    cr_expect_eq(p.steps.items[0].kind, CARD_CI_DESTROY);
    cr_expect_eq(p.steps.items[1].kind, CARD_GI_DESTROY);
    cr_expect_eq(p.steps.items[2].kind, CARD_MODE_SET);
    node_done(&n);
}

Test(adding_a_mode, a_part_in_use_is_waited_for)
{
    struct node n;
    struct card_plan p;
    node_init(&n, GPU_HALVES);
    hold(&n.view.card, 1);
    plan(&n, API_MODE_NATIVE, &p);
    cr_expect_eq(p.verdict, CARD_DRAIN);
    cr_expect_str_eq(p.message, "half 1 is in use by pod team/train");
    plan(&n, API_MODE_HALVES, &p);
    cr_expect_eq(p.verdict, CARD_NOTHING);
    node_done(&n);
}

Test(adding_a_mode, a_card_without_it_is_refused)
{
    struct node n;
    struct card_plan p;
    node_init(&n, GPU_NATIVE);
    n.view.card.mig_capable = false;
    plan(&n, API_MODE_HALVES, &p);
    cr_expect_eq(p.verdict, CARD_INFEASIBLE);
    cr_expect_str_eq(p.message, "this card has no halves");
    const struct card_memo m = {.result = {.outcome = TXN_INFEASIBLE, .reason = "NotCapable"}};
    cr_expect_str_eq(card_memo_reason(&n.want, &m, 0), "HalvesUnsupported");
    node_done(&n);
}

static const struct table_resource *halves_of(const struct node *n, struct node_offer *offer)
{
    node_offer_build(&n->state, /* now_ms= */ 0, offer);
    const struct table_resource *r = device_table_resource(&offer->table, HALF);
    cr_assert(r && r->n_devices == 2);
    cr_expect_eq(offer->table.n_resources, 1, "nothing else of the card is offered");
    return r;
}

Test(adding_a_mode, its_parts_are_offered)
{
    struct node n;
    auto_node_offer struct node_offer offer;
    node_init(&n, GPU_HALVES);
    const struct table_device *d = halves_of(&n, &offer)->devices;
    cr_expect_str_eq(d[0].id, CARD "/half@0");
    cr_expect_str_eq(d[1].id, CARD "/half@1");
    cr_expect(d[0].healthy && d[1].healthy);
    cr_expect_eq(d[1].memory_mib, 40960);
    cr_expect_str_eq(d[1].entry.cdi_name, CARD "-half-1");
    node_done(&n);
}

Test(adding_a_mode, a_change_withdraws_its_parts_first)
{
    struct node n;
    struct card_plan p;
    struct card_offer o;
    node_init(&n, GPU_HALVES);
    plan(&n, API_MODE_NATIVE, &p);
    card_offer_of(&n.view.card, &o);
    const struct card_part part = card_part_at(&n.view.card, 1);
    cr_expect(card_offer_has(&o, &part));
    cr_expect_not(card_offer_allows(&o, &p.steps));
    card_offer_withdraw(&o, &p.steps);
    cr_expect_not(card_offer_has(&o, &part));
    node_done(&n);
}

Test(adding_a_mode, it_is_reported)
{
    struct node n;
    struct device_status s;
    auto_node_offer struct node_offer offer;
    node_init(&n, GPU_HALVES);
    hold(&n.view.card, 1);
    node_offer_build(&n.state, 0, &offer);
    node_status_build(&n.state, &offer, /* prev= */ NULL, 0, &s);
    const struct device_card *c = &s.devices[0];
    cr_expect_str_eq(api_mode_names[c->mode], "halves");
    cr_assert_eq(c->n_partitions, 2);
    cr_expect_str_eq(c->partitions[1].uuid, CARD "/half@1");
    cr_expect_str_eq(c->partitions[1].profile, "half");
    cr_expect(!c->partitions[0].in_use && c->partitions[1].in_use && !c->in_use);
    cr_expect_str_eq(s.summary.layout, "2xhalf");
    cr_expect_eq(s.summary.in_use, 1);
    cr_assert_eq(s.n_resources, 1);
    cr_expect_str_eq(s.resources[0].name, HALF);
    cr_expect_eq(s.resources[0].count, 2);
    device_status_done(&s);
    node_done(&n);
}

Test(adding_a_mode, a_journal_keeps_it)
{
    char dir[] = "/tmp/adding_a_mode.XXXXXX";
    struct node n;
    struct journal back;
    node_init(&n, GPU_HALVES);
    struct journal j = {.uuid = CARD, .boot_id = "boot", .target = {.mode = GPU_NATIVE}};
    card_layout_of(&n.view.card, &j.old);
    cr_assert(mkdtemp(dir));
    cr_assert_eq(journal_write(dir, &j, NULL), 0);
    cr_assert_eq(journal_read(dir, CARD, &back, NULL), 0);
    cr_expect_eq(back.old.mode, GPU_HALVES);
    cr_expect_eq(journal_remove(dir, CARD, NULL), 0);
    cr_expect_eq(rmdir(dir), 0);
    node_done(&n);
}
