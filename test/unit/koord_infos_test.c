/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/file.h"
#include "base/xalloc.h"

#include "golden_support.h"
#include "nodeagent/report/koord_infos.h"
#include "service/conditions.h"

static char dir[64];
static struct device_status st;
static struct koord_infos *infos;

static struct device_card *add_card(const char *uuid)
{
    struct device_card *c = XPUSH(st.devices, st.n_devices);
    *c = (struct device_card){.uuid = xstrdup(uuid),
                              .index = (int64_t)st.n_devices - 1,
                              .vendor = xstrdup("metax"),
                              .model = xstrdup("MXC500"),
                              .pci_bus_id = xstrdup("0000:38:00.0"),
                              .pcie_root = xstrdup("pci0000:3a"),
                              .numa_node = 3,
                              .memory_mib = 65536,
                              .mode = API_MODE_SGPU,
                              .healthy = true};
    return c;
}

static void setup(void)
{
    (void)snprintf(dir, sizeof(dir), "/tmp/koord_infos_test.XXXXXX");
    cr_assert_not_null(mkdtemp(dir));
    infos = koord_infos_new(dir);
    (void)add_card("89033010-2354-0000-0000-000000000000");
    (void)add_card("89033010-2354-0000-0000-000000000001");
}

static void teardown(void)
{
    auto_free char *words = xasprintf("rm -r '%s'", dir);
    infos = koord_infos_free(infos);
    device_status_done(&st);
    cr_assert_eq(system(words), 0);
}

TestSuite(koord_infos, .init = setup, .fini = teardown);

static void keep(void)
{
    auto_err struct err e = {0};
    cr_assert_eq(koord_infos_keep(infos, &st, /* spec= */ NULL, &e), 0, "%s", err_msg(&e));
}

static char *path_of(const char *name)
{
    return xasprintf("%s/%s", dir, name);
}

/* NULL: there is none. Caller frees. */
static char *standing(void)
{
    auto_free char *path = path_of(KOORD_INFOS_FILE);
    char *text = NULL;
    return file_read(path, 65536, &text, NULL, NULL) < 0 ? NULL : text;
}

static void link_both(void)
{
    *XPUSH(st.devices[0].linked_with, st.devices[0].n_linked_with) = 1;
    *XPUSH(st.devices[1].linked_with, st.devices[1].n_linked_with) = 0;
}

Test(koord_infos, koordlet_is_told_of_every_card_in_strings)
{
    link_both();
    st.devices[1].healthy = false;
    (void)condition_set(&st.devices[1].conditions, "Healthy", CONDITION_FALSE, "UncorrectableECC",
                        "2 uncorrectable errors", /* generation= */ 1, /* now_ms= */ 1000);
    auto_free char *text = koord_infos_text(&st, /* spec= */ NULL);
    auto_json json_t *list = json_loads(text, 0, NULL);
    char *lines = json_dumps(list, JSON_INDENT(2) | JSON_SORT_KEYS);
    auto_free char *ended = xasprintf("%s\n", lines);
    free(lines);
    golden_check("koordinator/device-infos.json", ended);
}

Test(koord_infos, a_card_that_is_ordered_to_be_something_else_is_not_healthy)
{
    struct device_want want = {.uuid = st.devices[0].uuid, .mode = API_MODE_NATIVE};
    const struct device_spec spec = {.devices = &want, .n_devices = 1};
    auto_free char *text = koord_infos_text(&st, &spec);
    cr_expect(strstr(text, "\"errCode\":\"Withdrawn\""), "%s", text);
}

Test(koord_infos, slices_made_for_pods_leave_a_card_to_koordinator_and_those_of_a_layout_do_not)
{
    struct device_card *c = &st.devices[0];
    struct device_partition *p = XPUSH(c->partitions, c->n_partitions);
    *p = (struct device_partition){.uuid = xstrdup("s"),
                                   .profile = xstrdup("sgpu"),
                                   .has_slice = true,
                                   .slice = {.alias = xstrdup("slot.3")}};
    auto_free char *shared = koord_infos_text(&st, /* spec= */ NULL);
    cr_expect(strstr(shared, c->uuid), "%s", shared);
    p->slice.foreign = true;
    auto_free char *others = koord_infos_text(&st, /* spec= */ NULL);
    cr_expect(strstr(others, c->uuid), "as the controller has it: %s", others);
    p->slice.foreign = false;
    free(p->slice.alias);
    p->slice.alias = xstrdup("small");
    auto_free char *cut = koord_infos_text(&st, /* spec= */ NULL);
    cr_expect_not(strstr(cut, c->uuid), "%s", cut);
}

Test(koord_infos, shares_leave_a_card_as_it_is)
{
    struct device_card *c = &st.devices[0];
    for (size_t i = 0; i < st.n_devices; i++) {
        xstr_set(&st.devices[i].vendor, "nvidia");
        st.devices[i].mode = API_MODE_NATIVE;
    }
    auto_free char *before = koord_infos_text(&st, /* spec= */ NULL);
    *XPUSH(c->partitions, c->n_partitions) =
        (struct device_partition){.uuid = xstrdup("s"),
                                  .profile = xstrdup(DEVICE_SHARE),
                                  .has_slice = true,
                                  .slice = {.alias = xstrdup("share-4")}};
    auto_free char *after = koord_infos_text(&st, /* spec= */ NULL);
    cr_expect(strstr(before, c->uuid), "%s", before);
    cr_expect_str_eq(after, before);
}

Test(koord_infos, the_file_follows_the_cards)
{
    struct stat meta;
    auto_free char *path = path_of(KOORD_INFOS_FILE);
    keep();
    auto_free char *first = standing();
    auto_free char *expected = koord_infos_text(&st, /* spec= */ NULL);
    cr_assert_str_eq(first, expected);
    cr_assert_eq(stat(path, &meta), 0);
    cr_expect_eq(meta.st_mode & 0777, 0644);
    st.devices[1].healthy = false;
    keep();
    auto_free char *second = standing();
    cr_expect(strstr(second, "\"healthy\":false"), "%s", second);
}

Test(koord_infos, what_is_the_same_is_not_written_again)
{
    struct stat before;
    struct stat after;
    auto_free char *path = path_of(KOORD_INFOS_FILE);
    keep();
    cr_assert_eq(stat(path, &before), 0);
    keep();
    cr_assert_eq(stat(path, &after), 0);
    cr_expect_eq(before.st_ino, after.st_ino);
}

Test(koord_infos, the_file_goes_with_the_last_card)
{
    keep();
    for (size_t i = 0; i < st.n_devices; i++)
        st.devices[i].mode = API_MODE_NATIVE;
    keep();
    auto_free char *text = standing();
    cr_expect_null(text);
}

/* One file that it cannot read costs koordlet all of them. */
Test(koord_infos, nothing_else_ever_stands_in_koordlets_folder)
{
    keep();
    DIR *d = opendir(dir);
    size_t files = 0;
    for (const struct dirent *entry; (entry = readdir(d));)
        files += entry->d_type != DT_DIR;
    (void)closedir(d);
    cr_expect_eq(files, 1);
}

Test(koord_infos, what_could_not_be_written_is_tried_again)
{
    auto_err struct err e = {0};
    auto_free char *obstacle = path_of(".cleave");
    cr_assert_eq(file_replace(obstacle, "x", 1, 0600, NULL), 0);
    cr_expect_lt(koord_infos_keep(infos, &st, /* spec= */ NULL, &e), 0);
    cr_assert_eq(unlink(obstacle), 0);
    keep();
    auto_free char *text = standing();
    cr_expect_not_null(text);
}
