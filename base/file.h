/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>

#include "base/err.h"

/* Small files, read and written whole. Paths come from flags and configuration, never from
 * containers. */

/* Reads at most max_bytes (more is ERR_TOO_LARGE). *ret is NUL-terminated, owned by the caller;
 * ret_len may be NULL. "-" is standard input. ERR_NOT_FOUND when missing, ERR_SYSTEM. */
int file_read(const char *path, size_t max_bytes, char **ret, size_t *ret_len,
              struct err *e) MUST_CHECK;
/* The same from a descriptor, which stays the caller's. name: for messages. What would wait is
 * ERR_SYSTEM where the descriptor does not (O_NONBLOCK). */
int file_read_fd(int fd, const char *name, size_t max_bytes, char **ret, size_t *ret_len,
                 struct err *e) MUST_CHECK;
/* Reads the first size - 1 bytes, or fewer where the file ends, into ret, with a NUL after them.
 * Errors as file_read. */
int file_read_head(const char *path, char *ret, size_t size, struct err *e) MUST_CHECK;
/* The name in messages of a path that file_read takes: the path, or "standard input". Borrowed. */
const char *file_title(const char *path);
/* Replaces atomically and durably: temporary file beside it, fsync, rename, fsync of the folder.
 * After a crash the file has either the old or the new content. mode as open(2). */
int file_write_atomic(const char *path, const char *data, size_t len, unsigned mode,
                      struct err *e) MUST_CHECK;
/* The same without waiting for the disk: after a crash of the machine the content is undefined. */
int file_replace(const char *path, const char *data, size_t len, unsigned mode,
                 struct err *e) MUST_CHECK;
/* Removes temporary files that a crash left behind in the folder, of files whose names end in
 * suffix. Call it only while nobody writes there. A missing folder has none. *ret_n (may be NULL):
 * how many. ERR_SYSTEM: one of them could not be removed; the others are. */
int file_sweep(const char *folder, const char *suffix, size_t *ret_n, struct err *e) MUST_CHECK;
/* Removes durably; a missing file is no error. */
int file_remove(const char *path, struct err *e) MUST_CHECK;
/* mkdir -p. */
int file_make_dirs(const char *path, unsigned mode, struct err *e) MUST_CHECK;
