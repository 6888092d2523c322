/* SPDX-License-Identifier: Apache-2.0 */
#include "test/unit/http_server_support.h"

#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <dirent.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <sys/socket.h>

#include "base/xalloc.h"

void *running_serve(void *arg)
{
    struct running *r = arg;
    r->rc = http_server_run(r->srv, r->scope, NULL);
    return NULL;
}

void running_start(struct running *r, const struct http_route *routes, size_t n)
{
    auto_err struct err e = {0};
    const struct http_listener l = {.addr = "127.0.0.1:0", .routes = routes, .n_routes = n};
    r->metrics = metrics_new();
    cr_assert_eq(http_server_new(&l, 1, r->metrics, &r->srv, &e), 0, "%s", err_msg(&e));
    r->scope = scope_new(NULL, -1);
    cr_assert_eq(pthread_create(&r->thread, NULL, running_serve, r), 0);
}

void running_stop(struct running *r)
{
    scope_cancel(r->scope);
    cr_assert_eq(pthread_join(r->thread, NULL), 0);
    cr_expect_eq(r->rc, 0);
    r->srv = http_server_free(r->srv);
    r->metrics = metrics_free(r->metrics);
    r->scope = scope_free(r->scope);
}

int running_connect_from(const struct running *r, uint32_t address)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in ours = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(address)};
    cr_assert_eq(bind(fd, (struct sockaddr *)&ours, sizeof(ours)), 0);
    struct sockaddr_in a = {.sin_family = AF_INET,
                            .sin_port = htons((uint16_t)http_server_port(r->srv, 0)),
                            .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct timeval patience = {.tv_sec = 20};
    (void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    cr_assert_eq(connect(fd, (struct sockaddr *)&a, sizeof(a)), 0);
    return fd;
}

int running_connect(const struct running *r)
{
    return running_connect_from(r, INADDR_LOOPBACK);
}

/* The end or the stop of a child is a signal, which interrupts a recv that has a time limit. */
ssize_t running_receive(int fd, char *buf, size_t size)
{
    ssize_t n;
    do
        n = recv(fd, buf, size, 0);
    while (n < 0 && errno == EINTR);
    return n;
}

pid_t running_child_other_than(pid_t before)
{
    for (;;) {
        auto_dir DIR *tasks = opendir("/proc/self/task");
        for (struct dirent *d; (d = readdir(tasks));) {
            auto_free char *path = xasprintf("/proc/self/task/%s/children", d->d_name);
            auto_file FILE *f = fopen(path, "re");
            int pid = 0;
            if (d->d_name[0] != '.' && f && fscanf(f, "%d", &pid) == 1 && pid != before)
                return pid;
        }
    }
}
