/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <string.h>

#include "base/jx.h"
#include "base/sb.h"
#include "base/xalloc.h"

static const char *const modes[] = {"native", "mig", NULL};

struct part {
    char *name;
    int64_t start;
};

static const struct jx_field part_fields[] = {
    JX_F(part, name, "name", JX_STR, .required = true),
    JX_F(part, start, "start", JX_INT, .min = 0, .max = 12, .required = true),
    {0},
};

struct sharing {
    int64_t replicas;
};

static const struct jx_field sharing_fields[] = {
    JX_F(sharing, replicas, "replicas", JX_INT),
    {0},
};

struct card {
    char *uuid;
    int mode;
    int64_t memory, seen_ms, weight;
    bool healthy, has_sharing, has_weight;
    struct sharing sharing;
    struct part *parts;
    char **tags;
    int64_t *indices;
    struct jx_pair *labels, *counts;
    size_t part_count, tag_count, index_count, label_count, count_count;
    char *limit;
    json_t *extra;
};

static const struct jx_field card_fields[] = {
    JX_F(card, uuid, "uuid", JX_STR, .required = true, .min = 2, .max = 8),
    JX_F(card, mode, "mode", JX_ENUM, .choices = modes),
    JX_F(card, memory, "memory", JX_QUANTITY),
    JX_F(card, seen_ms, "seen", JX_TIME),
    JX_P(card, weight, has_weight, "weight", JX_INT, .min = -5, .max = 5),
    JX_F(card, healthy, "healthy", JX_BOOL),
    JX_P(card, sharing, has_sharing, "sharing", JX_OBJECT, .sub = sharing_fields),
    JX_L(card, parts, part_count, "parts", JX_LIST, .sub = part_fields,
         .elem_bytes = sizeof(struct part), .max = 3),
    JX_L(card, tags, tag_count, "tags", JX_STR_LIST),
    JX_L(card, indices, index_count, "indices", JX_INT_LIST),
    JX_L(card, labels, label_count, "labels", JX_STR_MAP),
    JX_L(card, counts, count_count, "counts", JX_INT_MAP),
    JX_F(card, limit, "limit", JX_INT_OR_STR),
    JX_F(card, extra, "extra", JX_ANY),
    {0},
};

static const char full[] =
    "{\"counts\":{\"1g.10gb\":2,\"3g.40gb\":1},\"extra\":{\"deep\":[1]},\"healthy\":true,"
    "\"indices\":[0,3],\"labels\":{\"a\":\"1\",\"b\":\"2\"},\"limit\":\"25%\",\"memory\":\"1024\","
    "\"mode\":\"mig\",\"parts\":[{\"name\":\"p\",\"start\":0},{\"name\":\"q\",\"start\":12}],"
    "\"seen\":\"2026-11-20T22:55:35Z\",\"sharing\":{\"replicas\":4},\"tags\":[\"x\",\"y\"],"
    "\"uuid\":\"GPU-1\",\"weight\":0}";

static json_t *parsed(const char *text)
{
    json_t *value = NULL;
    auto_err struct err e = {0};
    cr_assert_eq(jx_parse(text, strlen(text), 1 << 20, &value, &e), 0, "%s", err_msg(&e));
    return value;
}

static int decode_text(const char *text, struct card *card, struct err *e)
{
    auto_json json_t *obj = parsed(text);
    return jx_decode(obj, card_fields, card, e);
}

static void expect_error(const char *text, const char *message)
{
    struct card card = {0};
    auto_err struct err e = {0};
    cr_assert_eq(decode_text(text, &card, &e), -ERR_INVALID, "%s", text);
    cr_expect_str_eq(err_msg(&e), message);
    jx_free(card_fields, &card);
}

