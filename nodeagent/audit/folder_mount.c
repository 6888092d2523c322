/* SPDX-License-Identifier: Apache-2.0 */
#include "nodeagent/audit/folder_mount.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/xalloc.h"

#include "limiter/region.h"
#include "nodeagent/container/slot_pool.h"

enum { MAX_MOUNTINFO_BYTES = 4 << 20 };

/* A line of mountinfo (proc(5)): "36 35 98:0 /mnt1 /mnt2 rw,noatime …". */
struct mount {
    char *device, *root, *point; /* owned */
};

static void mount_done(struct mount *m)
{
    free(m->device);
    free(m->root);
    free(m->point);
}
AUTO_DEFINE(mount, struct mount, mount_done)

static bool is_octal(const char *s, size_t n)
{
    return strspn(s, "01234567") >= n;
}

/* Blanks, tabs, line ends and backslashes of a path are written as "\040". */
static char *unescaped(const char *from, size_t len)
{
    char *path = xmalloc(len + 1);
    size_t n = 0;
    for (size_t i = 0; i < len; i++) {
        if (from[i] == '\\' && i + 3 < len && is_octal(from + i + 1, 3)) {
            path[n++] =
                (char)((from[i + 1] - '0') * 64 + (from[i + 2] - '0') * 8 + (from[i + 3] - '0'));
            i += 3;
        } else {
            path[n++] = from[i];
        }
    }
    path[n] = '\0';
    return path;
}

/* Takes the next word of the line off; NULL: there is none. Caller frees. */
static char *next_word(const char **at)
{
    size_t len = strcspn(*at, " \n");
    if (!len)
        return NULL;
    char *word = unescaped(*at, len);
    *at += len + ((*at)[len] == ' ');
    return word;
}

/* ret is empty before. */
static bool parse_line(const char *line, struct mount *ret)
{
    auto_free char *id = next_word(&line);
    auto_free char *parent = next_word(&line);
    ret->device = next_word(&line);
    ret->root = next_word(&line);
    ret->point = next_word(&line);
    return id && parent && ret->point;
}

static const char *next_line(const char *line)
{
    const char *end = strchr(line, '\n');
    return end ? end + 1 : "";
}

/* What follows the folder in the path: "" or "/…"; NULL: it is not below it. */
static const char *rest_below(const char *folder, const char *path)
{
    size_t len = strcmp(folder, "/") == 0 ? 0 : strlen(folder);
    return strncmp(path, folder, len) == 0 && (path[len] == '/' || !path[len]) ? path + len : NULL;
}

/* --- The agent's own --- */

/* Where the path would lie, if it lies on this mount; NULL: it does not. Caller frees. */
static char *path_on(const struct mount *m, const char *path)
{
    const char *rest = rest_below(m->point, path);
    if (!rest)
        return NULL;
    return xasprintf("%s%s", strcmp(m->root, "/") == 0 ? "" : m->root, rest);
}

/* Of several mounts the path lies on the one that is nearest to it, and was made last. */
int folder_mount_parse(const char *mountinfo, const char *path, struct folder_mount *ret,
                       struct err *e)
{
    auto_folder_mount struct folder_mount found = {0};
    size_t nearest = 0;
    for (const char *line = mountinfo; *line; line = next_line(line)) {
        AUTO(mount) struct mount m = {0};
        if (!parse_line(line, &m) || strlen(m.point) < nearest)
            continue;
        char *at = path_on(&m, path);
        if (!at)
            continue;
        nearest = strlen(m.point);
        folder_mount_done(&found);
        found = (struct folder_mount){TAKE(m.device), at};
    }
    if (!found.path)
        return err_set(e, ERR_NOT_FOUND, "no mount has folder %s", path);
    *ret = found;
    found = (struct folder_mount){0};
    return 0;
}

int folder_mount_find(const char *path, struct folder_mount *ret, struct err *e)
{
    auto_free char *text = NULL;
    auto_free char *real = realpath(path, NULL);
    TRY(file_read("/proc/self/mountinfo", MAX_MOUNTINFO_BYTES, &text, NULL, e));
    return folder_mount_parse(text, real ? real : path, ret, e);
}

void folder_mount_done(struct folder_mount *m)
{
    free(m->device);
    free(m->path);
    *m = (struct folder_mount){0};
}

/* --- A container's --- */

static int slot_on(const struct folder_mount *root, const struct mount *m)
{
    if (strcmp(m->device, root->device) != 0 || strcmp(m->point, REGION_FOLDER) != 0)
        return -1;
    const char *rest = rest_below(root->path, m->root);
    int slot = rest && *rest == '/' ? slot_of_name(rest + 1) : -1;
    return slot >= 0 && slot_is_share((unsigned)slot) ? slot : -1;
}

/* What was mounted last hides the others. */
int folder_mount_slot(const struct folder_mount *root, const char *mountinfo)
{
    int slot = -1;
    for (const char *line = mountinfo; *line; line = next_line(line)) {
        AUTO(mount) struct mount m = {0};
        int here = parse_line(line, &m) ? slot_on(root, &m) : -1;
        if (here >= 0)
            slot = here;
    }
    return slot;
}
