/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>

#include "base/err.h"

/* Opens a listening TCP socket at an address from a flag: "127.0.0.1:8081", "[::1]:8081", ":8080"
 * for all addresses of the machine, port 0 for a free one. */

/* The socket is non-blocking and close-on-exec; the caller closes it. port: replaces the address's;
 * 0: use the address's. *ret_port: the actual port. ERR_INVALID for a bad address, ERR_EXISTS when
 * another socket has it, ERR_UNAVAILABLE when it cannot be had for another reason. */
int listen_socket_open(const char *addr, int port, int *ret_fd, int *ret_port,
                       struct err *e) MUST_CHECK;
/* Checks an address's form before anything is opened. addr: "" and NULL are in order: off.
 * ERR_INVALID names the flag. */
int listen_socket_check_addr(const char *flag, const char *addr, struct err *e) MUST_CHECK;
/* True when the address, of a sound form, is reached from this machine alone: 127.0.0.0/8, [::1] or
 * localhost. */
bool listen_socket_is_loopback(const char *addr);
/* True while the socket listens. False for -1. */
bool listen_socket_listens(int fd);
