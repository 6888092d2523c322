/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* A fuzzer's input, from which structures are made a byte at a time. */
struct bytes {
    const uint8_t *next;
    size_t left;
};

/* The next byte; 0 at the end. */
static inline unsigned take(struct bytes *b)
{
    if (b->left == 0)
        return 0;
    b->left--;
    return *b->next++;
}
