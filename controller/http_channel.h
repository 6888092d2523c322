/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * What a process and its child that serves HTTP (http_server.h, http_child.h) say to each other,
 * over a socket that keeps records apart (SOCK_SEQPACKET). Both are the same program: no versions,
 * no byte order. The child asks for a page by the number of its route, one record for each
 * question; the parent answers in any order, with a record for the head and more for the finished
 * page. A question has a number of the child's, which is free again after the answer. Where the
 * pages are behind a token, the question bears the visitor's. The parent ends a child that says
 * anything else.
 */

enum {
    HTTP_MAX_BODY_BYTES = 4 << 20,
    HTTP_MAX_ROUTES = 16,
    HTTP_MAX_QUESTIONS = 80, /* on their way at once */
    /* A service account's has some 1000; one of an identity provider with many groups some 4000. */
    HTTP_MAX_TOKEN_BYTES = 8192,
    /* Of an answer's body in one record. */
    HTTP_MAX_PIECE_BYTES = 64 << 10,
};

struct http_ask {
    uint16_t question; /* less than HTTP_MAX_QUESTIONS */
    uint16_t route;
    uint16_t token_len; /* 0: none */
    uint16_t zero;
    uint32_t peer; /* the visitor's address, folded; a child that was taken over may say any */
};

struct http_ask_record {
    struct http_ask head;
    char token[HTTP_MAX_TOKEN_BYTES];
};

/* An answer to nobody: the child takes no more connections, ends those that nothing is asked on,
 * and itself when the last one has ended. */
#define HTTP_LEAVE UINT16_MAX

/* Followed by records with len bytes in all, at most HTTP_MAX_BODY_BYTES. */
struct http_answer {
    uint16_t question;
    uint16_t status;
    uint32_t len;
};

/* Is it what RFC 6750 calls a b64token, and no longer than HTTP_MAX_TOKEN_BYTES? */
bool http_token_is_sound(const char *token, size_t len);

/* Does a record of this length (which may exceed what was kept of it) ask for one of n_routes, with
 * a token exactly where the pages are guarded? Nothing else of it may be looked at before. */
bool http_ask_is_sound(const struct http_ask_record *r, size_t len, size_t n_routes, bool guarded);
