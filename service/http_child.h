/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The process that serves HTTP on one port for a program of ours: `http-child` with the arguments
 * below, started by http_server.h. Its descriptors: 2 a pipe that its parent reads after its end, 3
 * the channel, 4 the listening socket, 5 the certificate, up to 7 /dev/null; connections get the
 * numbers after these. It drops all rights before it reads from any of them, and runs until the
 * channel is closed.
 */

#define HTTP_CHILD_VERB "http-child"

/* How to serve: plain HTTP, or TLS with the pair in HTTP_CHILD_PAIR (tls_files.h); pages open, or
 * behind a token. */
#define HTTP_CHILD_PLAIN   "plain"
#define HTTP_CHILD_TLS     "tls"
#define HTTP_CHILD_OPEN    "open"
#define HTTP_CHILD_GUARDED "guarded"
/* Stands before the path of a route that takes a body. */
#define HTTP_CHILD_POST "POST "

/* Processor time after which the parent replaces a child that takes bodies. */
enum { HTTP_CHILD_WORN_S = 150 };

/* Its descriptor numbers. */
enum { HTTP_CHILD_CHANNEL = 3, HTTP_CHILD_SOCKET = 4, HTTP_CHILD_PAIR = 5, HTTP_CHILD_FDS = 8 };

/* argv: the command, the user to become ("0": no change), HTTP_CHILD_PLAIN or HTTP_CHILD_TLS,
 * HTTP_CHILD_OPEN or HTTP_CHILD_GUARDED, and the path of each route. Returns the exit status. */
int http_child_main(int argc, char **argv);
