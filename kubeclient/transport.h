/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>

#include "base/clock.h"
#include "base/sb.h"
#include "base/scope.h"

#include "kubeclient/config.h"
#include "kubeclient/way.h"

/*
 * One request and its answer over libcurl: connections, TLS, credentials, cancellation. HTTP only;
 * Kubernetes' objects and retries are in kubeclient/http.c.
 */
struct transport;

/* Receives the body of a 2xx answer as it arrives. */
typedef int transport_body_fn(void *arg, const char *data, size_t len, struct err *e);

struct exchange {
    const char *method, *path;       /* path with its query, escaped */
    const char *body, *content_type; /* NULL: no body */
    const char *accept;              /* NULL: JSON */
    transport_body_fn *on_body;
    void *arg;

    /* The answer. */
    int status;            /* 0: no answer */
    int64_t retry_after_s; /* at most 300; -1: no such header */
    size_t received;       /* bytes that on_body got */
    struct sb error_body;  /* body of an answer outside 2xx, its first 256 KiB */
    char *token;           /* the request's token; NULL: none */
    bool connection_lost;  /* reset or closed without an answer, or during one */
    bool untrusted;        /* the server's certificate did not verify */
};

/* config and clock are borrowed. ERR_INVALID, ERR_NOT_FOUND, ERR_SYSTEM: credentials that cannot be
 * read. */
int transport_new(const struct kc_config *config, const char *user_agent, const struct clock *clock,
                  struct transport **ret, struct err *e) MUST_CHECK;

/* Sends it and receives the whole answer, under s; the answer may have any status. The caller made
 * *x with exchange_init and frees it with exchange_done. Errors: ERR_UNAVAILABLE (no connection, or
 * it broke), ERR_PROTOCOL (no HTTP, or a body that is not JSON), ERR_TOO_LARGE (headers beyond
 * 128 KiB or 1000 lines), ERR_CANCELED, ERR_TIMEOUT, what on_body or the credentials returned. Any
 * thread. */
int transport_do(struct transport *t, struct scope *s, struct exchange *x,
                 struct err *e) MUST_CHECK;

/* After a 401: true when the next exchange may have a better token. */
bool transport_drop_token(struct transport *t, const char *token);

/* The way that its exchanges take. Borrowed. */
const struct way *transport_way(const struct transport *t);

/* No exchange may be in progress. NULL allowed; returns NULL. */
struct transport *transport_free(struct transport *t);

void exchange_init(struct exchange *x);
void exchange_done(struct exchange *x);

AUTO_DEFINE(exchange, struct exchange, exchange_done)
#define auto_exchange AUTO(exchange)
