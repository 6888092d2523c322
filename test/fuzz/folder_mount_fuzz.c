/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <stdint.h>
#include <string.h>

#include "base/auto.h"
#include "base/xalloc.h"

#include "nodeagent/audit/folder_mount.h"
#include "nodeagent/container/slot_pool.h"

/*
 * Input: /proc/<pid>/mountinfo of some process, which may mount what it likes. What it shows is the
 * folder of a share or none, and of mounts of other file systems alone none. The same text as the
 * agent's own tells of a path that ends as the one asked for.
 */
#define OWN    "26 25 0:23 / /run rw - tmpfs tmpfs rw\n"
#define FOLDER "/run/cleave/shares"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static void check_container(const struct folder_mount *root, const char *text)
{
    int slot = folder_mount_slot(root, text);
    assert(slot == -1 || (slot >= 0 && slot < SLOT_MAX && slot_is_share((unsigned)slot)));
    if (!strstr(text, "0:23") && !strchr(text, '\\'))
        assert(slot == -1);
}

static void check_own(const char *text)
{
    auto_folder_mount struct folder_mount at = {0};
    if (folder_mount_parse(text, FOLDER, &at, /* e= */ NULL) < 0)
        return;
    assert(at.device && at.path);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    auto_folder_mount struct folder_mount root = {0};
    auto_free char *text = xstrndup((const char *)data, len);
    int rc = folder_mount_parse(OWN, FOLDER, &root, /* e= */ NULL);
    assert(rc == 0);
    check_container(&root, text);
    check_own(text);
    return 0;
}
