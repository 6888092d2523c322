/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <dlfcn.h>
#include <netinet/in.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/xalloc.h"

#include "kubeclient/http.h"
#include "kubeclient/pod_page.h"
#include "kubeclient/ws_frames.h"
#include "test/unit/api_server_support.h"
#include "test/unit/pod_server_support.h"

/* --- The client's --- */

/* What a reading of /metrics gave. */
struct got {
    int rc;
    char *page;
    struct err e;
};

static void got_done(struct got *g)
{
    free(g->page);
    err_clear(&g->e);
}

AUTO_DEFINE(got, struct got, got_done)
#define auto_got AUTO(got)

/* Leaves this process so many descriptors more. */
static void leave_descriptors(size_t n)
{
    int next = dup(0);
    struct rlimit most;
    (void)getrlimit(RLIMIT_NOFILE, &most);
    most.rlim_cur = n < most.rlim_max - (rlim_t)next ? (rlim_t)next + n : most.rlim_max;
    (void)setrlimit(RLIMIT_NOFILE, &most);
    (void)close(next);
}

/* For the reading of a page. */
static size_t descriptors = SIZE_MAX;

static struct got get_by(const struct kc_config *config, int64_t ms, const char *token)
{
    struct got g = {0};
    auto_scope struct scope *s = scope_new(NULL, ms);
    auto_kc struct kc *kc = NULL;
    const struct pod_page page = {"ns", "agent-1", 8080, "/metrics", .token = token};
    cr_assert_eq(kc_http_new(config, NULL, &kc, &g.e), 0, "%s", err_msg(&g.e));
    leave_descriptors(descriptors);
    g.rc = pod_page_get(kc_http_way(kc), s, &page, &g.page, &g.e);
    leave_descriptors(SIZE_MAX);
    return g;
}

static char own[] = "own";

static struct got get_from(const char *url, int64_t ms, const char *token)
{
    const struct kc_config config = {.server = (char *)(uintptr_t)url, .token = own};
    return get_by(&config, ms, token);
}

static struct got get_served(struct pod_server *p, void (*fn)(struct pod_server *, int), int64_t ms)
{
    pod_server_start(p, fn);
    auto_free char *url = xasprintf("http://127.0.0.1:%u/prefix", (unsigned int)p->port);
    struct got g = get_from(url, ms, "narrow");
    pod_server_end(p);
    return g;
}

#define PATIENCE_MS 60000

/* --- The tests --- */

static void serve_in_pieces(struct pod_server *p, int fd)
{
    static const char answer[] = "HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n"
                                 "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n0123456789";
    pod_server_shake_hands(p, fd);
    pod_server_open_channels(fd);
    pod_server_hear_request(p, fd);
    pod_server_say(fd, "\x89\x02hi", 4);
    for (size_t i = 0; i < strlen(answer); i += 7)
        pod_server_say_on(fd, 0, answer + i, strlen(answer + i) < 7 ? strlen(answer + i) : 7);
    while (pod_server_hear(p, fd))
        continue;
}

Test(port_forward, a_pods_page_is_read_as_if_one_were_in_the_pod)
{
    struct pod_server p = {0};
    auto_got struct got g = get_served(&p, serve_in_pieces, PATIENCE_MS);
    cr_assert_eq(g.rc, 0, "%s", err_msg(&g.e));
    cr_expect_str_eq(g.page, "0123456789");
    cr_expect_eq(strncmp(p.asked,
                         "GET /prefix/api/v1/namespaces/ns/pods/agent-1/portforward?ports=8080 "
                         "HTTP/1.1\r\n",
                         70),
                 0, "%s", p.asked);
    auto_free char *host = xasprintf("\r\nHost: 127.0.0.1:%u\r\n", (unsigned int)p.port);
    cr_expect_not_null(strstr(p.asked, host));
    cr_expect_not_null(strstr(p.asked, "Authorization: Bearer own\r\n"));
    cr_expect_eq(strncmp(p.heard, "GET /metrics HTTP/1.1\r\n", 23), 0, "%s", p.heard);
    cr_expect_not_null(strstr(p.heard, "Authorization: Bearer narrow\r\n"));
    cr_expect_null(strstr(p.heard, "own"), "our own token stays with the API server");
    cr_expect_eq(p.pongs, 1);
}

/* --- A stranger of this machine --- */

static atomic_bool stranger_lurks;
static int stranger = -1; /* his connection */

static int stranger_connects(int listener)
{
    struct sockaddr_in at;
    socklen_t len = sizeof(at);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    cr_assert_eq(getsockname(listener, (struct sockaddr *)&at, &len), 0);
    cr_assert_eq(connect(fd, (struct sockaddr *)&at, len), 0);
    cr_assert_eq(send(fd, "let me in", 9, MSG_NOSIGNAL), 9);
    return fd;
}

