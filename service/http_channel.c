/* SPDX-License-Identifier: Apache-2.0 */
#include "service/http_channel.h"

#include <string.h>

#define TOKEN68 "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~+/"

/* 1*( ALPHA / DIGIT / "-" / "." / "_" / "~" / "+" / "/" ) *"=" */
bool http_token_is_sound(const char *token, size_t len)
{
    size_t padding = 0;
    if (len > HTTP_MAX_TOKEN_BYTES)
        return false;
    while (padding < len && token[len - 1 - padding] == '=')
        padding++;
    for (size_t i = 0; i < len - padding; i++)
        if (!memchr(TOKEN68, token[i], sizeof(TOKEN68) - 1))
            return false;
    return padding < len;
}

bool http_takes_body(const struct http_terms *t, size_t route)
{
    return t->posts >> route & 1;
}

bool http_ask_is_sound(const struct http_ask_record *r, size_t len, const struct http_terms *t)
{
    const struct http_ask *a = &r->head;
    if (len < sizeof(*a) || len > sizeof(*r) || len != sizeof(*a) + a->token_len || a->zero != 0)
        return false;
    if (a->question >= HTTP_MAX_QUESTIONS || a->route >= t->n_routes)
        return false;
    if (a->body_len > (http_takes_body(t, a->route) ? HTTP_MAX_UPLOAD_BYTES : 0))
        return false;
    return t->guarded ? http_token_is_sound(r->token, a->token_len) : a->token_len == 0;
}

size_t http_piece_bytes(size_t left)
{
    return left < HTTP_MAX_PIECE_BYTES ? left : HTTP_MAX_PIECE_BYTES;
}
