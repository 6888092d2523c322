/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/sb.h"

/*
 * The frames of WebSocket (RFC 6455, section 5) as a client writes and reads them: what it sends is
 * masked, what it receives is not. Pure.
 */

enum ws_opcode {
    WS_CONTINUATION = 0,
    WS_TEXT = 1,
    WS_BINARY = 2,
    WS_CLOSE = 8,
    WS_PING = 9,
    WS_PONG = 10,
};

/* A message, all of its fragments together, or a control frame (close, ping, pong). */
struct ws_message {
    enum ws_opcode opcode; /* never WS_CONTINUATION */
    const uint8_t *data;   /* borrowed until the next call */
    size_t len;
};

/* The longest message that is read, and the longest that is written. */
#define WS_MAX_MESSAGE_BYTES ((size_t)1 << 20)
/* A frame is its payload and at most so much more. */
#define WS_MAX_HEADER_BYTES 14

/* Appends one frame, a whole message. mask: random, another one for each frame. */
void ws_frame_add(struct sb *out, const struct ws_message *m, const uint8_t mask[4]);

/* A reader, with the bytes that arrived and were not returned yet. One thread. */
struct ws_reader {
    struct sb in;      /* undecoded */
    size_t taken;      /* bytes at its beginning that the last answer stood in */
    struct sb message; /* fragments of a message that goes on */
    enum ws_opcode opcode;
    bool is_partial, is_whole;
};

/* *r is overwritten. */
void ws_reader_init(struct ws_reader *r);
void ws_reader_done(struct ws_reader *r);
/* Adds what has arrived. */
void ws_reader_feed(struct ws_reader *r, const void *p, size_t len);
/* 1: *ret is the next message; 0: it has not arrived in whole. ERR_PROTOCOL; ERR_TOO_LARGE: beyond
 * WS_MAX_MESSAGE_BYTES. After an error there is no next message. */
int ws_reader_next(struct ws_reader *r, struct ws_message *ret, struct err *e) MUST_CHECK;

AUTO_DEFINE(ws_reader, struct ws_reader, ws_reader_done)
#define auto_ws_reader AUTO(ws_reader)
