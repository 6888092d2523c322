/* SPDX-License-Identifier: Apache-2.0 */
#include "kubectl/safe_text.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/* An object of an API server holds less. */
#define MAX_TEXT ((size_t)2 << 20)

#define REPLACEMENT "\xEF\xBF\xBD"

/* The character at s, which is valid UTF-8; *ret_len: its bytes. */
static uint32_t decode(const unsigned char *s, size_t *ret_len)
{
    static const unsigned char masks[] = {0, 0x7F, 0x1F, 0x0F, 0x07};
    size_t len = s[0] < 0x80 ? 1 : s[0] < 0xE0 ? 2 : s[0] < 0xF0 ? 3 : 4;
    uint32_t c = s[0] & masks[len];
    for (size_t i = 1; i < len; i++)
        c = c << 6 | (s[i] & 0x3FU);
    *ret_len = len;
    return c;
}

static bool is_obeyed(uint32_t c)
{
    return c < 0x20 || (c >= 0x7F && c < 0xA0) || (c >= 0x2028 && c <= 0x202E) ||
           (c >= 0x2066 && c <= 0x2069) || c == 0x200E || c == 0x200F || c == 0x061C;
}

/* The bytes of the text's beginning that are printable ASCII, which is nearly all text. */
static size_t plain_length(const char *text, size_t len)
{
    size_t n = 0;
    while (n < len && text[n] >= ' ' && text[n] <= '~')
        n++;
    return n;
}

void safe_text_add(struct sb *b, const char *text, size_t max)
{
    if (!text)
        return;
    auto_sb struct sb clean = SB_INIT(MAX_TEXT);
    sb_add_utf8(&clean, text, max < MAX_TEXT ? max : MAX_TEXT);
    const char *s = sb_str(&clean);
    size_t width;
    for (size_t at = 0; at < clean.len; at += width) {
        width = plain_length(s + at, clean.len - at);
        if (width == 0 && is_obeyed(decode((const unsigned char *)s + at, &width)))
            sb_add(b, REPLACEMENT);
        else
            sb_add_mem(b, s + at, width);
    }
}

void safe_text_add_document(struct sb *b, const char *text, size_t len)
{
    size_t run = 0;
    size_t width;
    for (size_t at = 0; at < len; at += width) {
        width = plain_length(text + at, len - at);
        uint32_t c = width ? ' ' : decode((const unsigned char *)text + at, &width);
        if (c == '\n' || !is_obeyed(c))
            continue;
        sb_add_mem(b, text + run, at - run);
        sb_addf(b, "\\u%04X", c);
        run = at + width;
    }
    sb_add_mem(b, text + run, len - run);
}

char *safe_text(const char *text)
{
    auto_sb struct sb b = SB_INIT(3 * MAX_TEXT);
    safe_text_add(&b, text, MAX_TEXT);
    return sb_take(&b);
}

static bool begins_character(char c)
{
    return ((unsigned char)c & 0xC0) != 0x80;
}

size_t safe_text_columns(const char *text)
{
    size_t n = 0;
    for (; *text; text++)
        n += begins_character(*text);
    return n;
}

size_t safe_text_cut(const char *text, size_t columns)
{
    size_t n = 0;
    size_t at = 0;
    for (; text[at]; at++) {
        if (begins_character(text[at]) && n++ == columns)
            break;
    }
    return at;
}
