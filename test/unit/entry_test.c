/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>

#include "base/sb.h"
#include "base/xalloc.h"

#include "nodeagent/cdi/entry_build.h"
#include "nodeagent/container/container_vendor.h"
#include "nodeagent/container/entry.h"
#include "nodeagent/vendor/metax/container_metax.h"
#include "nodeagent/vendor/nvidia/container_nvidia.h"
#include "nodeagent/vendor/nvidia/nvidia_nodes.h"

/*
 * Each case: what is granted, in which ways, and the answer as text; one line for each thing that
 * the runtime is told. The rules are NVIDIA's (k8s-device-plugin internal/plugin/server.go).
 */

static char card0_name[] = "GPU-0", card0_uuid[] = "GPU-0", card1_name[] = "GPU-1";
static char slice_name[] = "GPU-1-1g.10gb.me-0", slice_uuid[] = "MIG-a", card1_uuid[] = "GPU-1";
static char next_name[] = "GPU-1-1g.10gb-1", next_uuid[] = "MIG-b";

static const struct entry_device card0 = {.vendor = "nvidia",
                                          .cdi_name = card0_name,
                                          .uuid = card0_uuid,
                                          .card_uuid = card0_uuid,
                                          .index = 0,
                                          .minor = 2};
static const struct entry_device card1 = {.vendor = "nvidia",
                                          .cdi_name = card1_name,
                                          .uuid = card1_uuid,
                                          .card_uuid = card1_uuid,
                                          .index = 1,
                                          .minor = 1};
static const struct entry_device slice = {.vendor = "nvidia",
                                          .cdi_name = slice_name,
                                          .uuid = slice_uuid,
                                          .card_uuid = card1_uuid,
                                          .index = 1,
                                          .minor = 1,
                                          .mig = true,
                                          .gi_id = 7,
                                          .ci_id = 0,
                                          .mig_index = 3};
static const struct entry_device next_slice = {.vendor = "nvidia",
                                               .cdi_name = next_name,
                                               .uuid = next_uuid,
                                               .card_uuid = card1_uuid,
                                               .index = 1,
                                               .minor = 1,
                                               .mig = true,
                                               .gi_id = 8,
                                               .ci_id = 1,
                                               .mig_index = 4};

static struct nvidia_nodes_cap caps[] = {{1, 7, -1, 201},
                                         {1, 7, 0, 202},
                                         {1, 8, -1, 210},
                                         {1, 8, 1, 212}};
static char no_root[] = "", driver_root[] = "/run/nvidia/driver";
static struct nvidia_nodes own = {.ctl = true,
                                  .uvm = true,
                                  .uvm_tools = true,
                                  .caps = caps,
                                  .n_caps = ARRAY_LEN(caps),
                                  .host_dev_root = no_root};
static const struct device_nodes nodes = {.own = {{&container_nvidia, &own}}};

static char *render(const struct entry *en)
{
    auto_sb struct sb out = SB_INIT(65536);
    for (size_t i = 0; i < en->n_cdi_names; i++)
        sb_addf(&out, "cdi %s\n", en->cdi_names[i]);
    for (size_t i = 0; i < en->n_annotations; i++)
        sb_addf(&out, "note %s: %s\n", en->annotations[i].key, en->annotations[i].value);
    for (size_t i = 0; i < en->n_envs; i++)
        sb_addf(&out, "env %s=%s\n", en->envs[i].key, en->envs[i].value);
    for (size_t i = 0; i < en->n_mounts; i++)
        sb_addf(&out, "mount %s from %s%s\n", en->mounts[i].container_path, en->mounts[i].host_path,
                en->mounts[i].read_only ? " ro" : "");
    for (size_t i = 0; i < en->n_nodes; i++)
        sb_addf(&out, "node %s from %s %s\n", en->nodes[i].container_path, en->nodes[i].host_path,
                en->nodes[i].permissions);
    return sb_take(&out);
}

