/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>

/*
 * What a process and its child that serves HTTP (http_server.h, http_child.h) say to each other,
 * over a stream socket. Both are the same program: no versions, no byte order. The child asks for a
 * page by the number of its route, and asks for each route once at a time; the parent answers
 * in any order with the finished page. The parent ends a child that says anything else.
 */

#define HTTP_MAX_BODY_BYTES (4U << 20)
#define HTTP_MAX_ROUTES     16

struct http_ask {
    uint16_t route;
    uint16_t zero;
};

/* Followed by len bytes, at most HTTP_MAX_BODY_BYTES. */
struct http_answer {
    uint16_t route;
    uint16_t status;
    uint32_t len;
};
