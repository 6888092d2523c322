/* SPDX-License-Identifier: Apache-2.0 */
#include "base/xalloc.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void xalloc_failed(void)
{
    (void)fputs("out of memory\n", stderr);
    abort();
}

static void *checked(void *p)
{
    if (!p)
        xalloc_failed();
    return p;
}

int xfd(int fd)
{
    if (fd < 0) {
        (void)fprintf(stderr, "out of descriptors: %s\n", strerror(errno));
        abort();
    }
    return fd;
}

void *xmalloc(size_t bytes)
{
    return checked(calloc(1, bytes ? bytes : 1));
}

void *xcalloc(size_t count, size_t bytes)
{
    return checked(calloc(count ? count : 1, bytes ? bytes : 1));
}

void *xrealloc(void *p, size_t bytes)
{
    return checked(realloc(p, bytes ? bytes : 1));
}

void *xreallocarray(void *p, size_t count, size_t bytes)
{
    return checked(reallocarray(p, count ? count : 1, bytes ? bytes : 1));
}

char *xstrdup(const char *s)
{
    return s ? checked(strdup(s)) : NULL;
}

char *xstrndup(const char *s, size_t max)
{
    return checked(strndup(s, max));
}

void *xmemdup(const void *p, size_t bytes)
{
    void *copy = xmalloc(bytes);
    if (bytes)
        memcpy(copy, p, bytes);
    return copy;
}

char *xasprintf(const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    char *s = xvasprintf(fmt, ap);
    va_end(ap);
    return s;
}

char *xvasprintf(const char *fmt, va_list ap)
{
    char *s = NULL;
    int n = vasprintf(&s, fmt, ap);
    return checked(n < 0 ? NULL : s);
}

void xstr_set(char **slot, const char *s)
{
    char *copy = xstrdup(s);
    free(*slot);
    *slot = copy;
}

/* Arrays made by xgrow have a capacity that is the next power of two of their count: it need not
 * be stored, and growing happens exactly when the count is a power of two. */
void *xgrow(void *array_ptr, size_t *count, size_t elem_bytes)
{
    void *array;
    memcpy(&array, array_ptr, sizeof(array));
    size_t n = *count;
    if ((n & (n - 1)) == 0) {
        array = xreallocarray(array, n ? 2 * n : 1, elem_bytes);
        memcpy(array_ptr, &array, sizeof(array));
    }
    char *slot = (char *)array + n * elem_bytes;
    memset(slot, 0, elem_bytes);
    *count = n + 1;
    return slot;
}
