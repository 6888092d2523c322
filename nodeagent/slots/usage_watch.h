/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>

#include "base/auto.h"
#include "base/err.h"

/*
 * Which containers have written to their usage file (limiter/region.h) by a call. The limiter does
 * not: it has the file mapped. By a call the file can be made longer, and so fill the folder in which
 * the host, and every container's start, has its own files.
 *
 * Any thread adds and drops; one thread asks.
 */
struct usage_watch;

/* ERR_SYSTEM: the kernel gives no more watches to this user. */
int usage_watch_new(struct usage_watch **ret, struct err *e) MUST_CHECK;
struct usage_watch *usage_watch_free(struct usage_watch *w);
AUTO_DEFINE_PTR(usage_watch, struct usage_watch, usage_watch_free)
#define auto_usage_watch AUTO_PTR(usage_watch)

/* Watches the usage in this folder, of the container with this slot, in place of its earlier one.
 * ERR_SYSTEM. */
int usage_watch_add(struct usage_watch *w, unsigned slot, int folder, struct err *e) MUST_CHECK;
/* No effect without one. */
void usage_watch_drop(struct usage_watch *w, unsigned slot);

/* Readable while somebody has written. Owned by w. */
int usage_watch_fd(const struct usage_watch *w);
/* The next slot whose usage was written to since it was asked about; false: none. Never blocks. */
bool usage_watch_next(struct usage_watch *w, unsigned *ret_slot);
