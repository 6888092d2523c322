/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <string.h>

#include "base/jx.h"

/*
 * Input: one JSON document a line, at most two. What parses must dump and parse back equal; what
 * decodes must encode and decode back equal; a merge patch from the first to the second must do
 * what it says.
 */
#define MAX_BYTES (1UL << 20)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static const char *const words[] = {"zero", "one", NULL};

struct leaf {
    char *name;
    int64_t number;
};

struct all {
    char *str, *limit;
    int word;
    int64_t number, amount, when;
    bool yes, has_leaf;
    struct leaf leaf;
    struct leaf *leaves;
    char **strs;
    int64_t *numbers;
    struct jx_pair *labels, *counts;
    size_t n_leaves, n_strs, n_numbers, n_labels, n_counts;
    json_t *any;
};

static const struct jx_field leaf_fields[] = {
    JX_F(leaf, name, "name", JX_STR, .required = true, .max = 8),
    JX_F(leaf, number, "number", JX_INT, .min = 1, .max = 9),
    {0},
};

static const struct jx_field all_fields[] = {
    JX_F(all, str, "s", JX_STR),
    JX_F(all, limit, "x", JX_INT_OR_STR),
    JX_F(all, word, "w", JX_ENUM, .choices = words),
    JX_F(all, number, "i", JX_INT),
    JX_F(all, amount, "q", JX_QUANTITY),
    JX_F(all, when, "t", JX_TIME),
    JX_F(all, yes, "b", JX_BOOL),
    JX_P(all, leaf, has_leaf, "o", JX_OBJECT, .sub = leaf_fields),
    JX_L(all, leaves, n_leaves, "l", JX_LIST, .sub = leaf_fields,
         .elem_bytes = sizeof(struct leaf)),
    JX_L(all, strs, n_strs, "sl", JX_STR_LIST),
    JX_L(all, numbers, n_numbers, "il", JX_INT_LIST, .max = 4),
    JX_L(all, labels, n_labels, "sm", JX_STR_MAP),
    JX_L(all, counts, n_counts, "im", JX_INT_MAP),
    JX_F(all, any, "a", JX_ANY),
    {0},
};

static void check_text(const json_t *value)
{
    auto_free char *text = jx_dump(value);
    auto_json json_t *again = NULL;
    int rc = jx_parse(text, strlen(text), SIZE_MAX, &again, NULL);
    assert(rc == 0 && json_equal(value, again));
}

static void check_table(const json_t *value)
{
    struct all first = {0};
    struct all second = {0};
    auto_err struct err e = {0};
    int rc = jx_decode(value, all_fields, &first, &e);
    assert((rc < 0) == (e.msg != NULL));
    if (rc == 0) {
        auto_json json_t *obj = jx_encode(all_fields, &first);
        rc = jx_decode(obj, all_fields, &second, NULL);
        auto_json json_t *again = jx_encode(all_fields, &second);
        assert(rc == 0 && json_equal(obj, again));
    }
    jx_free(all_fields, &first);
    jx_free(all_fields, &second);
}

/* A merge patch can neither carry nor keep null in objects. */
static void strip_nulls(json_t *value)
{
    const char *key;
    json_t *part;
    void *next;
    json_object_foreach_safe(value, next, key, part) {
        if (json_is_null(part))
            (void)json_object_del(value, key);
        else
            strip_nulls(part);
    }
}

/* RFC 7396, section 2. New reference. */
static json_t *apply(const json_t *target, const json_t *patch)
{
    if (!json_is_object(patch))
        return json_deep_copy(patch);
    auto_json json_t *changes = json_deep_copy(patch);
    json_t *result = json_is_object(target) ? json_deep_copy(target) : json_object();
    const char *key;
    json_t *part;
    json_object_foreach(changes, key, part) {
        if (json_is_null(part))
            (void)json_object_del(result, key);
        else
            (void)json_object_set_new(result, key, apply(json_object_get(result, key), part));
    }
    return result;
}

static void check_diff(const json_t *given_from, const json_t *given_to)
{
    auto_json json_t *from = json_deep_copy(given_from);
    auto_json json_t *to = json_deep_copy(given_to);
    strip_nulls(from);
    strip_nulls(to);
    auto_json json_t *patch = NULL;
    jx_merge_diff(from, to, &patch);
    assert((patch == NULL) == json_equal(from, to));
    auto_json json_t *result = patch ? apply(from, patch) : json_incref(from);
    assert(json_equal(result, to));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    const char *text = (const char *)data;
    const char *line = len ? memchr(text, '\n', len) : NULL;
    size_t first = line ? (size_t)(line - text) : len;
    auto_err struct err e = {0};
    auto_json json_t *from = NULL;
    auto_json json_t *to = NULL;
    int rc = jx_parse(text, first, MAX_BYTES, &from, &e);
    assert((rc == 0) == (from != NULL) && (rc < 0) == (e.msg != NULL));
    if (!from)
        return 0;
    check_text(from);
    check_table(from);
    if (line && jx_parse(line + 1, len - first - 1, MAX_BYTES, &to, NULL) == 0)
        check_diff(from, to);
    return 0;
}
