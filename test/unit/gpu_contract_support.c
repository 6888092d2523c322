/* SPDX-License-Identifier: Apache-2.0 */
#include "gpu_contract_support.h"

#include <criterion/criterion.h>
#include <ctype.h>
#include <string.h>

#include "base/auto.h"

#include "nodeagent/gpu/telemetry.h"

#define NOBODY "GPU-of-nobody"

static struct gpu_inventory read_all(struct gpu *g)
{
    struct gpu_inventory inv = {0};
    auto_err struct err e = {0};
    cr_assert_eq(g->ops->read(g, &inv, &e), 0, "%s", err_msg(&e));
    return inv;
}

/* As the Device's schema has it, and a file's name can be. */
static void check_uuid(const char *uuid)
{
    cr_expect(isalnum((unsigned char)uuid[0]), "%s", uuid);
    cr_expect(strlen(uuid) < GPU_UUID_BYTES && !strchr(uuid, '/'), "%s", uuid);
    for (const char *c = uuid; *c; c++)
        cr_expect(isalnum((unsigned char)*c) || strchr("-_.:", *c), "%s", uuid);
}

static void check_card(const struct gpu_card *c, const char *vendor)
{
    check_uuid(c->uuid);
    cr_expect_str_eq(c->vendor, vendor);
    cr_expect(*c->model && *c->pci_bus_id, "%s", c->uuid);
    cr_expect(c->healthy && !c->unread && !*c->unhealthy_reason, "%s: %s", c->uuid,
              c->unhealthy_message);
    cr_expect(c->mode == c->pending_mode);
    cr_expect(!c->n_users || c->users);
    cr_expect(c->mig_capable || (!c->mig.n_profiles && !c->state.n && c->mode != GPU_MIG));
    cr_expect(c->sgpu_capable || (!c->sgpu.n && c->mode != GPU_SGPU));
}

static void check_inventory(const struct gpu_inventory *inv)
{
    cr_assert(inv->n_drivers == 1 && inv->n_cards >= 2 && inv->n_cards <= GPU_MAX_CARDS);
    for (size_t i = 0; i < inv->n_cards; i++) {
        check_card(&inv->cards[i], inv->drivers[0].vendor);
        for (size_t k = 0; k < i; k++) {
            cr_expect_str_neq(inv->cards[k].uuid, inv->cards[i].uuid);
            cr_expect_lt(inv->cards[k].index, inv->cards[i].index, "ordered by index");
        }
    }
}

static void check_same(const struct gpu_card *a, const struct gpu_card *b)
{
    cr_expect_str_eq(a->uuid, b->uuid);
    cr_expect_str_eq(a->model, b->model);
    cr_expect_str_eq(a->pci_bus_id, b->pci_bus_id);
    cr_expect_str_eq(a->pcie_root, b->pcie_root);
    cr_expect(a->index == b->index && a->minor == b->minor, "%s", a->uuid);
    cr_expect(a->memory_mib == b->memory_mib && a->numa_node == b->numa_node, "%s", a->uuid);
    cr_expect(a->mode == b->mode && a->healthy == b->healthy, "%s", a->uuid);
    cr_expect(a->users_unknown == b->users_unknown && a->no_events == b->no_events, "%s", a->uuid);
}

static void check_readings_agree(struct gpu *(*open)(void))
{
    auto_gpu struct gpu *g = open();
    auto_gpu_inventory struct gpu_inventory first = read_all(g);
    auto_gpu_inventory struct gpu_inventory second = read_all(g);
    check_inventory(&first);
    cr_assert_eq(first.n_cards, second.n_cards);
    for (size_t i = 0; i < first.n_cards; i++) {
        auto_gpu_card struct gpu_card one = {0};
        check_same(&first.cards[i], &second.cards[i]);
        cr_assert_eq(g->ops->read_card(g, first.cards[i].uuid, &one, NULL), 0);
        check_same(&first.cards[i], &one);
    }
}

/* A journal names a card before anything was read. */
static void check_one_comes_first(struct gpu *(*open)(void))
{
    auto_gpu struct gpu *before = open();
    auto_gpu_inventory struct gpu_inventory inv = read_all(before);
    auto_gpu struct gpu *g = open();
    auto_gpu_card struct gpu_card one = {0};
    auto_gpu_card struct gpu_card none = {0};
    auto_err struct err e = {0};
    cr_expect_eq(g->ops->read_card(g, inv.cards[1].uuid, &one, &e), 0, "%s", err_msg(&e));
    check_same(&inv.cards[1], &one);
    cr_expect_eq(g->ops->read_card(g, NOBODY, &none, &e), -(int)ERR_NOT_FOUND);
    cr_expect_not_null(e.msg, "it says what is not there");
    cr_expect(!*none.uuid && !none.users, "outs are untouched");
}