static void expect(const struct entry_options *o, const struct device_nodes *dn,
                   const struct entry_device *const *devices, size_t n, const char *answer)
{
    auto_entry struct entry en = {0};
    auto_err struct err e = {0};
    cr_assert_eq(entry_build(o, dn, devices, n, &en, &e), 0, "%s", err_msg(&e));
    auto_free char *text = render(&en);
    cr_expect_str_eq(text, answer);
}

Test(entry, cdi_cri_names_each_device)
{
    const struct entry_options o = {.ways = ENTRY_CDI_CRI};
    const struct entry_device *granted[] = {&card0, &slice};
    expect(&o, /* dn= */ NULL, granted, 2,
           "cdi gpu.cleave.dev/nvidia=GPU-0\n"
           "cdi gpu.cleave.dev/nvidia=GPU-1-1g.10gb.me-0\n");
}

/* The kubelet repeats the answer when the slice has other files, and these are another slice's. */
Test(entry, where_the_runtime_does_cdi_no_device_file_is_listed)
{
    static const struct entry_options sure[] = {
        {.ways = ENTRY_CDI_CRI},
        {.ways = ENTRY_CDI_ANNOTATIONS},
        {.ways = ENTRY_CDI_ANNOTATIONS, .annotation_prefix = "cdi.k8s.io/"},
        {.ways = ENTRY_ALL_CDI, .annotation_prefix = "x.io/", .pass_device_nodes = true},
    };
    const struct entry_device *granted[] = {&slice, &card0};
    for (size_t i = 0; i < ARRAY_LEN(sure); i++) {
        auto_entry struct entry en = {0};
        auto_err struct err e = {0};
        cr_assert_eq(entry_build(&sure[i], &nodes, granted, 2, &en, &e), 0, "%s", err_msg(&e));
        cr_expect_gt(en.n_cdi_names + en.n_annotations, 0);
        cr_expect_eq(en.n_nodes + en.n_envs + en.n_mounts, 0, "case %zu", i);
    }
}

Test(entry, annotations_of_another_prefix_are_for_a_runtime_that_may_not_do_cdi)
{
    const struct entry_options o = {.ways = ENTRY_CDI_ANNOTATIONS, .annotation_prefix = "x.io/"};
    const struct entry_device *granted[] = {&slice};
    auto_entry struct entry en = {0};
    cr_assert_eq(entry_build(&o, &nodes, granted, 1, &en, NULL), 0);
    cr_expect_eq(en.n_nodes, 6);
    cr_expect_eq(en.n_envs, 1);
}

Test(entry, where_cdi_is_in_doubt_the_device_files_are_listed_and_nvidias_runtime_is_told)
{
    const struct entry_options o = {.ways = ENTRY_CDI_CRI, .cdi_in_doubt = true};
    const struct entry_device *granted[] = {&slice};
    expect(&o, &nodes, granted, 1,
           "cdi gpu.cleave.dev/nvidia=GPU-1-1g.10gb.me-0\n"
           "env NVIDIA_VISIBLE_DEVICES=MIG-a\n"
           "node /dev/nvidiactl from /dev/nvidiactl rw\n"
           "node /dev/nvidia-uvm from /dev/nvidia-uvm rw\n"
           "node /dev/nvidia-uvm-tools from /dev/nvidia-uvm-tools rw\n"
           "node /dev/nvidia1 from /dev/nvidia1 rw\n"
           "node /dev/nvidia-caps/nvidia-cap201 from /dev/nvidia-caps/nvidia-cap201 rw\n"
           "node /dev/nvidia-caps/nvidia-cap202 from /dev/nvidia-caps/nvidia-cap202 rw\n");
}

