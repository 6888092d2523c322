/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>

/*
 * Interned values: label keys, profile names, MIG tables and other bytes that many records share
 * are kept once, counted and immutable, and found by their bytes. Thousands of nodes report the
 * same few hundred values; private copies would make the caches several times as large. There is
 * one pool for the process, because transforms take no argument. Apart from memory use it behaves
 * exactly as private copies would. Any thread; one mutex, held for one look-up. A value costs its
 * own bytes and 32 more.
 */

/* A shared copy of n bytes, aligned for any type; a new reference. */
const void *intern_bytes(const void *bytes, size_t n);
/* The same for a NUL-terminated text; NULL gives NULL. */
const char *intern_text(const char *text);
/* Drops a reference from intern_bytes or intern_text; NULL allowed. */
void intern_drop(const void *shared);
/* Number of values in the pool, for tests and metrics. */
size_t intern_count(void);
