/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdarg.h>
#include <stddef.h>

/*
 * Allocation that aborts when memory runs out. In exchange, every size that comes from outside is
 * capped before it arrives here (ERR_TOO_LARGE). All results are zeroed and owned by the caller.
 */

void *xmalloc(size_t bytes);
void *xcalloc(size_t count, size_t bytes);
/* Grown memory beyond the old size is not zeroed. */
void *xrealloc(void *p, size_t bytes);
/* Like xrealloc for arrays; aborts when count * bytes overflows. */
void *xreallocarray(void *p, size_t count, size_t bytes);
char *xstrdup(const char *s); /* NULL gives NULL */
char *xstrndup(const char *s, size_t max);
void *xmemdup(const void *p, size_t bytes);
char *xasprintf(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
char *xvasprintf(const char *fmt, va_list ap) __attribute__((format(printf, 1, 0)));

/* Replaces the string that *slot owns with a copy of s (NULL allowed on both sides). */
void xstr_set(char **slot, const char *s);

/* Appends one zeroed element of the given type to a growing array and returns its address.
 * Capacity doubles; `count` is the array's element count and is advanced. The array starts as NULL
 * with count 0, or comes from earlier calls: the capacity is derived from the count. */
void *xgrow(void *array_ptr, size_t *count, size_t elem_bytes);
#define XPUSH(array, count) ((__typeof__(array))xgrow(&(array), &(count), sizeof(*(array))))

/* Reports and aborts, as all functions above do; for libraries that report a failed allocation of
 * their own. */
_Noreturn void xalloc_failed(void);

/* Returns fd; aborts with errno's text when it is -1. For descriptors that a process cannot work
 * without (those with which its threads wake each other): after a restart it has a fresh set. */
int xfd(int fd);
