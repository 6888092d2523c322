/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <jansson.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/file.h"
#include "base/xalloc.h"

#include "folder_support.h"
#include "nodeagent/cdi/cdi_slot.h"
#include "nodeagent/vendor/metax/container_metax.h"

TestSuite(cdi_slot, .init = folder_enter, .fini = folder_leave);

#define FILE_OF(name) "cdi/" name ".gpu.cleave.dev-metax-slot.json"
#define FIRST         FILE_OF("slot.3")

static char name3[] = "slot.3", name4[] = "slot.4", whole[] = "GPU-0";
static char bus_id[] = "0000:05:00.0", no_root[] = "";
static struct dri_card cards[] = {
    {.bus_id = "0000:05:00.0", .cards = {1}, .n_cards = 1, .renders = {128}, .n_renders = 1}};
static struct metax_files control = {.mxcd = true};
static const struct device_nodes nodes = {.own = {{&container_metax, &control}},
                                          .dri = {.cards = cards,
                                                  .n_cards = 1,
                                                  .host_dev_root = no_root}};

static const struct entry_device slice3 = {.vendor = "metax",
                                           .cdi_name = name3,
                                           .pci_bus_id = bus_id,
                                           .has_slice = true,
                                           .slice = {.id = 2,
                                                     .minor = UINT_MAX,
                                                     .memory_mib = 1024,
                                                     .compute_percent = 10,
                                                     .alias = "cleave-a"}};
static const struct entry_device slice4 = {.vendor = "metax",
                                           .cdi_name = name4,
                                           .pci_bus_id = bus_id,
                                           .has_slice = true,
                                           .slice = {.id = 5,
                                                     .minor = UINT_MAX,
                                                     .memory_mib = 2048,
                                                     .compute_percent = 20,
                                                     .alias = "cleave-b"}};
static const struct entry_device card = {.vendor = "metax",
                                         .cdi_name = name3,
                                         .pci_bus_id = bus_id};

static struct cdi_slots *open_slots(const char *folder)
{
    return cdi_slots_new(&(struct cdi_options){.folder = folder});
}

static char *text_of(const char *path)
{
    char *text = NULL;
    cr_assert_eq(file_read(path, 1 << 20, &text, /* ret_len= */ NULL, NULL), 0, "%s", path);
    return text;
}

static int write_alone(const struct cdi_slots *s, const struct entry_device *d, struct err *e)
{
    return cdi_slots_write(s, &nodes, /* outfit= */ NULL, d, /* together= */ NULL, 0, e);
}

Test(cdi_slot, file_is_a_spec_of_one_device)
{
    auto_cdi_slots struct cdi_slots *s = open_slots("cdi");
    auto_err struct err e = {0};
    cr_assert_eq(write_alone(s, &slice3, &e), 0, "%s", err_msg(&e));
    auto_free char *text = text_of(FIRST);
    cr_expect_str_eq(text,
                     "{\"cdiVersion\":\"0.5.0\",\"kind\":\"gpu.cleave.dev/metax\",\n"
                     "\"containerEdits\":{\"deviceNodes\":["
                     "{\"path\":\"/dev/mxcd\",\"permissions\":\"rw\"}]},\n"
                     "\"devices\":[\n"
                     "{\"name\":\"slot.3\",\"containerEdits\":{\"env\":["
                     "\"METAX_SGPUS=sgpu=0000:05:00.0#2;compute=10;vram=1024;alias=cleave-a\"],"
                     "\"deviceNodes\":[{\"path\":\"/dev/dri/card1\",\"permissions\":\"rw\"},"
                     "{\"path\":\"/dev/dri/renderD128\",\"permissions\":\"rw\"}]}}]}\n");
    auto_json json_t *parsed = json_loads(text, 0, NULL);
    cr_expect_not_null(parsed);
}

Test(cdi_slot, whole_card_in_a_slot_says_nothing_of_slices)
{
    auto_cdi_slots struct cdi_slots *s = open_slots("cdi");
    cr_assert_eq(write_alone(s, &card, NULL), 0);
    auto_free char *text = text_of(FIRST);
    cr_expect_not_null(strstr(text, "\"slot.3\""));
    cr_expect_null(strstr(text, "METAX_SGPUS"));
}