Test(jx, decodes_each_type)
{
    struct card card = {0};
    auto_err struct err e = {0};
    cr_assert_eq(decode_text(full, &card, &e), 0, "%s", err_msg(&e));
    cr_expect_str_eq(card.uuid, "GPU-1");
    cr_expect_eq(card.mode, 1);
    cr_expect_eq(card.memory, 1024);
    cr_expect_eq(card.seen_ms, INT64_C(1795215335000));
    cr_expect(card.healthy && card.has_sharing && card.has_weight);
    cr_expect_eq(card.sharing.replicas, 4);
    cr_assert_eq(card.part_count, 2);
    cr_expect_str_eq(card.parts[1].name, "q");
    cr_expect_eq(card.parts[1].start, 12);
    cr_assert_eq(card.tag_count, 2);
    cr_expect_str_eq(card.tags[0], "x");
    cr_expect_eq(card.indices[1], 3);
    cr_assert_eq(card.count_count, 2);
    cr_expect_str_eq(card.counts[0].key, "1g.10gb");
    cr_expect_eq(card.counts[0].num, 2);
    cr_expect_str_eq(card.labels[1].str, "2");
    cr_expect_str_eq(card.limit, "25%");
    cr_expect(json_is_object(card.extra));
    jx_free(card_fields, &card);
    cr_expect_null(card.uuid);
    cr_expect_null(card.parts);
    cr_expect_eq(card.part_count, 0);
}

Test(jx, encodes_what_it_decoded)
{
    struct card card = {0};
    cr_assert_eq(decode_text(full, &card, NULL), 0);
    auto_json json_t *again = jx_encode(card_fields, &card);
    auto_free char *text = jx_dump(again);
    cr_expect_str_eq(text, full);
    jx_free(card_fields, &card);
}

Test(jx, sorts_maps_by_key)
{
    struct card card = {0};
    cr_assert_eq(decode_text("{\"uuid\":\"ab\",\"labels\":{\"c\":\"\",\"a\":\"\",\"b\":\"\"}}",
                             &card, NULL),
                 0);
    cr_expect_str_eq(card.labels[0].key, "a");
    cr_expect_str_eq(card.labels[2].key, "c");
    jx_free(card_fields, &card);
}

Test(jx, takes_null_for_absent_and_ignores_unknown_fields)
{
    struct card card = {.mode = 1};
    cr_assert_eq(
        decode_text("{\"uuid\":\"ab\",\"mode\":null,\"weight\":null,\"tags\":null,\"new\":[{}]}",
                    &card, NULL),
        0);
    cr_expect_eq(card.mode, 1, "an absent enum keeps its default");
    cr_expect_not(card.has_weight);
    cr_expect_null(card.tags);
    jx_free(card_fields, &card);
}

Test(jx, leaves_out_what_is_not_set)
{
    struct card card = {.mode = -1};
    auto_json json_t *none = jx_encode(card_fields, &card);
    auto_free char *text = jx_dump(none);
    cr_expect_str_eq(text, "{}");
    struct part part = {0};
    auto_json json_t *zeros = jx_encode(part_fields, &part);
    auto_free char *zeros_text = jx_dump(zeros);
    cr_expect_str_eq(zeros_text, "{\"start\":0}");
}

Test(jx, writes_a_number_that_was_kept_as_text_as_a_number)
{
    struct card card = {0};
    cr_assert_eq(decode_text("{\"uuid\":\"ab\",\"limit\":3}", &card, NULL), 0);
    cr_expect_str_eq(card.limit, "3");
    auto_json json_t *obj = jx_encode(card_fields, &card);
    cr_expect_eq(json_integer_value(json_object_get(obj, "limit")), 3);
    jx_free(card_fields, &card);
}

