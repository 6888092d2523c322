/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/ptx.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/ptx_words.h"

#define MAX_VARIABLE WORDS_MAX_NUMBER

/* --- Types and variables --- */

static const struct {
    const char *name;
    uint32_t bytes;
} types[] = {
    {".b8", 1},    {".u8", 1},    {".s8", 1},     {".b16", 2},        {".u16", 2},     {".s16", 2},
    {".f16", 2},   {".bf16", 2},  {".b32", 4},    {".u32", 4},        {".s32", 4},     {".f32", 4},
    {".f16x2", 4}, {".tf32", 4},  {".bf16x2", 4}, {".b64", 8},        {".u64", 8},     {".s64", 8},
    {".f64", 8},   {".b128", 16}, {".texref", 8}, {".samplerref", 8}, {".surfref", 8},
};

static uint32_t type_bytes(const struct words *r)
{
    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
        if (words_at(r, types[i].name))
            return types[i].bytes;
    }
    return 0;
}

/* A declaration from behind its state space up to its name: "[.align N] [.vN] .type". The .align
 * that follows .ptr is of what a parameter points to. */
struct type {
    uint64_t element, align;
    bool is_u64;
};

static struct type type(struct words *r)
{
    struct type t = {0};
    uint64_t said = 0;
    uint64_t lanes = 1;
    bool is_pointer = false;
    while (!words_over(r) && words_directive(r)) {
        uint32_t bytes = type_bytes(r);
        if (bytes > 0)
            t = (struct type){.element = bytes, .is_u64 = words_at(r, ".u64")};
        is_pointer = is_pointer || words_at(r, ".ptr");
        lanes = words_at(r, ".v2") ? 2 : words_at(r, ".v4") ? 4 : lanes;
        if (!words_take(r, ".align")) {
            words_next(r);
            continue;
        }
        uint64_t align = words_number(r);
        said = is_pointer ? said : align;
    }
    t.element *= lanes;
    t.align = said > 0 ? said : t.element;
    if (t.element == 0)
        words_fail(r, "a type is missing");
    if ((t.align & (t.align - 1)) != 0)
        words_fail(r, "the alignment is no power of two");
    return t;
}

/* The dimensions behind a name: the number of elements, 0 where the first is left open. */
static uint64_t dimensions(struct words *r)
{
    uint64_t count = 1;
    while (!r->failed && words_take(r, "[")) {
        uint64_t n = words_at(r, "]") ? 0 : words_number(r);
        words_expect(r, "]");
        if (__builtin_mul_overflow(count, n, &count) || count > MAX_VARIABLE)
            words_fail(r, "too many elements");
    }
    return count;
}

/* Skips "= ..." up to the sign behind it; the number of its elements. */
static uint64_t initial(struct words *r)
{
    uint64_t count = 0;
    unsigned int depth = 0;
    if (!words_take(r, "="))
        return 0;
    while (!words_over(r) && (depth > 0 || (!words_at(r, ";") && !words_at(r, ",")))) {
        bool opens = words_at(r, "{");
        bool closes = words_at(r, "}");
        if (closes && depth == 0)
            break;
        count += !opens && !closes && !words_at(r, ",") && !words_at(r, "-");
        depth += opens;
        depth -= closes;
        words_next(r);
    }
    return count;
}

static uint64_t bytes_of(struct words *r, const struct type *t, uint64_t count)
{
    uint64_t bytes = 0;
    if (__builtin_mul_overflow(t->element, count, &bytes) || bytes > MAX_VARIABLE)
        words_fail(r, "a variable is too large");
    return bytes;
}

/* --- Lists --- */

/* Room for one more element at the end of a list that doubles. */
static void *grow(struct words *r, void *list, size_t count, size_t size, size_t limit)
{
    if ((count & (count - 1)) != 0)
        return list;
    void *more = count < limit ? realloc(list, (count > 0 ? count * 2 : 1) * size) : NULL;
    if (more == NULL)
        words_fail(r, "too many declarations");
    return more != NULL ? more : list;
}

static void add_variable(struct words *r, struct ptx *p, const struct ptx_variable *v)
{
    p->variables = grow(r, p->variables, p->variable_count, sizeof(*p->variables), PTX_MAX_ITEMS);
    if (r->failed)
        free(v->name);
    else
        p->variables[p->variable_count++] = *v;
}

