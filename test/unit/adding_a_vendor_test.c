/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/file.h"
#include "base/xalloc.h"

#include "gpu_contract_support.h"
#include "interop/koordinator_mirror.h"
#include "nodeagent/cdi/cdi.h"
#include "nodeagent/cdi/driver_view.h"
#include "nodeagent/cdi/entry_build.h"
#include "nodeagent/commands/host.h"
#include "nodeagent/offer/node_offer.h"
#include "nodeagent/vendor/container_vendors.h"
#include "nodeagent/vendor/intel/intel.h"
#include "nodeagent/vendor/vendors.h"
#include "partition/resource_names.h"
#include "partition/vendor.h"
#include "sim_support.h"

/*
 * The code of docs/adding-a-vendor.md: its back end over a /sys of the test's own, and its rows in
 * the tables that everything else reads.
 */

static void enter(void)
{
    sim_machine_start();
    cr_assert_eq(chdir(sim_machine_dir()), 0);
}

TestSuite(adding_a_vendor, .init = enter, .fini = sim_machine_stop);

/* --- A machine --- */

#define PORT  "pci0000:17/0000:17:01.0"
#define FIRST "0000:18:00.0"
#define OTHER "0000:3a:00.0"

static void put(const char *path, const char *text)
{
    auto_free char *folder = xstrndup(path, (size_t)(strrchr(path, '/') - path));
    cr_assert_eq(file_make_dirs(folder, 0700, NULL), 0);
    cr_assert_eq(file_write_atomic(path, text, strlen(text), 0600, NULL), 0);
}

static void put_of(const char *id, const char *file, const char *text)
{
    auto_free char *path = xasprintf("sys/bus/pci/devices/%s/%s", id, file);
    put(path, text);
}

static void take_of(const char *id, const char *file)
{
    auto_free char *path = xasprintf("sys/bus/pci/devices/%s/%s", id, file);
    cr_assert_eq(remove(path), 0, "%s", path);
}

static void bind(const char *id, const char *driver)
{
    auto_free char *link = xasprintf("sys/bus/pci/devices/%s/driver", id);
    auto_free char *folder = xasprintf("sys/bus/pci/drivers/%s", driver);
    auto_free char *to = xasprintf("%s/%s", sim_machine_dir(), folder);
    (void)unlink(link);
    cr_assert_eq(file_make_dirs(folder, 0700, NULL), 0);
    cr_assert_eq(symlink(to, link), 0);
}

/* A function on the bus, as the kernel has it: a link into the tree of devices. */
static void put_function(const char *id, const char *below, const char *vendor, const char *class)
{
    auto_free char *real = xasprintf("sys/devices/%s/%s", below, id);
    auto_free char *link = xasprintf("sys/bus/pci/devices/%s", id);
    auto_free char *to = xasprintf("../../../devices/%s/%s", below, id);
    cr_assert_eq(file_make_dirs(real, 0700, NULL), 0);
    cr_assert_eq(file_make_dirs("sys/bus/pci/devices", 0700, NULL), 0);
    cr_assert_eq(symlink(to, link), 0);
    put_of(id, "vendor", vendor);
    put_of(id, "class", class);
    put_of(id, "device", "0xe20b\n");
    put_of(id, "numa_node", "1\n");
}

static void put_nodes(const char *id, unsigned n)
{
    auto_free char *card = xasprintf("drm/card%u/dev", n);
    auto_free char *render = xasprintf("drm/renderD%u/dev", 128 + n);
    auto_free char *card_file = xasprintf("dev/dri/card%u", n);
    auto_free char *render_file = xasprintf("dev/dri/renderD%u", 128 + n);
    put_of(id, card, "226:0\n");
    put_of(id, render, "226:128\n");
    put(card_file, "");
    put(render_file, "");
}

static void put_card(const char *id, unsigned n)
{
    put_function(id, PORT, "0x8086\n", "0x030000\n");
    bind(id, "xe");
    put_nodes(id, n);
    put_of(id, "tile0/physical_vram_size_bytes", "12884901888\n");
}

static void take_function(const char *id)
{
    auto_free char *link = xasprintf("sys/bus/pci/devices/%s", id);
    cr_assert_eq(unlink(link), 0);
}