/* In the C library's place: he is there before libcurl. */
int listen(int fd, int backlog)
{
    int (*real)(int, int) = (int (*)(int, int))dlsym(RTLD_NEXT, "listen");
    int rc = real(fd, backlog);
    if (stranger_lurks)
        stranger = stranger_connects(fd);
    return rc;
}

static void serve_beside_a_stranger(struct pod_server *p, int fd)
{
    stranger_lurks = true;
    serve_in_pieces(p, fd);
}

Test(port_forward, a_stranger_of_this_machine_is_sent_away)
{
    char c;
    struct pod_server p = {0};
    auto_got struct got g = get_served(&p, serve_beside_a_stranger, PATIENCE_MS);
    stranger_lurks = false;
    cr_assert_eq(g.rc, 0, "%s", err_msg(&g.e));
    cr_expect_str_eq(g.page, "0123456789");
    cr_expect_eq(strncmp(p.heard, "GET /metrics HTTP/1.1\r\n", 23), 0, "%s", p.heard);
    cr_expect_leq(recv(stranger, &c, 1, 0), 0);
    (void)close(stranger);
}

/* A proxy, and the API server behind it. */
static void serve_behind_a_proxy(struct pod_server *p, int fd)
{
    auto_free char *connect = xstrdup(p->asked);
    pod_server_say_text(fd, "HTTP/1.1 200 Connection established\r\n\r\n");
    memset(p->asked, 0, sizeof(p->asked));
    if (pod_server_receive_until(fd, p->asked, sizeof(p->asked), "\r\n\r\n"))
        serve_in_pieces(p, fd);
    cr_expect_eq(strncmp(connect, "CONNECT 192.0.2.1:6443 HTTP/1.1\r\n", 33), 0, "%s", connect);
    cr_expect_null(strstr(connect, "own"), "%s", connect);
}

Test(port_forward, the_kubeconfigs_proxy_and_tls_server_name_hold)
{
    struct pod_server p = {0}, q = {0};
    pod_server_start(&p, serve_behind_a_proxy);
    auto_free char *proxy = xasprintf("http://127.0.0.1:%u", (unsigned int)p.port);
    static char far[] = "http://192.0.2.1:6443", name[] = "kubernetes";
    const struct kc_config by_proxy = {.server = far, .token = own, .proxy_url = proxy};
    auto_got struct got g = get_by(&by_proxy, PATIENCE_MS, NULL);
    pod_server_end(&p);
    cr_expect_eq(g.rc, 0, "%s", err_msg(&g.e));
    cr_expect_not_null(strstr(p.asked, "\r\nHost: 192.0.2.1:6443\r\n"), "%s", p.asked);

    pod_server_start(&q, serve_in_pieces);
    auto_free char *near = xasprintf("http://127.0.0.1:%u", (unsigned int)q.port);
    auto_free char *host = xasprintf("\r\nHost: %s\r\n", near + strlen("http://"));
    const struct kc_config by_name = {.server = near, .token = own, .tls_server_name = name};
    auto_got struct got h = get_by(&by_name, PATIENCE_MS, NULL);
    pod_server_end(&q);
    cr_expect_eq(h.rc, 0, "%s", err_msg(&h.e));
    cr_expect_not_null(strstr(q.asked, host), "%s", q.asked);
}

Test(port_forward, wherever_the_connection_breaks_there_is_an_error_and_no_page)
{
    int rc = -1;
    for (size_t at = 0; rc != 0; at++) {
        struct pod_server p = {0};
        pod_server_to_say = at;
        auto_got struct got g = get_served(&p, serve_in_pieces, PATIENCE_MS);
        rc = g.rc;
        cr_assert(rc == 0 || rc == -ERR_UNAVAILABLE, "%zu: %s", at, err_msg(&g.e));
        cr_assert(rc != 0 || strcmp(g.page, "0123456789") == 0, "%zu", at);
    }
}

Test(port_forward, without_enough_descriptors_there_is_an_error_at_once)
{
    int rc = -1;
    for (descriptors = 0; rc != 0; descriptors++) {
        struct pod_server p = {0};
        auto_got struct got g = get_served(&p, serve_in_pieces, 1000);
        rc = g.rc;
        bool accepted = *p.asked; /* the server is in this process, and lacks them, too */
        cr_expect(!accepted || rc != -ERR_TIMEOUT, "%zu: %s", descriptors, err_msg(&g.e));
    }
}

static void refuse_port(struct pod_server *p, int fd)
{
    static const char words[] = "dial tcp4 127.0.0.1:8080: connection refused\r\n\033[31m";
    pod_server_shake_hands(p, fd);
    pod_server_open_channels(fd);
    pod_server_say_on(fd, 1, words, strlen(words));
    while (pod_server_hear(p, fd))
        continue;
}

