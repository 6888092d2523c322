/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "nodeagent/gpu/gpu_watch.h"
#include "nodeagent/vendor/nvidia/nvidia_smi.h"
#include "nodeagent/vendor/nvidia/nvml_session.h"

/* A reset takes seconds; after this time the card or the tool hangs. */
#define RESET_TIMEOUT_MS 120000

static const char *mode_word(enum gpu_mode mode)
{
    return mode == GPU_MIG ? "on" : "off";
}

static int in_use(struct err *e, const char *call, enum gpu_mode mode)
{
    int rc = err_set(e, ERR_UNAVAILABLE, "%s: the card is in use, MIG cannot be switched %s", call,
                     mode_word(mode));
    if (e)
        e->reason = "InUse";
    return rc;
}

/* The card's reading decides; activationStatus says why the mode may differ. On Ampere the driver
 * itself tries to reset an idle card, and IN_USE means that it could not: the mode is pending all
 * the same. */
static int judge_mode(struct nvml *n, struct nvml_facts *f, enum gpu_mode mode, nvml_ret activation,
                      enum gpu_mode_result *ret, struct err *e)
{
    unsigned current = 0;
    unsigned pending = 0;
    unsigned wanted = mode == GPU_MIG ? NVML_MIG_ENABLE : NVML_MIG_DISABLE;
    TRY(NVML_DO(n, e, mig_mode, f->device, &current, &pending));
    bool may_pend = f->card.mode_needs_reset || activation == NVML_RESET_REQUIRED;
    if (current == wanted && pending == wanted) {
        *ret = GPU_MODE_DONE;
        return 0;
    }
    if (pending == wanted && may_pend) {
        *ret = GPU_MODE_NEEDS_RESET;
        return 0;
    }
    if (activation == NVML_IN_USE)
        return in_use(e, nvml_names.set_mig_mode, mode);
    if (activation != NVML_SUCCESS)
        return nvml_check(n, nvml_names.set_mig_mode, activation, e);
    return err_set(e, ERR_UNAVAILABLE, "%s succeeded but MIG is not %s", nvml_names.set_mig_mode,
                   mode_word(mode));
}

int nvml_op_mode_set(struct gpu *g, const char *uuid, enum gpu_mode mode, enum gpu_mode_result *ret,
                     struct err *e)
{
    struct nvml *n = (struct nvml *)g;
    auto_nvml_turn struct nvml_turn t = {.n = n};
    nvml_ret activation = NVML_SUCCESS;
    unsigned wanted = mode == GPU_MIG ? NVML_MIG_ENABLE : NVML_MIG_DISABLE;
    TRY(nvml_turn_begin(&t, n, uuid, e));
    if (mode != GPU_MIG && mode != GPU_NATIVE)
        return err_set(e, ERR_INVALID, "cards of NVIDIA have no sGPU");
    TRY(NVML_DO(n, e, set_mig_mode, t.facts->device, wanted, &activation));
    return judge_mode(n, t.facts, mode, activation, ret, e);
}

int nvml_op_exclusive_set(struct gpu *g, const char *uuid, bool on, struct err *e)
{
    struct nvml *n = (struct nvml *)g;
    auto_nvml_turn struct nvml_turn t = {.n = n};
    TRY(nvml_turn_begin(&t, n, uuid, e));
    return NVML_DO(n, e, set_compute_mode, t.facts->device,
                   on ? NVML_COMPUTE_EXCLUSIVE_PROCESS : NVML_COMPUTE_DEFAULT);
}

/* The agent's own sessions would count as clients of the card, so they end first. The card stays in
 * hand meanwhile. */
int nvml_op_reset(struct gpu *g, const char *uuid, struct err *e)
{
    struct nvml *n = (struct nvml *)g;
    auto_nvml_turn struct nvml_turn t = {.n = n};
    char bus_id[GPU_BUS_ID_BYTES];
    TRY(nvml_turn_begin_reset(&t, n, uuid, bus_id, e));
    TRY(lib_gate_enter_reset(n->gate, &t.pass, e));
    gpu_call_begin("nvidia-smi --gpu-reset");
    gpu_watch_suspend(n->watch);
    int rc = nvidia_smi_reset(n->nvidia_smi, bus_id, RESET_TIMEOUT_MS, e);
    gpu_watch_resume(n->watch);
    gpu_call_end();
    return rc;
}

static int find_gi(struct nvml_turn *t, struct nvml *n, const char *uuid, unsigned gi_id,
                   nvml_gi *ret, struct err *e)
{
    TRY(nvml_turn_begin(t, n, uuid, e));
    return NVML_DO(n, e, gi_by_id, t->facts->device, gi_id, ret);
}

