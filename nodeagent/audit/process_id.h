/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

#include "nodeagent/gpu/consumers.h"

/*
 * A process of a container, by more than its number, which a later process may get. Reads small
 * files of /proc; for any thread. proc_root NULL: /proc.
 */
struct process_id {
    unsigned pid;     /* the host's */
    uint64_t started; /* starttime of /proc/<pid>/stat: in clock ticks since boot */
    struct consumer of;
};

/* When the process with this number began. ERR_NOT_FOUND: there is none; ERR_PROTOCOL; ERR_SYSTEM. */
int process_started(const char *proc_root, unsigned pid, uint64_t *ret, struct err *e) MUST_CHECK;

/* Its number in its own PID namespace, by which it calls itself. Errors as above. */
int process_own_pid(const char *proc_root, unsigned pid, unsigned *ret, struct err *e) MUST_CHECK;

/* Ends the process (SIGKILL), if its number is still its own: it began then, by proc_root and by
 * /proc, and is in that container of that pod. *ret_ended: false where it is gone. Never ends the
 * caller, nor a process whose container is not known. ERR_INVALID: one of these; ERR_SYSTEM. */
int process_end(const char *proc_root, const struct process_id *id, bool *ret_ended,
                struct err *e) MUST_CHECK;
