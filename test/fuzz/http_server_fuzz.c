/* SPDX-License-Identifier: Apache-2.0 */
#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/xalloc.h"

#include "service/http_channel.h"
#include "service/http_front.h"
#include "service/http_intake.h"

/*
 * Input: what strangers do to the server over real sockets. Bytes are sent as they are, on the
 * connection that is talked on; 0xFE and a letter is a deed:
 *
 *     n  another connection, to the other one     0 to 3  talk on that connection from now on
 *     .  wait until the server has done all       h  no more is sent (half-closed)
 *     c  close                                    r  close with a reset
 *     u  a request to upgrade to HTTP/2           w  one to upgrade to WebSocket
 *     t  the start of a TLS handshake             a  the parent answers; until then pages wait
 *     l  from now on the pages are long           0xFE  this byte
 *     b  64 KiB of a body
 *
 * There are two servers for all inputs, one with open pages and a route that takes a body, and one
 * that wants a token, each as it is in its process. After each input every connection has been closed, and both answer a request.
 */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

enum {
    OPEN,
    GUARDED,
    SERVERS,
    CONNECTIONS = 4,
    ESCAPE = 0xFE,
    LONG_PAGE = 300000,
    MAX_SENT = 4096
};

#define TOKEN "good"

static const char *const paths[] = {"/healthz", "/readyz", "/metrics", "/filter"};
static const struct http_terms terms[SERVERS] = {
    [OPEN] = {.n_routes = 4, .posts = 1 << 3},
    [GUARDED] = {.n_routes = 3, .guarded = true},
};

static const char h2c[] =
    "GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: Upgrade, HTTP2-Settings\r\n"
    "Upgrade: h2c\r\nHTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA\r\n\r\n";
static const char websocket[] =
    "GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
    "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n";
static const char tls[] = "\x16\x03\x01\x00\x2f\x01\x00\x00\x2b\x03\x03"
                          "0123456789abcdef0123456789abcdef\x00\x00\x02\x13\x01\x01\x00";

/* Lives as long as the process. */
static struct world {
    struct server {
        int socket;
        struct sockaddr_in at;
        int channel; /* the parent's end */
        struct http_intake intake;
        struct http_front *front;
    } servers[SERVERS];
    bool stands;
    /* of one input */
    int connections[CONNECTIONS];
    int talks; /* which of them is talked on */
    bool patient, long_pages;
} w;

static void must(bool holds, const char *what)
{
    if (holds)
        return;
    perror(what);
    abort();
}

static void open_port(struct server *at)
{
    socklen_t len = sizeof(at->at);
    at->at = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    at->socket = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    must(bind(at->socket, (struct sockaddr *)&at->at, len) == 0, "bind");
    must(listen(at->socket, SOMAXCONN) == 0, "listen");
    must(getsockname(at->socket, (struct sockaddr *)&at->at, &len) == 0, "getsockname");
}

static void start(size_t i)
{
    struct server *at = &w.servers[i];
    int channel[2];
    open_port(at);
    must(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, channel) == 0,
         "socketpair");
    at->channel = channel[0];
    const struct http_front_options o = {.socket = at->socket,
                                         .paths = paths,
                                         .terms = terms[i],
                                         .channel = channel[1]};
    must(http_front_new(&o, &at->front, NULL) == 0, "http_front_new");
}

static void start_all(void)
{
    (void)signal(SIGPIPE, SIG_IGN);
    for (size_t i = 0; i < SERVERS; i++)
        start(i);
    w.stands = true;
}

/* --- The servers' side --- */

static bool step(const struct server *at)
{
    bool busy;
    must(http_front_step(at->front, 0, &busy, NULL) == 0, "step");
    return busy;
}

static void send_page(const struct server *at, uint16_t question, uint16_t status)
{
    static char body[LONG_PAGE];
    const struct http_answer a = {question, status, w.long_pages ? LONG_PAGE : 3};
    memset(body, 'x', sizeof(body));
    must(send(at->channel, &a, sizeof(a), 0) == (ssize_t)sizeof(a), "answer");
    for (size_t done = 0; done < a.len;) {
        size_t left = a.len - done;
        ssize_t n = send(at->channel, body + done,
                         left < HTTP_MAX_PIECE_BYTES ? left : HTTP_MAX_PIECE_BYTES, 0);
        done += n > 0 ? (size_t)n : 0;
        (void)step(at);
    }
}

static void answer_one(struct server *at)
{
    const struct http_ask_record *r = &at->intake.ask;
    bool guarded = at == &w.servers[GUARDED];
    bool known =
        r->head.token_len == sizeof(TOKEN) - 1 && !memcmp(r->token, TOKEN, sizeof(TOKEN) - 1);
    assert(!at->intake.body || strlen(at->intake.body) <= r->head.body_len);
    send_page(at, r->head.question, guarded && !known ? 401 : r->head.route == 1 ? 503 : 200);
    http_intake_done(&at->intake);
}

/* What a server asks for is bounded and sound, whatever strangers say. */
static bool answer(struct server *at)
{
    size_t before = at->intake.got;
    enum http_taken taken = http_intake_read(&at->intake, at->channel, &terms[at - w.servers]);
    assert(taken != HTTP_TAKEN_BROKEN);
    if (taken == HTTP_TAKEN_WHOLE)
        answer_one(at);
    return taken == HTTP_TAKEN_WHOLE || at->intake.got != before;
}

