/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/auto.h"
#include "base/xalloc.h"

#include "nodeagent/change/journal.h"
#include "nodeagent/change/transaction.h"
#include "nodeagent/gpu/telemetry.h"
#include "nodeagent/vendor/metax/mxsml_abi.h"
#include "nodeagent/vendor/metax/mxsml_find.h"
#include "nodeagent/vendor/metax/mxsml_open.h"
#include "nodeagent/vendor/metax/mxsml_vfs.h"
#include "sim_support.h"

/*
 * MetaX's back end against the simulated library, loaded as an agent loads the vendor's. Each test
 * has a machine of its own.
 */

TestSuite(mxsml, .init = sim_machine_start, .fini = sim_machine_stop);

static const struct sgpu_want small = {"small", {1024, 10}};
static const struct sgpu_want large = {"large", {32768, 50}};

/* A machine of two cards, the first of which has sGPU on. */
static struct gpu *open_cut(struct gpu_inventory *ret)
{
    sim_fleet("[{model: c500, count: 2}]");
    struct gpu *g = sim_open_metax();
    auto_gpu_inventory struct gpu_inventory inv = sim_read(g);
    auto_err struct err e = {0};
    enum gpu_mode_result result;
    cr_assert_eq(g->ops->mode_set(g, inv.cards[0].uuid, GPU_SGPU, &result, &e), 0, "%s",
                 err_msg(&e));
    cr_assert_eq(result, GPU_MODE_DONE);
    *ret = sim_read(g);
    return g;
}

static unsigned put(struct gpu *g, const char *uuid, const struct sgpu_want *want)
{
    auto_err struct err e = {0};
    unsigned id = 99;
    cr_assert_eq(g->ops->slice_create(g, uuid, want, &id, &e), 0, "%s", err_msg(&e));
    return id;
}

static struct gpu_card card_of(struct gpu *g, const char *uuid)
{
    struct gpu_card c = {0};
    auto_err struct err e = {0};
    cr_assert_eq(g->ops->read_card(g, uuid, &c, &e), 0, "%s", err_msg(&e));
    return c;
}

Test(mxsml, a_machine_without_the_library_or_a_card_has_none)
{
    struct gpu *g = NULL;
    auto_err struct err e = {0};
    struct gpu_inventory inv;
    const struct mxsml_options o = {.library = "/nowhere/libmxsml.so"};
    cr_assert_eq(gpu_mxsml_open(&o, &g, &e), 0);
    cr_expect_eq(g->ops->read(g, &inv, &e), -(int)ERR_NOT_FOUND);
    g = gpu_free(g);
    err_clear(&e);
    sim_fleet("[{model: h100-80, count: 1}]");
    g = sim_open_metax();
    cr_expect_eq(g->ops->read(g, &inv, &e), -(int)ERR_NOT_FOUND, "%s", err_msg(&e));
    g = gpu_free(g);
}

Test(mxsml, cards_are_read_with_what_they_are)
{
    sim_fleet("[{model: h100-80, count: 1}, {model: c500, count: 2}]");
    sim_control("init");
    auto_free char *words = xasprintf("sys-root '%s'", sim_machine_dir());
    sim_control(words);
    auto_gpu struct gpu *g = sim_open_metax();
    auto_gpu_inventory struct gpu_inventory inv = sim_read(g);
    cr_assert_eq(inv.n_cards, 2, "the card of another vendor is another library's");
    cr_assert(gpu_inventory_driver(&inv, "metax"));
    cr_expect(gpu_inventory_driver(&inv, "metax")->version[0]);
    cr_expect_null(gpu_inventory_driver(&inv, "nvidia"));
    const struct gpu_card *c = &inv.cards[1];
    cr_expect_str_eq(c->vendor, "metax");
    cr_expect(strstr(c->model, "C500"), "%s", c->model);
    cr_expect_eq(c->memory_mib, 65536);
    cr_expect_eq(c->pci_device_id & 0xffff, 0x9999);
    cr_expect_geq(c->numa_node, 0);
    cr_expect_eq(strncmp(c->pcie_root, "pci0000:", 8), 0, "%s", c->pcie_root);
    cr_expect_eq(c->mode, GPU_NATIVE);
    cr_expect(c->healthy && c->sgpu_capable && !c->mig_capable && !c->users_unknown);
    cr_expect_str_neq(c->uuid, inv.cards[0].uuid);
}

Test(mxsml, slices_are_made_read_and_removed)
{
    auto_gpu_inventory struct gpu_inventory inv = {0};
    auto_gpu struct gpu *g = open_cut(&inv);
    const char *uuid = inv.cards[0].uuid;
    cr_expect_eq(inv.cards[0].mode, GPU_SGPU);
    cr_expect_eq(inv.cards[1].mode, GPU_NATIVE);
    (void)put(g, uuid, &small);
    unsigned id = put(g, uuid, &large);
    auto_gpu_card struct gpu_card c = card_of(g, uuid);
    cr_assert_eq(c.sgpu.n, 2);
    cr_expect_eq(c.sgpu.memory_mib, 65536);
    cr_expect_str_eq(c.sgpu.items[0].alias, "small");
    cr_expect_str_eq(c.slices[0].alias, "cleave.small", "as the driver has it");
    cr_expect_eq(c.sgpu.items[1].quota.memory_mib, 32768);
    cr_expect_eq(c.sgpu.items[1].quota.compute_percent, 50);
    cr_expect(!c.sgpu.items[0].foreign && !c.sgpu.items[0].in_use);
    cr_expect(c.slices[0].healthy && c.slices[0].uuid[0]);
    cr_expect_str_neq(c.slices[0].uuid, c.slices[1].uuid);
    cr_expect_eq(g->ops->slice_destroy(g, uuid, id, NULL), 0);
    cr_expect_eq(g->ops->slice_destroy(g, uuid, id, NULL), -(int)ERR_NOT_FOUND);
}

