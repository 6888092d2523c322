/* SPDX-License-Identifier: Apache-2.0 */
/* A process of the container, told from others that have its pid at another time. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct peer {
    uint32_t pid, pid_ns;
    uint64_t started; /* 0: unknown */
};

/* This process. False: there is no /proc. */
bool peer_own(struct peer *ret);

/* True when it has ended and the system has taken its memory back, as `by` sees it. False for one
 * of another PID namespace, of which nothing is known. */
bool peer_is_gone(const struct peer *p, const struct peer *by);
