/* SPDX-License-Identifier: Apache-2.0 */
#include "nodeagent/slots/pod_cgroup.h"

#include <ctype.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/xalloc.h"

#define SLICE ".slice"

enum { MAX_UID = 128 };

/* "": guaranteed. */
static const char *const classes[] = {"", "burstable", "besteffort"};

static bool is_folder(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

bool pod_cgroups_are_v2(const char *root)
{
    auto_free char *path = xasprintf("%s/cgroup.controllers", root);
    return access(path, F_OK) == 0;
}

/* "kubelet-" for …/kubelet.slice; "" for a folder that is no slice. Caller frees. */
static char *prefix_of(const char *root)
{
    auto_free char *path = xstrdup(root);
    for (size_t n = strlen(path); n > 1 && path[n - 1] == '/';)
        path[--n] = '\0';
    const char *slash = strrchr(path, '/');
    const char *name = slash ? slash + 1 : path;
    size_t length = strlen(name);
    if (length <= strlen(SLICE) || strcmp(name + length - strlen(SLICE), SLICE) != 0)
        return xstrdup("");
    return xasprintf("%.*s-", (int)(length - strlen(SLICE)), name);
}

/* The folder with pods of a class. Caller frees. */
static char *parent_of(const char *root, const char *class, bool systemd)
{
    auto_free char *prefix = prefix_of(root);
    if (!systemd)
        return xasprintf("%s/kubepods%s%s", root, *class ? "/" : "", class);
    if (!*class)
        return xasprintf("%s/%skubepods" SLICE, root, prefix);
    return xasprintf("%s/%skubepods" SLICE "/%skubepods-%s" SLICE, root, prefix, prefix, class);
}

static char *pod_of(const char *root, const char *class, bool systemd, const char *uid)
{
    auto_free char *parent = parent_of(root, class, systemd);
    if (!systemd)
        return xasprintf("%s/pod%s", parent, uid);
    auto_free char *prefix = prefix_of(root);
    auto_free char *name =
        xasprintf("%skubepods%s%s-pod%s" SLICE, prefix, *class ? "-" : "", class, uid);
    for (char *c = name + strlen(name) - strlen(uid) - strlen(SLICE); *c; c++)
        *c = *c == '-' ? '_' : *c;
    return xasprintf("%s/%s", parent, name);
}

int pod_cgroups_top(const char *root, char **ret, struct err *e)
{
    for (int systemd = 1; systemd >= 0; systemd--) {
        auto_free char *path = parent_of(root, "", systemd);
        if (!is_folder(path))
            continue;
        *ret = TAKE(path);
        return 0;
    }
    return err_set(e, ERR_NOT_FOUND, "the kubelet has no cgroup for pods below %s", root);
}

void pod_cgroups_parents(const char *root, char ***ret, size_t *ret_n)
{
    *ret = NULL;
    *ret_n = 0;
    for (int systemd = 1; systemd >= 0; systemd--)
        for (size_t i = 0; i < ARRAY_LEN(classes); i++) {
            auto_free char *path = parent_of(root, classes[i], systemd);
            if (is_folder(path))
                *XPUSH(*ret, *ret_n) = TAKE(path);
        }
}

/* It becomes part of a path. */
static bool is_uid(const char *uid)
{
    size_t length = strlen(uid);
    for (const char *c = uid; *c; c++)
        if (!isalnum((unsigned char)*c) && *c != '-' && *c != '_')
            return false;
    return length > 0 && length <= MAX_UID;
}

int pod_cgroup_find(const char *root, const char *uid, char **ret, struct err *e)
{
    if (!is_uid(uid))
        return err_set(e, ERR_INVALID, "\"%.*s\" is no pod's uid", MAX_UID, uid);
    for (int systemd = 1; systemd >= 0; systemd--)
        for (size_t i = 0; i < ARRAY_LEN(classes); i++) {
            auto_free char *path = pod_of(root, classes[i], systemd, uid);
            if (strlen(path) >= PATH_MAX)
                return err_set(e, ERR_INVALID,
                               "the path of a pod's cgroup below %.80s… is too long", root);
            if (!is_folder(path))
                continue;
            *ret = TAKE(path);
            return 0;
        }
    return err_set(e, ERR_NOT_FOUND, "the kubelet has made no cgroup for the pod below %s", root);
}

char *pod_cgroup_uid(const char *folder)
{
    const char *slash = strrchr(folder, '/');
    const char *name = slash ? slash + 1 : folder;
    size_t length = strlen(name);
    bool systemd = length > strlen(SLICE) && strcmp(name + length - strlen(SLICE), SLICE) == 0;
    const char *dash = systemd ? strrchr(name, '-') : NULL;
    const char *from = systemd ? (dash ? dash + 1 : "") : name;
    if (strncmp(from, "pod", 3) != 0)
        return NULL;
    auto_free char *uid = xstrndup(from + 3, strcspn(from + 3, "."));
    for (char *c = uid; systemd && *c; c++)
        *c = *c == '_' ? '-' : *c;
    return is_uid(uid) ? TAKE(uid) : NULL;
}
