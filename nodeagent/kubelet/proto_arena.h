/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <protobuf-c/protobuf-c.h>
#include <stddef.h>
#include <sys/queue.h>

#include "base/auto.h"

/*
 * Where protobuf-c unpacks a message of a peer's: with a bound, because two bytes of a message may
 * become a hundred in memory, so that a bound on the message alone is none. What does not fit does
 * not unpack, as if it were malformed. What was unpacked lives until proto_arena_done and is not
 * freed by itself: protobuf-c 1.4.1 leaks parts of a message for which memory ran out.
 *
 * One thread; stays where it is while it is used.
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
