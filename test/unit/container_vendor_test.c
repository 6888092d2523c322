/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <limits.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/file.h"
#include "base/sb.h"
#include "base/xalloc.h"

#include "folder_support.h"
#include "nodeagent/container/container_vendor.h"
#include "nodeagent/vendor/container_vendors.h"
#include "nodeagent/vendor/metax/container_metax.h"
#include "nodeagent/vendor/vendors.h"
#include "partition/vendor.h"

Test(container_vendor, each_vendor_that_the_cluster_knows_has_a_way_into_a_container)
{
    for (const struct vendor *v = vendors; v->name; v++) {
        const struct container_vendor *c = container_vendor_find(v->name);
        auto_free char *kind = xasprintf("gpu.cleave.dev/%s", v->name);
        cr_assert_not_null(c, "%s", v->name);
        cr_expect_str_eq(c->cdi_kind, kind);
    }
    cr_expect_null(container_vendor_find("amd"));
    cr_expect_null(container_vendor_find(NULL));
}

/* --- Files that drivers make by themselves --- */

Test(container_vendor, looks_differ_when_a_file_came, .init = folder_enter, .fini = folder_leave)
{
    static const struct driver_where here = {.proc_root = "proc",
                                             .sys_root = "sys",
                                             .dev_root = ".",
                                             .plain_dev_root = "/host"};
    auto_device_nodes struct device_nodes before = {0};
    auto_device_nodes struct device_nodes after = {0};
    cr_assert_eq(file_make_dirs("dev", 0755, NULL), 0);
    cr_assert_eq(device_nodes_read(&here, NULL, 0, &before, NULL), 0);
    cr_expect(device_nodes_are_current(&here, NULL, 0, &before));
    cr_assert_eq(file_write_atomic("dev/mxgd", "", 0, 0644, NULL), 0);
    cr_expect_not(device_nodes_are_current(&here, NULL, 0, &before));
    cr_assert_eq(device_nodes_read(&here, NULL, 0, &after, NULL), 0);
    const struct metax_files *own = device_nodes_own(&after, &container_metax);
    cr_expect(!own->mxcd && !own->mxnd && own->mxgd);
    cr_expect_str_eq(after.dri.host_dev_root, "/host");
}

/* --- MetaX --- */

static char name[] = "GPU-0", bus_id[] = "0000:05:00.0", other_bus_id[] = "0000:06:00.0";
static char no_root[] = "";
static struct dri_card cards[] = {{.bus_id = "0000:05:00.0",
                                   .cards = {1, 5},
                                   .n_cards = 2,
                                   .renders = {128, 132},
                                   .n_renders = 2},
                                  {.bus_id = "0000:06:00.0", .cards = {2}, .n_cards = 1}};
static struct metax_files control = {.mxcd = true}, no_files;
static const struct device_nodes nodes = {.own = {{&container_metax, &control}},
                                          .dri = {.cards = cards,
                                                  .n_cards = 2,
                                                  .host_dev_root = no_root}};

static struct entry_device slice_with(unsigned minor)
{
    return (struct entry_device){.vendor = "metax",
                                 .cdi_name = name,
                                 .pci_bus_id = bus_id,
                                 .has_slice = true,
                                 .slice = {.id = 3,
                                           .minor = minor,
                                           .memory_mib = 1024,
                                           .compute_percent = 10,
                                           .alias = "cleave-train"}};
}

/* The device's files, each behind a blank. */
static char *files_of(const struct entry_device *d, const struct device_nodes *n)
{
    auto_sb struct sb text = SB_INIT(4096);
    auto_device_paths struct device_paths list = {0};
    auto_err struct err e = {0};
    cr_assert_eq(container_vendor_find(d->vendor)->paths_of(n, d, &list, &e), 0, "%s", err_msg(&e));
    for (size_t i = 0; i < list.n; i++)
        sb_addf(&text, " %s%s", list.host_root, list.paths[i]);
    return sb_take(&text);
}

static const struct {
    unsigned minor;
    const char *files;
} minors[] = {
    {UINT_MAX, " /dev/dri/card1 /dev/dri/renderD128"}, /* unknown */
    {132, " /dev/dri/renderD132"},                     /* its own */
    {128, " /dev/dri/card1 /dev/dri/renderD128"},      /* the card's */
    {5, " /dev/dri/card1 /dev/dri/renderD128"},        /* a card node's number says nothing */
    {133, " /dev/dri/card1 /dev/dri/renderD128"},      /* of another card, or of none */
};

