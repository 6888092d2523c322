/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <string.h>

#include "base/jx.h"

/*
 * The members of a struct that a decode table describes: where they are, and how they are
 * released. For the decoder and the encoder.
 */

static inline void *jx_member(void *out, size_t offset)
{
    return (char *)out + offset;
}

static inline const void *jx_const_member(const void *obj, size_t offset)
{
    return (const char *)obj + offset;
}

/* Pointers of any type are copied in and out, which keeps to the aliasing rules. */
static inline void *jx_load_ptr(const void *field)
{
    void *p;
    memcpy(&p, field, sizeof(p));
    return p;
}

static inline void jx_store_ptr(void *field, void *p)
{
    memcpy(field, &p, sizeof(p));
}

static inline size_t jx_load_count(const struct jx_field *f, const void *obj)
{
    return *(const size_t *)jx_const_member(obj, f->count_offset);
}

static inline int64_t jx_load_int(const struct jx_field *f, const void *obj)
{
    return *(const int64_t *)jx_const_member(obj, f->offset);
}

/* Frees the field's contents and zeroes it. */
void jx_release(const struct jx_field *f, void *obj);
/* True when the field holds memory of its own: jx_release is due before it is decoded anew. */
bool jx_owns_memory(const struct jx_field *f);
