/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

#include "base/auto.h"
#include "base/err.h"

/*
 * JSON by shape, instead of chained getters. A decode table states once for each struct which JSON
 * field goes where. The same table drives decoding, freeing, and the test that compares our typed
 * views with the CRD schemas. "Absent", "wrong type" and "out of range" are different errors and
 * name the JSON path (.spec.devices[2].mode).
 *
 * Targets in the C struct, by type:
 *
 *   JX_STR        char *            owned copy; NULL when absent. min/max: bytes (0: no bound)
 *   JX_ENUM       int               index into choices; absent: the present value stays
 *   JX_INT        int64_t           min/max inclusive when min < max
 *   JX_BOOL       bool
 *   JX_QUANTITY   int64_t           quantity or integer, in base units (rounded up)
 *   JX_TIME       int64_t           RFC 3339 as Unix milliseconds
 *   JX_OBJECT     struct, inline    sub describes it; a `present` offset may be given
 *   JX_LIST       T *, size_t       array of sub structs: offset is the pointer's
 *   JX_STR_LIST   char **, size_t   array of owned strings
 *   JX_INT_LIST   int64_t *, size_t
 *   JX_STR_MAP    struct jx_pair *, size_t   object of strings, sorted by key
 *   JX_INT_MAP    struct jx_pair *, size_t   object of integers (num), sorted by key
 *   JX_INT_OR_STR char *            integer or string, kept as its text ("25%", "1")
 *   JX_ANY        json_t *          an owned reference, for values that are passed through
 *
 * Lists and maps are allocated by xgrow, so XPUSH may append to a decoded one.
 */
enum jx_type {
    JX_END,
    JX_STR,
    JX_ENUM,
    JX_INT,
    JX_BOOL,
    JX_QUANTITY,
    JX_TIME,
    JX_OBJECT,
    JX_LIST,
    JX_STR_LIST,
    JX_INT_LIST,
    JX_STR_MAP,
    JX_INT_MAP,
    JX_INT_OR_STR,
    JX_ANY,
};

struct jx_pair {
    char *key;
    char *str;   /* JX_STR_MAP */
    int64_t num; /* JX_INT_MAP */
};

#define JX_NO_OFFSET SIZE_MAX

struct jx_field {
    const char *name;
    enum jx_type type;
    bool required;
    bool keep_zero; /* zero and false are encoded too */
    size_t offset;
    size_t count_offset;   /* lists and maps */
    size_t present_offset; /* bool that is set when the field was present; JX_NO_OFFSET: none */
    size_t elem_bytes;     /* JX_LIST */
    int64_t min, max;      /* bounds by type; of lists and maps: elements (max 0: JX_MAX_ITEMS) */
    const char *const *choices; /* JX_ENUM, NULL-terminated */
    const struct jx_field *sub; /* JX_OBJECT, JX_LIST; NULL-name-terminated */
};

/* Bound of a list or map that states none. */
#define JX_MAX_ITEMS 4096

/* Table entries; S is the struct, m the member. Append `.required = true` and the like. JX_P also
 * names the bool member for the field's presence, JX_L the count of a list or map. */
#define JX_FIELD(S, m, js, t, present, ...)                                                        \
    {                                                                                              \
        .name = (js), .type = (t), .offset = offsetof(struct S, m), .present_offset = (present),   \
        ##__VA_ARGS__                                                                              \
    }
#define JX_F(S, m, js, t, ...)      JX_FIELD(S, m, js, t, JX_NO_OFFSET, ##__VA_ARGS__)
#define JX_P(S, m, has, js, t, ...) JX_FIELD(S, m, js, t, offsetof(struct S, has), ##__VA_ARGS__)
#define JX_L(S, m, n, js, t, ...)                                                                  \
    JX_FIELD(S, m, js, t, JX_NO_OFFSET, .count_offset = offsetof(struct S, n), ##__VA_ARGS__)

/* Decodes obj into *out, which the caller zeroed (or filled with defaults that jx_free may free).
 * Unknown fields are ignored, null counts as absent. On error *out holds the fields decoded so far
 * and must still be freed with jx_free. ERR_INVALID with the path. */
int jx_decode(const json_t *obj, const struct jx_field *fields, void *out,
              struct err *e) MUST_CHECK;

/* Frees everything that a decode with this table allocated, and zeroes the table's fields. */
void jx_free(const struct jx_field *fields, void *obj);

/* The reverse: a JSON object with the fields that are set. NULL strings are left out; empty lists,
 * maps and objects, zero numbers and false are left out unless `required` or `keep_zero`; enums are
 * written unless negative or their choice is "". A field with a presence member is written exactly
 * when that is set. New reference. */
json_t *jx_encode(const struct jx_field *fields, const void *obj);

/* The value at a path of object keys that ends with NULL; NULL when absent or null, or when an
 * inner value is no object. Borrowed. */
const json_t *jx_at(const json_t *obj, const char *const path[]);
#define JX_AT(obj, ...) jx_at(obj, (const char *const[]){__VA_ARGS__, NULL})
/* String at a path, or NULL when absent or no string. Borrowed. */
#define JX_STR_AT(obj, ...) json_string_value(JX_AT(obj, __VA_ARGS__))

/* A key of the object that is not in known, which ends with NULL; NULL when there is none. Borrowed
 * from obj. For files in which an unknown key must not become a silent default. */
const char *jx_unknown_key(const json_t *obj, const char *const known[]);

/* The bytes of the object or list that begins the text; 0: it begins with neither, or does not end.
 * What is in it is not looked at. */
size_t jx_length(const char *text, size_t len);

/* RFC 7396 merge patch that turns from into to. *ret_patch is a new reference, or NULL when they
 * are equal. Arrays are replaced whole. */
void jx_merge_diff(const json_t *from, const json_t *to, json_t **ret_patch);

/* Parses text strictly: at most max_bytes, nesting at most JX_MAX_DEPTH, no duplicate keys, nothing
 * after the value, and about JX_MAX_VALUES values: 46 MiB of memory where each is "{}". An object
 * of 1.5 MiB, the most that etcd keeps, has fewer, since a member takes eight bytes. The
 * character 0, which no C string holds, is read as U+FFFD: an API server keeps it in annotations
 * and messages, and one object must not keep a list from being read. ERR_TOO_LARGE, ERR_PROTOCOL
 * (with position). */
#define JX_MAX_DEPTH  64
#define JX_MAX_VALUES 200000
int jx_parse(const char *text, size_t len, size_t max_bytes, json_t **ret,
             struct err *e) MUST_CHECK;

/* Compact text with sorted keys. Caller frees. */
char *jx_dump(const json_t *value);
