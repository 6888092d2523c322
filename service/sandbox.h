/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/err.h"

/*
 * Confines a process that strangers reach, in two steps. sandbox_drop, as soon as it runs, drops
 * rights and resources; sandbox_seal, once all that it works with is open, forbids every system
 * call except those that serving needs. Neither can be undone. The process must have one thread
 * only.
 */

struct sandbox {
    uid_t uid;      /* user to become, with the group of the same number; 0: no change */
    size_t max_fds; /* descriptors */
    /* Its private writable memory, including data, and what it maps in addition to what is mapped
     * now; 0: no limit. */
    size_t max_bytes;
    unsigned max_cpu_s; /* of processor time; then SIGXCPU ends it */
};

/* Descriptors below this number are inherited; those from it on are the process's own connections,
 * and only these may be shut down. A power of two. */
#define SANDBOX_FIRST_OWN_FD 8

/* Drops supplementary groups and capabilities, sets no-new-privileges, forbids core dumps and
 * children, and hides its memory from others of the same user. The process ends with its parent,
 * and goes first when memory runs out. The kernel's memory for its sockets is not limited here.
 * ERR_SYSTEM: a part of this failed; do not go on. */
int sandbox_drop(const struct sandbox *s, struct err *e) MUST_CHECK;

/* From now on only serving on open descriptors is allowed. SIGSYS ends the process for: opening,
 * connecting, running, tracing or signalling anything; shutting down an inherited descriptor;
 * changing a descriptor's flags or owner; socket options other than TCP_NODELAY and TCP_CORK;
 * memory that is shared, executable or a stack. sanitized: also allows what a sanitizer needs for
 * its reports. ERR_SYSTEM. */
int sandbox_seal(bool sanitized, struct err *e) MUST_CHECK;

/* True in a build with a sanitizer, which maps terabytes and opens files. */
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

/* True when this process can give a child another user. */
bool sandbox_can_change_user(void);
