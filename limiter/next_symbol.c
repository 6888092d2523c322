/* SPDX-License-Identifier: Apache-2.0 */
#include "limiter/next_symbol.h"

#include <dlfcn.h>

/* The oldest name of dlsym: the library is to load with the C library of any container from glibc
 * 2.17 on, while the compiler takes the newest. */
#if defined(__x86_64__)
__asm__(".symver dlsym, dlsym@GLIBC_2.2.5");
#elif defined(__aarch64__)
__asm__(".symver dlsym, dlsym@GLIBC_2.17");
#endif

void *next_symbol(const char *name)
{
    return dlsym(RTLD_NEXT, name);
}
