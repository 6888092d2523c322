/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/file.h"
#include "base/xalloc.h"

#include "nodeagent/gpu/gpu.h"
#include "nodeagent/gpu/pci_sysfs.h"

static char sys[64];

/* As the kernel has it: a link for each device into the tree of buses. */
static void put_device(const char *bus_id, const char *below)
{
    auto_free char *real = xasprintf("%s/devices/%s/%s", sys, below, bus_id);
    auto_free char *links = xasprintf("%s/bus/pci/devices", sys);
    auto_free char *link = xasprintf("%s/%s", links, bus_id);
    auto_free char *to = xasprintf("../../../devices/%s/%s", below, bus_id);
    cr_assert_eq(file_make_dirs(real, 0700, NULL), 0);
    cr_assert_eq(file_make_dirs(links, 0700, NULL), 0);
    cr_assert_eq(symlink(to, link), 0);
}

static void make_tree(void)
{
    (void)snprintf(sys, sizeof(sys), "/tmp/pci_sysfs_test.XXXXXX");
    cr_assert_not_null(mkdtemp(sys));
}

static void remove_tree(void)
{
    auto_free char *words = xasprintf("rm -r '%s'", sys);
    cr_assert_eq(system(words), 0); /* NOLINT(cert-env33-c): our own folder */
}

TestSuite(pci_sysfs, .init = make_tree, .fini = remove_tree);

static void expect_root(const char *bus_id, const char *expected)
{
    char root[GPU_ROOT_BYTES] = "before";
    pci_sysfs_root(sys, bus_id, root, sizeof(root));
    cr_expect_str_eq(root, expected, "%s", bus_id);
}

Test(pci_sysfs, the_root_is_the_first_host_bridge_on_the_way)
{
    put_device("0000:38:00.0", "pci0000:37/0000:37:01.0");
    put_device("0000:3b:00.0", "pci0000:3a/0000:3a:00.0/pci10000:00/10000:00:02.0");
    expect_root("0000:38:00.0", "pci0000:37");
    expect_root("00000000:38:00.0", "pci0000:37");
    expect_root("0000:3B:00.0", "pci0000:3a");
}

Test(pci_sysfs, what_only_looks_like_a_root_is_none)
{
    put_device("0000:01:00.0", "pci0000/pci0000:0/pci0000:000/xpci0000:00/pci000g:00");
    expect_root("0000:01:00.0", "");
}

Test(pci_sysfs, a_device_that_is_not_there_has_no_root)
{
    expect_root("0000:01:00.0", "");
}

static void put_file(const char *bus_id, const char *name, const char *text)
{
    auto_free char *path = xasprintf("%s/bus/pci/devices/%s/%s", sys, bus_id, name);
    cr_assert_eq(file_write_atomic(path, text, strlen(text), 0600, NULL), 0);
}

Test(pci_sysfs, a_card_is_told_by_its_address)
{
    struct gpu_card c = {.pci_bus_id = "00000000:38:00.0"};
    put_device("0000:38:00.0", "pci0000:37/0000:37:01.0");
    put_file("0000:38:00.0", "vendor", "0x9999\n");
    put_file("0000:38:00.0", "device", "0x4001\n");
    put_file("0000:38:00.0", "class", "0x030200\n");
    put_file("0000:38:00.0", "numa_node", "1\n");
    pci_sysfs_card(sys, &c);
    cr_expect_eq(c.pci_device_id, 0x40019999);
    cr_expect_eq(c.pci_subsystem_id, 0);
    cr_expect_eq(c.pci_class, 0x030200);
    cr_expect_eq(c.numa_node, 1);
    cr_expect_str_eq(c.pcie_root, "pci0000:37");
}

Test(pci_sysfs, a_card_that_the_kernel_does_not_show_is_on_no_node)
{
    struct gpu_card c = {.pci_bus_id = "0000:38:00.0", .numa_node = 3};
    pci_sysfs_card(sys, &c);
    cr_expect_eq(c.numa_node, -1);
    cr_expect_eq(c.pci_device_id, 0);
    cr_expect_str_eq(c.pcie_root, "");
}

Test(pci_sysfs, links_are_told_by_what_they_lead_to)
{
    put_device("0000:38:00.0", "pci0000:37/0000:37:01.0");
    auto_free char *driver = xasprintf("%s/bus/pci/drivers/xe", sys);
    auto_free char *link = xasprintf("%s/bus/pci/devices/0000:38:00.0/driver", sys);
    cr_assert_eq(file_make_dirs(driver, 0700, NULL), 0);
    cr_assert_eq(symlink("../../../../bus/pci/drivers/xe", link), 0);
    auto_free char *name = pci_sysfs_link(sys, "00000000:38:00.0", "driver");
    auto_free char *above = pci_sysfs_link(sys, "0000:38:00.0", "..");
    cr_assert(name && above);
    cr_expect_str_eq(name, "xe");
    cr_expect_str_eq(above, "0000:37:01.0");
    cr_expect_null(pci_sysfs_link(sys, "0000:38:00.0", "physfn"));
    cr_expect_null(pci_sysfs_link(sys, "0000:39:00.0", "driver"));
}
