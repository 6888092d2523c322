/* SPDX-License-Identifier: Apache-2.0 */
#include "nodeagent/slots/limiter_files.h"

#include <assert.h>
#include <dirent.h>
#include <string.h>

#include "base/log.h"
#include "base/xalloc.h"

#include "nodeagent/container/fresh_folder.h"

static bool is_version(const char *name)
{
    return strlen(name) == LIMITER_NAME_BYTES - 1 &&
           strspn(name, "0123456789abcdef") == LIMITER_NAME_BYTES - 1;
}

static void remove_version(const char *root, const char *name)
{
    auto_err struct err e = {0};
    auto_free char *path = xasprintf("%s/%s", root, name);
    if (fresh_folder_remove(path, &e) < 0)
        log_warn("Could not remove an old version of the limiter", kv("folder", path), kv_err(&e));
    else
        log_info("Removed an old version of the limiter", kv("folder", path));
}

void limiter_files_sweep(const char *current, const struct cdi_slots *cdi)
{
    const char *name = strrchr(current, '/');
    assert(name && name > current && is_version(name + 1));
    auto_free char *root = xstrndup(current, (size_t)(name - current));
    auto_dir DIR *dir = opendir(root);
    const struct dirent *entry;
    while (dir && (entry = readdir(dir)) != NULL)
        if (is_version(entry->d_name) && strcmp(entry->d_name, name + 1) != 0 &&
            !cdi_slots_mention(cdi, entry->d_name))
            remove_version(root, entry->d_name);
}
