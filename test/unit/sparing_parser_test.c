/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <string.h>

#include "base/jx.h"
#include "base/xalloc.h"

#include "kubeclient/sparing_parser.h"

static const char *const path[] = {"status", "models", NULL};

static json_t *parse(struct sparing_parser *m, const char *text)
{
    auto_err struct err e = {0};
    json_t *obj = NULL;
    cr_assert_eq(sparing_parse(m, text, strlen(text), 1000, &obj, &e), 0, "%s: %s", text,
                 err_msg(&e));
    return obj;
}

static const json_t *models_of(const json_t *obj)
{
    return JX_AT(obj, "status", "models");
}

/* Whatever was seen before, each is what it is alone. */
Test(sparing_parser, every_object_is_what_its_text_says)
{
    static const char *const texts[] = {
        "{\"status\":{\"models\":[{\"n\":1}],\"x\":1}}",
        "{\"status\":{\"models\":[{\"n\":1}],\"x\":2}}",
        "{\"status\":{\"models\":[{\"n\":2}],\"x\":2}}",
        "{\"status\":{\"models\":[]}}",
        "{\"status\":{\"models\":[]},\"n\":0}",
        "{\"models\":[{\"n\":1}],\"status\":{\"models\":[{\"n\":1}]}}",
        "{\"models\":[{\"n\":1}],\"status\":{}}",
        "{\"models\":[{\"n\":1}],\"status\":7}",
        "{\"models\":[{\"n\":1}],\"status\":{\"models\":null}}",
        "{\"models\":[{\"n\":1}]}",
        "{\"status\":{\"models\": [ {\"n\":1} ] }}",
        "{\"status\":{\"models\":{\"n\":1}}}",
        "{\"status\":{\"models\":[\"]}\\\"[\",[{}]]}}",
        "{\"status\":{\"models\":[\"]}\\\"[\",[{}]],\"after\":[]}}",
        "{\"note\":\"\\\"models\\\":[{\\\"n\\\":1}]\",\"status\":{\"models\":[{\"n\":1}]}}",
        "[{\"models\":[{\"n\":1}]}]",
    };
    struct sparing_parser m = {.shared = path};
    for (size_t i = 0; i < ARRAY_LEN(texts); i++)
        for (size_t k = 0; k < ARRAY_LEN(texts); k++) {
            json_decref(parse(&m, texts[i]));
            auto_json json_t *second = parse(&m, texts[k]);
            auto_json json_t *alone = json_loads(texts[k], 0, NULL);
            cr_expect(json_equal(second, alone), "%s after %s", texts[k], texts[i]);
        }
    sparing_parser_done(&m);
}

Test(sparing_parser, what_is_the_same_is_one_object)
{
    struct sparing_parser m = {.shared = path};
    json_decref(parse(&m, "{\"status\":{\"models\":[{\"n\":1}],\"x\":1}}"));
    auto_json json_t *second = parse(&m, "{\"status\":{\"models\":[{\"n\":1}],\"x\":2}}");
    auto_json json_t *other = parse(&m, "{\"status\":{\"models\":[{\"n\":2}],\"x\":2}}");
    auto_json json_t *third = parse(&m, "{\"status\":{\"models\":[{\"n\":1}],\"x\":3}}");
    cr_expect_eq(models_of(second), models_of(third));
    cr_expect_neq(models_of(second), models_of(other));
    sparing_parser_done(&m);
    cr_expect_eq(json_integer_value(JX_AT(json_array_get(models_of(third), 0), "n")), 1);
}

Test(sparing_parser, more_kinds_than_are_remembered_are_parsed_each)
{
    struct sparing_parser m = {.shared = path};
    for (int i = 0; i < 30; i++) {
        auto_free char *text = xasprintf("{\"status\":{\"models\":[{\"n\":%d}]}}", i % 7);
        auto_json json_t *obj = parse(&m, text);
        cr_expect_eq(json_integer_value(JX_AT(json_array_get(models_of(obj), 0), "n")), i % 7);
    }
    sparing_parser_done(&m);
}

