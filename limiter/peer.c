/* SPDX-License-Identifier: Apache-2.0 */
#include "limiter/peer.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Of /proc/<pid>/stat, counted from 1; the second is a name in parentheses. */
enum { FIELD_STATE = 3, FIELD_THREADS = 20, FIELD_STARTED = 22 };

struct stat_line {
    char state;
    uint64_t threads, started;
};

static bool read_stat(const char *path, char *buf, size_t size)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    ssize_t n = read(fd, buf, size - 1);
    int why = errno;
    (void)close(fd);
    errno = why;
    if (n <= 0)
        return false;
    buf[n] = '\0';
    return true;
}

/* Not the C library's: its newest headers name functions that older ones lack. */
static uint64_t number_at(const char *text)
{
    uint64_t n = 0;
    for (; *text >= '0' && *text <= '9'; text++)
        n = n * 10 + (uint64_t)(*text - '0');
    return n;
}

static bool parse_stat(const char *text, struct stat_line *ret)
{
    const char *at = strrchr(text, ')');
    if (at == NULL || at[1] != ' ')
        return false;
    at += 2;
    ret->state = *at;
    for (int field = FIELD_STATE; field < FIELD_STARTED; field++) {
        if (field == FIELD_THREADS)
            ret->threads = number_at(at);
        at = strchr(at, ' ');
        if (at == NULL)
            return false;
        at++;
    }
    ret->started = number_at(at);
    return true;
}

bool peer_own(struct peer *ret)
{
    char text[1024], link[64];
    struct stat_line line = {0};
    *ret = (struct peer){.pid = (uint32_t)getpid()};
    if (!read_stat("/proc/self/stat", text, sizeof(text)) || !parse_stat(text, &line))
        return false;
    ret->started = line.started;
    ssize_t n = readlink("/proc/self/ns/pid", link, sizeof(link) - 1);
    link[n > 0 ? n : 0] = '\0';
    if (strncmp(link, "pid:[", 5) == 0)
        ret->pid_ns = (uint32_t)number_at(link + 5);
    return true;
}

/* The first thread of a process may have ended before others. */
static bool has_ended(const struct stat_line *line)
{
    return (line->state == 'Z' || line->state == 'X') && line->threads <= 1;
}

bool peer_is_gone(const struct peer *p, const struct peer *by)
{
    char path[32], text[1024];
    struct stat_line line = {0};
    if (p->pid_ns != by->pid_ns)
        return false;
    (void)snprintf(path, sizeof(path), "/proc/%u/stat", p->pid);
    if (!read_stat(path, text, sizeof(text)))
        return errno == ENOENT || errno == ESRCH;
    if (!parse_stat(text, &line))
        return false;
    return has_ended(&line) || (p->started != 0 && line.started != p->started);
}