Test(entry, a_mark_names_each_device_and_slot_to_cleave_runtime)
{
    static char slot_name[] = "slot.3";
    const struct entry_device slot = {.vendor = "metax", .cdi_name = slot_name, .is_slot = true};
    const struct entry_options o = {.ways = ENTRY_CDI_CRI, .by_mark = true};
    const struct entry_device *granted[] = {&card0, &slice, &card0};
    const struct entry_device *slots[] = {&slot};
    expect(&o, /* dn= */ NULL, granted, 3,
           "cdi gpu.cleave.dev/nvidia=GPU-0\n"
           "cdi gpu.cleave.dev/nvidia=GPU-1-1g.10gb.me-0\n"
           "mount /run/cleave/devices/nvidia/GPU-0 from /run/cleave/granted ro\n"
           "mount /run/cleave/devices/nvidia/GPU-1-1g.10gb.me-0 from /run/cleave/granted ro\n");
    expect(&o, /* dn= */ NULL, slots, 1,
           "cdi gpu.cleave.dev/metax=slot.3\n"
           "mount /run/cleave/devices/metax/slot.3 from /run/cleave/granted ro\n");
}

Test(entry, where_nobody_brings_the_drivers_files_the_answer_mounts_them)
{
    static char real[] = "/h/libcuda.so.570", place[] = "/usr/lib64/libcuda.so.570";
    static char name[] = "/usr/lib64/libcuda.so.1", target[] = "libcuda.so.570";
    static struct driver_file file = {DRIVER_LIBRARY, real, place};
    static struct driver_link link = {name, target, real};
    const struct driver_files files = {.files = &file, .n_files = 1, .links = &link, .n_links = 1};
    const struct entry_options o = {.ways = ENTRY_CDI_CRI, .mounted = &files};
    const struct entry_device *granted[] = {&card0};
    expect(&o, /* dn= */ NULL, granted, 1,
           "cdi gpu.cleave.dev/nvidia=GPU-0\n"
           "mount /usr/lib64/libcuda.so.570 from /h/libcuda.so.570 ro\n"
           "mount /usr/lib64/libcuda.so.1 from /h/libcuda.so.570 ro\n"
           "mount /usr/local/nvidia/lib64/libcuda.so.570 from /h/libcuda.so.570 ro\n"
           "mount /usr/local/nvidia/lib64/libcuda.so.1 from /h/libcuda.so.570 ro\n");
}

Test(entry, replicas_of_a_device_are_one_device)
{
    const struct entry_options o = {.ways = ENTRY_CDI_CRI | ENTRY_ENVVAR};
    const struct entry_device *granted[] = {&card0, &card0, &card1, &card0};
    expect(&o, /* dn= */ NULL, granted, 4,
           "cdi gpu.cleave.dev/nvidia=GPU-0\n"
           "cdi gpu.cleave.dev/nvidia=GPU-1\n"
           "env NVIDIA_VISIBLE_DEVICES=GPU-0,GPU-1\n");
}

Test(entry, cdi_annotations_name_them_under_one_key)
{
    const struct entry_options o = {.ways = ENTRY_CDI_ANNOTATIONS};
    const struct entry_device *granted[] = {&card0, &slice};
    expect(&o, /* dn= */ NULL, granted, 2,
           "note cdi.k8s.io/nvidia-device-plugin_5958e90652cebd5c: "
           "gpu.cleave.dev/nvidia=GPU-0,gpu.cleave.dev/nvidia=GPU-1-1g.10gb.me-0\n");
}

Test(entry, annotation_keys_of_two_grants_differ)
{
    const struct entry_options o = {.ways = ENTRY_CDI_ANNOTATIONS, .annotation_prefix = "x.io/"};
    const struct entry_device *first[] = {&card0};
    const struct entry_device *second[] = {&slice};
    auto_entry struct entry a = {0};
    auto_entry struct entry b = {0};
    cr_assert_eq(entry_build(&o, &nodes, first, 1, &a, /* e= */ NULL), 0);
    cr_assert_eq(entry_build(&o, &nodes, second, 1, &b, /* e= */ NULL), 0);
    cr_expect_str_neq(a.annotations[0].key, b.annotations[0].key);
    cr_expect_eq(strncmp(a.annotations[0].key, "x.io/nvidia-device-plugin_", 26), 0);
    cr_expect_leq(strlen(a.annotations[0].key) - strlen("x.io/"), 63);
}

