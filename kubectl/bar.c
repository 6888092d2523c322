/* SPDX-License-Identifier: Apache-2.0 */
#include "kubectl/bar.h"

#include <string.h>

#include "kubectl/safe_text.h"

enum { MAX_CELL_BYTES = 1 << 10 };

static char fill_of(enum part_state state)
{
    static const char fills[] =
        {[PART_FREE] = '-', [PART_USED] = '#', [PART_ILL] = '!', [PART_UNCUT] = '.'};
    return fills[state];
}

static enum ink ink_of(enum part_state state)
{
    static const enum ink inks[] = {[PART_FREE] = INK_GOOD,
                                    [PART_USED] = INK_BUSY,
                                    [PART_ILL] = INK_BAD,
                                    [PART_UNCUT] = INK_DIM};
    return inks[state];
}

static void add_cell(const struct picture_part *p, size_t width, const struct screen *s,
                     struct sb *ret)
{
    auto_sb struct sb cell = SB_INIT(MAX_CELL_BYTES);
    auto_free char *name = safe_text(p->name);
    size_t bytes = safe_text_cut(name, width);
    size_t shown = safe_text_columns(name);
    sb_add_mem(&cell, name, bytes);
    for (size_t i = shown < width ? shown : width; i < width; i++)
        sb_add_char(&cell, fill_of(p->state));
    screen_paint(s, ret, ink_of(p->state), sb_str(&cell));
}

static uint64_t weight_from(const struct picture *p, size_t from)
{
    uint64_t sum = 0;
    for (size_t i = from; i < p->n; i++)
        sum += p->parts[i].weight;
    return sum;
}

/* The columns of part i: the same part of the columns that are left as its weight is of the weight
 * that is left, so that no column is lost. Each part behind it keeps one. */
static size_t width_of(const struct picture *p, size_t i, size_t n, size_t left)
{
    size_t behind = n - i - 1;
    uint64_t rest = weight_from(p, i);
    if (behind == 0)
        return left;
    size_t most = left - behind;
    size_t width = rest ? (size_t)((double)left * (double)p->parts[i].weight / (double)rest) : 1;
    if (width < 1)
        return 1;
    return width > most ? most : width;
}

void bar_add(const struct picture *p, size_t columns, const struct screen *s, struct sb *ret)
{
    size_t inner = columns > 2 ? columns - 2 : 0;
    size_t most = (inner + 1) / 2; /* each with its bound */
    bool is_cut = p->n > most;
    size_t n = is_cut ? most : p->n;
    size_t left = n ? inner - (n - 1) : inner;
    sb_add_char(ret, '[');
    for (size_t i = 0; i < n; i++) {
        size_t width = width_of(p, i, n, left);
        if (i)
            sb_add_char(ret, '|');
        add_cell(&p->parts[i], width, s, ret);
        left -= width;
    }
    for (size_t i = 0; n == 0 && i < inner; i++)
        sb_add_char(ret, ' ');
    sb_add_char(ret, is_cut ? '>' : ']');
}
