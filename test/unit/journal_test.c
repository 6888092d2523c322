/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/xalloc.h"

#include "golden_support.h"
#include "nodeagent/change/journal.h"

#define UUID "GPU-5f0c"

static char dir[64];

static void make_dir(void)
{
    /* In memory where there is such a place: hundreds of journals are fsynced. */
    const char *root = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
    (void)snprintf(dir, sizeof(dir), "%s/journal-test-XXXXXX", root);
    cr_assert(mkdtemp(dir));
}

static void remove_dir(void)
{
    auto_free char *command = xasprintf("rm -rf '%s'", dir);
    cr_assert_eq(system(command), 0);
}

TestSuite(journal, .init = make_dir, .fini = remove_dir);

static struct journal sample(void)
{
    struct journal j = {.uuid = UUID,
                        .boot_id = "b1",
                        .phase = JOURNAL_BACK,
                        .step = 3,
                        .note = "create 1g.10gb at 4: \"no\"",
                        .old = {.mode = GPU_MIG, .n = 1},
                        .target = {.mode = GPU_NATIVE},
                        .nameless = {.n = 2, .ids = {0, 200}}};
    j.old.items[0] = (struct card_instance){.profile_id = 9, .start = 4, .size = 4, .n_cis = 2};
    j.old.items[0].ci_slices[0] = 2;
    j.old.items[0].ci_slices[1] = 1;
    j.old.items[0].ci_starts[1] = -1;
    return j;
}

static void put(const char *text)
{
    auto_free char *path = xasprintf("%s/" UUID ".json", dir);
    cr_assert_eq(file_write_atomic(path, text, strlen(text), 0600, NULL), 0);
}

static bool is_there(const char *name)
{
    auto_free char *path = xasprintf("%s/%s", dir, name);
    return access(path, F_OK) == 0;
}

Test(journal, reads_back_what_was_written)
{
    struct journal j = sample();
    struct journal back;
    auto_err struct err e = {0};
    cr_assert_eq(journal_write(dir, &j, &e), 0, "%s", err_msg(&e));
    cr_assert_eq(journal_read(dir, UUID, &back, &e), 0, "%s", err_msg(&e));
    cr_expect_eq(memcmp(&j.old, &back.old, sizeof(j.old)), 0);
    cr_expect_eq(memcmp(&j.target, &back.target, sizeof(j.target)), 0);
    cr_expect_eq(memcmp(&j.nameless, &back.nameless, sizeof(j.nameless)), 0);
    cr_expect_str_eq(back.uuid, j.uuid);
    cr_expect_str_eq(back.boot_id, j.boot_id);
    cr_expect_str_eq(back.note, j.note);
    cr_expect_eq(back.phase, JOURNAL_BACK);
    cr_expect_eq(back.step, 3);
}

Test(journal, none_is_not_found)
{
    struct journal j;
    cr_expect_eq(journal_read(dir, UUID, &j, NULL), -ERR_NOT_FOUND);
    cr_expect_eq(journal_remove(dir, UUID, NULL), 0);
}

Test(journal, removed_is_gone)
{
    struct journal j = sample();
    cr_assert_eq(journal_write(dir, &j, NULL), 0);
    cr_assert_eq(journal_remove(dir, UUID, NULL), 0);
    cr_expect_eq(journal_read(dir, UUID, &j, NULL), -ERR_NOT_FOUND);
}

/* A reading takes any such UUID; without a journal its card could never be changed. */
Test(journal, each_card_that_a_reading_takes_can_have_one_and_no_other_name)
{
    struct journal j = sample();
    auto_err struct err e = {0};
    (void)snprintf(j.uuid, sizeof(j.uuid), "GPU_a.b:c");
    cr_expect_eq(journal_write(dir, &j, &e), 0, "%s", err_msg(&e));
    cr_expect_eq(journal_read(dir, j.uuid, &j, &e), 0, "%s", err_msg(&e));
    (void)snprintf(j.uuid, sizeof(j.uuid), "../GPU-1");
    cr_expect_eq(journal_write(dir, &j, NULL), -ERR_INVALID);
}

