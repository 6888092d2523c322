/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>

/* A certificate and its private key, as PEM. */

/* Does the text hold a certificate? */
bool tls_pair_has_certificate(const char *pem);
/* Is the key, which is not encrypted, that of the first certificate? */
bool tls_pair_fits(const char *cert_pem, const char *key_pem);
