/* SPDX-License-Identifier: Apache-2.0 */
#include "limiter/peer.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "limiter/proc_stat.h"
#include "limiter/raw.h"

/* Of a mark: the low bits of the time, above those of the namespace. */
#define MARK_NS_BITS 12U
#define MARK_NS      UINT32_C(0xfff)
#define MARK_STARTED UINT32_C(0xfffff)

static bool read_stat(const char *path, char *buf, size_t size)
{
    int fd = raw_open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    ssize_t n = raw_read(fd, buf, size - 1);
    int why = n < 0 ? errno : 0;
    (void)raw_close(fd);
    errno = why;
    if (n <= 0)
        return false;
    buf[n] = '\0';
    return true;
}

/* The text of a link that has a number, behind `prefix`; 0: it is another. */
static uint64_t number_of_link(const char *path, const char *prefix)
{
    char link[64];
    ssize_t n = readlink(path, link, sizeof(link) - 1);
    link[n > 0 ? n : 0] = '\0';
    return strncmp(link, prefix, strlen(prefix)) == 0 ? proc_stat_number(link + strlen(prefix)) : 0;
}

bool peer_own(struct peer *ret)
{
    char text[1024];
    struct proc_stat line = {0};
    if (!read_stat("/proc/self/stat", text, sizeof(text)) || !proc_stat_parse(text, &line))
        return false;
    *ret = (struct peer){.pid = (uint32_t)getpid(), .started = line.started};
    /* In a new namespace, /proc may still be that of the one around it. */
    if (number_of_link("/proc/self", "") == ret->pid)
        ret->pid_ns = (uint32_t)number_of_link("/proc/self/ns/pid", "pid:[");
    return true;
}

/* The first thread of a process may have ended before others. */
static bool has_ended(const struct proc_stat *line)
{
    return (line->state == 'Z' || line->state == 'X') && line->threads <= 1;
}

/* A process without /proc, or before which others are hidden there, still sees whether a pid is
 * taken. */
static bool is_free(uint32_t pid)
{
    return pid == 0 || pid > INT32_MAX || (kill((pid_t)pid, 0) != 0 && errno == ESRCH);
}

/* bits: those of the time that are known. */
static bool is_gone(uint32_t pid, uint64_t started, uint64_t bits)
{
    char path[32], text[1024];
    struct proc_stat line = {0};
    (void)snprintf(path, sizeof(path), "/proc/%u/stat", pid);
    if (!read_stat(path, text, sizeof(text)))
        return (errno == ENOENT || errno == ESRCH) && is_free(pid);
    if (!proc_stat_parse(text, &line))
        return false;
    return has_ended(&line) || ((line.started ^ started) & bits) != 0;
}

bool peer_is_gone(const struct peer *p, const struct peer *by)
{
    return p->pid_ns == by->pid_ns && by->pid_ns != 0 &&
           is_gone(p->pid, p->started, p->started != 0 ? UINT64_MAX : 0);
}

uint32_t peer_mark(const struct peer *p)
{
    return ((uint32_t)p->started & MARK_STARTED) << MARK_NS_BITS | (p->pid_ns & MARK_NS);
}

bool peer_mark_is_foreign(uint32_t mark, const struct peer *by)
{
    return by->pid_ns == 0 || ((mark ^ by->pid_ns) & MARK_NS) != 0;
}

bool peer_mark_is_gone(uint32_t pid, uint32_t mark, const struct peer *by)
{
    return !peer_mark_is_foreign(mark, by) && is_gone(pid, mark >> MARK_NS_BITS, MARK_STARTED);
}
