/* SPDX-License-Identifier: Apache-2.0 */
#include "kubectl/screen.h"

#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

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

struct screen screen_of(bool is_terminal, size_t columns, char *const envp[])
{
    const char *term = value_of(envp, "TERM");
    bool knows = *term && strcmp(term, "dumb") != 0;
    return (struct screen){
        .columns = is_terminal && columns ? within(columns) : SCREEN_COLUMNS,
        .colours = is_terminal && knows && !*value_of(envp, "NO_COLOR"),
        .in_place = is_terminal && knows,
    };
}

struct screen screen_behind(int fd, char *const envp[])
{
    struct winsize size = {0};
    bool is_terminal = isatty(fd) == 1;
    if (!is_terminal || ioctl(fd, TIOCGWINSZ, &size) < 0)
        size.ws_col = 0;
    return screen_of(is_terminal, size.ws_col, envp);
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