Test(entry, envvar_lists_uuids)
{
    const struct entry_options o = {.ways = ENTRY_ENVVAR};
    const struct entry_device *granted[] = {&slice, &card0};
    expect(&o, /* dn= */ NULL, granted, 2, "env NVIDIA_VISIBLE_DEVICES=MIG-a,GPU-0\n");
}

Test(entry, envvar_lists_indices_where_asked)
{
    const struct entry_options o = {.ways = ENTRY_ENVVAR, .by_index = true};
    const struct entry_device *granted[] = {&slice, &card0};
    expect(&o, /* dn= */ NULL, granted, 2, "env NVIDIA_VISIBLE_DEVICES=1:3,0\n");
}

Test(entry, partition_without_an_index_goes_by_its_uuid)
{
    const struct entry_options o = {.ways = ENTRY_ENVVAR, .by_index = true};
    struct entry_device untold = slice;
    untold.mig_index = -1;
    const struct entry_device *granted[] = {&untold, &card0};
    expect(&o, /* dn= */ NULL, granted, 2, "env NVIDIA_VISIBLE_DEVICES=MIG-a,0\n");
}

Test(entry, volume_mounts_are_the_list)
{
    const struct entry_options o = {.ways = ENTRY_VOLUME_MOUNTS};
    const struct entry_device *granted[] = {&slice, &card0};
    expect(&o, /* dn= */ NULL, granted, 2,
           "env NVIDIA_VISIBLE_DEVICES=/var/run/nvidia-container-devices\n"
           "mount /var/run/nvidia-container-devices/MIG-a from /dev/null\n"
           "mount /var/run/nvidia-container-devices/GPU-0 from /dev/null\n");
}

Test(entry, volume_mounts_have_the_variable_when_envvar_is_asked_too)
{
    const struct entry_options o = {.ways = ENTRY_VOLUME_MOUNTS | ENTRY_ENVVAR};
    const struct entry_device *granted[] = {&card0};
    expect(&o, /* dn= */ NULL, granted, 1,
           "env NVIDIA_VISIBLE_DEVICES=/var/run/nvidia-container-devices\n"
           "mount /var/run/nvidia-container-devices/GPU-0 from /dev/null\n");
}

Test(entry, device_nodes_are_the_common_the_cards_and_the_slices)
{
    const struct entry_options o = {.ways = ENTRY_ENVVAR, .pass_device_nodes = true};
    const struct entry_device *granted[] = {&slice, &next_slice, &card0};
    expect(&o, &nodes, granted, 3,
           "env NVIDIA_VISIBLE_DEVICES=MIG-a,MIG-b,GPU-0\n"
           "node /dev/nvidiactl from /dev/nvidiactl rw\n"
           "node /dev/nvidia-uvm from /dev/nvidia-uvm rw\n"
           "node /dev/nvidia-uvm-tools from /dev/nvidia-uvm-tools rw\n"
           "node /dev/nvidia1 from /dev/nvidia1 rw\n"
           "node /dev/nvidia-caps/nvidia-cap201 from /dev/nvidia-caps/nvidia-cap201 rw\n"
           "node /dev/nvidia-caps/nvidia-cap202 from /dev/nvidia-caps/nvidia-cap202 rw\n"
           "node /dev/nvidia-caps/nvidia-cap210 from /dev/nvidia-caps/nvidia-cap210 rw\n"
           "node /dev/nvidia-caps/nvidia-cap212 from /dev/nvidia-caps/nvidia-cap212 rw\n"
           "node /dev/nvidia2 from /dev/nvidia2 rw\n");
}

