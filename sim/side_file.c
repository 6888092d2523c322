/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/side_file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* Whoever finds the file may write to it: the containers' processes have other users. */
static void create(const char *path)
{
    char name[PATH_MAX];
    if (snprintf(name, sizeof(name), "%s.XXXXXX", path) >= (int)sizeof(name))
        return;
    int fd = mkostemp(name, O_CLOEXEC);
    if (fd < 0)
        return;
    /* Whether it is there now, or another process was first, is what the caller's open finds out. */
    bool made = fchmod(fd, 0666) == 0 && link(name, path) == 0;
    (void)made;
    (void)close(fd);
    (void)unlink(name);
}

int side_file_open(const char *path)
{
    if (path == NULL)
        return memfd_create("cleave-sim-side", MFD_CLOEXEC);
    int fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd >= 0 || errno != ENOENT)
        return fd;
    create(path);
    return open(path, O_RDWR | O_CLOEXEC);
}

void *side_file_map(int fd, size_t bytes)
{
    struct stat st;
    if (fstat(fd, &st) != 0)
        return NULL;
    if (st.st_size < (off_t)bytes && ftruncate(fd, (off_t)bytes) != 0)
        return NULL;
    void *at = mmap(/* addr= */ NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    return at != MAP_FAILED ? at : NULL;
}
