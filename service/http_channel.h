/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * The protocol between a process and its child that serves HTTP (http_server.h, http_child.h), over
 * a socket that keeps records apart (SOCK_SEQPACKET). Both are the same program, so there are no
 * versions and no byte order. The child asks for a page by the number of its route, one record for
 * each question. A question with a body is followed by the body's records and by nothing else until
 * these are complete. The parent answers in any order, with a record for the head and further ones
 * for the finished page. The child numbers its questions and reuses a number after its answer.
 * Where pages need a token, the question carries the visitor's. The parent ends a child that sends
 * anything else.
 */

enum {
    HTTP_MAX_BODY_BYTES = 4 << 20,   /* of an answer */
    HTTP_MAX_UPLOAD_BYTES = 1 << 20, /* of a request */
    HTTP_MAX_ROUTES = 16,
    HTTP_MAX_QUESTIONS = 96, /* unanswered at a time */
    /* A service account's token has some 1000 bytes; one of an identity provider with many groups
     * some 4000. */
    HTTP_MAX_TOKEN_BYTES = 8192,
    /* Body bytes in one record. */
    HTTP_MAX_PIECE_BYTES = 64 << 10,
};

struct http_ask {
    uint16_t question; /* its number, less than HTTP_MAX_QUESTIONS */
    uint16_t route;
    uint16_t token_len; /* 0: none */
    uint16_t zero;
    /* Of the request's body, in records of http_piece_bytes that follow. */
    uint32_t body_len;
    /* The visitor's address, folded; not trustworthy, a compromised child may send any. */
    uint32_t peer;
};

struct http_ask_record {
    struct http_ask head;
    char token[HTTP_MAX_TOKEN_BYTES];
};

/* What a child may ask for. */
struct http_terms {
    size_t n_routes;
    uint16_t posts; /* the bit of each route that takes a body */
    bool guarded;   /* pages need a token */
};

/* An answer to no question. It makes the child accept no more connections, close those without a
 * request, and exit when the last one has ended. */
#define HTTP_LEAVE UINT16_MAX

/* Followed by records with len bytes in total, at most HTTP_MAX_BODY_BYTES. */
struct http_answer {
    uint16_t question;
    uint16_t status;
    uint32_t len;
};

/* True for a b64token of RFC 6750 of at most HTTP_MAX_TOKEN_BYTES. */
bool http_token_is_sound(const char *token, size_t len);

/* True when the route takes a body. */
bool http_takes_body(const struct http_terms *t, size_t route);

/* True when a record of this length (which may exceed what was kept of it) asks for what the terms
 * allow: one of the routes, with a token exactly where the pages are guarded, and with a body only
 * where the route takes one. Check this before reading anything else of the record. */
bool http_ask_is_sound(const struct http_ask_record *r, size_t len, const struct http_terms *t);

/* The length of the next record of a body of which left bytes (more than 0) are to come. */
size_t http_piece_bytes(size_t left);