Test(mxsml, what_others_made_is_foreign)
{
    auto_gpu_inventory struct gpu_inventory inv = {0};
    auto_gpu struct gpu *g = open_cut(&inv);
    unsigned (*create)(unsigned, unsigned, unsigned, unsigned *);
    unsigned (*name)(unsigned, unsigned, char *);
    void *found = sim_symbol("libmxsml.so", "mxSmlCreateSgpu");
    memcpy(&create, &found, sizeof(create));
    found = sim_symbol("libmxsml.so", "mxSmlSetSgpuAlias");
    memcpy(&name, &found, sizeof(name));
    unsigned id = 99;
    char theirs[] = "theirs";
    cr_assert_eq(create(0, 1024, 5, &id), 0);
    cr_assert_eq(name(0, id, theirs), 0);
    (void)put(g, inv.cards[0].uuid, &small);
    auto_gpu_card struct gpu_card c = card_of(g, inv.cards[0].uuid);
    cr_assert_eq(c.sgpu.n, 2);
    cr_expect(c.sgpu.items[0].foreign);
    cr_expect_str_eq(c.sgpu.items[0].alias, "theirs");
    cr_expect(!c.sgpu.items[1].foreign);
}

Test(mxsml, a_slice_with_a_process_is_in_use_and_stays)
{
    auto_gpu_inventory struct gpu_inventory inv = {0};
    auto_gpu struct gpu *g = open_cut(&inv);
    const char *uuid = inv.cards[0].uuid;
    unsigned id = put(g, uuid, &small);
    (void)put(g, uuid, &large);
    auto_free char *words =
        xasprintf("attach --gpu metax:0 --slice %u --pid 4711 --mem 100 --name train", id);
    sim_control(words);
    auto_gpu_card struct gpu_card c = card_of(g, uuid);
    cr_assert_eq(c.n_users, 1);
    cr_expect_eq(c.users[0].pid, 4711);
    cr_expect_eq(c.users[0].part, (int)id);
    cr_expect_eq(c.users[0].memory_bytes, 100UL << 20);
    cr_expect(c.sgpu.items[0].in_use && !c.sgpu.items[1].in_use);
    auto_err struct err e = {0};
    cr_expect_eq(g->ops->slice_destroy(g, uuid, id, &e), -(int)ERR_UNAVAILABLE);
    cr_expect_str_eq(e.reason, "InUse");
}

Test(mxsml, what_the_driver_refuses_has_a_kind_and_a_reason)
{
    auto_gpu_inventory struct gpu_inventory inv = {0};
    auto_gpu struct gpu *g = open_cut(&inv);
    const char *uuid = inv.cards[0].uuid;
    unsigned id;
    auto_err struct err e = {0};
    const struct sgpu_want off = {"off", {1000, 10}};
    cr_expect_eq(g->ops->slice_create(g, uuid, &off, &id, &e), -(int)ERR_INVALID);
    cr_expect(strstr(err_msg(&e), "mxSmlCreateSgpu"), "%s", err_msg(&e));
    err_clear(&e);
    (void)put(g, uuid, &small);
    cr_expect_eq(g->ops->qos_set(g, uuid, API_BURST_SHARE, &e), -(int)ERR_UNAVAILABLE);
    cr_expect_str_eq(e.reason, "InUse");
    err_clear(&e);
    cr_expect_eq(g->ops->slice_create(g, "GPU-none", &small, &id, &e), -(int)ERR_NOT_FOUND);
    err_clear(&e);
    sim_control("fault add --call mxSmlRemoveSgpu --action fail:SysfsWriteError:EROFS");
    cr_expect_eq(g->ops->slice_destroy(g, uuid, 0, &e), -(int)ERR_FORBIDDEN);
    cr_expect_str_eq(e.reason, "ReadOnlySysfs");
}

Test(mxsml, a_slice_that_cannot_be_named_is_not_left_behind)
{
    auto_gpu_inventory struct gpu_inventory inv = {0};
    auto_gpu struct gpu *g = open_cut(&inv);
    unsigned id;
    sim_control("fault add --call mxSmlSetSgpuAlias --action fail:SysfsWriteError:EIO");
    cr_expect_lt(g->ops->slice_create(g, inv.cards[0].uuid, &small, &id, NULL), 0);
    auto_gpu_card struct gpu_card c = card_of(g, inv.cards[0].uuid);
    cr_expect_eq(c.sgpu.n, 0);
}

/* Names in the cluster, of files and of what is put back after a failure come from an alias. */
Test(mxsml, an_alias_that_we_cannot_have_given_is_somebody_elses)
{
    static const char *const theirs[] =
        {"cleave.",          "cleave.Small",   "cleave.a b",
         "cleave.a/b",       "cleave.-a",      "cleave.a-",
         "cleave.slot.1024", "cleave.slot.01", "cleave.abcdefghijklmnopqrstuvw",
         "cleave.?"};
    auto_gpu_inventory struct gpu_inventory inv = {0};
    auto_gpu struct gpu *g = open_cut(&inv);
    unsigned (*name)(unsigned, unsigned, const char *);
    void *found = sim_symbol("libmxsml.so", "mxSmlSetSgpuAlias");
    memcpy(&name, &found, sizeof(name));
    unsigned id = put(g, inv.cards[0].uuid, &small);
    for (size_t i = 0; i < ARRAY_LEN(theirs); i++) {
        cr_assert_eq(name(0, id, theirs[i]), 0);
        auto_gpu_card struct gpu_card c = card_of(g, inv.cards[0].uuid);
        cr_expect(c.sgpu.items[0].foreign, "%s", theirs[i]);
        cr_expect_str_eq(c.sgpu.items[0].alias, theirs[i]);
    }
    cr_assert_eq(name(0, id, "cleave.abcdefghijklmnopqr-123"), 0);
    auto_gpu_card struct gpu_card c = card_of(g, inv.cards[0].uuid);
    cr_expect(!c.sgpu.items[0].foreign);
}

