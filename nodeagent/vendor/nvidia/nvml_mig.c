/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nodeagent/gpu/sound.h"
#include "nodeagent/vendor/nvidia/nvml_session.h"
#include "partition/mig_name.h"

/* Profiles are numbered without gaps in the enumeration, new ones at its end: the walk stops at the
 * driver's INVALID_ARGUMENT, and this bound is for a driver that never says it. */
#define MAX_PROFILE_ENUM 64

/* One profile, in the version of the struct that this driver fills. */
struct profile_answer {
    struct nvml_gi_profile p;
    char name[NVML_NAME_BYTES]; /* the driver's; "" before struct version 2 */
};

static nvml_ret ask_v3(struct nvml *n, nvml_device d, unsigned value, struct profile_answer *ret)
{
    struct nvml_gi_profile_v3 v = {.version = NVML_STRUCT_VERSION(struct nvml_gi_profile_v3, 3)};
    nvml_ret rc = NVML_CALL(n, gi_profile_v, d, value, &v);
    ret->p = (struct nvml_gi_profile){.id = v.id,
                                      .sliceCount = v.sliceCount,
                                      .instanceCount = v.instanceCount,
                                      .multiprocessorCount = v.multiprocessorCount,
                                      .copyEngineCount = v.copyEngineCount,
                                      .decoderCount = v.decoderCount,
                                      .encoderCount = v.encoderCount,
                                      .jpegCount = v.jpegCount,
                                      .ofaCount = v.ofaCount,
                                      .memorySizeMB = v.memorySizeMB};
    memcpy(ret->name, v.name, sizeof(ret->name));
    return rc;
}

static nvml_ret ask_v2(struct nvml *n, nvml_device d, unsigned value, struct profile_answer *ret)
{
    struct nvml_gi_profile_v2 v = {.version = NVML_STRUCT_VERSION(struct nvml_gi_profile_v2, 2)};
    nvml_ret rc = NVML_CALL(n, gi_profile_v, d, value, &v);
    ret->p = (struct nvml_gi_profile){.id = v.id,
                                      .sliceCount = v.sliceCount,
                                      .instanceCount = v.instanceCount,
                                      .multiprocessorCount = v.multiprocessorCount,
                                      .copyEngineCount = v.copyEngineCount,
                                      .decoderCount = v.decoderCount,
                                      .encoderCount = v.encoderCount,
                                      .jpegCount = v.jpegCount,
                                      .ofaCount = v.ofaCount,
                                      .memorySizeMB = v.memorySizeMB};
    memcpy(ret->name, v.name, sizeof(ret->name));
    return rc;
}

static nvml_ret ask_v1(struct nvml *n, nvml_device d, unsigned value, struct profile_answer *ret)
{
    ret->name[0] = '\0';
    return NVML_CALL(n, gi_profile, d, value, &ret->p);
}

typedef nvml_ret ask_fn(struct nvml *n, nvml_device d, unsigned value, struct profile_answer *ret);

/* Finds the newest struct that this driver accepts. Profile 0 is in every driver's enumeration, so
 * a refusal of it is a refusal of the struct. */
static ask_fn *ask_for(struct nvml *n, nvml_device d)
{
    static ask_fn *const newest_first[] = {ask_v3, ask_v2};
    for (size_t i = 0; i < ARRAY_LEN(newest_first); i++) {
        struct profile_answer a;
        nvml_ret rc = newest_first[i](n, d, NVML_GI_1_SLICE, &a);
        if (rc != NVML_ARGUMENT_VERSION_MISMATCH && rc != NVML_INVALID_ARGUMENT &&
            rc != NVML_FUNCTION_NOT_FOUND)
            return newest_first[i];
    }
    return ask_v1;
}

