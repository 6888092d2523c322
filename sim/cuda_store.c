/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/cuda_store.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#define MAX_FILE (UINT64_C(1) << 62U)

/* The process's file: its parts lie one behind the other, from the beginning when there are none. */
static struct {
    int fd;
    uint64_t end;
    uint64_t parts;
} file = {.fd = -1};

static bool open_file(void)
{
    if (file.fd < 0)
        file.fd = memfd_create("cleave-sim-cuda-memory", MFD_CLOEXEC);
    return file.fd >= 0;
}

bool store_take(uint64_t bytes, struct store *ret)
{
    if (bytes > MAX_FILE - file.end || !open_file())
        return false;
    if (ftruncate(file.fd, (off_t)(file.end + bytes)) != 0)
        return false;
    *ret = (struct store){.fd = file.fd, .offset = file.end, .bytes = bytes};
    file.end += bytes;
    file.parts++;
    return true;
}

static void end_part(const struct store *s)
{
    (void)fallocate(s->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)s->offset,
                    (off_t)s->bytes);
    if (--file.parts == 0)
        file.end = 0;
}

/* A part whose bytes are kept counts for ever, so that no other takes its place. */
void store_give_back(struct store *s, bool keep_bytes)
{
    if (s->is_own)
        (void)close(s->fd);
    else if (!keep_bytes)
        end_part(s);
    *s = (struct store){.fd = -1};
}

bool store_map(const struct store *s, uint64_t offset, uint64_t bytes, char *at)
{
    return mmap(at, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED | MAP_NORESERVE, s->fd,
                (off_t)(s->offset + offset)) != MAP_FAILED;
}
