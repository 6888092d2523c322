/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/xalloc.h"

#include "gpu_fake_support.h"
#include "nodeagent/slots/slot_bind.h"
#include "nodeagent/vendor/metax/container_metax.h"

/* Each test has a folder and a card of its own. */
static char folder[64];
static struct fake_hw hw;
static struct cdi_slots *cdi;

static void set_up(void)
{
    const char *root = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
    (void)snprintf(folder, sizeof(folder), "%s/slot-bind-test-XXXXXX", root);
    cr_assert(mkdtemp(folder) && chdir(folder) == 0);
    memset(&hw, 0, sizeof(hw));
    for (unsigned i = 0; i < 2; i++) {
        struct gpu_card *c = &fake_add(&hw, FAKE_C500)->card;
        c->mode = c->pending_mode = GPU_SGPU;
        c->sgpu.qos = API_BEST_EFFORT;
        (void)snprintf(c->pci_bus_id, sizeof(c->pci_bus_id), "0000:0%u:00.0", i + 1);
    }
    cdi = cdi_slots_new(&(struct cdi_options){.folder = "cdi"});
}

static void tear_down(void)
{
    cdi = cdi_slots_free(cdi);
    auto_free char *command = xasprintf("rm -rf '%s'", folder);
    cr_assert_eq(system(command), 0);
}

TestSuite(slot_bind, .init = set_up, .fini = tear_down);

#define A "GPU-00000000-fake"
#define B "GPU-00000001-fake"

static char ns[] = "ns", pod[] = "p", uid[] = "uid-1", other_uid[] = "uid-2", main_name[] = "main";

static struct bound_slot grant(unsigned slot, const char *card, unsigned mib)
{
    struct bound_slot g = {.slot = slot, .quota = {mib, 10}, .qos = API_FIXED_SHARE};
    (void)snprintf(g.card, sizeof(g.card), "%s", card);
    return g;
}

static struct dri_card card_nodes[2];

static int with(int (*what)(const struct slot_deps *d, const void *arg, struct err *e),
                const void *arg, struct err *e)
{
    auto_gpu struct gpu *g = gpu_fake_open(&hw);
    struct metax_files control = {.mxcd = true};
    struct device_nodes nodes = {.own = {{&container_metax, &control}},
                                 .dri = {.cards = card_nodes, .n_cards = 2}};
    for (unsigned i = 0; i < 2; i++) {
        card_nodes[i] = (struct dri_card){.renders = {128 + i}, .n_renders = 1};
        (void)snprintf(card_nodes[i].bus_id, sizeof(card_nodes[i].bus_id), "%.*s",
                       (int)sizeof(card_nodes[i].bus_id) - 1, hw.cards[i].card.pci_bus_id);
    }
    const struct slot_deps d = {g, "state", cdi, &nodes, .files = NULL};
    return what(&d, arg, e);
}

static int bind_(const struct slot_deps *d, const void *arg, struct err *e)
{
    return slot_bind(d, arg, e);
}

static int bind_for(char *of, struct bound_slot *bound, size_t n, struct err *e)
{
    const struct slot_binding b = {ns, pod, of, main_name, bound, n, .entries = NULL};
    return with(bind_, &b, e);
}

/* Where no place was found. */
static int stay_for(char *of, unsigned slot, struct err *e)
{
    struct bound_slot g = {.slot = slot};
    auto_err struct err why = {0};
    (void)err_set(&why, ERR_INVALID, "no place");
    const struct slot_binding b = {ns, pod, of, main_name, &g, 1, .unplaced = why};
    return with(bind_, &b, e);
}

static int release_(const struct slot_deps *d, const void *arg, struct err *e)
{
    return slot_release(d, *(const unsigned *)arg, A, e);
}

static int release(unsigned slot, struct err *e)
{
    return with(release_, &slot, e);
}

/* "slot.3 1024 10; …" of a card, with its policy. */
static void expect_slices(unsigned card, const char *expected)
{
    const struct sgpu_state *s = &hw.cards[card].card.sgpu;
    char text[512] = "";
    for (unsigned i = 0; i < s->n; i++)
        (void)snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s%s %u %u",
                       i ? "; " : "", s->items[i].alias, s->items[i].quota.memory_mib,
                       s->items[i].quota.compute_percent);
    cr_expect_str_eq(text, expected, "%s instead of %s", text, expected);
}

