/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/jx_member.h"
#include "base/quantity.h"
#include "base/rfc3339.h"
#include "base/sb.h"
#include "base/xalloc.h"

/* The decoder of base/jx.h. */

/* A step of the path to the present value, for messages; lives on the stack, root last. */
struct path_step {
    const struct path_step *up;
    const char *field; /* NULL in lists and maps */
    const char *key;   /* in a map; NULL in lists */
    size_t index;
};

/* One field of one struct, and the path to it in the document. */
struct field_at {
    const struct jx_field *f;
    void *out;
    const struct path_step *at;
};

#define PATH_MAX_BYTES 1024
#define KEY_MAX_BYTES  128

static void store_int(const struct field_at *s, int64_t n)
{
    *(int64_t *)jx_member(s->out, s->f->offset) = n;
}

static void add_place(struct sb *b, const struct path_step *at)
{
    if (!at)
        return;
    add_place(b, at->up);
    if (at->field)
        sb_addf(b, ".%s", at->field);
    else if (at->key)
        sb_addf(b, "[\"%.*s\"]", KEY_MAX_BYTES, at->key);
    else
        sb_addf(b, "[%zu]", at->index);
}

static int fail_at(const struct path_step *at, struct err *e, const char *fmt, ...)
    PRINTF_LIKE(3, 4);

static int fail_at(const struct path_step *at, struct err *e, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    auto_free char *what = xvasprintf(fmt, ap);
    va_end(ap);
    auto_sb struct sb path = SB_INIT(PATH_MAX_BYTES);
    add_place(&path, at);
    return err_set(e, ERR_INVALID, "%s: %s", path.len ? sb_str(&path) : ".", what);
}

static const char *type_name(const json_t *v)
{
    switch (json_typeof(v)) {
    case JSON_OBJECT:
        return "an object";
    case JSON_ARRAY:
        return "a list";
    case JSON_STRING:
        return "a string";
    case JSON_INTEGER:
        return "an integer";
    case JSON_REAL:
        return "a fraction";
    case JSON_TRUE:
    case JSON_FALSE:
        return "a boolean";
    case JSON_NULL:
        return "null";
    }
    return "unknown";
}

static int wrong_type(const struct path_step *at, const json_t *v, const char *wanted,
                      struct err *e)
{
    return fail_at(at, e, "must be %s, is %s", wanted, type_name(v));
}

static int check_range(const struct field_at *s, int64_t n, struct err *e)
{
    if (s->f->min >= s->f->max || (n >= s->f->min && n <= s->f->max))
        return 0;
    return fail_at(s->at, e, "must be between %" PRId64 " and %" PRId64 ", is %" PRId64, s->f->min,
                   s->f->max, n);
}

static int check_size(const struct field_at *s, size_t size, int64_t max, const char *unit,
                      struct err *e)
{
    if (size < (size_t)s->f->min)
        return fail_at(s->at, e, "must have at least %" PRId64 " %s, has %zu", s->f->min, unit,
                       size);
    if (max && size > (size_t)max)
        return fail_at(s->at, e, "must have at most %" PRId64 " %s, has %zu", max, unit, size);
    return 0;
}

static int check_items(const struct field_at *s, size_t count, struct err *e)
{
    return check_size(s, count, s->f->max ? s->f->max : JX_MAX_ITEMS, "elements", e);
}

/* Decoders, one for each type. The value is not null, and the field's former contents are freed
 * already. */

static int decode_str(const struct field_at *s, json_t *v, struct err *e)
{
    if (!json_is_string(v))
        return wrong_type(s->at, v, "a string", e);
    TRY(check_size(s, json_string_length(v), s->f->max, "bytes", e));
    jx_store_ptr(jx_member(s->out, s->f->offset), xstrdup(json_string_value(v)));
    return 0;
}

static int unknown_choice(const struct field_at *s, const char *text, struct err *e)
{
    auto_sb struct sb list = SB_INIT(PATH_MAX_BYTES);
    for (size_t i = 0; s->f->choices[i]; i++)
        sb_addf(&list, "%s%s", i ? ", " : "", s->f->choices[i]);
    return fail_at(s->at, e, "must be one of %s, is \"%.*s\"", sb_str(&list), KEY_MAX_BYTES, text);
}

