/* SPDX-License-Identifier: Apache-2.0 */
#include "nodeagent/consumers.h"

#include <assert.h>
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base/auto.h"
#include "base/file.h"
#include "base/xalloc.h"

/* cgroup paths are bounded by PATH_MAX; cgroup v1 has a dozen lines of them. */
#define MAX_CGROUP_BYTES ((size_t)64 * 1024)
/* A UUID, or the 32 hex digits of a static pod's hash. */
#define MIN_UID_LEN   32
#define MAX_UID_LEN   36
#define CONTAINER_LEN 64

static bool is_uid_char(char c)
{
    return isxdigit((unsigned char)c) || c == '-' || c == '_';
}

/* Length of the pod UID that s begins with, 0 when it is none. */
static size_t uid_length(const char *s)
{
    size_t n = 0;
    while (is_uid_char(s[n]))
        n++;
    bool ends = s[n] == '\0' || s[n] == '/' || s[n] == '.' || s[n] == ':';
    return ends && n >= MIN_UID_LEN && n <= MAX_UID_LEN ? n : 0;
}

/* The UID behind "pod" in a path below kubepods. NULL: none. */
static const char *find_uid(const char *path)
{
    const char *below = strstr(path, "kubepods");
    if (!below)
        return NULL;
    below += strlen("kubepods");
    for (const char *p = strstr(below, "pod"); p; p = strstr(p + 1, "pod"))
        if ((p[-1] == '/' || p[-1] == '-') && uid_length(p + 3) > 0)
            return p + 3;
    return NULL;
}

static void copy_uid(const char *from, size_t len, char *ret)
{
    for (size_t i = 0; i < len; i++)
        ret[i] = from[i] == '_' ? '-' : from[i];
    ret[len] = '\0';
}

/* The first 64 hex digits behind the pod: "…/<id>", "…/cri-containerd-<id>.scope", "…:<id>". */
static void copy_container(const char *path, char *ret)
{
    size_t run = 0;
    for (size_t i = 0; path[i]; i++) {
        run = isxdigit((unsigned char)path[i]) ? run + 1 : 0;
        if (run == CONTAINER_LEN && !isxdigit((unsigned char)path[i + 1])) {
            memcpy(ret, path + i + 1 - CONTAINER_LEN, CONTAINER_LEN);
            ret[CONTAINER_LEN] = '\0';
            return;
        }
    }
}

static bool parse_line(const char *line, struct consumer *ret)
{
    const char *uid = find_uid(line);
    if (!uid)
        return false;
    size_t len = uid_length(uid);
    *ret = (struct consumer){0};
    copy_uid(uid, len, ret->pod_uid);
    copy_container(uid + len, ret->container_id);
    return true;
}

bool consumer_parse_cgroup(const char *text, struct consumer *ret)
{
    assert(text && ret);
    while (*text) {
        size_t len = strcspn(text, "\n");
        auto_free char *line = xstrndup(text, len);
        if (parse_line(line, ret))
            return true;
        text += len + (text[len] == '\n');
    }
    return false;
}

int consumer_of_pid(const char *proc_root, unsigned pid, struct consumer *ret, struct err *e)
{
    auto_free char *path = xasprintf("%s/%u/cgroup", proc_root ? proc_root : "/proc", pid);
    auto_free char *text = NULL;
    TRY(file_read(path, MAX_CGROUP_BYTES, &text, NULL, e));
    if (!consumer_parse_cgroup(text, ret))
        return err_set(e, ERR_NOT_FOUND, "process %u is in no pod", pid);
    return 0;
}
