/* SPDX-License-Identifier: Apache-2.0 */
#include "base/jx.h"

#include <assert.h>
#include <limits.h>
#include <string.h>

#include "base/xalloc.h"

/* jansson's iterators want a mutable object although they only read. */
static json_t *iterable(const json_t *obj)
{
    union {
        const json_t *given;
        json_t *wanted;
    } u = {.given = obj};
    return u.wanted;
}

const json_t *jx_at(const json_t *obj, const char *const path[])
{
    for (size_t i = 0; path[i]; i++)
        obj = json_object_get(obj, path[i]);
    return json_is_null(obj) ? NULL : obj;
}

const char *jx_unknown_key(const json_t *obj, const char *const known[])
{
    const char *key;
    json_t *value;
    json_object_foreach(iterable(obj), key, value) {
        bool found = false;
        for (size_t i = 0; known[i] && !found; i++)
            found = strcmp(known[i], key) == 0;
        if (!found)
            return key;
    }
    return NULL;
}

static json_t *diff(const json_t *from, const json_t *to);

/* Adds to patch the members that `to` adds or changes. */
static void diff_changed(const json_t *from, const json_t *to, json_t *patch)
{
    const char *key;
    json_t *value;
    json_object_foreach(iterable(to), key, value) {
        if (json_is_null(value))
            continue;
        json_t *change = diff(json_object_get(from, key), value);
        if (change)
            (void)json_object_set_new(patch, key, change);
    }
}

/* Adds to patch, as null, the members that only `from` has. */
static void diff_removed(const json_t *from, const json_t *to, json_t *patch)
{
    const char *key;
    json_t *value;
    json_object_foreach(iterable(from), key, value) {
        const json_t *kept = json_object_get(to, key);
        if (!json_is_null(value) && (!kept || json_is_null(kept)))
            (void)json_object_set_new(patch, key, json_null());
    }
}

static json_t *diff(const json_t *from, const json_t *to)
{
    if (!json_is_object(from) || !json_is_object(to))
        return from && json_equal(from, to) ? NULL : json_deep_copy(to);
    auto_json json_t *patch = json_object();
    diff_changed(from, to, patch);
    diff_removed(from, to, patch);
    return json_object_size(patch) > 0 ? TAKE(patch) : NULL;
}

void jx_merge_diff(const json_t *from, const json_t *to, json_t **ret_patch)
{
    assert(to);
    *ret_patch = diff(from, to);
}

/* True when the byte at this position follows an odd number of backslashes. */
static bool is_escaped(const char *text, size_t pos)
{
    bool odd = false;
    while (text[--pos] == '\\')
        odd = !odd;
    return odd;
}

/* Skips the string that starts at text[pos]; returns the position of its last byte, or len. */
static size_t skip_string(const char *text, size_t len, size_t pos)
{
    do {
        const char *quote = memchr(text + pos + 1, '"', len - pos - 1);
        if (!quote)
            return len;
        pos = (size_t)(quote - text);
    } while (is_escaped(text, pos));
    return pos;
}

static bool opens(char c)
{
    return c == '[' || c == '{';
}

static bool closes(char c)
{
    return c == ']' || c == '}';
}

size_t jx_length(const char *text, size_t len)
{
    size_t depth = 0;
    if (len == 0 || !opens(*text))
        return 0;
    for (size_t pos = 0; pos < len; pos++) {
        if (text[pos] == '"')
            pos = skip_string(text, len, pos);
        else if (opens(text[pos]))
            depth++;
        else if (closes(text[pos]) && --depth == 0)
            return pos + 1;
    }
    return 0;
}

/* jansson recurses up to 2048 levels, and so does all code that walks a document afterwards. "{},"
 * takes 236 bytes of memory for its three bytes. */
static int check_shape(const char *text, size_t len, struct err *e)
{
    static const bool shapes[UCHAR_MAX + 1] =
        {['"'] = true, ['['] = true, [']'] = true, ['{'] = true, ['}'] = true, [','] = true};
    size_t depth = 0;
    size_t values = 1;
    for (size_t pos = 0; pos < len; pos++) {
        if (!shapes[(unsigned char)text[pos]])
            continue;
        if (text[pos] == '"')
            pos = skip_string(text, len, pos);
        else if (closes(text[pos]) && depth > 0)
            depth--;
        else if (opens(text[pos]))
            depth++;
        if (pos < len && (opens(text[pos]) || text[pos] == ','))
            values++;
        if (depth > JX_MAX_DEPTH)
            return err_set(e, ERR_TOO_LARGE, "JSON nested deeper than %d levels at byte %zu",
                           JX_MAX_DEPTH, pos);
        if (values > JX_MAX_VALUES)
            return err_set(e, ERR_TOO_LARGE, "JSON of more than %d values at byte %zu",
                           JX_MAX_VALUES, pos);
    }
    return 0;
}

/* The text with the replacement character for each character 0; NULL: it has none. Caller frees. A
 * backslash stands in strings only, and what follows it belongs to it. */
static char *replace_nul(const char *text, size_t len)
{
    static const char nul[] = "\\u0000";
    enum { ESCAPE_BYTES = sizeof(nul) - 1 };
    if (!memmem(text, len, nul, ESCAPE_BYTES))
        return NULL;
    char *copy = xmemdup(text, len);
    for (size_t i = 0; i + 1 < len; i++) {
        if (copy[i] != '\\')
            continue;
        if (len - i >= ESCAPE_BYTES && memcmp(copy + i, nul, ESCAPE_BYTES) == 0)
            memcpy(copy + i + 2, "fffd", 4);
        i++;
    }
    return copy;
}

int jx_parse(const char *text, size_t len, size_t max_bytes, json_t **ret, struct err *e)
{
    if (len > max_bytes)
        return err_set(e, ERR_TOO_LARGE, "JSON of %zu bytes, at most %zu are read", len, max_bytes);
    TRY(check_shape(text, len, e));
    json_error_t why;
    auto_free char *clean = replace_nul(text, len);
    /* Two keys may become one by the replacement; the last one counts. */
    size_t flags = clean ? JSON_DECODE_ANY : JSON_DECODE_ANY | JSON_REJECT_DUPLICATES;
    json_t *value = json_loadb(clean ? clean : text, len, flags, &why);
    if (!value)
        return err_set(e, ERR_PROTOCOL, "JSON line %d, column %d: %s", why.line, why.column,
                       why.text);
    *ret = value;
    return 0;
}

char *jx_dump(const json_t *value)
{
    char *text = json_dumps(value, JSON_COMPACT | JSON_SORT_KEYS | JSON_ENCODE_ANY);
    assert(text);
    return text;
}