static int decode_enum(const struct field_at *s, json_t *v, struct err *e)
{
    const char *text = json_string_value(v);
    if (!text)
        return wrong_type(s->at, v, "a string", e);
    int choice = 0;
    while (s->f->choices[choice] && strcmp(s->f->choices[choice], text) != 0)
        choice++;
    if (!s->f->choices[choice])
        return unknown_choice(s, text, e);
    *(int *)jx_member(s->out, s->f->offset) = choice;
    return 0;
}

static int decode_int(const struct field_at *s, json_t *v, struct err *e)
{
    if (!json_is_integer(v))
        return wrong_type(s->at, v, "an integer", e);
    TRY(check_range(s, json_integer_value(v), e));
    store_int(s, json_integer_value(v));
    return 0;
}

static int decode_bool(const struct field_at *s, json_t *v, struct err *e)
{
    if (!json_is_boolean(v))
        return wrong_type(s->at, v, "a boolean", e);
    *(bool *)jx_member(s->out, s->f->offset) = json_is_true(v);
    return 0;
}

static int decode_quantity(const struct field_at *s, json_t *v, struct err *e)
{
    auto_err struct err why = {0};
    int64_t n = json_integer_value(v);
    if (json_is_string(v) && quantity_parse(json_string_value(v), &n, &why) < 0)
        return fail_at(s->at, e, "%s", err_msg(&why));
    if (!json_is_string(v) && !json_is_integer(v))
        return wrong_type(s->at, v, "a quantity", e);
    TRY(check_range(s, n, e));
    store_int(s, n);
    return 0;
}

static int decode_time(const struct field_at *s, json_t *v, struct err *e)
{
    if (!json_is_string(v))
        return wrong_type(s->at, v, "a time", e);
    auto_err struct err why = {0};
    int64_t ms;
    if (rfc3339_parse(json_string_value(v), &ms, &why) < 0)
        return fail_at(s->at, e, "%s", err_msg(&why));
    store_int(s, ms);
    return 0;
}

static int decode_fields(const json_t *obj, const struct jx_field *fields, void *out,
                         const struct path_step *at, struct err *e);

static int decode_object(const struct field_at *s, json_t *v, struct err *e)
{
    return decode_fields(v, s->f->sub, jx_member(s->out, s->f->offset), s->at, e);
}

static void *push(const struct field_at *s, size_t elem_bytes)
{
    return xgrow(jx_member(s->out, s->f->offset), jx_member(s->out, s->f->count_offset),
                 elem_bytes);
}

static int check_list(const struct field_at *s, const json_t *v, struct err *e)
{
    if (!json_is_array(v))
        return wrong_type(s->at, v, "a list", e);
    return check_items(s, json_array_size(v), e);
}

static int decode_list(const struct field_at *s, json_t *v, struct err *e)
{
    TRY(check_list(s, v, e));
    size_t i;
    json_t *item;
    json_array_foreach(v, i, item) {
        const struct path_step at = {.up = s->at, .index = i};
        TRY(decode_fields(item, s->f->sub, push(s, s->f->elem_bytes), &at, e));
    }
    return 0;
}

static int decode_str_list(const struct field_at *s, json_t *v, struct err *e)
{
    TRY(check_list(s, v, e));
    size_t i;
    json_t *item;
    json_array_foreach(v, i, item) {
        const struct path_step at = {.up = s->at, .index = i};
        if (!json_is_string(item))
            return wrong_type(&at, item, "a string", e);
        jx_store_ptr(push(s, sizeof(char *)), xstrdup(json_string_value(item)));
    }
    return 0;
}

static int decode_int_list(const struct field_at *s, json_t *v, struct err *e)
{
    TRY(check_list(s, v, e));
    size_t i;
    json_t *item;
    json_array_foreach(v, i, item) {
        const struct path_step at = {.up = s->at, .index = i};
        if (!json_is_integer(item))
            return wrong_type(&at, item, "an integer", e);
        *(int64_t *)push(s, sizeof(int64_t)) = json_integer_value(item);
    }
    return 0;
}

