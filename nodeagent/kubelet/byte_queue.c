/* SPDX-License-Identifier: Apache-2.0 */
#include "nodeagent/kubelet/byte_queue.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/xalloc.h"

/* An emptied queue larger than this frees its memory, so that one long message does not cost memory
 * for ever. */
#define KEEP_BYTES (64UL << 10)

/* Taken bytes are overwritten once they are at least as many as those left, so that each byte is
 * moved once on average. */
static void make_room(struct byte_queue *q, size_t len)
{
    assert(q->begin <= q->end && q->end <= q->room);
    size_t held = q->end - q->begin;
    if (q->begin >= held && q->begin > 0) {
        memmove(q->data, q->data + q->begin, held);
        q->begin = 0;
        q->end = held;
    }
    if (q->end + len <= q->room)
        return;
    size_t room = q->room ? q->room : 256;
    while (room < q->end + len)
        room *= 2;
    q->data = xrealloc(q->data, room);
    q->room = room;
    assert(q->end + len <= q->room);
}

void byte_queue_add(struct byte_queue *q, const void *p, size_t len)
{
    if (len == 0)
        return;
    make_room(q, len);
    memcpy(q->data + q->end, p, len);
    q->end += len;
}

size_t byte_queue_len(const struct byte_queue *q)
{
    return q->end - q->begin;
}

const uint8_t *byte_queue_peek(const struct byte_queue *q)
{
    static const uint8_t nothing; /* gives an empty queue an address */
    return q->data ? q->data + q->begin : &nothing;
}

void byte_queue_skip(struct byte_queue *q, size_t len)
{
    assert(len <= byte_queue_len(q));
    q->begin += len;
    if (q->begin < q->end)
        return;
    q->begin = q->end = 0;
    if (q->room > KEEP_BYTES)
        byte_queue_done(q);
}

void byte_queue_done(struct byte_queue *q)
{
    free(q->data);
    *q = (struct byte_queue){0};
}
