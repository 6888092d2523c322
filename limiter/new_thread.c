/* SPDX-License-Identifier: Apache-2.0 */
#include "limiter/new_thread.h"

#include <pthread.h>

/* As in next_symbol.c. */
#if defined(__x86_64__)
__asm__(".symver pthread_create, pthread_create@GLIBC_2.2.5");
__asm__(".symver pthread_detach, pthread_detach@GLIBC_2.2.5");
#elif defined(__aarch64__)
__asm__(".symver pthread_create, pthread_create@GLIBC_2.17");
__asm__(".symver pthread_detach, pthread_detach@GLIBC_2.17");
#endif

bool new_thread(void *(*run)(void *), void *arg)
{
    pthread_t thread;
    if (pthread_create(&thread, NULL, run, arg) != 0)
        return false;
    (void)pthread_detach(thread);
    return true;
}
