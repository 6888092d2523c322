/* SPDX-License-Identifier: Apache-2.0 */
#include "service/http_text.h"

#include <microhttpd.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/xalloc.h"

bool texts_have_room(const struct texts *all, size_t len)
{
    return all->held + len <= all->max_held;
}

static void say_how_to_log_in(struct MHD_Response *r, unsigned status)
{
    if (status == MHD_HTTP_UNAUTHORIZED)
        (void)MHD_add_response_header(r, MHD_HTTP_HEADER_WWW_AUTHENTICATE, "Bearer");
}

static void free_text(void *arg)
{
    struct text *t = arg;
    t->all->held -= t->len;
    free(t->bytes);
    free(t);
}

struct text *text_new(struct texts *all, const struct text_options *o, char *bytes_take, size_t len)
{
    struct text *t = xmalloc(sizeof(*t));
    *t = (struct text){.all = all, .status = o->status, .refs = 1, .len = len, .bytes = bytes_take};
    all->held += len;
    t->response =
        MHD_create_response_from_buffer_with_free_callback_cls(len, bytes_take, free_text, t);
    if (!t->response)
        xalloc_failed();
    (void)MHD_add_response_header(t->response, MHD_HTTP_HEADER_CONTENT_TYPE, o->type);
    if (o->last)
        (void)MHD_add_response_header(t->response, MHD_HTTP_HEADER_CONNECTION, "close");
    say_how_to_log_in(t->response, o->status);
    return t;
}

void text_unref(struct text *t)
{
    if (--t->refs == 0)
        MHD_destroy_response(t->response);
}

bool text_send(const struct text *t, struct MHD_Connection *connection)
{
    return MHD_queue_response(connection, t->status, t->response) == MHD_YES;
}

bool text_refuse(struct MHD_Connection *connection, unsigned status, const char *why,
                 const char *allow)
{
    /* Cast, because the library has no way to borrow a const text. */
    struct MHD_Response *r =
        MHD_create_response_from_buffer(strlen(why), (void *)(uintptr_t)why, MHD_RESPMEM_MUST_COPY);
    if (!r)
        xalloc_failed();
    (void)MHD_add_response_header(r, MHD_HTTP_HEADER_CONTENT_TYPE, HTTP_TEXT_PLAIN);
    if (allow)
        (void)MHD_add_response_header(r, MHD_HTTP_HEADER_ALLOW, allow);
    say_how_to_log_in(r, status);
    enum MHD_Result rc = MHD_queue_response(connection, status, r);
    MHD_destroy_response(r);
    return rc == MHD_YES;
}
