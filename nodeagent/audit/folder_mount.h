/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/auto.h"
#include "base/err.h"

/*
 * Finds the folder of shares (slots/share_folder.h) that a process has mounted, by its
 * /proc/<pid>/mountinfo: which container a process is of is not in its cgroup's name, where the
 * runtime's number of the container stands. A container mounts what it may, but no other container's
 * folder. Pure, but for folder_mount_find.
 */

/* Where the root of the folders lies in its file system. Owned: folder_mount_done. */
struct folder_mount {
    char *device; /* the file system, "0:23" */
    char *path;   /* in it */
};

/* The same of an absolute path, by the mountinfo of a process that sees it. ERR_NOT_FOUND. */
int folder_mount_parse(const char *mountinfo, const char *path, struct folder_mount *ret,
                       struct err *e) MUST_CHECK;
/* By the agent's own. ERR_SYSTEM, too. */
int folder_mount_find(const char *path, struct folder_mount *ret, struct err *e) MUST_CHECK;
void folder_mount_done(struct folder_mount *m);
AUTO_DEFINE(folder_mount, struct folder_mount, folder_mount_done)
#define auto_folder_mount AUTO(folder_mount)

/* The slot whose folder a process with this mountinfo has where containers have theirs
 * (REGION_FOLDER); -1: none. */
int folder_mount_slot(const struct folder_mount *root, const char *mountinfo);
