/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <string.h>

#include "base/jx.h"
#include "base/xalloc.h"

#include "scheduler/choice.h"
#include "scheduler/scrape.h"
#include "scheduler/view_snapshot.h"
#include "scheduler_support.h"

static struct view_snapshot snapshot; /* the last one */

static void tear_down(void)
{
    view_snapshot_done(&snapshot);
    town_tear_down();
}

TestSuite(view_snapshot, .init = town_set_up, .fini = tear_down);

static void take(void)
{
    view_snapshot_done(&snapshot);
    view_snapshot_take(town_view, &snapshot);
}

static const struct snapshot_card *card(const char *uuid)
{
    size_t i = 0;
    while (i < snapshot.n_cards && strcmp(snapshot.cards[i].uuid, uuid) != 0)
        i++;
    cr_assert_lt(i, snapshot.n_cards, "no card %s", uuid);
    return &snapshot.cards[i];
}

/* Makes the pod, and has it assumed on a node. New reference. */
static json_t *chosen(const char *name, const char *spec, const char *node)
{
    auto_err struct err e = {0};
    auto_pod_ask struct pod_ask ask = {0};
    auto_choice struct choice c = {0};
    json_t *pod = town_create(name, "", spec);
    cr_assert_eq(pod_ask_of(pod, &ask, &e), 0, "%s", err_msg(&e));
    choice_make(town_view, &ask, &node, 1, &c);
    cr_assert_eq(c.n_kept, 1, "%s", c.n_refused ? c.refused[0].why : "");
    return pod;
}

static void run(const char *name, const char *spec, const char *node)
{
    auto_json json_t *pod = chosen(name, spec, node);
    town_bind(pod, node);
    town_see();
}

/* --- Cards --- */

Test(view_snapshot, cards_are_there_with_their_numbers_and_what_is_given_out)
{
    town_node("a", 1, 1, "");
    town_node("b", 1, 0, "");
    town_see();
    run("p", PART(3000), "a");
    take();
    cr_assert_eq(snapshot.n_cards, 3);
    cr_expect_eq(card("a-0")->index, 0);
    cr_expect_eq(card("a-1")->index, 1, "which is the first of the planner's");
    cr_expect_str_eq(card("a-0")->node, "a");
    cr_expect_str_eq(card("a-0")->model, "NVIDIA H100 80GB HBM3");
    cr_expect_eq(card("a-0")->used.memory_mib, 3000);
    cr_expect_eq(card("a-0")->sharers, 1);
    cr_expect_eq(card("a-0")->total.shares, 10);
    cr_expect_eq(card("a-1")->used.memory_mib, 0);
    cr_expect_eq(card("b-0")->used.memory_mib, 0);
}

Test(view_snapshot, a_node_without_shares_has_no_cards_here)
{
    town_node("plain", 0, 2, "");
    town_see();
    take();
    cr_expect_eq(snapshot.n_cards, 0);
}

Test(view_snapshot, a_card_whose_model_nobody_said_has_an_empty_one)
{
    town_node("a", 1, 0, ", \"model\": null");
    town_see();
    take();
    cr_expect_str_eq(card("a-0")->model, "");
}

Test(view_snapshot, a_pod_that_holds_the_whole_card_is_one_and_not_ten)
{
    town_node("a", 1, 0,
              ", \"inUse\": true, \"inUseBy\": [{\"namespace\": \"ns\", \"name\": \"old\"}]");
    town_see();
    take();
    cr_expect_eq(card("a-0")->sharers, 1);
    cr_expect_eq(card("a-0")->used.memory_mib, 81559);
    cr_expect_eq(snapshot.n_shares, 0, "it has no record");
}

Test(view_snapshot, what_is_assumed_counts_on_the_card_and_is_no_share_of_a_pod_yet)
{
    town_node("a", 1, 0, "");
    town_see();
    json_decref(chosen("p", PART(3000), "a"));
    take();
    cr_expect_eq(card("a-0")->used.memory_mib, 3000);
    cr_expect_eq(snapshot.n_shares, 0);
    clock_fake_advance(town_clk, VIEW_ASSUMED_MS);
    take();
    cr_expect_eq(card("a-0")->used.memory_mib, 0);
}

/* --- Shares --- */

#define CONTAINER(name, mib)                                                                       \
    "{\"name\": \"" name "\", \"resources\": {\"limits\": {\"nvidia.com/gpu\": \"1\", "            \
    "\"nvidia.com/gpumem\": \"" #mib "\", \"nvidia.com/gpucores\": \"10\"}}}"

