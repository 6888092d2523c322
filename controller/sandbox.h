/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/err.h"

/*
 * What a process that strangers reach gives up, in two steps: rights and means as soon as it runs,
 * then, once all that it works with is open, every system call but those that serving takes. Both
 * are for good. One thread, and no other may run in the process.
 */

struct sandbox {
    uid_t uid;          /* to become, with the group of the same number; 0: stay who we are */
    size_t max_fds;     /* descriptors */
    size_t max_bytes;   /* of memory that it writes, its data included, and of what it maps beyond
                           what is mapped now; 0: no limit of its own */
    unsigned max_cpu_s; /* of the processor; then it ends by SIGXCPU */
};

/* Descriptors below are inherited, those from here on are its own connections: they alone may be
 * shut down. A power of two. */
#define SANDBOX_FIRST_OWN_FD 8

/* No other groups, no capabilities, nothing gained by running a program, no core, no child, no
 * look at its memory by others of the same user; ends with its parent, and before others when
 * memory runs out. The kernel's memory for its sockets is not limited here. ERR_SYSTEM: something
 * of it is not to be had, which is no state to go on in. */
int sandbox_drop(const struct sandbox *s, struct err *e) MUST_CHECK;

/* From now on: serving what is open. Opening, connecting, running, tracing or signalling anything,
 * shutting down what is inherited, changing a descriptor's flags or owner, an option of a socket
 * but TCP_NODELAY and TCP_CORK, and memory that is shared, a stack or can be run end the process by
 * SIGSYS. sanitized: what a sanitizer takes to report is allowed, too. ERR_SYSTEM. */
int sandbox_seal(bool sanitized, struct err *e) MUST_CHECK;

/* Is this process built with a sanitizer, which maps terabytes and opens files? */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANDBOX_SANITIZED true
#elif defined(__clang__)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANDBOX_SANITIZED true
#endif
#endif
#ifndef SANDBOX_SANITIZED
#define SANDBOX_SANITIZED false
#endif

/* Can this process give a child of its own another user? */
bool sandbox_can_change_user(void);
