/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/xalloc.h"

#include "api/device.h"
#include "golden_support.h"
#include "nodeagent/slots/slot_record.h"

#define SLOT 3

static char dir[64];

static void make_dir(void)
{
    const char *root = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
    (void)snprintf(dir, sizeof(dir), "%s/slot-record-test-XXXXXX", root);
    cr_assert(mkdtemp(dir));
}

static void remove_dir(void)
{
    auto_free char *command = xasprintf("rm -rf '%s'", dir);
    cr_assert_eq(system(command), 0);
}

TestSuite(slot_record, .init = make_dir, .fini = remove_dir);

static struct slot_record sample(void)
{
    struct slot_record r = {.slot = SLOT,
                            .card = "GPU-5f0c",
                            .ns = xstrdup("team"),
                            .pod = xstrdup("trainer-0"),
                            .uid = xstrdup("3f2a1b4c-0d5e-4f60-8a71-92b3c4d5e6f7"),
                            .container = xstrdup("main"),
                            .quota = {1024, 10},
                            .nameless = {.n = 2, .ids = {0, 7}}};
    return r;
}

static char *path_of_record(void)
{
    return xasprintf("%s/slots/slot.%d.json", dir, SLOT);
}

static void put(const char *text)
{
    auto_free char *path = path_of_record();
    auto_free char *folder = xasprintf("%s/slots", dir);
    cr_assert_eq(file_make_dirs(folder, 0700, NULL), 0);
    cr_assert_eq(file_write_atomic(path, text, strlen(text), 0600, NULL), 0);
}

/* The file's text. Caller frees. */
static char *stored(void)
{
    auto_free char *path = path_of_record();
    char *text = NULL;
    cr_assert_eq(file_read(path, 1 << 20, &text, NULL, NULL), 0);
    return text;
}

/* Files are kept for ever under the version that wrote them; today's writer still writes this. */
Test(slot_record, todays_file_is_the_one_kept_for_the_next_release)
{
    auto_slot_record struct slot_record r = sample();
    auto_free char *golden = xasprintf("slot_record/%d.json", SLOT_RECORD_VERSION);
    cr_assert_eq(slot_record_write(dir, &r, NULL), 0);
    auto_free char *text = stored();
    golden_check(golden, text);
}

/* form "-sorted": as the first release with version 1 wrote it, the version last. */
static void expect_read(int version, const char *form)
{
    auto_slot_record struct slot_record expected = sample();
    auto_slot_record struct slot_record r = {0};
    auto_err struct err e = {0};
    auto_free char *golden = xasprintf("test/golden/slot_record/%d%s.json", version, form);
    auto_free char *text = NULL;
    cr_assert_eq(file_read(golden, 65536, &text, NULL, &e), 0, "%s", err_msg(&e));
    put(text);
    cr_assert_eq(slot_record_read(dir, SLOT, &r, &e), 0, "%s: %s", golden, err_msg(&e));
    cr_expect_str_eq(r.card, expected.card);
    cr_expect_str_eq(r.ns, expected.ns);
    cr_expect_str_eq(r.pod, expected.pod);
    cr_expect_str_eq(r.uid, expected.uid);
    cr_expect_str_eq(r.container, expected.container);
    cr_expect_eq(memcmp(&r.quota, &expected.quota, sizeof(r.quota)), 0);
    cr_expect_eq(memcmp(&r.nameless, &expected.nameless, sizeof(r.nameless)), 0);
}

Test(slot_record, files_of_this_version_and_the_one_before_are_read)
{
    const int before = SLOT_RECORD_VERSION > 1 ? SLOT_RECORD_VERSION - 1 : 1;
    cr_assert_eq(SLOT_RECORD_OLDEST, before);
    for (int version = SLOT_RECORD_OLDEST; version <= SLOT_RECORD_VERSION; version++) {
        expect_read(version, "");
        if (version == 1)
            expect_read(version, "-sorted");
    }
}

