/* SPDX-License-Identifier: Apache-2.0 */
#include "memory_support.h"

#include <dirent.h>
#include <stdbool.h>

/* Of the sanitizer's run time. */
extern size_t __sanitizer_get_allocated_size(const volatile void *p) __attribute__((weak));
extern size_t __sanitizer_get_current_allocated_bytes(void) __attribute__((weak));
extern int __sanitizer_install_malloc_and_free_hooks(void (*on_malloc)(const volatile void *,
                                                                       size_t),
                                                     void (*on_free)(const volatile void *))
    __attribute__((weak));

/* Fuzz targets have one thread. */
static bool hooked;
static size_t used;
static size_t peak;

static void on_malloc(const volatile void *p, size_t size)
{
    (void)p;
    used += size;
    peak = used > peak ? used : peak;
}

/* What was taken before the counting began is freed too. */
static void on_free(const volatile void *p)
{
    size_t size = p ? __sanitizer_get_allocated_size(p) : 0;
    used -= size < used ? size : used;
}

static void hook(void)
{
    if (hooked || !__sanitizer_install_malloc_and_free_hooks)
        return;
    hooked = true;
    used = __sanitizer_get_current_allocated_bytes();
    (void)__sanitizer_install_malloc_and_free_hooks(on_malloc, on_free);
}

size_t memory_used(void)
{
    hook();
    return used;
}

size_t memory_peak(void)
{
    return peak;
}

void memory_mark(void)
{
    peak = memory_used();
}

size_t memory_descriptors(void)
{
    size_t n = 0;
    DIR *d = opendir("/proc/self/fd");
    while (d && readdir(d))
        n++;
    if (d)
        (void)closedir(d);
    return n;
}