static bool has_cdi(unsigned slot)
{
    auto_free char *path = xasprintf("cdi/slot.%u.gpu.cleave.dev-metax-slot.json", slot);
    return access(path, F_OK) == 0;
}

static bool has_record(unsigned slot)
{
    auto_free char *path = xasprintf("state/slots/slot.%u.json", slot);
    return access(path, F_OK) == 0;
}

Test(slot_bind, a_slot_gets_its_slice_its_cdi_file_and_its_record)
{
    struct bound_slot g = grant(3, A, 1024);
    auto_err struct err e = {0};
    cr_assert_eq(bind_for(uid, &g, 1, &e), 0, "%s", err_msg(&e));
    expect_slices(0, "slot.3 1024 10");
    cr_expect_eq(hw.cards[0].card.sgpu.qos, API_FIXED_SHARE);
    cr_expect(has_cdi(3) && has_record(3));
    cr_assert_eq(release(3, &e), 0, "%s", err_msg(&e));
    expect_slices(0, "");
    cr_expect(!has_cdi(3) && !has_record(3));
}

Test(slot_bind, bound_again_for_the_same_pod_nothing_changes_whatever_it_asks_for_now)
{
    struct bound_slot g = grant(3, A, 1024);
    cr_assert_eq(bind_for(uid, &g, 1, NULL), 0);
    unsigned before = hw.cards[0].mutations;
    struct bound_slot elsewhere = grant(3, B, 2048);
    cr_assert_eq(bind_for(uid, &elsewhere, 1, NULL), 0);
    cr_expect_eq(hw.cards[0].mutations, before);
    expect_slices(0, "slot.3 1024 10");
    expect_slices(1, "");
}

Test(slot_bind, the_next_pod_of_a_slot_gets_a_slice_of_its_own)
{
    struct bound_slot g = grant(3, A, 1024);
    cr_assert_eq(bind_for(uid, &g, 1, NULL), 0);
    struct bound_slot larger = grant(3, A, 2048);
    cr_assert_eq(bind_for(other_uid, &larger, 1, NULL), 0);
    expect_slices(0, "slot.3 2048 10");
    struct bound_slot elsewhere = grant(3, B, 4096);
    cr_assert_eq(bind_for(uid, &elsewhere, 1, NULL), 0);
    expect_slices(0, "");
    expect_slices(1, "slot.3 4096 10");
}

Test(slot_bind, a_slice_in_use_is_not_taken_from_its_pod)
{
    struct bound_slot g = grant(3, A, 1024);
    cr_assert_eq(bind_for(uid, &g, 1, NULL), 0);
    fake_attach(&hw.cards[0], (struct fake_process){.pid = 7, .start = 0, .ci_start = -1});
    auto_err struct err e = {0};
    cr_expect_eq(bind_for(other_uid, &g, 1, &e), -ERR_UNAVAILABLE);
    cr_expect_str_eq(err_msg(&e), "slice 0 on MetaX GPU 0 is still in use");
    cr_expect_eq(release(3, NULL), -ERR_UNAVAILABLE);
    expect_slices(0, "slot.3 1024 10");
    cr_expect_eq(hw.violations, 0);
    cr_expect(has_record(3));
    cr_expect_not(has_cdi(3), "no container can be made with it any more");
}

Test(slot_bind, without_a_place_the_pods_own_slice_stays_and_another_pods_goes)
{
    struct bound_slot g = grant(3, A, 1024);
    auto_err struct err e = {0};
    cr_assert_eq(bind_for(uid, &g, 1, NULL), 0);
    cr_assert_eq(cdi_slots_remove(cdi, "slot.3", NULL), 0);
    cr_assert_eq(stay_for(uid, 3, &e), 0, "%s", err_msg(&e));
    expect_slices(0, "slot.3 1024 10");
    cr_expect(has_cdi(3));
    cr_assert_eq(stay_for(other_uid, 3, &e), -ERR_INVALID);
    cr_expect_str_eq(err_msg(&e), "no place");
    expect_slices(0, "");
    cr_expect(!has_cdi(3) && !has_record(3));
}