/* go-nvlib pkg/nvlib/device/mig_profile.go; REV2 has none, its memory tells it apart. */
static const char *attribute_of(unsigned value)
{
    switch (value) {
    case NVML_GI_1_SLICE_REV1:
    case NVML_GI_2_SLICE_REV1:
        return "+me";
    case NVML_GI_1_SLICE_ALL_ME:
    case NVML_GI_2_SLICE_ALL_ME:
        return "+me.all";
    case NVML_GI_1_SLICE_GFX:
    case NVML_GI_2_SLICE_GFX:
    case NVML_GI_3_SLICE_GFX:
    case NVML_GI_4_SLICE_GFX:
        return "+gfx";
    case NVML_GI_1_SLICE_NO_ME:
    case NVML_GI_2_SLICE_NO_ME:
        return "-me";
    default:
        return "";
    }
}

/* The GB in a profile's name as NVIDIA's tools compute it where the driver does not report it: the
 * eighths of the card that the memory covers, of its size in whole GiB. */
static unsigned computed_gb(uint64_t profile_mib, uint64_t card_mib)
{
    if (card_mib == 0 || profile_mib > UINT64_MAX / 64) /* no size of a card */
        return 0;
    uint64_t eighths = 8 * profile_mib / card_mib + (8 * profile_mib % card_mib != 0);
    uint64_t card_gib = card_mib / 1024 + (card_mib % 1024 != 0);
    return (unsigned)((eighths * card_gib + 4) / 8);
}

static void name_profile(const struct profile_answer *a, unsigned value, uint64_t card_mib,
                         char *ret)
{
    struct mig_name name = {0};
    if (a->name[0] == '\0' || mig_name_parse(a->name, &name, NULL) < 0) {
        name = (struct mig_name){.gi_slices = a->p.sliceCount,
                                 .gb = computed_gb(a->p.memorySizeMB, card_mib)};
        (void)snprintf(name.attr, sizeof(name.attr), "%s", attribute_of(value));
    }
    (void)mig_name_format(&name, ret);
}

static int by_start(const void *a, const void *b)
{
    return (int)*(const uint8_t *)a - (int)*(const uint8_t *)b;
}

/* The driver may list more placements than it counted; the array has room for that. */
#define MAX_RAW_PLACEMENTS 256

static int keep_placement(const struct nvml_placement *at, struct mig_profile *p, struct err *e)
{
    bool is_on_grid = at->size > 0 && at->size <= MIG_MAX_MEMORY_SLICES &&
                      at->start <= MIG_MAX_MEMORY_SLICES - at->size;
    if (!is_on_grid)
        return err_set(e, ERR_INVALID,
                       "MIG profile %s: placement %u:%u is outside the %d memory slices", p->name,
                       at->start, at->size, MIG_MAX_MEMORY_SLICES);
    if (p->n_starts > 0 && at->size != p->size)
        return err_set(e, ERR_INVALID,
                       "MIG profile %s: placement %u:%u has size %u, the one before %d; a profile "
                       "has one size",
                       p->name, at->start, at->size, at->size, p->size);
    assert(p->n_starts < MIG_MAX_PLACEMENTS);
    p->size = at->size;
    p->starts[p->n_starts++] = (uint8_t)at->start;
    return 0;
}

static int read_placements(struct nvml *n, nvml_device d, struct mig_profile *p, struct err *e)
{
    struct nvml_placement at[MAX_RAW_PLACEMENTS] = {0};
    unsigned count = 0;
    TRY(NVML_DO(n, e, gi_placements, d, p->id, NULL, &count));
    if (count <= MIG_MAX_PLACEMENTS)
        TRY(NVML_DO(n, e, gi_placements, d, p->id, at, &count));
    if (count > MIG_MAX_PLACEMENTS)
        return err_set(e, ERR_INVALID, "MIG profile %s: placements %u, only 0 to %d can be handled",
                       p->name, count, MIG_MAX_PLACEMENTS);
    for (unsigned i = 0; i < count; i++)
        TRY(keep_placement(&at[i], p, e));
    qsort(p->starts, p->n_starts, sizeof(p->starts[0]), by_start);
    return 0;
}

