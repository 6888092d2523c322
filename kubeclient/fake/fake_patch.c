/* SPDX-License-Identifier: Apache-2.0 */
#include "kubeclient/fake/fake_patch.h"

#include <string.h>

#include "base/auto.h"
#include "base/jx.h"
#include "base/num.h"
#include "base/xalloc.h"

json_t *fake_readable(const json_t *value)
{
    union {
        const json_t *given;
        json_t *wanted;
    } u = {.given = value};
    return u.wanted;
}

json_t *fake_merge_patch(const json_t *target, const json_t *patch)
{
    if (!json_is_object(patch))
        return json_deep_copy(patch);
    json_t *result = json_is_object(target) ? json_deep_copy(target) : json_object();
    const char *key;
    json_t *value;
    json_object_foreach(fake_readable(patch), key, value) {
        if (json_is_null(value))
            (void)json_object_del(result, key);
        else
            (void)json_object_set_new(result, key,
                                      fake_merge_patch(json_object_get(result, key), value));
    }
    return result;
}

/* ---- RFC 6902 ---- */

/* The next segment of a JSON pointer, "~1" and "~0" decoded; NULL at its end. Caller frees. */
static char *next_segment(const char **pointer)
{
    if (**pointer != '/')
        return NULL;
    const char *begin = ++*pointer;
    size_t len = strcspn(begin, "/");
    *pointer = begin + len;
    char *out = xstrndup(begin, len);
    char *to = out;
    for (const char *from = out; *from; from++) {
        bool escape = from[0] == '~' && (from[1] == '0' || from[1] == '1');
        *to++ = escape ? (from[1] == '0' ? '~' : '/') : *from;
        from += escape;
    }
    *to = '\0';
    return out;
}

/* Index of an array's element; its size for "-" (one after the last). -1: none. */
static int64_t index_of(const json_t *array, const char *segment)
{
    int64_t index = -1;
    int64_t size = (int64_t)json_array_size(array);
    if (!strcmp(segment, "-"))
        return size;
    return num_parse(segment, 0, size, &index, NULL) < 0 ? -1 : index;
}

static json_t *child_of(const json_t *node, const char *segment)
{
    if (json_is_object(node))
        return json_object_get(node, segment);
    int64_t index = json_is_array(node) ? index_of(node, segment) : -1;
    return index < 0 ? NULL : json_array_get(node, (size_t)index);
}

/* Finds the container that a pointer's last segment lies in. */
static json_t *find_parent(json_t *doc, const char *pointer, char **ret_last)
{
    json_t *node = doc;
    char *segment = next_segment(&pointer);
    while (segment && *pointer == '/' && node) {
        node = child_of(node, segment);
        free(segment);
        segment = next_segment(&pointer);
    }
    *ret_last = segment;
    return segment ? node : NULL;
}

static int put(json_t *parent, const char *last, const json_t *value, bool insert)
{
    json_t *copy = json_deep_copy(value);
    if (json_is_object(parent))
        return json_object_set_new(parent, last, copy);
    int64_t index = json_is_array(parent) ? index_of(parent, last) : -1;
    if (index < 0) {
        json_decref(copy);
        return -1;
    }
    return insert ? json_array_insert_new(parent, (size_t)index, copy)
                  : json_array_set_new(parent, (size_t)index, copy);
}

static int take_out(json_t *parent, const char *last)
{
    if (json_is_object(parent))
        return json_object_del(parent, last);
    int64_t index = json_is_array(parent) ? index_of(parent, last) : -1;
    return index < 0 ? -1 : json_array_remove(parent, (size_t)index);
}

static int replace_root(json_t **doc, const char *op, const json_t *value)
{
    if (!strcmp(op, "test"))
        return json_equal(*doc, value) ? 0 : -1;
    if (!value || !strcmp(op, "remove"))
        return -1;
    json_decref(*doc);
    *doc = json_deep_copy(value);
    return 0;
}

static int operate(json_t **doc, const char *op, const char *path, const json_t *value)
{
    if (!*path)
        return replace_root(doc, op, value);
    auto_free char *last = NULL;
    json_t *parent = find_parent(*doc, path, &last);
    if (!parent)
        return -1;
    const json_t *there = child_of(parent, last);
    if (!strcmp(op, "add"))
        return value ? put(parent, last, value, /* insert= */ true) : -1;
    if (!there)
        return -1;
    if (!strcmp(op, "test"))
        return json_equal(there, value) ? 0 : -1;
    if (!strcmp(op, "remove"))
        return take_out(parent, last);
    if (!strcmp(op, "replace"))
        return value ? put(parent, last, value, /* insert= */ false) : -1;
    return -1;
}

int fake_json_patch(json_t **doc, const json_t *operations, struct err *e)
{
    if (!json_is_array(operations))
        return err_set(e, ERR_INVALID, "a JSON patch is a list");
    size_t i;
    json_t *operation;
    json_array_foreach(fake_readable(operations), i, operation) {
        const char *op = JX_STR_AT(operation, "op");
        const char *path = JX_STR_AT(operation, "path");
        /* A null value is a value here. */
        if (!op || !path || operate(doc, op, path, json_object_get(operation, "value")) < 0)
            return err_set(e, ERR_INVALID,
                           "the server rejected our request: operation %zu (%s %s) of the patch", i,
                           op ? op : "?", path ? path : "?");
    }
    return 0;
}