Test(journal, makes_its_folder)
{
    struct journal j = sample();
    auto_free char *deep = xasprintf("%s/a/b", dir);
    cr_expect_eq(journal_write(deep, &j, NULL), 0);
    cr_expect_eq(journal_read(deep, UUID, &j, NULL), 0);
}

Test(journal, damaged_one_is_an_error_and_kept_aside)
{
    static const char *const damaged[] = {
        "",
        "{",
        "{\"version\":1}",
        "[1]",
        "{\"version\":0,\"uuid\":\"" UUID "\",\"bootID\":\"b\",\"phase\":\"back\",\"step\":0,"
        "\"old\":{\"mode\":\"mig\"},\"target\":{\"mode\":\"mig\"}}",
        "{\"version\":1,\"uuid\":\"GPU-other\",\"bootID\":\"b\",\"phase\":\"back\",\"step\":0,"
        "\"old\":{\"mode\":\"mig\"},\"target\":{\"mode\":\"mig\"}}",
        "{\"version\":1,\"uuid\":\"" UUID "\",\"bootID\":\"b\",\"phase\":\"back\",\"step\":0,"
        "\"old\":{\"mode\":\"mig\",\"instances\":[{\"profileID\":1,\"start\":99,\"size\":1}]},"
        "\"target\":{\"mode\":\"mig\"}}",
    };
    for (size_t i = 0; i < ARRAY_LEN(damaged); i++) {
        auto_err struct err e = {0};
        auto_free char *aside = xasprintf(UUID ".json.bad-%zu", i + 1);
        struct journal j;
        put(damaged[i]);
        cr_expect_eq(journal_read(dir, UUID, &j, &e), -ERR_PROTOCOL, "%zu", i);
        cr_expect(strstr(err_msg(&e), aside), "%s", err_msg(&e));
        cr_expect(is_there(aside));
        cr_expect_not(is_there(UUID ".json"));
    }
}

/* What is read goes to code that relies on it. */
Test(journal, place_that_no_card_has_is_damage)
{
    struct journal j = sample();
    j.old.items[0].start = MIG_MAX_MEMORY_SLICES;
    cr_assert_eq(journal_write(dir, &j, NULL), 0);
    cr_expect_eq(journal_read(dir, UUID, &j, NULL), -ERR_PROTOCOL);
}

/* Notes quote what other programs say. */
Test(journal, note_in_another_encoding_does_not_cost_the_journal)
{
    struct journal j = sample();
    memset(j.note, 0xFC, sizeof(j.note) - 1);
    auto_err struct err e = {0};
    cr_assert_eq(journal_write(dir, &j, NULL), 0);
    cr_expect_eq(journal_read(dir, UUID, &j, &e), 0, "%s", err_msg(&e));
    cr_expect_eq(j.old.n, 1);
}

Test(journal, lists_the_cards_that_have_one)
{
    struct journal j = sample();
    char **uuids = NULL;
    size_t n = 0;
    cr_assert_eq(journal_write(dir, &j, NULL), 0);
    put("{");
    cr_assert_eq(journal_read(dir, UUID, &j, NULL), -ERR_PROTOCOL);
    j = sample();
    cr_assert_eq(journal_write(dir, &j, NULL), 0);
    cr_assert_eq(journal_list(dir, &uuids, &n, NULL), 0);
    cr_assert_eq(n, 1);
    cr_expect_str_eq(uuids[0], UUID);
    free(uuids[0]);
    free(uuids);
}

Test(journal, list_of_no_folder_is_empty)
{
    char **uuids = NULL;
    size_t n = 1;
    cr_expect_eq(journal_list("/nonexistent/cleave", &uuids, &n, NULL), 0);
    cr_expect_eq(n, 0);
}