static struct gpu *open_intel(void)
{
    struct gpu *g = NULL;
    const struct vendor_host h = {.proc_root = "proc", .sys_root = "sys"};
    cr_assert_eq(vendor_intel.open(&h, &g, NULL), 0);
    return g;
}

/* --- The back end --- */

Test(adding_a_vendor, a_reading_shows_what_the_kernel_says)
{
    put_card(OTHER, 2);
    put_card(FIRST, 1);
    put_of(OTHER, "tile1/physical_vram_size_bytes", "12884901888\n");
    put("sys/module/xe/srcversion", "2A6B0C9D1E\n");
    put("proc/sys/kernel/random/boot_id", "6d1f\n");
    auto_gpu struct gpu *g = open_intel();
    auto_gpu_inventory struct gpu_inventory inv = sim_read(g);
    cr_assert_eq(inv.n_cards, 2);
    cr_expect_str_eq(gpu_inventory_driver(&inv, "intel")->version, "2A6B0C9D1E");
    cr_expect_str_eq(inv.boot_id, "6d1f");
    const struct gpu_card *c = &inv.cards[0];
    cr_expect_str_eq(c->vendor, "intel");
    cr_expect_str_eq(c->uuid, "INTEL-" FIRST);
    cr_expect_str_eq(c->model, "Intel GPU E20B");
    cr_expect_str_eq(c->pci_bus_id, FIRST);
    cr_expect_str_eq(c->pcie_root, "pci0000:17");
    cr_expect_eq(c->pci_device_id, 0xe20b8086);
    cr_expect_eq(c->numa_node, 1);
    cr_expect_eq(c->memory_mib, 12288);
    cr_expect_eq(c->minor, 1);
    cr_expect(c->healthy && !c->unread && c->users_unknown && c->no_events);
    cr_expect_eq(inv.cards[1].memory_mib, 24576, "the sum of its tiles");
    cr_expect_eq(inv.cards[1].index, 1);
}

Test(adding_a_vendor, what_is_no_card_of_ours_is_left_out)
{
    put_card(FIRST, 1);
    put_function("0000:00:02.0", "pci0000:00", "0x8086\n", "0x030000\n"); /* the processor's own */
    bind("0000:00:02.0", "xe");
    put_function("0000:18:00.1", PORT, "0x8086\n", "0x030000\n"); /* a virtual function */
    bind("0000:18:00.1", "xe");
    cr_assert_eq(symlink("../" FIRST, "sys/bus/pci/devices/0000:18:00.1/physfn"), 0);
    put_function("0000:19:00.0", PORT, "0x8086\n", "0x030000\n");
    bind("0000:19:00.0", "i915");                                 /* another resource */
    put_function("0000:1a:00.0", PORT, "0x8086\n", "0x030000\n"); /* no driver */
    put_function("0000:1b:00.0", PORT, "0x8086\n", "0x020000\n"); /* a network card */
    bind("0000:1b:00.0", "xe");
    put_function("0000:1c:00.0", PORT, "0x10de\n", "0x030200\n"); /* another vendor's */
    bind("0000:1c:00.0", "xe");
    auto_gpu struct gpu *g = open_intel();
    auto_gpu_inventory struct gpu_inventory inv = sim_read(g);
    cr_assert_eq(inv.n_cards, 1);
    cr_expect_str_eq(inv.cards[0].pci_bus_id, FIRST);
}

Test(adding_a_vendor, nonsense_in_a_file_is_bounded)
{
    put_card(FIRST, 1);
    put_of(FIRST, "numa_node", "99999999999999999999\n");
    put_of(FIRST, "tile1/physical_vram_size_bytes", "9223372036854775807\n");
    put_of(FIRST, "drm/card99999999/dev", "\n");
    put_of(FIRST, "device", "0xffffffffffff\n");
    auto_gpu struct gpu *g = open_intel();
    auto_gpu_inventory struct gpu_inventory inv = sim_read(g);
    cr_assert_eq(inv.n_cards, 1);
    cr_expect_eq(inv.cards[0].numa_node, -1);
    cr_expect_eq(inv.cards[0].memory_mib, 12288);
    cr_expect_eq(inv.cards[0].minor, 1);
    cr_expect(inv.cards[0].healthy);
}

