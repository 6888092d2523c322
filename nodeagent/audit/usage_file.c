/* SPDX-License-Identifier: Apache-2.0 */
#include "nodeagent/audit/usage_file.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/xalloc.h"

#include "limiter/region.h"

/* The words before the processes. */
struct head {
    uint64_t magic;
    uint32_t version, bytes, pad, reach;
};
static_assert(offsetof(struct head, reach) == offsetof(struct usage, reach), "the same");

static int not_ours(struct err *e)
{
    return err_set(e, ERR_PROTOCOL, "%s is not of this layout", REGION_USAGE);
}

/* What stands there is looked at before it is opened, since the opening of a device may do
 * something, and again behind the descriptor; a FIFO without a writer is not waited for. */
static int open_regular(int folder, struct err *e)
{
    struct stat st;
    if (fstatat(folder, REGION_USAGE, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return errno == ENOENT ? err_set(e, ERR_NOT_FOUND, "there is no %s", REGION_USAGE)
                               : err_set_errno(e, errno, "look at %s", REGION_USAGE);
    if (!S_ISREG(st.st_mode))
        return not_ours(e);
    auto_fd int fd = openat(folder, REGION_USAGE, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) < 0)
        return err_set_errno(e, errno, "open %s", REGION_USAGE);
    if (!S_ISREG(st.st_mode))
        return not_ours(e);
    return TAKE_FD(fd);
}

static int read_at(int fd, void *ret, size_t len, size_t at, struct err *e)
{
    ssize_t n = pread(fd, ret, len, (off_t)at);
    if (n < 0)
        return err_set_errno(e, errno, "read %s", REGION_USAGE);
    return (size_t)n == len ? 0 : not_ours(e);
}

static int read_reach(int fd, size_t *ret, struct err *e)
{
    struct head h;
    TRY(read_at(fd, &h, sizeof(h), 0, e));
    if (h.magic != USAGE_MAGIC || h.version != REGION_VERSION || h.bytes != sizeof(struct usage))
        return not_ours(e);
    *ret = h.reach < REGION_MAX_PROCESSES ? h.reach : REGION_MAX_PROCESSES;
    return 0;
}

/* The rows of one card; owned. */
struct rows {
    struct usage_process *processes;
    uint64_t *taken, *by_contexts, *contexts;
};

static void rows_done(struct rows *r)
{
    free(r->processes);
    free(r->taken);
    free(r->by_contexts);
    free(r->contexts);
}
AUTO_DEFINE(rows, struct rows, rows_done)

static int read_row(int fd, size_t table, unsigned card, size_t n, uint64_t **ret, struct err *e)
{
    size_t row = card * sizeof(uint64_t[REGION_MAX_PROCESSES]);
    *ret = xcalloc(n + 1, sizeof(**ret));
    return read_at(fd, *ret, n * sizeof(**ret), table + row, e);
}

static int read_rows(int fd, unsigned card, size_t n, struct rows *ret, struct err *e)
{
    size_t bytes = n * sizeof(*ret->processes);
    ret->processes = xcalloc(n + 1, sizeof(*ret->processes));
    TRY(read_at(fd, ret->processes, bytes, offsetof(struct usage, processes), e));
    TRY(read_row(fd, offsetof(struct usage, taken), card, n, &ret->taken, e));
    TRY(read_row(fd, offsetof(struct usage, by_contexts), card, n, &ret->by_contexts, e));
    return read_row(fd, offsetof(struct usage, contexts), card, n, &ret->contexts, e);
}

static void add(const struct rows *r, size_t i, struct usage_file *ret)
{
    uint64_t taken = r->taken[i], by_contexts = r->by_contexts[i];
    if (!r->processes[i].pid)
        return;
    *XPUSH(ret->items, ret->n) = (struct usage_process_taken){
        .pid = r->processes[i].pid,
        .started = r->processes[i].started,
        .taken = taken,
        .taken_by_contexts = by_contexts < taken ? by_contexts : taken,
        .contexts = r->contexts[i],
    };
}

int usage_file_read(int folder, unsigned card, struct usage_file *ret, struct err *e)
{
    size_t n = 0;
    AUTO(rows) struct rows rows = {0};
    assert(card < REGION_MAX_CARDS);
    auto_fd int fd = open_regular(folder, e);
    TRY(fd);
    TRY(read_reach(fd, &n, e));
    TRY(read_rows(fd, card, n, &rows, e));
    *ret = (struct usage_file){0};
    for (size_t i = 0; i < n; i++)
        add(&rows, i, ret);
    return 0;
}

const struct usage_process_taken *usage_file_find(const struct usage_file *u, uint32_t pid,
                                                  uint64_t started)
{
    for (size_t i = 0; i < u->n; i++)
        if (u->items[i].pid == pid && u->items[i].started == started)
            return &u->items[i];
    return NULL;
}

void usage_file_done(struct usage_file *u)
{
    free(u->items);
    *u = (struct usage_file){0};
}
