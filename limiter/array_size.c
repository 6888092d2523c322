/* SPDX-License-Identifier: Apache-2.0 */
#include "limiter/array_size.h"

enum { FLAG_LAYERED = 0x01, FLAG_CUBEMAP = 0x04, FLAG_SPARSE = 0x40, FLAG_DEFERRED = 0x80 };

/* Of one channel. Compressed and planar formats take no more than this says, and are counted by it.
 * Assumed of formats that are newer than this file. */
static uint64_t channel_bytes(int format)
{
    switch (format) {
    case 0x01: /* UNSIGNED_INT8 */
    case 0x08: /* SIGNED_INT8 */
        return 1;
    case 0x02: /* UNSIGNED_INT16 */
    case 0x09: /* SIGNED_INT16 */
    case 0x10: /* HALF */
        return 2;
    default:
        return 4;
    }
}

static uint64_t times(uint64_t a, uint64_t b)
{
    uint64_t product = 0;
    return __builtin_mul_overflow(a, b, &product) ? UINT64_MAX : product;
}

static uint64_t at_least_one(uint64_t n)
{
    return n != 0 ? n : 1;
}

static uint64_t level_bytes(const struct array3d_descriptor *d)
{
    uint64_t row =
        times(at_least_one(d->width), channel_bytes(d->format) * at_least_one(d->channels));
    return times(times(row, at_least_one(d->height)), at_least_one(d->depth));
}

static size_t half(size_t n)
{
    return n > 1 ? n / 2 : n;
}

/* Layers and the faces of a cube stay as many. */
static void shrink(struct array3d_descriptor *d)
{
    d->width = half(d->width);
    d->height = half(d->height);
    if ((d->flags & (FLAG_LAYERED | FLAG_CUBEMAP)) == 0)
        d->depth = half(d->depth);
}

uint64_t array_bytes(const struct array3d_descriptor *d, unsigned int levels)
{
    struct array3d_descriptor level = *d;
    uint64_t total = 0;
    if ((d->flags & (FLAG_SPARSE | FLAG_DEFERRED)) != 0)
        return 0;
    for (unsigned int i = 0; i < levels && i < 64; i++) {
        if (__builtin_add_overflow(total, level_bytes(&level), &total))
            return UINT64_MAX;
        shrink(&level);
    }
    return total;
}
