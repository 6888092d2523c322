/* SPDX-License-Identifier: Apache-2.0 */
/* What the kernel says of a process in /proc/<pid>/stat. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct proc_stat {
    char state;       /* R, S, ...; Z: a zombie, X: dead */
    uint64_t threads; /* those that have not ended */
    uint64_t started; /* in clock ticks since boot */
};

/* Reads the file's text. False: it is not whole. The name of a process, which is in it, may have
 * anything in it. */
bool proc_stat_parse(const char *text, struct proc_stat *ret);

/* The number at the beginning of text; 0 where there is none. */
uint64_t proc_stat_number(const char *text);
