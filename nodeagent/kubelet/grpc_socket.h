/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include "base/err.h"

/* Which file a path names: paths of sockets are reused, files are not while somebody has them. */
struct grpc_socket_id {
    dev_t device;
    ino_t inode;
};

/* A listening unix socket of mode 0600 in place of one that nobody serves any more. The caller owns
 * *ret_fd. ERR_EXISTS: somebody serves there, or it is no socket; ERR_INVALID: path longer than 107
 * bytes; ERR_SYSTEM. Does not block. */
int grpc_socket_listen(const char *path, int *ret_fd, struct grpc_socket_id *ret_id,
                       struct err *e) MUST_CHECK;
/* Connected, or not: a unix socket is at once. The caller owns *ret_fd. ERR_UNAVAILABLE;
 * ERR_INVALID: path too long. */
int grpc_socket_connect(const char *path, int *ret_fd, struct err *e) MUST_CHECK;
/* Does the path name that very file? */
bool grpc_socket_is(const char *path, const struct grpc_socket_id *id);
