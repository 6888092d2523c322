/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The process that serves HTTP on one port for a program of ours (http_server.h starts it):
 * `http-child` and what it is to serve. Its descriptors: 2 a pipe that its parent reads when it has
 * ended, 3 the channel, 4 the socket that listens, 5 the certificate, up to 7
 * /dev/null: the numbers of its connections begin behind them. It gives up all rights before it
 * looks at any of them, and runs until the channel is closed.
 */

#define HTTP_CHILD_VERB "http-child"

/* How it is to serve: plain HTTP, or TLS with the pair that HTTP_CHILD_PAIR holds (tls_files.h);
 * pages are open, or behind a token. */
#define HTTP_CHILD_PLAIN   "plain"
#define HTTP_CHILD_TLS     "tls"
#define HTTP_CHILD_OPEN    "open"
#define HTTP_CHILD_GUARDED "guarded"

/* The numbers of its descriptors. */
enum { HTTP_CHILD_CHANNEL = 3, HTTP_CHILD_SOCKET = 4, HTTP_CHILD_PAIR = 5, HTTP_CHILD_FDS = 8 };

/* argv: the verb, the user to become ("0": stay), HTTP_CHILD_PLAIN or HTTP_CHILD_TLS,
 * HTTP_CHILD_OPEN or HTTP_CHILD_GUARDED, and the path of each route. Returns the exit status. */
int http_child_main(int argc, char **argv);