/* --- Answers that say less than they seem to --- */

Test(mxsml, a_count_of_no_cards_is_not_believed_where_there_were_some)
{
    sim_fleet("[{model: c500, count: 2}]");
    auto_gpu struct gpu *g = sim_open_metax();
    auto_gpu_inventory struct gpu_inventory before = sim_read(g);
    auto_err struct err e = {0};
    struct gpu_inventory inv = {0};
    cr_assert_eq(before.n_cards, 2);
    sim_control("fault add --call mxSmlGetDeviceCount --nth 1 --action fail:Failure");
    cr_expect_eq(g->ops->read(g, &inv, &e), -(int)ERR_UNAVAILABLE, "%s", err_msg(&e));
    auto_gpu_inventory struct gpu_inventory again = sim_read(g);
    cr_expect_eq(again.n_cards, 2);
}

Test(mxsml, a_library_that_cannot_look_again_has_not_lost_its_cards)
{
    auto_gpu_inventory struct gpu_inventory inv = {0};
    auto_gpu struct gpu *g = open_cut(&inv);
    auto_err struct err e = {0};
    struct gpu_card c = {0};
    unsigned id = put(g, inv.cards[0].uuid, &small);
    sim_control("fault add --call mxSmlGetDeviceInfo --nth 1 --action fail:InvalidDeviceId");
    sim_control("fault add --call mxSmlInitWithFlags --nth 0 --action fail:NoDevice");
    cr_expect_lt(g->ops->read_card(g, inv.cards[0].uuid, &c, NULL), 0, "it has to look again");
    cr_expect_eq(g->ops->read_card(g, inv.cards[0].uuid, &c, &e), -(int)ERR_UNAVAILABLE, "%s",
                 err_msg(&e));
    cr_expect_eq(g->ops->slice_destroy(g, inv.cards[0].uuid, id, NULL), -(int)ERR_UNAVAILABLE);
    sim_control("fault clear");
    cr_expect_eq(g->ops->slice_destroy(g, inv.cards[0].uuid, id, NULL), 0);
}

Test(mxsml, a_count_of_none_is_not_believed_while_slices_show)
{
    auto_gpu_inventory struct gpu_inventory inv = {0};
    auto_gpu struct gpu *g = open_cut(&inv);
    auto_err struct err e = {0};
    struct gpu_card c = {0};
    (void)put(g, inv.cards[0].uuid, &small);
    sim_control("fault add --call mxSmlGetSgpuCount --nth 0 --action fail:SysfsError:EIO");
    cr_expect_eq(g->ops->read_card(g, inv.cards[0].uuid, &c, &e), -(int)ERR_UNAVAILABLE);
    cr_expect_str_eq(err_msg(&e), "the library counts 0 slices and shows 1");
}

Test(mxsml, a_slice_whose_name_cannot_be_asked_for_is_not_nameless)
{
    auto_gpu_inventory struct gpu_inventory inv = {0};
    auto_gpu struct gpu *g = open_cut(&inv);
    struct gpu_card c = {0};
    (void)put(g, inv.cards[0].uuid, &small);
    sim_control("fault add --call mxSmlGetSgpuAlias --action fail:SysfsError:EIO");
    cr_expect_eq(g->ops->read_card(g, inv.cards[0].uuid, &c, NULL), -(int)ERR_UNAVAILABLE);
    sim_control("fault add --call mxSmlGetSgpuAlias --action fail:OperationNotSupport");
    auto_gpu_card struct gpu_card read = card_of(g, inv.cards[0].uuid);
    cr_expect(read.sgpu.items[0].foreign);
    cr_expect_str_eq(read.slices[0].alias, "?");
}

Test(mxsml, a_card_that_does_not_answer_has_not_lost_its_slices)
{
    auto_gpu_inventory struct gpu_inventory inv = {0};
    auto_gpu struct gpu *g = open_cut(&inv);
    const char *uuid = inv.cards[0].uuid;
    static const char *const faults[] = {"mxSmlRemoveSgpu --action fail:InvalidDeviceId",
                                         "mxSmlGetDeviceCount --action fail:Failure",
                                         "mxSmlGetDeviceInfo --action fail:NoDevice"};
    unsigned id = put(g, uuid, &small);
    for (size_t i = 0; i < ARRAY_LEN(faults); i++) {
        auto_err struct err e = {0};
        auto_free char *words = xasprintf("fault add --nth 1 --call %s", faults[i]);
        sim_control(words);
        cr_expect_eq(g->ops->slice_destroy(g, uuid, id, &e), -(int)ERR_UNAVAILABLE, "%s: %s",
                     faults[i], err_msg(&e));
        cr_expect_eq(e.kind, ERR_UNAVAILABLE);
        sim_control("fault clear");
    }
    cr_expect_eq(g->ops->slice_destroy(g, uuid, id, NULL), 0);
}

Test(mxsml, a_card_that_does_not_answer_is_not_in_the_way_of_others)
{
    auto_gpu_inventory struct gpu_inventory inv = {0};
    auto_gpu struct gpu *g = open_cut(&inv);
    sim_control("fault add --gpu metax:0 --call mxSmlGetDeviceInfo --nth 0 --action fail:Failure");
    auto_gpu_card struct gpu_card c = card_of(g, inv.cards[1].uuid);
    cr_expect_eq(c.index, 1);
}