Test(adding_a_vendor, what_the_driver_does_not_tell_is_unknown)
{
    put_card(FIRST, 1);
    take_of(FIRST, "tile0/physical_vram_size_bytes");
    take_of(FIRST, "numa_node");
    take_of(FIRST, "drm/card1/dev");
    take_of(FIRST, "drm/card1");
    auto_gpu struct gpu *g = open_intel();
    auto_gpu_inventory struct gpu_inventory inv = sim_read(g);
    cr_assert_eq(inv.n_cards, 1);
    cr_expect_eq(inv.cards[0].memory_mib, 0);
    cr_expect_eq(inv.cards[0].numa_node, -1);
    cr_expect_eq(inv.cards[0].minor, UINT_MAX);
    cr_expect_str_eq(inv.drivers[0].version, "");
}

Test(adding_a_vendor, more_cards_than_are_managed_are_an_error)
{
    for (unsigned i = 0; i <= GPU_MAX_CARDS; i++) {
        auto_free char *id = xasprintf("0000:%02x:00.0", i + 1);
        put_card(id, i + 1);
    }
    auto_gpu struct gpu *g = open_intel();
    struct gpu_inventory inv = {0};
    cr_expect_eq(g->ops->read(g, &inv, NULL), -(int)ERR_TOO_LARGE);
    cr_expect_null(inv.cards);
}

/* --- Health --- */

static void expect_ill(const char *reason)
{
    auto_gpu struct gpu *g = open_intel();
    auto_gpu_inventory struct gpu_inventory inv = sim_read(g);
    cr_assert_eq(inv.n_cards, 1);
    cr_expect(!inv.cards[0].healthy && !inv.cards[0].unread);
    cr_expect_str_eq(inv.cards[0].unhealthy_reason, reason);
}

Test(adding_a_vendor, a_card_that_cannot_be_given_out_is_ill)
{
    put_card(FIRST, 1);
    put_of(FIRST, "sriov_numvfs", "4\n");
    expect_ill("VirtualFunctions");
    put_of(FIRST, "sriov_numvfs", "0\n");
    take_of(FIRST, "drm/renderD129/dev");
    take_of(FIRST, "drm/renderD129");
    expect_ill("NoRenderNode");
    put_of(FIRST, "survivability_mode", "Boot\n");
    expect_ill("FirmwareFailed");
}

Test(adding_a_vendor, a_card_that_vanishes_has_not_been_there_for_nothing)
{
    put_card(FIRST, 1);
    put_card(OTHER, 2);
    auto_gpu struct gpu *g = open_intel();
    auto_gpu_inventory struct gpu_inventory before = sim_read(g);
    take_function(FIRST);
    auto_gpu_inventory struct gpu_inventory without = sim_read(g);
    cr_assert_eq(without.n_cards, 2);
    cr_expect(without.cards[0].unread && !without.cards[0].healthy);
    cr_expect_str_eq(without.cards[0].unhealthy_reason, "GPULost");
    cr_expect_str_eq(without.cards[0].uuid, before.cards[0].uuid);
    cr_expect_eq(without.cards[0].memory_mib, 12288);
    cr_expect(without.cards[1].healthy);
    cr_expect_eq(without.cards[1].index, 1, "the other card keeps its number");
    put_card(FIRST, 1);
    auto_gpu_inventory struct gpu_inventory again = sim_read(g);
    cr_expect(again.cards[0].healthy && !again.cards[0].unread);
    cr_expect_str_eq(again.cards[0].unhealthy_reason, "");
}

Test(adding_a_vendor, a_card_without_driver_is_lost_and_one_with_another_is_not_ours)
{
    put_card(FIRST, 1);
    put_card(OTHER, 2);
    auto_gpu struct gpu *g = open_intel();
    auto_gpu_inventory struct gpu_inventory before = sim_read(g);
    take_of(FIRST, "driver");
    bind(OTHER, "vfio-pci");
    auto_gpu_inventory struct gpu_inventory after = sim_read(g);
    cr_assert_eq(before.n_cards, 2);
    cr_assert_eq(after.n_cards, 1);
    cr_expect_str_eq(after.cards[0].pci_bus_id, FIRST);
    cr_expect_str_eq(after.cards[0].unhealthy_reason, "GPULost");
}

