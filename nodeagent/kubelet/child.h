/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <sys/types.h>

#include "base/auto.h"
#include "base/err.h"

/*
 * A program started by the agent, as a process and a descriptor that becomes readable when it ends
 * (pidfd), so that an event loop can watch it. One thread.
 */
struct child {
    pid_t pid; /* 0: none */
    int pidfd; /* with pid alone; owned */
};

/* Starts argv[0], a path, with exactly this environment; both lists end in NULL. What it prints is
 * dropped. input: what it reads on its standard input; NULL: nothing. It starts with default
 * signals and no descriptor but the first three. ERR_SYSTEM. *ret holds none before. */
int child_start(char *const argv[], char *const env[], const char *input, struct child *ret,
                struct err *e) MUST_CHECK;

/* Sends a signal; nothing when there is no child. */
void child_signal(const struct child *c, int signal);

/* Takes the end of a child whose pidfd became readable and is watched no more: its exit status
 * (128 + N for signal N). c holds none then. */
int child_reap(struct child *c);

/* Ends it: SIGTERM, after grace_ms SIGKILL; blocks so long at most. NULL and none allowed. */
void child_done(struct child *c, int grace_ms);
