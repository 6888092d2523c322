/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>

#include "base/auto.h"
#include "base/err.h"

/*
 * A port's certificate and its key: two PEM files that somebody renews. A process reads them and
 * passes the pair to its child that serves HTTP (http_child.h), which cannot open files.
 */
struct tls_files {
    const char *cert, *key; /* paths; NULL: plain HTTP */
    /* Path of the authorities whose certificates visitors need; NULL: they need none. */
    const char *client_ca;
    int look_ms; /* interval of checks for changes; 0: 10 s. Tests shorten it */
};

/* The interval of checks. */
int tls_files_look_ms(const struct tls_files *f);

struct tls_pair {
    char *cert_pem, *key_pem;
    char *client_ca_pem; /* NULL: visitors need no certificate */
};

/* ERR_NOT_FOUND, ERR_SYSTEM, ERR_TOO_LARGE (more than 64 KiB each); ERR_INVALID: not a certificate,
 * or the key belongs to another one, or no authority. *ret is untouched then. */
int tls_files_read(const struct tls_files *f, struct tls_pair *ret, struct err *e) MUST_CHECK;

bool tls_pair_equals(const struct tls_pair *a, const struct tls_pair *b);

/* A descriptor with which another process receives the pair; the caller's. ERR_SYSTEM. */
int tls_pair_lend(const struct tls_pair *p, int *ret_fd, struct err *e) MUST_CHECK;
/* ERR_SYSTEM, ERR_PROTOCOL. fd stays the caller's. */
int tls_pair_receive(int fd, struct tls_pair *ret, struct err *e) MUST_CHECK;

/* Wipes the key and frees. */
void tls_pair_done(struct tls_pair *p);
AUTO_DEFINE(tls_pair, struct tls_pair, tls_pair_done)
#define auto_tls_pair AUTO(tls_pair)
