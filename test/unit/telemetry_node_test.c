/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/sb.h"
#include "base/xalloc.h"

#include "gpu_fake_support.h"
#include "nodeagent/kubelet/checkpoint.h"
#include "nodeagent/offer/node_state.h"
#include "nodeagent/offer/shares.h"
#include "nodeagent/telemetry/telemetry_node.h"

/* A node with a whole card A, and a card B that is cut into two GPU instances. */

#define A "GPU-00000000-fake"
#define B "GPU-00000001-fake"

static const unsigned whole[] = {3, 0};
static const unsigned halves[] = {1, 1, 1, 0};

static struct fake_hw hw;
static struct gpu_inventory inventory;
static struct card_view views[FAKE_MAX_CARDS];
static struct holders held;
static struct checkpoint granted;
static struct shares shares;
static struct health *health;
static struct telemetry_node node;

static void set_up(void)
{
    auto_gpu struct gpu *g = gpu_fake_open(&hw);
    (void)fake_add(&hw, FAKE_H100);
    struct fake_card *b = fake_add(&hw, FAKE_H100);
    b->card.mode = b->card.pending_mode = GPU_MIG;
    fake_put(b, "3g.40gb", 4, whole);
    fake_put(b, "3g.40gb", 0, halves);
    cr_assert_eq(g->ops->read(g, &inventory, NULL), 0);
    for (size_t i = 0; i < inventory.n_cards; i++)
        views[i].card = inventory.cards[i];
    free(TAKE(inventory.cards));
    inventory.n_cards = 0;
}

static void tear_down(void)
{
    telemetry_node_done(&node);
    holders_done(&held);
    checkpoint_done(&granted);
    shares_done(&shares);
    health = health_free(health);
    for (size_t i = 0; i < FAKE_MAX_CARDS; i++)
        card_view_done(&views[i]);
    gpu_inventory_done(&inventory);
}

TestSuite(telemetry_node, .init = set_up, .fini = tear_down);

static void hold(const char *id, const char *pod, const char *container)
{
    *XPUSH(held.listed, held.n_listed) = (struct holder){.id = xstrdup(id),
                                                         .ns = xstrdup(pod ? "team" : NULL),
                                                         .pod = xstrdup(pod),
                                                         .container = xstrdup(container)};
}

static void grant(const char *id, const char *uid)
{
    *XPUSH(granted.devices, granted.n) = (struct checkpoint_device){.resource = xstrdup("r"),
                                                                    .id = xstrdup(id),
                                                                    .container = xstrdup("main"),
                                                                    .uid = xstrdup(uid)};
}

static void build(void)
{
    const struct node_state s = {.health = health,
                                 .inventory = &inventory,
                                 .cards = views,
                                 .n_cards = 2,
                                 .holders = &held,
                                 .shares = &shares};
    telemetry_node_done(&node);
    telemetry_node_build(&s, &granted, &node);
}

/* "GPU-…: shared pod/container=uid …" of each place that has holders, "GPU-…/profile: …" of an
 * instance. */
static void expect(const char *text)
{
    auto_sb struct sb b = SB_INIT(4096);
    build();
    for (size_t i = 0; i < node.n; i++) {
        for (size_t k = 0; k < node.cards[i].n_places; k++) {
            const struct telemetry_place *p = &node.cards[i].places[k];
            if (!p->n_holders)
                continue;
            sb_addf(&b, "%s%s%s:%s", node.cards[i].uuid, *p->profile ? "/" : "", p->profile,
                    p->is_shared ? " shared" : "");
            for (size_t m = 0; m < p->n_holders; m++)
                sb_addf(&b, " %s/%s=%s", p->holders[m].pod, p->holders[m].container,
                        p->holders[m].uid ? p->holders[m].uid : "?");
            sb_add_char(&b, '\n');
        }
    }
    cr_expect_str_eq(sb_str(&b), text, "%s", sb_str(&b));
}

Test(telemetry_node, cards_and_instances_have_their_names)
{
    build();
    cr_assert_eq(node.n, 2);
    cr_expect_str_eq(node.cards[1].uuid, B);
    cr_expect_str_eq(node.cards[1].vendor, "nvidia");
    cr_expect_eq(node.cards[1].index, 1);
    cr_assert_eq(node.cards[0].n_places, 1);
    cr_assert_eq(node.cards[1].n_places, 3, "the card, and two instances");
    cr_expect_eq(node.cards[1].places[0].gi_id, -1);
    cr_expect_str_eq(node.cards[1].places[1].profile, "3g.40gb");
    cr_expect_lt(node.cards[1].places[1].gi_id, node.cards[1].places[2].gi_id);
}

