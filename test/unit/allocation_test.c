/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <string.h>

#include "base/auto.h"
#include "base/sb.h"
#include "base/xalloc.h"

#include "api/allocation.h"

#define SHARE "{\"u\":\"GPU-1\",\"m\":3000,\"c\":30}"
#define ONE   "{\"n\":\"main\",\"s\":[" SHARE "]}"

/* Reads and writes it again; or the error. Caller frees. */
static char *again(const char *text)
{
    AUTO(allocation) struct allocation a;
    auto_err struct err e = {0};
    char *out = NULL;
    if (allocation_parse(text, &a, &e) < 0 || allocation_format(&a, &out, &e) < 0)
        return xstrdup(err_msg(&e));
    return out;
}

Test(allocation, what_is_written_is_read)
{
    AUTO(allocation) struct allocation a;
    cr_assert_eq(allocation_parse("{\"v\":1,\"c\":[" ONE "],\"p\":1}", &a, NULL), 0);
    const struct allocation_container *c = allocation_of(&a, "main");
    cr_assert(c);
    cr_expect_eq(c->n_shares, 1);
    cr_expect_str_eq(c->shares[0].uuid, "GPU-1");
    cr_expect_eq(c->shares[0].memory_mib, 3000);
    cr_expect_eq(c->shares[0].compute, 30);
    cr_expect_eq(a.priority, 1);
    cr_expect_null(allocation_of(&a, "other"));
    auto_free char *text = again("{\"v\":1,\"c\":[" ONE "],\"p\":0,\"later\":[{}]}");
    cr_expect_str_eq(text,
                     "{\"c\":[{\"n\":\"main\",\"s\":[{\"c\":30,\"m\":3000,\"u\":\"GPU-1\"}]}],"
                     "\"p\":0,\"v\":1}");
}

static const struct {
    const char *text, *error; /* a part of it */
} wrong[] = {
    {"", "annotation gpu.cleave.dev/allocation"},
    {"{\"v\":1", "annotation gpu.cleave.dev/allocation"},
    {"[]", "annotation gpu.cleave.dev/allocation"},
    {"{\"c\":[" ONE "]}", ".v"},
    {"{\"v\":2,\"c\":\"another shape\"}", "version 2 is not known, only 1"},
    {"{\"v\":1,\"c\":[]}", ".c"},
    {"{\"v\":1,\"c\":[{\"n\":\"a\",\"s\":[]}]}", ".c[0].s"},
    {"{\"v\":1,\"c\":[{\"n\":\"\",\"s\":[" SHARE "]}]}", ".c[0].n"},
    {"{\"v\":1,\"c\":[{\"n\":\"a\",\"s\":[{\"u\":\"\",\"m\":1}]}]}", ".c[0].s[0].u"},
    {"{\"v\":1,\"c\":[{\"n\":\"a\",\"s\":[{\"u\":\"x\",\"m\":0}]}]}", ".c[0].s[0].m"},
    {"{\"v\":1,\"c\":[{\"n\":\"a\",\"s\":[{\"u\":\"x\",\"m\":1,\"c\":101}]}]}", ".c[0].s[0].c"},
    {"{\"v\":1,\"c\":[{\"n\":\"a\",\"s\":[{\"u\":\"x\",\"m\":\"1\"}]}]}", ".c[0].s[0].m"},
    {"{\"v\":1,\"c\":[" ONE "," ONE "]}", "container main stands there twice"},
    {"{\"v\":1,\"c\":[" ONE "],\"p\":2}", ".p"},
    {"{\"v\":1,\"c\":[{\"n\":\"a\",\"s\":[" SHARE "," SHARE "]}]}",
     "container a has two shares of card GPU-1"},
    {"{\"v\":1,\"c\":[{\"n\":\"a\",\"s\":[{\"u\":\"x,NVIDIA,1,0:y\",\"m\":1}]}]}",
     "container a: the uuid \"x,NVIDIA,1,0:y\" has other characters than letters"},
};

Test(allocation, what_is_wrong_is_named)
{
    for (size_t i = 0; i < ARRAY_LEN(wrong); i++) {
        auto_free char *text = again(wrong[i].text);
        cr_expect(strstr(text, wrong[i].error), "%s: %s", wrong[i].text, text);
    }
}

/* What a caller puts together that no reader would take. */
static const struct {
    const char *uuid;
    int64_t memory_mib, compute;
    const char *error;
} unreadable[] = {
    {"GPU-1", 0, 0, ".m"},
    {"GPU-1", 1, 101, ".c"},
    {"GPU 1", 1, 0, "other characters"},
    {"", 1, 0, ".u"},
};

Test(allocation, what_cannot_be_read_is_not_written)
{
    char name[] = "main";
    for (size_t i = 0; i < ARRAY_LEN(unreadable); i++) {
        auto_free char *uuid = xstrdup(unreadable[i].uuid);
        struct allocation_share share = {uuid, unreadable[i].memory_mib, unreadable[i].compute};
        struct allocation_container c = {name, &share, 1};
        const struct allocation a = {1, &c, 1, 0};
        auto_err struct err e = {0};
        char *out = NULL;
        cr_expect_eq(allocation_format(&a, &out, &e), -ERR_INVALID, "%s", unreadable[i].error);
        cr_expect(strstr(err_msg(&e), unreadable[i].error), "%s", err_msg(&e));
        cr_expect_null(out);
    }
}

