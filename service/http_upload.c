/* SPDX-License-Identifier: Apache-2.0 */
#include "service/http_upload.h"

#include <stdint.h>

#include "base/num.h"

#include "service/http_channel.h"

enum {
    /* Bytes that are received of a body. One that is a little too long is received whole, because
     * the library answers no request whose body it has not seen the end of. */
    MAX_RECEIVED = 2 * HTTP_MAX_UPLOAD_BYTES,
};

bool http_upload_may_have(const char *length)
{
    int64_t n;
    return !length || num_parse(length, 0, HTTP_MAX_UPLOAD_BYTES, &n, /* e= */ NULL) == 0;
}

static void refuse(struct uploads *all, struct upload *u, enum http_upload_fault why)
{
    http_upload_done(all, u);
    u->fault = why;
}

bool http_upload_add(struct uploads *all, struct upload *u, const char *bytes, size_t len)
{
    u->received += len;
    if (u->fault)
        return u->received <= MAX_RECEIVED;
    if (u->received > HTTP_MAX_UPLOAD_BYTES)
        refuse(all, u, HTTP_UPLOAD_TOO_LONG);
    else if (all->held + len > all->max_held)
        refuse(all, u, HTTP_UPLOAD_NO_ROOM);
    else {
        u->bytes.cap = HTTP_MAX_UPLOAD_BYTES;
        sb_add_mem(&u->bytes, bytes, len);
        all->held += len;
    }
    return true;
}

void http_upload_done(struct uploads *all, struct upload *u)
{
    all->held -= u->bytes.len;
    sb_done(&u->bytes);
}
