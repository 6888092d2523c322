/* SPDX-License-Identifier: Apache-2.0 */
#include "kubeclient/port_forward.h"

#include <assert.h>
#include <errno.h>
#include <openssl/rand.h>
#include <string.h>
#include <sys/socket.h>

#include "base/xalloc.h"

#include "kubeclient/client.h"
#include "kubeclient/upgrade.h"
#include "kubeclient/url.h"
#include "kubeclient/ws_frames.h"

#define PROTOCOL "v4.channel.k8s.io"

/* Bytes that are read at once, and bytes that may wait before nothing more is read. */
enum { PIECE_BYTES = 16384, MAX_WAITING_BYTES = 262144, PORT_BYTES = 2 };
/* A kubelet's words are cut here: no person reads more. */
enum { MAX_WORDS_BYTES = 1024 };
enum channel { DATA, ERROR, CHANNELS };

static const struct kc_resource pods = {"", "v1", "pods", "Pod", true};

struct port_forward {
    struct upgrade *upgrade;
    struct ws_reader reader;
    struct sb to_server, to_user; /* frames, and what came in them */
    int fd;                       /* the user's; -1: not yet */
    bool opened[CHANNELS];        /* the channel's first message has come */
    bool server_ended;            /* nothing more comes; told to the user when all is with him */
    bool user_ended;
};

static bool receives(const struct port_forward *p)
{
    return !p->server_ended && p->to_user.len < MAX_WAITING_BYTES;
}

/* --- From the server --- */

static int take_error(const struct ws_message *m, struct err *e)
{
    size_t len = m->len - 1 < MAX_WORDS_BYTES ? m->len - 1 : MAX_WORDS_BYTES;
    auto_free char *words = xstrndup((const char *)m->data + 1, len);
    words[strcspn(words, "\r\n")] = '\0';
    way_clean_words(words);
    return err_set(e, ERR_UNAVAILABLE, "%s", words);
}

static int take_channel(struct port_forward *p, const struct ws_message *m, struct err *e)
{
    if (!m->len || m->data[0] >= CHANNELS)
        return err_set(e, ERR_PROTOCOL, "a message of an unknown channel");
    enum channel channel = m->data[0];
    if (!p->opened[channel]) {
        p->opened[channel] = true;
        return m->len == 1 + PORT_BYTES
                   ? 0
                   : err_set(e, ERR_PROTOCOL, "a channel begins without its port");
    }
    if (channel == ERROR)
        return m->len > 1 ? take_error(m, e) : 0;
    sb_add_mem(&p->to_user, m->data + 1, m->len - 1);
    return sb_check(&p->to_user, e);
}

static void add_frame(struct port_forward *p, enum ws_opcode opcode, const void *data, size_t len)
{
    uint8_t mask[4];
    const struct ws_message m = {opcode, data, len};
    int rc = RAND_bytes(mask, sizeof(mask));
    assert(rc == 1);
    (void)rc;
    ws_frame_add(&p->to_server, &m, mask);
}

static int take_message(struct port_forward *p, const struct ws_message *m, struct err *e)
{
    switch (m->opcode) {
    case WS_BINARY:
    case WS_TEXT:
        return take_channel(p, m, e);
    case WS_PING:
        add_frame(p, WS_PONG, m->data, m->len);
        return sb_check(&p->to_server, e);
    case WS_CLOSE:
        p->server_ended = true;
        return 0;
    case WS_CONTINUATION:
    case WS_PONG:
    default:
        return 0;
    }
}

static int take_messages(struct port_forward *p, struct err *e)
{
    int rc = 0;
    struct ws_message m;
    while (!p->server_ended && (rc = ws_reader_next(&p->reader, &m, e)) == 1)
        TRY(take_message(p, &m, e));
    return rc;
}

/* One piece, so that a peer who never pauses holds nobody. 1: there may be more, which poll does
 * not see where libcurl has decrypted it. An end without a close frame is the server's, too:
 * kubelets end so. */
static int receive(struct port_forward *p, struct err *e)
{
    char piece[PIECE_BYTES];
    size_t len = 0;
    if (!receives(p))
        return 0;
    int rc = upgrade_recv(p->upgrade, piece, sizeof(piece), &len, e);
    if (rc < 0 && !p->opened[DATA])
        return rc;
    if (rc < 0) {
        err_clear(e);
        p->server_ended = true;
    }
    ws_reader_feed(&p->reader, piece, len);
    TRY(take_messages(p, e));
    return len > 0;
}

