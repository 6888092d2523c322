/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <jansson.h>
#include <stdint.h>

#include "base/clock.h"
#include "base/heartbeat.h"
#include "base/scope.h"

#include "kubeclient/informer.h"

/*
 * Writes the agent's Device: creates it when it is missing, and brings its status to the last one
 * that was put, if that differs. One thread runs it and does all the blocking; any
 * thread puts. Only the newest status counts; a write that fails is tried again with backoff.
 */
struct publisher;

struct publisher_deps {
    struct kc *kc;
    struct informer *devices; /* watches the one Device by name */
    const char *node;
    const struct clock *clk;
    uint64_t seed;
};

/* Borrows what deps name. */
struct publisher *publisher_new(const struct publisher_deps *d);
/* Says to beat when it begins to write and when it waits. Before it runs. Borrowed. */
void publisher_set_beat(struct publisher *p, struct heartbeat *beat);
/* The status that should stand there, taken over. Returns its number: 1, 2, … Any thread, never
 * blocks. */
int64_t publisher_put(struct publisher *p, json_t *status_take);
/* The number of the newest status that the API server has acknowledged, by its answer to the write
 * or because it holds just that; 0: none. All before it are superseded. Any thread. */
int64_t publisher_acked(const struct publisher *p);
/* Readable when publisher_acked may have grown; whoever waits empties it (an eventfd). */
int publisher_fd(const struct publisher *p);
/* Look again: the Device changed on the server. Any thread, never blocks. */
void publisher_kick(struct publisher *p);
/* Writes until the scope ends. Blocks; one thread. */
int publisher_run(struct publisher *p, struct scope *s, struct err *e) MUST_CHECK;
/* One round without waiting; for tests. *ret_done: nothing is left to write. */
int publisher_step(struct publisher *p, struct scope *s, bool *ret_done, struct err *e) MUST_CHECK;
/* Status writes so far, and failures. Any thread. */
struct publisher_stats {
    int64_t writes, creates, errors;
};
struct publisher_stats publisher_stats(const struct publisher *p);
struct publisher *publisher_free(struct publisher *p);

AUTO_DEFINE_PTR(publisher, struct publisher, publisher_free)
#define auto_publisher AUTO_PTR(publisher)
