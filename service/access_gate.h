/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/scope.h"

#include "kubeclient/client.h"
#include "service/access_table.h"
#include "service/metrics.h"

/*
 * Lets only those visitors get a page whom the API server permits (access_review.h). Asking never
 * blocks: an unknown token is reviewed on the gate's own thread, one token after the other, and the
 * caller fetches the result when the descriptor becomes readable. A token is kept while it waits
 * for its review, and afterwards only by its SHA-256 (access_table.h).
 *
 * Only --metrics-auth=token makes a gate. By default (--metrics-auth=none) there is none: everyone
 * who reaches the port gets the page, and only the NetworkPolicy decides who that is.
 */
struct access_gate;

struct access_gate_options {
    struct kc *kc;           /* borrowed */
    const struct clock *clk; /* borrowed; monotonic time */
    const char *path;        /* the page's path; a literal */
    struct metrics *metrics; /* borrowed; NULL: not counted */
};

/* ERR_SYSTEM. */
int access_gate_new(const struct access_gate_options *o, struct access_gate **ret,
                    struct err *e) MUST_CHECK;

/* Asks whether the bearer of this token may get the page. peer: the visitor's address as a number.
 * Fills *ret_key for access_gate_result. One thread. */
enum access access_gate_ask(struct access_gate *g, const char *token, size_t len, uint32_t peer,
                            struct access_key *ret_key);
/* Becomes readable when reviews were decided since the last access_gate_heard. */
int access_gate_fd(const struct access_gate *g);
void access_gate_heard(struct access_gate *g);
/* The result for a token whose access_gate_ask returned ACCESS_PENDING. */
enum access access_gate_result(struct access_gate *g, const struct access_key *key);

/* Reviews tokens until the scope ends. arg is a struct access_gate (a service_fn of the
 * manager). */
int access_gate_run(void *arg, struct scope *s, struct err *e) MUST_CHECK;

/* Call after access_gate_run has returned. NULL allowed; returns NULL. */
struct access_gate *access_gate_free(struct access_gate *g);
AUTO_DEFINE_PTR(access_gate, struct access_gate, access_gate_free)
#define auto_access_gate AUTO_PTR(access_gate)
