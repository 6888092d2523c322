/* SPDX-License-Identifier: Apache-2.0 */
#include "h2_peer_support.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/sb.h"
#include "base/xalloc.h"

#define PREFACE    "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
#define HEAD_BYTES 9
#define MAX_SENDS  64          /* of one piece that is not taken */
#define MAX_SENT   (5UL << 20) /* by one repetition, or as one message */
#define MAX_FRAME  16384

enum { DATA = 0, HEADERS = 1, SETTINGS = 4 };
enum { END_STREAM = 1, ACK = 1, END_HEADERS = 4 };

/* ---- scripts ---- */

uint8_t script_byte(struct script *s)
{
    return s->at < s->end ? *s->at++ : 0;
}

const uint8_t *script_take(struct script *s, size_t n, size_t *ret_len)
{
    const uint8_t *p = s->at;
    size_t left = (size_t)(s->end - s->at);
    *ret_len = n < left ? n : left;
    s->at += *ret_len;
    return p;
}

const uint8_t *script_bytes(struct script *s, size_t *ret_len)
{
    size_t n = script_byte(s);
    return script_take(s, n, ret_len);
}

/* ---- sockets ---- */

void h2_peer_open(struct h2_peer *p, int fd, h2_peer_settle_fn *settle, void *arg)
{
    *p = (struct h2_peer){.fd = fd, .settle = settle, .arg = arg};
    (void)fcntl(fd, F_SETFL, O_NONBLOCK);
}

void h2_peer_close(struct h2_peer *p)
{
    auto_close_fd(&p->fd);
    free(p->last);
    *p = (struct h2_peer){.fd = -1};
}

void h2_peer_drain(struct h2_peer *p)
{
    char said[16384];
    while (p->fd >= 0 && !p->stalled && recv(p->fd, said, sizeof(said), MSG_DONTWAIT) > 0)
        ;
}

/* One piece; what is not taken after some turns of the other end's is dropped. */
static void push(struct h2_peer *p, const uint8_t *bytes, size_t len)
{
    for (int i = 0; i < MAX_SENDS && len > 0; i++) {
        ssize_t n = send(p->fd, bytes, len, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n < 0 && errno != EAGAIN)
            return;
        bytes += n > 0 ? n : 0;
        len -= n > 0 ? (size_t)n : 0;
        p->settle(p->arg);
        h2_peer_drain(p);
    }
}

static void say_again(struct h2_peer *p)
{
    for (size_t i = 0; i < p->last_len;) {
        size_t n = p->piece ? p->piece : p->last_len;
        n = n < p->last_len - i ? n : p->last_len - i;
        push(p, p->last + i, n);
        i += n;
    }
}

static void say(struct h2_peer *p, const struct sb *bytes)
{
    free(p->last);
    p->last = xmemdup(sb_str(bytes), bytes->len);
    p->last_len = bytes->len;
    say_again(p);
}

/* ---- frames ---- */

static void add_frame(struct sb *b, uint8_t type, uint8_t flags, uint32_t stream, const void *p,
                      size_t len)
{
    const char head[HEAD_BYTES] = {(char)(len >> 16),    (char)(len >> 8),    (char)len,
                                   (char)type,           (char)flags,         (char)(stream >> 24),
                                   (char)(stream >> 16), (char)(stream >> 8), (char)stream};
    sb_add_mem(b, head, sizeof(head));
    sb_add_mem(b, p, len);
}

/* A field that no table has (RFC 7541, section 6.2.2); both are shorter than 127 bytes. */
static void add_field(struct sb *b, const char *name, const char *value)
{
    sb_add_char(b, 0);
    sb_add_char(b, (char)strlen(name));
    sb_add(b, name);
    sb_add_char(b, (char)strlen(value));
    sb_add(b, value);
}

static void add_headers(struct sb *b, uint8_t flags, uint32_t stream, const char *const *fields)
{
    auto_sb struct sb block = SB_INIT(MAX_FRAME);
    for (; *fields; fields += 2)
        add_field(&block, fields[0], fields[1]);
    add_frame(b, HEADERS, flags, stream, sb_str(&block), block.len);
}

static void add_message(struct sb *b, uint8_t flags, uint32_t stream, const uint8_t *p, size_t len)
{
    auto_sb struct sb message = SB_INIT(MAX_FRAME);
    const char prefix[5] = {0, (char)(len >> 24), (char)(len >> 16), (char)(len >> 8), (char)len};
    sb_add_mem(&message, prefix, sizeof(prefix));
    sb_add_mem(&message, p, len);
    add_frame(b, DATA, flags, stream, sb_str(&message), message.len);
}

void h2_peer_hello(struct h2_peer *p, bool is_client)
{
    auto_sb struct sb b = SB_INIT(256);
    if (is_client)
        sb_add(&b, PREFACE);
    add_frame(&b, SETTINGS, 0, 0, NULL, 0);
    add_frame(&b, SETTINGS, ACK, 0, NULL, 0);
    say(p, &b);
}

/* ---- what it does ---- */

/* Whatever comes. */
static void do_raw(struct h2_peer *p, struct script *s)
{
    auto_sb struct sb b = SB_INIT(256);
    size_t len = 0;
    const uint8_t *bytes = script_bytes(s, &len);
    sb_add_mem(&b, bytes, len);
    say(p, &b);
}