Test(entry, device_nodes_come_from_the_dev_root)
{
    const struct entry_options o = {.ways = ENTRY_ENVVAR, .pass_device_nodes = true};
    struct nvidia_nodes moved = {.ctl = true, .modeset = true, .host_dev_root = driver_root};
    const struct device_nodes below = {.own = {{&container_nvidia, &moved}}};
    const struct entry_device *granted[] = {&card0};
    expect(&o, &below, granted, 1,
           "env NVIDIA_VISIBLE_DEVICES=GPU-0\n"
           "node /dev/nvidiactl from /run/nvidia/driver/dev/nvidiactl rw\n"
           "node /dev/nvidia-modeset from /run/nvidia/driver/dev/nvidia-modeset rw\n"
           "node /dev/nvidia2 from /run/nvidia/driver/dev/nvidia2 rw\n");
}

Test(entry, with_cdi_alone_the_spec_says_the_rest)
{
    const struct entry_options o = {.ways = ENTRY_CDI_CRI, .pass_device_nodes = true, .gds = true};
    const struct entry_device *granted[] = {&card0};
    expect(&o, &nodes, granted, 1, "cdi gpu.cleave.dev/nvidia=GPU-0\n");
}

Test(entry, features_are_variables_for_nvidias_runtime)
{
    const struct entry_options o = {.ways = ENTRY_ENVVAR,
                                    .gds = true,
                                    .mofed = true,
                                    .gdrcopy = true};
    const struct entry_device *granted[] = {&card0};
    expect(&o, /* dn= */ NULL, granted, 1,
           "env NVIDIA_VISIBLE_DEVICES=GPU-0\n"
           "env NVIDIA_GDRCOPY=enabled\n"
           "env NVIDIA_GDS=enabled\n"
           "env NVIDIA_MOFED=enabled\n");
}

Test(entry, slice_without_known_capabilities_is_refused)
{
    const struct entry_options o = {.ways = ENTRY_ENVVAR, .pass_device_nodes = true};
    struct nvidia_nodes no_caps = {.ctl = true, .host_dev_root = no_root};
    const struct device_nodes bare = {.own = {{&container_nvidia, &no_caps}}};
    const struct entry_device *granted[] = {&slice};
    struct entry en = {0};
    auto_err struct err e = {0};
    cr_assert_eq(entry_build(&o, &bare, granted, 1, &en, &e), -ERR_NOT_FOUND);
    cr_expect_null(en.envs, "the answer is untouched");
    cr_expect_not_null(strstr(err_msg(&e), "GPU instance 7, compute instance 0 on card GPU-1"));
}

Test(entry, card_without_its_device_file_is_refused)
{
    const struct entry_options o = {.ways = ENTRY_ENVVAR, .pass_device_nodes = true};
    struct nvidia_nodes no_cards = {.nvidia_major = 195, .ctl = true, .host_dev_root = no_root};
    const struct device_nodes bare = {.own = {{&container_nvidia, &no_cards}}};
    const struct entry_device *granted[] = {&card0};
    struct entry en = {0};
    auto_err struct err e = {0};
    cr_assert_eq(entry_build(&o, &bare, granted, 1, &en, &e), -ERR_NOT_FOUND);
    cr_expect_not_null(strstr(err_msg(&e), "there is no device file /dev/nvidia2"), "%s",
                       err_msg(&e));
}

Test(entry, device_files_that_are_not_read_yet_are_an_error)
{
    const struct entry_options o = {.ways = ENTRY_ENVVAR, .pass_device_nodes = true};
    const struct entry_device *granted[] = {&card0};
    struct entry en = {0};
    cr_expect_eq(entry_build(&o, /* nodes= */ NULL, granted, 1, &en, NULL), -ERR_UNAVAILABLE);
}

Test(entry, environment_is_replaced_by_key)
{
    auto_entry struct entry en = {0};
    entry_add_env(&en, "A", "1");
    entry_add_env(&en, "B", "2");
    entry_add_env(&en, "A", "3");
    auto_free char *text = render(&en);
    cr_expect_str_eq(text, "env A=3\nenv B=2\n");
}

