/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <string.h>

#include "base/xalloc.h"

#include "partition/enforcement.h"
#include "partition/resolve_work.h"
#include "partition/resource_names.h"
#include "partition/vendor.h"

static void want_profiles(struct device_want *want, const struct mig_table *t,
                          const struct mig_wants *wants)
{
    want->has_mig = true;
    for (unsigned i = 0; i < wants->n; i++) {
        char name[MIG_NAME_BYTES];
        assert(wants->items[i].profile < t->n_profiles);
        mig_partition_name(&t->profiles[wants->items[i].profile], wants->items[i].ci_slices, name);
        struct profile_count *pc = NULL;
        for (size_t k = 0; k < want->mig.n_profiles && !pc; k++)
            if (strcmp(want->mig.profiles[k].profile, name) == 0)
                pc = &want->mig.profiles[k];
        if (!pc) {
            pc = XPUSH(want->mig.profiles, want->mig.n_profiles);
            pc->profile = xstrdup(name);
        }
        pc->count += wants->items[i].count;
    }
}

static const char *reason_of(int rc)
{
    return rc == -(int)ERR_NOT_FOUND ? "UnknownProfile" : "Invalid";
}

static bool check_geometry(struct source *s, const struct resolve_card *card,
                           const struct mig_wants *wants)
{
    const struct mig_state empty = {0};
    struct mig_plan plan;
    mig_plan(card->table, &empty, wants, &plan);
    if (plan.verdict != MIG_PLAN_INFEASIBLE)
        return true;
    if (plan.undecided) {
        resolve_refuse(s, "TooComplex", card, plan.reason);
        return false;
    }
    auto_free char *nearest = mig_wants_text(card->table, &plan.nearest);
    auto_sb struct sb text = SB_INIT(TEXT_BYTES);
    sb_addf(&text, "%s; the nearest layout that fits is %s", plan.reason, nearest);
    resolve_refuse(s, "Infeasible", card, sb_str(&text));
    return false;
}

/* Reports that the name was rounded: the partition has another amount of memory than the name
 * says. */
static void note_rounding(struct source *s, const struct resolve_card *card, const char *name)
{
    char taken[MIG_NAME_BYTES];
    if (!mig_rounds(card->table, name, taken))
        return;
    auto_free char *text =
        xasprintf("GPU %u (%s): %s is rounded to %s, the nearest profile of this card", card->index,
                  card->model ? card->model : card->uuid, name, taken);
    resolve_add_problem(s, RESOLVE_ROUNDED, card, text);
}

/* Counts from files were not bounded by a schema. */
static int requests_of(const struct jx_pair *profiles, size_t n, struct mig_request *ret,
                       struct err *e)
{
    if (n > MIG_MAX_WANTS)
        return err_set(e, ERR_INVALID,
                       "%zu kinds of partitions are wanted; a card takes at most %d", n,
                       MIG_MAX_WANTS);
    for (size_t i = 0; i < n; i++) {
        if (profiles[i].num < 0 || profiles[i].num > MAX_COUNT)
            return err_set(e, ERR_INVALID, "%s: the count must be from 0 to %d", profiles[i].key,
                           MAX_COUNT);
        ret[i] = (struct mig_request){profiles[i].key, (unsigned)profiles[i].num};
    }
    return 0;
}

/* Puts a resolved geometry into the want, or refuses the source. */
static bool want_mig(struct source *s, const struct resolve_card *card,
                     const struct jx_pair *profiles, size_t n, struct device_want *want)
{
    if (!card->mig_capable || !card->table) {
        resolve_refuse(s, "MIGUnsupported", card, "this card has no MIG; choose mode native");
        return false;
    }
    struct mig_request requests[MIG_MAX_WANTS] = {0};
    auto_err struct err e = {0};
    struct mig_wants wants = {0};
    int rc = requests_of(profiles, n, requests, &e);
    if (rc == 0)
        rc = mig_resolve(card->table, requests, n, &wants, &e);
    if (rc < 0) {
        resolve_refuse(s, reason_of(rc), card, err_msg(&e));
        return false;
    }
    for (size_t i = 0; i < n; i++)
        if (requests[i].count)
            note_rounding(s, card, requests[i].profile);
    want->mode = API_MODE_MIG;
    want_profiles(want, card->table, &wants);
    return check_geometry(s, card, &wants);
}

static bool want_builtin(struct source *s, const struct resolve_card *card, const char *name,
                         struct device_want *want)
{
    if (strcmp(name, "all-disabled") == 0)
        return true;
    if (!card->mig_capable || !card->table) {
        resolve_refuse(s, "MIGUnsupported", card, "this card has no MIG; choose mode native");
        return false;
    }
    auto_err struct err e = {0};
    struct mig_wants wants;
    bool enabled;
    if (mig_named_layout(card->table, name, &enabled, &wants, &e) < 0) {
        resolve_refuse(s, "UnknownProfile", card, err_msg(&e));
        return false;
    }
    note_rounding(s, card, name + strlen("all-"));
    want->mode = enabled ? API_MODE_MIG : API_MODE_NATIVE;
    if (enabled)
        want_profiles(want, card->table, &wants);
    return true;
}

/* Checked against an empty card: foreign slices may be gone when the agent acts. */
static bool check_slices(struct source *s, const struct resolve_card *card,
                         const struct sgpu_wants *wants)
{
    const struct sgpu_state empty = {.memory_mib = card->sgpu->memory_mib};
    struct sgpu_plan plan;
    sgpu_plan(&empty, wants, &plan);
    if (plan.verdict != SGPU_PLAN_INFEASIBLE)
        return true;
    resolve_refuse(s, "Infeasible", card, plan.reason);
    return false;
}

