/* SPDX-License-Identifier: Apache-2.0 */
#include "nodeagent/vendor/nvidia/nvml_session.h"

/*
 * Limits of a cgroup's memory on a card, which drivers from 615 on have. Only the hard limit is set.
 * A soft one would be added to those of all cgroups above, by the driver, and stay there when the
 * cgroup is removed without having been cleared, as the kubelet does (NVIDIA, MPS v3 Memory
 * Partitioning, "Ancestor reservation propagation").
 */

/* NOT_SUPPORTED is also the answer where no limit was ever set ("misc"). */
static int check(struct nvml *n, const char *call, nvml_ret rc, struct err *e)
{
    int ret = nvml_check(n, call, rc, e);
    if (e && (rc == NVML_FUNCTION_NOT_FOUND || rc == NVML_NOT_SUPPORTED))
        e->reason = GPU_LIMITS_UNSUPPORTED;
    if (e && rc == NVML_NOT_FOUND)
        e->reason = GPU_CGROUP_NOT_FOUND;
    return ret;
}

int nvml_op_limit_set(struct gpu *g, const char *uuid, const char *cgroup, uint64_t hard_bytes,
                      struct err *e)
{
    struct nvml *n = (struct nvml *)g;
    auto_nvml_turn struct nvml_turn t = {.n = n};
    struct nvml_limits_set limits = {.nameSpace = cgroup, .hardLimit = hard_bytes};
    TRY(nvml_turn_begin(&t, n, uuid, e));
    return check(n, nvml_names.limits_set, NVML_CALL(n, limits_set, t.facts->device, &limits), e);
}

int nvml_op_limit_get(struct gpu *g, const char *uuid, const char *cgroup, struct gpu_limit *ret,
                      struct err *e)
{
    struct nvml *n = (struct nvml *)g;
    auto_nvml_turn struct nvml_turn t = {.n = n};
    struct nvml_limits_get limits = {.nameSpace = cgroup};
    TRY(nvml_turn_begin(&t, n, uuid, e));
    TRY(check(n, nvml_names.limits_get, NVML_CALL(n, limits_get, t.facts->device, &limits), e));
    *ret = (struct gpu_limit){limits.softLimit, limits.hardLimit};
    return 0;
}
