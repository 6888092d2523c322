/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <string.h>

#include "base/jx.h"
#include "base/sb.h"
#include "base/xalloc.h"
#include "base/yaml.h"

static void expect_all(const char *yaml, const char *json)
{
    auto_json json_t *all = NULL;
    auto_err struct err e = {0};
    cr_assert_eq(yaml_load_all(yaml, strlen(yaml), &all, &e), 0, "%s: %s", yaml, err_msg(&e));
    auto_free char *text = jx_dump(all);
    cr_expect_str_eq(text, json);
}

static void expect_one(const char *yaml, const char *json)
{
    auto_json json_t *value = NULL;
    auto_err struct err e = {0};
    cr_assert_eq(yaml_load(yaml, strlen(yaml), &value, &e), 0, "%s: %s", yaml, err_msg(&e));
    auto_free char *text = jx_dump(value);
    cr_expect_str_eq(text, json);
}

static void refuse_bytes(const char *yaml, size_t len, enum err_kind kind, const char *message)
{
    json_t *all = NULL;
    auto_err struct err e = {0};
    cr_expect_eq(yaml_load_all(yaml, len, &all, &e), -(int)kind, "%s", yaml);
    cr_expect_null(all);
    if (message)
        cr_expect_str_eq(err_msg(&e), message);
}

static void refuse(const char *yaml, const char *message)
{
    refuse_bytes(yaml, strlen(yaml), ERR_INVALID, message);
}

Test(yaml, reads_what_people_write)
{
    expect_one(
        "version: v1\nmig-configs:\n  all-1g.10gb:\n  - devices: all\n    mig-enabled: true\n"
        "    mig-devices:\n      \"1g.10gb\": 7\n    device-filter: [\"0x233010DE\", '0x232110DE']\n",
        "{\"mig-configs\":{\"all-1g.10gb\":[{\"device-filter\":[\"0x233010DE\",\"0x232110DE\"],"
        "\"devices\":\"all\",\"mig-devices\":{\"1g.10gb\":7},\"mig-enabled\":true}]},\"version\":\"v1\"}");
}

Test(yaml, knows_the_core_schema)
{
    expect_one("[null, Null, ~, NULL, true, FALSE, 12, -3, +4, 0o17, 0x1F, 007]",
               "[null,null,null,null,true,false,12,-3,4,15,31,7]");
    expect_one("[1.5, -2., .5, 1e3, 12e-1]", "[1.5,-2.0,0.5,1000.0,1.2]");
    expect_one(
        "[yes, no, on, Off, y, 1_000, 0b1, 1:30, 2026-11-20, 1g.10gb, '12', \"true\", e3, ., -]",
        "[\"yes\",\"no\",\"on\",\"Off\",\"y\",\"1_000\",\"0b1\",\"1:30\",\"2026-11-20\",\"1g.10gb\",\"12\","
        "\"true\",\"e3\",\".\",\"-\"]");
    expect_one(
        "[!!str 12, !!int \"12\", !!float 1, !!bool 'true', !!null '', !!str , !!seq [], !!map {}]",
        "[\"12\",12,1.0,true,null,\"\",[],{}]");
    expect_one("a: |\n  x\n  y\nb: >-\n  p\n  q\n", "{\"a\":\"x\\ny\\n\",\"b\":\"p q\"}");
    expect_one("{1: a, true: b, ~: c}", "{\"1\":\"a\",\"true\":\"b\",\"~\":\"c\"}");
}

Test(yaml, reads_streams)
{
    expect_all("", "[]");
    expect_all("# nothing\n", "[]");
    expect_all("---\na: 1\n---\n---\n# empty\n---\n- 2\n...\n", "[{\"a\":1},[2]]");
}

Test(yaml, expands_anchors)
{
    expect_one("a: &x {k: [1]}\nb: *x\nc: &x 2\nd: *x\n",
               "{\"a\":{\"k\":[1]},\"b\":{\"k\":[1]},\"c\":2,\"d\":2}");
    refuse("a: *x\n", "YAML line 1, column 4: unknown anchor");
    refuse("&x [*x]", "YAML line 1, column 5: unknown anchor");
    refuse("&x 1\n---\n*x\n", "YAML line 3, column 1: unknown anchor");
}

