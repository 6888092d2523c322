/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/auto.h"
#include "base/err.h"

/*
 * What the processes of a container say in its file usage (limiter/region.h) to have taken of one
 * card. The container writes the file as it likes, and may have put anything in its place, so it is
 * never mapped, each read has a bound, and every word may be a lie.
 */
struct usage_process_taken {
    uint32_t pid;               /* in its own PID namespace; never 0 */
    uint64_t started;           /* ticks since boot */
    uint64_t taken;             /* bytes */
    uint64_t taken_by_contexts; /* of these; at most as much ... */
    uint64_t contexts;          /* ... for so many */
};

/* Owned: usage_file_done. */
struct usage_file {
    struct usage_process_taken *items;
    size_t n; /* at most REGION_MAX_PROCESSES */
};

/* Reads the file of a container's folder. card: by its index in the container's terms. Never waits.
 * ERR_NOT_FOUND: there is none; ERR_PROTOCOL: it is no such file, or of another layout; ERR_SYSTEM. */
int usage_file_read(int folder, unsigned card, struct usage_file *ret, struct err *e) MUST_CHECK;
/* The process's; NULL: it has no slot. Borrowed. */
const struct usage_process_taken *usage_file_find(const struct usage_file *u, uint32_t pid,
                                                  uint64_t started);
void usage_file_done(struct usage_file *u);
AUTO_DEFINE(usage_file, struct usage_file, usage_file_done)
#define auto_usage_file AUTO(usage_file)