int nvml_op_gi_create(struct gpu *g, const char *uuid, unsigned profile_id, unsigned start,
                      unsigned size, unsigned *ret_gi_id, struct err *e)
{
    struct nvml *n = (struct nvml *)g;
    auto_nvml_turn struct nvml_turn t = {.n = n};
    nvml_gi gi = NULL;
    struct nvml_gi_info info = {0};
    const struct nvml_placement at = {.start = start, .size = size};
    TRY(nvml_turn_begin(&t, n, uuid, e));
    TRY(NVML_DO(n, e, gi_create_at, t.facts->device, profile_id, &at, &gi));
    TRY(NVML_DO(n, e, gi_info, gi, &info));
    *ret_gi_id = info.id;
    return 0;
}

int nvml_op_gi_destroy(struct gpu *g, const char *uuid, unsigned gi_id, struct err *e)
{
    struct nvml *n = (struct nvml *)g;
    auto_nvml_turn struct nvml_turn t = {.n = n};
    nvml_gi gi = NULL;
    TRY(find_gi(&t, n, uuid, gi_id, &gi, e));
    return NVML_DO(n, e, gi_destroy, gi);
}

static unsigned profile_index(const struct nvml_facts *f, unsigned profile_id)
{
    unsigned i = 0;
    while (i < f->card.mig.n_profiles && f->card.mig.profiles[i].id != profile_id)
        i++;
    return i;
}

/* The id of the plain compute instance profile with so many slices in this instance. */
static int find_ci_profile(struct nvml *n, struct nvml_facts *f, nvml_gi gi, unsigned slices,
                           unsigned *ret, struct err *e)
{
    struct nvml_gi_info info = {0};
    const struct nvml_ci_table *t = NULL;
    TRY(NVML_DO(n, e, gi_info, gi, &info));
    if (f->card.mig.n_profiles == 0)
        TRY(nvml_mig_table(n, f, e));
    unsigned at = profile_index(f, info.profileId);
    if (at == f->card.mig.n_profiles)
        return err_set(e, ERR_INVALID, "GPU instance %u has the unknown profile %u", info.id,
                       info.profileId);
    TRY(nvml_ci_table_get(n, f, at, gi, &t, e));
    for (unsigned i = 0; i < t->n; i++) {
        if (t->items[i].slices != slices || t->items[i].media)
            continue;
        *ret = t->items[i].id;
        return 0;
    }
    return err_set(e, ERR_INVALID, "no compute instance of %u slices in %s", slices,
                   f->card.mig.profiles[at].name);
}

/* Creates at the placement where the driver can, else where the driver chooses. */
static int create_ci(struct nvml *n, nvml_gi gi, unsigned profile_id, unsigned slices, int start,
                     nvml_ci *ret, struct err *e)
{
    const struct nvml_placement at = {.start = (unsigned)start, .size = slices};
    nvml_ret rc = NVML_FUNCTION_NOT_FOUND;
    if (start >= 0)
        rc = NVML_CALL(n, ci_create_at, gi, profile_id, &at, ret);
    if (rc != NVML_FUNCTION_NOT_FOUND && rc != NVML_NOT_SUPPORTED)
        return nvml_check(n, nvml_names.ci_create_at, rc, e);
    return NVML_DO(n, e, ci_create, gi, profile_id, ret);
}

int nvml_op_ci_create(struct gpu *g, const char *uuid, unsigned gi_id, unsigned slices, int start,
                      unsigned *ret_ci_id, struct err *e)
{
    struct nvml *n = (struct nvml *)g;
    auto_nvml_turn struct nvml_turn t = {.n = n};
    nvml_gi gi = NULL;
    nvml_ci ci = NULL;
    unsigned profile_id = 0;
    struct nvml_ci_info info = {0};
    TRY(find_gi(&t, n, uuid, gi_id, &gi, e));
    TRY(find_ci_profile(n, t.facts, gi, slices, &profile_id, e));
    TRY(create_ci(n, gi, profile_id, slices, start, &ci, e));
    TRY(NVML_DO(n, e, ci_info, ci, &info));
    *ret_ci_id = info.id;
    return 0;
}

int nvml_op_ci_destroy(struct gpu *g, const char *uuid, unsigned gi_id, unsigned ci_id,
                       struct err *e)
{
    struct nvml *n = (struct nvml *)g;
    auto_nvml_turn struct nvml_turn t = {.n = n};
    nvml_gi gi = NULL;
    nvml_ci ci = NULL;
    TRY(find_gi(&t, n, uuid, gi_id, &gi, e));
    TRY(NVML_DO(n, e, ci_by_id, gi, ci_id, &ci));
    return NVML_DO(n, e, ci_destroy, ci);
}