/* .global and .const, behind that word: one or more names of one type. Without `p` they are read
 * and forgotten: another module's. */
static void variables(struct words *r, struct ptx *p)
{
    struct type t = type(r);
    do {
        struct ptx_variable v = {.align = t.align, .name = words_name(r)};
        uint64_t count = dimensions(r);
        uint64_t listed = initial(r);
        v.bytes = bytes_of(r, &t, count > 0 ? count : listed);
        if (r->failed || p == NULL)
            free(v.name);
        else
            add_variable(r, p, &v);
    } while (!r->failed && words_take(r, ","));
    words_expect(r, ";");
}

/* --- Entries --- */

static void param(struct words *r, struct ptx_entry *e)
{
    words_expect(r, ".param");
    struct type t = type(r);
    free(words_name(r));
    uint64_t bytes = bytes_of(r, &t, dimensions(r));
    uint64_t offset = (e->param_bytes + t.align - 1) & ~(t.align - 1);
    if (!r->failed && (bytes > PTX_MAX_PARAMS || offset + bytes > PTX_MAX_PARAMS))
        words_fail(r, "the parameters are too large");
    if (r->failed)
        return;
    e->params = grow(r, e->params, e->param_count, sizeof(*e->params), PTX_MAX_PARAMS);
    if (r->failed)
        return;
    e->params[e->param_count++] = (struct ptx_param){.offset = (uint32_t)offset,
                                                     .bytes = (uint32_t)bytes,
                                                     .is_u64 = t.is_u64};
    e->param_bytes = (uint32_t)(offset + bytes);
}

static void params(struct words *r, struct ptx_entry *e)
{
    if (!words_take(r, "(") || words_take(r, ")"))
        return;
    do
        param(r, e);
    while (!r->failed && words_take(r, ","));
    words_expect(r, ")");
}

/* What stands between an entry's parameters and its body. */
static void tuning(struct words *r, struct ptx_entry *e)
{
    while (!words_over(r) && !words_at(r, "{") && !words_at(r, ";")) {
        if (!words_take(r, ".maxntid") && !words_take(r, ".reqntid")) {
            words_next(r);
            continue;
        }
        uint64_t threads = words_number(r);
        while (!r->failed && words_take(r, ","))
            threads = threads < MAX_VARIABLE ? threads * (words_number(r) & 0xFFFF) : threads;
        e->max_threads = threads < UINT32_MAX ? (uint32_t)threads : UINT32_MAX;
    }
}

static void shared(struct words *r, struct ptx_entry *e)
{
    struct type t = type(r);
    do {
        free(words_name(r));
        uint64_t bytes = bytes_of(r, &t, dimensions(r));
        if (!r->failed)
            e->shared_bytes = ((e->shared_bytes + t.align - 1) & ~(t.align - 1)) + bytes;
        if (e->shared_bytes > MAX_VARIABLE)
            words_fail(r, "the shared variables are too large");
    } while (!r->failed && words_take(r, ","));
    words_expect(r, ";");
}

static void body(struct words *r, struct ptx_entry *e)
{
    unsigned int depth = 1;
    words_expect(r, "{");
    while (!words_over(r) && depth > 0) {
        if (words_take(r, ".shared")) {
            shared(r, e);
            continue;
        }
        depth += words_at(r, "{");
        depth -= words_at(r, "}");
        words_next(r);
    }
    if (depth > 0)
        words_fail(r, "a body is not closed");
}

static void free_entry(struct ptx_entry *e)
{
    free(e->name);
    free(e->params);
}

static bool has_entry(const struct ptx *p, const char *name_of)
{
    for (size_t i = 0; i < p->entry_count; i++) {
        if (strcmp(p->entries[i].name, name_of) == 0)
            return true;
    }
    return false;
}

