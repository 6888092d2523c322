/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/cuda_rows.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sim/side_file.h"

#define ROWS_VERSION 2U
#define MIB          1048576U

/* Two locks tell of a row's process: the description's that it lives, and the process's which one
 * it is. */
enum { LOCK_PID = 0, LOCK_LIFE = CUDA_MAX_ROWS };

static struct flock at_byte(short type, size_t byte)
{
    return (struct flock){.l_type = type, .l_whence = SEEK_SET, .l_start = (off_t)byte, .l_len = 1};
}

static bool set_lock(int fd, int command, short type, size_t byte)
{
    struct flock l = at_byte(type, byte);
    return fcntl(fd, command, &l) == 0;
}

/* Another description's lock, or another process's; with l_type F_UNLCK none. */
static struct flock lock_at(int fd, int command, size_t byte)
{
    struct flock l = at_byte(F_WRLCK, byte);
    if (fcntl(fd, command, &l) != 0)
        l.l_type = F_UNLCK;
    return l;
}

/* Zeros are rows that nobody has: a new file needs no content. */
static bool map_rows(struct cuda_rows *r)
{
    r->file = side_file_map(r->fd, sizeof(*r->file));
    if (r->file == NULL)
        return false;
    if (r->file->version == 0)
        r->file->version = ROWS_VERSION;
    if (r->file->version == ROWS_VERSION && r->file->reach <= CUDA_MAX_ROWS)
        return true;
    (void)munmap(r->file, sizeof(*r->file));
    r->file = NULL;
    errno = EINVAL;
    return false;
}

bool cuda_rows_open(struct cuda_rows *r, const char *state_path)
{
    char path[sizeof(r->path)] = "";
    if (state_path != NULL &&
        snprintf(path, sizeof(path), "%s.cuda", state_path) >= (int)sizeof(path)) {
        errno = ENAMETOOLONG;
        return false;
    }
    if (r->file != NULL && strcmp(r->path, path) == 0)
        return true;
    /* Rows of another state stay open: see the header. */
    if (r->file != NULL && r->own == NULL)
        (void)munmap(r->file, sizeof(*r->file));
    *r = (struct cuda_rows){.fd = side_file_open(state_path != NULL ? path : NULL)};
    memcpy(r->path, path, sizeof(path));
    return r->fd >= 0 && map_rows(r);
}

static bool is_own(const struct cuda_rows *r, size_t row)
{
    return r->own == &r->file->rows[row];
}

static bool is_live(const struct cuda_rows *r, size_t row)
{
    return is_own(r, row) || lock_at(r->fd, F_OFD_GETLK, LOCK_LIFE + row).l_type != F_UNLCK;
}

/* Its inode; 0 where there is no /proc. */
static uint64_t pid_namespace(void)
{
    struct stat st;
    return stat("/proc/self/ns/pid", &st) == 0 ? st.st_ino : 0;
}

/* All that the process of a row had. */
static void clear(const struct cuda_rows *r, size_t row)
{
    shared_forget(&r->file->shared, (uint32_t)row);
    r->file->rows[row] = (struct cuda_row){0};
}

bool cuda_rows_join(struct cuda_rows *r, const char *name)
{
    for (size_t i = 0; i < CUDA_MAX_ROWS; i++) {
        struct cuda_row *row = &r->file->rows[i];
        if (!set_lock(r->fd, F_OFD_SETLK, F_WRLCK, LOCK_LIFE + i))
            continue;
        if (!set_lock(r->fd, F_SETLK, F_WRLCK, LOCK_PID + i)) {
            (void)set_lock(r->fd, F_OFD_SETLK, F_UNLCK, LOCK_LIFE + i);
            continue;
        }
        clear(r, i); /* of whoever ended before it */
        *row = (struct cuda_row){.used = 1, .pid = (uint32_t)getpid(), .pid_ns = pid_namespace()};
        (void)snprintf(row->name, sizeof(row->name), "%s", name);
        if (r->file->reach <= i)
            r->file->reach = (uint32_t)i + 1;
        r->own = row;
        return true;
    }
    return false;
}

uint32_t cuda_rows_own(const struct cuda_rows *r)
{
    return (uint32_t)(r->own - r->file->rows);
}

