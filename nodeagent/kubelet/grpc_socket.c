/* SPDX-License-Identifier: Apache-2.0 */
#include "nodeagent/kubelet/grpc_socket.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "base/auto.h"

#define BACKLOG 64

static int address_of(const char *path, struct sockaddr_un *ret, struct err *e)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    size_t len = strlen(path);
    if (len == 0 || len >= sizeof(address.sun_path))
        return err_set(e, ERR_INVALID, "%s: a socket's path has 1 to %zu bytes", path,
                       sizeof(address.sun_path) - 1);
    memcpy(address.sun_path, path, len);
    *ret = address;
    return 0;
}

static int open_socket(int *ret_fd, struct err *e)
{
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return err_set_errno(e, errno, "socket");
    *ret_fd = fd;
    return 0;
}

static int connect_to(int fd, const struct sockaddr_un *address)
{
    return connect(fd, (const struct sockaddr *)address, sizeof(*address)) < 0 ? errno : 0;
}

int grpc_socket_connect(const char *path, int *ret_fd, struct err *e)
{
    struct sockaddr_un address;
    TRY(address_of(path, &address, e));
    auto_fd int fd = -1;
    TRY(open_socket(&fd, e));
    int error = connect_to(fd, &address);
    if (error == EAGAIN)
        return err_set(e, ERR_UNAVAILABLE, "%s: no process accepts connections", path);
    if (error)
        return err_set(e, ERR_UNAVAILABLE, "%s: %s", path, strerror(error));
    *ret_fd = TAKE_FD(fd);
    return 0;
}

/* A socket that refuses connections is left over from a process that is gone. */
static int remove_leftover(const char *path, const struct sockaddr_un *address, struct err *e)
{
    struct stat st;
    if (lstat(path, &st) < 0)
        return errno == ENOENT ? 0 : err_set_errno(e, errno, "%s", path);
    if (!S_ISSOCK(st.st_mode))
        return err_set(e, ERR_EXISTS, "%s: not a socket", path);
    auto_fd int fd = -1;
    TRY(open_socket(&fd, e));
    int error = connect_to(fd, address);
    if (error == 0 || error == EAGAIN)
        return err_set(e, ERR_EXISTS, "%s: another process serves there", path);
    if (error != ECONNREFUSED && error != ENOENT)
        return err_set_errno(e, error, "%s", path);
    if (unlink(path) < 0 && errno != ENOENT)
        return err_set_errno(e, errno, "%s", path);
    return 0;
}

static int identify(const char *path, struct grpc_socket_id *ret, struct err *e)
{
    struct stat st;
    if (lstat(path, &st) < 0)
        return err_set_errno(e, errno, "%s", path);
    *ret = (struct grpc_socket_id){.device = st.st_dev, .inode = st.st_ino};
    return 0;
}

/* The file has this mode from the moment of bind, so it is never wider. */
static int bind_and_listen(int fd, const char *path, const struct sockaddr_un *address,
                           struct err *e)
{
    if (fchmod(fd, 0600) < 0 || bind(fd, (const struct sockaddr *)address, sizeof(*address)) < 0 ||
        listen(fd, BACKLOG) < 0)
        return err_set_errno(e, errno, "%s", path);
    return 0;
}

int grpc_socket_listen(const char *path, int *ret_fd, struct grpc_socket_id *ret_id, struct err *e)
{
    struct sockaddr_un address;
    TRY(address_of(path, &address, e));
    TRY(remove_leftover(path, &address, e));
    auto_fd int fd = -1;
    TRY(open_socket(&fd, e));
    TRY(bind_and_listen(fd, path, &address, e));
    TRY(identify(path, ret_id, e));
    *ret_fd = TAKE_FD(fd);
    return 0;
}

bool grpc_socket_is(const char *path, const struct grpc_socket_id *id)
{
    struct stat st;
    return lstat(path, &st) == 0 && st.st_dev == id->device && st.st_ino == id->inode;
}
