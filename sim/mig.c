/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/mig.h"

#include <limits.h>
#include <string.h>

#include "sim/nvml.h"

const struct hw_gi *mig_find_gi(const struct hw_gpu *gpu, uint32_t id)
{
    for (size_t i = 0; i < HW_MAX_GI; i++) {
        if (gpu->gis[i].serial != 0 && gpu->gis[i].id == id)
            return &gpu->gis[i];
    }
    return NULL;
}

const struct hw_ci *mig_find_ci(const struct hw_gi *gi, uint32_t id)
{
    for (size_t i = 0; i < HW_MAX_CI; i++) {
        if (gi->cis[i].serial != 0 && gi->cis[i].id == id)
            return &gi->cis[i];
    }
    return NULL;
}

struct hw_gi *mig_gi_by_serial(struct hw_gpu *gpu, uint64_t serial)
{
    for (size_t i = 0; serial != 0 && i < HW_MAX_GI; i++) {
        if (gpu->gis[i].serial == serial)
            return &gpu->gis[i];
    }
    return NULL;
}

struct hw_ci *mig_ci_by_serial(struct hw_gi *gi, uint64_t serial)
{
    for (size_t i = 0; serial != 0 && i < HW_MAX_CI; i++) {
        if (gi->cis[i].serial == serial)
            return &gi->cis[i];
    }
    return NULL;
}

/* The instance with the lowest id from `id` on, or NULL. */
static const struct hw_gi *next_gi(const struct hw_gpu *gpu, uint32_t id)
{
    const struct hw_gi *best = NULL;
    for (size_t i = 0; i < HW_MAX_GI; i++) {
        const struct hw_gi *gi = &gpu->gis[i];
        if (gi->serial != 0 && gi->id >= id && (best == NULL || gi->id < best->id))
            best = gi;
    }
    return best;
}

static const struct hw_ci *next_ci(const struct hw_gi *gi, uint32_t id)
{
    const struct hw_ci *best = NULL;
    for (size_t i = 0; i < HW_MAX_CI; i++) {
        const struct hw_ci *ci = &gi->cis[i];
        if (ci->serial != 0 && ci->id >= id && (best == NULL || ci->id < best->id))
            best = ci;
    }
    return best;
}

bool mig_device_at(const struct hw_gpu *gpu, unsigned int index, const struct hw_gi **ret_gi,
                   const struct hw_ci **ret_ci)
{
    for (const struct hw_gi *gi = next_gi(gpu, 0); gi != NULL; gi = next_gi(gpu, gi->id + 1)) {
        for (const struct hw_ci *ci = next_ci(gi, 0); ci != NULL; ci = next_ci(gi, ci->id + 1)) {
            if (index-- != 0)
                continue;
            *ret_gi = gi;
            *ret_ci = ci;
            return true;
        }
    }
    return false;
}

unsigned int mig_device_index(const struct hw_gpu *gpu, uint64_t ci_serial)
{
    const struct hw_gi *gi = NULL;
    const struct hw_ci *ci = NULL;
    unsigned int index = 0;
    while (mig_device_at(gpu, index, &gi, &ci) && ci->serial != ci_serial)
        index++;
    return index;
}

const struct gi_profile *mig_profile_of(const struct hw_gpu *gpu, const struct hw_gi *gi)
{
    return model_profile_by_enum(hw_model(gpu), gi->profile);
}

unsigned int mig_gi_count(const struct hw_gpu *gpu)
{
    unsigned int count = 0;
    for (size_t i = 0; i < HW_MAX_GI; i++)
        count += gpu->gis[i].serial != 0;
    return count;
}

