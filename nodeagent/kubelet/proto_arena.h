/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <protobuf-c/protobuf-c.h>
#include <stddef.h>
#include <sys/queue.h>

#include "base/auto.h"

/*
 * The memory into which protobuf-c unpacks a peer's message, with a bound. A bound on the message
 * alone is not enough, because two bytes of it may become a hundred in memory. A message that does
 * not fit fails to unpack, as a malformed one does. Unpacked messages live until proto_arena_done
 * and are not freed one by one: protobuf-c 1.4.1 leaks parts of a message for which memory ran out.
 *
 * One thread; the arena must not move while it is used.
 */
struct proto_arena {
    ProtobufCAllocator allocator;
    LIST_HEAD(, proto_piece) pieces;
    size_t left; /* bytes */
};

void proto_arena_init(struct proto_arena *a, size_t bytes);
void proto_arena_done(struct proto_arena *a);
AUTO_DEFINE(proto_arena, struct proto_arena, proto_arena_done)
#define auto_proto_arena AUTO(proto_arena)