Test(entry, names_say_the_slice_and_nothing_that_changes)
{
    auto_free char *whole = entry_cdi_name("GPU-0", /* profile= */ NULL, 0, -1);
    auto_free char *plain = entry_cdi_name("GPU-0", "1g.10gb", 3, -1);
    auto_free char *with_media = entry_cdi_name("GPU-0", "1g.10gb+me", 0, -1);
    auto_free char *compute = entry_cdi_name("GPU-0", "1c.3g.40gb", 4, 2);
    cr_expect_str_eq(whole, "GPU-0");
    cr_expect_str_eq(plain, "GPU-0-1g.10gb-3");
    cr_expect_str_eq(with_media, "GPU-0-1g.10gb.me-0");
    cr_expect_str_eq(compute, "GPU-0-1c.3g.40gb-4-2");
}

/* --- MetaX --- */

static char mx0_name[] = "GPU-m0", mx0_bus[] = "0000:05:00.0", mx1_name[] = "GPU-m1",
            mx1_bus[] = "0000:06:00.0";
static char train_name[] = "GPU-m0-slice-train", serve_name[] = "GPU-m1-slice-serve",
            slot_name[] = "slot.3";

static const struct entry_device mx0 = {.vendor = "metax",
                                        .cdi_name = mx0_name,
                                        .pci_bus_id = mx0_bus};
static const struct entry_device mx1 = {.vendor = "metax",
                                        .cdi_name = mx1_name,
                                        .pci_bus_id = mx1_bus};
static const struct entry_device train = {.vendor = "metax",
                                          .cdi_name = train_name,
                                          .pci_bus_id = mx0_bus,
                                          .has_slice = true,
                                          .slice = {.id = 0,
                                                    .minor = 16,
                                                    .memory_mib = 16384,
                                                    .compute_percent = 50,
                                                    .alias = "cleave-train"}};
static const struct entry_device serve = {.vendor = "metax",
                                          .cdi_name = serve_name,
                                          .pci_bus_id = mx1_bus,
                                          .has_slice = true,
                                          .slice = {.id = 1,
                                                    .minor = 17,
                                                    .memory_mib = 1024,
                                                    .compute_percent = 10,
                                                    .alias = "cleave-serve"}};
static const struct entry_device slot = {.vendor = "metax",
                                         .cdi_name = slot_name,
                                         .pci_bus_id = mx0_bus,
                                         .is_slot = true};

static struct dri_card mx_cards[] =
    {{.bus_id = "0000:05:00.0", .cards = {1}, .n_cards = 1, .renders = {128}, .n_renders = 1},
     {.bus_id = "0000:06:00.0", .cards = {2}, .n_cards = 1, .renders = {129}, .n_renders = 1}};
static struct metax_files mx_own = {.mxcd = true, .mxgd = true};
static const struct device_nodes mx_nodes = {.own = {{&container_metax, &mx_own}},
                                             .dri = {.cards = mx_cards,
                                                     .n_cards = 2,
                                                     .host_dev_root = no_root}};

Test(entry, cdi_names_of_metax_are_of_its_kind)
{
    const struct entry_options o = {.ways = ENTRY_CDI_CRI | ENTRY_CDI_ANNOTATIONS};
    const struct entry_device *granted[] = {&mx0, &mx1, &mx0};
    expect(&o, /* dn= */ NULL, granted, 3,
           "cdi gpu.cleave.dev/metax=GPU-m0\n"
           "cdi gpu.cleave.dev/metax=GPU-m1\n"
           "note cdi.k8s.io/metax-device-plugin_4bdc9d71208a03c8: "
           "gpu.cleave.dev/metax=GPU-m0,gpu.cleave.dev/metax=GPU-m1\n");
}

/* No runtime of MetaX's is known that would make them of a variable. */
Test(entry, without_cdi_cards_of_metax_are_their_device_files)
{
    const struct entry_options o = {.ways = ENTRY_ENVVAR, .gds = true};
    const struct entry_device *granted[] = {&mx0, &mx1};
    expect(&o, &mx_nodes, granted, 2,
           "node /dev/mxcd from /dev/mxcd rw\n"
           "node /dev/mxgd from /dev/mxgd rw\n"
           "node /dev/dri/card1 from /dev/dri/card1 rw\n"
           "node /dev/dri/renderD128 from /dev/dri/renderD128 rw\n"
           "node /dev/dri/card2 from /dev/dri/card2 rw\n"
           "node /dev/dri/renderD129 from /dev/dri/renderD129 rw\n");
}