static void settle(void)
{
    bool busy;
    do {
        busy = false;
        for (size_t i = 0; i < SERVERS; i++) {
            busy |= step(&w.servers[i]);
            busy |= !w.patient && answer(&w.servers[i]);
        }
    } while (busy);
}

/* --- The strangers' side --- */

/* A signal of libFuzzer's interrupted it. */
static bool is_connected(int fd)
{
    struct pollfd p = {.fd = fd, .events = POLLOUT};
    int error = EINTR;
    while (errno == EINTR && poll(&p, 1, -1) < 0)
        ;
    return getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &(socklen_t){sizeof(error)}) == 0 &&
           error == 0;
}

static void dial(size_t server)
{
    const int on = 1;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    must(fd >= 0, "socket");
    must(connect(fd, (struct sockaddr *)&w.servers[server].at, sizeof(struct sockaddr_in)) == 0 ||
             is_connected(fd),
         "connect");
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    (void)setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &(int){LONG_PAGE}, sizeof(int));
    w.connections[w.talks] = fd;
}

static void hang_up(int i, bool reset)
{
    const struct linger now = {.l_onoff = 1};
    if (w.connections[i] < 0)
        return;
    if (reset)
        (void)setsockopt(w.connections[i], SOL_SOCKET, SO_LINGER, &now, sizeof(now));
    (void)close(w.connections[i]);
    w.connections[i] = -1;
}

static void say(const void *p, size_t len)
{
    if (w.connections[w.talks] < 0)
        dial((size_t)w.talks % SERVERS);
    (void)send(w.connections[w.talks], p, len, MSG_NOSIGNAL | MSG_DONTWAIT);
}

/* No input makes the server speak anything but HTTP/1. */
static void hear(void)
{
    char got[4096];
    if (w.connections[w.talks] < 0)
        return;
    ssize_t n = recv(w.connections[w.talks], got, sizeof(got), MSG_DONTWAIT);
    assert(n < 12 || strncmp(got, "HTTP/1.", 7) != 0 || strncmp(got + 9, "101", 3) != 0);
}

static void say_much(void)
{
    static char much[64 << 10];
    memset(much, 'x', sizeof(much));
    say(much, sizeof(much));
}

static void talk_on_another(void)
{
    w.talks = (w.talks + 1) % CONNECTIONS;
    hang_up(w.talks, false);
    dial((size_t)w.talks % SERVERS);
}

static void act(uint8_t deed)
{
    switch (deed) {
    case 'n':
        talk_on_another();
        break;
    case '0':
    case '1':
    case '2':
    case '3':
        w.talks = deed - '0';
        break;
    case '.':
        settle();
        hear();
        break;
    case 'h':
        if (w.connections[w.talks] >= 0)
            (void)shutdown(w.connections[w.talks], SHUT_WR);
        break;
    case 'c':
    case 'r':
        hang_up(w.talks, deed == 'r');
        break;
    case 'u':
        say(h2c, sizeof(h2c) - 1);
        break;
    case 'w':
        say(websocket, sizeof(websocket) - 1);
        break;
    case 't':
        say(tls, sizeof(tls) - 1);
        break;
    case 'a':
        w.patient = !w.patient;
        settle();
        break;
    case 'l':
        w.long_pages = true;
        break;
    case 'b':
        say_much();
        break;
    default:
        say(&deed, 1);
    }
}

/* The server is whole: a request of somebody else's is answered at once. */
static void expect_service(size_t server)
{
    static const char request[] =
        "GET /healthz HTTP/1.0\r\nAuthorization: Bearer " TOKEN "\r\n\r\n";
    char got[512] = "";
    w.talks = 0;
    dial(server);
    say(request, sizeof(request) - 1);
    for (int i = 0; i < 1000 && !*got; i++) {
        settle();
        (void)recv(w.connections[0], got, sizeof(got) - 1, MSG_DONTWAIT);
    }
    must(strncmp(got, "HTTP/1.", 7) == 0 && strncmp(got + 8, " 200 ", 5) == 0, got);
    hang_up(0, true);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    if (!w.stands)
        start_all();
    w.talks = 0;
    w.patient = false;
    w.long_pages = false;
    memset(w.connections, -1, sizeof(w.connections));
    for (size_t i = 0; i < len;) {
        const uint8_t *deed = memchr(data + i, ESCAPE, len - i);
        size_t n = deed ? (size_t)(deed - data) - i : len - i;
        for (size_t done = 0; done < n; done += MAX_SENT)
            say(data + i + done, n - done < MAX_SENT ? n - done : MAX_SENT);
        i += n;
        if (i + 1 < len)
            act(data[i + 1]);
        i += 2;
    }
    w.patient = false;
    settle();
    for (int i = 0; i < CONNECTIONS; i++) {
        w.talks = i;
        hear();
        hang_up(i, true);
    }
    settle();
    w.long_pages = false;
    for (size_t i = 0; i < SERVERS; i++)
        expect_service(i);
    settle();
    return 0;
}
