/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/sb.h"

/* The screen that is written to: how wide it is, and whether it has colours. A plain value. */

/* Lines with bars have SCREEN_COLUMNS where the width is not known, and never more than
 * SCREEN_MAX_COLUMNS, since a wider bar says no more. */
enum { SCREEN_COLUMNS = 80, SCREEN_MIN_COLUMNS = 20, SCREEN_MAX_COLUMNS = 120 };

struct screen {
    size_t columns;
    size_t rows; /* 0: without end */
    bool wraps;  /* prose is broken into lines: somebody reads it, and the width is known */
    bool colours;
    bool in_place; /* a picture may take the place of the one before */
};

/* The screen of an environment. columns, rows: of a terminal; 0: not known. Where there is none
 * that knows its width, COLUMNS tells it. It has colours only on a terminal that knows them, and
 * not where NO_COLOR is set to anything (https://no-color.org). */
struct screen screen_of(bool is_terminal, size_t columns, size_t rows, char *const envp[]);
/* The screen behind this descriptor. */
struct screen screen_behind(int fd, char *const envp[]);
/* The screen with the size that the terminal has by now; without a terminal it stays as it was. */
struct screen screen_now(const struct screen *s, int fd);

enum ink { INK_PLAIN, INK_STRONG, INK_DIM, INK_GOOD, INK_BUSY, INK_BAD };

/* Appends the text, which is ours or was made safe, in this ink. */
void screen_paint(const struct screen *s, struct sb *b, enum ink ink, const char *text);
/* The same of foreign text, which is made safe (safe_text.h); NULL: nothing. */
void screen_paint_foreign(const struct screen *s, struct sb *b, enum ink ink, const char *text);

/* The text of so many lines as fit on a screen where each may be wider than the screen, with a last
 * line that tells how many more there are. Caller frees. */
char *screen_fit(const struct screen *s, const char *text);