Test(jx, names_the_path_and_the_cause)
{
    expect_error("{}", ".uuid: required");
    expect_error("{\"uuid\":null}", ".uuid: required");
    expect_error("{\"uuid\":7}", ".uuid: must be a string, is an integer");
    expect_error("{\"uuid\":\"a\"}", ".uuid: must have at least 2 bytes, has 1");
    expect_error("{\"uuid\":\"123456789\"}", ".uuid: must have at most 8 bytes, has 9");
    expect_error("{\"uuid\":\"ab\",\"mode\":\"fast\"}",
                 ".mode: must be one of native, mig, is \"fast\"");
    expect_error("{\"uuid\":\"ab\",\"weight\":6}", ".weight: must be between -5 and 5, is 6");
    expect_error("{\"uuid\":\"ab\",\"weight\":1.0}", ".weight: must be an integer, is a fraction");
    expect_error("{\"uuid\":\"ab\",\"sharing\":[]}", ".sharing: must be an object, is a list");
    expect_error("{\"uuid\":\"ab\",\"sharing\":{\"replicas\":true}}",
                 ".sharing.replicas: must be an integer, is a boolean");
    expect_error("{\"uuid\":\"ab\",\"parts\":[{\"name\":\"x\",\"start\":0},{\"start\":1}]}",
                 ".parts[1].name: required");
    expect_error("{\"uuid\":\"ab\",\"parts\":[null]}", ".parts[0]: must be an object, is null");
    expect_error("{\"uuid\":\"ab\",\"parts\":[{},{},{},{}]}",
                 ".parts: must have at most 3 elements, has 4");
    expect_error("{\"uuid\":\"ab\",\"tags\":[\"x\",{}]}",
                 ".tags[1]: must be a string, is an object");
    expect_error("{\"uuid\":\"ab\",\"indices\":[\"0\"]}",
                 ".indices[0]: must be an integer, is a string");
    expect_error("{\"uuid\":\"ab\",\"labels\":{\"a.b/c\":1}}",
                 ".labels[\"a.b/c\"]: must be a string, is an integer");
    expect_error("{\"uuid\":\"ab\",\"counts\":[]}", ".counts: must be an object, is a list");
    expect_error("{\"uuid\":\"ab\",\"memory\":\"lots\"}", ".memory: \"lots\" is not a quantity");
    expect_error("{\"uuid\":\"ab\",\"memory\":{}}", ".memory: must be a quantity, is an object");
    expect_error("{\"uuid\":\"ab\",\"seen\":\"now\"}", ".seen: \"now\" is not an RFC 3339 time");
    expect_error("{\"uuid\":\"ab\",\"limit\":true}",
                 ".limit: must be an integer or a string, is a boolean");
    expect_error("[]", ".: must be an object, is a list");
}

Test(jx, refuses_lists_beyond_the_default_bound)
{
    auto_json json_t *tags = json_array();
    for (int i = 0; i <= JX_MAX_ITEMS; i++)
        (void)json_array_append_new(tags, json_string("t"));
    auto_json json_t *obj = json_pack("{ss sO}", "uuid", "ab", "tags", tags);
    struct card card = {0};
    auto_err struct err e = {0};
    cr_expect_eq(jx_decode(obj, card_fields, &card, &e), -ERR_INVALID);
    cr_expect_str_eq(err_msg(&e), ".tags: must have at most 4096 elements, has 4097");
    jx_free(card_fields, &card);
}

Test(jx, decoding_again_replaces_what_was_owned)
{
    struct card card = {0};
    cr_assert_eq(decode_text(full, &card, NULL), 0);
    cr_assert_eq(decode_text(full, &card, NULL), 0);
    cr_expect_eq(card.part_count, 2);
    jx_free(card_fields, &card);
}

Test(jx, lists_can_grow_after_a_decode)
{
    struct card card = {0};
    cr_assert_eq(decode_text("{\"uuid\":\"ab\",\"tags\":[\"1\",\"2\",\"3\"]}", &card, NULL), 0);
    for (int i = 0; i < 10; i++)
        *XPUSH(card.tags, card.tag_count) = xstrdup("more");
    cr_expect_eq(card.tag_count, 13);
    cr_expect_str_eq(card.tags[2], "3");
    jx_free(card_fields, &card);
}

Test(jx, encodes_text_that_is_no_utf8)
{
    char bytes[] = "a\xff";
    struct part part = {.name = bytes};
    auto_json json_t *obj = jx_encode(part_fields, &part);
    cr_expect_str_eq(JX_STR_AT(obj, "name"), "a\xef\xbf\xbd");
}

Test(jx, finds_values_by_path)
{
    auto_json json_t *obj = parsed("{\"a\":{\"b\":{\"c\":\"x\"},\"n\":null}}");
    cr_expect_str_eq(JX_STR_AT(obj, "a", "b", "c"), "x");
    cr_expect_null(JX_AT(obj, "a", "b", "c", "d"), "a string has no fields");
    cr_expect_null(JX_AT(obj, "a", "z"));
    cr_expect_null(JX_AT(obj, "a", "n"), "null counts as absent");
    cr_expect_null(JX_STR_AT(obj, "a", "b"));
    cr_expect_null(JX_AT(NULL, "a"));
}

static void expect_diff(const char *from, const char *to, const char *patch)
{
    auto_json json_t *a = parsed(from);
    auto_json json_t *b = parsed(to);
    auto_json json_t *change = NULL;
    jx_merge_diff(a, b, &change);
    if (!patch) {
        cr_expect_null(change, "%s and %s are equal", from, to);
        return;
    }
    cr_assert_not_null(change);
    auto_free char *text = jx_dump(change);
    cr_expect_str_eq(text, patch);
}

