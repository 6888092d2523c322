/* SPDX-License-Identifier: Apache-2.0 */
#include "nodeagent/vendor/nvidia/nvml_session.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/xalloc.h"

#include "nodeagent/gpu/sound.h"
#include "nodeagent/vendor/nvidia/nvml_open.h"

/* The pause before a new session is tried for a card that stays lost. */
#define LOST_RETRY_MS 60000

/* A lost card is tried with a new session, but not at once again. */
static bool tries_lost_card(struct nvml *n)
{
    int64_t now = clock_mono_ms(n->clock);
    if (now < atomic_load(&n->lost_until_mono_ms))
        return false;
    atomic_store(&n->lost_until_mono_ms, now + LOST_RETRY_MS);
    return true;
}

/* After these return codes no handle of the session can be trusted. */
static bool ends_session(nvml_ret rc)
{
    return rc == NVML_UNINITIALIZED || rc == NVML_DRIVER_NOT_LOADED ||
           rc == NVML_LIB_RM_VERSION_MISMATCH;
}

int nvml_check(struct nvml *n, const char *call, nvml_ret rc, struct err *e)
{
    if (rc == NVML_SUCCESS)
        return 0;
    if (ends_session(rc))
        atomic_store(&n->stale, true);
    if (rc == NVML_GPU_IS_LOST && tries_lost_card(n))
        atomic_store(&n->worn, true);
    if (rc == NVML_LIB_RM_VERSION_MISMATCH)
        atomic_store(&n->outdated, true);
    return nvml_lib_error(&n->lib, call, rc, e);
}

/* Cards are learned anew in the next session, because its number is another. */
static void end_session(void *arg)
{
    struct nvml *n = arg;
    nvml_measures_forget(n);
    if (atomic_load(&n->open))
        (void)NVML_CALL(n, shutdown);
    atomic_store(&n->open, false);
    atomic_store(&n->stale, false);
    atomic_store(&n->worn, false);
}

bool nvml_is_told(nvml_ret rc)
{
    return rc == NVML_SUCCESS || rc == NVML_NOT_SUPPORTED || rc == NVML_FUNCTION_NOT_FOUND;
}

/* "12.8" from 12080. Versions are for people, so a missing one is no error. */
static void read_versions(struct nvml *n)
{
    int version = 0;
    char cuda[sizeof(n->cuda)] = "";
    char driver[sizeof(n->driver)] = "";
    nvml_ret of_driver = NVML_CALL(n, driver_version, driver, sizeof(driver));
    sound_text(driver, sizeof(driver));
    nvml_ret of_cuda = NVML_CALL(n, cuda_version, &version);
    if (of_cuda == NVML_SUCCESS && version > 0)
        (void)snprintf(cuda, sizeof(cuda), "%d.%d", version / 1000, version % 1000 / 10);
    HOLD(&n->holds.mu);
    if (of_driver == NVML_SUCCESS)
        memcpy(n->driver, driver, sizeof(driver));
    if (*cuda)
        memcpy(n->cuda, cuda, sizeof(cuda));
    n->versions_told = nvml_is_told(of_driver) && nvml_is_told(of_cuda);
}

static void forget_versions(struct nvml *n)
{
    HOLD(&n->holds.mu);
    n->driver[0] = n->cuda[0] = '\0';
    n->versions_told = false;
}

static int open_session(void *arg, struct err *e)
{
    struct nvml *n = arg;
    end_session(n);
    if (atomic_load(&n->outdated))
        nvml_lib_close(&n->lib); /* its path then leads to the library that the upgrade installed */
    atomic_store(&n->outdated, false);
    if (!n->lib.dl)
        TRY(nvml_lib_open(n->library, &n->lib, e));
    TRY(NVML_DO(n, e, init));
    n->session++;
    forget_versions(n);
    atomic_store(&n->open, true);
    return 0;
}

static enum lib_session session_state(const void *arg)
{
    const struct nvml *n = arg;
    if (!atomic_load(&n->open) || atomic_load(&n->stale))
        return LIB_SESSION_NONE;
    return atomic_load(&n->worn) ? LIB_SESSION_WORN : LIB_SESSION_READY;
}

static bool knows_versions(struct nvml *n)
{
    HOLD(&n->holds.mu);
    return n->versions_told;
}

int nvml_session_enter(struct nvml *n, struct lib_pass *p, bool *ret_closed, struct err *e)
{
    TRY(lib_gate_enter_unless_reset(n->gate, p, ret_closed, e));
    if (p->gate && !knows_versions(n))
        read_versions(n);
    return 0;
}

int nvml_turn_begin(struct nvml_turn *t, struct nvml *n, const char *uuid, struct err *e)
{
    assert(!t->facts && !t->pass.gate);
    t->n = n;
    TRY(nvml_session_enter(n, &t->pass, /* ret_closed= */ NULL, e));
    return nvml_facts_get(n, uuid, &t->facts, e);
}

int nvml_turn_begin_reset(struct nvml_turn *t, struct nvml *n, const char *uuid,
                          char ret_bus_id[GPU_BUS_ID_BYTES], struct err *e)
{
    t->n = n;
    TRY(nvml_facts_take(n, uuid, &t->facts, e));
    if (!t->facts || t->facts->learned != n->session || atomic_load(&n->stale)) {
        nvml_turn_end(t);
        TRY(nvml_turn_begin(t, n, uuid, e));
        lib_gate_leave(&t->pass);
    }
    assert(t->facts && !t->pass.gate); /* in hand, and outside of the library */
    (void)snprintf(ret_bus_id, GPU_BUS_ID_BYTES, "%s", t->facts->card.pci_bus_id);
    return 0;
}

void nvml_turn_end(struct nvml_turn *t)
{
    if (t->facts)
        nvml_facts_give(t->n, TAKE(t->facts));
    lib_gate_leave(&t->pass);
}

static struct gpu *nvml_free(struct gpu *g)
{
    struct nvml *n = (struct nvml *)g;
    end_session(n);
    n->gate = lib_gate_free(n->gate);
    lib_holds_done(&n->holds);
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
    .limit_set = nvml_op_limit_set,
    .limit_get = nvml_op_limit_get,
    .measure = nvml_op_measure,
    .free = nvml_free,
};

static struct lib_gate *make_gate(struct nvml *n)
{
    const struct lib_gate_session session = {.vendor = "NVIDIA",
                                             .state = session_state,
                                             .open = open_session,
                                             .end = end_session,
                                             .arg = n};
    return lib_gate_new(&session, /* limits= */ NULL);
}

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
    n->gate = make_gate(n);
    lib_holds_init(&n->holds);
    *ret = &n->gpu;
    return 0;
}
