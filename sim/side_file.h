/* SPDX-License-Identifier: Apache-2.0 */
/* Files of the simulator that lie beside the state's, "<state>.cuda" say, and are mapped by every
 * process that uses them. Zeros are their empty content. */
#pragma once

#include <stddef.h>

/* Opens the file at a path, making it where there is none; every process may write to it. NULL: one
 * of this process alone. Its descriptor, or -1 with errno. */
int side_file_open(const char *path);

/* Maps that many bytes of it, and makes it that long; NULL with errno. */
void *side_file_map(int fd, size_t bytes);
