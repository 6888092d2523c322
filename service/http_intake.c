/* SPDX-License-Identifier: Apache-2.0 */
#include "service/http_intake.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/types.h>

#include "base/auto.h"
#include "base/xalloc.h"

static enum http_taken nothing_or_end(void)
{
    return errno == EAGAIN || errno == EINTR ? HTTP_TAKEN_NOTHING : HTTP_TAKEN_BROKEN;
}

static bool is_whole(const struct http_intake *in)
{
    return in->got == in->ask.head.body_len;
}

static enum http_taken read_question(struct http_intake *in, int channel,
                                     const struct http_terms *t)
{
    ssize_t n = recv(channel, &in->ask, sizeof(in->ask), MSG_TRUNC);
    if (n < 0)
        return nothing_or_end();
    if (!http_ask_is_sound(&in->ask, (size_t)n, t))
        return HTTP_TAKEN_BROKEN;
    if (http_takes_body(t, in->ask.head.route))
        in->body = xmalloc(in->ask.head.body_len + 1UL);
    return HTTP_TAKEN_WHOLE;
}

static enum http_taken read_piece(struct http_intake *in, int channel)
{
    size_t len = http_piece_bytes(in->ask.head.body_len - in->got);
    ssize_t n = recv(channel, in->body + in->got, len, MSG_TRUNC);
    if (n < 0)
        return nothing_or_end();
    in->got += len;
    return n == (ssize_t)len ? HTTP_TAKEN_WHOLE : HTTP_TAKEN_BROKEN;
}

enum http_taken http_intake_read(struct http_intake *in, int channel, const struct http_terms *t)
{
    enum http_taken taken = in->begun ? HTTP_TAKEN_WHOLE : read_question(in, channel, t);
    in->begun = taken == HTTP_TAKEN_WHOLE && !is_whole(in);
    while (in->begun && taken == HTTP_TAKEN_WHOLE) {
        taken = read_piece(in, channel);
        in->begun = !is_whole(in);
    }
    return taken;
}

void http_intake_done(struct http_intake *in)
{
    explicit_bzero(in->ask.token, sizeof(in->ask.token));
    free(TAKE(in->body));
    in->got = 0;
    in->begun = false;
}