Test(allocation, a_uuid_is_as_long_as_a_devices)
{
    auto_free char *uuid = xcalloc(1, ALLOCATION_MAX_UUID_BYTES + 1);
    memset(uuid, 'a', ALLOCATION_MAX_UUID_BYTES);
    auto_free char *text =
        xasprintf("{\"c\":[{\"n\":\"a\",\"s\":[{\"c\":0,\"m\":1,\"u\":\"%s\"}]}],"
                  "\"p\":0,\"v\":1}",
                  uuid);
    auto_free char *same = again(text);
    cr_expect_str_eq(same, text);
}

/* The longest names and numbers. */
Test(allocation, a_size_that_is_allowed_beforehand_is_not_too_large_later)
{
    enum { N = 4, UUID = 40 };
    char uuids[ALLOCATION_MAX_SHARES][UUID + 1];
    char names[N][64];
    struct allocation_share shares[ALLOCATION_MAX_SHARES];
    struct allocation_container containers[N];
    const struct allocation a = {1, containers, N, 1};
    auto_err struct err e = {0};
    size_t longest = 0;
    for (size_t n = 1; allocation_check_size(N, n * N, UUID, &e) == 0; n++) {
        auto_free char *text = NULL;
        cr_assert_leq(n, ALLOCATION_MAX_SHARES);
        (void)snprintf(uuids[n - 1], sizeof(uuids[0]), "GPU-%036zu", n);
        shares[n - 1] = (struct allocation_share){uuids[n - 1], INT32_MAX, 100};
        for (size_t i = 0; i < N; i++) {
            (void)snprintf(names[i], sizeof(names[0]), "%063zu", i);
            containers[i] = (struct allocation_container){names[i], shares, n};
        }
        cr_assert_eq(allocation_format(&a, &text, NULL), 0);
        longest = strlen(text);
    }
    cr_expect_eq(e.kind, ERR_TOO_LARGE);
    cr_expect(strstr(err_msg(&e), "ask for fewer shares"), "%s", err_msg(&e));
    cr_expect_gt(longest, ALLOCATION_MAX_BYTES - 1000, "the bound is near");
}

Test(allocation, a_pods_annotations_leave_room_for_the_record)
{
    enum { ALL = 256 << 10, BESIDE = 1000, KEY = 4 };
    size_t free_bytes = ALL - strlen(ALLOCATION_ANNOTATION) - ALLOCATION_MAX_BYTES - BESIDE - KEY;
    auto_free char *text = xcalloc(1, free_bytes + 2);
    memset(text, 'x', free_bytes);
    auto_json json_t *annotations = json_pack("{s:s}", "a.b/", text);
    auto_err struct err e = {0};
    cr_expect_eq(allocation_check_room(NULL, BESIDE, NULL), 0);
    cr_expect_eq(allocation_check_room(annotations, BESIDE, NULL), 0);
    text[free_bytes] = 'x';
    auto_json json_t *more = json_pack("{s:s}", "a.b/", text);
    cr_expect_eq(allocation_check_room(more, BESIDE, &e), -ERR_TOO_LARGE);
    cr_expect(strstr(err_msg(&e), "shorten the annotations"), "%s", err_msg(&e));
}

Test(allocation, its_size_is_bounded)
{
    auto_sb struct sb text = SB_INIT(1 << 20);
    sb_add(&text, "{\"v\":1,\"c\":[{\"n\":\"a\",\"s\":[");
    for (int i = 0; i < ALLOCATION_MAX_SHARES + 1; i++)
        sb_addf(&text, "%s" SHARE, i ? "," : "");
    sb_add(&text, "]}]}");
    auto_free char *many = again(sb_str(&text));
    cr_expect(strstr(many, ".c[0].s"), "%s", many);
    auto_free char *long_text = xasprintf("%*s{}", ALLOCATION_MAX_BYTES, "");
    auto_free char *large = again(long_text);
    cr_expect(strstr(large, "annotation gpu.cleave.dev/allocation"), "%s", large);
    char uuid[] = "GPU-1";
    char name[] = "a";
    struct allocation_share shares[ALLOCATION_MAX_SHARES];
    struct allocation_container containers[ALLOCATION_MAX_CONTAINERS];
    for (size_t i = 0; i < ARRAY_LEN(shares); i++)
        shares[i] = (struct allocation_share){.uuid = uuid, .memory_mib = 1};
    for (size_t i = 0; i < ARRAY_LEN(containers); i++)
        containers[i] = (struct allocation_container){name, shares, ARRAY_LEN(shares)};
    const struct allocation a = {1, containers, ARRAY_LEN(containers), 0};
    auto_err struct err e = {0};
    char *out = NULL;
    cr_expect_eq(allocation_format(&a, &out, &e), -ERR_TOO_LARGE);
    cr_expect_null(out);
}
