/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/clock.h"

#include "kubeclient/client.h"
#include "kubeclient/config.h"
#include "kubeclient/way.h"

/*
 * The client of a real API server, over libcurl.
 *
 * Connections: each call borrows one connection set (a libcurl multi handle) from the client's
 * pool, last used first, and gives it back, so any thread may call and the number of connections is
 * the number of calls that were in progress at once. libcurl's handles must not be shared between
 * threads (CURLSHOPT_SHARE(3)); this way none is.
 *
 * Repeating, as client-go does it (rest/request.go, with_retry.go): 429 and 5xx only when the
 * answer has Retry-After, of which 300 s count at most, at most 10 times; a connection that was
 * reset or closed without an answer, for reads only. Nothing that reached a callback is asked for
 * twice. A 401 drops the token and tries once with a new one. Unlike client-go's, a watch is
 * repeated only after a 401: its caller has a backoff, and must know that it receives nothing.
 *
 * A peer that vanished without a word is noticed within 45 s: TCP keepalive from 20 s of silence
 * on, and TCP_USER_TIMEOUT for what was sent (client-go reaches the same with HTTP/2 PING: 30 + 15
 * s).
 */

struct kc_http_opts {
    const char *user_agent; /* NULL: cleave-controller/<version> */
    /* One object or Status; 0: 4 MiB (etcd refuses objects beyond 1.5 MiB, and each followed kind
     * may hold so much at once). */
    size_t max_body_bytes;
    /* A whole list, all pages together; it is decoded item by item. 0: 1 GiB, KC_MAX_OBJECTS, and
     * 10,000 pages (reflectors ask for 500 objects a page; a page may be empty) */
    size_t max_list_bytes, max_list_items, max_list_pages;
    int64_t
        /* A call other than a watch, retries included; for a list each page, and ten times as long
         * for the whole; 0: 60 s. The scope's deadline applies too. */
        request_timeout_ms;
    const struct clock *clock; /* NULL: the real one. For re-reading credentials */
    int64_t retry_unit_ms;     /* the unit of Retry-After; 0: 1000. Tests shorten it */
};

/* Writing to a connection that the peer has closed must not end the program: the first call sets
 * SIGPIPE to be ignored unless it has a handler. config is copied (its envp stays borrowed); o
 * may be NULL. Connects only when called. ERR_INVALID: a URL, certificate or key that cannot be
 * used; ERR_NOT_FOUND, ERR_SYSTEM: files. */
int kc_http_new(const struct kc_config *config, const struct kc_http_opts *o, struct kc **ret,
                struct err *e) MUST_CHECK;

/* The way that this client takes, for connections besides its calls. c: made by kc_http_new.
 * Borrowed from it. */
const struct way *kc_http_way(const struct kc *c);