Test(slot_record, what_a_killed_agent_did_not_write_whole_is_removed)
{
    auto_slot_record struct slot_record r = sample();
    auto_free char *path = path_of_record();
    auto_free char *draft = xasprintf("%s.0123456789abcdef.tmp", path);
    slot_records_sweep(dir);
    cr_assert_eq(slot_record_write(dir, &r, NULL), 0);
    cr_assert_eq(file_write_atomic(draft, "", 0, 0600, NULL), 0);
    slot_records_sweep(dir);
    cr_expect_neq(access(draft, F_OK), 0);
    cr_expect_eq(access(path, F_OK), 0);
}

/* An older release passes it over; what an older release wrote has none. */
Test(slot_record, what_a_limited_share_is_held_to_is_kept)
{
    auto_slot_record struct slot_record r = sample();
    auto_slot_record struct slot_record again = {0};
    r.memory_level = API_LEVEL_LIBRARY;
    r.is_capped = r.is_low = true;
    cr_assert_eq(slot_record_write(dir, &r, NULL), 0);
    auto_free char *text = stored();
    cr_expect(strstr(text, "\"memoryLevel\":\"library\""), "%s", text);
    cr_assert_eq(slot_record_read(dir, SLOT, &again, NULL), 0);
    cr_expect_eq(again.memory_level, API_LEVEL_LIBRARY);
    cr_expect(again.is_capped && again.is_low);
}

#define KNOWN                                                                                      \
    "\"slot\":3,\"card\":\"GPU-5f0c\",\"namespace\":\"n\",\"pod\":\"p\",\"uid\":\"u\","            \
    "\"container\":\"c\",\"memoryMiB\":1,\"computePercent\":1"

Test(slot_record, unknown_fields_are_passed_over)
{
    auto_slot_record struct slot_record r = {0};
    put("{\"version\":1," KNOWN ",\"share\":{\"of\":[1]}}");
    cr_assert_eq(slot_record_read(dir, SLOT, &r, NULL), 0);
    cr_expect_str_eq(r.uid, "u");
}

Test(slot_record, file_of_another_version_stays_and_is_told)
{
    auto_free char *huge = xasprintf("{\"version\":2,\"pad\":\"%0*d\"}", 100000, 0);
    const char *const newer[] = {"{\"version\":2," KNOWN "}",
                                 "{\"version\":7}",
                                 "{\"version\":2,\"sl",
                                 "{" KNOWN ",\"version\":2}",
                                 "{ \"version\" : 999999999999999999999 }",
                                 huge};
    for (size_t i = 0; i < ARRAY_LEN(newer); i++) {
        auto_slot_record struct slot_record r = {0};
        auto_err struct err e = {0};
        put(newer[i]);
        cr_expect_eq(slot_record_read(dir, SLOT, &r, &e), -ERR_CONFLICT, "%zu: %s", i, err_msg(&e));
        cr_expect(e.reason && strcmp(e.reason, "OtherVersion") == 0);
        auto_free char *text = stored();
        cr_expect_str_eq(text, newer[i]);
    }
}

Test(slot_record, damaged_one_is_told)
{
    auto_free char *huge = xasprintf("{\"version\":1,\"pad\":\"%0*d\"}", 100000, 0);
    const char *const damaged[] = {"",
                                   "{",
                                   "junk",
                                   "[1]",
                                   "{\"version\":0," KNOWN "}",
                                   "{\"version\":1," KNOWN,
                                   "{" KNOWN "}",
                                   "{\"version\":1}",
                                   huge};
    for (size_t i = 0; i < ARRAY_LEN(damaged); i++) {
        auto_slot_record struct slot_record r = {0};
        auto_err struct err e = {0};
        put(damaged[i]);
        cr_expect_eq(slot_record_read(dir, SLOT, &r, &e), -ERR_PROTOCOL, "%zu: %s", i, err_msg(&e));
    }
}

Test(slot_record, none_is_not_found)
{
    auto_slot_record struct slot_record r = {0};
    cr_expect_eq(slot_record_read(dir, SLOT, &r, NULL), -ERR_NOT_FOUND);
}