int mig_set_mode(struct hw *hw, uint32_t gpu, unsigned int mode, int *ret_activation)
{
    struct hw_gpu *card = &hw->gpus[gpu];
    enum mig_kind kind = hw_model(card)->mig;
    if (kind == MIG_NONE)
        return NVML_ERROR_NOT_SUPPORTED;
    card->mig_pending = mode;
    *ret_activation = NVML_SUCCESS;
    if (card->mig_current == mode)
        return NVML_SUCCESS;
    if (mig_gi_count(card) > 0 || hw_count_procs(hw, gpu, HW_NONE, HW_NONE) > 0) {
        *ret_activation = NVML_ERROR_IN_USE;
    } else if (kind == MIG_AFTER_RESET) {
        *ret_activation = NVML_ERROR_RESET_REQUIRED;
    } else {
        card->mig_current = mode;
        hw_emit(hw, EVENT_MIG_CONFIG_CHANGE, 0, gpu, HW_NONE, HW_NONE);
    }
    return NVML_SUCCESS;
}

static bool overlap(unsigned int a, unsigned int a_size, unsigned int b, unsigned int b_size)
{
    return a < b + b_size && b < a + a_size;
}

static bool slots_free(const struct hw_gpu *gpu, unsigned int start, unsigned int size)
{
    for (size_t i = 0; i < HW_MAX_GI; i++) {
        const struct hw_gi *gi = &gpu->gis[i];
        if (gi->serial != 0 && overlap(start, size, gi->start, gi->size))
            return false;
    }
    return true;
}

static void engines_take(struct engines *left, const struct engines *e)
{
    left->copy -= e->copy;
    left->decoder -= e->decoder;
    left->encoder -= e->encoder;
    left->jpeg -= e->jpeg;
    left->ofa -= e->ofa;
}

static bool engines_suffice(const struct engines *left, const struct engines *e)
{
    return e->copy <= left->copy && e->decoder <= left->decoder && e->encoder <= left->encoder &&
           e->jpeg <= left->jpeg && e->ofa <= left->ofa;
}

/* The resources that the live instances leave free: engines, compute slices, and instances of one
 * profile. */
struct left {
    struct engines engines;
    unsigned int slices;
    unsigned int instances;
};

static struct left what_is_left(const struct hw_gpu *gpu, const struct gi_profile *p)
{
    const struct model *m = hw_model(gpu);
    struct left left = {.engines = m->engines,
                        .slices = m->slices,
                        .instances = p->shape->max_count};
    for (size_t i = 0; i < HW_MAX_GI; i++) {
        const struct hw_gi *gi = &gpu->gis[i];
        if (gi->serial == 0)
            continue;
        const struct gi_profile *used = mig_profile_of(gpu, gi);
        engines_take(&left.engines, &used->engines);
        left.slices -= used->shape->slices;
        left.instances -= used == p;
    }
    return left;
}

static bool left_suffices(const struct left *left, const struct gi_profile *p)
{
    return left->instances > 0 && left->slices >= p->shape->slices &&
           engines_suffice(&left->engines, &p->engines);
}

/* Placements of one profile never overlap partly, so counting the free ones is exact. */
unsigned int mig_remaining(const struct hw_gpu *gpu, const struct gi_profile *p)
{
    struct left left = what_is_left(gpu, p);
    unsigned int count = 0;
    for (unsigned int i = 0; i < p->shape->start_count; i++) {
        if (!slots_free(gpu, p->shape->starts[i], p->shape->size) || !left_suffices(&left, p))
            continue;
        engines_take(&left.engines, &p->engines);
        left.slices -= p->shape->slices;
        left.instances--;
        count++;
    }
    return count;
}

/* Number of placements that are free now and would be blocked by an instance here. */
static unsigned int placements_blocked(const struct hw_gpu *gpu, unsigned int start,
                                       unsigned int size)
{
    const struct model *m = hw_model(gpu);
    unsigned int blocked = 0;
    for (size_t i = 0; i < m->profile_count; i++) {
        const struct gi_profile *p = &m->profiles[i];
        for (unsigned int s = 0; s < p->shape->start_count; s++)
            blocked += overlap(start, size, p->shape->starts[s], p->shape->size) &&
                       slots_free(gpu, p->shape->starts[s], p->shape->size);
    }
    return blocked;
}

/*
 * The driver's choice. On an empty A100 it puts 1g at 6, 2g at 4, 3g at 4, and seven 1g in the
 * order 6 4 5 0 1 2 3 (the guide's examples): this rule yields all of them.
 */
