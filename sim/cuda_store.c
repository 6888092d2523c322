/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/cuda_store.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAX_FILE (UINT64_C(1) << 62U)
#define NAME     "cleave-sim-cuda"

static struct store_file of_process = {.fd = -1};

/* --- Files --- */

/* What a file has got it keeps: whoever maps it is not left without. */
static int make_file(void)
{
    int fd = memfd_create(NAME, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0)
        return -1;
    if (ftruncate(fd, STORE_HEAD) == 0 && fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK) == 0)
        return fd;
    (void)close(fd);
    return -1;
}

static void *map_head(int fd)
{
    void *at = mmap(/* addr= */ NULL, STORE_HEAD, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    return at != MAP_FAILED ? at : NULL;
}

/* The descriptor is the callee's. */
static struct store_file *new_file(int fd, bool has_head)
{
    struct store_file *f = fd >= 0 ? malloc(sizeof(*f)) : NULL;
    void *head = f != NULL && has_head ? map_head(fd) : NULL;
    if (f == NULL || (has_head && head == NULL)) {
        if (fd >= 0)
            (void)close(fd);
        free(f);
        return NULL;
    }
    *f = (struct store_file){.fd = fd,
                             .refs = 1,
                             .end = STORE_HEAD,
                             .is_foreign = true,
                             .head = head};
    return f;
}

struct store_file *store_file_new(void)
{
    struct store_file *f = new_file(make_file(), /* has_head= */ true);
    if (f != NULL)
        f->is_foreign = false;
    return f;
}

static bool is_long(int fd, uint64_t bytes)
{
    struct stat st;
    return bytes <= MAX_FILE && fstat(fd, &st) == 0 && (uint64_t)st.st_size >= bytes;
}

struct store_file *store_file_open(int fd)
{
    int seals = fcntl(fd, F_GET_SEALS);
    if (seals < 0 || (seals & F_SEAL_SHRINK) == 0 || !is_long(fd, STORE_HEAD))
        return NULL;
    return new_file(fcntl(fd, F_DUPFD_CLOEXEC, 0), /* has_head= */ true);
}

/* Only files in memory have seals. */
struct store_file *store_file_of_other(int fd, uint64_t bytes)
{
    if (fcntl(fd, F_GET_SEALS) < 0 || !is_long(fd, bytes))
        return NULL;
    return new_file(fcntl(fd, F_DUPFD_CLOEXEC, 0), /* has_head= */ false);
}

bool store_file_lengthen(const struct store_file *f, uint64_t bytes)
{
    return is_long(f->fd, bytes) || (bytes <= MAX_FILE && ftruncate(f->fd, (off_t)bytes) == 0);
}

bool store_file_has(const struct store_file *f, uint64_t bytes)
{
    return bytes <= MAX_FILE && is_long(f->fd, STORE_HEAD + bytes);
}

struct store_file *store_file_of(pid_t pid, int fd)
{
    char path[64];
    char target[64] = "";
    static const char expected[] = "/memfd:" NAME;
    (void)snprintf(path, sizeof(path), "/proc/%d/fd/%d", (int)pid, fd);
    if (readlink(path, target, sizeof(target) - 1) < 0 ||
        strncmp(target, expected, sizeof(expected) - 1) != 0)
        return NULL;
    return new_file(open(path, O_RDWR | O_CLOEXEC), /* has_head= */ false);
}

void store_file_ref(struct store_file *f)
{
    if (f != NULL)
        f->refs++;
}

void store_file_unref(struct store_file *f)
{
    if (f == NULL || --f->refs > 0)
        return;
    if (f->head != NULL)
        (void)munmap(f->head, STORE_HEAD);
    (void)close(f->fd);
    free(f);
}

/* --- Parts --- */

static bool open_own(void)
{
    if (of_process.fd < 0)
        of_process = (struct store_file){.fd = make_file(), .refs = 1, .end = STORE_HEAD};
    return of_process.fd >= 0;
}

bool store_take(struct store_file *f, uint64_t bytes, struct store *ret)
{
    if (f == NULL && !open_own())
        return false;
    f = f != NULL ? f : &of_process;
    if (bytes > MAX_FILE - f->end)
        return false;
    uint64_t end = f->end + bytes;
    if (!store_file_lengthen(f, end))
        return false;
    *ret = (struct store){.file = f, .offset = f->end, .bytes = bytes};
    f->end = end;
    f->parts++;
    f->refs++;
    return true;
}

struct store store_at(struct store_file *f, uint64_t offset, uint64_t bytes)
{
    f->refs++;
    return (struct store){.file = f, .offset = offset, .bytes = bytes};
}

static void end_part(const struct store *s)
{
    (void)fallocate(s->file->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)s->offset,
                    (off_t)s->bytes);
    if (--s->file->parts == 0)
        s->file->end = STORE_HEAD;
}

/* A part whose bytes are kept counts for ever, so that no other takes its place. */
void store_give_back(struct store *s, bool keep_bytes)
{
    if (!s->file->is_foreign && !keep_bytes)
        end_part(s);
    store_file_unref(s->file);
    *s = (struct store){0};
}

bool store_map(const struct store *s, uint64_t offset, uint64_t bytes, char *at)
{
    return mmap(at, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED | MAP_NORESERVE,
                s->file->fd, (off_t)(s->offset + offset)) != MAP_FAILED;
}
