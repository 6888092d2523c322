/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <inttypes.h>
#include <stdarg.h>
#include <string.h>

#include "base/jx.h"
#include "base/num.h"
#include "base/quantity.h"
#include "base/rfc3339.h"
#include "base/sb.h"
#include "base/xalloc.h"

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
#define STR_MAX_BYTES  (size_t)(16 * 1024 * 1024)

static void *member(void *out, size_t offset)
{
    return (char *)out + offset;
}

static const void *const_member(const void *obj, size_t offset)
{
    return (const char *)obj + offset;
}

/* Pointers of any type are copied in and out, which keeps to the aliasing rules. */
static void *load_ptr(const void *field)
{
    void *p;
    memcpy(&p, field, sizeof(p));
    return p;
}

static void store_ptr(void *field, void *p)
{
    memcpy(field, &p, sizeof(p));
}

static size_t load_count(const struct jx_field *f, const void *obj)
{
    return *(const size_t *)const_member(obj, f->count_offset);
}

static int64_t load_int(const struct jx_field *f, const void *obj)
{
    return *(const int64_t *)const_member(obj, f->offset);
}

static void store_int(const struct field_at *s, int64_t n)
{
    *(int64_t *)member(s->out, s->f->offset) = n;
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
    store_ptr(member(s->out, s->f->offset), xstrdup(json_string_value(v)));
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
    *(int *)member(s->out, s->f->offset) = choice;
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
    *(bool *)member(s->out, s->f->offset) = json_is_true(v);
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
    return decode_fields(v, s->f->sub, member(s->out, s->f->offset), s->at, e);
}

static void *push(const struct field_at *s, size_t elem_bytes)
{
    return xgrow(member(s->out, s->f->offset), member(s->out, s->f->count_offset), elem_bytes);
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
        store_ptr(push(s, sizeof(char *)), xstrdup(json_string_value(item)));
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
        qsort(load_ptr(member(s->out, s->f->offset)), load_count(s->f, s->out),
              sizeof(struct jx_pair), by_key);
    return 0;
}

static int decode_int_or_str(const struct field_at *s, json_t *v, struct err *e)
{
    if (!json_is_integer(v))
        return json_is_string(v) ? decode_str(s, v, e)
                                 : wrong_type(s->at, v, "an integer or a string", e);
    char *text = xasprintf("%" JSON_INTEGER_FORMAT, json_integer_value(v));
    store_ptr(member(s->out, s->f->offset), text);
    return 0;
}

static int decode_any(const struct field_at *s, json_t *v, struct err *e)
{
    (void)e;
    store_ptr(member(s->out, s->f->offset), json_incref(v));
    return 0;
}

/* Releasers: free the field's contents and zero it. */

static void release_heap(const struct jx_field *f, void *obj)
{
    free(load_ptr(member(obj, f->offset)));
    store_ptr(member(obj, f->offset), NULL);
}

static void release_int(const struct jx_field *f, void *obj)
{
    *(int64_t *)member(obj, f->offset) = 0;
}

static void release_enum(const struct jx_field *f, void *obj)
{
    *(int *)member(obj, f->offset) = 0;
}

static void release_bool(const struct jx_field *f, void *obj)
{
    *(bool *)member(obj, f->offset) = false;
}

static void release_object(const struct jx_field *f, void *obj)
{
    jx_free(f->sub, member(obj, f->offset));
}

static void release_array(const struct jx_field *f, void *obj)
{
    release_heap(f, obj);
    *(size_t *)member(obj, f->count_offset) = 0;
}

static void release_list(const struct jx_field *f, void *obj)
{
    char *items = load_ptr(member(obj, f->offset));
    for (size_t i = 0; i < load_count(f, obj); i++)
        jx_free(f->sub, items + i * f->elem_bytes);
    release_array(f, obj);
}

static void release_str_list(const struct jx_field *f, void *obj)
{
    char **items = load_ptr(member(obj, f->offset));
    for (size_t i = 0; i < load_count(f, obj); i++)
        free(items[i]);
    release_array(f, obj);
}

static void release_map(const struct jx_field *f, void *obj)
{
    struct jx_pair *pairs = load_ptr(member(obj, f->offset));
    for (size_t i = 0; i < load_count(f, obj); i++) {
        free(pairs[i].key);
        free(pairs[i].str);
    }
    release_array(f, obj);
}

static void release_any(const struct jx_field *f, void *obj)
{
    json_decref(load_ptr(member(obj, f->offset)));
    store_ptr(member(obj, f->offset), NULL);
}

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
    const char *text = load_ptr(const_member(obj, f->offset));
    (void)forced;
    return text ? to_json_string(text) : NULL;
}

static json_t *encode_enum(const struct jx_field *f, const void *obj, bool forced)
{
    int choice = *(const int *)const_member(obj, f->offset);
    if (choice < 0)
        return NULL;
    for (int i = 0; i <= choice; i++)
        assert(f->choices[i]);
    return forced || f->choices[choice][0] ? json_string(f->choices[choice]) : NULL;
}

static json_t *encode_int(const struct jx_field *f, const void *obj, bool forced)
{
    int64_t n = load_int(f, obj);
    return n || forced ? json_integer(n) : NULL;
}

static json_t *encode_bool(const struct jx_field *f, const void *obj, bool forced)
{
    bool on = *(const bool *)const_member(obj, f->offset);
    return on || forced ? json_boolean(on) : NULL;
}