static int by_key(const void *a, const void *b)
{
    return strcmp(((const struct jx_pair *)a)->key, ((const struct jx_pair *)b)->key);
}

static bool has_type(const json_t *v, bool is_str)
{
    return is_str ? json_is_string(v) : json_is_integer(v);
}

static int decode_map(const struct field_at *s, json_t *v, struct err *e)
{
    if (!json_is_object(v))
        return wrong_type(s->at, v, "an object", e);
    TRY(check_items(s, json_object_size(v), e));
    bool is_str = s->f->type == JX_STR_MAP;
    const char *key;
    json_t *value;
    json_object_foreach(v, key, value) {
        const struct path_step at = {.up = s->at, .key = key};
        if (!has_type(value, is_str))
            return wrong_type(&at, value, is_str ? "a string" : "an integer", e);
        struct jx_pair *pair = push(s, sizeof(*pair));
        pair->key = xstrdup(key);
        pair->str = xstrdup(json_string_value(value));
        pair->num = json_integer_value(value);
    }
    if (json_object_size(v) > 0)
        qsort(jx_load_ptr(jx_member(s->out, s->f->offset)), jx_load_count(s->f, s->out),
              sizeof(struct jx_pair), by_key);
    return 0;
}

static int decode_int_or_str(const struct field_at *s, json_t *v, struct err *e)
{
    if (!json_is_integer(v))
        return json_is_string(v) ? decode_str(s, v, e)
                                 : wrong_type(s->at, v, "an integer or a string", e);
    char *text = xasprintf("%" JSON_INTEGER_FORMAT, json_integer_value(v));
    jx_store_ptr(jx_member(s->out, s->f->offset), text);
    return 0;
}

static int decode_any(const struct field_at *s, json_t *v, struct err *e)
{
    (void)e;
    jx_store_ptr(jx_member(s->out, s->f->offset), json_incref(v));
    return 0;
}

typedef int decode_fn(const struct field_at *s, json_t *v, struct err *e);

static decode_fn *const decoders[] = {
    [JX_STR] = decode_str,
    [JX_ENUM] = decode_enum,
    [JX_INT] = decode_int,
    [JX_BOOL] = decode_bool,
    [JX_QUANTITY] = decode_quantity,
    [JX_TIME] = decode_time,
    [JX_OBJECT] = decode_object,
    [JX_LIST] = decode_list,
    [JX_STR_LIST] = decode_str_list,
    [JX_INT_LIST] = decode_int_list,
    [JX_STR_MAP] = decode_map,
    [JX_INT_MAP] = decode_map,
    [JX_INT_OR_STR] = decode_int_or_str,
    [JX_ANY] = decode_any,
};

static int decode_field(const struct field_at *s, json_t *v, struct err *e)
{
    if (!v || json_is_null(v))
        return s->f->required ? fail_at(s->at, e, "required") : 0;
    assert(s->f->type > JX_END && (size_t)s->f->type < ARRAY_LEN(decoders));
    if (jx_owns_memory(s->f))
        jx_release(s->f, s->out);
    if (s->f->present_offset != JX_NO_OFFSET)
        *(bool *)jx_member(s->out, s->f->present_offset) = true;
    return decoders[s->f->type](s, v, e);
}

static int decode_fields(const json_t *obj, const struct jx_field *fields, void *out,
                         const struct path_step *at, struct err *e)
{
    if (!json_is_object(obj))
        return wrong_type(at, obj, "an object", e);
    for (const struct jx_field *f = fields; f->name; f++) {
        const struct path_step here = {.up = at, .field = f->name};
        TRY(decode_field(&(struct field_at){f, out, &here}, json_object_get(obj, f->name), e));
    }
    return 0;
}

int jx_decode(const json_t *obj, const struct jx_field *fields, void *out, struct err *e)
{
    if (!obj)
        return fail_at(/* at= */ NULL, e, "required");
    return decode_fields(obj, fields, out, /* at= */ NULL, e);
}