static void check_verbs_of_nobody(struct gpu *g)
{
    const struct gpu_ops *o = g->ops;
    const struct sgpu_want want = {"a", {1024, 10}};
    enum gpu_mode_result result = GPU_MODE_DONE;
    struct gpu_limit limit = {.hard_bytes = 7};
    unsigned id = 7;
    const int none = -(int)ERR_NOT_FOUND;
    cr_expect(!o->mode_set || o->mode_set(g, NOBODY, GPU_NATIVE, &result, NULL) == none);
    cr_expect(!o->reset || o->reset(g, NOBODY, NULL) == none);
    cr_expect(!o->gi_create || o->gi_create(g, NOBODY, 0, 0, 1, &id, NULL) == none);
    cr_expect(!o->gi_destroy || o->gi_destroy(g, NOBODY, 1, NULL) == none);
    cr_expect(!o->ci_create || o->ci_create(g, NOBODY, 1, 1, -1, &id, NULL) == none);
    cr_expect(!o->ci_destroy || o->ci_destroy(g, NOBODY, 1, 0, NULL) == none);
    cr_expect(!o->slice_create || o->slice_create(g, NOBODY, &want, &id, NULL) == none);
    cr_expect(!o->slice_destroy || o->slice_destroy(g, NOBODY, 1, NULL) == none);
    cr_expect(!o->qos_set || o->qos_set(g, NOBODY, API_BEST_EFFORT, NULL) == none);
    cr_expect(!o->timeslice_set || o->timeslice_set(g, NOBODY, 10, NULL) == none);
    cr_expect(!o->exclusive_set || o->exclusive_set(g, NOBODY, true, NULL) == none);
    cr_expect(!o->limit_set || o->limit_set(g, NOBODY, "/", 1, NULL) == none);
    cr_expect(!o->limit_get || o->limit_get(g, NOBODY, "/", &limit, NULL) == none);
    struct telemetry_card measured = {.n_parts = 7};
    cr_expect(!o->measure || o->measure(g, NOBODY, TELEMETRY_ALL, &measured, NULL) == none);
    cr_expect_eq(id, 7, "outs are untouched");
    cr_expect_eq(measured.n_parts, 7, "outs are untouched");
    cr_expect_eq(limit.hard_bytes, 7, "outs are untouched");
}

/* What a card cannot be it is refused to become, for good. */
static void check_modes(struct gpu *g, const struct gpu_card *c)
{
    enum gpu_mode_result result;
    const int never = -(int)ERR_INVALID;
    if (!g->ops->mode_set)
        return;
    cr_expect(c->mig_capable || g->ops->mode_set(g, c->uuid, GPU_MIG, &result, NULL) == never);
    cr_expect(c->sgpu_capable || g->ops->mode_set(g, c->uuid, GPU_SGPU, &result, NULL) == never);
    cr_expect_eq(g->ops->mode_set(g, c->uuid, GPU_VGPU, &result, NULL), never,
                 "virtual functions are an administrator's");
}

static void check_verbs(struct gpu *(*open)(void))
{
    struct gpu_activity activity = {.call = NULL};
    auto_gpu struct gpu *g = open();
    gpu_activity_of_thread(&activity);
    auto_gpu_inventory struct gpu_inventory inv = read_all(g);
    cr_expect_gt(atomic_load(&activity.since_mono_ms), 0, "a watchdog sees what is called");
    check_verbs_of_nobody(g);
    for (size_t i = 0; i < inv.n_cards; i++)
        check_modes(g, &inv.cards[i]);
    cr_expect_null(atomic_load(&activity.call), "and that nothing is any more");
    auto_gpu_inventory struct gpu_inventory after = read_all(g);
    for (size_t i = 0; i < inv.n_cards; i++)
        check_same(&inv.cards[i], &after.cards[i]);
    gpu_activity_of_thread(NULL);
}

void gpu_contract_check(struct gpu *(*open)(void))
{
    check_readings_agree(open);
    check_one_comes_first(open);
    check_verbs(open);
}