Test(port_forward, why_the_port_cannot_be_reached_is_told_in_the_kubelets_words)
{
    struct pod_server p = {0};
    auto_got struct got g = get_served(&p, refuse_port, PATIENCE_MS);
    cr_expect_eq(g.rc, -ERR_UNAVAILABLE);
    cr_expect_str_eq(err_msg(&g.e), "dial tcp4 127.0.0.1:8080: connection refused");
}

/* One message of 64 KiB on the channel of errors. */
static void lament(struct pod_server *p, int fd)
{
    static const char head[] = {(char)(0x80 | WS_BINARY), 127, 0, 0, 0, 0, 0, 1, 0, 0, 1};
    static char words[65535];
    memset(words, 'x', sizeof(words));
    pod_server_shake_hands(p, fd);
    pod_server_open_channels(fd);
    pod_server_say(fd, head, sizeof(head));
    pod_server_say(fd, words, sizeof(words));
    while (pod_server_hear(p, fd))
        continue;
}

Test(port_forward, of_a_kubelets_words_as_many_are_told_as_a_person_reads)
{
    struct pod_server p = {0};
    auto_got struct got g = get_served(&p, lament, PATIENCE_MS);
    cr_expect_eq(g.rc, -ERR_UNAVAILABLE);
    cr_expect_eq(strlen(err_msg(&g.e)), 1024);
}

static void break_off(struct pod_server *p, int fd)
{
    pod_server_shake_hands(p, fd);
    pod_server_open_channels(fd);
    pod_server_hear_request(p, fd);
    pod_server_say_on(fd, 0, "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n0123", 44);
}

Test(port_forward, a_page_that_breaks_off_is_no_page)
{
    struct pod_server p = {0};
    auto_got struct got g = get_served(&p, break_off, PATIENCE_MS);
    cr_expect_eq(g.rc, -ERR_UNAVAILABLE, "%s", err_msg(&g.e));
}

static void answer_forbidden(struct pod_server *p, int fd)
{
    static const char answer[] = "HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n";
    pod_server_shake_hands(p, fd);
    pod_server_open_channels(fd);
    pod_server_hear_request(p, fd);
    pod_server_say_on(fd, 0, answer, strlen(answer));
    while (pod_server_hear(p, fd))
        continue;
}

Test(port_forward, what_the_pod_refuses_is_told_apart_from_what_the_api_server_refuses)
{
    struct pod_server p = {0};
    auto_got struct got g = get_served(&p, answer_forbidden, PATIENCE_MS);
    cr_expect_eq(g.rc, -ERR_FORBIDDEN);
    cr_expect_eq(g.e.http_status, 0);
    cr_expect_str_eq(err_msg(&g.e), "agent-1 answered /metrics with 403");
}

static void pour(struct pod_server *p, int fd)
{
    static char head[] = "HTTP/1.1 200 OK\r\n\r\n";
    static char piece[100];
    pod_server_shake_hands(p, fd);
    pod_server_open_channels(fd);
    pod_server_hear_request(p, fd);
    pod_server_say_on(fd, 0, head, strlen(head));
    memset(piece, 'x', sizeof(piece));
    for (size_t sent = 0; sent < 2 * POD_PAGE_MAX_BYTES; sent += sizeof(piece))
        pod_server_say_on(fd, 0, piece, sizeof(piece));
}

static void pour_headers(struct pod_server *p, int fd)
{
    static const char head[] = "HTTP/1.1 200 OK\r\n", line[] = "X-Header: 0123456789\r\n";
    pod_server_shake_hands(p, fd);
    pod_server_open_channels(fd);
    pod_server_hear_request(p, fd);
    pod_server_say_on(fd, 0, head, strlen(head));
    for (size_t i = 0; i < 100000; i++)
        pod_server_say_on(fd, 0, line, strlen(line));
}

Test(port_forward, headers_without_end_are_bounded)
{
    struct pod_server p = {0};
    auto_got struct got g = get_served(&p, pour_headers, PATIENCE_MS);
    cr_expect_eq(g.rc, -ERR_TOO_LARGE, "%s", err_msg(&g.e));
}

Test(port_forward, a_page_without_end_is_bounded)
{
    struct pod_server p = {0};
    auto_got struct got g = get_served(&p, pour, PATIENCE_MS);
    cr_expect_eq(g.rc, -ERR_TOO_LARGE, "%s", err_msg(&g.e));
}

static void say_nothing(struct pod_server *p, int fd)
{
    pod_server_shake_hands(p, fd);
    pod_server_open_channels(fd);
    while (pod_server_hear(p, fd))
        continue;
}

