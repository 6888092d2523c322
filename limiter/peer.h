/* SPDX-License-Identifier: Apache-2.0 */
/* A process of the container, told from others that have its pid at another time. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* pid_ns: the inode of its PID namespace; 0: unknown, as where /proc is of another. started: in clock
 * ticks since boot; 0: unknown. */
struct peer {
    uint32_t pid, pid_ns;
    uint64_t started;
};

/* This process. False: there is no /proc. */
bool peer_own(struct peer *ret);

/* True when it has ended and the system has taken its memory back, as `by` sees it. False for one
 * of another PID namespace, of which nothing is known. */
bool peer_is_gone(const struct peer *p, const struct peer *by);

/* The same of a process of which a pid and a mark are known: it fits, with the pid, into a word that
 * is changed at once. Of the time it has the low 20 bits, of the namespace 12. */
uint32_t peer_mark(const struct peer *p);
bool peer_mark_is_gone(uint32_t pid, uint32_t mark, const struct peer *by);
/* True when it is of another PID namespace. */
bool peer_mark_is_foreign(uint32_t mark, const struct peer *by);
