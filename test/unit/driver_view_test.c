/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <limits.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/file.h"
#include "base/xalloc.h"

#include "folder_support.h"
#include "nodeagent/cdi/driver_view.h"
#include "nodeagent/vendor/metax/container_metax.h"
#include "nodeagent/vendor/nvidia/container_nvidia.h"
#include "nodeagent/vendor/nvidia/nvidia_nodes.h"

TestSuite(driver_view, .init = folder_enter, .fini = folder_leave);

static void put(const char *path, const char *text)
{
    auto_free char *parent = xstrndup(path, (size_t)(strrchr(path, '/') - path));
    cr_assert_eq(file_make_dirs(parent, 0755, NULL), 0);
    cr_assert_eq(file_write_atomic(path, text, strlen(text), 0644, NULL), 0);
}

static void put_metax(void)
{
    put("dev/mxcd", "");
    put("dev/dri/renderD128", "");
    put("sys/bus/pci/devices/0000:05:00.0/drm/renderD128/dev", "226:128\n");
}

/* As plain files: a minor of NVIDIA's would be seen to be made. */
static void put_nvidia(void)
{
    put("dev/nvidiactl", "");
    put("proc/devices", "Character devices:\n195 nvidia\n");
}

static const struct driver_where here = {.proc_root = "proc",
                                         .sys_root = "sys",
                                         .dev_root = ".",
                                         .host_dev_root = "/run/nvidia/driver",
                                         .driver_root = "."};

static struct gpu_card cards[] = {
    {.vendor = "metax", .uuid = "GPU-m0", .pci_bus_id = "0000:05:00.0", .minor = 7},
    {.vendor = "nvidia", .uuid = "GPU-0", .pci_bus_id = "00000000:06:00.0", .minor = 3},
};
static const struct gpu_inventory metax_alone = {.n_drivers = 1,
                                                 .drivers = {{"metax", "2.32.0", ""}},
                                                 .boot_id = "boot",
                                                 .n_cards = 1,
                                                 .cards = cards};
static const struct gpu_inventory both = {.n_drivers = 2,
                                          .drivers = {{"metax", "2.32.0", ""},
                                                      {"nvidia", "570.86.15", "12.8"}},
                                          .boot_id = "boot",
                                          .n_cards = 2,
                                          .cards = cards};

Test(driver_view, machine_of_metax_alone_lacks_nothing)
{
    put_metax();
    auto_driver_view struct driver_view *v = driver_view_read(&here, &metax_alone);
    const struct dri_card *card = dri_nodes_card(&v->nodes.dri, "0000:05:00.0");
    cr_expect_str_eq(v->trouble, "");
    cr_expect_not(v->has_files, "images bring MetaX's libraries");
    const struct metax_files *own = device_nodes_own(&v->nodes, &container_metax);
    cr_expect(own->mxcd);
    cr_assert(card && card->n_renders == 1);
    cr_expect_eq(card->renders[0], 128);
}

/* NVIDIA's driver may be a container's, with device files of its own. */
Test(driver_view, device_files_of_two_vendors_have_each_their_root)
{
    put_metax();
    put_nvidia();
    auto_driver_view struct driver_view *v = driver_view_read(&here, &both);
    const struct nvidia_nodes *nvidia = device_nodes_own(&v->nodes, &container_nvidia);
    const struct metax_files *metax = device_nodes_own(&v->nodes, &container_metax);
    cr_expect(nvidia->ctl && metax->mxcd);
    cr_expect_eq(v->nodes.dri.n_cards, 1, "NVIDIA's card is none of MetaX's");
    cr_expect_str_eq(nvidia->host_dev_root, "/run/nvidia/driver");
    cr_expect_str_eq(v->nodes.dri.host_dev_root, "");
    cr_expect_not_null(strstr(v->trouble, "no libcuda.so.570.86.15"), "%s", v->trouble);
}

Test(driver_view, view_is_current_until_a_driver_a_boot_or_a_node_changes)
{
    put_metax();
    auto_driver_view struct driver_view *v = driver_view_read(&here, &metax_alone);
    struct gpu_inventory booted = metax_alone;
    (void)snprintf(booted.boot_id, sizeof(booted.boot_id), "another");
    cr_expect(driver_view_is_current(&here, v, &metax_alone));
    cr_expect_not(driver_view_is_current(&here, v, &booted));
    cr_expect_not(driver_view_is_current(&here, v, &both), "NVIDIA's driver came");
    cr_expect_not(driver_view_is_current(&here, NULL, &metax_alone));
    put("dev/mxgd", "");
    cr_expect_not(driver_view_is_current(&here, v, &metax_alone));
}

/* Plain files in the place of NVIDIA's device files are left alone; none is made for MetaX's. */
Test(driver_view, device_files_are_made_for_nvidias_cards_alone)
{
    put_metax();
    put_nvidia();
    put("dev/nvidia3", "");
    auto_driver_view struct driver_view *v = driver_view_read(&here, &both);
    driver_view_make(&here, v, both.cards, both.n_cards);
    cr_expect_neq(access("dev/nvidia7", F_OK), 0);
}

Test(driver_view, nodes_of_functions_that_come_and_go_are_news)
{
    struct gpu_card card = cards[0];
    const struct gpu_inventory whole = {.n_drivers = 1,
                                        .drivers = {{.vendor = "metax"}},
                                        .n_cards = 1,
                                        .cards = &card};
    put_metax();
    put("dev/dri/renderD144", "");
    put("sys/bus/pci/devices/0000:05:00.1/drm/renderD144/dev", "226:144\n");
    auto_driver_view struct driver_view *v = driver_view_read(&here, &whole);
    cr_expect(driver_view_is_current(&here, v, &whole));
    card.n_vfs = 1;
    card.vfs[0] = (struct gpu_vf){.pci_bus_id = "0000:05:00.1"};
    cr_expect_not(driver_view_is_current(&here, v, &whole));
    auto_driver_view struct driver_view *cut = driver_view_read(&here, &whole);
    const struct dri_card *nodes = dri_nodes_card(&cut->nodes.dri, "0000:05:00.1");
    cr_assert(nodes && nodes->n_renders == 1);
    cr_expect_eq(nodes->renders[0], 144);
}
