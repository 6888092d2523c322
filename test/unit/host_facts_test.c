/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/file.h"
#include "base/xalloc.h"

#include "nodeagent/offer/host_facts.h"

static char root[64];

static void make_root(void)
{
    (void)snprintf(root, sizeof(root), "/tmp/host-facts-XXXXXX");
    cr_assert(mkdtemp(root));
}

static void remove_root(void)
{
    auto_free char *command = xasprintf("rm -rf '%s'", root);
    cr_assert_eq(system(command), 0);
}

TestSuite(host_facts, .init = make_root, .fini = remove_root);

static void put(const char *folder, const char *name, const void *bytes, size_t n)
{
    auto_free char *in = xasprintf("%s/%s", root, folder);
    auto_free char *path = xasprintf("%s/%s", in, name);
    cr_assert_eq(file_make_dirs(in, 0755, NULL), 0);
    cr_assert_eq(file_write_atomic(path, bytes, n, 0600, NULL), 0);
}

static void put_text(const char *folder, const char *name, const char *text)
{
    put(folder, name, text, strlen(text));
}

static void put_device(const char *id, const char *class, const char *vendor)
{
    auto_free char *folder = xasprintf("bus/pci/devices/%s", id);
    put_text(folder, "class", class);
    put_text(folder, "vendor", vendor);
}

/* A configuration space with one vendor's capability at 0xd0. */
struct config {
    uint8_t bytes[256];
};

static struct config vgpu_config(void)
{
    /* id, next, length, signature; record 1 of four bytes; record 0 with version and branch. */
    static const char cap[] = "\x09\x00\x1f"
                              "VF"
                              "\x01\x04xx"
                              "\x00\x16"
                              "460.16\0\0\0\0"
                              "r460_00\0\0\0";
    struct config c = {{0}};
    c.bytes[0x06] = 0x10;
    c.bytes[0x34] = 0xd0;
    memcpy(c.bytes + 0xd0, cap, sizeof(cap) - 1);
    return c;
}

Test(host_facts, an_empty_tree_tells_nothing)
{
    struct host_facts f;
    host_facts_read(root, &f);
    cr_expect_str_eq(f.machine, "");
    cr_expect_eq(f.n_pci, 0);
    cr_expect(!f.vgpu);
}

Test(host_facts, the_machine_is_the_first_line)
{
    struct host_facts f;
    put_text("class/dmi/id", "product_name", "PowerEdge XE9680\n");
    host_facts_read(root, &f);
    cr_expect_str_eq(f.machine, "PowerEdge XE9680");
}

Test(host_facts, devices_are_told_once_a_kind_and_in_order)
{
    struct host_facts f;
    put_device("0000:3b:00.0", "0x030200\n", "0x10de\n");
    put_device("0000:3c:00.0", "0x030200\n", "0x10de\n");
    put_device("0000:01:00.0", "0x030000\n", "0x102b\n");
    put_device("0000:02:00.0", "0x020700\n", "0x15b3\n");
    put_device("0000:00:1f.0", "0x060100\n", "0x8086\n");
    put_device("0000:04:00.0", "0x0b4000\n", "0x8086\n");
    put_device("0000:05:00.0", "0x120000\n", "0x1e52\n");
    put_text("bus/pci/devices/0000:3c:00.0", "sriov_totalvfs", "16\n");
    host_facts_read(root, &f);
    static const struct host_pci_kind expected[] = {{0x0207, 0x15b3, false},
                                                    {0x0300, 0x102b, false},
                                                    {0x0302, 0x10de, true},
                                                    {0x0b40, 0x8086, false},
                                                    {0x1200, 0x1e52, false}};
    cr_assert_eq(f.n_pci, 5);
    for (size_t i = 0; i < 5; i++) {
        cr_expect_eq(f.pci[i].class, expected[i].class);
        cr_expect_eq(f.pci[i].vendor, expected[i].vendor);
        cr_expect_eq(f.pci[i].sriov, expected[i].sriov);
    }
}

static void put_link(const char *id, const char *name, const char *to)
{
    auto_free char *path = xasprintf("%s/bus/pci/devices/%s/%s", root, id, name);
    cr_assert_eq(symlink(to, path), 0);
}

static const struct host_pci_cards *nvidia_of(const struct host_facts *f)
{
    for (size_t i = 0; i < HOST_MAX_VENDORS && f->cards[i].vendor; i++)
        if (strcmp(f->cards[i].vendor, "nvidia") == 0)
            return &f->cards[i];
    cr_assert_fail("NVIDIA's cards are on the PCI bus");
    return NULL;
}

Test(host_facts, a_node_has_no_cards_only_where_its_whole_bus_shows_none)
{
    struct host_facts f;
    host_facts_read(root, &f);
    cr_expect_not(host_has_no_cards(&f), "an empty tree is not the kernel's");
    put_device("0000:01:00.0", "0x020000\n", "0x1af4\n");
    put_device("0000:00:02.0", "0x030000\n", "0x1234\n");
    put_device("0000:00:03.0", "0x040300\n", "0x10de\n");
    host_facts_read(root, &f);
    cr_expect(host_has_no_cards(&f), "a network device, a screen, a card's sound");
    put_text("bus/pci/devices/0000:05:00.0", "vendor", "0x1af4\n");
    host_facts_read(root, &f);
    cr_expect_not(host_has_no_cards(&f), "the class of one cannot be read");
}