static void entry(struct words *r, struct ptx *p)
{
    struct ptx_entry e = {.name = words_name(r)};
    params(r, &e);
    tuning(r, &e);
    bool is_declared = words_take(r, ";");
    if (!is_declared)
        body(r, &e);
    if (!r->failed && !is_declared && has_entry(p, e.name))
        words_fail(r, "an entry is there twice");
    if (!r->failed && !is_declared)
        p->entries = grow(r, p->entries, p->entry_count, sizeof(*p->entries), PTX_MAX_ITEMS);
    if (r->failed || is_declared)
        free_entry(&e);
    else
        p->entries[p->entry_count++] = e;
}

/* --- The module --- */

static void function(struct words *r)
{
    while (!words_over(r) && !words_at(r, ";") && !words_at(r, "{"))
        words_next(r);
    if (words_take(r, "{"))
        words_skip_block(r, "{", "}");
    else
        words_expect(r, ";");
}

static void skip_statement(struct words *r)
{
    while (!words_over(r) && !words_at(r, ";"))
        words_next(r);
    words_expect(r, ";");
}

/* .file NUMBER "name" [, time, size] */
static void file(struct words *r)
{
    (void)words_number(r);
    words_next(r);
    while (!r->failed && words_take(r, ","))
        (void)words_number(r);
}

static void section(struct words *r)
{
    words_next(r);
    words_expect(r, "{");
    words_skip_block(r, "{", "}");
}

static void statement(struct words *r, struct ptx *p)
{
    bool is_foreign = false;
    while (words_at(r, ".visible") || words_at(r, ".weak") || words_at(r, ".common") ||
           words_at(r, ".extern")) {
        is_foreign = is_foreign || words_at(r, ".extern");
        words_next(r);
    }
    if (words_take(r, ".entry"))
        entry(r, p);
    else if (words_take(r, ".func"))
        function(r);
    else if (words_take(r, ".global") || words_take(r, ".const"))
        variables(r, is_foreign ? NULL : p);
    else if (words_take(r, ".shared") || words_take(r, ".pragma") || words_take(r, ".alias") ||
             words_take(r, ".tex"))
        skip_statement(r);
    else if (words_take(r, ".file"))
        file(r);
    else if (words_take(r, ".section"))
        section(r);
    else
        words_fail(r, "a directive is not known");
}

/* "8.0" */
static void version(struct words *r, struct ptx *p)
{
    unsigned int major = 0;
    unsigned int minor = 0;
    char text[16] = "";
    if (r->length < sizeof(text))
        memcpy(text, r->word, r->length);
    if (sscanf(text, "%2u.%1u", &major, &minor) != 2)
        words_fail(r, "the version is missing");
    p->version = major * 10 + minor;
    words_next(r);
}

/* "sm_90a, debug" */
static void target(struct words *r, struct ptx *p)
{
    char text[16] = "";
    if (r->length < sizeof(text))
        memcpy(text, r->word, r->length);
    if (sscanf(text, "sm_%3u", &p->target) != 1)
        words_fail(r, "the target is missing");
    words_next(r);
    while (!r->failed && words_take(r, ","))
        words_next(r);
}

static void module(struct words *r, struct ptx *p)
{
    words_next(r);
    words_expect(r, ".version");
    version(r, p);
    words_expect(r, ".target");
    target(r, p);
    if (words_take(r, ".address_size") && words_number(r) != 64)
        words_fail(r, "addresses have 64 bits");
    while (!words_over(r))
        statement(r, p);
}

bool ptx_is(const char *text, size_t length)
{
    struct words r = {.at = text, .end = text + length, .line = 1};
    words_next(&r);
    return words_at(&r, ".version");
}

bool ptx_read(const char *text, size_t length, struct ptx *ret, char *reason, size_t reason_size)
{
    struct words r = {.at = text,
                      .end = text + length,
                      .word = text,
                      .line = 1,
                      .reason = reason,
                      .reason_size = reason_size};
    *ret = (struct ptx){0};
    if (length > PTX_MAX_BYTES)
        words_fail(&r, "the text is too long");
    else
        module(&r, ret);
    if (r.failed)
        ptx_done(ret);
    return !r.failed;
}

void ptx_done(struct ptx *p)
{
    for (size_t i = 0; i < p->entry_count; i++)
        free_entry(&p->entries[i]);
    for (size_t i = 0; i < p->variable_count; i++)
        free(p->variables[i].name);
    free(p->entries);
    free(p->variables);
    *p = (struct ptx){0};
}