Test(port_forward, a_pod_that_does_not_answer_is_waited_for_until_the_deadline)
{
    struct pod_server p = {0};
    auto_got struct got g = get_served(&p, say_nothing, 300);
    cr_expect_eq(g.rc, -ERR_TIMEOUT, "%s", err_msg(&g.e));
}

/* Says nothing, as fast as it can, until nobody listens. */
static void chatter(struct pod_server *p, int fd)
{
    static uint8_t pongs[65536];
    for (size_t i = 0; i < sizeof(pongs); i += 2)
        pongs[i] = 0x80 | WS_PONG;
    pod_server_shake_hands(p, fd);
    while (send(fd, pongs, sizeof(pongs), MSG_NOSIGNAL) > 0)
        continue;
}

Test(port_forward, a_peer_that_never_pauses_is_listened_to_until_the_deadline, .timeout = 60)
{
    struct pod_server p = {0};
    auto_got struct got g = get_served(&p, chatter, 300);
    cr_expect_eq(g.rc, -ERR_TIMEOUT, "%s", err_msg(&g.e));
}

static void speak_of_channel_7(struct pod_server *p, int fd)
{
    pod_server_shake_hands(p, fd);
    pod_server_say_on(fd, 7, "x", 1);
    while (pod_server_hear(p, fd))
        continue;
}

static void send_garbage(struct pod_server *p, int fd)
{
    pod_server_shake_hands(p, fd);
    pod_server_say_text(fd, "HTTP/1.1 400 Bad Request\r\n\r\n");
    while (pod_server_hear(p, fd))
        continue;
}

static void accept_another_key(struct pod_server *p, int fd)
{
    (void)p;
    pod_server_say_text(
        fd, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n"
            "Sec-WebSocket-Accept: AAAA\r\nSec-WebSocket-Protocol: v4.channel.k8s.io\r\n\r\n");
}

static void speak_no_http(struct pod_server *p, int fd)
{
    (void)p;
    pod_server_say_text(fd, "SSH-2.0-x\r\n\r\n");
}

static void have_endless_headers(struct pod_server *p, int fd)
{
    (void)p;
    pod_server_say_text(fd, "HTTP/1.1 101 Switching Protocols\r\n");
    for (int i = 0; i < 100000; i++)
        pod_server_say_text(fd, "X-Header: value\r\n");
}

static void answer_with_a_page(struct pod_server *p, int fd)
{
    (void)p;
    pod_server_say_text(fd, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi");
}

Test(port_forward, a_server_that_speaks_another_protocol_is_no_api_server)
{
    static void (*const servers[])(struct pod_server *, int) = {speak_of_channel_7, send_garbage,
                                                                accept_another_key, speak_no_http,
                                                                answer_with_a_page};
    for (size_t i = 0; i < ARRAY_LEN(servers); i++) {
        struct pod_server p = {0};
        auto_got struct got g = get_served(&p, servers[i], PATIENCE_MS);
        cr_expect_eq(g.rc, -ERR_PROTOCOL, "%zu: %s", i, err_msg(&g.e));
    }
    struct pod_server p = {0};
    auto_got struct got g = get_served(&p, have_endless_headers, PATIENCE_MS);
    cr_expect_eq(g.rc, -ERR_TOO_LARGE, "%s", err_msg(&g.e));
}

/* --- What the API server refuses --- */

static void expect_refusal(int status, const char *body, enum err_kind kind, const char *words)
{
    auto_api_server struct api_server *srv = api_server_new(NULL);
    api_server_add(srv, &(struct api_answer){.status = status, .body = body, .times = -1});
    auto_got struct got g = get_from(api_server_url(srv), PATIENCE_MS, NULL);
    cr_expect_eq(g.rc, -(int)kind, "%s", err_msg(&g.e));
    cr_expect_eq(g.e.http_status, status);
    cr_expect_str_eq(err_msg(&g.e), words);
}

Test(port_forward, a_refusal_has_the_api_servers_words)
{
    expect_refusal(403,
                   "{\"kind\":\"Status\",\"status\":\"Failure\",\"reason\":\"Forbidden\","
                   "\"message\":\"pods is forbidden\",\"code\":403}",
                   ERR_FORBIDDEN, "pods is forbidden");
    expect_refusal(404,
                   "{\"kind\":\"Status\",\"status\":\"Failure\",\"reason\":\"NotFound\","
                   "\"message\":\"pods not found\",\"code\":404}",
                   ERR_NOT_FOUND, "pods not found");
}

Test(port_forward, a_server_that_is_not_there_is_unavailable)
{
    auto_got struct got g = get_from("http://127.0.0.1:1", PATIENCE_MS, NULL);
    cr_expect_eq(g.rc, -ERR_UNAVAILABLE);
}