static bool choose_placement(const struct hw_gpu *gpu, const struct gi_profile *p,
                             struct span *ret_where)
{
    unsigned int best = UINT_MAX;
    for (unsigned int i = 0; i < p->shape->start_count; i++) {
        if (!slots_free(gpu, p->shape->starts[i], p->shape->size))
            continue;
        unsigned int blocked = placements_blocked(gpu, p->shape->starts[i], p->shape->size);
        if (blocked >= best)
            continue;
        best = blocked;
        *ret_where = (struct span){p->shape->starts[i], p->shape->size};
    }
    return best != UINT_MAX;
}

static bool has_placement(const struct gi_profile *p, const struct span *where)
{
    for (unsigned int i = 0; i < p->shape->start_count; i++) {
        if (where->size == p->shape->size && where->start == p->shape->starts[i])
            return true;
    }
    return false;
}

/*
 * Ids are the driver's: the nodes of the tree that halves the memory. The whole card is 0, halves
 * are 1 and 2, quarters 3 to 6, eighths 7 to 14 (the guide's examples for A100 and A30).
 */
static uint32_t instance_id(const struct model *m, const struct span *where)
{
    return m->grid / where->size - 1 + where->start / where->size;
}

static struct hw_gi *empty_gi_slot(struct hw_gpu *gpu)
{
    for (size_t i = 0; i < HW_MAX_GI; i++) {
        if (gpu->gis[i].serial == 0)
            return &gpu->gis[i];
    }
    return NULL;
}

static int settle_placement(const struct hw_gpu *gpu, const struct gi_profile *p,
                            const struct span *wanted, struct span *ret_where)
{
    if (wanted == NULL)
        return choose_placement(gpu, p, ret_where) ? NVML_SUCCESS
                                                   : NVML_ERROR_INSUFFICIENT_RESOURCES;
    if (!has_placement(p, wanted))
        return NVML_ERROR_INVALID_ARGUMENT;
    *ret_where = *wanted;
    return slots_free(gpu, wanted->start, wanted->size) ? NVML_SUCCESS
                                                        : NVML_ERROR_INSUFFICIENT_RESOURCES;
}

int mig_create_gi(struct hw *hw, uint32_t gpu, const struct gi_profile *p, const struct span *where,
                  struct hw_gi **ret_gi)
{
    struct hw_gpu *card = &hw->gpus[gpu];
    struct span place = {0};
    int rc = settle_placement(card, p, where, &place);
    if (rc != NVML_SUCCESS)
        return rc;
    struct left left = what_is_left(card, p);
    struct hw_gi *gi = empty_gi_slot(card);
    if (gi == NULL || !left_suffices(&left, p))
        return NVML_ERROR_INSUFFICIENT_RESOURCES;
    *gi = (struct hw_gi){.serial = hw_next_serial(hw),
                         .id = instance_id(hw_model(card), &place),
                         .profile = p->shape->enumeration,
                         .start = place.start,
                         .size = place.size};
    hw_emit(hw, EVENT_MIG_CONFIG_CHANGE, 0, gpu, gi->id, HW_NONE);
    *ret_gi = gi;
    return NVML_SUCCESS;
}

static bool has_cis(const struct hw_gi *gi)
{
    for (size_t i = 0; i < HW_MAX_CI; i++) {
        if (gi->cis[i].serial != 0)
            return true;
    }
    return false;
}

int mig_destroy_gi(struct hw *hw, uint32_t gpu, struct hw_gi *gi)
{
    if (has_cis(gi))
        return NVML_ERROR_IN_USE;
    hw_emit(hw, EVENT_MIG_CONFIG_CHANGE, 0, gpu, gi->id, HW_NONE);
    *gi = (struct hw_gi){0};
    return NVML_SUCCESS;
}

static bool compute_free(const struct hw_gi *gi, unsigned int start, unsigned int size)
{
    for (size_t i = 0; i < HW_MAX_CI; i++) {
        const struct hw_ci *ci = &gi->cis[i];
        if (ci->serial != 0 && overlap(start, size, ci->start, ci->size))
            return false;
    }
    return true;
}

