/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/*
 * For libraries that have gone mad: bytes say where an answer differs from a sane one. Without
 * bytes, and when they have run out, all of it is sane, so whoever asks comes to an end.
 */
static struct {
    const uint8_t *next;
    size_t left;
} mad_bytes;

static inline unsigned mad_byte(void)
{
    if (mad_bytes.left == 0)
        return 0;
    mad_bytes.left--;
    return *mad_bytes.next++;
}

/* A number, more often near a limit than not. */
static inline unsigned mad_number(unsigned sane)
{
    static const unsigned odd[] = {0,    1,          8,          9,          32,
                                   33,   64,         65,         256,        257,
                                   4096, 0x7fffffff, 0x80000000, 0xfffffffe, 0xffffffff};
    unsigned op = mad_byte();
    if (op < 192)
        return sane;
    return op < 240 ? odd[op % (sizeof(odd) / sizeof(odd[0]))] : mad_byte();
}

/* Changes some of what was answered, or all of it. */
static inline void mad_touch(void *answer, size_t size)
{
    unsigned op = mad_byte();
    if (size == 0 || op < 160)
        return;
    if (op >= 240) {
        memset(answer, (int)mad_byte(), size);
        return;
    }
    for (unsigned n = op % 4 + 1; n > 0; n--) {
        size_t at = mad_byte();
        at = (at << 8 | mad_byte()) % size;
        ((uint8_t *)answer)[at] = (uint8_t)mad_byte();
    }
}
