/* SPDX-License-Identifier: Apache-2.0 */
#include "kubectl/screen.h"

#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/num.h"
#include "base/xalloc.h"

#include "kubectl/safe_text.h"

static const char *value_of(char *const envp[], const char *name)
{
    size_t len = strlen(name);
    for (size_t i = 0; envp && envp[i]; i++)
        if (strncmp(envp[i], name, len) == 0 && envp[i][len] == '=')
            return envp[i] + len + 1;
    return "";
}

static size_t within(size_t columns)
{
    if (columns < SCREEN_MIN_COLUMNS)
        return SCREEN_MIN_COLUMNS;
    return columns > SCREEN_MAX_COLUMNS ? SCREEN_MAX_COLUMNS : columns;
}

static size_t columns_told(char *const envp[])
{
    int64_t n = 0;
    return num_parse(value_of(envp, "COLUMNS"), 1, INT32_MAX, &n, NULL) == 0 ? (size_t)n : 0;
}

struct screen screen_of(bool is_terminal, size_t columns, size_t rows, char *const envp[])
{
    const char *term = value_of(envp, "TERM");
    bool knows = *term && strcmp(term, "dumb") != 0;
    size_t known = is_terminal && columns ? columns : columns_told(envp);
    return (struct screen){
        .columns = known ? within(known) : SCREEN_COLUMNS,
        .rows = is_terminal ? rows : 0,
        .wraps = known,
        .colours = is_terminal && knows && !*value_of(envp, "NO_COLOR"),
        .in_place = is_terminal && knows,
    };
}

struct screen screen_behind(int fd, char *const envp[])
{
    struct winsize size = {0};
    bool is_terminal = isatty(fd) == 1;
    if (!is_terminal || ioctl(fd, TIOCGWINSZ, &size) < 0)
        size.ws_col = size.ws_row = 0;
    return screen_of(is_terminal, size.ws_col, size.ws_row, envp);
}

struct screen screen_now(const struct screen *s, int fd)
{
    struct winsize size;
    struct screen now = *s;
    if (ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col && size.ws_row) {
        now.columns = within(size.ws_col);
        now.rows = size.ws_row;
    }
    return now;
}

void screen_paint(const struct screen *s, struct sb *b, enum ink ink, const char *text)
{
    static const char *const codes[] = {[INK_PLAIN] = "",  [INK_STRONG] = "1", [INK_DIM] = "2",
                                        [INK_GOOD] = "32", [INK_BUSY] = "33",  [INK_BAD] = "31"};
    if (!s->colours || ink == INK_PLAIN) {
        sb_add(b, text);
        return;
    }
    sb_addf(b, "\033[%sm%s\033[0m", codes[ink], text);
}

void screen_paint_foreign(const struct screen *s, struct sb *b, enum ink ink, const char *text)
{
    auto_free char *safe = safe_text(text);
    screen_paint(s, b, ink, safe);
}

/* Columns of a text with inks in it. */
static size_t columns_of(const char *text, size_t len)
{
    size_t columns = 0;
    bool is_ink = false;
    for (size_t i = 0; i < len; i++) {
        is_ink |= text[i] == '\033';
        columns += !is_ink && ((unsigned char)text[i] & 0xC0) != 0x80; /* a character begins */
        is_ink &= text[i] != 'm';
    }
    return columns;
}

/* Rows that the terminal takes for a line; one that is as wide as the screen takes one. */
static size_t rows_of(const struct screen *s, const char *line, size_t len)
{
    size_t columns = columns_of(line, len);
    return columns ? (columns - 1) / s->columns + 1 : 1;
}

static size_t count_lines(const char *text)
{
    size_t n = 0;
    for (; *text; n++) {
        size_t len = strcspn(text, "\n");
        text += len + (text[len] == '\n');
    }
    return n;
}

/* Bytes of the lines at the beginning that take at most so many rows. */
static size_t fit(const struct screen *s, const char *text, size_t rows)
{
    const char *at = text;
    while (*at) {
        size_t len = strcspn(at, "\n");
        size_t taken = rows_of(s, at, len);
        if (taken > rows)
            break;
        rows -= taken;
        at += len + (at[len] == '\n');
    }
    return (size_t)(at - text);
}

/* The cursor stands below the text, on a row of its own. */
char *screen_fit(const struct screen *s, const char *text)
{
    if (!s->rows || !text[fit(s, text, s->rows - 1)])
        return xstrdup(text);
    size_t len = fit(s, text, s->rows > 2 ? s->rows - 2 : 0);
    size_t more = count_lines(text + len);
    return xasprintf("%.*sand %zu more line%s\n", (int)len, text, more, more == 1 ? "" : "s");
}