Test(telemetry_node, a_container_has_the_card_that_the_kubelet_granted)
{
    hold(A, "train", "main");
    expect(A ": train/main=?\n");
}

Test(telemetry_node, a_container_has_the_instance_that_the_kubelet_granted)
{
    hold(B "/3g.40gb@4", "small", "main");
    expect(B "/3g.40gb: small/main=?\n");
}

Test(telemetry_node, compute_instances_share_their_gpu_instance)
{
    hold(B "/1c.3g.40gb@0.0", "one", "main");
    hold(B "/1c.3g.40gb@0.1", "two", "main");
    grant(B "/1c.3g.40gb@0.1", "u2");
    expect(B "/3g.40gb: shared one/main=? two/main=u2\n");
}

Test(telemetry_node, a_replica_is_shared_though_one_pod_alone_has_it)
{
    hold(A "::0", "train", "main");
    grant(A "::0", "u1");
    expect(A ": shared train/main=u1\n");
}

Test(telemetry_node, a_pod_with_two_replicas_is_one)
{
    hold(A "::0", "train", "main");
    hold(A "::1", "train", "main");
    hold(A "::2", "eval", "main");
    grant(A "::0", "u1");
    grant(A "::2", "u2");
    expect(A ": shared eval/main=u2 train/main=u1\n");
}

Test(telemetry_node, containers_of_one_pod_on_a_shared_card_cannot_be_told_apart)
{
    hold(A "::0", "train", "first");
    hold(A "::1", "train", "second");
    grant(A "::1", "u1");
    expect(A ": shared train/=u1\n");
}

Test(telemetry_node, a_card_of_two_containers_is_their_pods_own)
{
    hold(A, "train", "first");
    hold(A, "train", "second");
    expect(A ": train/=?\n");
    hold(A, "eval", "main");
    expect(A ": shared eval/main=? train/=?\n");
}

Test(telemetry_node, of_a_card_that_was_never_read_the_instances_are_not_known)
{
    views[1].card.unread = true;
    build();
    cr_expect_eq(node.cards[1].n_places, 1);
}

Test(telemetry_node, a_share_is_on_its_card)
{
    static char uid[] = "u7", container[] = "main";
    const struct share share = {.slot = SLOT_SHARES_FIRST + 3,
                                .card = A,
                                .memory_mib = 1024,
                                .uid = uid,
                                .container = container};
    shares_put(&shares, &share);
    hold("share@3", "train", "main");
    hold("share@4", "not-bound-yet", "main");
    expect(A ": shared train/main=u7\n");
    cr_expect_eq(node.cards[0].places[0].holders[0].share_bytes, UINT64_C(1) << 30);
}

Test(telemetry_node, the_shares_of_a_pods_containers_on_a_card_are_added_up)
{
    static char uid[] = "u7", first[] = "first", second[] = "second";
    struct share share = {.slot = SLOT_SHARES_FIRST + 3,
                          .card = A,
                          .memory_mib = 1024,
                          .uid = uid,
                          .container = first};
    shares_put(&shares, &share);
    share.slot++;
    share.container = second;
    shares_put(&shares, &share);
    hold("share@3", "train", "first");
    hold("share@4", "train", "second");
    expect(A ": shared train/=u7\n");
    cr_expect_eq(node.cards[0].places[0].holders[0].share_bytes, UINT64_C(2) << 30);
}

Test(telemetry_node, who_is_not_known_by_name_and_what_is_not_here_is_passed_over)
{
    hold(A, NULL, "main");
    hold("GPU-gone", "other", "main");
    hold("", "other", "main");
    expect("");
}

Test(telemetry_node, a_card_without_a_uuid_is_left_out)
{
    *views[0].card.uuid = '\0';
    hold(B, "train", "main");
    expect(B ": train/main=?\n");
    cr_expect_eq(node.n, 1);
}

Test(telemetry_node, a_cards_last_xid_is_told_where_its_driver_reports_them)
{
    const struct gpu_event ev = {.kind = GPU_EVENT_XID, .code = 79, .gi_id = -1, .ci_id = -1};
    build();
    cr_expect(isnan(node.cards[0].last_xid), "nobody listens");
    health = health_new(/* o= */ NULL);
    (void)health_xid(health, &views[0].card, &ev, /* now_mono_ms= */ 1);
    views[1].unwatched = true;
    build();
    cr_expect_eq(node.cards[0].last_xid, 79);
    cr_expect(isnan(node.cards[1].last_xid), "it reports no events");
    views[1].unwatched = false;
    build();
    cr_expect_eq(node.cards[1].last_xid, 0);
}
