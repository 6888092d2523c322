/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/auto.h"
#include "base/err.h"

#include "nodeagent/gpu/gpu_event.h"

/*
 * The side of the agent that has events watched: it keeps a child process waiting (nvml_events.h),
 * reads what the child reports from a pipe and never blocks on it. While nothing happens nobody
 * wakes. A child that ended is started again by the next gpu_watch_keep, not at once: what ended it
 * mostly lasts.
 *
 * Threads: the loop's alone, but for gpu_watch_suspend and _resume, which are for the thread that
 * resets cards.
 */
struct gpu_watch;

struct gpu_watch_options {
    const char *program; /* NULL: this very program. Run as `program watch-events` */
    const char *library; /* as nvml_options; NULL: the loader's */
};

/* Options are copied. Starts nothing yet. */
struct gpu_watch *gpu_watch_new(const struct gpu_watch_options *o);
/* Kills the child; waits at most a second for its end. NULL allowed; returns NULL. */
struct gpu_watch *gpu_watch_free(struct gpu_watch *w);

/* To be called with the cards of each good reading, by uuid: starts the child when there is none,
 * or one that watches all of them when a card has come. ERR_SYSTEM: it could not be started. */
int gpu_watch_keep(struct gpu_watch *w, const char *const *uuids, size_t n,
                   struct err *e) MUST_CHECK;

/* Readable when gpu_watch_take has something to do. The same for the watch's life, and its own. */
int gpu_watch_fd(const struct gpu_watch *w);
/* Does a child wait, as far as is known? */
bool gpu_watch_runs(const struct gpu_watch *w);
/* The next report. False: there is none now. The child runs the vendor's library, so what it writes
 * is checked: a kind that is none, an instance below -1 or a card's name that is no name (sound.h)
 * sets e (ERR_PROTOCOL) and ends the child. Whether there is such a card is for the caller. */
bool gpu_watch_take(struct gpu_watch *w, struct gpu_event *ret, struct err *e);

/* Ends the child, whose session would keep a card from being reset, and lets none start until
 * _resume. Blocks at most two seconds. NULL allowed. Any thread. */
void gpu_watch_suspend(struct gpu_watch *w);
void gpu_watch_resume(struct gpu_watch *w);