/* --- The other verbs --- */

Test(adding_a_vendor, a_machine_without_cards_says_so)
{
    auto_gpu struct gpu *g = open_intel();
    struct gpu_inventory inv = {0};
    cr_expect_eq(g->ops->read(g, &inv, NULL), -(int)ERR_NOT_FOUND, "no /sys at all");
    put_function("0000:1c:00.0", PORT, "0x10de\n", "0x030200\n");
    cr_expect_eq(g->ops->read(g, &inv, NULL), -(int)ERR_NOT_FOUND);
    put_card(FIRST, 1);
    cr_expect_eq(g->ops->read(g, &inv, NULL), 0, "the driver came later");
    gpu_inventory_done(&inv);
}

Test(adding_a_vendor, one_card_is_read_by_its_uuid)
{
    put_card(FIRST, 1);
    put_card(OTHER, 2);
    auto_gpu struct gpu *g = open_intel();
    auto_gpu_card struct gpu_card c = {0};
    cr_expect_eq(g->ops->read_card(g, "INTEL-" OTHER, &c, NULL), 0, "nothing was read before");
    cr_expect_str_eq(c.pci_bus_id, OTHER);
    cr_expect_eq(c.index, 1);
    cr_expect_eq(g->ops->read_card(g, "INTEL-none", &c, NULL), -(int)ERR_NOT_FOUND);
    take_function(OTHER);
    cr_expect_eq(g->ops->read_card(g, "INTEL-" OTHER, &c, NULL), -(int)ERR_UNAVAILABLE);
}

Test(adding_a_vendor, what_every_back_end_promises_is_kept)
{
    put_card(FIRST, 1);
    put_card(OTHER, 2);
    gpu_contract_check(open_intel);
}

Test(adding_a_vendor, its_cards_stand_beside_anothers)
{
    sim_fleet("[{model: c500, count: 1}]");
    put_card(FIRST, 1);
    struct gpu *const both[] = {sim_open_metax(), open_intel()};
    auto_gpu struct gpu *g = gpu_all_new(both, 2);
    auto_gpu_inventory struct gpu_inventory inv = sim_read(g);
    enum gpu_mode_result result;
    auto_err struct err e = {0};
    cr_assert_eq(inv.n_cards, 2);
    cr_expect_str_eq(inv.cards[0].vendor, "metax");
    cr_expect_str_eq(inv.cards[1].vendor, "intel");
    cr_expect_eq(inv.n_drivers, 2);
    cr_expect_eq(g->ops->mode_set(g, "INTEL-" FIRST, GPU_MIG, &result, &e), -(int)ERR_INVALID);
    cr_expect_str_eq(err_msg(&e), "this vendor's cards know no mode_set");
    cr_expect_eq(g->ops->mode_set(g, inv.cards[0].uuid, GPU_SGPU, &result, NULL), 0);
}

/* --- The rows --- */

/* The document's files, as the build found them: the folder, and no line of ours but these. */
Test(adding_a_vendor, it_is_one_folder_and_a_line_in_two_files)
{
    static const char *const lines[] = {"nodeagent/vendor/vendors.def", "partition/vendor.c"};
    static const char folder[] = "nodeagent/vendor/intel/";
    auto_free char *list = xstrdup(VENDOR_FILES);
    char *rest = list;
    size_t n_lines = 0;
    size_t n_new = 0;
    for (const char *f = strsep(&rest, " "); f; f = strsep(&rest, " ")) {
        bool is_new = strncmp(f, folder, strlen(folder)) == 0;
        bool is_line = strcmp(f, lines[0]) == 0 || strcmp(f, lines[1]) == 0;
        cr_expect(is_new || is_line, "%s is changed for a vendor", f);
        n_new += is_new;
        n_lines += is_line;
    }
    cr_expect_eq(n_lines, 2);
    cr_expect_eq(n_new, 4);
    cr_expect_eq(vendor_backend_find("intel"), &vendor_intel);
    for (size_t i = 1; vendor_backends[i]; i++)
        cr_expect_lt(strcmp(vendor_backends[i - 1]->name, vendor_backends[i]->name), 0);
    for (size_t i = 1; vendors[i].name; i++)
        cr_expect_lt(strcmp(vendors[i - 1].name, vendors[i].name), 0);
}