static json_t *encode_quantity(const struct jx_field *f, const void *obj, bool forced)
{
    int64_t n = load_int(f, obj);
    auto_free char *text = quantity_format(n);
    return n || forced ? json_string(text) : NULL;
}

static json_t *encode_time(const struct jx_field *f, const void *obj, bool forced)
{
    char text[RFC3339_BYTES];
    int64_t ms = load_int(f, obj);
    return ms || forced ? json_string(rfc3339_format(ms, text)) : NULL;
}

static json_t *encode_object(const struct jx_field *f, const void *obj, bool forced)
{
    auto_json json_t *sub = jx_encode(f->sub, const_member(obj, f->offset));
    return forced || json_object_size(sub) > 0 ? TAKE(sub) : NULL;
}

static json_t *encode_list(const struct jx_field *f, const void *obj, bool forced)
{
    size_t count = load_count(f, obj);
    if (!count && !forced)
        return NULL;
    const char *items = load_ptr(const_member(obj, f->offset));
    json_t *list = json_array();
    for (size_t i = 0; i < count; i++)
        (void)json_array_append_new(list, jx_encode(f->sub, items + i * f->elem_bytes));
    return list;
}

static json_t *encode_str_list(const struct jx_field *f, const void *obj, bool forced)
{
    size_t count = load_count(f, obj);
    if (!count && !forced)
        return NULL;
    char *const *items = load_ptr(const_member(obj, f->offset));
    json_t *list = json_array();
    for (size_t i = 0; i < count; i++)
        (void)json_array_append_new(list, to_json_string(items[i]));
    return list;
}

static json_t *encode_int_list(const struct jx_field *f, const void *obj, bool forced)
{
    size_t count = load_count(f, obj);
    if (!count && !forced)
        return NULL;
    const int64_t *items = load_ptr(const_member(obj, f->offset));
    json_t *list = json_array();
    for (size_t i = 0; i < count; i++)
        (void)json_array_append_new(list, json_integer(items[i]));
    return list;
}

static json_t *encode_map(const struct jx_field *f, const void *obj, bool forced)
{
    size_t count = load_count(f, obj);
    if (!count && !forced)
        return NULL;
    const struct jx_pair *pairs = load_ptr(const_member(obj, f->offset));
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
    const char *text = load_ptr(const_member(obj, f->offset));
    int64_t n;
    if (text && num_parse(text, INT64_MIN, INT64_MAX, &n, NULL) == 0)
        return json_integer(n);
    return encode_str(f, obj, forced);
}

static json_t *encode_any(const struct jx_field *f, const void *obj, bool forced)
{
    (void)forced;
    return json_incref(load_ptr(const_member(obj, f->offset)));
}

struct codec {
    int (*decode)(const struct field_at *s, json_t *v, struct err *e);
    void (*release)(const struct jx_field *f, void *obj);
    json_t *(*encode)(const struct jx_field *f, const void *obj, bool forced);
};

static const struct codec codecs[] = {
    [JX_STR] = {decode_str, release_heap, encode_str},
    [JX_ENUM] = {decode_enum, release_enum, encode_enum},
    [JX_INT] = {decode_int, release_int, encode_int},
    [JX_BOOL] = {decode_bool, release_bool, encode_bool},
    [JX_QUANTITY] = {decode_quantity, release_int, encode_quantity},
    [JX_TIME] = {decode_time, release_int, encode_time},
    [JX_OBJECT] = {decode_object, release_object, encode_object},
    [JX_LIST] = {decode_list, release_list, encode_list},
    [JX_STR_LIST] = {decode_str_list, release_str_list, encode_str_list},
    [JX_INT_LIST] = {decode_int_list, release_array, encode_int_list},
    [JX_STR_MAP] = {decode_map, release_map, encode_map},
    [JX_INT_MAP] = {decode_map, release_map, encode_map},
    [JX_INT_OR_STR] = {decode_int_or_str, release_heap, encode_int_or_str},
    [JX_ANY] = {decode_any, release_any, encode_any},
};

static const struct codec *codec_of(const struct jx_field *f)
{
    assert(f->type > JX_END && (size_t)f->type < ARRAY_LEN(codecs));
    return &codecs[f->type];
}

static bool owns_memory(const struct jx_field *f)
{
    void (*release)(const struct jx_field *, void *) = codec_of(f)->release;
    return release != release_int && release != release_enum && release != release_bool &&
           release != release_object;
}

static int decode_field(const struct field_at *s, json_t *v, struct err *e)
{
    if (!v || json_is_null(v))
        return s->f->required ? fail_at(s->at, e, "required") : 0;
    if (owns_memory(s->f))
        codec_of(s->f)->release(s->f, s->out);
    if (s->f->present_offset != JX_NO_OFFSET)
        *(bool *)member(s->out, s->f->present_offset) = true;
    return codec_of(s->f)->decode(s, v, e);
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

void jx_free(const struct jx_field *fields, void *obj)
{
    for (const struct jx_field *f = fields; f->name; f++) {
        codec_of(f)->release(f, obj);
        if (f->present_offset != JX_NO_OFFSET)
            *(bool *)member(obj, f->present_offset) = false;
    }
}

static json_t *encode_field(const struct jx_field *f, const void *obj)
{
    bool forced = f->required || f->keep_zero;
    if (f->present_offset != JX_NO_OFFSET) {
        forced = *(const bool *)const_member(obj, f->present_offset);
        if (!forced)
            return NULL;
    }
    return codec_of(f)->encode(f, obj, forced);
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
