/* SPDX-License-Identifier: Apache-2.0 */
#include "service/listen_socket.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>

#include "base/auto.h"
#include "base/num.h"
#include "base/xalloc.h"

static int split_addr(const char *addr, char **ret_host, const char **ret_port, struct err *e)
{
    int64_t port;
    const char *colon = strrchr(addr, ':');
    if (!colon)
        return err_set(e, ERR_INVALID, "listen address %s: no port (want HOST:PORT)", addr);
    if (num_parse(colon + 1, 0, 65535, &port, e) < 0)
        return err_wrap(e, "listen address %s", addr);
    size_t len = (size_t)(colon - addr);
    bool bracketed = len >= 2 && addr[0] == '[' && colon[-1] == ']';
    *ret_host = len == 0 ? NULL : bracketed ? xstrndup(addr + 1, len - 2) : xstrndup(addr, len);
    *ret_port = colon + 1;
    return 0;
}

/* All addresses of both families, where both exist. */
static int open_socket(const struct addrinfo *a, bool all)
{
    const int on = 1;
    const int off = 0;
    auto_fd int fd =
        socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, a->ai_protocol);
    if (fd < 0)
        return -1;
    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    if (a->ai_family == AF_INET6)
        (void)setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, all ? &off : &on, sizeof(on));
    if (bind(fd, a->ai_addr, a->ai_addrlen) < 0 || listen(fd, SOMAXCONN) < 0)
        return -1;
    return TAKE_FD(fd);
}

static const struct addrinfo *first_of(const struct addrinfo *list, int family)
{
    while (list && list->ai_family != family)
        list = list->ai_next;
    return list;
}

/* The first address of a name; for all addresses, the IPv6 one also takes IPv4. */
static int open_first(const struct addrinfo *list, bool all)
{
    const struct addrinfo *v6 = all ? first_of(list, AF_INET6) : NULL;
    const struct addrinfo *v4 = all ? first_of(list, AF_INET) : NULL;
    int fd = v6 ? open_socket(v6, all) : -1;
    if (fd < 0 && v6 && v4 && (errno == EAFNOSUPPORT || errno == EADDRNOTAVAIL))
        fd = open_socket(v4, all);
    return v6 ? fd : open_socket(list, all);
}

static int port_number(int fd)
{
    union {
        struct sockaddr any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
    } a = {0};
    socklen_t len = sizeof(a);
    if (getsockname(fd, &a.any, &len) < 0)
        return 0;
    return ntohs(a.any.sa_family == AF_INET6 ? a.v6.sin6_port : a.v4.sin_port);
}

int listen_socket_check_addr(const char *flag, const char *addr, struct err *e)
{
    auto_free char *host = NULL;
    const char *port;
    if (addr && *addr && split_addr(addr, &host, &port, e) < 0)
        return err_wrap(e, "--%s", flag);
    return 0;
}

int listen_socket_open(const char *addr, int port, int *ret_fd, int *ret_port, struct err *e)
{
    auto_free char *same = xasprintf("%d", port);
    auto_free char *host = NULL;
    const char *named = NULL;
    struct addrinfo *list = NULL;
    const struct addrinfo want = {.ai_socktype = SOCK_STREAM,
                                  .ai_flags = AI_PASSIVE | AI_NUMERICSERV};
    TRY(split_addr(addr, &host, &named, e));
    int rc = getaddrinfo(host, port ? same : named, &want, &list);
    if (rc != 0)
        return err_set(e, ERR_INVALID, "listen address %s: %s", addr, gai_strerror(rc));
    int fd = open_first(list, !host);
    int failure = errno;
    freeaddrinfo(list);
    if (fd < 0)
        return err_set(e, failure == EADDRINUSE ? ERR_EXISTS : ERR_UNAVAILABLE,
                       "cannot listen on %s: %s", addr, strerrordesc_np(failure));
    *ret_fd = fd;
    *ret_port = port_number(fd);
    return 0;
}

bool listen_socket_is_loopback(const char *addr)
{
    auto_free char *host = NULL;
    const char *port;
    struct in_addr v4;
    struct in6_addr v6;
    if (split_addr(addr, &host, &port, NULL) < 0 || !host)
        return false;
    if (inet_pton(AF_INET, host, &v4) == 1)
        return ntohl(v4.s_addr) >> 24 == IN_LOOPBACKNET;
    if (inet_pton(AF_INET6, host, &v6) == 1)
        return IN6_IS_ADDR_LOOPBACK(&v6);
    return strcmp(host, "localhost") == 0;
}

bool listen_socket_listens(int fd)
{
    int listening = 0;
    socklen_t len = sizeof(listening);
    return fd >= 0 && getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listening, &len) == 0 && listening;
}
