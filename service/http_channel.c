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

bool http_ask_is_sound(const struct http_ask_record *r, size_t len, size_t n_routes, bool guarded)
{
    const struct http_ask *a = &r->head;
    if (len < sizeof(*a) || len > sizeof(*r) || len != sizeof(*a) + a->token_len || a->zero != 0)
        return false;
    if (a->question >= HTTP_MAX_QUESTIONS || a->route >= n_routes)
        return false;
    return guarded ? http_token_is_sound(r->token, a->token_len) : a->token_len == 0;
}
