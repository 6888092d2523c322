/* SPDX-License-Identifier: Apache-2.0 */
#include "nodeagent/gpu/nvml_session.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/xalloc.h"

#include "nodeagent/gpu/sound.h"

/* The pause before a new session is tried for a card that stays lost. */
#define LOST_RETRY_MS 60000

/* After these return codes no handle of the session can be trusted. */
static bool ends_session(struct nvml *n, nvml_ret rc)
{
    if (rc == NVML_UNINITIALIZED || rc == NVML_DRIVER_NOT_LOADED ||
        rc == NVML_LIB_RM_VERSION_MISMATCH)
        return true;
    int64_t now = clock_mono_ms(n->clock);
    if (rc != NVML_GPU_IS_LOST || now < n->lost_until_mono_ms)
        return false;
    n->lost_until_mono_ms = now + LOST_RETRY_MS;
    return true;
}

int nvml_check(struct nvml *n, const char *call, nvml_ret rc, struct err *e)
{
    if (rc == NVML_SUCCESS)
        return 0;
    if (ends_session(n, rc))
        n->stale = true;
    if (rc == NVML_LIB_RM_VERSION_MISMATCH)
        n->outdated = true;
    return nvml_lib_error(&n->lib, call, rc, e);
}

static void outdate_cards(struct nvml *n)
{
    for (size_t i = 0; i < n->n_facts; i++)
        n->facts[i]->current = false;
}

void nvml_session_end(struct nvml *n)
{
    if (n->open)
        (void)NVML_CALL(n, shutdown);
    n->open = false;
    n->stale = false;
    outdate_cards(n);
}

bool nvml_is_told(nvml_ret rc)
{
    return rc == NVML_SUCCESS || rc == NVML_NOT_SUPPORTED || rc == NVML_FUNCTION_NOT_FOUND;
}

/* "12.8" from 12080. Versions are for people, so a missing one is no error. */
static void read_versions(struct nvml *n)
{
    int cuda = 0;
    char driver[sizeof(n->driver)] = "";
    nvml_ret of_driver = NVML_CALL(n, driver_version, driver, sizeof(driver));
    sound_text(driver, sizeof(driver));
    if (of_driver == NVML_SUCCESS)
        memcpy(n->driver, driver, sizeof(driver));
    nvml_ret of_cuda = NVML_CALL(n, cuda_version, &cuda);
    if (of_cuda == NVML_SUCCESS && cuda > 0)
        (void)snprintf(n->cuda, sizeof(n->cuda), "%d.%d", cuda / 1000, cuda % 1000 / 10);
    n->versions_told = nvml_is_told(of_driver) && nvml_is_told(of_cuda);
}

static int open_session(struct nvml *n, struct err *e)
{
    nvml_session_end(n);
    if (n->outdated)
        nvml_lib_close(&n->lib); /* its path then leads to the library that the upgrade installed */
    n->outdated = false;
    if (!n->lib.dl)
        TRY(nvml_lib_open(n->library, &n->lib, e));
    TRY(NVML_DO(n, e, init));
    n->open = true;
    n->session++;
    n->driver[0] = n->cuda[0] = '\0';
    n->versions_told = false;
    return 0;
}

int nvml_session_ensure(struct nvml *n, struct err *e)
{
    if (!n->open || n->stale)
        TRY(open_session(n, e));
    if (!n->versions_told)
        read_versions(n);
    return 0;
}

static struct gpu *nvml_free(struct gpu *g)
{
    struct nvml *n = (struct nvml *)g;
    nvml_session_end(n);
    nvml_lib_close(&n->lib);
    for (size_t i = 0; i < n->n_facts; i++)
        free(n->facts[i]);
    gpu_topology_done(&n->topology.pairs);
    free(n->topology.of);
    free(n->library);
    free(n->nvidia_smi);
    free(n->proc_root);
    free(n->sys_root);
    free(n);
    return NULL;
}

static const struct gpu_ops nvml_ops = {
    .read = nvml_op_read,
    .read_card = nvml_op_read_card,
    .mode_set = nvml_op_mode_set,
    .reset = nvml_op_reset,
    .gi_create = nvml_op_gi_create,
    .gi_destroy = nvml_op_gi_destroy,
    .ci_create = nvml_op_ci_create,
    .ci_destroy = nvml_op_ci_destroy,
    .exclusive_set = nvml_op_exclusive_set,
    .free = nvml_free,
};

static char *copy_or(const char *s, const char *fallback)
{
    return xstrdup(s ? s : fallback);
}

int gpu_nvml_open(const struct nvml_options *o, struct gpu **ret, struct err *e)
{
    assert(o && ret);
    (void)e; /* a failure shows at the first use, and may be gone by the next one */
    struct nvml *n = xcalloc(1, sizeof(*n));
    n->gpu.ops = &nvml_ops;
    n->library = xstrdup(o->library);
    n->clock = clock_real();
    n->nvidia_smi = copy_or(o->nvidia_smi, "nvidia-smi");
    n->proc_root = copy_or(o->proc_root, "/proc");
    n->sys_root = copy_or(o->sys_root, "/sys");
    n->watch = o->watch;
    *ret = &n->gpu;
    return 0;
}
