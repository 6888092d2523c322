/* SPDX-License-Identifier: Apache-2.0 */
#include "kubectl/exposition.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

const char *exposition_label(const struct exposition_sample *s, const char *name)
{
    for (size_t i = 0; i < s->n; i++)
        if (strcmp(s->labels[i].name, name) == 0)
            return s->labels[i].value;
    return NULL;
}

static char *skip_blanks(char *at)
{
    return at + strspn(at, " \t");
}

/* The end of a name; at itself where there is none. */
static char *name_end(char *at)
{
    if (isdigit((unsigned char)*at))
        return at;
    while (isalnum((unsigned char)*at) || *at == '_' || *at == ':')
        at++;
    return at;
}

/* Takes the escapes out of a quoted value in place, at standing behind its first quote. Returns
 * what follows the last one; NULL: there is none. */
static char *unquote(char *at)
{
    char *to = at;
    for (; *at && *at != '"'; at++) {
        if (*at == '\\' && at[1])
            *to++ = *++at == 'n' ? '\n' : *at;
        else
            *to++ = *at;
    }
    if (!*at)
        return NULL;
    *to = '\0';
    return at + 1;
}

/* Reads one `name="value"`. Returns what follows it; NULL: it is none. */
static char *read_label(char *at, struct exposition_sample *s)
{
    char *end = name_end(at);
    char *sign = skip_blanks(end);
    char *quote = *sign == '=' ? skip_blanks(sign + 1) : sign;
    if (end == at || *quote != '"' || s->n == EXPOSITION_MAX_LABELS)
        return NULL;
    *end = '\0';
    s->labels[s->n++] = (struct exposition_label){at, quote + 1};
    return unquote(quote + 1);
}

/* Reads what stands in the braces. Returns what follows them. */
static char *read_labels(char *at, struct exposition_sample *s)
{
    at = skip_blanks(at);
    while (at && *at != '}') {
        at = read_label(at, s);
        at = at ? skip_blanks(at) : NULL;
        if (at && *at == ',')
            at = skip_blanks(at + 1);
        else if (at && *at != '}')
            return NULL;
    }
    return at ? at + 1 : NULL;
}

static bool read_value(const char *at, struct exposition_sample *s)
{
    char *end;
    s->value = strtod(at, &end);
    return end != at && (*end == '\0' || *end == ' ' || *end == '\t' || *end == '\r');
}

/* False: the line is no sample. */
static bool read_sample(char *line, struct exposition_sample *s)
{
    char *end = name_end(line);
    char *rest = skip_blanks(end);
    bool has_labels = *rest == '{';
    s->name = line;
    s->n = 0;
    if (end == line || (rest == end && !has_labels))
        return false;
    if (has_labels)
        rest = read_labels(rest + 1, s);
    if (!rest)
        return false;
    *end = '\0';
    return read_value(skip_blanks(rest), s);
}

int exposition_each(char *text, exposition_fn *fn, void *arg, struct err *e)
{
    size_t number = 0;
    struct exposition_sample s;
    for (char *line = text, *next; line; line = next) {
        next = strchr(line, '\n');
        if (next)
            *next++ = '\0';
        number++;
        line = skip_blanks(line);
        if (*line == '\0' || *line == '\r' || *line == '#')
            continue;
        if (!read_sample(line, &s))
            return err_set(e, ERR_PROTOCOL, "line %zu of the metrics is no sample", number);
        TRY(fn(arg, &s, e));
    }
    return 0;
}