Test(mxsml, policy_and_time_slice_are_the_cards)
{
    auto_gpu_inventory struct gpu_inventory inv = {0};
    auto_gpu struct gpu *g = open_cut(&inv);
    const char *uuid = inv.cards[0].uuid;
    cr_expect_eq(g->ops->qos_set(g, uuid, API_FIXED_SHARE, NULL), 0);
    cr_expect_eq(g->ops->timeslice_set(g, uuid, 25, NULL), 0);
    auto_gpu_card struct gpu_card c = card_of(g, uuid);
    cr_expect_eq(c.sgpu.qos, API_FIXED_SHARE);
    cr_expect_eq(c.sgpu.timeslice_ms, 25);
}

Test(mxsml, a_card_that_is_ill_says_why_and_is_well_again)
{
    sim_fleet("[{model: c500, count: 3}]");
    auto_gpu struct gpu *g = sim_open_metax();
    sim_control("ecc --gpu metax:0 dram-ue 2");
    sim_control("unavailable --gpu metax:1 17 'die lost'");
    auto_gpu_inventory struct gpu_inventory ill = sim_read(g);
    cr_expect_str_eq(ill.cards[0].unhealthy_reason, "UncorrectableECC");
    cr_expect(!ill.cards[1].healthy && strstr(ill.cards[1].unhealthy_message, "die lost"));
    cr_expect(ill.cards[2].healthy);
    sim_control("ecc --gpu metax:0 clear");
    sim_control("unavailable --gpu metax:1 clear");
    auto_gpu_inventory struct gpu_inventory well = sim_read(g);
    cr_expect(well.cards[0].healthy && well.cards[1].healthy);
}

Test(mxsml, a_card_that_cannot_be_read_keeps_its_name)
{
    sim_fleet("[{model: c500, count: 2}]");
    auto_gpu struct gpu *g = sim_open_metax();
    auto_gpu_inventory struct gpu_inventory before = sim_read(g);
    sim_control("fault add --call mxSmlGetSgpuToggle --nth 1 --action fail:IOControlFailure");
    auto_gpu_inventory struct gpu_inventory inv = sim_read(g);
    cr_expect(inv.cards[0].unread && !inv.cards[0].healthy);
    cr_expect(inv.cards[0].no_events, "also while it is not read: else a watch is begun for it");
    cr_expect_str_eq(inv.cards[0].unhealthy_reason, "ReadFailed");
    cr_expect_str_eq(inv.cards[0].uuid, before.cards[0].uuid);
    cr_expect(!inv.cards[1].unread);
}

Test(mxsml, memory_that_was_not_told_at_first_is_asked_for_again)
{
    sim_fleet("[{model: c500, count: 1}]");
    auto_gpu struct gpu *g = sim_open_metax();
    sim_control("fault add --call mxSmlGetMemoryInfo --nth 1 --action fail:Failure");
    auto_gpu_inventory struct gpu_inventory first = sim_read(g);
    cr_expect_eq(first.cards[0].memory_mib, 0);
    auto_gpu_inventory struct gpu_inventory inv = sim_read(g);
    cr_expect_eq(inv.cards[0].memory_mib, 65536);
}

/* --- virtual functions --- */

Test(mxsml, a_card_with_virtual_functions_is_one_card_that_has_them)
{
    sim_fleet(
        "[{model: c500, count: 1}, {model: c500, count: 1, vfs: 2}, {model: c500, count: 1}]");
    auto_gpu struct gpu *g = sim_open_metax();
    auto_gpu_inventory struct gpu_inventory inv = sim_read(g);
    cr_assert_eq(inv.n_cards, 3);
    for (unsigned i = 0; i < 3; i++)
        cr_expect_eq(inv.cards[i].index, i);
    cr_expect(inv.cards[0].mode == GPU_NATIVE && inv.cards[2].mode == GPU_NATIVE);
    cr_expect(inv.cards[0].sgpu_capable && inv.cards[2].sgpu_capable);
    const struct gpu_card *c = &inv.cards[1];
    cr_expect(c->mode == GPU_VGPU && !c->sgpu_capable && c->healthy && !c->users_unknown);
    cr_expect_eq(c->memory_mib, 65536);
    cr_assert_eq(c->n_vfs, 2);
    for (unsigned i = 0; i < 2; i++) {
        cr_expect_eq(c->vfs[i].number, i);
        cr_expect_eq(c->vfs[i].memory_mib, 32768);
        cr_expect(c->vfs[i].healthy && c->vfs[i].uuid[0] && !c->vfs[i].in_use);
        cr_expect_eq(strncmp(c->vfs[i].pci_bus_id, c->pci_bus_id, strlen("0000:11:00.")), 0);
    }
    cr_expect_str_neq(c->vfs[0].uuid, c->vfs[1].uuid);
    cr_expect_str_neq(c->vfs[0].uuid, c->uuid);
}

Test(mxsml, functions_that_come_and_go_are_seen_and_the_other_cards_keep_their_numbers)
{
    sim_fleet("[{model: c500, count: 3}]");
    auto_gpu struct gpu *g = sim_open_metax();
    auto_gpu_inventory struct gpu_inventory before = sim_read(g);
    static const unsigned counts[] = {4, 1, 8, 0, 2};
    for (size_t i = 0; i < ARRAY_LEN(counts); i++) {
        auto_free char *words = xasprintf("vfs --gpu metax:1 %u", counts[i]);
        auto_free char *root = xasprintf("sys-root '%s'", sim_machine_dir());
        sim_control(words);
        sim_control(root);
        auto_gpu_inventory struct gpu_inventory inv = sim_read(g);
        cr_assert_eq(inv.n_cards, 3);
        for (unsigned k = 0; k < 3; k++) {
            cr_expect_str_eq(inv.cards[k].uuid, before.cards[k].uuid);
            cr_expect_eq(inv.cards[k].index, k);
            cr_expect(!inv.cards[k].unread, "%s", inv.cards[k].unhealthy_message);
        }
        cr_expect_eq(inv.cards[1].n_vfs, counts[i]);
        cr_expect_eq(inv.cards[1].mode, counts[i] ? GPU_VGPU : GPU_NATIVE);
    }
}