Test(yaml, copies_what_an_alias_repeats)
{
    auto_json json_t *value = NULL;
    const char yaml[] = "a: &x {k: 1}\nb: *x\n";
    cr_assert_eq(yaml_load(yaml, strlen(yaml), &value, NULL), 0);
    cr_expect_neq(JX_AT(value, "a"), JX_AT(value, "b"));
}

Test(yaml, refuses_a_billion_laughs)
{
    struct sb b = SB_INIT(4096);
    sb_add(&b, "a0: &a0 lol\n");
    for (int i = 1; i < 10; i++) {
        sb_addf(&b, "a%d: &a%d [", i, i);
        for (int k = 0; k < 10; k++)
            sb_addf(&b, "*a%d,", i - 1);
        sb_add(&b, "]\n");
    }
    auto_free char *text = sb_take(&b);
    refuse_bytes(text, strlen(text), ERR_TOO_LARGE, NULL);
}

Test(yaml, refuses_what_cannot_be_meant)
{
    refuse("a: 1\nb: 2\na: 3\n", "YAML line 3, column 1: duplicate key");
    refuse("a: 1\n\"a\": 3\n", "YAML line 2, column 1: duplicate key");
    refuse("<<: {a: 1}\n", "YAML line 1, column 1: merge keys (<<) are not supported");
    refuse("? [a]\n: b\n", "YAML line 1, column 3: a key must be a plain text");
    refuse("a: !mine b\n", "YAML line 1, column 4: a tag that JSON has no type for");
    refuse("a: !!binary aGk=\n", NULL);
    refuse("!!set {a}\n", NULL);
    refuse("!!int x\n", "YAML line 1, column 1: the value does not have the type of its tag");
    refuse("9223372036854775808", "YAML line 1, column 1: the integer does not fit 64 bits");
    refuse(".nan", NULL);
    refuse("-.inf", NULL);
    refuse("1e999", NULL);
    refuse("\"\\0\"", NULL);
    refuse("\"a\\0b\": 1", NULL);
    refuse("a: b: c\n", NULL);
    refuse("a: [1\n", NULL);
    refuse("\ta: 1\n", NULL);
    refuse("a: \"\xff\"\n", NULL);
    refuse("a: @x\n", NULL);
    refuse_bytes("a\0b", 3, ERR_INVALID, NULL);
}

static char *nested(const char *open, size_t depth)
{
    struct sb b = SB_INIT(1 << 20);
    for (size_t i = 0; i < depth; i++)
        sb_add(&b, open);
    sb_add(&b, "1");
    return sb_take(&b);
}

Test(yaml, bounds_the_depth)
{
    auto_free char *deepest = nested("- ", JX_MAX_DEPTH);
    auto_json json_t *value = NULL;
    cr_expect_eq(yaml_load(deepest, strlen(deepest), &value, NULL), 0);
    auto_free char *deeper = nested("- ", JX_MAX_DEPTH + 1);
    refuse_bytes(deeper, strlen(deeper), ERR_TOO_LARGE, NULL);
    auto_free char *flow = nested("[", 100000);
    refuse_bytes(flow, strlen(flow), ERR_TOO_LARGE, NULL);
}

Test(yaml, aliases_do_not_add_up_to_more_depth)
{
    struct sb b = SB_INIT(1 << 16);
    sb_add(&b, "x: &a ");
    for (int i = 0; i < 40; i++)
        sb_add(&b, "[");
    for (int i = 0; i < 40; i++)
        sb_add(&b, "]");
    sb_add(&b, "\ny: ");
    for (int i = 0; i < 40; i++)
        sb_add(&b, "[");
    sb_add(&b, "*a");
    for (int i = 0; i < 40; i++)
        sb_add(&b, "]");
    auto_free char *text = sb_take(&b);
    refuse_bytes(text, strlen(text), ERR_TOO_LARGE, NULL);
}

static void expect_words(const char *yaml, const char *error)
{
    auto_err struct err e = {0};
    int rc = yaml_check_words(yaml, strlen(yaml), &e);
    cr_expect_eq(rc, error ? -ERR_INVALID : 0, "%s: %s", yaml, err_msg(&e));
    if (error)
        cr_expect_str_eq(err_msg(&e), error);
}