Test(jx, diffs_hold_only_what_changed)
{
    expect_diff("{\"a\":1,\"b\":{\"c\":2}}", "{\"b\":{\"c\":2},\"a\":1}", NULL);
    expect_diff("{\"a\":1,\"b\":{\"c\":2,\"d\":3}}", "{\"a\":1,\"b\":{\"c\":2,\"d\":4}}",
                "{\"b\":{\"d\":4}}");
    expect_diff("{\"a\":1,\"b\":2}", "{\"a\":1}", "{\"b\":null}");
    expect_diff("{\"a\":[1,2]}", "{\"a\":[1]}", "{\"a\":[1]}");
    expect_diff("{\"a\":{\"x\":1}}", "{\"a\":{}}", "{\"a\":{\"x\":null}}");
    expect_diff("{\"a\":{\"x\":1}}", "{\"a\":\"s\"}", "{\"a\":\"s\"}");
    expect_diff("{}", "{\"a\":{}}", "{\"a\":{}}");
}

Test(jx, diffs_take_null_for_absent)
{
    expect_diff("{}", "{\"a\":null}", NULL);
    expect_diff("{\"a\":null}", "{}", NULL);
    expect_diff("{\"a\":1}", "{\"a\":null}", "{\"a\":null}");
    expect_diff("{\"a\":null}", "{\"a\":1}", "{\"a\":1}");
}

Test(jx, diffs_from_nothing_are_the_whole)
{
    auto_json json_t *to = parsed("{\"a\":1}");
    auto_json json_t *patch = NULL;
    jx_merge_diff(NULL, to, &patch);
    cr_expect(json_equal(patch, to));
}

static void expect_refused(const char *text, size_t len, enum err_kind kind)
{
    json_t *value = NULL;
    auto_err struct err e = {0};
    cr_expect_eq(jx_parse(text, len, 4096, &value, &e), -(int)kind, "%s", text);
    cr_expect_null(value);
    cr_expect_not_null(e.msg);
}

static void refuse(const char *text)
{
    expect_refused(text, strlen(text), ERR_PROTOCOL);
}

Test(jx, refuses_text_that_is_not_strict_json)
{
    refuse("");
    refuse("{");
    refuse("{\"a\":1,}");
    refuse("{\"a\":1} x");
    refuse("{\"a\":1}{}");
    refuse("{\"a\":1,\"a\":2}");
    refuse("{'a':1}");
    refuse("[NaN]");
    refuse("\"\xff\"");
    refuse("\"\xed\xa0\x80\"");
    refuse("\"\\ud800\"");
    refuse("99999999999999999999");
    refuse("1e999");
    refuse("\"\\");
    refuse("\"open");
    expect_refused("{}\0", 3, ERR_PROTOCOL);
}

static const struct {
    const char *text, *read_as; /* as JSON texts */
} with_nul[] = {
    {"[\"\\u0000\"]", "[\"\xef\xbf\xbd\"]"},
    {"[\"a\\u0000b\\u0000\"]", "[\"a\xef\xbf\xbd"
                               "b\xef\xbf\xbd\"]"},
    {"{\"k\\u0000\":1,\"k\\ufffd\":2}", "{\"k\xef\xbf\xbd\":2}"},
    {"{\"k\\u0000\":1}", "{\"k\xef\xbf\xbd\":1}"},
    {"[\"\\\\u0000\"]", "[\"\\\\u0000\"]"}, /* a backslash, and the text u0000 */
    {"[\"\\\\\\u0000\"]", "[\"\\\\\xef\xbf\xbd\"]"},
};

Test(jx, the_character_0_is_read_as_the_replacement_character)
{
    for (size_t i = 0; i < ARRAY_LEN(with_nul); i++) {
        auto_json json_t *value = NULL;
        const char *text = with_nul[i].text;
        cr_assert_eq(jx_parse(text, strlen(text), 100, &value, NULL), 0, "%s", text);
        auto_free char *again = jx_dump(value);
        cr_expect_str_eq(again, with_nul[i].read_as, "%s became %s", text, again);
    }
}

Test(jx, refuses_what_is_too_long)
{
    auto_free char *text = xmalloc(4098);
    memset(text, ' ', 4097);
    expect_refused(text, 4097, ERR_TOO_LARGE);
}

