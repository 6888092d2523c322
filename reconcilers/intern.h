/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>

/*
 * Values that many records share (label keys, profile names, MIG tables), each kept once: counted,
 * immutable, found by their bytes. Thousands of nodes say the same few hundred things; with copies
 * the caches would be several times as large. One pool for the process, because transforms take no
 * argument; it cannot be told from private copies but by its size. Any thread; one mutex, held for
 * one look-up. A value costs its bytes and 32 more.
 */

/* A shared copy of n bytes, aligned for any type; a new reference. */
const void *intern_bytes(const void *bytes, size_t n);
/* The same of a text with its NUL; NULL gives NULL. */
const char *intern_text(const char *text);
/* Drops a reference that the two above gave; NULL allowed. */
void intern_drop(const void *shared);
/* How many values there are, for tests and metrics. */
size_t intern_count(void);
