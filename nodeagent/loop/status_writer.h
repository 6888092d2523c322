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
struct status_writer;

struct status_writer_deps {
    struct kc *kc;
    struct informer *devices; /* watches the one Device by name */
    const char *node;
    const struct clock *clk;
    uint64_t seed;
};

/* Borrows the members of deps. */
struct status_writer *status_writer_new(const struct status_writer_deps *d);
/* Reports to beat when a write begins and when the status writer waits. Call it before it runs.
 * Borrowed. */
void status_writer_set_beat(struct status_writer *p, struct heartbeat *beat);
/* Sets the status to write, and takes it over. Returns its number: 1, 2, … It is acknowledged at
 * once, with nobody woken, when it equals the last one and the server was seen to have that. Any
 * thread, never blocks. */
int64_t status_writer_put(struct status_writer *p, json_t *status_take);
/* The number of the newest status that the API server has acknowledged: it answered the write, or
 * its Device has that status. 0: none. Earlier ones are superseded. Any thread. */
int64_t status_writer_acked(const struct status_writer *p);
/* Readable when status_writer_acked may have grown (an eventfd; the waiting thread empties it). */
int status_writer_fd(const struct status_writer *p);
/* Makes the status writer compare again, because the Device changed on the server. Any thread,
 * never blocks. */
void status_writer_kick(struct status_writer *p);
/* paused: writes nothing until this is called with false; a write that is under way is made. So two
 * agents of one node do not write in turn. Any thread, never blocks. */
void status_writer_pause(struct status_writer *p, bool paused);
/* Writes until the scope ends. Blocks; one thread. */
int status_writer_run(struct status_writer *p, struct scope *s, struct err *e) MUST_CHECK;
/* One round without waiting; for tests. *ret_done: nothing is left to write. */
int status_writer_step(struct status_writer *p, struct scope *s, bool *ret_done,
                       struct err *e) MUST_CHECK;
/* Counts of status writes and failures so far. Any thread. */
struct status_writer_stats {
    int64_t writes, creates, errors;
};
struct status_writer_stats status_writer_stats(const struct status_writer *p);
struct status_writer *status_writer_free(struct status_writer *p);

AUTO_DEFINE_PTR(status_writer, struct status_writer, status_writer_free)
#define auto_status_writer AUTO_PTR(status_writer)