static struct host open_host(void)
{
    const struct host_flags f = {.vendor = {{"none.so"}, {"none.so"}},
                                 .proc_root = "proc",
                                 .sys_root = "sys"};
    struct host h = {0};
    auto_err struct err e = {0};
    cr_assert_eq(host_open(&f, &h, &e), 0, "%s", err_msg(&e));
    return h;
}

Test(adding_a_vendor, the_agent_opens_it)
{
    put_card(FIRST, 1);
    auto_host struct host h = open_host();
    cr_assert_eq(h.inventory.n_cards, 1);
    cr_expect_str_eq(h.cards[0].vendor, "intel");
    cr_expect_eq(h.cards[0].mode, API_MODE_NATIVE);
}

Test(adding_a_vendor, its_resources_are_named)
{
    char name[RESOURCE_NAME_BYTES];
    cr_assert(resource_name("intel", API_STRATEGY_MIXED, /* renamed= */ false, NULL, name));
    cr_expect_str_eq(name, "gpu.intel.com/xe");
    cr_assert(resource_name("intel", API_STRATEGY_NONE, /* renamed= */ true, NULL, name));
    cr_expect_str_eq(name, "gpu.intel.com/xe.shared");
    cr_expect_not(resource_name("intel", API_STRATEGY_MIXED, false, "1g.10gb", name));
    cr_expect_not(resource_slice_name("intel", NULL, name));
    cr_expect(vendor_offers("gpu.intel.com/xe") && vendor_offers("nvidia.com/gpu"));
    cr_expect(!vendor_offers("gpu.intel.com/xe_monitoring") &&
              !vendor_offers("gpu.intel.com/i915"));
    cr_expect(vendor_owns("gpu.intel.com/i915"));
}

Test(adding_a_vendor, each_vendor_of_the_cluster_has_a_way_into_a_container)
{
    for (const struct vendor *v = vendors; v->name; v++)
        cr_expect_not_null(container_vendor_find(v->name), "%s", v->name);
}

Test(adding_a_vendor, the_kubelet_is_offered_its_cards)
{
    put_card(FIRST, 1);
    put_card(OTHER, 2);
    put_of(OTHER, "sriov_numvfs", "2\n");
    auto_host struct host h = open_host();
    struct card_view views[2] = {{.card = h.inventory.cards[0]}, {.card = h.inventory.cards[1]}};
    const struct node_state s = {.inventory = &h.inventory,
                                 .cards = views,
                                 .n_cards = 2,
                                 .spec_seen = true,
                                 .means.publisher = API_PUBLISHER_KUBELET};
    auto_node_offer struct node_offer offer;
    node_offer_build(&s, 0, &offer);
    const struct table_resource *r = device_table_resource(&offer.table, "gpu.intel.com/xe");
    cr_assert(r && r->n_devices == 2);
    cr_expect_str_eq(r->devices[0].id, "INTEL-" FIRST);
    cr_expect_str_eq(r->devices[0].entry.cdi_name, "INTEL-" FIRST);
    cr_expect(r->devices[0].healthy && !r->devices[1].healthy);
}

static char card_name[] = "INTEL-" FIRST, card_bus_id[] = FIRST;
static const struct entry_device device = {.vendor = "intel",
                                           .cdi_name = card_name,
                                           .pci_bus_id = card_bus_id,
                                           .minor = 1};
static const struct entry_device *const devices[] = {&device};

static struct driver_view *view_of_files(void)
{
    const struct driver_where here = {.proc_root = "proc",
                                      .sys_root = "sys",
                                      .dev_root = ".",
                                      .plain_dev_root = "/"};
    auto_host struct host h = open_host();
    return driver_view_read(&here, &h.inventory);
}

