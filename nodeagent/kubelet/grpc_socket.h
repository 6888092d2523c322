/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include "base/err.h"

/* Unix sockets for gRPC: listens, connects, and tells whether a path still names the same socket.
 * */

/* Identifies the file that a path names. Paths of sockets are reused; an inode is not while it is
 * open. */
struct grpc_socket_id {
    dev_t device;
    ino_t inode;
};

/* Opens a listening unix socket of mode 0600 and replaces an unused one. The caller owns *ret_fd.
 * ERR_EXISTS: another process serves there, or it is no socket; ERR_INVALID: path longer than 107
 * bytes; ERR_SYSTEM. Does not block. */
int grpc_socket_listen(const char *path, int *ret_fd, struct grpc_socket_id *ret_id,
                       struct err *e) MUST_CHECK;
/* Connects; a unix socket does that at once or fails. The caller owns *ret_fd. ERR_UNAVAILABLE;
 * ERR_INVALID: path too long. */
int grpc_socket_connect(const char *path, int *ret_fd, struct err *e) MUST_CHECK;
/* True while the path names that same file. */
bool grpc_socket_is(const char *path, const struct grpc_socket_id *id);
