/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/memory_limits.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "sim/nvml.h"

/* The folder that now has the name. Its time of birth tells it from one before with the same
 * number. */
static bool identify(const char *path, struct hw_limit *ret)
{
    struct statx st;
    if (statx(AT_FDCWD, path, 0, STATX_TYPE | STATX_INO | STATX_BTIME, &st) < 0 ||
        !S_ISDIR(st.stx_mode))
        return false;
    ret->device = makedev(st.stx_dev_major, st.stx_dev_minor);
    ret->inode = st.stx_ino;
    ret->born_ns = st.stx_btime.tv_sec * INT64_C(1000000000) + st.stx_btime.tv_nsec;
    return true;
}

static bool same_folder(const struct hw_limit *a, const struct hw_limit *b)
{
    return a->device == b->device && a->inode == b->inode && a->born_ns == b->born_ns;
}

bool limits_holds(const struct hw_limit *l)
{
    struct hw_limit now = {0};
    return l->used && identify(l->path, &now) && same_folder(l, &now);
}

static bool has_file(const char *folder, const char *name)
{
    char path[PATH_MAX + 32];
    struct stat st;
    (void)snprintf(path, sizeof(path), "%s/%s", folder, name);
    return stat(path, &st) == 0;
}

/* The entry of the folder; NULL: it has none. */
static struct hw_limit *find(struct hw *hw, uint32_t gpu, const struct hw_limit *folder)
{
    for (size_t i = 0; i < HW_MAX_LIMITS; i++) {
        struct hw_limit *l = &hw->limits[i];
        if (l->used && l->gpu == gpu && same_folder(l, folder))
            return l;
    }
    return NULL;
}

/* An entry that no limit needs any more. */
static struct hw_limit *spare(struct hw *hw)
{
    for (size_t i = 0; i < HW_MAX_LIMITS; i++)
        if (!limits_holds(&hw->limits[i]))
            return &hw->limits[i];
    return NULL;
}

/* What both calls refuse. Assumed: MIG on the card is refused as a MIG device is. */
static int judge(const struct hw *hw, uint32_t gpu, const char *path, struct hw_limit *ret_folder)
{
    if (hw->memory_limits == LIMITS_NONE)
        return NVML_ERROR_FUNCTION_NOT_FOUND;
    if (path[0] != '/' || strlen(path) >= PATH_MAX)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (hw->memory_limits == LIMITS_OFF || hw->gpus[gpu].mig_current)
        return NVML_ERROR_NOT_SUPPORTED;
    if (!identify(path, ret_folder))
        return NVML_ERROR_NOT_FOUND;
    return has_file(path, "cgroup.controllers") ? NVML_SUCCESS : NVML_ERROR_NOT_SUPPORTED;
}

static bool clears(const struct limits *l)
{
    return l->soft == 0 && l->hard == LIMITS_MAX;
}

int limits_set(struct hw *hw, uint32_t gpu, const char *path, const struct limits *limits)
{
    struct hw_limit folder = {.used = 1, .gpu = gpu, .soft = limits->soft, .hard = limits->hard};
    int rc = judge(hw, gpu, path, &folder);
    if (rc != NVML_SUCCESS)
        return rc;
    if (limits->soft > limits->hard || strlen(path) >= sizeof(folder.path))
        return NVML_ERROR_INVALID_ARGUMENT;
    if (hw->memory_limits == LIMITS_DMEM && !has_file(path, "dmem.max"))
        return NVML_ERROR_NOT_FOUND;
    (void)snprintf(folder.path, sizeof(folder.path), "%s", path);
    struct hw_limit *l = find(hw, gpu, &folder);
    if (clears(limits)) {
        if (l != NULL)
            *l = (struct hw_limit){0};
        return NVML_SUCCESS;
    }
    if (l == NULL)
        l = spare(hw);
    if (l == NULL)
        return NVML_ERROR_INSUFFICIENT_RESOURCES;
    *l = folder;
    return NVML_SUCCESS;
}

/* True when the folder's own limit is the one that counts, where it has one or may have one. */
static bool decides(const struct hw *hw, const char *path, const struct hw_limit *own)
{
    return hw->memory_limits == LIMITS_DMEM ? has_file(path, "dmem.max") : own != NULL;
}

int limits_get(const struct hw *hw, uint32_t gpu, const char *path, struct limits *ret)
{
    char at[PATH_MAX];
    struct hw_limit folder = {0};
    int rc = judge(hw, gpu, path, &folder);
    if (rc != NVML_SUCCESS)
        return rc;
    (void)snprintf(at, sizeof(at), "%s", path);
    while (identify(at, &folder)) {
        /* Only read through. */
        const struct hw_limit *own = find((struct hw *)(uintptr_t)hw, gpu, &folder);
        if (decides(hw, at, own)) {
            *ret = own != NULL ? (struct limits){own->soft, own->hard}
                               : (struct limits){0, LIMITS_MAX};
            return NVML_SUCCESS;
        }
        char *slash = strrchr(at, '/');
        if (slash == NULL || slash == at)
            break;
        *slash = '\0';
    }
    return hw->memory_limits == LIMITS_DMEM ? NVML_ERROR_NOT_FOUND : NVML_ERROR_NOT_SUPPORTED;
}