/* As after a reboot, when a card was taken out, or is to be something else by now. */
Test(slot_bind, a_slice_that_went_with_its_card_or_its_mode_is_made_on_another)
{
    struct bound_slot there = grant(3, B, 1024);
    struct bound_slot here = grant(3, A, 1024);
    auto_err struct err e = {0};
    cr_assert_eq(bind_for(uid, &there, 1, NULL), 0);
    struct gpu_card *b = &hw.cards[1].card;
    b->sgpu.n = 0;
    b->mode = b->pending_mode = GPU_NATIVE;
    cr_assert_eq(bind_for(uid, &here, 1, &e), 0, "%s", err_msg(&e));
    expect_slices(0, "slot.3 1024 10");
    cr_assert_eq(release(3, &e), 0, "%s", err_msg(&e));
    b->mode = b->pending_mode = GPU_SGPU;
    cr_assert_eq(bind_for(uid, &there, 1, &e), 0, "%s", err_msg(&e));
    hw.n_cards = 1;
    cr_assert_eq(bind_for(uid, &here, 1, &e), 0, "%s", err_msg(&e));
    expect_slices(0, "slot.3 1024 10");
    cr_expect(has_cdi(3) && has_record(3));
}

Test(slot_bind, a_container_of_several_slots_is_told_of_all_of_them_in_each)
{
    struct bound_slot g[] = {grant(3, A, 1024), grant(9, B, 2048)};
    cr_assert_eq(bind_for(uid, g, 2, NULL), 0);
    expect_slices(0, "slot.3 1024 10");
    expect_slices(1, "slot.9 2048 10");
    auto_free char *text = NULL;
    cr_assert_eq(file_read("cdi/slot.3.gpu.cleave.dev-metax-slot.json", 65536, &text, NULL, NULL),
                 0);
    cr_expect(strstr(text, "vram=1024") && strstr(text, "vram=2048"));
}

Test(slot_bind, slices_of_others_and_of_other_slots_are_left_alone)
{
    (void)fake_slice(&hw.cards[0], "theirs", (struct sgpu_quota){1024, 10}, true);
    (void)fake_slice(&hw.cards[0], "", (struct sgpu_quota){1024, 10}, true);
    hw.cards[0].card.sgpu.qos = API_FIXED_SHARE;
    struct bound_slot first = grant(3, A, 1024);
    struct bound_slot second = grant(4, A, 1024);
    cr_assert_eq(bind_for(uid, &first, 1, NULL), 0);
    cr_assert_eq(bind_for(other_uid, &second, 1, NULL), 0);
    cr_assert_eq(release(3, NULL), 0);
    expect_slices(0, "theirs 1024 10;  1024 10; slot.4 1024 10");
}

Test(slot_bind, a_nameless_slice_that_came_later_and_is_used_is_somebody_elses)
{
    struct bound_slot g = grant(3, A, 1024);
    cr_assert_eq(bind_for(uid, &g, 1, NULL), 0);
    unsigned id = fake_slice(&hw.cards[0], "", g.quota, true);
    fake_attach(&hw.cards[0], (struct fake_process){.pid = 7, .start = (int)id, .ci_start = -1});
    cr_assert_eq(bind_for(other_uid, &g, 1, NULL), 0);
    cr_assert_eq(release(3, NULL), 0);
    expect_slices(0, " 1024 10");
    cr_expect_eq(hw.violations, 0);
}

Test(slot_bind, a_nameless_slice_that_came_after_ours_had_its_name_is_somebody_elses)
{
    struct bound_slot g = grant(3, A, 1024);
    struct bound_slot elsewhere = grant(3, B, 1024);
    cr_assert_eq(bind_for(uid, &g, 1, NULL), 0);
    (void)fake_slice(&hw.cards[0], "", g.quota, true);
    cr_assert_eq(bind_for(other_uid, &g, 1, NULL), 0);
    cr_assert_eq(bind_for(uid, &elsewhere, 1, NULL), 0);
    (void)fake_slice(&hw.cards[1], "", g.quota, true);
    cr_assert_eq(release(3, NULL), 0);
    expect_slices(0, " 1024 10");
    expect_slices(1, " 1024 10");
}

Test(slot_bind, a_slice_whose_record_is_lost_stays_if_it_is_as_the_pod_asks)
{
    struct bound_slot g = grant(3, A, 1024);
    cr_assert_eq(bind_for(uid, &g, 1, NULL), 0);
    cr_assert_eq(file_write_atomic("state/slots/slot.3.json", "{", 1, 0600, NULL), 0);
    unsigned before = hw.cards[0].mutations;
    cr_assert_eq(bind_for(uid, &g, 1, NULL), 0);
    cr_expect_eq(hw.cards[0].mutations, before);
}

