/* SPDX-License-Identifier: Apache-2.0 */
/* NVML: limits of a card's memory for cgroups. Contracts are NVML's own. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/memory_limits.h"
#include "sim/nvml_calls.h"
#include "sim/nvml_session.h"
#include "sim/proc_files.h"

#define MIB 1048576ULL

_Static_assert(NVML_DEVICE_MEMORY_LIMIT_MAX == LIMITS_MAX, "the same word for no limit");

nvmlReturn_t nvmlDeviceSetMemoryLimits_v1(nvmlDevice_t device, nvmlSetMemoryLimits_v1_t *limits)
{
    struct call c = {.id = CALL_nvmlDeviceSetMemoryLimits_v1};
    const char *path = limits != NULL ? limits->nameSpace : NULL;
    const char *name = path != NULL ? strrchr(path, '/') : NULL;
    if (path != NULL)
        call_args(&c, "soft=%llu hard=%llu %s", limits->softLimit, limits->hardLimit,
                  name != NULL ? name + 1 : path);
    int rc = call_enter(&c, device, ON_WHOLE);
    if (rc == NVML_SUCCESS && path == NULL)
        rc = NVML_ERROR_INVALID_ARGUMENT;
    if (rc == NVML_SUCCESS)
        rc = limits_set(c.hw, c.gpu_index, path,
                        &(const struct limits){limits->softLimit, limits->hardLimit});
    return call_leave(&c, rc);
}

/* The cgroup of a process, as its /proc tells; "" when it does not. */
static void cgroup_of(uint32_t pid, char *ret, size_t size)
{
    char path[4096];
    const char *root = proc_root();
    ret[0] = '\0';
    (void)snprintf(path, sizeof(path), "%s/%u/cgroup", root != NULL ? root : "/proc", pid);
    FILE *in = fopen(path, "re");
    while (in != NULL && fgets(path, (int)sizeof(path), in) != NULL) {
        if (strncmp(path, "0::/", 4) == 0)
            (void)snprintf(ret, size, "%.*s", (int)strcspn(path + 3, "\n"), path + 3);
    }
    if (in != NULL)
        (void)fclose(in);
}

/* True when the folder is the cgroup's or one above it. Where cgroups are mounted is not known, so
 * the folder's path ends with the cgroup's, or with a part of it from its beginning on. */
static bool is_within(const char *cgroup, const char *folder)
{
    size_t length = strlen(folder);
    for (size_t end = strlen(cgroup); end > 1;) {
        if (end <= length && strncmp(folder + length - end, cgroup, end) == 0)
            return true;
        while (--end > 1 && cgroup[end] != '/')
            continue;
    }
    return false;
}

static unsigned long long used_within(const struct call *c, const char *folder)
{
    char cgroup[1024];
    unsigned long long sum = 0;
    for (size_t i = 0; i < c->hw->proc_reach; i++) {
        const struct hw_proc *p = &c->hw->procs[i];
        if (p->pid == 0 || p->kind == PROC_HIDDEN || p->gpu != c->gpu_index)
            continue;
        cgroup_of(p->pid, cgroup, sizeof(cgroup));
        if (is_within(cgroup, folder))
            sum += p->memory_mib * MIB;
    }
    return sum;
}

nvmlReturn_t nvmlDeviceGetMemoryLimits_v1(nvmlDevice_t device, nvmlGetMemoryLimits_v1_t *limits)
{
    struct call c = {.id = CALL_nvmlDeviceGetMemoryLimits_v1};
    struct limits found = {0};
    int rc = call_enter(&c, device, ON_WHOLE);
    if (rc == NVML_SUCCESS && (limits == NULL || limits->nameSpace == NULL))
        rc = NVML_ERROR_INVALID_ARGUMENT;
    if (rc == NVML_SUCCESS)
        rc = limits_get(c.hw, c.gpu_index, limits->nameSpace, &found);
    if (rc == NVML_SUCCESS) {
        limits->softLimit = found.soft;
        limits->hardLimit = found.hard;
        limits->currentUsed = used_within(&c, limits->nameSpace);
    }
    return call_leave(&c, rc);
}
