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
};

Test(allocation, what_is_wrong_is_named)
{
    for (size_t i = 0; i < ARRAY_LEN(wrong); i++) {
        auto_free char *text = again(wrong[i].text);
        cr_expect(strstr(text, wrong[i].error), "%s: %s", wrong[i].text, text);
    }
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