void cuda_rows_leave(struct cuda_rows *r)
{
    if (r->own == NULL)
        return;
    uint32_t row = cuda_rows_own(r);
    clear(r, row);
    r->own = NULL;
    (void)set_lock(r->fd, F_SETLK, F_UNLCK, LOCK_PID + row);
    (void)set_lock(r->fd, F_OFD_SETLK, F_UNLCK, LOCK_LIFE + row);
}

void cuda_rows_forget(struct cuda_rows *r)
{
    if (r->file == NULL)
        return;
    (void)munmap(r->file, sizeof(*r->file));
    (void)close(r->fd);
    *r = (struct cuda_rows){0};
}

unsigned int cuda_rows_sweep(struct cuda_rows *r)
{
    unsigned int used = 0;
    for (size_t i = 0; i < r->file->reach; i++) {
        struct cuda_row *row = &r->file->rows[i];
        if (row->used && !is_live(r, i))
            clear(r, i);
        used += row->used != 0;
    }
    return used;
}

uint64_t cuda_rows_bytes(const struct cuda_rows *r, uint32_t gpu)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < r->file->reach; i++)
        sum += r->file->rows[i].used ? r->file->rows[i].bytes[gpu] : 0;
    return sum + shared_bytes(&r->file->shared, gpu);
}

/* F_GETLK hides this process's own locks, and one that was lost looks the same. */
pid_t cuda_rows_pid(const struct cuda_rows *r, uint32_t row)
{
    const struct cuda_row *of = &r->file->rows[row];
    struct flock l = lock_at(r->fd, F_GETLK, LOCK_PID + row);
    if (l.l_type != F_UNLCK)
        return l.l_pid;
    return of->pid == (uint32_t)getpid() && of->pid_ns == pid_namespace() ? getpid() : 0;
}

/* Assumed: a process is named on the cards where it has a context; memory that it has on others is
 * nobody's by name. */
struct part {
    uint32_t gpu, row;
    uint64_t bytes;
    pid_t pid;
};

static void fold_part(const struct cuda_row *row, const struct part *part, struct hw *hw)
{
    struct hw_proc *p = hw_free_proc(hw);
    bool is_named = part->pid > 0 && row->contexts[part->gpu] > 0;
    if (p == NULL)
        return;
    *p = (struct hw_proc){.pid = is_named ? (uint32_t)part->pid : HW_NONE,
                          .gpu = part->gpu,
                          .gi = HW_NONE,
                          .ci = HW_NONE,
                          .slice = HW_NONE,
                          .vf = HW_NONE,
                          .kind = is_named ? PROC_COMPUTE : PROC_HIDDEN,
                          .cuda = part->row + 1,
                          .memory_mib = (uint32_t)((part->bytes + MIB - 1) / MIB)};
    memcpy(p->name, row->name, sizeof(p->name));
    hw->cuda_procs++;
}

static void fold_row(struct cuda_rows *r, uint32_t i, struct hw *hw)
{
    const struct cuda_row *row = &r->file->rows[i];
    pid_t pid = cuda_rows_pid(r, i);
    uint64_t bytes[HW_MAX_GPUS];
    memcpy(bytes, row->bytes, sizeof(bytes));
    shared_add_own_bytes(&r->file->shared, i, bytes);
    for (uint32_t gpu = 0; gpu < HW_MAX_GPUS; gpu++) {
        const struct part part = {.gpu = gpu, .row = i, .bytes = bytes[gpu], .pid = pid};
        if (row->contexts[gpu] > 0 || part.bytes > 0)
            fold_part(row, &part, hw);
    }
}

unsigned int cuda_rows_fold(struct cuda_rows *r, struct hw *hw)
{
    for (size_t i = 0; hw->cuda_procs > 0 && i < hw->proc_reach; i++) {
        if (hw->procs[i].cuda)
            hw->procs[i] = (struct hw_proc){0};
    }
    hw->cuda_procs = 0;
    unsigned int used = cuda_rows_sweep(r);
    for (uint32_t i = 0; i < r->file->reach; i++) {
        if (r->file->rows[i].used)
            fold_row(r, i, hw);
    }
    return used;
}
