/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/auto.h"
#include "base/err.h"

#include "service/tls_files.h"

/*
 * Certificates of the webhook, signed by themselves: whoever trusts one needs nothing else. They sign
 * no others. Times are Unix milliseconds; a certificate has whole seconds.
 */

struct certificate {
    char *pem; /* this one alone, as this module writes it: the same certificate is the same text */
    int64_t from_ms, until_ms;
};

/* Frees and zeroes. */
void certificate_done(struct certificate *c);
AUTO_DEFINE(certificate, struct certificate, certificate_done)
#define auto_certificate AUTO(certificate)

/* True when a certificate can be for this host: an IP address, or a name of up to 253 letters, digits,
 * dots and hyphens. */
bool certificate_host_is_sound(const char *host);

/* A fresh key (EC P-256) and its certificate for the host, which is sound. ERR_SYSTEM. */
int certificate_make(const char *host, int64_t from_ms, int64_t until_ms, struct tls_pair *ret,
                     struct err *e) MUST_CHECK;

/* The certificates of a PEM text that are for this host and sign no others, up to the first that cannot
 * be read; returns how many. ret has room for max of them. */
size_t certificate_read_all(const char *pem, const char *host, struct certificate *ret, size_t max);

/* The first certificate of a text, where it is for this host, signs no others and the key belongs to
 * it. False, and *ret is untouched: it is not so. */
bool certificate_read_pair(const char *cert_pem, const char *key_pem, const char *host,
                           struct certificate *ret);
