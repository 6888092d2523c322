/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>

/* A certificate and its private key, as PEM. */

/* True when the text contains a certificate. */
bool tls_pair_has_certificate(const char *pem);
/* The same, and each one in it can be read: a library that loads all of them takes the text. */
bool tls_pair_is_whole(const char *pem);
/* True when the key, unencrypted, belongs to the first certificate. */
bool tls_pair_fits(const char *cert_pem, const char *key_pem);
