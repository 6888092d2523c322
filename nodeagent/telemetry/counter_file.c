/* SPDX-License-Identifier: Apache-2.0 */
#include "nodeagent/telemetry/counter_file.h"

#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/sb.h"
#include "base/xalloc.h"

enum { FIELDS = 3 };

void counter_list_done(struct counter_list *l)
{
    for (size_t i = 0; i < l->n; i++)
        free(l->items[i].help);
    for (size_t i = 0; i < l->n_notices; i++)
        free(l->notices[i].name);
    free(l->items);
    free(l->notices);
    *l = (struct counter_list){0};
}

void counter_list_add(struct counter_list *l, const struct dcgm_field *f)
{
    *XPUSH(l->items, l->n) =
        (struct counter){.field = f, .is_counter = f->is_counter, .help = xstrdup(f->help)};
}

void counter_list_default(struct counter_list *ret)
{
    *ret = (struct counter_list){.has_driver_version = true};
    for (size_t i = 0; i < dcgm_n_fields; i++)
        if (dcgm_fields[i].is_default)
            counter_list_add(ret, &dcgm_fields[i]);
}

uint64_t counter_list_values(const struct counter_list *l)
{
    uint64_t set = 0;
    for (size_t i = 0; i < l->n; i++)
        set |= TELEMETRY_BIT(l->items[i].field->value);
    return set;
}

/* --- A line --- */

/* A line that is being read; `at` is a NUL-terminated copy of it. */
struct cursor {
    const char *at;
    size_t line;
};

static bool is_blank(char c)
{
    return c == ' ' || c == '\t';
}

static void skip_blanks(struct cursor *c)
{
    while (is_blank(*c->at))
        c->at++;
}

/* The text between quotes, in which two of them are one. */
static int read_quoted(struct cursor *c, struct sb *ret, struct err *e)
{
    for (c->at++;; c->at++) {
        if (!*c->at)
            return err_set(e, ERR_INVALID, "line %zu: a quote is not closed", c->line);
        if (*c->at == '"' && *++c->at != '"')
            break;
        sb_add_char(ret, *c->at);
    }
    skip_blanks(c);
    if (*c->at && *c->at != ',')
        return err_set(e, ERR_INVALID, "line %zu: text after a closed quote", c->line);
    return 0;
}

static void read_plain(struct cursor *c, struct sb *ret)
{
    const char *from = c->at;
    while (*c->at && *c->at != ',')
        c->at++;
    const char *end = c->at;
    while (end > from && is_blank(end[-1]))
        end--;
    sb_add_mem(ret, from, (size_t)(end - from));
}

/* Caller frees *ret. */
static int read_field(struct cursor *c, char **ret, struct err *e)
{
    auto_sb struct sb text = SB_INIT(COUNTER_FILE_MAX_LINE);
    skip_blanks(c);
    if (*c->at == '"')
        TRY(read_quoted(c, &text, e));
    else
        read_plain(c, &text);
    *ret = sb_take(&text);
    return 0;
}

struct fields {
    char *of[FIELDS];
};

static void fields_done(struct fields *f)
{
    for (size_t i = 0; i < FIELDS; i++)
        free(f->of[i]);
}
AUTO_DEFINE(fields, struct fields, fields_done)

static int read_fields(struct cursor *c, struct fields *ret, struct err *e)
{
    for (size_t i = 0; i < FIELDS; i++) {
        TRY(read_field(c, &ret->of[i], e));
        bool more = *c->at == ',';
        if (more != (i + 1 < FIELDS))
            return err_set(e, ERR_INVALID,
                           "line %zu: it takes three fields with commas between: a field of DCGM, "
                           "gauge, counter or label, and a text (in quotes where it has commas)",
                           c->line);
        c->at += more;
    }
    return 0;
}

/* --- The meaning of a line --- */

static void note(struct counter_list *l, const struct cursor *c, const char *name, const char *why)
{
    *XPUSH(l->notices, l->n_notices) =
        (struct counter_notice){.line = c->line, .name = xstrdup(name), .why = why};
}