Test(adding_a_vendor, a_container_gets_the_cards_files)
{
    put_card(FIRST, 1);
    put_card(OTHER, 2);
    auto_driver_view struct driver_view *v = view_of_files();
    const struct cdi_options o = {.folder = "cdi"};
    auto_cdi struct cdi *cdi = cdi_new(&o);
    auto_err struct err e = {0};
    auto_free char *text = NULL;
    cr_expect_str_eq(v->trouble, "");
    cr_assert_eq(cdi_set_common(cdi, &v->nodes, NULL, &e), 0, "%s", err_msg(&e));
    cr_assert_eq(cdi_write(cdi, &v->nodes, devices, 1, &e), 0, "%s", err_msg(&e));
    cr_assert_eq(file_read("cdi/gpu.cleave.dev-intel.json", 65536, &text, NULL, NULL), 0);
    cr_expect_not_null(strstr(text, "\"gpu.cleave.dev/intel\""), "%s", text);
    cr_expect_not_null(strstr(text, "\""
                                    "INTEL-" FIRST "\""),
                       "%s", text);
    cr_expect_not_null(strstr(text, "/dev/dri/card1\""), "%s", text);
    cr_expect_not_null(strstr(text, "/dev/dri/renderD129\""), "%s", text);
    cr_expect_null(strstr(text, "/dev/dri/card2"), "another card's");
}

Test(adding_a_vendor, without_cdi_the_answer_has_the_files)
{
    put_card(FIRST, 1);
    auto_driver_view struct driver_view *v = view_of_files();
    const struct entry_options o = {.ways = ENTRY_ENVVAR, .pass_device_nodes = true};
    struct entry en = {0};
    cr_assert_eq(entry_build(&o, &v->nodes, devices, 1, &en, NULL), 0);
    cr_assert_eq(en.n_nodes, 2);
    cr_expect_str_eq(en.nodes[0].host_path, "/dev/dri/card1");
    cr_expect_str_eq(en.nodes[1].host_path, "/dev/dri/renderD129");
    cr_expect_eq(en.n_envs, 0);
    entry_done(&en);
}

Test(adding_a_vendor, a_card_whose_files_do_not_stand_is_given_to_nobody)
{
    put_card(FIRST, 1);
    cr_assert_eq(unlink("dev/dri/renderD129"), 0);
    auto_driver_view struct driver_view *v = view_of_files();
    const struct entry_options o = {.ways = ENTRY_ENVVAR, .pass_device_nodes = true};
    struct entry en = {0};
    cr_expect_eq(entry_build(&o, &v->nodes, devices, 1, &en, NULL), -(int)ERR_NOT_FOUND);
}

Test(adding_a_vendor, koordinator_sees_its_cards)
{
    const struct jx_pair driver = {.key = (char *)(uintptr_t) "intel",
                                   .str = (char *)(uintptr_t) "2A6B0C9D1E"};
    const struct koordinator_card card = {.uuid = "INTEL-" FIRST,
                                          .vendor = "intel",
                                          .model = "Intel GPU E20B",
                                          .minor = 1,
                                          .memory_mib = 12288,
                                          .mode = API_MODE_NATIVE,
                                          .healthy = true};
    const struct koordinator_node node = {.cards = &card,
                                          .n_cards = 1,
                                          .drivers = &driver,
                                          .n_drivers = 1};
    auto_koordinator_mirror struct koordinator_mirror m = {0};
    koordinator_mirror_build(&node, NULL, 0, &m);
    const char *const want[][2] = {{KOORDINATOR_LABEL_VENDOR, "intel"},
                                   {KOORDINATOR_LABEL_MODEL, "GPU-E20B"},
                                   {KOORDINATOR_LABEL_DRIVER, "2A6B0C9D1E"}};
    for (size_t i = 0; i < ARRAY_LEN(want); i++) {
        const char *got = json_string_value(json_object_get(m.labels, want[i][0]));
        cr_expect(got && strcmp(got, want[i][1]) == 0, "%s: %s", want[i][0], got ? got : "none");
    }
    cr_expect_eq(m.spec.n_devices, 1);
}