Test(journal, uuid_cannot_lead_out_of_the_folder)
{
    struct journal j;
    cr_expect_eq(journal_read(dir, "../x", &j, NULL), -ERR_INVALID);
    cr_expect_eq(journal_read(dir, "", &j, NULL), -ERR_INVALID);
}

Test(journal, lock_excludes_a_second_holder_until_it_is_closed)
{
    int first = -1;
    int second = -1;
    cr_assert_eq(journal_lock(dir, &first, NULL), 0);
    cr_expect_eq(journal_lock(dir, &second, NULL), -ERR_CONFLICT);
    (void)close(first);
    cr_expect_eq(journal_lock(dir, &second, NULL), 0);
    (void)close(second);
}

Test(journal, whoever_takes_the_lock_sweeps_up_and_keeps_journals)
{
    static const char *const names[] = {UUID ".json", UUID ".json.0123456789abcdef.tmp",
                                        UUID ".json.bad-1", "notes.tmp"};
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        auto_free char *path = xasprintf("%s/%s", dir, names[i]);
        cr_assert_eq(file_write_atomic(path, "{}", 2, 0600, NULL), 0);
    }
    auto_fd int lock = -1;
    cr_assert_eq(journal_lock(dir, &lock, NULL), 0);
    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        cr_expect_eq(is_there(names[i]), i != 1, "%s", names[i]);
}

/* --- The release before and the one after --- */

/* A journal for each kind of layout, with every field that has a place in a file. */
static struct journal of_mode(enum gpu_mode mode)
{
    struct journal j = sample();
    if (mode == GPU_MIG)
        return j;
    j.phase = JOURNAL_FORWARD;
    j.note[0] = '\0';
    j.old = (struct card_layout){.mode = GPU_NATIVE};
    j.target = (struct card_layout){.mode = GPU_SGPU,
                                    .sgpu = {.qos = API_FIXED_SHARE,
                                             .timeslice_ms = 20,
                                             .dynamic = true,
                                             .n = 2,
                                             .items = {{"a", {1024, 10}}, {"b", {2048, 0}}}}};
    return j;
}

static const struct {
    const char *name;
    enum gpu_mode mode;
} kept[] = {{"mig", GPU_MIG}, {"slices", GPU_SGPU}};

/* Files are kept for ever under the version that wrote them; today's writer still writes these. */
Test(journal, todays_files_are_those_kept_for_the_next_release)
{
    for (size_t i = 0; i < ARRAY_LEN(kept); i++) {
        const struct journal j = of_mode(kept[i].mode);
        auto_free char *path = xasprintf("%s/" UUID ".json", dir);
        auto_free char *text = NULL;
        auto_free char *golden = xasprintf("journal/%d-%s.json", JOURNAL_VERSION, kept[i].name);
        cr_assert_eq(journal_write(dir, &j, NULL), 0);
        cr_assert_eq(file_read(path, 65536, &text, NULL, NULL), 0);
        golden_check(golden, text);
    }
}

/* Beside today's: as the first release with version 1 wrote them, the version last. */
static const char *const forms[] = {"", "-sorted"};

static void expect_read(int version, const char *name, const char *form,
                        const struct journal *expected)
{
    auto_free char *golden = xasprintf("test/golden/journal/%d-%s%s.json", version, name, form);
    auto_free char *text = NULL;
    auto_err struct err e = {0};
    struct journal j;
    if (*form && version > 1)
        return;
    cr_assert_eq(file_read(golden, 65536, &text, NULL, &e), 0, "%s", err_msg(&e));
    put(text);
    cr_assert_eq(journal_read(dir, UUID, &j, &e), 0, "%s: %s", golden, err_msg(&e));
    cr_expect_eq(j.phase, expected->phase, "%s", golden);
    cr_expect_eq(j.step, expected->step, "%s", golden);
    cr_expect_str_eq(j.note, expected->note, "%s", golden);
    cr_expect_str_eq(j.boot_id, expected->boot_id, "%s", golden);
    cr_expect_eq(memcmp(&j.old, &expected->old, sizeof(j.old)), 0, "%s", golden);
    cr_expect_eq(memcmp(&j.target, &expected->target, sizeof(j.target)), 0, "%s", golden);
    cr_expect_eq(memcmp(&j.nameless, &expected->nameless, sizeof(j.nameless)), 0, "%s", golden);
}

