/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>

#include "base/auto.h"
#include "base/reactor.h"

/*
 * One MPS control daemon, kept running: started in the foreground as a child, given its limits,
 * started again with backoff when it ends, ended when it is not wanted any more. It is ready once
 * it has taken its limits; clients that come before would have none.
 *
 * One thread, in callbacks of the reactor. Nothing blocks but mps_daemon_free.
 */
struct mps_daemon;

/* The daemon became ready, is not ready any more, or is gone. Called from the reactor, and from
 * mps_daemon_set and mps_daemon_end; it may not free the daemon. */
typedef void mps_daemon_fn(void *arg);

/* Copied. */
struct mps_daemon_options {
    const char *program;      /* nvidia-cuda-mps-control, a path */
    const char *library_path; /* its LD_LIBRARY_PATH; NULL: none */
    const char *pipe_folder;  /* made anew at each start and end (fresh_folder.h) */
    const char *log_folder;   /* made if missing; no container sees it */
    const char *visible;      /* uuids of the devices it serves, with commas */
    const char *commands;     /* for nvidia-cuda-mps-control, a line each; sets the limits */
};

/* Starts at the next dispatch. Borrows r. */
struct mps_daemon *mps_daemon_new(struct reactor *r, const struct mps_daemon_options *o,
                                  mps_daemon_fn *fn, void *arg);

/* From now on these devices and limits; restarts it if they differ from those that it has, and
 * takes back an mps_daemon_end. */
void mps_daemon_set(struct mps_daemon *d, const char *visible, const char *commands);

/* Ends it: SIGTERM, SIGKILL two seconds later. Its clients lose their contexts. */
void mps_daemon_end(struct mps_daemon *d);

/* It runs and has taken its limits. */
bool mps_daemon_is_ready(const struct mps_daemon *d);
/* No process is left after mps_daemon_end. */
bool mps_daemon_is_gone(const struct mps_daemon *d);
/* Why it is not ready, "" before anything went wrong. Borrowed until the next callback. */
const char *mps_daemon_problem(const struct mps_daemon *d);

/* Ends it and waits, two seconds at most. Returns NULL. */
struct mps_daemon *mps_daemon_free(struct mps_daemon *d);
