/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* A queue of bytes: added at the end, taken at the front. The caller that adds keeps the bound. A
 * zeroed value is empty; one thread. */
struct byte_queue {
    uint8_t *data;
    size_t begin, end, room;
};

/* Copies. */
void byte_queue_add(struct byte_queue *q, const void *p, size_t len);
/* Number of bytes in the queue. */
size_t byte_queue_len(const struct byte_queue *q);
/* The first of byte_queue_len bytes. Borrowed until the next change; never NULL. */
const uint8_t *byte_queue_peek(const struct byte_queue *q);
/* Drops so many bytes at the front; at most all. */
void byte_queue_skip(struct byte_queue *q, size_t len);
/* Frees; the queue can be used again. */
void byte_queue_done(struct byte_queue *q);