Test(host_facts, a_kernel_without_a_pci_bus_has_no_cards)
{
    struct host_facts f;
    put_text("bus/virtio", "uevent", "");
    host_facts_read(root, &f);
    cr_expect(host_has_no_cards(&f));
}

Test(host_facts, cards_of_known_vendors_are_counted_with_their_driver)
{
    struct host_facts f;
    put_device("0000:5e:00.0", "0x030200\n", "0x10de\n");
    put_device("0000:3b:00.0", "0x030000\n", "0x10de\n");
    put_device("0000:07:00.0", "0x038000\n", "0x9999\n");
    put_link("0000:3b:00.0", "driver", "../../../../bus/pci/drivers/nouveau");
    host_facts_read(root, &f);
    cr_expect_not(host_has_no_cards(&f));
    cr_expect_eq(nvidia_of(&f)->n, 2);
    cr_expect_str_eq(nvidia_of(&f)->first, "0000:3b:00.0");
    cr_expect_str_eq(nvidia_of(&f)->driver, "nouveau");
    cr_expect_str_eq(f.cards[0].vendor, "metax");
    cr_expect_eq(f.cards[0].n, 1);
    cr_expect_str_eq(f.cards[0].driver, "");
}

Test(host_facts, a_virtual_function_is_a_card_only_where_its_card_is_not_seen)
{
    struct host_facts f;
    put_device("0000:3b:00.4", "0x030200\n", "0x10de\n");
    host_facts_read(root, &f);
    cr_expect_eq(nvidia_of(&f)->n, 1, "in a virtual machine");
    put_link("0000:3b:00.4", "physfn", "../0000:3b:00.0");
    host_facts_read(root, &f);
    cr_expect(host_has_no_cards(&f));
}

Test(host_facts, cards_kept_for_virtual_machines_are_none_of_ours)
{
    struct host_facts f;
    put_device("0000:3b:00.0", "0x030200\n", "0x10de\n");
    put_device("0000:3c:00.0", "0x030200\n", "0x10de\n");
    put_link("0000:3b:00.0", "driver", "../../../../bus/pci/drivers/vfio-pci");
    put_link("0000:3c:00.0", "driver", "../../../../bus/pci/drivers/nvgrace_gpu_vfio_pci");
    host_facts_read(root, &f);
    cr_expect(host_has_no_cards(&f));
    cr_expect_eq(host_cards_given(&f), 2);
}

Test(host_facts, a_virtual_gpu_tells_the_drivers_of_its_hypervisor)
{
    struct host_facts f;
    const struct config c = vgpu_config();
    put_device("0000:3b:00.0", "0x030000\n", "0x10de\n");
    put("bus/pci/devices/0000:3b:00.0", "config", c.bytes, sizeof(c.bytes));
    host_facts_read(root, &f);
    cr_expect(f.vgpu && f.vgpu_known);
    cr_expect_str_eq(f.vgpu_driver, "460.16");
    cr_expect_str_eq(f.vgpu_branch, "r460_00");
}

Test(host_facts, a_gpu_is_not_virtual_only_where_all_of_it_is_shown)
{
    static const uint8_t plain[256] = {0};
    struct host_facts f;
    host_facts_read(root, &f);
    cr_expect(!f.vgpu_known, "no GPU of NVIDIA's");
    put_device("0000:3b:00.0", "0x030200\n", "0x10de\n");
    host_facts_read(root, &f);
    cr_expect(!f.vgpu_known, "no configuration space");
    put("bus/pci/devices/0000:3b:00.0", "config", plain, 64);
    host_facts_read(root, &f);
    cr_expect(!f.vgpu_known, "the part that everybody may read");
    put("bus/pci/devices/0000:3b:00.0", "config", plain, sizeof(plain));
    host_facts_read(root, &f);
    cr_expect(f.vgpu_known && !f.vgpu);
    put_device("0000:3c:00.0", "0x030200\n", "0x10de\n");
    host_facts_read(root, &f);
    cr_expect(!f.vgpu_known, "one of two");
}

Test(host_facts, what_is_not_the_signature_is_no_virtual_gpu)
{
    struct host_facts f = {0};
    struct config c = vgpu_config();
    c.bytes[0xd3] = 'X';
    cr_expect(!host_vgpu_parse(c.bytes, sizeof(c.bytes), &f));
    c = vgpu_config();
    c.bytes[0x06] = 0;
    cr_expect(!host_vgpu_parse(c.bytes, sizeof(c.bytes), &f));
    c = vgpu_config();
    cr_expect(!host_vgpu_parse(c.bytes, 64, &f), "the part that everybody may read");
}

Test(host_facts, a_chain_that_loops_ends)
{
    struct host_facts f = {0};
    struct config c = vgpu_config();
    c.bytes[0xd0] = 0x01;
    c.bytes[0xd1] = 0xd0;
    cr_expect(!host_vgpu_parse(c.bytes, sizeof(c.bytes), &f));
}

Test(host_facts, no_byte_of_a_configuration_leads_out_of_it)
{
    const struct config good = vgpu_config();
    for (size_t at = 0; at < sizeof(good.bytes); at++)
        for (unsigned value = 0; value < 256; value += 5) {
            struct host_facts f = {0};
            /* On the heap, so that a read past the end is seen. */
            auto_free uint8_t *bytes = xmemdup(good.bytes, sizeof(good.bytes));
            bytes[at] = (uint8_t)value;
            (void)host_vgpu_parse(bytes, sizeof(good.bytes), &f);
            cr_assert_lt(strlen(f.vgpu_driver), sizeof(f.vgpu_driver));
        }
}
