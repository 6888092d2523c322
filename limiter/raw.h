/* SPDX-License-Identifier: Apache-2.0 */
/*
 * System calls as they are. The C library's are points at which a thread can be cancelled, which may
 * have a lock here that the whole container waits for. What closes a descriptor here was opened
 * here, too: whoever watches the C library's calls (ThreadSanitizer, a program's own wrapper) sees
 * both calls, or neither.
 */
#pragma once

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "limiter/mono.h"

static inline int raw_open(const char *path, int flags)
{
    return (int)syscall(SYS_openat, AT_FDCWD, path, flags, 0);
}

static inline ssize_t raw_read(int fd, void *buf, size_t size)
{
    return syscall(SYS_read, fd, buf, size);
}

static inline int raw_close(int fd)
{
    return (int)syscall(SYS_close, fd);
}

static inline int raw_socket(int domain, int type, int protocol)
{
    return (int)syscall(SYS_socket, domain, type, protocol);
}

static inline ssize_t raw_sendto(int fd, const void *data, size_t size, int flags,
                                 const void *address, size_t address_size)
{
    return syscall(SYS_sendto, fd, data, size, flags, address, address_size);
}

/* Sleeps so long, or until a signal comes. */
static inline void raw_sleep(uint64_t ns)
{
    const struct timespec time = mono_span(ns);
    (void)syscall(SYS_nanosleep, &time, NULL);
}

/* Sleeps between two looks at something that the card does, or until a signal comes: *look is how
 * long, first RAW_LOOK_NS, and grows to an eighth of what one has waited. */
#define RAW_LOOK_NS     (20 * MONO_MS / 1000)
#define RAW_LOOK_MAX_NS (200 * MONO_MS / 1000)
static inline void raw_look(uint64_t *look)
{
    raw_sleep(*look);
    *look = *look < RAW_LOOK_MAX_NS ? *look + *look / 8 : *look;
}