Test(container_vendor, slice_of_metax_has_its_own_render_node_or_its_cards)
{
    for (size_t i = 0; i < ARRAY_LEN(minors); i++) {
        const struct entry_device d = slice_with(minors[i].minor);
        auto_free char *files = files_of(&d, &nodes);
        cr_expect_str_eq(files, minors[i].files, "minor %u: %s", minors[i].minor, files);
    }
}

Test(container_vendor, metax_files_below_a_dev_root_say_where_they_are)
{
    struct device_nodes below = nodes;
    char root[] = "/host";
    below.dri.host_dev_root = root;
    const struct entry_device d = {.vendor = "metax", .cdi_name = name, .pci_bus_id = bus_id};
    auto_free char *files = files_of(&d, &below);
    cr_expect_str_eq(files, " /host/dev/dri/card1 /host/dev/dri/renderD128");
}

static int files_error(const struct device_nodes *n, char *bus, struct err *e)
{
    auto_device_paths struct device_paths list = {0};
    const struct entry_device d = {.vendor = "metax", .cdi_name = name, .pci_bus_id = bus};
    return container_vendor_find("metax")->paths_of(n, &d, &list, e);
}

Test(container_vendor, metax_card_that_could_not_be_used_is_not_given)
{
    struct device_nodes no_control = nodes;
    no_control.own[0].files = &no_files;
    char unknown[] = "0000:07:00.0";
    auto_err struct err e = {0};
    cr_expect_eq(files_error(&no_control, bus_id, &e), -ERR_NOT_FOUND);
    cr_expect_not_null(strstr(err_msg(&e), "GPU-0: there is no /dev/mxcd"));
    err_clear(&e);
    cr_expect_eq(files_error(&nodes, other_bus_id, &e), -ERR_NOT_FOUND, "no render node");
    cr_expect_not_null(strstr(err_msg(&e), "0000:06:00.0"));
    cr_expect_eq(files_error(&nodes, unknown, NULL), -ERR_NOT_FOUND);
    cr_expect_eq(files_error(&nodes, NULL, NULL), -ERR_NOT_FOUND);
}

static bool knows_paths(const struct device_nodes *n, char *bus)
{
    const struct entry_device d = {.vendor = "metax", .cdi_name = name, .pci_bus_id = bus};
    return container_vendor_find("metax")->knows_paths(n, &d);
}

Test(container_vendor, a_metax_card_without_a_render_node_is_told_from_one_that_was_not_looked_at)
{
    struct device_nodes no_control = nodes;
    no_control.own[0].files = &no_files;
    char unknown[] = "0000:07:00.0";
    cr_expect(knows_paths(&nodes, bus_id));
    cr_expect(knows_paths(&nodes, other_bus_id), "its render node is gone");
    cr_expect_not(knows_paths(&nodes, unknown));
    cr_expect_not(knows_paths(&no_control, other_bus_id), "its driver is not loaded");
}

static int say(const struct entry_device *d, char **ret, struct err *e)
{
    const char *key = NULL;
    return container_vendor_find("metax")->device_env(&d, 1, &key, ret, e);
}

static const struct {
    const char *alias;
    bool is_said;
} aliases[] = {{"cleave-a", true}, {"", true},     {"a;vram=65536", false}, {"a,b", false},
               {"a b", false},     {"a\n", false}, {"\"", false},           {"\xff", false},
               {"a=b#c", true},    {"a\\n", false}};

Test(container_vendor, alias_of_metax_cannot_say_more_than_a_name)
{
    for (size_t i = 0; i < ARRAY_LEN(aliases); i++) {
        struct entry_device d = slice_with(UINT_MAX);
        auto_free char *value = NULL;
        (void)snprintf(d.slice.alias, sizeof(d.slice.alias), "%s", aliases[i].alias);
        cr_expect_eq(say(&d, &value, NULL), aliases[i].is_said ? 0 : -ERR_INVALID, "%s",
                     aliases[i].alias);
    }
}

Test(container_vendor, slice_of_metax_without_an_address_is_not_told)
{
    struct entry_device d = slice_with(UINT_MAX);
    auto_free char *value = NULL;
    char nonsense[] = "0000:05";
    d.pci_bus_id = nonsense;
    cr_expect_eq(say(&d, &value, NULL), -ERR_INVALID);
    cr_expect_null(value);
}

/* There is one process that waits for events (gpu_watch.h). */
Test(container_vendor, one_vendor_has_events_waited_for)
{
    unsigned n = 0;
    for (size_t i = 0; vendor_backends[i]; i++)
        n += vendor_backends[i]->reports_events;
    cr_expect_eq(n, 1);
}
