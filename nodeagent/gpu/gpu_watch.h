/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/err.h"

#include "nodeagent/gpu/gpu_event.h"

/*
 * The agent's side of watching events: keeps a child process that waits for them (nvml_events.c)
 * and reads its reports from a pipe without blocking. Without events nothing wakes the loop: the
 * child's beats come by a second pipe, which is read when the loop is awake. A child that ended is
 * started again by the next gpu_watch_keep, not at once, because the cause usually persists. So is
 * one that is silent for three beats: it hangs in the driver, and nothing that happens would be
 * reported.
 *
 * Threads: the loop's only, except gpu_watch_suspend and _resume, which each thread that resets a
 * card calls.
 */
struct gpu_watch;

struct gpu_watch_options {
    const char *program;     /* run as `program watch-events`; NULL: cleave-watch */
    const char *library;     /* path for dlopen; NULL: by the loader's rules */
    const struct clock *clk; /* NULL: the real one. Borrowed */
    int beat_ms;             /* so often a child reports that it lives; 0: two minutes */
};

/* Options are copied. Starts nothing yet. */
struct gpu_watch *gpu_watch_new(const struct gpu_watch_options *o);
/* Kills the child; waits at most a second for its end. NULL allowed; returns NULL. */
struct gpu_watch *gpu_watch_free(struct gpu_watch *w);

/* Starts the child when there is none, or a new one when a card was added or the child is silent.
 * To be called with the uuids of the cards after each good reading. ERR_SYSTEM: it could not be
 * started. */
int gpu_watch_keep(struct gpu_watch *w, const char *const *uuids, size_t n,
                   struct err *e) MUST_CHECK;

/* Readable when gpu_watch_take has something to do. The descriptor stays the same and belongs to
 * the watch. */
int gpu_watch_fd(const struct gpu_watch *w);
/* True while a child waits, as far as is known: one that is silent does not. Reads its beats. */
bool gpu_watch_runs(struct gpu_watch *w);
/* Takes the next report. False: there is none now. The child runs the vendor's library, so its
 * reports are checked. An unknown kind, an instance below -1 or an illegal card name (sound.h) sets
 * e (ERR_PROTOCOL) and ends the child. The caller checks whether the card exists. */
bool gpu_watch_take(struct gpu_watch *w, struct gpu_event *ret, struct err *e);

/* Ends the child, because its session would keep a card from being reset, and starts none until
 * _resume was called as often. Blocks at most two seconds. NULL allowed. Any thread. */
void gpu_watch_suspend(struct gpu_watch *w);
void gpu_watch_resume(struct gpu_watch *w);
