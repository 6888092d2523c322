/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/scope.h"

#include "controller/access_table.h"
#include "controller/metrics.h"
#include "kubeclient/client.h"

/*
 * Keeps a page for those whom the API server lets get it (access_review.h). Asking never waits: a
 * token of which nothing is known is reviewed on a thread of its own, one after the other, and who
 * asked looks again when the descriptor says so. Tokens are kept while they wait for their review,
 * and by their SHA-256 afterwards (access_table.h).
 */
struct access_gate;

struct access_gate_options {
    struct kc *kc;           /* borrowed */
    const struct clock *clk; /* borrowed; monotonic time */
    const char *path;        /* the page's; a literal */
    struct metrics *metrics; /* borrowed; NULL: nothing is counted */
};

/* ERR_SYSTEM. */
int access_gate_new(const struct access_gate_options *o, struct access_gate **ret,
                    struct err *e) MUST_CHECK;

/* May the bearer of this token get the page? peer: the address from which it came, as a number.
 * *ret_key is for access_gate_result. One thread. */
enum access access_gate_ask(struct access_gate *g, const char *token, size_t len, uint32_t peer,
                            struct access_key *ret_key);
/* Readable once more was decided since access_gate_heard. */
int access_gate_fd(const struct access_gate *g);
void access_gate_heard(struct access_gate *g);
/* What came of it, for who was told ACCESS_PENDING. */
enum access access_gate_result(struct access_gate *g, const struct access_key *key);

/* Reviews until the scope ends. arg is a struct access_gate: fits the manager's services. */
int access_gate_run(void *arg, struct scope *s, struct err *e) MUST_CHECK;

/* Not while it runs. NULL allowed; returns NULL. */
struct access_gate *access_gate_free(struct access_gate *g);
AUTO_DEFINE_PTR(access_gate, struct access_gate, access_gate_free)
#define auto_access_gate AUTO_PTR(access_gate)
