/* SPDX-License-Identifier: Apache-2.0 */
#include "nodeagent/kubelet/proto_arena.h"

#include <stdalign.h>
#include <stdlib.h>

#include "base/xalloc.h"

struct proto_piece {
    LIST_ENTRY(proto_piece) link;
    size_t cost;
    alignas(max_align_t) unsigned char bytes[];
};

static void *take(void *arg, size_t size)
{
    struct proto_arena *a = arg;
    size_t cost = sizeof(struct proto_piece) + size;
    if (size > a->left || cost > a->left)
        return NULL;
    struct proto_piece *p = xmalloc(cost);
    p->cost = cost;
    a->left -= cost;
    LIST_INSERT_HEAD(&a->pieces, p, link);
    return p->bytes;
}

/* Frees memory that protobuf-c needs only while it unpacks. */
static void give_back(void *arg, void *bytes)
{
    struct proto_arena *a = arg;
    if (!bytes)
        return;
    struct proto_piece *p = (void *)((char *)bytes - offsetof(struct proto_piece, bytes));
    a->left += p->cost;
    LIST_REMOVE(p, link);
    free(p);
}

void proto_arena_init(struct proto_arena *a, size_t bytes)
{
    *a = (struct proto_arena){
        .allocator = {.alloc = take, .free = give_back, .allocator_data = a},
        .left = bytes,
    };
}

void proto_arena_done(struct proto_arena *a)
{
    struct proto_piece *p = LIST_FIRST(&a->pieces);
    LIST_INIT(&a->pieces);
    while (p) {
        struct proto_piece *next = LIST_NEXT(p, link);
        a->left += p->cost;
        free(p);
        p = next;
    }
}