/* --- To the server --- */

static int send_frames(struct port_forward *p, struct err *e)
{
    while (p->to_server.len) {
        size_t sent;
        TRY(upgrade_send(p->upgrade, p->to_server.data, p->to_server.len, &sent, e));
        if (!sent)
            break;
        sb_drop_front(&p->to_server, sent);
    }
    return 0;
}

/* --- The user's end --- */

/* True when something was read. */
static bool read_user(struct port_forward *p)
{
    char piece[1 + PIECE_BYTES] = {DATA};
    if (p->fd < 0 || p->user_ended || p->to_server.len >= MAX_WAITING_BYTES)
        return false;
    ssize_t n = recv(p->fd, piece + 1, PIECE_BYTES, MSG_DONTWAIT);
    if (n > 0)
        add_frame(p, WS_BINARY, piece, (size_t)n + 1);
    else if (n == 0 || (errno != EAGAIN && errno != EINTR))
        p->user_ended = true;
    return n > 0;
}

static void write_user(struct port_forward *p)
{
    while (p->fd >= 0 && p->to_user.len) {
        ssize_t n = send(p->fd, p->to_user.data, p->to_user.len, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (n < 0 && errno != EAGAIN && errno != EINTR)
            sb_reset(&p->to_user); /* he has closed it */
        if (n < 0)
            return;
        sb_drop_front(&p->to_user, (size_t)n);
    }
    if (p->fd >= 0 && p->server_ended)
        (void)shutdown(p->fd, SHUT_WR);
}

int port_forward_move(struct port_forward *p, struct err *e)
{
    auto_err struct err why = {0};
    write_user(p);
    int more = receive(p, &why);
    write_user(p);
    if (more < 0)
        return err_move(e, &why);
    while (read_user(p))
        TRY(send_frames(p, e));
    TRY(send_frames(p, e));
    return more;
}

void port_forward_poll(const struct port_forward *p, struct pollfd ret[PORT_FORWARD_FDS])
{
    bool reads = !p->user_ended && p->to_server.len < MAX_WAITING_BYTES;
    short server = (short)((receives(p) ? POLLIN : 0) | (p->to_server.len ? POLLOUT : 0));
    short user = (short)((reads ? POLLIN : 0) | (p->to_user.len ? POLLOUT : 0));
    ret[0] = (struct pollfd){.fd = server ? upgrade_fd(p->upgrade) : -1, .events = server};
    ret[1] = (struct pollfd){.fd = user ? p->fd : -1, .events = user};
}

/* --- Construction --- */

int port_forward_new(const struct way *way, struct scope *s, const char *ns, const char *pod,
                     uint16_t port, struct port_forward **ret, struct err *e)
{
    auto_upgrade struct upgrade *upgrade = NULL;
    auto_sb struct sb path = SB_INIT(URL_MAX_BYTES);
    const struct kc_target t = {.res = &pods, .ns = ns, .name = pod, .subresource = "portforward"};
    url_add_target(&path, &t);
    url_add_query_int(&path, "ports", port);
    TRY(sb_check(&path, e));
    TRY(upgrade_new(way, s, sb_str(&path), PROTOCOL, &upgrade, e));
    struct port_forward *p = xmalloc(sizeof(*p));
    p->upgrade = TAKE(upgrade);
    p->fd = -1;
    p->to_server = SB_INIT(2 * MAX_WAITING_BYTES);
    p->to_user = SB_INIT(MAX_WAITING_BYTES + WS_MAX_MESSAGE_BYTES + PIECE_BYTES);
    ws_reader_init(&p->reader);
    *ret = p;
    return 0;
}

void port_forward_attach(struct port_forward *p, int fd)
{
    assert(p->fd < 0);
    p->fd = fd;
}

struct port_forward *port_forward_free(struct port_forward *p)
{
    if (!p)
        return NULL;
    (void)upgrade_free(p->upgrade);
    ws_reader_done(&p->reader);
    sb_done(&p->to_server);
    sb_done(&p->to_user);
    auto_close_fd(&p->fd);
    free(p);
    return NULL;
}