static char *nested(size_t depth)
{
    struct sb b = SB_INIT(1 << 20);
    for (size_t i = 0; i < depth; i++)
        sb_add(&b, i % 2 ? "{\"[[\":" : "[");
    sb_add(&b, "\"}]\\\"[[\"");
    for (size_t i = depth; i-- > 0;)
        sb_add(&b, i % 2 ? "}" : "]");
    return sb_take(&b);
}

/* "[{},{},…]" */
static char *flat(size_t count, const char *item)
{
    struct sb text = SB_INIT(8UL << 20);
    sb_add_char(&text, '[');
    for (size_t i = 0; i < count; i++)
        sb_addf(&text, "%s%s", i ? "," : "", item);
    sb_add_char(&text, ']');
    return sb_take(&text);
}

static void expect_too_many(const char *text)
{
    auto_err struct err e = {0};
    auto_json json_t *value = NULL;
    cr_expect_eq(jx_parse(text, strlen(text), strlen(text), &value, &e), -ERR_TOO_LARGE);
    cr_expect(strstr(err_msg(&e), "more than 200000 values"), "%s", err_msg(&e));
}

/* One answer of 4 MiB took 314 MiB; an agent has 128. */
Test(jx, refuses_more_values_than_there_is_memory_for)
{
    auto_free char *many = flat(JX_MAX_VALUES / 2 - 1, "{}");
    auto_json json_t *value = parsed(many);
    cr_expect_eq(json_array_size(value), JX_MAX_VALUES / 2 - 1);
    auto_free char *more = flat(JX_MAX_VALUES / 2 + 1, "{}");
    expect_too_many(more);
    auto_free char *plain = flat(JX_MAX_VALUES + 1, "0");
    expect_too_many(plain);
    auto_free char *text = flat(1, "\"{,[,{,[,\"");
    auto_json json_t *one = parsed(text);
    cr_expect_eq(json_array_size(one), 1, "what is in a string is no value");
}

Test(jx, refuses_what_is_nested_too_deep)
{
    auto_free char *deepest = nested(JX_MAX_DEPTH);
    auto_json json_t *value = parsed(deepest);
    cr_expect_not_null(value);
    auto_free char *deeper = nested(JX_MAX_DEPTH + 1);
    expect_refused(deeper, strlen(deeper), ERR_TOO_LARGE);
    auto_free char *open = xmalloc(4001);
    memset(open, '[', 4000);
    expect_refused(open, 4000, ERR_TOO_LARGE);
}

Test(jx, parses_a_part_of_a_buffer)
{
    auto_json json_t *value = NULL;
    cr_assert_eq(jx_parse("[1]garbage", 3, 100, &value, NULL), 0);
    cr_expect_eq(json_array_size(value), 1);
}

Test(jx, says_where_the_text_is_wrong)
{
    json_t *value = NULL;
    auto_err struct err e = {0};
    cr_assert_eq(jx_parse("{\n \"a\": x}", 10, 100, &value, &e), -ERR_PROTOCOL);
    cr_expect_eq(strncmp(err_msg(&e), "JSON line 2, column", 19), 0, "%s", err_msg(&e));
}

Test(jx, names_a_key_that_nobody_knows)
{
    static const char *const known[] = {"a", "b", NULL};
    auto_json json_t *right = json_pack("{s:i, s:i}", "b", 1, "a", 2);
    auto_json json_t *wrong = json_pack("{s:i, s:i}", "a", 1, "ab", 2);
    cr_expect_null(jx_unknown_key(right, known));
    cr_expect_str_eq(jx_unknown_key(wrong, known), "ab");
}

Test(jx, dumps_compactly_with_sorted_keys)
{
    auto_json json_t *value = parsed(" { \"b\" : [ 1 , 2.5 ] , \"a\" : null } ");
    auto_free char *text = jx_dump(value);
    cr_expect_str_eq(text, "{\"a\":null,\"b\":[1,2.5]}");
}

Test(jx, the_length_of_a_value_is_up_to_its_own_bracket)
{
    static const struct {
        const char *text;
        size_t length;
    } cases[] = {
        {"{}", 2},
        {"[1, [2]] 3", 8},
        {"{\"a\": \"}\"}{}", 10},
        {"{\"\\\"}\": 1}", 10},
        {"{\"a", 0},
        {"{\"a\\", 0},
        {"", 0},
        {"1", 0},
        {" {}", 0},
        {"[{}", 0},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++)
        cr_expect_eq(jx_length(cases[i].text, strlen(cases[i].text)), cases[i].length, "%s",
                     cases[i].text);
}
