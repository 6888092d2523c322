/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler/certificate_objects.h"

#include <string.h>

#include "base/jx.h"

#include "kubeclient/base64.h"

/* The members of the Secret's data. */
#define CURRENT_CERT "tls.crt"
#define CURRENT_KEY  "tls.key"
#define NEXT_CERT    "next.crt"
#define NEXT_KEY     "next.key"
#define OLD_CERTS    "old.crt"

/* --- Reading --- */

/* Caller frees; NULL: none, or no text. */
static char *member_of(const json_t *secret, const char *name)
{
    const char *field = JX_STR_AT(secret, "data", name);
    return field ? base64_decode_text(field) : NULL;
}

static void read_pair(const json_t *secret, const char *host, const char *cert_name,
                      const char *key_name, struct certificate *ret)
{
    auto_tls_pair struct tls_pair p = {.cert_pem = member_of(secret, cert_name),
                                       .key_pem = member_of(secret, key_name)};
    if (p.cert_pem && p.key_pem)
        (void)certificate_read_pair(p.cert_pem, p.key_pem, host, ret);
}

/* The bundle of all webhooks. Caller frees; NULL: none, no text, or they differ. */
static char *bundle_of(const json_t *webhooks)
{
    const char *first = JX_STR_AT(json_array_get(webhooks, 0), "clientConfig", "caBundle");
    for (size_t i = 1; first && i < json_array_size(webhooks); i++) {
        const char *other = JX_STR_AT(json_array_get(webhooks, i), "clientConfig", "caBundle");
        if (!other || strcmp(first, other) != 0)
            return NULL;
    }
    return first ? base64_decode_text(first) : NULL;
}

void certificate_view(const json_t *secret, const json_t *configuration, const char *host,
                      struct certificate_seen *ret)
{
    const json_t *webhooks = JX_AT(configuration, "webhooks");
    auto_free char *old = member_of(secret, OLD_CERTS);
    *ret = (struct certificate_seen){.has_secret = secret,
                                     .has_configuration = json_array_size(webhooks) > 0,
                                     .bundle = bundle_of(webhooks)};
    read_pair(secret, host, CURRENT_CERT, CURRENT_KEY, &ret->current);
    read_pair(secret, host, NEXT_CERT, NEXT_KEY, &ret->next);
    if (old)
        ret->n_old = certificate_read_all(old, host, ret->old, CERTIFICATE_MAX_OLD);
}

/* --- Writing --- */

/* A Secret's data, which may be missing or null. Borrowed. */
static json_t *data_of(json_t *secret)
{
    json_t *data = json_object_get(secret, "data");
    if (json_is_object(data))
        return data;
    data = json_object();
    (void)json_object_set_new(secret, "data", data);
    return data;
}

static void set_member(json_t *data, const char *name, const char *text)
{
    auto_free char *encoded = base64_encode(text, strlen(text));
    (void)json_object_set_new(data, name, json_string(encoded));
}

void certificate_put_next(json_t *secret, const struct tls_pair *p)
{
    json_t *data = data_of(secret);
    set_member(data, NEXT_CERT, p->cert_pem);
    set_member(data, NEXT_KEY, p->key_pem);
}

static void move_member(json_t *data, const char *from, const char *to)
{
    (void)json_object_set(data, to, json_object_get(data, from));
    (void)json_object_del(data, from);
}

void certificate_promote(json_t *secret, const char *old)
{
    json_t *data = data_of(secret);
    move_member(data, NEXT_CERT, CURRENT_CERT);
    move_member(data, NEXT_KEY, CURRENT_KEY);
    if (*old)
        set_member(data, OLD_CERTS, old);
    else
        (void)json_object_del(data, OLD_CERTS);
}

void certificate_announce(json_t *configuration, const char *bundle)
{
    json_t *webhook;
    size_t i;
    auto_free char *encoded = base64_encode(bundle, strlen(bundle));
    json_array_foreach(json_object_get(configuration, "webhooks"), i, webhook) {
        json_t *client = json_object_get(webhook, "clientConfig");
        (void)json_object_set_new(client, "caBundle", json_string(encoded));
    }
}
