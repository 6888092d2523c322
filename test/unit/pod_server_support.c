/* SPDX-License-Identifier: Apache-2.0 */
#include "test/unit/pod_server_support.h"

#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <openssl/evp.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/xalloc.h"

#include "kubeclient/base64.h"
#include "kubeclient/ws_frames.h"

bool pod_server_receive_until(int fd, char *into, size_t room, const char *end)
{
    for (size_t len = 0; !strstr(into, end) && len + 1 < room; len++)
        if (recv(fd, into + len, 1, 0) != 1)
            return false;
    return true;
}

size_t pod_server_to_say = SIZE_MAX;

void pod_server_say(int fd, const void *p, size_t len)
{
    bool breaks = pod_server_to_say < len;
    len = breaks ? pod_server_to_say : len;
    pod_server_to_say -= len;
    for (const char *at = p; len;) {
        ssize_t n = send(fd, at, len, MSG_NOSIGNAL);
        if (n <= 0)
            return;
        at += n;
        len -= (size_t)n;
    }
    if (breaks)
        (void)shutdown(fd, SHUT_RDWR);
}

void pod_server_say_text(int fd, const char *text)
{
    pod_server_say(fd, text, strlen(text));
}

static char *accept_of(const char *asked)
{
    unsigned char digest[EVP_MAX_MD_SIZE];
    unsigned int len;
    const char *key = strstr(asked, "Sec-WebSocket-Key: ") + strlen("Sec-WebSocket-Key: ");
    auto_free char *text =
        xasprintf("%.*s258EAFA5-E914-47DA-95CA-C5AB0DC85B11", (int)strcspn(key, "\r\n"), key);
    (void)EVP_Digest(text, strlen(text), digest, &len, EVP_sha1(), NULL);
    return base64_encode(digest, len);
}

void pod_server_shake_hands(struct pod_server *p, int fd)
{
    auto_free char *accepted = accept_of(p->asked);
    auto_free char *head = xasprintf(
        "HTTP/1.1 101 Switching Protocols\r\nupgrade: WebSocket\r\nConnection: Upgrade\r\n"
        "Sec-Websocket-Accept: %s\r\nSec-WebSocket-Protocol: v4.channel.k8s.io\r\n\r\n",
        accepted);
    pod_server_say_text(fd, head);
}

void pod_server_say_on(int fd, char channel, const void *p, size_t len)
{
    const char head[] = {(char)(0x80 | WS_BINARY), (char)(len + 1), channel};
    pod_server_say(fd, head, sizeof(head));
    pod_server_say(fd, p, len);
}

void pod_server_open_channels(int fd)
{
    pod_server_say_on(fd, 0, "\x90\x1f", 2);
    pod_server_say_on(fd, 1, "\x90\x1f", 2);
}

bool pod_server_hear(struct pod_server *p, int fd)
{
    uint8_t head[2], more[2], mask[4], data[4096];
    if (recv(fd, head, 2, MSG_WAITALL) != 2)
        return false;
    size_t len = head[1] & 0x7f;
    if (len == 126 && recv(fd, more, 2, MSG_WAITALL) == 2)
        len = (size_t)more[0] << 8 | more[1];
    cr_assert(head[1] & 0x80, "a client's frame is masked");
    if (len > sizeof(data) || recv(fd, mask, 4, MSG_WAITALL) != 4 ||
        (len && recv(fd, data, len, MSG_WAITALL) != (ssize_t)len))
        return false;
    p->pongs += (head[0] & 0xf) == WS_PONG;
    size_t had = strlen(p->heard);
    for (size_t i = 1; (head[0] & 0xf) == WS_BINARY && i < len; i++)
        if (had + i < sizeof(p->heard))
            p->heard[had + i - 1] = (char)(data[i] ^ mask[i % 4]);
    return true;
}

void pod_server_hear_request(struct pod_server *p, int fd)
{
    while (!strstr(p->heard, "\r\n\r\n") && pod_server_hear(p, fd))
        continue;
}

static void *serve(void *arg)
{
    struct pod_server *p = arg;
    int fd = accept(p->listener, NULL, NULL);
    if (fd >= 0 && pod_server_receive_until(fd, p->asked, sizeof(p->asked), "\r\n\r\n"))
        p->serve(p, fd);
    if (fd >= 0)
        (void)close(fd);
    return NULL;
}

void pod_server_start(struct pod_server *p, void (*fn)(struct pod_server *, int))
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(at);
    p->serve = fn;
    p->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    cr_assert(bind(p->listener, (struct sockaddr *)&at, len) == 0 && listen(p->listener, 1) == 0 &&
              getsockname(p->listener, (struct sockaddr *)&at, &len) == 0);
    p->port = ntohs(at.sin_port);
    cr_assert_eq(pthread_create(&p->thread, NULL, serve, p), 0);
}

void pod_server_end(struct pod_server *p)
{
    (void)shutdown(p->listener, SHUT_RDWR);
    (void)pthread_join(p->thread, NULL);
    (void)close(p->listener);
}
