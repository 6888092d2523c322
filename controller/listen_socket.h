/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>

#include "base/err.h"

/* A TCP socket that listens where a flag says: "127.0.0.1:8081", "[::1]:8081", ":8080" for all
 * addresses of the machine, port 0 for a free one. */

/* Does not block, closed when another program is run; the caller's to close. port: instead of the
 * address's, 0: as it says. *ret_port: which it got. ERR_INVALID for an address, ERR_UNAVAILABLE
 * when it is taken. */
int listen_socket_open(const char *addr, int port, int *ret_fd, int *ret_port,
                       struct err *e) MUST_CHECK;
/* Does it listen still? False for -1. */
bool listen_socket_listens(int fd);