/* The media profile takes the instance's media engines, of which there is one set. */
static bool media_taken(const struct hw_gi *gi)
{
    for (size_t i = 0; i < HW_MAX_CI; i++) {
        if (gi->cis[i].serial != 0 && gi->cis[i].profile == CI_1_SLICE_REV1)
            return true;
    }
    return false;
}

unsigned int mig_ci_remaining(const struct hw_gi *gi, const struct ci_profile *p)
{
    unsigned int count = 0;
    for (unsigned int i = 0; i < p->start_count; i++)
        count += compute_free(gi, p->starts[i], p->slices);
    if (p->media)
        return count > 0 && !media_taken(gi);
    return count;
}

static bool choose_ci_placement(const struct hw_gi *gi, const struct ci_profile *p,
                                struct span *ret_where)
{
    for (unsigned int i = 0; i < p->start_count; i++) {
        if (!compute_free(gi, p->starts[i], p->slices))
            continue;
        *ret_where = (struct span){p->starts[i], p->slices};
        return true;
    }
    return false;
}

static int settle_ci_placement(const struct hw_gi *gi, const struct ci_profile *p,
                               const struct span *wanted, struct span *ret_where)
{
    if (p->media && media_taken(gi))
        return NVML_ERROR_INSUFFICIENT_RESOURCES;
    if (wanted == NULL)
        return choose_ci_placement(gi, p, ret_where) ? NVML_SUCCESS
                                                     : NVML_ERROR_INSUFFICIENT_RESOURCES;
    bool legal = false;
    for (unsigned int i = 0; i < p->start_count; i++)
        legal = legal || (wanted->start == p->starts[i] && wanted->size == p->slices);
    if (!legal)
        return NVML_ERROR_INVALID_ARGUMENT;
    *ret_where = *wanted;
    return compute_free(gi, wanted->start, wanted->size) ? NVML_SUCCESS
                                                         : NVML_ERROR_INSUFFICIENT_RESOURCES;
}

static struct hw_ci *empty_ci_slot(struct hw_gi *gi)
{
    for (size_t i = 0; i < HW_MAX_CI; i++) {
        if (gi->cis[i].serial == 0)
            return &gi->cis[i];
    }
    return NULL;
}

static uint32_t lowest_free_ci_id(const struct hw_gi *gi)
{
    uint32_t id = 0;
    while (mig_find_ci(gi, id) != NULL)
        id++;
    return id;
}

int mig_create_ci(struct hw *hw, uint32_t gpu, struct hw_gi *gi, const struct ci_profile *p,
                  const struct span *where, struct hw_ci **ret_ci)
{
    struct span place = {0};
    int rc = settle_ci_placement(gi, p, where, &place);
    if (rc != NVML_SUCCESS)
        return rc;
    struct hw_ci *ci = empty_ci_slot(gi);
    if (ci == NULL)
        return NVML_ERROR_INSUFFICIENT_RESOURCES;
    uint32_t id = lowest_free_ci_id(gi);
    *ci = (struct hw_ci){.serial = hw_next_serial(hw),
                         .id = id,
                         .profile = p->enumeration,
                         .start = place.start,
                         .size = place.size};
    hw_new_uuid(hw, "MIG-", ci->uuid, sizeof(ci->uuid));
    hw_emit(hw, EVENT_MIG_CONFIG_CHANGE, 0, gpu, gi->id, id);
    *ret_ci = ci;
    return NVML_SUCCESS;
}

int mig_destroy_ci(struct hw *hw, uint32_t gpu, const struct hw_gi *gi, struct hw_ci *ci)
{
    if (hw_count_procs(hw, gpu, gi->id, ci->id) > 0)
        return NVML_ERROR_IN_USE;
    hw_emit(hw, EVENT_MIG_CONFIG_CHANGE, 0, gpu, gi->id, ci->id);
    *ci = (struct hw_ci){0};
    return NVML_SUCCESS;
}
