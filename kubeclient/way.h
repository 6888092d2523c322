/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <curl/curl.h>
#include <poll.h>
#include <stdbool.h>

#include "base/clock.h"
#include "base/scope.h"

#include "kubeclient/config.h"
#include "kubeclient/credentials.h"

/*
 * The way to the API server: its address, what is trusted there, and who we are, as options of
 * libcurl. Everything that connects to that server uses it. Constant once made; any thread.
 */
struct way {
    const struct kc_config *config; /* borrowed */
    struct credentials *credentials;
    char *user_agent;
    char *url_base;  /* all URLs begin with it: with the tls-server-name, if there is one */
    char *authority; /* the server's host and port as the kubeconfig has them: the Host header's */
    char *path_prefix; /* "": none */
    char *connect_to;  /* "name:port:host:port" with a tls-server-name, else NULL */
    bool loopback;
};

/* config and clock are borrowed. ERR_INVALID, ERR_NOT_FOUND, ERR_SYSTEM: credentials that cannot be
 * read. */
int way_init(struct way *w, const struct kc_config *config, const char *user_agent,
             const struct clock *clock, struct err *e) MUST_CHECK;
void way_done(struct way *w);

/* Sets how easy connects, and what it trusts. It borrows from both. */
void way_set(const struct way *w, const struct tls_material *tls, CURL *easy);
/* For CURLOPT_CONNECT_TO; NULL: none is needed. The caller frees. */
struct curl_slist *way_connect_to(const struct way *w);

/* Moves the one transfer that multi has, without waiting. 1: it has ended, as *ret says; 0: it goes
 * on. ERR_UNAVAILABLE. */
int way_drive(CURLM *multi, CURLcode *ret, struct err *e) MUST_CHECK;
enum { WAY_FDS = 3 };
/* Waits until the transfer can go on, or one of at most WAY_FDS descriptors is ready (negative:
 * none), or the scope ends. */
void way_await(CURLM *multi, struct scope *s, const struct pollfd *fds, size_t n);

/* The kind of an error that libcurl has found. */
enum err_kind way_err_kind(CURLcode code);
/* Makes the peer's text printable ASCII: control characters could move a terminal's cursor. */
void way_clean_words(char *text);

/* Aborts: options are constants of ours, so a refused one is our bug. */
void way_must(CURLcode code);
#define WAY_SET(easy, option, value) way_must(curl_easy_setopt(easy, option, value))