/* There are as many as before. */
Test(mxsml, functions_that_went_from_one_card_to_another_are_seen)
{
    sim_fleet("[{model: c500, count: 1, vfs: 4}, {model: c500, count: 1, vfs: 2}]");
    sim_control("init");
    auto_free char *root = xasprintf("sys-root '%s'", sim_machine_dir());
    sim_control(root);
    auto_gpu struct gpu *g = sim_open_metax();
    auto_gpu_inventory struct gpu_inventory before = sim_read(g);
    cr_assert(before.cards[0].n_vfs == 4 && before.cards[1].n_vfs == 2);
    sim_control("vfs --gpu metax:0 0");
    sim_control("vfs --gpu metax:0 2");
    sim_control("vfs --gpu metax:1 0");
    sim_control("vfs --gpu metax:1 4");
    sim_control(root);
    auto_gpu_inventory struct gpu_inventory inv = sim_read(g);
    cr_assert_eq(inv.n_cards, 2);
    cr_expect_eq(inv.cards[0].n_vfs, 2);
    cr_expect_eq(inv.cards[1].n_vfs, 4);
    cr_expect(!inv.cards[0].unread, "%s", inv.cards[0].unhealthy_message);
    cr_expect(!inv.cards[1].unread, "%s", inv.cards[1].unhealthy_message);
}

Test(mxsml, one_card_is_read_as_what_it_has_become)
{
    sim_fleet("[{model: c500, count: 2}]");
    auto_gpu struct gpu *g = sim_open_metax();
    auto_gpu_inventory struct gpu_inventory before = sim_read(g);
    sim_control("vfs --gpu metax:0 2");
    auto_gpu_card struct gpu_card cut = card_of(g, before.cards[0].uuid);
    cr_expect(cut.mode == GPU_VGPU && cut.n_vfs == 2);
    auto_gpu_card struct gpu_card other = card_of(g, before.cards[1].uuid);
    cr_expect(other.mode == GPU_NATIVE && other.index == 1);
    sim_control("vfs --gpu metax:0 0");
    auto_gpu_card struct gpu_card whole = card_of(g, before.cards[0].uuid);
    cr_expect(whole.mode == GPU_NATIVE && whole.n_vfs == 0 && whole.sgpu_capable);
}

Test(mxsml, a_process_is_the_functions_that_it_runs_on)
{
    sim_fleet("[{model: c500, count: 1, vfs: 4}]");
    auto_gpu struct gpu *g = sim_open_metax();
    sim_control("init");
    sim_control("attach --gpu metax:0 --vf 2 --pid 4711 --mem 100 --name train");
    auto_gpu_inventory struct gpu_inventory inv = sim_read(g);
    const struct gpu_card *c = &inv.cards[0];
    cr_assert_eq(c->n_users, 1);
    cr_expect(c->users[0].pid == 4711 && c->users[0].part == 2);
    for (unsigned i = 0; i < 4; i++)
        cr_expect_eq(c->vfs[i].in_use, i == 2);
}

Test(mxsml, no_call_of_ours_makes_or_removes_functions)
{
    sim_fleet("[{model: c500, count: 1, vfs: 2}, {model: c500, count: 1}]");
    auto_gpu struct gpu *g = sim_open_metax();
    auto_gpu_inventory struct gpu_inventory inv = sim_read(g);
    enum gpu_mode_result result;
    auto_err struct err e = {0};
    cr_expect_eq(g->ops->mode_set(g, inv.cards[1].uuid, GPU_VGPU, &result, &e), -(int)ERR_INVALID);
    err_clear(&e);
    cr_expect_lt(g->ops->mode_set(g, inv.cards[0].uuid, GPU_SGPU, &result, &e), 0);
    err_clear(&e);
    cr_expect_lt(g->ops->mode_set(g, inv.cards[0].uuid, GPU_NATIVE, &result, &e), 0);
    auto_gpu_card struct gpu_card c = card_of(g, inv.cards[0].uuid);
    cr_expect_eq(c.n_vfs, 2);
}

Test(mxsml, a_card_whose_functions_cannot_be_listed_is_unread_and_they_are_no_cards)
{
    sim_fleet("[{model: c500, count: 1, vfs: 4}, {model: c500, count: 1}]");
    auto_gpu struct gpu *g = sim_open_metax();
    auto_gpu_inventory struct gpu_inventory before = sim_read(g);
    sim_control(
        "fault add --call mxSmlGetVirtualDevicesByPhysicalId --nth 0 --action fail:SysfsError:EIO");
    auto_gpu_inventory struct gpu_inventory inv = sim_read(g);
    cr_assert_eq(inv.n_cards, 2);
    cr_expect(inv.cards[0].unread);
    cr_expect_eq(inv.cards[0].n_vfs, 4, "pods may hold them");
    cr_expect_str_eq(inv.cards[0].uuid, before.cards[0].uuid);
    cr_expect(!inv.cards[1].unread && inv.cards[1].mode == GPU_NATIVE);
    cr_expect_str_eq(inv.cards[1].uuid, before.cards[1].uuid);
}