static bool want_sgpu(struct source *s, const struct resolve_card *card,
                      const struct device_sgpu *asked, struct device_want *want)
{
    if (!card->sgpu) {
        resolve_refuse(s, "SGPUUnsupported", card, "this card has no sGPU; choose another mode");
        return false;
    }
    struct sgpu_wants wants;
    auto_err struct err e = {0};
    int rc = sgpu_wants_of(asked, &wants, &e);
    if (rc == 0)
        rc = sgpu_wants_check(&wants, &e);
    if (rc < 0) {
        resolve_refuse(s, "Invalid", card, err_msg(&e));
        return false;
    }
    want->mode = API_MODE_SGPU;
    want->has_sgpu = true;
    device_sgpu_copy(asked, &want->sgpu);
    return check_slices(s, card, &wants);
}

static bool want_vgpu(struct source *s, const struct resolve_card *card, struct device_want *want)
{
    want->mode = API_MODE_VGPU;
    if (resource_function_name(card->vendor) && card->mode == API_MODE_VGPU)
        return true;
    if (resource_function_name(card->vendor))
        resolve_refuse(s, RESOLVE_VFS_MISSING, card, RESOLVE_VFS_MISSING_WHY);
    else
        resolve_refuse(s, "VGPUUnsupported", card,
                       "only MetaX cards have mode vgpu; choose another mode");
    return false;
}

static bool check_sharing(struct source *s, const struct claim *c, const struct resolve_card *card)
{
    const struct vendor *v = vendor_find(card->vendor);
    if (!c->entry || !c->entry->has_sharing)
        return true;
    if (c->entry->sharing.has_mps && !(v && v->has_mps)) {
        resolve_refuse(s, "MPSUnsupported", card,
                       "MPS is a service of NVIDIA's driver; this card can be shared by "
                       "timeSlicing");
        return false;
    }
    if (c->entry->sharing.has_fractional && !(v && v->has_shares)) {
        resolve_refuse(s, "FractionalUnsupported", card,
                       "only NVIDIA's cards are given out in shares; this card can be shared by "
                       "timeSlicing");
        return false;
    }
    const char *missing =
        c->entry->sharing.has_fractional
            ? enforcement_missing(&c->entry->sharing.fractional, &enforcement_anywhere)
            : NULL;
    if (missing)
        resolve_refuse(s, ENFORCEMENT_UNAVAILABLE, card, missing);
    return !missing;
}

static bool want_of_config(struct source *s, const struct migconfig_spec *config,
                           const struct resolve_card *card, struct device_want *want)
{
    const struct migconfig_entry *entry = resolve_config_entry(config, card);
    assert(entry); /* only entries make such claims */
    return !entry->mig_enabled || want_mig(s, card, entry->mig_devices, entry->n_mig_devices, want);
}

/* The switch has every mode, so that one added to api/modes.def without a case does not compile. */
static bool want_of_entry(struct source *s, const struct gpuprofile_entry *entry,
                          const struct resolve_card *card, struct device_want *want)
{
    switch ((enum api_mode)entry->mode) {
    case API_MODE_NATIVE:
        break;
    case API_MODE_MIG:
        return want_mig(s, card, entry->mig.profiles, entry->mig.n_profiles, want);
    case API_MODE_SGPU:
        return want_sgpu(s, card, &entry->sgpu, want);
    case API_MODE_VGPU:
        return want_vgpu(s, card, want);
    }
    return true;
}

static bool judge_claim(struct source *s, const struct claim *c, const struct resolve_card *card,
                        struct device_want *want)
{
    bool wants_functions = c->entry && c->entry->mode == API_MODE_VGPU;
    if (card->mode == API_MODE_VGPU && !wants_functions) {
        resolve_refuse(s, RESOLVE_VFS_STAND, card, RESOLVE_VFS_STAND_WHY);
        return false;
    }
    if (!wants_functions && !check_sharing(s, c, card))
        return false;
    if (c->config)
        return want_of_config(s, c->config, card, want);
    if (c->builtin)
        return want_builtin(s, card, c->builtin, want);
    return !c->entry || want_of_entry(s, c->entry, card, want);
}

static void stamp(struct device_want *want, const struct source *s, const struct claim *c,
                  const struct resolve_card *card)
{
    want->uuid = xstrdup(card->uuid);
    want->has_source = true;
    want->source = resolve_source_id(s);
    want->has_rollout = true;
    want->rollout.timeout_s = 600;
    if (s->profile) {
        want->rollout.drain = s->profile->rollout.drain;
        want->rollout.timeout_s = s->profile->rollout.timeout_s;
        want->failure_policy = s->profile->failure_policy;
    }
    if (c->entry && c->entry->has_sharing) {
        want->has_sharing = true;
        want->sharing = c->entry->sharing;
    }
}

void resolve_judge_cards(struct work *w)
{
    for (size_t i = 0; i < w->in->n_cards; i++) {
        struct source *s = w->owner[i];
        if (!s || s->claims[i].unknown)
            continue;
        assert(s->claims[i].made && !w->contested[i]);
        (void)judge_claim(s, &s->claims[i], &w->in->cards[i], &w->wants[i]);
        stamp(&w->wants[i], s, &s->claims[i], &w->in->cards[i]);
    }
}