/* Whichever of the two the runtime reads last, the container knows of both. */
Test(cdi_slot, slots_of_one_container_say_the_same_of_all)
{
    auto_cdi_slots struct cdi_slots *s = open_slots("cdi");
    const struct entry_device *const both[] = {&slice3, &slice4};
    const char *said = "METAX_SGPUS=sgpu=0000:05:00.0#2;compute=10;vram=1024;alias=cleave-a,"
                       "sgpu=0000:05:00.0#5;compute=20;vram=2048;alias=cleave-b\"";
    cr_assert_eq(cdi_slots_write(s, &nodes, /* outfit= */ NULL, &slice3, both, 2, NULL), 0);
    cr_assert_eq(cdi_slots_write(s, &nodes, /* outfit= */ NULL, &slice4, both, 2, NULL), 0);
    auto_free char *first = text_of(FIRST);
    auto_free char *second = text_of(FILE_OF("slot.4"));
    cr_expect_not_null(strstr(first, said));
    cr_expect_not_null(strstr(second, said));
    cr_expect_null(strstr(first, "\"slot.4\""));
}

static ino_t inode(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 ? st.st_ino : 0;
}

Test(cdi_slot, nothing_is_written_when_the_file_says_so_already)
{
    auto_cdi_slots struct cdi_slots *s = open_slots("cdi");
    cr_assert_eq(write_alone(s, &slice3, NULL), 0);
    ino_t before = inode(FIRST);
    auto_cdi_slots struct cdi_slots *next = open_slots("cdi");
    cr_assert_eq(write_alone(next, &slice3, NULL), 0);
    cr_expect_eq(inode(FIRST), before);
}

Test(cdi_slot, another_meaning_takes_the_place_of_the_old)
{
    auto_cdi_slots struct cdi_slots *s = open_slots("cdi");
    struct entry_device other = slice3;
    other.slice.id = 7;
    cr_assert_eq(write_alone(s, &slice3, NULL), 0);
    cr_assert_eq(write_alone(s, &other, NULL), 0);
    auto_free char *text = text_of(FIRST);
    cr_expect_not_null(strstr(text, "#7;"));
    cr_expect_null(strstr(text, "#2;"));
}

Test(cdi_slot, removed_slot_means_nothing_and_may_be_removed_again)
{
    auto_cdi_slots struct cdi_slots *s = open_slots("cdi");
    cr_assert_eq(write_alone(s, &slice3, NULL), 0);
    cr_assert_eq(cdi_slots_remove(s, name3, NULL), 0);
    cr_expect_eq(inode(FIRST), 0);
    cr_expect_eq(cdi_slots_remove(s, name3, NULL), 0);
    cr_expect_eq(cdi_slots_remove(s, "../x", NULL), -ERR_INVALID);
}

/* A folder in its place cannot be unlinked, whoever tries. */
Test(cdi_slot, file_that_cannot_be_removed_is_told)
{
    auto_cdi_slots struct cdi_slots *s = open_slots("cdi");
    auto_err struct err e = {0};
    cr_assert_eq(file_make_dirs(FIRST, 0755, NULL), 0);
    cr_expect_eq(cdi_slots_remove(s, name3, &e), -ERR_SYSTEM);
    cr_expect_not_null(strstr(err_msg(&e), "CDI spec of slot.3"));
}

Test(cdi_slot, slots_whose_files_stand_are_listed)
{
    cr_assert_eq(mkdir("cdi", 0755), 0);
    static const char *const others[] = {
        "cdi/gpu.cleave.dev-metax.json",
        "cdi/slot.016.gpu.cleave.dev-metax-slot.json",
        "cdi/.gpu.cleave.dev-metax-slot.json",
        "cdi/slot.1.gpu.cleave.dev-nvidia-slot.json",
        "cdi/slot.1.gpu.cleave.dev-metax-slot.json.0123456789abcdef.tmp",
    };
    for (size_t i = 0; i < ARRAY_LEN(others); i++)
        cr_assert_eq(file_write_atomic(others[i], "{}", 2, 0644, NULL), 0);
    auto_cdi_slots struct cdi_slots *s = open_slots("cdi");
    cr_assert_eq(write_alone(s, &slice4, NULL), 0);
    cr_assert_eq(write_alone(s, &slice3, NULL), 0);
    auto_cdi_slot_names struct cdi_slot_names names = {0};
    cr_assert_eq(cdi_slots_list(s, &names, NULL), 0);
    cr_assert_eq(names.n, 2);
    cr_expect_str_eq(names.items[0], name3);
    cr_expect_str_eq(names.items[1], name4);
    cr_expect_neq(access(others[4], F_OK), 0, "a crash's draft is swept");
    cr_expect_eq(access(others[3], F_OK), 0);
}

