/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <string.h>

#include "base/jx.h"
#include "base/sb.h"

#include "kubeclient/list_decoder.h"

struct result {
    struct sb names;
    char *version, *more;
};

static int note(void *arg, const json_t *obj, struct err *e)
{
    (void)e;
    struct result *r = arg;
    sb_addf(&r->names, "%s ", JX_STR_AT(obj, "n"));
    return 0;
}

static void result_done(struct result *r)
{
    sb_done(&r->names);
    free(r->version);
    free(r->more);
}
#define auto_result __attribute__((cleanup(result_done)))

static int decode(const char *text, size_t piece, size_t max, struct result *r, struct err *e)
{
    auto_list_decoder struct list_decoder *d = list_decoder_new(max, note, r);
    size_t len = strlen(text);
    for (size_t at = 0; at < len; at += piece)
        TRY(list_decoder_feed(d, text + at, len - at < piece ? len - at : piece, e));
    return list_decoder_finish(d, &r->version, &r->more, e);
}

/* Members in both orders that servers use, with brackets and quotes where they mislead. */
static const char typed[] =
    "{\"kind\":\"items\",\"metadata\":{\"resourceVersion\":\"42\",\"continue\":\"c\\\"[\","
    "\"items\":[{\"n\":\"no\"}]},\"items\":[{\"n\":\"a]\",\"x\":[[{}]]}, \n{\"n\":\"b\\\\\"},"
    "{\"n\":\"c\\\"}\"}]}\n";
static const char sorted[] =
    "{\"apiVersion\":\"v1\",\"items\":[{\"n\":\"a]\"},{\"n\":\"b\\\\\"},{\"n\":\"c\\\"}\"}],"
    "\"kind\":\"L\",\"metadata\":{\"continue\":\"c\\\"[\",\"resourceVersion\":\"42\"}}";

Test(list_decoder, any_chunking_and_order_of_members_gives_the_same_items)
{
    static const char *const texts[] = {typed, sorted};
    for (size_t t = 0; t < 2; t++) {
        for (size_t piece = 1; piece <= strlen(texts[t]); piece++) {
            auto_err struct err e = {0};
            auto_result struct result r = {.names = SB_INIT(1000)};
            cr_assert_eq(decode(texts[t], piece, 1000, &r, &e), 0, "%s", e.msg);
            cr_assert_str_eq(sb_str(&r.names), "a] b\\ c\"} ", "pieces of %zu", piece);
            cr_assert_str_eq(r.version, "42");
            cr_assert_str_eq(r.more, "c\"[");
        }
    }
}

Test(list_decoder, empty_and_null_lists_have_no_items)
{
    static const char *const rows[] =
        {"{\"metadata\":{\"resourceVersion\":\"1\"},\"items\":[]}",
         "{\"metadata\":{\"resourceVersion\":\"1\"},\"items\":null}",
         "{\"metadata\":{\"resourceVersion\":\"1\",\"continue\":\"\"}}"};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        auto_err struct err e = {0};
        auto_result struct result r = {.names = SB_INIT(1000)};
        cr_assert_eq(decode(rows[i], 7, 1000, &r, &e), 0, "%s", e.msg);
        cr_expect_str_eq(sb_str(&r.names), "");
        cr_expect_null(r.more);
    }
}

Test(list_decoder, what_is_no_list_is_a_protocol_error)
{
    static const char *const rows[] = {
        "",
        "<html>",
        "[]",
        "{}",
        "{\"metadata\":1,\"items\":[]}",
        "{\"metadata\":{},\"items\":[1]}",
        "{\"metadata\":{},\"items\":{}}",
        "{\"metadata\":{},\"\\u0069tems\":[{}]}",
        "{\"metadata\":{},\"items\":[\"{\"]}",
        "{\"metadata\":{},\"items\":[[]]}",
        "{\"metadata\":{},\"items\":[{}{}]}",
        "{\"metadata\":{},\"items\":[,{}]}",
        "{\"metadata\":{},\"items\":[{},]}",
        "{\"metadata\":{},\"items\":[{}}",
        "{\"metadata\":{},\"items\":[{]]}",
        "{\"metadata\":{},\"items\":[{}",
        "{\"metadata\":{},\"items\":[],\"items\":[]}",
        "{\"metadata\":{},\"items\":[]}}",
        "{\"metadata\":{},\"items\":[{\"n\":\"a\"},{\"n\":",
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        auto_err struct err e = {0};
        auto_result struct result r = {.names = SB_INIT(1000)};
        cr_expect_eq(decode(rows[i], 3, 1000, &r, &e), -ERR_PROTOCOL, "%s", rows[i]);
        cr_expect_null(r.version);
    }
}

Test(list_decoder, item_and_rest_are_bounded_each)
{
    auto_err struct err e = {0};
    auto_result struct result r = {.names = SB_INIT(1000)};
    cr_expect_eq(decode(typed, 5, 20, &r, &e), -ERR_TOO_LARGE);
    auto_err struct err e2 = {0};
    auto_result struct result r2 = {.names = SB_INIT(1000)};
    cr_expect_eq(decode("{\"metadata\":{},\"items\":[{\"n\":\"0123456789012345678901234567890\"}]}",
                        5, 30, &r2, &e2),
                 -ERR_TOO_LARGE);
}

static int refuse(void *arg, const json_t *obj, struct err *e)
{
    (void)arg;
    (void)obj;
    return err_set(e, ERR_TERMINAL, "enough");
}

Test(list_decoder, callback_ends_it_with_its_own_error)
{
    auto_err struct err e = {0};
    auto_list_decoder struct list_decoder *d = list_decoder_new(1000, refuse, NULL);
    cr_expect_eq(list_decoder_feed(d, typed, strlen(typed), &e), -ERR_TERMINAL);
    cr_expect_eq(list_decoder_count(d), 1);
}
