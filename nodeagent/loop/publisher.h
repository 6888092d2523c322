/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <jansson.h>
#include <stdint.h>

#include "base/clock.h"
#include "base/heartbeat.h"
#include "base/scope.h"

#include "kubeclient/informer.h"

/*
 * Writes the status of the agent's Device (resources are published by others, enum api_publisher):
 * creates it when it is missing, and updates its status to the last one that was put, if they
 * differ. One thread runs it and does all the blocking; any thread puts. Only the newest status
 * counts; a failed write is tried again with backoff.
 */
struct publisher;

struct publisher_deps {
    struct kc *kc;
    struct informer *devices; /* watches the one Device by name */
    const char *node;
    const struct clock *clk;
    uint64_t seed;
};

/* Borrows the members of deps. */
struct publisher *publisher_new(const struct publisher_deps *d);
/* Reports to beat when a write begins and when the publisher waits. Call it before it runs.
 * Borrowed. */
void publisher_set_beat(struct publisher *p, struct heartbeat *beat);
/* Sets the status to write, and takes it over. Returns its number: 1, 2, … Any thread, never
 * blocks. */
int64_t publisher_put(struct publisher *p, json_t *status_take);
/* The number of the newest status that the API server has acknowledged: it answered the write, or
 * its Device has that status. 0: none. Earlier ones are superseded. Any thread. */
int64_t publisher_acked(const struct publisher *p);
/* Readable when publisher_acked may have grown (an eventfd; the waiting thread empties it). */
int publisher_fd(const struct publisher *p);
/* Makes the publisher compare again, because the Device changed on the server. Any thread, never
 * blocks. */
void publisher_kick(struct publisher *p);
/* Writes until the scope ends. Blocks; one thread. */
int publisher_run(struct publisher *p, struct scope *s, struct err *e) MUST_CHECK;
/* One round without waiting; for tests. *ret_done: nothing is left to write. */
int publisher_step(struct publisher *p, struct scope *s, bool *ret_done, struct err *e) MUST_CHECK;
/* Counts of status writes and failures so far. Any thread. */
struct publisher_stats {
    int64_t writes, creates, errors;
};
struct publisher_stats publisher_stats(const struct publisher *p);
struct publisher *publisher_free(struct publisher *p);

AUTO_DEFINE_PTR(publisher, struct publisher, publisher_free)
#define auto_publisher AUTO_PTR(publisher)