/* A frame that is one, of any type. Its stream is a small number; the length may be a lie. */
static void do_frame(struct h2_peer *p, struct script *s)
{
    auto_sb struct sb b = SB_INIT(MAX_FRAME);
    uint8_t type = script_byte(s);
    uint8_t flags = script_byte(s);
    uint8_t stream = script_byte(s);
    size_t len = 0;
    const uint8_t *bytes = script_bytes(s, &len);
    add_frame(&b, type, flags, stream, bytes, len);
    say(p, &b);
}

/* The headers of a call, or of an answer. */
static void add_first(struct sb *b, const char *path, uint8_t stream)
{
    const char *const call[] =
        {":method", "POST",         ":scheme",          "http", ":path", path, ":authority",
         "x",       "content-type", "application/grpc", NULL};
    static const char *const answer[] = {":status", "200", "content-type", "application/grpc",
                                         NULL};
    add_headers(b, END_HEADERS, stream, path ? call : answer);
}

static void add_last(struct sb *b, uint8_t stream)
{
    static const char *const trailers[] = {"grpc-status", "0", NULL};
    add_headers(b, END_HEADERS | END_STREAM, stream, trailers);
}

/* A call, or an answer, that is whole: its message comes from the script. */
static void do_properly(struct h2_peer *p, const char *path, struct script *s)
{
    auto_sb struct sb b = SB_INIT(2UL * MAX_FRAME);
    uint8_t stream = script_byte(s);
    size_t len = 0;
    const uint8_t *bytes = script_bytes(s, &len);
    add_first(&b, path, stream);
    add_message(&b, path ? END_STREAM : 0, stream, bytes, len);
    if (!path)
        add_last(&b, stream);
    say(p, &b);
}

/* A message as long as that, of which bytes are the beginning, over and over. */
static void fill_message(struct sb *message, size_t len, const uint8_t *bytes, size_t n)
{
    const char prefix[5] = {0, (char)(len >> 24), (char)(len >> 16), (char)(len >> 8), (char)len};
    sb_add_mem(message, prefix, sizeof(prefix));
    while (n > 0 && message->len < len + sizeof(prefix)) {
        size_t left = len + sizeof(prefix) - message->len;
        sb_add_mem(message, bytes, n < left ? n : left);
    }
}

/* The same with a message as large as is said: a parser may make many things of one. */
static void do_at_length(struct h2_peer *p, const char *path, struct script *s)
{
    auto_sb struct sb b = SB_INIT(MAX_SENT);
    auto_sb struct sb message = SB_INIT(MAX_SENT);
    uint8_t stream = script_byte(s);
    size_t whole = (size_t)script_byte(s) << (path ? 12 : 14);
    size_t len = 0;
    const uint8_t *bytes = script_bytes(s, &len);
    fill_message(&message, whole, bytes, len);
    add_first(&b, path, stream);
    for (size_t i = 0; i < message.len; i += MAX_FRAME) {
        size_t part = message.len - i < MAX_FRAME ? message.len - i : MAX_FRAME;
        bool is_last = i + part == message.len;
        add_frame(&b, DATA, is_last && path ? END_STREAM : 0, stream, sb_str(&message) + i, part);
    }
    if (!path)
        add_last(&b, stream);
    say(p, &b);
}

/* Each frame of what was sent last on the stream that is so much further on. */
static void move_streams(uint8_t *bytes, size_t len, uint32_t step)
{
    for (size_t i = 0; i + HEAD_BYTES <= len;) {
        uint8_t *h = bytes + i;
        uint32_t stream = (uint32_t)h[5] << 24 | (uint32_t)h[6] << 16 | (uint32_t)h[7] << 8 | h[8];
        stream += stream ? step : 0;
        h[5] = (uint8_t)(stream >> 24);
        h[6] = (uint8_t)(stream >> 16);
        h[7] = (uint8_t)(stream >> 8);
        h[8] = (uint8_t)stream;
        i += HEAD_BYTES + ((size_t)h[0] << 16 | (size_t)h[1] << 8 | h[2]);
    }
}

/* The flood: once more, many times, on the same stream or on new ones. */
static void do_repeat(struct h2_peer *p, struct script *s)
{
    size_t times = script_byte(s);
    uint32_t step = script_byte(s) % 4;
    times = times > 200 ? (times - 200) * 50 : times;
    for (size_t i = 0; i < times && i * p->last_len < MAX_SENT; i++) {
        move_streams(p->last, p->last_len, step);
        say_again(p);
    }
}

void h2_peer_do(struct h2_peer *p, unsigned op, const char *path, struct script *s)
{
    switch (op % H2_PEER_OPS) {
    case 0:
        do_raw(p, s);
        break;
    case 1:
        do_frame(p, s);
        break;
    case 2:
        do_properly(p, path, s);
        break;
    case 3:
        do_at_length(p, path, s);
        break;
    case 4:
        do_repeat(p, s);
        break;
    case 5:
        p->stalled = !p->stalled;
        h2_peer_drain(p);
        break;
    case 6:
        p->piece = script_byte(s);
        break;
    default:
        (void)shutdown(p->fd, SHUT_WR);
        p->settle(p->arg);
        break;
    }
}