Test(sparing_parser, what_cannot_be_parsed_is_told_as_ever)
{
    static const char good[] = "{\"status\":{\"models\":[1]}}";
    static const char *const bad[] = {"{\"status\":{\"models\":[1]},}",
                                      "{\"status\":{\"models\":[1",
                                      "{\"status\":{\"models\":[1]},\"a\":1,\"a\":2}"};
    struct sparing_parser m = {.shared = path};
    json_decref(parse(&m, good));
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        auto_err struct err e = {0};
        auto_err struct err alone = {0};
        json_t *obj = NULL;
        cr_expect_eq(sparing_parse(&m, bad[i], strlen(bad[i]), 1000, &obj, &e), -ERR_PROTOCOL);
        cr_expect_eq(jx_parse(bad[i], strlen(bad[i]), 1000, &obj, &alone), -ERR_PROTOCOL);
        cr_expect_str_eq(err_msg(&e), err_msg(&alone));
    }
    auto_err struct err e = {0};
    json_t *obj = NULL;
    cr_expect_eq(sparing_parse(&m, good, strlen(good), strlen(good) - 1, &obj, &e), -ERR_TOO_LARGE);
    sparing_parser_done(&m);
}

static json_t *labels_left_out(const char *text)
{
    json_t *obj = json_loads(text, 0, NULL);
    (void)json_object_del(json_object_get(obj, "status"), "labels");
    return obj;
}

/* Wherever it stands, and whatever is shared beside it. */
Test(sparing_parser, a_member_that_nobody_reads_is_left_out)
{
    static const char *const labels[] = {"status", "labels", NULL};
    static const char *const texts[] = {
        "{\"status\":{\"labels\":{\"a\":\"}\"},\"models\":[{\"n\":1}],\"x\":1}}",
        "{\"status\":{\"models\":[{\"n\":1}],\"labels\":{\"b\":\"1\"},\"x\":2}}",
        "{\"status\":{\"labels\":[1],\"x\":2}}",
        "{\"status\":{\"labels\":7,\"models\":[{\"n\":1}]}}",
        "{\"status\": {\"labels\": {\"a\": \"b\"}}}",
        "{\"labels\":{\"a\":\"b\"},\"status\":{\"models\":[{\"n\":1}]}}",
        "{\"metadata\":{\"labels\":{\"a\":\"b\"}},\"status\":{\"labels\":{\"a\":\"b\"}}}",
        "{\"status\":{\"in\":{\"labels\":{\"a\":\"b\"}},\"labels\":{\"a\":\"b\"}}}",
        "{\"status\":{\"in\":{\"labels\":{\"a\":\"b\"}}}}",
        "{\"status\":{\"labels\":{\"models\":[{\"n\":1}]},\"x\":1}}",
        "{\"status\":{\"models\":[{\"labels\":{}}],\"x\":1}}",
        "{\"status\":{\"x\\\"labels\":{\"a\":\"b\"},\"labels\":{\"a\":\"b\"}}}",
        /* As it would be if another member's text could stand for what is spared. */
        "{\"status\":{\"in\":{\"labels\":{\"a\":1}},\"labels\":\"\\u0001spared\\u0001\"}}",
        "{\"status\":7}",
        "{}",
    };
    struct sparing_parser m = {.shared = path, .without = labels};
    for (size_t i = 0; i < ARRAY_LEN(texts); i++)
        for (size_t k = 0; k < ARRAY_LEN(texts); k++) {
            json_decref(parse(&m, texts[i]));
            auto_json json_t *second = parse(&m, texts[k]);
            auto_json json_t *expected = labels_left_out(texts[k]);
            cr_expect(json_equal(second, expected), "%s after %s", texts[k], texts[i]);
        }
    sparing_parser_done(&m);
}

Test(sparing_parser, without_paths_nothing_is_spared)
{
    struct sparing_parser m = {0};
    auto_json json_t *first = parse(&m, "{\"status\":{\"models\":[{\"n\":1}]}}");
    auto_json json_t *second = parse(&m, "{\"status\":{\"models\":[{\"n\":1}]}}");
    cr_expect_neq(models_of(first), models_of(second));
    sparing_parser_done(&m);
}
