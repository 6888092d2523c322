/* SPDX-License-Identifier: Apache-2.0 */
#include "kubeclient/ws_frames.h"

#include <endian.h>
#include <string.h>

enum {
    FIN = 0x80,
    RESERVED = 0x70,
    OPCODE = 0x0f,
    MASKED = 0x80,
    LENGTH = 0x7f,
    LENGTH_16 = 126, /* the length is in the next two bytes */
    LENGTH_64 = 127, /* the length is in the next eight bytes */
    MASK_BYTES = 4,
};

/* --- Writing --- */

static void add_length(struct sb *out, size_t len)
{
    if (len < LENGTH_16) {
        sb_add_char(out, (char)(MASKED | len));
    } else if (len <= UINT16_MAX) {
        const uint16_t n = htobe16((uint16_t)len);
        sb_add_char(out, (char)(MASKED | LENGTH_16));
        sb_add_mem(out, &n, sizeof(n));
    } else {
        const uint64_t n = htobe64(len);
        sb_add_char(out, (char)(MASKED | LENGTH_64));
        sb_add_mem(out, &n, sizeof(n));
    }
}

void ws_frame_add(struct sb *out, const struct ws_message *m, const uint8_t mask[4])
{
    sb_add_char(out, (char)(FIN | m->opcode));
    add_length(out, m->len);
    sb_add_mem(out, mask, MASK_BYTES);
    for (size_t i = 0; i < m->len; i++)
        sb_add_char(out, (char)(m->data[i] ^ mask[i % MASK_BYTES]));
}

/* --- Reading --- */

void ws_reader_init(struct ws_reader *r)
{
    /* A header more than a message: whoever feeds reads between two feeds. */
    *r = (struct ws_reader){.in = SB_INIT(2 * (WS_MAX_MESSAGE_BYTES + WS_MAX_HEADER_BYTES)),
                            .message = SB_INIT(WS_MAX_MESSAGE_BYTES)};
}

void ws_reader_done(struct ws_reader *r)
{
    sb_done(&r->in);
    sb_done(&r->message);
}

void ws_reader_feed(struct ws_reader *r, const void *p, size_t len)
{
    sb_add_mem(&r->in, p, len);
}

/* A frame as its header says. */
struct frame {
    bool fin;
    enum ws_opcode opcode;
    size_t header, len; /* bytes */
};

/* 1; 0: more bytes are needed for the header. */
static int read_length(const uint8_t *at, size_t have, struct frame *f, struct err *e)
{
    uint16_t n16 = 0;
    uint64_t n64 = 0;
    uint8_t word = at[1] & LENGTH;
    f->header = 2 + (word == LENGTH_16 ? sizeof(n16) : word == LENGTH_64 ? sizeof(n64) : 0);
    if (have < f->header)
        return 0;
    memcpy(&n16, at + 2, word == LENGTH_16 ? sizeof(n16) : 0);
    memcpy(&n64, at + 2, word == LENGTH_64 ? sizeof(n64) : 0);
    uint64_t len = word == LENGTH_16 ? be16toh(n16) : word == LENGTH_64 ? be64toh(n64) : word;
    if (len > WS_MAX_MESSAGE_BYTES)
        return err_set(e, ERR_TOO_LARGE, "a WebSocket message is longer than %zu bytes",
                       WS_MAX_MESSAGE_BYTES);
    f->len = (size_t)len;
    return 1;
}

static int broken(struct err *e, const char *what)
{
    return err_set(e, ERR_PROTOCOL, "the peer broke the WebSocket protocol: %s", what);
}

static bool is_control(enum ws_opcode opcode)
{
    return opcode == WS_CLOSE || opcode == WS_PING || opcode == WS_PONG;
}

/* Judges a frame by what its header says, and by whether a message goes on. */
static int judge(const struct ws_reader *r, const struct frame *f, struct err *e)
{
    if (is_control(f->opcode))
        return f->fin && f->len < LENGTH_16 ? 1 : broken(e, "a control frame is long or cut");
    if (f->opcode != WS_CONTINUATION && f->opcode != WS_TEXT && f->opcode != WS_BINARY)
        return broken(e, "an unknown opcode");
    if (r->is_partial != (f->opcode == WS_CONTINUATION))
        return broken(e, "a fragment without its message");
    return 1;
}

static int read_header(const struct ws_reader *r, struct frame *ret, struct err *e)
{
    const uint8_t *at = (const uint8_t *)r->in.data;
    if (r->in.len < 2)
        return 0;
    if (at[0] & RESERVED)
        return broken(e, "a reserved bit is set");
    if (at[1] & MASKED)
        return broken(e, "a server's frame is masked");
    ret->fin = at[0] & FIN;
    ret->opcode = (enum ws_opcode)(at[0] & OPCODE);
    int rc = read_length(at, r->in.len, ret, e);
    return rc == 1 ? judge(r, ret, e) : rc;
}

/* Keeps a fragment. 1: the message is whole; 0: it goes on. */
static int add_fragment(struct ws_reader *r, const struct frame *f, const uint8_t *payload,
                        struct err *e)
{
    if (f->opcode != WS_CONTINUATION)
        r->opcode = f->opcode;
    sb_add_mem(&r->message, payload, f->len);
    TRY(sb_check(&r->message, e));
    r->is_partial = !f->fin;
    return f->fin;
}

/* Reads one frame. 1: it ends a message, or is one; 0: bytes are lacking; 2: read the next. */
enum { READ_ON = 2 };
static int read_frame(struct ws_reader *r, struct ws_message *ret, struct err *e)
{
    struct frame f = {0};
    int rc = read_header(r, &f, e);
    if (rc != 1 || r->in.len - f.header < f.len)
        return rc < 0 ? rc : 0;
    const uint8_t *payload = (const uint8_t *)r->in.data + f.header;
    r->taken = f.header + f.len;
    if (is_control(f.opcode) || (f.fin && !r->is_partial)) {
        *ret = (struct ws_message){f.opcode, payload, f.len};
        return 1;
    }
    rc = add_fragment(r, &f, payload, e);
    r->is_whole = rc == 1;
    if (rc != 1)
        return rc < 0 ? rc : READ_ON;
    *ret = (struct ws_message){r->opcode, (const uint8_t *)sb_str(&r->message), r->message.len};
    return 1;
}

int ws_reader_next(struct ws_reader *r, struct ws_message *ret, struct err *e)
{
    int rc;
    do {
        sb_drop_front(&r->in, r->taken);
        r->taken = 0;
        if (r->is_whole)
            sb_reset(&r->message);
        r->is_whole = false;
        TRY(sb_check(&r->in, e));
        rc = read_frame(r, ret, e);
    } while (rc == READ_ON);
    return rc;
}