Test(yaml, finds_words_that_kubectl_reads_as_booleans)
{
    expect_words("a: [true, False, yEs, yes-it-is, \"y\", 'no', !!str off, 1]\n", NULL);
    expect_words("{\"json\": true}", NULL);
    expect_words("a: b\n---\nname: y\n",
                 "YAML line 3, column 7: kubectl reads y as a boolean: write it in quotes");
    expect_words("OFF: 1",
                 "YAML line 1, column 1: kubectl reads OFF as a boolean: write it in quotes");
    expect_words("a: [", NULL); /* no YAML: yaml_load_all says so */
}

/* Without a bound on the depth this takes hours. */
Test(yaml, looks_for_words_no_deeper_than_is_read, .timeout = 20)
{
    auto_free char *text = xmalloc(YAML_MAX_BYTES + 1);
    memset(text, '[', YAML_MAX_BYTES);
    text[YAML_MAX_BYTES] = '\0';
    expect_words(text, NULL);
}

Test(yaml, bounds_the_length)
{
    size_t len = YAML_MAX_BYTES + 1;
    auto_free char *text = xmalloc(len + 1);
    memset(text, ' ', len);
    refuse_bytes(text, len, ERR_TOO_LARGE, NULL);
}

Test(yaml, wants_exactly_one_document)
{
    json_t *value = NULL;
    auto_err struct err e = {0};
    cr_expect_eq(yaml_load("1\n---\n2\n", 8, &value, &e), -ERR_INVALID);
    cr_expect_str_eq(err_msg(&e), "one YAML document expected, found 2");
    cr_expect_eq(yaml_load("", 0, &value, &e), -ERR_INVALID);
    cr_expect_null(value);
}

static void expect_dump(const char *json, const char *yaml)
{
    auto_json json_t *value = NULL;
    cr_assert_eq(jx_parse(json, strlen(json), 1 << 20, &value, NULL), 0, "%s", json);
    auto_free char *text = yaml_dump(value);
    if (yaml)
        cr_expect_str_eq(text, yaml);
    auto_json json_t *again = NULL;
    auto_err struct err e = {0};
    cr_assert_eq(yaml_load_all(text, strlen(text), &again, &e), 0, "%s: %s", text, err_msg(&e));
    cr_expect(json_equal(json_array_get(again, 0), value), "%s", text);
}

Test(yaml, writes_blocks_that_read_back)
{
    expect_dump(
        "{\"b\":{\"x\":[1,-2.5,true,null,\"s\"]},\"a\":{},\"l\":[],\"m\":[[1],{\"k\":2}]}",
        "b:\n  x:\n  - 1\n  - -2.5\n  - true\n  - null\n  - s\na: {}\nl: []\nm:\n- - 1\n- k: 2\n");
    expect_dump(
        "[\"true\",\"Yes\",\"n\",\"12\",\"1g.10gb\",\"\",\" x\",\"x \",\"a: b\",\"#c\",\"~\",\"0x1\",\"1e3\",\"<<\","
        "\"a b\",\"all-1g.10gb\",\"/dev/x\",\"caf\xc3\xa9\",\"l1\\nl2\\n\",\"\\u0001\\u007f\\u0085\\u2028\\ufeff\","
        "\"\xf0\x9f\x98\x80\",\"'\",\"\\\"\",\"\\\\\",\"-\",\"- a\",\"null\",\"NaN\",\".nan\",\"@a\",\"%a\",\"a #b\"]",
        NULL);
    expect_dump("{\"1g.10gb\":2,\"yes\":\"no\",\"\":1,\"a\\nb\":2,\"<<\":3}",
                "\"1g.10gb\": 2\n\"yes\": \"no\"\n\"\": 1\n? \"a\\nb\"\n: 2\n\"<<\": 3\n");
    expect_dump("[1e100,0.1,-0.0,9223372036854775807]", NULL);
    expect_dump("\"top\"", NULL);
    expect_dump("7", NULL);
}

Test(yaml, writes_long_texts_and_keys_on_one_line)
{
    struct sb b = SB_INIT(1 << 16);
    sb_add(&b, "{\"");
    for (int i = 0; i < 300; i++)
        sb_add(&b, "key ");
    sb_add(&b, "x\":\"");
    for (int i = 0; i < 300; i++)
        sb_add(&b, "word ");
    sb_add(&b, "\"}");
    auto_free char *json = sb_take(&b);
    expect_dump(json, NULL);
}
