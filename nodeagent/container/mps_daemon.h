/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>

#include "base/auto.h"
#include "base/reactor.h"

/*
 * One MPS control daemon, kept running: started in the foreground as a child, given its limits,
 * restarted with backoff when it ends, ended when it is no longer wanted. It is ready once it has
 * taken its limits, because earlier clients would have none.
 *
 * One thread, in callbacks of the reactor. Only mps_daemon_free blocks.
 */
struct mps_daemon;

/* Called when the daemon became ready, stopped being ready, or is gone: from the reactor,
 * mps_daemon_set and mps_daemon_end. It may not free the daemon. */
typedef void mps_daemon_fn(void *arg);

/* Copied. */
struct mps_daemon_options {
    const char *program;      /* nvidia-cuda-mps-control, a path */
    const char *library_path; /* its LD_LIBRARY_PATH; NULL: none */
    const char *pipe_folder;  /* new at each start, removed at the end (fresh_folder.h) */
    const char *log_folder;   /* made if missing; no container sees it */
    const char *visible;      /* uuids of its devices, separated by commas */
    const char *commands;     /* for nvidia-cuda-mps-control, one per line; they set the limits */
};

/* Starts at the next dispatch. Borrows r. */
struct mps_daemon *mps_daemon_new(struct reactor *r, const struct mps_daemon_options *o,
                                  mps_daemon_fn *fn, void *arg);

/* Sets devices and limits; restarts the daemon if they changed. Cancels an mps_daemon_end. */
void mps_daemon_set(struct mps_daemon *d, const char *visible, const char *commands);

/* Ends the daemon: SIGTERM, two seconds later SIGKILL. Its clients lose their contexts. */
void mps_daemon_end(struct mps_daemon *d);

/* True while it runs and has taken its limits. */
bool mps_daemon_is_ready(const struct mps_daemon *d);
/* True when no process is left after mps_daemon_end. */
bool mps_daemon_is_gone(const struct mps_daemon *d);
/* Why it is not ready; "" before any failure. Borrowed until the next callback. */
const char *mps_daemon_problem(const struct mps_daemon *d);

/* Ends it and waits at most two seconds. Returns NULL. */
struct mps_daemon *mps_daemon_free(struct mps_daemon *d);
