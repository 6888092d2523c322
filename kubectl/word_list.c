/* SPDX-License-Identifier: Apache-2.0 */
#include "kubectl/word_list.h"

#include <string.h>

#include "base/xalloc.h"

#include "kubectl/safe_text.h"

void word_list_add(struct word_list *l, const char *word)
{
    auto_free char *safe = safe_text(word);
    size_t width = safe_text_columns(safe);
    size_t indent = safe_text_columns(l->heading);
    if (l->n == 0) {
        sb_add(l->out, l->heading);
        l->column = indent;
    } else if (l->column + 2 + width > l->screen->columns) {
        sb_addf(l->out, ",\n%*s", (int)indent, "");
        l->column = indent;
    } else {
        sb_add(l->out, ", ");
        l->column += 2;
    }
    screen_paint(l->screen, l->out, l->ink, safe);
    l->column += width;
    l->n++;
}

void word_list_end(struct word_list *l)
{
    if (l->n)
        sb_add_char(l->out, '\n');
}

/* Columns of the word that the text begins with. *ret_len: its bytes. */
static size_t width_of_word(const char *text, size_t *ret_len)
{
    *ret_len = strcspn(text, " ");
    auto_free char *word = xstrndup(text, *ret_len);
    return safe_text_columns(word);
}

void word_list_prose(struct sb *out, const struct screen *s, const char *heading, const char *text)
{
    size_t indent = safe_text_columns(heading);
    size_t column = indent, len;
    sb_add(out, heading);
    for (bool first = true; *text || first; first = false) {
        size_t width = width_of_word(text, &len);
        bool breaks = s->wraps && !first && column + 1 + width > s->columns;
        if (breaks)
            sb_addf(out, "\n%*s", (int)indent, "");
        else if (!first)
            sb_add_char(out, ' ');
        sb_addf(out, "%.*s", (int)len, text);
        column = breaks ? indent + width : column + !first + width;
        text += len + (text[len] == ' ');
    }
    sb_add_char(out, '\n');
}
