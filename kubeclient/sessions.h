/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <curl/curl.h>

#include "base/clock.h"

#include "kubeclient/credentials.h"

/* libcurl's connections to the API server, kept from one call to the next. Any thread may borrow. */
struct sessions;

/* One set of connections: used by one call at a time. */
struct session {
    CURLM *multi;
    CURL *easy;               /* not in multi, and without options, while nobody has borrowed it */
    struct tls_material *tls; /* material of its connections */
    int64_t used_mono_ms;     /* when it was returned */
    struct session *next;
};

/* Borrows the clock. libcurl was started. */
struct sessions *sessions_new(const struct clock *clock);
/* NULL allowed; returns NULL. No session is borrowed any more. */
struct sessions *sessions_free(struct sessions *s);

/* A session whose connections were made with this material, or will be. */
struct session *sessions_borrow(struct sessions *s, struct tls_material *tls);
/* Keeps it for the next call. */
void sessions_return(struct sessions *s, struct session *n);
/* Closes those that nobody used for half a minute. For threads that are awake anyway. */
void sessions_close_unused(struct sessions *s);
