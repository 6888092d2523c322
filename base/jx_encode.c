/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <stdlib.h>

#include "base/jx_member.h"
#include "base/num.h"
#include "base/quantity.h"
#include "base/rfc3339.h"
#include "base/sb.h"
#include "base/xalloc.h"

/* The encoder of base/jx.h. */

#define STR_MAX_BYTES (size_t)(16 * 1024 * 1024)

/* Encoders: a new reference, or NULL to leave the field out. `forced`: write a zero too. */

/* Foreign text (a driver's, a file's) need not be UTF-8. */
static json_t *to_json_string(const char *text)
{
    json_t *plain = json_string(text);
    if (plain)
        return plain;
    auto_sb struct sb clean = SB_INIT(3 * STR_MAX_BYTES);
    sb_add_utf8(&clean, text, STR_MAX_BYTES);
    return json_string(sb_str(&clean));
}

static json_t *encode_str(const struct jx_field *f, const void *obj, bool forced)
{
    const char *text = jx_load_ptr(jx_const_member(obj, f->offset));
    (void)forced;
    return text ? to_json_string(text) : NULL;
}

static json_t *encode_enum(const struct jx_field *f, const void *obj, bool forced)
{
    int choice = *(const int *)jx_const_member(obj, f->offset);
    if (choice < 0)
        return NULL;
    for (int i = 0; i <= choice; i++)
        assert(f->choices[i]);
    return forced || f->choices[choice][0] ? json_string(f->choices[choice]) : NULL;
}

static json_t *encode_int(const struct jx_field *f, const void *obj, bool forced)
{
    int64_t n = jx_load_int(f, obj);
    return n || forced ? json_integer(n) : NULL;
}

static json_t *encode_bool(const struct jx_field *f, const void *obj, bool forced)
{
    bool on = *(const bool *)jx_const_member(obj, f->offset);
    return on || forced ? json_boolean(on) : NULL;
}

static json_t *encode_quantity(const struct jx_field *f, const void *obj, bool forced)
{
    int64_t n = jx_load_int(f, obj);
    auto_free char *text = quantity_format(n);
    return n || forced ? json_string(text) : NULL;
}

static json_t *encode_time(const struct jx_field *f, const void *obj, bool forced)
{
    char text[RFC3339_BYTES];
    int64_t ms = jx_load_int(f, obj);
    return ms || forced ? json_string(rfc3339_format(ms, text)) : NULL;
}

static json_t *encode_object(const struct jx_field *f, const void *obj, bool forced)
{
    auto_json json_t *sub = jx_encode(f->sub, jx_const_member(obj, f->offset));
    return forced || json_object_size(sub) > 0 ? TAKE(sub) : NULL;
}

static json_t *encode_list(const struct jx_field *f, const void *obj, bool forced)
{
    size_t count = jx_load_count(f, obj);
    if (!count && !forced)
        return NULL;
    const char *items = jx_load_ptr(jx_const_member(obj, f->offset));
    json_t *list = json_array();
    for (size_t i = 0; i < count; i++)
        (void)json_array_append_new(list, jx_encode(f->sub, items + i * f->elem_bytes));
    return list;
}

static json_t *encode_str_list(const struct jx_field *f, const void *obj, bool forced)
{
    size_t count = jx_load_count(f, obj);
    if (!count && !forced)
        return NULL;
    char *const *items = jx_load_ptr(jx_const_member(obj, f->offset));
    json_t *list = json_array();
    for (size_t i = 0; i < count; i++)
        (void)json_array_append_new(list, to_json_string(items[i]));
    return list;
}

static json_t *encode_int_list(const struct jx_field *f, const void *obj, bool forced)
{
    size_t count = jx_load_count(f, obj);
    if (!count && !forced)
        return NULL;
    const int64_t *items = jx_load_ptr(jx_const_member(obj, f->offset));
    json_t *list = json_array();
    for (size_t i = 0; i < count; i++)
        (void)json_array_append_new(list, json_integer(items[i]));
    return list;
}

static json_t *encode_map(const struct jx_field *f, const void *obj, bool forced)
{
    size_t count = jx_load_count(f, obj);
    if (!count && !forced)
        return NULL;
    const struct jx_pair *pairs = jx_load_ptr(jx_const_member(obj, f->offset));
    json_t *map = json_object();
    for (size_t i = 0; i < count; i++) {
        json_t *value = f->type == JX_INT_MAP ? json_integer(pairs[i].num)
                                              : to_json_string(pairs[i].str ? pairs[i].str : "");
        (void)json_object_set_new(map, pairs[i].key, value);
    }
    return map;
}

static json_t *encode_int_or_str(const struct jx_field *f, const void *obj, bool forced)
{
    const char *text = jx_load_ptr(jx_const_member(obj, f->offset));
    int64_t n;
    if (text && num_parse(text, INT64_MIN, INT64_MAX, &n, NULL) == 0)
        return json_integer(n);
    return encode_str(f, obj, forced);
}

static json_t *encode_any(const struct jx_field *f, const void *obj, bool forced)
{
    (void)forced;
    return json_incref(jx_load_ptr(jx_const_member(obj, f->offset)));
}

typedef json_t *encode_fn(const struct jx_field *f, const void *obj, bool forced);

static encode_fn *const encoders[] = {
    [JX_STR] = encode_str,
    [JX_ENUM] = encode_enum,
    [JX_INT] = encode_int,
    [JX_BOOL] = encode_bool,
    [JX_QUANTITY] = encode_quantity,
    [JX_TIME] = encode_time,
    [JX_OBJECT] = encode_object,
    [JX_LIST] = encode_list,
    [JX_STR_LIST] = encode_str_list,
    [JX_INT_LIST] = encode_int_list,
    [JX_STR_MAP] = encode_map,
    [JX_INT_MAP] = encode_map,
    [JX_INT_OR_STR] = encode_int_or_str,
    [JX_ANY] = encode_any,
};

static json_t *encode_field(const struct jx_field *f, const void *obj)
{
    assert(f->type > JX_END && (size_t)f->type < ARRAY_LEN(encoders));
    bool forced = f->required || f->keep_zero;
    if (f->present_offset != JX_NO_OFFSET) {
        forced = *(const bool *)jx_const_member(obj, f->present_offset);
        if (!forced)
            return NULL;
    }
    return encoders[f->type](f, obj, forced);
}

json_t *jx_encode(const struct jx_field *fields, const void *obj)
{
    json_t *out = json_object();
    for (const struct jx_field *f = fields; f->name; f++) {
        json_t *value = encode_field(f, obj);
        if (value)
            (void)json_object_set_new(out, f->name, value);
    }
    return out;
}