/* The library counts 0 on any error: functions would be taken for cards, and cards for gone. */
Test(mxsml, counts_of_none_are_not_believed_while_functions_show)
{
    static const char *const calls[] = {"mxSmlGetPfDeviceCount", "mxSmlGetDeviceCount"};
    sim_fleet("[{model: c500, count: 1, vfs: 4}, {model: c500, count: 1}]");
    sim_control("init");
    for (size_t i = 0; i < ARRAY_LEN(calls); i++) {
        auto_gpu struct gpu *g = sim_open_metax();
        auto_err struct err e = {0};
        struct gpu_inventory inv;
        auto_free char *words =
            xasprintf("fault add --call %s --nth 1 --action fail:Failure", calls[i]);
        sim_control(words);
        cr_expect_eq(g->ops->read(g, &inv, &e), -(int)ERR_UNAVAILABLE, "%s", calls[i]);
        cr_expect(strstr(err_msg(&e), "shows"), "%s", err_msg(&e));
        auto_gpu_inventory struct gpu_inventory again = sim_read(g);
        cr_expect(again.n_cards == 2 && again.cards[0].n_vfs == 4);
    }
}

Test(mxsml, functions_are_numbered_by_their_addresses)
{
    static const struct {
        const char *card, *function;
        int number; /* -1: refused */
    } cases[] = {
        {"0000:09:00.0", "0000:09:00.1", 0},   {"0000:09:00.0", "0000:09:01.0", 7},
        {"0000:09:00.0", "0000:0a:00.0", 255}, {"00000000:3B:00.0", "0000:3b:00.2", 1},
        {"0000:09:00.0", "0000:09:00.0", -1},  {"0000:09:00.1", "0000:09:00.0", -1},
        {"0000:09:00.0", "0001:09:00.1", -1},  {"0000:09:00.0", "", -1},
        {"0000:09:00.0", "0000:09:00.8", -1},  {"0000:09:00.0", "0000:09:20.1", -1},
        {"0000:09:00.0", "0x00:09:00.1", -1},  {"0000:09:00.0", "0000:09:00.1x", -1},
        {"0000:09:00.0", "0000:09", -1},       {"0000:09:00.0", "000000000:09:00.1", -1},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        unsigned n = 99;
        int rc = mxsml_vf_number(cases[i].card, cases[i].function, &n, NULL);
        cr_expect_eq(rc, cases[i].number < 0 ? -(int)ERR_PROTOCOL : 0, "%s", cases[i].function);
        cr_expect_eq(n, cases[i].number < 0 ? 99 : (unsigned)cases[i].number, "%s: %u",
                     cases[i].function, n);
    }
}

/* A library that says what no card can be. */
static struct mxsml_ids told;

static mxsml_ret tell(unsigned dev, struct mxsml_ids *ret)
{
    (void)dev;
    *ret = told;
    return MXSML_SUCCESS;
}

Test(mxsml, a_list_of_functions_that_makes_no_sense_is_refused)
{
    static const struct mxsml_ids nonsense[] = {
        {.n = -1},
        {.n = 9},
        {.n = 128},
        {.n = 2000000000},
        {.n = 2, .ids = {3, 3}},
        {.n = 1, .ids = {-1}},
        {.n = 1, .ids = {100}},
    };
    struct mxsml m = {.lib = {.virtual_devices = tell}};
    struct mxsml_ids ids;
    for (size_t i = 0; i < ARRAY_LEN(nonsense); i++) {
        told = nonsense[i];
        cr_expect_eq(mxsml_list_vfs(&m, 100, &ids, NULL), -(int)ERR_PROTOCOL, "%zu", i);
    }
    told = (struct mxsml_ids){.n = 8, .ids = {0, 1, 2, 3, 4, 5, 6, 7}};
    cr_expect_eq(mxsml_list_vfs(&m, 100, &ids, NULL), 0);
    told = (struct mxsml_ids){0};
    cr_expect_eq(mxsml_list_vfs(&m, 100, &ids, NULL), 0);
}

/* --- A library that tells what cannot be --- */

static struct gpu *open_mad(const char *about)
{
    struct gpu *g = NULL;
    void (*set)(const char *what);
    Dl_info from;
    void *found = sim_symbol("../test/unit/mxsml_mad.so", "mxsml_mad_about");
    cr_assert(found && dladdr(found, &from));
    memcpy(&set, &found, sizeof(set));
    set(about);
    const struct mxsml_options o = {.library = from.dli_fname};
    cr_assert_eq(gpu_mxsml_open(&o, &g, NULL), 0);
    return g;
}

Test(mxsml, a_library_of_a_test_is_believed_as_long_as_it_is_sane)
{
    auto_gpu struct gpu *g = open_mad("");
    auto_gpu_inventory struct gpu_inventory inv = sim_read(g);
    cr_assert_eq(inv.n_cards, 2);
    cr_expect(inv.cards[0].healthy && inv.cards[1].healthy, "%s", inv.cards[0].unhealthy_message);
    cr_expect_eq(inv.cards[0].sgpu.n, 2);
    cr_expect_eq(strlen(inv.drivers[0].version), MXSML_VERSION_BYTES);
    cr_expect_eq(gpu_pair_between(&inv.topology, 0, 1).level, GPU_LEVEL_UNKNOWN);
}

/* In UTF-8 it would be longer than a status may have it, which is refused as a whole then. */
Test(mxsml, a_driver_version_of_no_letters_can_be_published)
{
    auto_gpu struct gpu *g = open_mad("driver's version of no letters");
    auto_gpu_inventory struct gpu_inventory inv = sim_read(g);
    cr_expect_eq(strlen(inv.drivers[0].version), MXSML_VERSION_BYTES);
    cr_expect_eq(strspn(inv.drivers[0].version, "?"), MXSML_VERSION_BYTES);
}

/* A feature less, and no card less. */
Test(mxsml, a_card_that_knows_no_policy_or_time_slice_is_read)
{
    auto_gpu struct gpu *g = open_mad("no sharing");
    auto_gpu_inventory struct gpu_inventory inv = sim_read(g);
    for (unsigned i = 0; i < 2; i++) {
        const struct gpu_card *c = &inv.cards[i];
        cr_expect(!c->unread && c->healthy, "%s", c->unhealthy_message);
        cr_expect_eq(c->sgpu.qos, API_BEST_EFFORT);
        cr_expect_eq(c->sgpu.timeslice_ms, 0);
    }
}