static void take_label(struct counter_list *l, const struct cursor *c, const char *name)
{
    if (strcmp(name, DCGM_DRIVER_VERSION) == 0)
        l->has_driver_version = true;
    else
        note(l, c, name, "this label is not known here");
}

static bool has(const struct counter_list *l, const struct dcgm_field *f)
{
    for (size_t i = 0; i < l->n; i++)
        if (l->items[i].field == f)
            return true;
    return false;
}

static void take_metric(struct counter_list *l, const struct cursor *c, const char *name,
                        bool is_counter, const char *help)
{
    const struct dcgm_field *f = dcgm_field_find(name);
    if (!f) {
        note(l, c, name, "this field is not measured here");
    } else if (has(l, f)) {
        note(l, c, name, "this field was listed before");
    } else {
        auto_sb struct sb clean = SB_INIT(3 * (size_t)COUNTER_FILE_MAX_LINE);
        sb_add_utf8(&clean, help, COUNTER_FILE_MAX_LINE);
        *XPUSH(l->items, l->n) =
            (struct counter){.field = f, .is_counter = is_counter, .help = sb_take(&clean)};
    }
}

static int take_fields(struct counter_list *l, const struct cursor *c, const struct fields *f,
                       struct err *e)
{
    const char *name = f->of[0];
    const char *type = f->of[1];
    if (!*name)
        return err_set(e, ERR_INVALID, "line %zu: the name of a field is missing", c->line);
    if (l->n + l->n_notices >= COUNTER_FILE_MAX)
        return err_set(e, ERR_TOO_LARGE, "line %zu: more than %d counters", c->line,
                       (int)COUNTER_FILE_MAX);
    if (strcmp(type, "label") == 0)
        take_label(l, c, name);
    else if (strcmp(type, "gauge") == 0 || strcmp(type, "counter") == 0)
        take_metric(l, c, name, *type == 'c', f->of[2]);
    else
        return err_set(e, ERR_INVALID, "line %zu: the type must be gauge, counter or label",
                       c->line);
    return 0;
}

static int take_line(struct counter_list *l, const char *text, size_t len, size_t line,
                     struct err *e)
{
    __attribute__((cleanup(auto_done_fields))) struct fields fields = {0};
    if (len > COUNTER_FILE_MAX_LINE)
        return err_set(e, ERR_TOO_LARGE, "line %zu: longer than %d bytes", line,
                       (int)COUNTER_FILE_MAX_LINE);
    if (memchr(text, '\0', len))
        return err_set(e, ERR_INVALID, "line %zu: a NUL byte", line);
    if (len > 0 && text[len - 1] == '\r')
        len--;
    auto_free char *copy = xstrndup(text, len);
    struct cursor c = {copy, line};
    skip_blanks(&c);
    if (!*c.at || *c.at == '#')
        return 0;
    TRY(read_fields(&c, &fields, e));
    return take_fields(l, &c, &fields, e);
}

static int take_text(struct counter_list *l, const char *text, size_t len, struct err *e)
{
    const char *end = text + len;
    if (len > COUNTER_FILE_MAX_BYTES)
        return err_set(e, ERR_TOO_LARGE, "longer than %d bytes", (int)COUNTER_FILE_MAX_BYTES);
    for (size_t line = 1; text < end; line++) {
        const char *stop = memchr(text, '\n', (size_t)(end - text));
        stop = stop ? stop : end;
        TRY(take_line(l, text, (size_t)(stop - text), line, e));
        text = stop + 1;
    }
    return 0;
}

int counter_list_parse(const char *text, size_t len, struct counter_list *ret, struct err *e)
{
    auto_counter_list struct counter_list l = {0};
    TRY(take_text(&l, text, len, e));
    *ret = l;
    l = (struct counter_list){0};
    return 0;
}

int counter_list_load(const char *path, struct counter_list *ret, struct err *e)
{
    auto_free char *text = NULL;
    size_t len = 0;
    TRY(file_read(path, COUNTER_FILE_MAX_BYTES, &text, &len, e));
    int rc = counter_list_parse(text, len, ret, e);
    return rc < 0 ? err_wrap(e, "%s", file_title(path)) : 0;
}
