/* SPDX-License-Identifier: Apache-2.0 */
#include "nodeagent/container/toml_scan.h"

#include <assert.h>
#include <ctype.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/xalloc.h"

struct scan {
    const char *at, *end;
    unsigned line, depth; /* depth: of arrays and inline tables around the place */
    toml_fn *fn;
    void *arg;
    char *keys[TOML_MAX_DEPTH]; /* owned; the path of the place */
    size_t n_keys;
    char text[TOML_MAX_TEXT + 1]; /* the newest key or value */
    size_t len;
};

static int scan_value(struct scan *s, struct err *e);

/* --- Characters --- */

static bool is_over(const struct scan *s)
{
    assert(s->at <= s->end);
    return s->at == s->end;
}

/* '\0' at the end, and for that character itself, which is legal nowhere. */
static char peek(const struct scan *s)
{
    return is_over(s) ? '\0' : *s->at;
}

static bool take(struct scan *s, const char *what)
{
    size_t len = strlen(what);
    if ((size_t)(s->end - s->at) < len || memcmp(s->at, what, len) != 0)
        return false;
    s->at += len;
    s->line += what[0] == '\n';
    return true;
}

static void skip_blanks(struct scan *s)
{
    while (peek(s) == ' ' || peek(s) == '\t' || peek(s) == '\r')
        s->at++;
}

static void skip_comment(struct scan *s)
{
    while (!is_over(s) && *s->at != '\n')
        s->at++;
}

/* Blanks, comments and line ends. */
static void skip_lines(struct scan *s)
{
    for (;;) {
        skip_blanks(s);
        if (peek(s) == '#')
            skip_comment(s);
        if (!take(s, "\n"))
            return;
    }
}

static int refuse(const struct scan *s, const char *what, struct err *e)
{
    return err_set(e, ERR_INVALID, "line %u: %s", s->line, what);
}

/* --- Texts --- */

static int put(struct scan *s, char c, struct err *e)
{
    if (s->len >= TOML_MAX_TEXT)
        return err_set(e, ERR_TOO_LARGE, "line %u: a text of more than %d bytes", s->line,
                       TOML_MAX_TEXT);
    s->text[s->len++] = c;
    s->text[s->len] = '\0';
    return 0;
}

static void start_text(struct scan *s)
{
    s->len = 0;
    s->text[0] = '\0';
}

/* Up to the closing quotes. */
static int scan_quoted(struct scan *s, const char *quotes, struct err *e)
{
    bool escapes = quotes[0] == '"';
    bool long_text = strlen(quotes) == 3;
    start_text(s);
    while (!take(s, quotes)) {
        if (is_over(s) || (*s->at == '\n' && !long_text))
            return refuse(s, "a text without its end", e);
        if (escapes && (take(s, "\\\"") || take(s, "\\\\"))) {
            TRY(put(s, s->at[-1], e));
            continue;
        }
        s->line += *s->at == '\n';
        TRY(put(s, *s->at++, e));
    }
    return 0;
}

/* True when a quoted text begins here; *ret_quotes: those that end it. */
static bool take_quotes(struct scan *s, const char **ret_quotes)
{
    static const char *const kinds[] = {"\"\"\"", "'''", "\"", "'"};
    for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
        if (!take(s, kinds[i]))
            continue;
        *ret_quotes = kinds[i];
        return true;
    }
    return false;
}

static bool is_bare(char c)
{
    return isalnum((unsigned char)c) || (c && strchr("_-+.:", c));
}

static int scan_bare(struct scan *s, bool is_key, struct err *e)
{
    start_text(s);
    while (is_bare(peek(s)) && !(is_key && *s->at == '.'))
        TRY(put(s, *s->at++, e));
    return s->len ? 0 : refuse(s, is_key ? "a key is missing" : "a value is missing", e);
}

static int scan_text(struct scan *s, bool is_key, struct err *e)
{
    const char *quotes;
    return take_quotes(s, &quotes) ? scan_quoted(s, quotes, e) : scan_bare(s, is_key, e);
}

/* --- Keys --- */

static void cut_path(struct scan *s, size_t n)
{
    while (s->n_keys > n)
        free(s->keys[--s->n_keys]);
}

/* Adds a key such as plugins."io.containerd.grpc.v1.cri" to the path. */
static int scan_key(struct scan *s, struct err *e)
{
    do {
        skip_blanks(s);
        TRY(scan_text(s, /* is_key= */ true, e));
        if (s->n_keys == TOML_MAX_DEPTH)
            return err_set(e, ERR_TOO_LARGE, "line %u: tables nested deeper than %d", s->line,
                           TOML_MAX_DEPTH);
        s->keys[s->n_keys++] = xstrdup(s->text);
        skip_blanks(s);
    } while (take(s, "."));
    return 0;
}

/* --- Values --- */

static int scan_array(struct scan *s, struct err *e)
{
    for (;;) {
        skip_lines(s);
        if (take(s, "]"))
            return 0;
        TRY(scan_value(s, e));
        skip_lines(s);
        if (!take(s, ",") && peek(s) != ']')
            return refuse(s, "an array without its end", e);
    }
}

static int scan_pair(struct scan *s, struct err *e)
{
    size_t before = s->n_keys;
    TRY(scan_key(s, e));
    if (!take(s, "="))
        return refuse(s, "a key without a value", e);
    TRY(scan_value(s, e));
    cut_path(s, before);
    return 0;
}

static int scan_inline_table(struct scan *s, struct err *e)
{
    for (;;) {
        skip_lines(s);
        if (take(s, "}"))
            return 0;
        TRY(scan_pair(s, e));
        skip_lines(s);
        if (!take(s, ",") && peek(s) != '}')
            return refuse(s, "an inline table without its end", e);
    }
}

static int scan_nested(struct scan *s, int (*fn)(struct scan *s, struct err *e), struct err *e)
{
    if (s->depth == TOML_MAX_DEPTH)
        return err_set(e, ERR_TOO_LARGE, "line %u: arrays nested deeper than %d", s->line,
                       TOML_MAX_DEPTH);
    s->depth++;
    TRY(fn(s, e));
    s->depth--;
    return 0;
}

static int scan_value(struct scan *s, struct err *e)
{
    skip_blanks(s);
    if (take(s, "["))
        return scan_nested(s, scan_array, e);
    if (take(s, "{"))
        return scan_nested(s, scan_inline_table, e);
    TRY(scan_text(s, /* is_key= */ false, e));
    s->fn(s->arg, &(struct toml_value){(const char *const *)s->keys, s->n_keys, s->text});
    return 0;
}

/* --- Lines --- */

static int scan_header(struct scan *s, struct err *e)
{
    bool of_array = take(s, "[");
    cut_path(s, 0);
    TRY(scan_key(s, e));
    return take(s, of_array ? "]]" : "]") ? 0 : refuse(s, "a table's name without its end", e);
}

static int scan_lines(struct scan *s, struct err *e)
{
    for (skip_lines(s); !is_over(s); skip_lines(s)) {
        if (take(s, "["))
            TRY(scan_header(s, e));
        else
            TRY(scan_pair(s, e));
        skip_blanks(s);
        if (!is_over(s) && *s->at != '#' && *s->at != '\n')
            return refuse(s, "something after the value", e);
    }
    return 0;
}

int toml_scan(const char *text, size_t len, toml_fn *fn, void *arg, struct err *e)
{
    struct scan s = {.at = text, .end = text + len, .line = 1, .fn = fn, .arg = arg};
    assert(text && fn);
    int rc = scan_lines(&s, e);
    cut_path(&s, 0);
    return rc;
}
