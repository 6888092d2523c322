/* SPDX-License-Identifier: Apache-2.0 */
#include "nodeagent/commands/runtime_install.h"

#include <errno.h>
#include <limits.h>
#include <string.h>
#include <unistd.h>

#include "base/xalloc.h"

#include "nodeagent/commands/host_copy.h"

enum { PROGRAM_MODE = 0755 };

int runtime_beside_us(const char *program, char **ret, struct err *e)
{
    char own[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", own, sizeof(own) - 1);
    const char *slash = n > 0 ? memrchr(own, '/', (size_t)n) : NULL;
    if (!slash)
        return err_set_errno(e, errno, "our own program");
    *ret = xasprintf("%.*s/%s", (int)(slash - own), own, program);
    return 0;
}

int runtime_install(const char *program, const char *folder, struct err *e)
{
    return host_copy(program, folder, PROGRAM_MODE, e);
}
