/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>

#include "base/err.h"

#include "kubeclient/client.h"
#include "service/access_gate.h"
#include "service/metrics.h"
#include "service/tls_files.h"

/* The page /metrics, and the flags of all programs for access to it: who may read it, and whether over TLS. */
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
/* The flags, for a table of base/options.h. */
#define METRICS_ACCESS_OPTIONS(access)                                                             \
    {.name = "metrics-auth",                                                                       \
     .value = "none|token",                                                                        \
     .text = &(access)->auth,                                                                      \
     .help = METRICS_AUTH_HELP},                                                                   \
        {.name = "metrics-tls-cert-file",                                                          \
         .value = "PATH",                                                                          \
         .text = &(access)->tls.cert,                                                              \
         .help = METRICS_CERT_HELP},                                                               \
    {                                                                                              \
        .name = "metrics-tls-key-file", .value = "PATH", .text = &(access)->tls.key,               \
        .help = METRICS_KEY_HELP                                                                   \
    }

/* *ret_token: a token is required. ERR_INVALID: an unknown word; only one of the two files; or a
 * token without TLS, which everybody on the network path could read. */
int metrics_access_check(const struct metrics_access *a, bool *ret_token, struct err *e) MUST_CHECK;

/* The page: a http_get_fn; arg is a struct metrics. */
int metrics_page(void *arg, struct sb *body);
/* The gate before the page where a token is required. Borrows both. ERR_SYSTEM. */
int metrics_gate_new(struct kc *kc, struct metrics *m, struct access_gate **ret,
                     struct err *e) MUST_CHECK;
