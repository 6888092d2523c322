/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "nodeagent/vendor/metax/mxsml.h"

static_assert(sizeof(MXSML_OURS) + SGPU_ALIAS_MAX <= MXSML_ALIAS_BYTES, "an alias fits");

int mxsml_op_mode_set(struct gpu *g, const char *uuid, enum gpu_mode mode,
                      enum gpu_mode_result *ret, struct err *e)
{
    struct mxsml *m = (struct mxsml *)g;
    auto_mxsml_turn struct mxsml_turn t = {.m = m};
    if (mode == GPU_MIG)
        return err_set(e, ERR_INVALID, "cards of MetaX have no MIG");
    if (mode == GPU_VGPU)
        return err_set(e, ERR_INVALID, "only mx-smi makes virtual functions");
    if (mode != GPU_NATIVE && mode != GPU_SGPU)
        return err_set(e, ERR_INVALID, "cards of MetaX have no such mode");
    TRY(mxsml_turn_begin(&t, m, uuid, e));
    TRY(MXSML_DO(m, e, set_toggle, t.dev, mode == GPU_SGPU));
    *ret = GPU_MODE_DONE; /* the caller reads back what the card shows */
    return 0;
}

/* Resets one card, or the group that MetaXLink joins it with: no verb may run beside it. The card
 * stays in hand meanwhile. */
int mxsml_op_reset(struct gpu *g, const char *uuid, struct err *e)
{
    struct mxsml *m = (struct mxsml *)g;
    auto_mxsml_turn struct mxsml_turn t = {.m = m};
    TRY(mxsml_turn_begin_reset(&t, m, uuid, e));
    TRY(lib_gate_enter_reset(m->gate, &t.pass, e));
    if (t.epoch != m->epoch)
        return err_set(e, ERR_UNAVAILABLE, "the cards were numbered anew before the reset");
    return MXSML_DO(m, e, reset, t.dev);
}

/* A slice without its name would belong to nobody. If the agent is killed in between, the slice
 * stays nameless; the transaction's journal shows which nameless slice is its own. */
static int name_slice(struct mxsml *m, unsigned dev, unsigned id, const char *alias, struct err *e)
{
    char full[MXSML_ALIAS_BYTES];
    (void)snprintf(full, sizeof(full), MXSML_OURS "%.*s", SGPU_ALIAS_MAX, alias);
    int rc = MXSML_DO(m, e, set_alias, dev, id, full);
    if (rc < 0)
        (void)MXSML_CALL(m, slice_remove, dev, id);
    return rc;
}

int mxsml_op_slice_create(struct gpu *g, const char *uuid, const struct sgpu_want *want,
                          unsigned *ret_id, struct err *e)
{
    struct mxsml *m = (struct mxsml *)g;
    auto_mxsml_turn struct mxsml_turn t = {.m = m};
    unsigned id = 0;
    if (strlen(want->alias) > SGPU_ALIAS_MAX)
        return err_set(e, ERR_INVALID, "the alias %s is too long", want->alias);
    TRY(mxsml_turn_begin(&t, m, uuid, e));
    TRY(MXSML_DO(m, e, slice_create, t.dev, want->quota.memory_mib, want->quota.compute_percent,
                 &id));
    TRY(name_slice(m, t.dev, id, want->alias, e));
    *ret_id = id;
    return 0;
}

/* A card that does not answer has not lost its slices. */
static int not_gone(int rc, struct err *e)
{
    if (rc != -(int)ERR_NOT_FOUND)
        return rc;
    if (e)
        e->kind = ERR_UNAVAILABLE;
    return -(int)ERR_UNAVAILABLE;
}

int mxsml_op_slice_destroy(struct gpu *g, const char *uuid, unsigned id, struct err *e)
{
    struct mxsml *m = (struct mxsml *)g;
    struct mxsml_slice there = {0};
    auto_mxsml_turn struct mxsml_turn t = {.m = m};
    TRY(mxsml_turn_begin(&t, m, uuid, e));
    mxsml_ret rc = MXSML_CALL(m, slice_info, t.dev, id, &there);
    if (rc == MXSML_NOT_SUPPORTED || rc == MXSML_INVALID_INPUT)
        return err_set(e, ERR_NOT_FOUND, "there is no slice %u", id);
    return not_gone(MXSML_DO(m, e, slice_remove, t.dev, id), e);
}

int mxsml_op_qos_set(struct gpu *g, const char *uuid, int qos, struct err *e)
{
    struct mxsml *m = (struct mxsml *)g;
    auto_mxsml_turn struct mxsml_turn t = {.m = m};
    assert(qos >= API_BEST_EFFORT && qos <= API_BURST_SHARE);
    TRY(mxsml_turn_begin(&t, m, uuid, e));
    return MXSML_DO(m, e, set_sched_class, t.dev, (unsigned)qos);
}

int mxsml_op_timeslice_set(struct gpu *g, const char *uuid, unsigned ms, struct err *e)
{
    struct mxsml *m = (struct mxsml *)g;
    auto_mxsml_turn struct mxsml_turn t = {.m = m};
    TRY(mxsml_turn_begin(&t, m, uuid, e));
    return MXSML_DO(m, e, set_timeslice, t.dev, ms);
}
