/* SPDX-License-Identifier: Apache-2.0 */
#include "kubectl/word_list.h"

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
