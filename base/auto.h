/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <dirent.h>
#include <jansson.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/*
 * Ownership without goto: a local that owns something has an auto_ attribute and is released when
 * it leaves scope. TAKE hands the ownership on. Modules with a _free or _done define their own
 * attribute beside it with AUTO_DEFINE.
 */

/* Defines the cleanup function of a pointer type: `AUTO_DEFINE(sb, struct sb, sb_done)` gives
 * auto_done_sb(struct sb *). For use behind `#define auto_x __attribute__((cleanup(auto_done_x)))`.
 */
#define AUTO_DEFINE(name, type, fn)                                                                \
    static inline void auto_done_##name(type *p)                                                   \
    {                                                                                              \
        (void)fn(p);                                                                               \
    }

/* The same for a pointer whose destructor takes the pointer itself (heap objects, NULL allowed). */
#define AUTO_DEFINE_PTR(name, type, fn)                                                            \
    static inline void auto_free_##name(type **p)                                                  \
    {                                                                                              \
        (void)fn(*p);                                                                              \
    }

#define AUTO(name)     __attribute__((cleanup(auto_done_##name)))
#define AUTO_PTR(name) __attribute__((cleanup(auto_free_##name)))

static inline void auto_free_heap(void *p)
{
    void **owner = p;
    free(*owner);
}

static inline void auto_close_fd(const int *fd)
{
    if (*fd >= 0)
        (void)close(*fd);
}

static inline void auto_close_file(FILE **f)
{
    if (*f)
        (void)fclose(*f);
}

static inline void auto_close_dir(DIR **d)
{
    if (*d)
        (void)closedir(*d);
}

static inline void auto_unlock_mutex(pthread_mutex_t **m)
{
    if (*m)
        (void)pthread_mutex_unlock(*m);
}

static inline void auto_decref_json(json_t **j)
{
    json_decref(*j);
}

/* Heap memory of malloc and friends. */
#define auto_free __attribute__((cleanup(auto_free_heap)))
/* A file descriptor; -1 owns nothing. */
#define auto_fd __attribute__((cleanup(auto_close_fd)))
/* A stdio stream whose close cannot lose data (reading). */
#define auto_file __attribute__((cleanup(auto_close_file)))
/* A directory stream; NULL owns nothing. */
#define auto_dir __attribute__((cleanup(auto_close_dir)))
/* A reference to a JSON value. */
#define auto_json __attribute__((cleanup(auto_decref_json)))

/* Holds a mutex until the end of the enclosing block. */
#define HOLD_JOIN2(a, b) a##b
#define HOLD_JOIN(a, b)  HOLD_JOIN2(a, b)
#define HOLD(mutex)                                                                                \
    pthread_mutex_t *HOLD_JOIN(held_, __LINE__)                                                    \
        __attribute__((cleanup(auto_unlock_mutex), unused)) = auto_lock(mutex)

static inline pthread_mutex_t *auto_lock(pthread_mutex_t *m)
{
    (void)pthread_mutex_lock(m);
    return m;
}

/* Hands a pointer over: the value, leaving NULL behind. */
#define TAKE(p)                                                                                    \
    ({                                                                                             \
        __typeof__(p) taken_ = (p);                                                                \
        (p) = NULL;                                                                                \
        taken_;                                                                                    \
    })

/* Hands a file descriptor over, leaving -1 behind. */
#define TAKE_FD(fd)                                                                                \
    ({                                                                                             \
        int taken_ = (fd);                                                                         \
        (fd) = -1;                                                                                 \
        taken_;                                                                                    \
    })

#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))
