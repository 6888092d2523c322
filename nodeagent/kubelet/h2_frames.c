/* SPDX-License-Identifier: Apache-2.0 */
#include "nodeagent/kubelet/h2_frames.h"

#include <assert.h>

static void finish_if_over(struct h2_frames *f)
{
    if (f->skip > 0 || f->head_len < H2_HEAD_BYTES)
        return;
    f->head_len = 0;
    f->length = 0;
    f->count++;
}

/* One byte of a frame's head. */
static void add_head(struct h2_frames *f, uint8_t byte)
{
    assert(f->skip == 0 && f->head_len < H2_HEAD_BYTES);
    if (f->head_len < 3)
        f->length = f->length << 8 | byte;
    if (++f->head_len == H2_HEAD_BYTES)
        f->skip = f->length;
    finish_if_over(f);
}

void h2_frames_add(struct h2_frames *f, const uint8_t *p, size_t len)
{
    for (size_t i = 0; i < len;) {
        if (f->skip == 0) {
            add_head(f, p[i++]);
            continue;
        }
        size_t n = len - i < f->skip ? len - i : f->skip;
        i += n;
        f->skip -= n;
        finish_if_over(f);
    }
}

bool h2_frames_is_inside(const struct h2_frames *f)
{
    return f->skip > 0 || f->head_len > 0;
}