Test(mxsml, what_cannot_be_makes_the_card_unread_and_says_so)
{
    static const struct {
        const char *about, *said;
    } cases[] = {
        {"card's UUID without end", NULL},
        {"PCI address without end", "gives card 0 the PCI address \"AAAA"},
        {"card without UUID", "gives card 0 the UUID \"\""},
        {"card's UUID that leads elsewhere", "gives card 0 the UUID \"../../etc\""},
        {"third state of sGPU", "sGPU is neither on nor off, but 7"},
        {"count of slices", "counts 4000000000 slices and shows 16"},
        {"memory of a slice", "gives slice 0 4000000000 MiB and 10 % of a card"},
        {"compute of a slice", "gives slice 0 1024 MiB and 101 % of a card"},
        {"scheduling class", "reports scheduling class 9"},
        {"time slice", "reports a time slice of 4000000000 ms"},
        {"count of processes", "reports 4000000000 processes where 16 have room"},
        {"count of processes that have no room", "mxSmlGetSingleGpuProcess_v3"},
        {"reason without end", "the card is not available: AAAA"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        auto_gpu struct gpu *g = open_mad(cases[i].about);
        auto_gpu_inventory struct gpu_inventory inv = sim_read(g);
        const struct gpu_card *c = &inv.cards[cases[i].said ? 0 : 1]; /* both have this name */
        const char *said = cases[i].said ? cases[i].said : "gives card 1 the UUID of card 0";
        cr_expect(!c->healthy, "%s", cases[i].about);
        cr_expect(strstr(c->unhealthy_message, said), "%s: %s", cases[i].about,
                  c->unhealthy_message);
    }
}

/* As UTF-8, with a mark for each byte, it could exceed what readers of a status take. */
Test(mxsml, an_alias_that_is_no_text_becomes_printable)
{
    auto_gpu struct gpu *g = open_mad("alias that is no text");
    auto_gpu_inventory struct gpu_inventory inv = sim_read(g);
    cr_expect_str_eq(inv.cards[0].slices[0].alias, "????");
    cr_expect_str_eq(inv.cards[0].sgpu.items[0].alias, "????");
    cr_expect(inv.cards[0].sgpu.items[0].foreign);
}

Test(mxsml, what_does_not_fit_is_cut)
{
    static const char *const abouts[] =
        {"index of a card",          "card's name without end",
         "negative memory",          "number of a slice",
         "slice's UUID without end", "alias without end",
         "two slices of one UUID",   "process's names without end",
         "memory for slices",        "memory for slices of a card without memory"};
    for (size_t i = 0; i < ARRAY_LEN(abouts); i++) {
        auto_gpu struct gpu *g = open_mad(abouts[i]);
        auto_gpu_inventory struct gpu_inventory inv = sim_read(g);
        const struct gpu_card *c = &inv.cards[0];
        cr_assert(c->healthy, "%s: %s", abouts[i], c->unhealthy_message);
        cr_expect_leq(c->sgpu.memory_mib, 65536, "%s", abouts[i]);
        cr_expect_eq(c->sgpu.items[1].id, 1, "%s", abouts[i]);
        cr_expect_leq(strlen(c->slices[0].alias), 32, "%s", abouts[i]);
        cr_expect(!*c->slices[1].uuid || strcmp(c->slices[0].uuid, c->slices[1].uuid) != 0, "%s",
                  abouts[i]);
        cr_expect_eq(c->n_users, 1, "%s", abouts[i]);
    }
}

Test(mxsml, more_processes_than_are_listed_still_mark_what_they_use)
{
    auto_gpu struct gpu *g = open_mad("many processes");
    auto_gpu_inventory struct gpu_inventory inv = sim_read(g);
    const struct gpu_card *c = &inv.cards[0];
    cr_assert(c->healthy && !c->unread, "%s", c->unhealthy_message);
    cr_expect_leq(c->n_users, GPU_MAX_PROCESSES);
    cr_expect_gt(c->n_users, GPU_MAX_PROCESSES / 2);
    cr_expect(c->sgpu.items[0].in_use && c->sgpu.items[1].in_use);
}

static void expect_user_of_all(const char *about)
{
    auto_gpu struct gpu *g = open_mad(about);
    auto_gpu_inventory struct gpu_inventory inv = sim_read(g);
    cr_assert_eq(inv.cards[0].n_users, 1, "%s", about);
    cr_expect_eq(inv.cards[0].users[0].part, -1, "%s", about);
}

Test(mxsml, a_process_that_does_not_say_what_it_uses_uses_all_of_the_card)
{
    expect_user_of_all("process in a slice that is not there");
    expect_user_of_all("process on a card that is not there");
}

static struct telemetry_card measure_mad(const char *about)
{
    auto_gpu struct gpu *g = open_mad(about);
    auto_gpu_inventory struct gpu_inventory inv = sim_read(g);
    struct telemetry_card card;
    auto_err struct err e = {0};
    cr_assert_eq(g->ops->measure(g, inv.cards[0].uuid, TELEMETRY_ALL, &card, &e), 0, "%s",
                 err_msg(&e));
    return card;
}

Test(mxsml, what_cannot_be_is_measured_as_no_number)
{
    static const enum telemetry_value values[] = {TELEMETRY_TEMPERATURE, TELEMETRY_POWER,
                                                  TELEMETRY_POWER_LIMIT, TELEMETRY_UTILIZATION};
    const struct telemetry_card sane = measure_mad("");
    const struct telemetry_card mad = measure_mad("measures");
    for (size_t i = 0; i < ARRAY_LEN(values); i++) {
        cr_expect_gt(sane.values.of[values[i]], 0, "%zu", i);
        cr_expect(isnan(mad.values.of[values[i]]), "%zu", i);
    }
    const struct telemetry_card ways = measure_mad("ways of power");
    cr_expect(isnan(ways.values.of[TELEMETRY_POWER]));
}

Test(mxsml, more_cards_than_there_can_be_are_refused)
{
    auto_gpu struct gpu *g = open_mad("count of cards");
    struct gpu_inventory inv;
    auto_err struct err e = {0};
    cr_expect_eq(g->ops->read(g, &inv, &e), -(int)ERR_TOO_LARGE);
    cr_expect_str_eq(err_msg(&e), "4000000000 cards; at most 64 are managed");
}

/* --- transactions over the real ABI --- */

static char state_dir[128];

static void apply(struct gpu *g, const char *uuid, const struct card_wish *wish,
                  struct txn_result *r)
{
    const struct txn_deps d = {.gpu = g, .state_dir = state_dir, .boot_id = "boot"};
    txn_apply(&d, uuid, wish, TXN_ROLLBACK, r);
}

static void start_change(struct gpu_inventory *inv, struct gpu **ret, struct card_wish *wish)
{
    (void)snprintf(state_dir, sizeof(state_dir), "%s/state-dir", sim_machine_dir());
    *ret = open_cut(inv);
    (void)put(*ret, inv->cards[0].uuid, &small);
    (void)put(*ret, inv->cards[0].uuid, &large);
    *wish = (struct card_wish){.mode = GPU_SGPU,
                               .sgpu = {.qos = API_BURST_SHARE,
                                        .timeslice_ms = 30,
                                        .n = 2,
                                        .items = {small, {"other", {2048, 20}}}}};
}

Test(mxsml, a_change_of_policy_and_slices_is_one_transaction)
{
    struct gpu_inventory inv = {0};
    struct gpu *g = NULL;
    struct card_wish wish;
    struct txn_result r;
    start_change(&inv, &g, &wish);
    apply(g, inv.cards[0].uuid, &wish, &r);
    cr_expect_eq(r.outcome, TXN_APPLIED, "%s", r.message);
    auto_gpu_card struct gpu_card c = card_of(g, inv.cards[0].uuid);
    struct sgpu_plan p;
    sgpu_plan(&c.sgpu, &wish.sgpu, &p);
    cr_expect_eq(p.verdict, SGPU_PLAN_NOTHING);
    gpu_inventory_done(&inv);
    g = gpu_free(g);
}

static void fail_once(unsigned nth)
{
    struct gpu_inventory inv = {0};
    struct gpu *g = NULL;
    struct card_wish wish;
    struct txn_result r;
    start_change(&inv, &g, &wish);
    struct card_layout old;
    auto_gpu_card struct gpu_card before = card_of(g, inv.cards[0].uuid);
    card_layout_of(&before, &old);
    auto_free char *words =
        xasprintf("fault add --call mutating --nth %u --action fail:SysfsWriteError:EIO", nth);
    sim_control(words);
    apply(g, inv.cards[0].uuid, &wish, &r);
    sim_control("fault clear");
    auto_gpu_card struct gpu_card c = card_of(g, inv.cards[0].uuid);
    struct sgpu_plan p;
    sgpu_plan(&c.sgpu, &wish.sgpu, &p);
    cr_expect(r.outcome == TXN_ROLLED_BACK ? card_layout_matches(&c, &old)
                                           : p.verdict == SGPU_PLAN_NOTHING,
              "%s at %u: %s", txn_outcome_name(r.outcome), nth, r.message);
    gpu_inventory_done(&inv);
    g = gpu_free(g);
}

/* Two slices go, policy and time slice are set, two slices come, each with its name. */
Test(mxsml, failed_at_a_removal_stands_old_or_new)
{
    fail_once(2);
}

Test(mxsml, failed_at_the_policy_stands_old_or_new)
{
    fail_once(3);
}

Test(mxsml, failed_at_the_time_slice_stands_old_or_new)
{
    fail_once(4);
}

Test(mxsml, failed_at_a_creation_stands_old_or_new)
{
    fail_once(5);
}

Test(mxsml, failed_at_a_name_stands_old_or_new)
{
    fail_once(8);
}

Test(mxsml, a_change_that_functions_overtook_is_over)
{
    sim_fleet("[{model: c500, count: 1}]");
    auto_gpu struct gpu *g = sim_open_metax();
    auto_gpu_inventory struct gpu_inventory inv = sim_read(g);
    struct journal j = {.phase = JOURNAL_FORWARD,
                        .target = {.mode = GPU_SGPU, .sgpu = {.n = 1, .items = {small}}}};
    struct txn_result r;
    auto_err struct err e = {0};
    (void)snprintf(j.uuid, sizeof(j.uuid), "%s", inv.cards[0].uuid);
    (void)snprintf(state_dir, sizeof(state_dir), "%s", sim_machine_dir());
    cr_assert_eq(journal_write(state_dir, &j, &e), 0, "%s", err_msg(&e));
    sim_control("vfs --gpu metax:0 2");
    const struct txn_deps d = {.gpu = g, .state_dir = state_dir, .boot_id = ""};
    txn_recover(&d, inv.cards[0].uuid, &r);
    cr_expect_eq(r.outcome, TXN_NOTHING_TO_DO, "%s", r.message);
    cr_expect_str_eq(r.reason, "Overtaken");
    cr_expect_eq(journal_read(state_dir, inv.cards[0].uuid, &j, NULL), -(int)ERR_NOT_FOUND);
    auto_gpu_card struct gpu_card c = card_of(g, inv.cards[0].uuid);
    cr_expect_eq(c.n_vfs, 2);
}
