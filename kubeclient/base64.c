/* SPDX-License-Identifier: Apache-2.0 */
#include "kubeclient/base64.h"

#include <openssl/evp.h>
#include <string.h>

#include "base/auto.h"
#include "base/xalloc.h"

char *base64_encode(const void *bytes, size_t len)
{
    char *out = xmalloc(4 * ((len + 2) / 3) + 1);
    (void)EVP_EncodeBlock((unsigned char *)out, bytes, (int)len);
    return out;
}

char *base64_decode_text(const char *field)
{
    size_t len = strlen(field);
    auto_free char *kept = xmalloc(len + 1);
    size_t n_kept = 0;
    for (size_t i = 0; i < len; i++)
        if (!strchr(" \t\r\n", field[i]))
            kept[n_kept++] = field[i];
    auto_free char *out = xmalloc(n_kept + 1);
    int n = EVP_DecodeBlock((unsigned char *)out, (const unsigned char *)kept, (int)n_kept);
    for (size_t i = n_kept; n > 0 && i > 0 && kept[i - 1] == '='; i--)
        n--;
    if (n <= 0 || strlen(out) < (size_t)n)
        return NULL;
    out[n] = '\0';
    return TAKE(out);
}