Test(cdi_slot, folder_that_is_not_there_has_no_slots_and_is_made)
{
    auto_cdi_slots struct cdi_slots *s = open_slots("cdi/deep");
    auto_cdi_slot_names struct cdi_slot_names names = {0};
    cr_assert_eq(cdi_slots_list(s, &names, NULL), 0);
    cr_expect_eq(names.n, 0);
    cr_expect_eq(write_alone(s, &slice3, NULL), 0);
    cr_expect_eq(cdi_slots_remove(s, name4, NULL), 0);
}

Test(cdi_slot, folder_that_is_none_is_told)
{
    cr_assert_eq(file_write_atomic("cdi", "", 0, 0644, NULL), 0);
    auto_cdi_slots struct cdi_slots *s = open_slots("cdi");
    auto_err struct err e = {0};
    struct cdi_slot_names names = {0};
    cr_expect_eq(write_alone(s, &slice3, &e), -ERR_SYSTEM);
    cr_expect_not_null(strstr(err_msg(&e), "CDI spec of slot.3: create folder cdi"));
    cr_expect_eq(cdi_slots_list(s, &names, NULL), -ERR_SYSTEM);
}

/* As a full disk does, a limit of the process cuts the write short. */
Test(cdi_slot, full_disk_keeps_the_old_meaning)
{
    auto_cdi_slots struct cdi_slots *s = open_slots("cdi");
    cr_assert_eq(write_alone(s, &slice3, NULL), 0);
    auto_free char *old = text_of(FIRST);
    struct entry_device other = slice3;
    other.slice.id = 7;
    struct rlimit limit;
    cr_assert_eq(getrlimit(RLIMIT_FSIZE, &limit), 0);
    const struct rlimit tight = {.rlim_cur = 64, .rlim_max = limit.rlim_max};
    cr_assert_neq(signal(SIGXFSZ, SIG_IGN), SIG_ERR);
    cr_assert_eq(setrlimit(RLIMIT_FSIZE, &tight), 0);
    int rc = write_alone(s, &other, NULL);
    cr_assert_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
    auto_free char *still = text_of(FIRST);
    cr_expect_eq(rc, -ERR_SYSTEM);
    cr_expect_str_eq(still, old);
}

Test(cdi_slot, what_is_not_decided_or_not_of_the_vendor_is_refused)
{
    auto_cdi_slots struct cdi_slots *s = open_slots("cdi");
    struct entry_device undecided = card;
    struct entry_device foreign = card;
    struct entry_device misnamed = card;
    undecided.is_slot = true;
    foreign.vendor = "nvidia";
    misnamed.cdi_name = whole;
    cr_expect_eq(write_alone(s, &undecided, NULL), -ERR_INVALID);
    cr_expect_eq(write_alone(s, &foreign, NULL), -ERR_INVALID);
    cr_expect_eq(write_alone(s, &misnamed, NULL), -ERR_INVALID);
    cr_expect_neq(access("cdi", F_OK), 0, "nothing was written");
}

Test(cdi_slot, card_without_nodes_is_not_told)
{
    auto_cdi_slots struct cdi_slots *s = open_slots("cdi");
    const struct device_nodes none = {0};
    cr_expect_eq(cdi_slots_write(s, &none, /* outfit= */ NULL, &slice3, /* together= */ NULL, 0,
                                 NULL),
                 -ERR_NOT_FOUND);
    cr_expect_eq(inode(FIRST), 0);
}
