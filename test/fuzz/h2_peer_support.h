/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * One end of an HTTP/2 connection that behaves as bytes say, over a real socket: proper calls and
 * answers, frames of any kind, floods, silence, hanging up. What the other end says is read and
 * dropped, or is not read.
 */

/* Reads from the bytes that an input has left; zeros behind the end. */
struct script {
    const uint8_t *at, *end;
};
uint8_t script_byte(struct script *s);
/* As many as the next byte says, or as there are. Borrowed. */
const uint8_t *script_bytes(struct script *s, size_t *ret_len);
/* So many, or as there are. Borrowed. */
const uint8_t *script_take(struct script *s, size_t n, size_t *ret_len);

/* Lets the other end run until nothing more happens. */
typedef void h2_peer_settle_fn(void *arg);

struct h2_peer {
    int fd;        /* -1: none; owned */
    bool stalled;  /* does not read */
    uint8_t piece; /* bytes at once; 0: all */
    uint8_t *last; /* what was sent last, to be repeated; owned */
    size_t last_len;
    h2_peer_settle_fn *settle;
    void *arg;
};

#define H2_PEER_OPS 8

/* A connection that is there. Takes fd over. */
void h2_peer_open(struct h2_peer *p, int fd, h2_peer_settle_fn *settle, void *arg);
void h2_peer_close(struct h2_peer *p);
/* Reads and drops what is there, unless it is stalled. */
void h2_peer_drain(struct h2_peer *p);
/* Says hello, as a client or not: the preface, settings. */
void h2_peer_hello(struct h2_peer *p, bool is_client);
/* Does the op-th of H2_PEER_OPS things: what it takes for it comes from the script. path: of a
 * proper call, NULL for the end that answers. */
void h2_peer_do(struct h2_peer *p, unsigned op, const char *path, struct script *s);