Test(view_snapshot, a_containers_place_counts_those_without_shares_and_init_containers_first)
{
    town_node("a", 1, 0, "");
    town_see();
    run("p",
        "\"initContainers\": [{\"name\": \"i\"}], \"containers\": [{\"name\": "
        "\"x\"}, " CONTAINER("y", 1000) ", {\"name\": \"z\"}, " CONTAINER("w", 2000) "]",
        "a");
    take();
    cr_assert_eq(snapshot.n_shares, 2);
    const struct snapshot_share *s = snapshot.shares;
    cr_expect_eq(s[0].container, 2);
    cr_expect_eq(s[0].memory_mib, 1000);
    cr_expect_eq(s[1].container, 4);
    cr_expect_eq(s[1].memory_mib, 2000);
    cr_expect_eq(s[1].percent, 10);
    cr_expect_str_eq(s[1].ns, "ns");
    cr_expect_str_eq(s[1].pod, "p");
    cr_expect_str_eq(s[1].node, "a");
    cr_expect_str_eq(s[1].uuid, "a-0");
}

Test(view_snapshot, what_ends_is_gone)
{
    town_node("a", 1, 0, "");
    town_see();
    run("p", PART(3000), "a");
    take();
    cr_expect_eq(snapshot.n_shares, 1);
    town_delete("p");
    town_see();
    take();
    cr_expect_eq(snapshot.n_shares, 0);
    cr_expect_eq(card("a-0")->used.shares, 0);
}

/* --- Quotas --- */

Test(view_snapshot, of_several_quotas_the_least_holds_and_all_pods_count)
{
    town_node("a", 1, 0, "");
    town_quota("wide", "\"limits.nvidia.com/gpumem\": \"20000\"");
    town_quota("tight", "\"limits.nvidia.com/gpumem\": \"9000\", \"limits.nvidia.com/gpucores\": "
                        "\"50\"");
    town_quota("else", "\"limits.cpu\": \"1\"");
    town_see();
    run("p", PART(3000), "a");
    json_decref(chosen("q", PART(1000), "a"));
    take();
    cr_assert_eq(snapshot.n_quotas, 1);
    cr_expect_str_eq(snapshot.quotas[0].ns, "ns");
    cr_expect_eq(snapshot.quotas[0].most.memory_mib, 9000);
    cr_expect_eq(snapshot.quotas[0].most.percent, 50);
    cr_expect_eq(snapshot.quotas[0].used.memory_mib, 4000);
}

Test(view_snapshot, without_a_quota_no_namespace_is_bounded)
{
    town_node("a", 1, 0, "");
    town_see();
    run("p", PART(3000), "a");
    take();
    cr_expect_eq(snapshot.n_quotas, 0);
}

/* --- The page --- */

static bool ready;

static bool is_ready(const void *arg)
{
    (void)arg;
    return ready;
}

static char *page(struct scrape *s)
{
    struct sb body = SB_INIT(1 << 20);
    cr_expect_eq(scrape_page(s, &body), 200);
    return sb_take(&body);
}

#define LEFT_OUT "cleave_scheduler_hami_metrics_left_out "

Test(view_snapshot, hamis_metrics_are_on_the_page_once_the_caches_are_synced)
{
    auto_metrics struct metrics *m = metrics_new();
    struct scrape s = scrape_of(m, town_view, HAMI_CURRENT, is_ready, NULL);
    town_node("a", 1, 0, "");
    town_see();
    ready = false;
    auto_free char *early = page(&s);
    cr_expect(strstr(early, LEFT_OUT "1\n"), "%s", early);
    cr_expect_not(strstr(early, "hami_gpu_"));
    ready = true;
    auto_free char *text = page(&s);
    cr_expect(strstr(text, LEFT_OUT "0\n"), "%s", text);
    cr_expect(strstr(text, "hami_gpu_memory_limit_bytes{zone=\"vGPU\",node=\"a\",device_uuid="
                           "\"a-0\",device_index=\"0\",device_type=\"NVIDIA H100 80GB HBM3\"} "
                           "85520809984\n"),
              "%s", text);
}

Test(view_snapshot, nobody_asked_for_hamis_metrics)
{
    auto_metrics struct metrics *m = metrics_new();
    struct scrape s = scrape_of(m, town_view, HAMI_NONE, is_ready, NULL);
    ready = true;
    auto_free char *text = page(&s);
    cr_expect_str_empty(text);
}

Test(view_snapshot, more_than_a_page_holds_is_left_out_as_a_whole)
{
    enum { NODES = 200, CARDS = 16 };
    auto_metrics struct metrics *m = metrics_new();
    struct scrape s = scrape_of(m, town_view, HAMI_BOTH, is_ready, NULL);
    for (int i = 0; i < NODES; i++) {
        auto_free char *name = xasprintf("node-%d", i);
        town_node(name, CARDS, 0, "");
    }
    town_see();
    ready = true;
    auto_free char *text = page(&s);
    cr_expect(strstr(text, LEFT_OUT "1\n"));
    cr_expect_not(strstr(text, "hami_gpu_"));
}
