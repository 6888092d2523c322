/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <sys/types.h>

#include "base/auto.h"
#include "base/err.h"

/*
 * A program started by the agent: its process, and a descriptor (pidfd) that becomes readable when
 * it ends, so that an event loop can watch it. One thread.
 */
struct child {
    pid_t pid; /* 0: none */
    int pidfd; /* valid while pid is not 0; owned */
};

/* Starts argv[0], a path, with exactly this environment; both lists end in NULL. Its output is
 * dropped. input: the text on its standard input; NULL: none. It starts with default signals and
 * only the first three descriptors. ERR_SYSTEM. *ret holds no child before. */
int child_start(char *const argv[], char *const env[], const char *input, struct child *ret,
                struct err *e) MUST_CHECK;

/* Sends a signal; nothing when there is no child. */
void child_signal(const struct child *c, int signal);

/* Reaps a child whose pidfd became readable and is no longer watched. Returns its exit status (128
 * + N for signal N). c then holds no child. */
int child_reap(struct child *c);

/* Ends the child: SIGTERM, after grace_ms SIGKILL; blocks at most that long. NULL and no child are
 * allowed. */
void child_done(struct child *c, int grace_ms);
