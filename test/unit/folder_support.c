/* SPDX-License-Identifier: Apache-2.0 */
#include "folder_support.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/xalloc.h"

static char *entered;

char *folder_make(void)
{
    const char *above = getenv("TMPDIR");
    char *path = xasprintf("%s/cleave-test-XXXXXX", above && *above ? above : "/tmp");
    cr_assert_not_null(mkdtemp(path), "%s", path);
    return path;
}

void folder_remove(const char *path)
{
    auto_free char *command = xasprintf("rm -rf '%s'", path);
    cr_expect_eq(system(command), 0, "%s", command); /* NOLINT(cert-env33-c): our own folder */
}

void folder_enter(void)
{
    entered = folder_make();
    cr_assert_eq(chdir(entered), 0);
}

void folder_leave(void)
{
    folder_remove(entered);
    free(TAKE(entered));
}

const char *folder_path(void)
{
    return entered;
}