Test(entry, without_cdi_slices_of_metax_are_in_one_variable)
{
    const struct entry_options o = {.ways = ENTRY_VOLUME_MOUNTS};
    const struct entry_device *granted[] = {&train, &serve, &train};
    expect(&o, &mx_nodes, granted, 3,
           "env METAX_SGPUS=sgpu=0000:05:00.0#0;compute=50;vram=16384;alias=cleave-train,"
           "sgpu=0000:06:00.0#1;compute=10;vram=1024;alias=cleave-serve\n"
           "node /dev/mxcd from /dev/mxcd rw\n"
           "node /dev/mxgd from /dev/mxgd rw\n"
           "node /dev/dri/card1 from /dev/dri/card1 rw\n"
           "node /dev/dri/renderD128 from /dev/dri/renderD128 rw\n"
           "node /dev/dri/card2 from /dev/dri/card2 rw\n"
           "node /dev/dri/renderD129 from /dev/dri/renderD129 rw\n");
}

static int build(unsigned ways, const struct entry_device *const *granted, size_t n, struct err *e)
{
    const struct entry_options o = {.ways = ways};
    auto_entry struct entry en = {0};
    return entry_build(&o, &mx_nodes, granted, n, &en, e);
}

Test(entry, several_slices_that_stand_cannot_be_told_by_cdi)
{
    const struct entry_device *one[] = {&train, &train};
    const struct entry_device *two[] = {&train, &serve};
    auto_err struct err e = {0};
    cr_expect_eq(build(ENTRY_CDI_CRI, one, 2, NULL), 0);
    cr_expect_eq(build(ENTRY_CDI_CRI, two, 2, &e), -ERR_INVALID);
    cr_expect_not_null(strstr(err_msg(&e), "one declared slice, not 2"));
}

Test(entry, slots_are_names_and_nothing_more)
{
    const struct entry_options o = {.ways = ENTRY_CDI_CRI | ENTRY_ENVVAR};
    const struct entry_device *granted[] = {&slot};
    expect(&o, /* dn= */ NULL, granted, 1, "cdi gpu.cleave.dev/metax=slot.3\n");
}

/* It would get the whole card's files and no limit. */
Test(entry, slot_without_cdi_is_refused)
{
    const struct entry_device *granted[] = {&slot};
    auto_err struct err e = {0};
    cr_expect_eq(build(ENTRY_ENVVAR, granted, 1, &e), -ERR_INVALID);
    cr_expect_not_null(strstr(err_msg(&e), slot_name));
}

Test(entry, devices_of_two_vendors_are_not_for_one_answer)
{
    const struct entry_device *granted[] = {&mx0, &card0};
    auto_err struct err e = {0};
    cr_expect_eq(build(ENTRY_CDI_CRI, granted, 2, &e), -ERR_INVALID);
    cr_expect_not_null(strstr(err_msg(&e), "GPU-m0 and GPU-0"));
}

Test(entry, device_of_a_vendor_that_is_not_known_is_refused)
{
    const struct entry_device strange = {.vendor = "amd", .cdi_name = card0_name};
    const struct entry_device *granted[] = {&strange};
    cr_expect_eq(build(ENTRY_CDI_CRI, granted, 1, NULL), -ERR_INVALID);
}

Test(entry, name_of_a_slice_that_stands_is_its_card_and_alias)
{
    auto_free char *name = entry_cdi_slice_name("GPU-m0", "train-0");
    cr_expect_str_eq(name, "GPU-m0-slice-train-0");
}

Test(entry, name_of_a_virtual_function_is_its_card_and_number)
{
    auto_free char *name = entry_cdi_vf_name("GPU-m0", 2);
    cr_expect_str_eq(name, "GPU-m0-vf-2");
}
