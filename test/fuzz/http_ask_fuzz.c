/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/xalloc.h"

#include "service/http_channel.h"

/*
 * Input: a byte whose lowest bit says whether the pages are behind a token and whose others are the
 * number of routes, then a record that a child which was taken over sends to its parent. Where the
 * port is open, the routes with odd numbers take a body. Whatever passes is bounded, and its token
 * goes into no line but its own.
 */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static void check(const struct http_ask_record *r, size_t len, const struct http_terms *t)
{
    assert(r->head.question < HTTP_MAX_QUESTIONS && r->head.route < t->n_routes);
    assert(r->head.token_len <= HTTP_MAX_TOKEN_BYTES && t->guarded == (r->head.token_len > 0));
    assert(len == sizeof(r->head) + r->head.token_len);
    assert(r->head.body_len <= HTTP_MAX_UPLOAD_BYTES);
    assert(r->head.body_len == 0 || (r->head.route % 2 == 1 && !t->guarded));
    for (size_t i = 0; i < r->head.token_len; i++)
        assert(r->token[i] > ' ' && r->token[i] < 0x7f && !strchr("\"\\,;:", r->token[i]));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    if (len < 1)
        return 0;
    const struct http_terms t = {.n_routes = (data[0] >> 1) % (HTTP_MAX_ROUTES + 1),
                                 .posts = data[0] & 1 ? 0 : 0xAAAA,
                                 .guarded = data[0] & 1};
    /* As recv fills it: what is beyond the record is of another one, or nothing. */
    struct http_ask_record *r = xmalloc(sizeof(*r));
    memset(r, 'x', sizeof(*r));
    memcpy(r, data + 1, len - 1 < sizeof(*r) ? len - 1 : sizeof(*r));
    if (http_ask_is_sound(r, len - 1, &t))
        check(r, len - 1, &t);
    free(r);
    return 0;
}
