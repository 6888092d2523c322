/* SPDX-License-Identifier: Apache-2.0 */
#include "base/jx_member.h"

#include <assert.h>
#include <stdlib.h>

#include "base/xalloc.h"

/* Releasers, one for each type: free the field's contents and zero it. */

static void release_heap(const struct jx_field *f, void *obj)
{
    free(jx_load_ptr(jx_member(obj, f->offset)));
    jx_store_ptr(jx_member(obj, f->offset), NULL);
}

static void release_int(const struct jx_field *f, void *obj)
{
    *(int64_t *)jx_member(obj, f->offset) = 0;
}

static void release_enum(const struct jx_field *f, void *obj)
{
    *(int *)jx_member(obj, f->offset) = 0;
}

static void release_bool(const struct jx_field *f, void *obj)
{
    *(bool *)jx_member(obj, f->offset) = false;
}

static void release_object(const struct jx_field *f, void *obj)
{
    jx_free(f->sub, jx_member(obj, f->offset));
}

static void release_array(const struct jx_field *f, void *obj)
{
    release_heap(f, obj);
    *(size_t *)jx_member(obj, f->count_offset) = 0;
}

static void release_list(const struct jx_field *f, void *obj)
{
    char *items = jx_load_ptr(jx_member(obj, f->offset));
    for (size_t i = 0; i < jx_load_count(f, obj); i++)
        jx_free(f->sub, items + i * f->elem_bytes);
    release_array(f, obj);
}

static void release_str_list(const struct jx_field *f, void *obj)
{
    char **items = jx_load_ptr(jx_member(obj, f->offset));
    for (size_t i = 0; i < jx_load_count(f, obj); i++)
        free(items[i]);
    release_array(f, obj);
}

static void release_map(const struct jx_field *f, void *obj)
{
    struct jx_pair *pairs = jx_load_ptr(jx_member(obj, f->offset));
    for (size_t i = 0; i < jx_load_count(f, obj); i++) {
        free(pairs[i].key);
        free(pairs[i].str);
    }
    release_array(f, obj);
}

static void release_any(const struct jx_field *f, void *obj)
{
    json_decref(jx_load_ptr(jx_member(obj, f->offset)));
    jx_store_ptr(jx_member(obj, f->offset), NULL);
}

typedef void release_fn(const struct jx_field *f, void *obj);

static release_fn *const releasers[] = {
    [JX_STR] = release_heap,        [JX_ENUM] = release_enum,    [JX_INT] = release_int,
    [JX_BOOL] = release_bool,       [JX_QUANTITY] = release_int, [JX_TIME] = release_int,
    [JX_OBJECT] = release_object,   [JX_LIST] = release_list,    [JX_STR_LIST] = release_str_list,
    [JX_INT_LIST] = release_array,  [JX_STR_MAP] = release_map,  [JX_INT_MAP] = release_map,
    [JX_INT_OR_STR] = release_heap, [JX_ANY] = release_any,
};

static release_fn *releaser_of(const struct jx_field *f)
{
    assert(f->type > JX_END && (size_t)f->type < ARRAY_LEN(releasers));
    return releasers[f->type];
}

void jx_release(const struct jx_field *f, void *obj)
{
    releaser_of(f)(f, obj);
}

bool jx_owns_memory(const struct jx_field *f)
{
    release_fn *release = releaser_of(f);
    return release != release_int && release != release_enum && release != release_bool &&
           release != release_object;
}

void jx_free(const struct jx_field *fields, void *obj)
{
    for (const struct jx_field *f = fields; f->name; f++) {
        jx_release(f, obj);
        if (f->present_offset != JX_NO_OFFSET)
            *(bool *)jx_member(obj, f->present_offset) = false;
    }
}
