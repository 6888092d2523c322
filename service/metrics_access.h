/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>

#include "base/err.h"

#include "service/tls_files.h"

/* The flags of both programs for access to /metrics: who may read it, and whether over TLS. */
struct metrics_access {
    const char *auth; /* "none", "token" */
    struct tls_files tls;
};

#define METRICS_ACCESS_DEFAULT                                                                     \
    {                                                                                              \
        .auth = "none"                                                                             \
    }

#define METRICS_AUTH_HELP                                                                          \
    "who may read /metrics: none: everybody who reaches it; token: bearers of a token that the "   \
    "API server permits, over TLS"
#define METRICS_CERT_HELP                                                                          \
    "certificate with its chain for /metrics over TLS, PEM; read again when it changes"
#define METRICS_KEY_HELP "the certificate's private key, PEM"

/* *ret_token: a token is required. ERR_INVALID: an unknown word; only one of the two files; or a
 * token without TLS, which everybody on the network path could read. */
int metrics_access_check(const struct metrics_access *a, bool *ret_token, struct err *e) MUST_CHECK;