Test(journal, files_of_this_version_and_the_one_before_are_read)
{
    const int before = JOURNAL_VERSION > 1 ? JOURNAL_VERSION - 1 : 1;
    cr_assert_eq(JOURNAL_OLDEST, before);
    for (int version = JOURNAL_OLDEST; version <= JOURNAL_VERSION; version++)
        for (size_t i = 0; i < ARRAY_LEN(kept) * ARRAY_LEN(forms); i++) {
            const struct journal expected = of_mode(kept[i / ARRAY_LEN(forms)].mode);
            expect_read(version, kept[i / ARRAY_LEN(forms)].name, forms[i % ARRAY_LEN(forms)],
                        &expected);
        }
}

/* As a later release may write it, in ways that do not change what is known here. */
Test(journal, unknown_fields_are_passed_over)
{
    struct journal j;
    put("{\"version\":1,\"uuid\":\"" UUID "\",\"bootID\":\"b\",\"phase\":\"back\",\"step\":0,"
        "\"writtenBy\":{\"release\":\"9\"},\"old\":{\"mode\":\"mig\",\"colour\":[1,2],\"instances\":"
        "[{\"profileID\":9,\"start\":0,\"size\":4,\"shape\":\"round\"}]},\"target\":{\"mode\":"
        "\"mig\"}}");
    cr_assert_eq(journal_read(dir, UUID, &j, NULL), 0);
    cr_expect_eq(j.old.n, 1);
}

/* The way back of a change that a newer release began is in its file alone. */
Test(journal, file_of_another_version_stays_and_is_told)
{
    auto_free char *huge = xasprintf("{\"version\":2,\"pad\":\"%0*d\"}", 100000, 0);
    const char *const newer[] = {
        "{\"version\":2,\"uuid\":\"" UUID "\",\"bootID\":\"b\",\"phase\":\"back\",\"step\":0,"
        "\"old\":{\"mode\":\"mig\"},\"target\":{\"mode\":\"mig\"}}",
        "{\"version\":2,\"card\":{}}",
        " {\n  \"version\" : 3 }\n",
        "{\"uuid\":\"" UUID "\",\"version\":2}",
        "{\"version\":2,\"uuid\":\"" UUID "\",\"boo",
        "{\"version\":99999999999999999999999999}",
        huge,
    };
    for (size_t i = 0; i < ARRAY_LEN(newer); i++) {
        auto_err struct err e = {0};
        struct journal j;
        put(newer[i]);
        cr_expect_eq(journal_read(dir, UUID, &j, &e), -ERR_CONFLICT, "%zu: %s", i, err_msg(&e));
        cr_expect(e.reason && strcmp(e.reason, "OtherVersion") == 0);
        cr_expect(strstr(err_msg(&e), "run the release of Cleave that wrote it"), "%s",
                  err_msg(&e));
        cr_expect(is_there(UUID ".json"), "%zu", i);
        cr_expect_not(is_there(UUID ".json.bad-1"), "%zu", i);
    }
}

Test(journal, huge_one_of_our_version_is_damage)
{
    auto_free char *huge = xasprintf("{\"version\":1,\"pad\":\"%0*d\"}", 100000, 0);
    struct journal j;
    put(huge);
    cr_expect_eq(journal_read(dir, UUID, &j, NULL), -ERR_PROTOCOL);
    cr_expect(is_there(UUID ".json.bad-1"));
}