/* --- Every call, failed or the last --- */

enum fault { FAILS, FAILS_AFTER, KILLED, KILLED_AFTER, N_FAULTS };

static void order(enum fault fault, unsigned n)
{
    fake_heal(&hw);
    hw.fail_at = fault == FAILS ? n : 0;
    hw.fail_after_at = fault == FAILS_AFTER ? n : 0;
    hw.kill_at = fault == KILLED ? n : 0;
    hw.kill_after_at = fault == KILLED_AFTER ? n : 0;
}

/* From whatever a fault left, the next pod is served, and after it nothing is left. */
static void end_well(enum fault fault, unsigned n)
{
    struct bound_slot g[] = {grant(3, A, 2048), grant(9, A, 1024)};
    auto_err struct err e = {0};
    fake_heal(&hw);
    cr_assert_eq(bind_for(other_uid, g, 2, &e), 0, "fault %d at %u: %s", (int)fault, n,
                 err_msg(&e));
    cr_expect_eq(hw.cards[0].card.sgpu.n, 2, "fault %d at %u", (int)fault, n);
    cr_assert_eq(release(3, &e), 0, "%s", err_msg(&e));
    cr_assert_eq(release(9, &e), 0, "%s", err_msg(&e));
    expect_slices(0, "");
    cr_expect(!has_cdi(3) && !has_cdi(9) && !has_record(3) && !has_record(9));
    cr_expect_eq(hw.violations, 0);
}

/* Left by a newer release: what it says of the slice is not known, so neither is touched. */
Test(slot_bind, record_of_another_version_keeps_slice_and_record)
{
    static const char newer[] = "{\"version\":2,\"slot\":3}";
    struct bound_slot g = grant(3, A, 1024);
    struct bound_slot bigger = grant(3, A, 4096);
    cr_assert_eq(bind_for(uid, &g, 1, NULL), 0);
    unsigned before = hw.cards[0].mutations;
    cr_assert_eq(file_write_atomic("state/slots/slot.3.json", newer, strlen(newer), 0600, NULL), 0);
    for (int i = 0; i < 2; i++) {
        auto_err struct err e = {0};
        cr_expect_eq(bind_for(i ? other_uid : uid, &bigger, 1, &e), -ERR_CONFLICT);
        cr_expect(strstr(err_msg(&e), "of version 2"), "%s", err_msg(&e));
        cr_expect_eq(release(3, &e), -ERR_CONFLICT);
    }
    auto_free char *text = NULL;
    cr_assert_eq(file_read("state/slots/slot.3.json", 4096, &text, NULL, NULL), 0);
    cr_expect_str_eq(text, newer);
    cr_expect_eq(hw.cards[0].mutations, before);
    expect_slices(0, "slot.3 1024 10");
}

Test(slot_bind, failed_or_killed_at_any_call_it_goes_on_from_there)
{
    unsigned reached = 0;
    for (int fault = 0; fault < N_FAULTS; fault++) {
        for (unsigned n = 1; n < 40; n++) {
            struct bound_slot g[] = {grant(3, A, 1024), grant(9, A, 1024)};
            order((enum fault)fault, n);
            int rc = bind_for(uid, g, 2, NULL);
            bool hit = hw.calls >= n;
            cr_expect(hit || rc == 0);
            end_well((enum fault)fault, n);
            reached += hit;
            if (!hit)
                break;
        }
    }
    cr_expect_gt(reached, 4 * 6, "%u", reached);
}

Test(slot_bind, a_release_that_failed_or_was_killed_is_done_again)
{
    unsigned reached = 0;
    for (int fault = 0; fault < N_FAULTS; fault++) {
        for (unsigned n = 1; n < 20; n++) {
            struct bound_slot g = grant(3, A, 1024);
            fake_heal(&hw);
            cr_assert_eq(bind_for(uid, &g, 1, NULL), 0);
            order((enum fault)fault, n);
            int rc = release(3, NULL);
            bool hit = hw.calls >= n;
            cr_expect(hit || rc == 0);
            fake_heal(&hw);
            cr_assert_eq(release(3, NULL), 0);
            expect_slices(0, "");
            cr_expect(!has_cdi(3) && !has_record(3));
            reached += hit;
            if (!hit)
                break;
        }
    }
    cr_expect_geq(reached, 8, "%u", reached);
}
