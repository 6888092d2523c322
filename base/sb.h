/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>

#include "base/auto.h"
#include "base/err.h"

/*
 * Growable string with a mandatory cap and a sticky overflow flag: appends need no checks, sb_check
 * at the end reports an overflow. One thread. `struct sb b = SB_INIT(cap)`.
 */
struct sb {
    char *data; /* NUL-terminated, or NULL while empty */
    size_t len; /* bytes without the NUL */
    size_t room;
    size_t cap;    /* longest len allowed, bytes */
    bool overflow; /* some text did not fit and was dropped */
};

#define SB_INIT(cap_bytes)                                                                         \
    (struct sb)                                                                                    \
    {                                                                                              \
        .cap = (cap_bytes)                                                                         \
    }

void sb_add(struct sb *b, const char *s);
void sb_add_mem(struct sb *b, const void *p, size_t len);
void sb_add_char(struct sb *b, char c);
/* Appends at most max bytes of s, with U+FFFD for every byte that is not UTF-8, and never cuts a
 * character. For foreign text that goes into JSON or a log. */
void sb_add_utf8(struct sb *b, const char *s, size_t max);
/* The length of the text's beginning, of at most max bytes, that does not end inside a UTF-8
 * character. */
size_t utf8_cut(const char *text, size_t max);
void sb_addf(struct sb *b, const char *fmt, ...) PRINTF_LIKE(2, 3);

/* Removes the first len bytes (stream decoding). */
void sb_drop_front(struct sb *b, size_t len);
/* Empties, keeping the memory. */
void sb_reset(struct sb *b);
/* The text; "" when empty. Borrowed until the next change. */
const char *sb_str(const struct sb *b);
/* Hands the text over ("" when empty); the builder is empty afterwards. Caller frees. */
char *sb_take(struct sb *b);
/* ERR_TOO_LARGE when something was dropped. */
int sb_check(const struct sb *b, struct err *e) MUST_CHECK;
/* Frees; the builder can be used again. */
void sb_done(struct sb *b);

AUTO_DEFINE(sb, struct sb, sb_done)
#define auto_sb AUTO(sb)
