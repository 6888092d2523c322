/* SPDX-License-Identifier: Apache-2.0 */
#include "nodeagent/change/card_run.h"

#include <assert.h>

#include "base/auto.h"

struct run {
    struct gpu *gpu;
    const struct gpu_card *card;
    bool mode_is_current; /* the switch took effect at once, so a planned reset is skipped */
    bool reset_follows;   /* the plan has a reset after this step */
    unsigned gi_at[MIG_MAX_MEMORY_SLICES]; /* GPU instance id by first memory slice */
};

static int reboot_needed(struct err *e)
{
    int rc = err_wrap(e, "the mode takes effect at the next reboot only");
    if (e)
        e->reason = "RebootRequired";
    return rc;
}

static int run_reset(struct run *r, struct err *e)
{
    if (r->mode_is_current)
        return 0;
    int rc = r->gpu->ops->reset(r->gpu, r->card->uuid, e);
    return rc == -ERR_INVALID ? reboot_needed(e) : rc;
}

static int run_mode(struct run *r, enum gpu_mode mode, struct err *e)
{
    enum gpu_mode_result result = GPU_MODE_DONE;
    TRY(r->gpu->ops->mode_set(r->gpu, r->card->uuid, mode, &result, e));
    r->mode_is_current = result == GPU_MODE_DONE;
    if (result == GPU_MODE_NEEDS_REBOOT) {
        (void)err_set(e, ERR_UNAVAILABLE, "the card cannot be reset here");
        return reboot_needed(e);
    }
    /* The card needs a reset although its generation usually does not. Withdrawing a pending mode
     * (the current one stays) needs none. */
    if (result == GPU_MODE_NEEDS_RESET && !r->reset_follows && r->card->mode != mode)
        return run_reset(r, e);
    return 0;
}

static int run_gi_create(struct run *r, const struct card_step *s, struct err *e)
{
    unsigned id = 0;
    TRY(r->gpu->ops->gi_create(r->gpu, r->card->uuid, s->profile_id, s->start, s->size, &id, e));
    r->gi_at[s->start] = id;
    return 0;
}

static int run_ci_create(struct run *r, const struct card_step *s, struct err *e)
{
    unsigned id = 0;
    unsigned gi_id = r->gi_at[s->start];
    return r->gpu->ops->ci_create(r->gpu, r->card->uuid, gi_id, s->slices, s->ci_start, &id, e);
}

static int gone_is_done(int rc, struct err *e)
{
    if (rc != -ERR_NOT_FOUND)
        return rc;
    err_clear(e);
    return 0;
}

static int run_step(struct run *r, const struct card_step *s, struct err *e)
{
    struct gpu *g = r->gpu;
    const char *uuid = r->card->uuid;
    unsigned id = 0;
    switch (s->kind) {
    case CARD_CI_DESTROY:
        return gone_is_done(g->ops->ci_destroy(g, uuid, s->gi_id, s->ci_id, e), e);
    case CARD_GI_DESTROY:
        return gone_is_done(g->ops->gi_destroy(g, uuid, s->gi_id, e), e);
    case CARD_MODE_SET:
        return run_mode(r, s->mode, e);
    case CARD_RESET:
        return run_reset(r, e);
    case CARD_GI_CREATE:
        return run_gi_create(r, s, e);
    case CARD_CI_CREATE:
        return run_ci_create(r, s, e);
    case CARD_SLICE_DESTROY:
        return gone_is_done(g->ops->slice_destroy(g, uuid, s->slice_id, e), e);
    case CARD_QOS_SET:
        return g->ops->qos_set(g, uuid, s->qos, e);
    case CARD_TIMESLICE_SET:
        return g->ops->timeslice_set(g, uuid, s->timeslice_ms, e);
    case CARD_SLICE_CREATE:
        return g->ops->slice_create(g, uuid, &s->slice, &id, e);
    default:
        return err_set(e, ERR_INVALID, "unknown step %d", (int)s->kind);
    }
}

static bool has_reset(const struct card_steps *steps)
{
    for (unsigned i = 0; i < steps->n; i++)
        if (steps->items[i].kind == CARD_RESET)
            return true;
    return false;
}

int card_steps_run(struct gpu *gpu, const struct gpu_card *card, const struct card_steps *steps,
                   unsigned *ret_done, struct err *e)
{
    assert(steps->blocking == 0 && !steps->card_blocking && steps->n <= CARD_MAX_STEPS);
    struct run r = {.gpu = gpu, .card = card, .reset_follows = has_reset(steps)};
    for (unsigned i = 0; i < card->state.n; i++)
        if (card->state.items[i].start < MIG_MAX_MEMORY_SLICES)
            r.gi_at[card->state.items[i].start] = card->state.items[i].gi_id;
    for (*ret_done = 0; *ret_done < steps->n; (*ret_done)++) {
        const struct card_step *s = &steps->items[*ret_done];
        assert(s->start < MIG_MAX_MEMORY_SLICES);
        int rc = run_step(&r, s, e);
        if (rc == 0)
            continue;
        auto_free char *what = card_step_text(s, &card->mig);
        return err_wrap(e, "%s", what);
    }
    return 0;
}
