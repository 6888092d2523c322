/* SPDX-License-Identifier: Apache-2.0 */
#include "base/sb.h"

#include <assert.h>
#include <stdarg.h>
#include <string.h>

#include "base/xalloc.h"

static bool reserve(struct sb *b, size_t more)
{
    assert(b->cap > 0);
    if (b->overflow || more > b->cap - b->len) {
        b->overflow = true;
        return false;
    }
    size_t need = b->len + more + 1;
    if (need > b->room) {
        size_t room = b->room ? b->room : 64;
        while (room < need)
            room *= 2;
        b->data = xrealloc(b->data, room);
        b->room = room;
    }
    return true;
}

void sb_add_mem(struct sb *b, const void *p, size_t len)
{
    if (!reserve(b, len))
        return;
    if (len)
        memcpy(b->data + b->len, p, len);
    b->len += len;
    b->data[b->len] = '\0';
}

void sb_add(struct sb *b, const char *s)
{
    sb_add_mem(b, s, strlen(s));
}

void sb_add_char(struct sb *b, char c)
{
    sb_add_mem(b, &c, 1);
}

/* Length of the well-formed UTF-8 sequence at s, or 0 (Unicode 15, table 3-7). */
static size_t utf8_len(const char *text)
{
    const unsigned char *s = (const unsigned char *)text;
    if (s[0] < 0x80)
        return 1;
    size_t len = s[0] >= 0xf0 ? 4 : s[0] >= 0xe0 ? 3 : 2;
    unsigned char low = 0x80;
    unsigned char high = 0xbf;
    if (s[0] < 0xc2 || s[0] > 0xf4)
        return 0;
    if (s[0] == 0xe0)
        low = 0xa0; /* overlong */
    if (s[0] == 0xed)
        high = 0x9f; /* surrogates */
    if (s[0] == 0xf0)
        low = 0x90; /* overlong */
    if (s[0] == 0xf4)
        high = 0x8f; /* beyond U+10FFFF */
    if (s[1] < low || s[1] > high)
        return 0;
    for (size_t i = 2; i < len; i++)
        if ((s[i] & 0xc0) != 0x80)
            return 0;
    return len;
}

size_t utf8_cut(const char *text, size_t max)
{
    size_t len = strnlen(text, max + 1);
    if (len > max)
        for (len = max; len && ((unsigned char)text[len] & 0xc0) == 0x80;)
            len--;
    return len;
}

void sb_add_utf8(struct sb *b, const char *s, size_t max)
{
    size_t run = 0;
    size_t pos = 0;
    while (s[pos]) {
        size_t len = utf8_len(s + pos);
        if (pos + (len ? len : 1) > max)
            break;
        pos += len ? len : 1;
        if (len)
            continue;
        sb_add_mem(b, s + run, pos - 1 - run);
        sb_add(b, "\xef\xbf\xbd");
        run = pos;
    }
    sb_add_mem(b, s + run, pos - run);
}

void sb_addf(struct sb *b, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    auto_free char *s = xvasprintf(fmt, ap);
    va_end(ap);
    sb_add(b, s);
}

void sb_drop_front(struct sb *b, size_t len)
{
    assert(len <= b->len);
    if (!len)
        return;
    memmove(b->data, b->data + len, b->len - len + 1);
    b->len -= len;
}

void sb_reset(struct sb *b)
{
    b->len = 0;
    b->overflow = false;
    if (b->data)
        b->data[0] = '\0';
}

const char *sb_str(const struct sb *b)
{
    return b->data ? b->data : "";
}

char *sb_take(struct sb *b)
{
    char *s = b->data ? b->data : xstrdup("");
    *b = SB_INIT(b->cap);
    return s;
}

int sb_check(const struct sb *b, struct err *e)
{
    if (!b->overflow)
        return 0;
    return err_set(e, ERR_TOO_LARGE, "text longer than %zu bytes", b->cap);
}

void sb_done(struct sb *b)
{
    free(b->data);
    *b = SB_INIT(b->cap);
}
