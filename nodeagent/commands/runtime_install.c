/* SPDX-License-Identifier: Apache-2.0 */
#include "nodeagent/commands/runtime_install.h"

#include <errno.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/file.h"
#include "base/xalloc.h"

enum { PROGRAM_BYTES = 16 << 20 };

static int beside_us(const char *program, char **ret, struct err *e)
{
    char own[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", own, sizeof(own) - 1);
    const char *slash = n > 0 ? memrchr(own, '/', (size_t)n) : NULL;
    if (!slash)
        return err_set_errno(e, errno, "our own program");
    *ret = xasprintf("%.*s/%s", (int)(slash - own), own, program);
    return 0;
}

static bool is_there(const char *path, const char *text, size_t len)
{
    struct stat st;
    auto_free char *old = NULL;
    size_t old_len = 0;
    return stat(path, &st) == 0 && (st.st_mode & 07777U) == 0755 &&
           file_read(path, PROGRAM_BYTES, &old, &old_len, /* e= */ NULL) == 0 && old_len == len &&
           memcmp(old, text, len) == 0;
}

int runtime_install(const char *program, const char *folder, struct err *e)
{
    auto_free char *from = NULL;
    auto_free char *text = NULL;
    size_t len = 0;
    auto_free char *to = xasprintf("%s/%s", folder, program);
    TRY(beside_us(program, &from, e));
    TRY(file_read(from, PROGRAM_BYTES, &text, &len, e));
    return is_there(to, text, len) ? 0 : file_write_atomic(to, text, len, 0755, e);
}
