/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/ptx_words.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void words_fail(struct words *r, const char *what)
{
    if (!r->failed)
        (void)snprintf(r->reason, r->reason_size, "line %u: %s, at \"%.*s\"", r->line, what,
                       (int)(r->length < 40 ? r->length : 40), r->word);
    r->failed = true;
}

static bool is_word_char(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '.' || c == '$' || c == '%';
}

static size_t left(const struct words *r)
{
    return (size_t)(r->end - r->at);
}

static bool starts(const struct words *r, const char *with)
{
    size_t n = strlen(with);
    return left(r) >= n && memcmp(r->at, with, n) == 0;
}

static void skip_until(struct words *r, const char *with)
{
    while (r->at < r->end && !starts(r, with)) {
        r->line += *r->at == '\n';
        r->at++;
    }
}

static void skip_space(struct words *r)
{
    while (r->at < r->end) {
        if (starts(r, "//")) {
            skip_until(r, "\n");
        } else if (starts(r, "/*")) {
            skip_until(r, "*/");
            r->at += left(r) >= 2 ? 2 : 0;
        } else if (*r->at == ' ' || (*r->at >= '\t' && *r->at <= '\r')) {
            r->line += *r->at == '\n';
            r->at++;
        } else {
            return;
        }
    }
}

void words_next(struct words *r)
{
    skip_space(r);
    r->word = r->at;
    if (r->at == r->end) {
        r->length = 0;
        return;
    }
    if (*r->at == '"') {
        r->at++;
        skip_until(r, "\"");
        r->at += r->at < r->end;
    } else if (is_word_char(*r->at)) {
        while (r->at < r->end && is_word_char(*r->at))
            r->at++;
    } else {
        r->at++;
    }
    r->length = (size_t)(r->at - r->word);
}

bool words_at(const struct words *r, const char *word)
{
    return strlen(word) == r->length && memcmp(r->word, word, r->length) == 0;
}

bool words_take(struct words *r, const char *word)
{
    if (!words_at(r, word))
        return false;
    words_next(r);
    return true;
}

void words_expect(struct words *r, const char *word)
{
    if (!words_take(r, word))
        words_fail(r, "a sign is missing");
}

bool words_over(const struct words *r)
{
    return r->failed || r->length == 0;
}

bool words_directive(const struct words *r)
{
    return r->length > 1 && *r->word == '.';
}

uint64_t words_number(struct words *r)
{
    char text[24] = "";
    char *end = NULL;
    if (r->length > 0 && r->length < sizeof(text))
        memcpy(text, r->word, r->length);
    uint64_t value = strtoull(text, &end, 0);
    if (end == text || (*end != '\0' && strcmp(end, "U") != 0) || value > WORDS_MAX_NUMBER) {
        words_fail(r, "a number is missing");
        return 0;
    }
    words_next(r);
    return value;
}

char *words_name(struct words *r)
{
    bool fits = r->length > 0 && is_word_char(*r->word) && *r->word != '.' &&
                !(*r->word >= '0' && *r->word <= '9');
    char *copy = fits ? strndup(r->word, r->length) : NULL;
    if (copy == NULL)
        words_fail(r, "a name is missing");
    words_next(r);
    return copy;
}

void words_skip_block(struct words *r, const char *open, const char *close)
{
    unsigned int depth = 1;
    while (!words_over(r) && depth > 0) {
        depth += words_at(r, open);
        depth -= words_at(r, close);
        words_next(r);
    }
    if (depth > 0)
        words_fail(r, "a bracket is not closed");
}
