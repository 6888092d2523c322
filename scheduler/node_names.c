/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler/node_names.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/auto.h"
#include "base/xalloc.h"

#define KEY   "NodeNames"
#define BLANK " \t\r\n"

/* The text is NUL-terminated at its end. */
static char *skip_blank(char *at)
{
    return at + strspn(at, BLANK);
}

/* at: behind the opening quote. Behind the closing one; NULL: there is none. */
static char *skip_string(char *at)
{
    for (; *at && *at != '"'; at++)
        if (*at == '\\' && at[1])
            at++;
    return *at ? at + 1 : NULL;
}

/* The list's opening bracket, where the string between from and to (behind its closing quote) is the key. */
static char *list_of_key(const char *from, char *to)
{
    size_t len = (size_t)(to - 1 - from);
    if (len != strlen(KEY) || strncasecmp(from, KEY, len) != 0)
        return NULL;
    char *at = skip_blank(to);
    if (*at != ':')
        return NULL;
    at = skip_blank(at + 1);
    return *at == '[' ? at : NULL;
}

static char *find_list(char *body)
{
    int depth = 0;
    for (char *at = body; at && *at; at++) {
        if (*at == '{' || *at == '[')
            depth++;
        else if (*at == '}' || *at == ']')
            depth--;
        if (*at != '"')
            continue;
        const char *from = at + 1;
        at = skip_string(at + 1);
        char *list = at && depth == 1 ? list_of_key(from, at) : NULL;
        if (list || !at)
            return list;
        at--;
    }
    return NULL;
}

struct found {
    char **ends; /* of the names, where the closing quotes are */
    size_t n_ends;
    const char **names;
    size_t n;
};

static void found_done(struct found *f)
{
    free(f->ends);
    free(f->names);
}
AUTO_DEFINE(found, struct found, found_done)

static size_t plain(const char *text)
{
    size_t n = 0;
    while ((text[n] >= 'a' && text[n] <= 'z') || (text[n] >= '0' && text[n] <= '9') ||
           (text[n] >= 'A' && text[n] <= 'Z') || text[n] == '.' || text[n] == '-' || text[n] == '_')
        n++;
    return n;
}

/* at: behind the opening bracket. The closing one; NULL: it is no list of such names. */
static char *read_items(char *at, struct found *f)
{
    at = skip_blank(at);
    while (*at == '"') {
        size_t len = plain(at + 1);
        char *end = at + 1 + len;
        if (!len || *end != '"')
            return NULL;
        *XPUSH(f->names, f->n) = at + 1;
        *XPUSH(f->ends, f->n_ends) = end;
        at = skip_blank(end + 1);
        if (*at == ']')
            return at;
        if (*at != ',')
            return NULL;
        at = skip_blank(at + 1);
    }
    return *at == ']' && !f->n ? at : NULL;
}

bool node_names_take(char *body, size_t len, struct sb *rest, const char ***ret_names,
                     size_t *ret_n)
{
    AUTO(found) struct found f = {0};
    char *list = strlen(body) == len ? find_list(body) : NULL;
    const char *end = list ? read_items(list + 1, &f) : NULL;
    if (!end)
        return false;
    sb_add_mem(rest, body, (size_t)(list + 1 - body));
    sb_add(rest, end);
    for (size_t i = 0; i < f.n_ends; i++)
        *f.ends[i] = '\0';
    *ret_names = TAKE(f.names);
    *ret_n = f.n;
    return true;
}