static int add_profile(struct nvml *n, struct nvml_facts *f, const struct profile_answer *a,
                       unsigned value, struct err *e)
{
    struct mig_table *t = &f->card.mig;
    if (t->n_profiles == MIG_MAX_PROFILES)
        return err_set(e, ERR_INVALID, "more than %d MIG profiles", MIG_MAX_PROFILES);
    struct mig_profile p = {.id = a->p.id,
                            .slices = a->p.sliceCount,
                            .max_count = a->p.instanceCount,
                            .multiprocessors = a->p.multiprocessorCount,
                            .memory_mib = a->p.memorySizeMB,
                            .engines = {.copy = a->p.copyEngineCount,
                                        .decoder = a->p.decoderCount,
                                        .encoder = a->p.encoderCount,
                                        .jpeg = a->p.jpegCount,
                                        .ofa = a->p.ofaCount}};
    name_profile(a, value, f->card.memory_mib, p.name);
    TRY(read_placements(n, f->device, &p, e));
    for (unsigned i = 0; i < p.n_starts; i++)
        if (p.starts[i] + p.size > t->memory_slices)
            t->memory_slices = p.starts[i] + p.size;
    if (p.slices > t->slices)
        t->slices = p.slices;
    t->profiles[t->n_profiles++] = p;
    return 0;
}

static int list_profiles(struct nvml *n, struct nvml_facts *f, struct err *e)
{
    ask_fn *ask = ask_for(n, f->device);
    const char *call = ask == ask_v1 ? nvml_names.gi_profile : nvml_names.gi_profile_v;
    for (unsigned value = 0; value < MAX_PROFILE_ENUM; value++) {
        struct profile_answer a = {0};
        nvml_ret rc = ask(n, f->device, value, &a);
        if (rc == NVML_INVALID_ARGUMENT || rc == NVML_FUNCTION_NOT_FOUND)
            return 0;
        if (rc == NVML_NOT_SUPPORTED)
            continue;
        TRY(nvml_check(n, call, rc, e));
        SOUND_END(a.name);
        TRY(add_profile(n, f, &a, value, e));
    }
    return 0;
}

/* The error for a table of a driver newer than this agent, with entries that no card had before.
 * Nothing is planned with it. */
static int refuse_table(struct err *e)
{
    if (e && e->reason)
        return -(int)e->kind; /* the library's own error */
    int rc = err_wrap(e, "the card is left alone, its driver's MIG table cannot be handled by this "
                         "version of Cleave");
    if (e)
        e->reason = "MIGTableInvalid";
    return rc;
}

/* All or nothing: with half a table, instances of the missing profiles would be invisible. */
int nvml_mig_table(struct nvml *n, struct nvml_facts *f, struct err *e)
{
    f->card.mig = (struct mig_table){0};
    int rc = list_profiles(n, f, e);
    if (rc == 0)
        rc = mig_table_check(&f->card.mig, e);
    if (rc < 0)
        f->card.mig = (struct mig_table){0};
    return rc == -(int)ERR_INVALID ? refuse_table(e) : rc;
}

int nvml_ci_table_get(struct nvml *n, struct nvml_facts *f, unsigned profile, nvml_gi gi,
                      const struct nvml_ci_table **ret, struct err *e)
{
    assert(profile < MIG_MAX_PROFILES);
    struct nvml_ci_table *t = &f->cis[profile];
    *ret = t;
    if (t->known)
        return 0;
    t->n = 0;
    for (unsigned value = 0; value < NVML_CI_PROFILE_COUNT; value++) {
        struct nvml_ci_profile p = {0};
        nvml_ret rc = NVML_CALL(n, ci_profile, gi, value, NVML_CI_ENGINE_SHARED, &p);
        if (rc == NVML_NOT_SUPPORTED || rc == NVML_INVALID_ARGUMENT)
            continue;
        TRY(nvml_check(n, nvml_names.ci_profile, rc, e));
        TRY(nvml_sound_ci_slices(p.sliceCount, e));
        t->items[t->n++] = (struct nvml_ci_kind){.id = p.id,
                                                 .slices = p.sliceCount,
                                                 .media = value == NVML_CI_1_SLICE_REV1};
    }
    t->known = true;
    return 0;
}
