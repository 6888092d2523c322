/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <limits.h>
#include <stdio.h>

#include "nodeagent/vendor/nvidia/nvml_session.h"

/* More compute instances in one GPU instance than any card has slices. */
#define MAX_HANDLES 64

/* The driver divides multiprocessors unevenly: three slices of an H100 have 60, one of them 16. */
static unsigned multiprocessors_of(struct nvml *n, nvml_device device)
{
    struct nvml_attributes a = {0};
    nvml_ret rc = NVML_CALL(n, attributes, device, &a);
    return rc == NVML_SUCCESS ? a.multiprocessorCount : 0;
}

/* nvmlDeviceGetIndex of a MIG handle is the index by which nvmlDeviceGetMigDeviceHandleByIndex
 * returns it: one call for each device, where walking the indices would be three. */
static int mig_index_of(struct nvml *n, nvml_device device)
{
    unsigned index = 0;
    nvml_ret rc = NVML_CALL(n, index, device, &index);
    return rc == NVML_SUCCESS && index <= INT_MAX ? (int)index : -1;
}

static int read_ci(struct nvml *n, nvml_ci ci, unsigned slices, struct gpu_card *card,
                   struct err *e)
{
    assert(card->state.n > 0);
    unsigned at = card->state.n - 1;
    struct mig_instance *in = &card->state.items[at];
    struct nvml_ci_info info = {0};
    nvml_ret rc = NVML_CALL(n, ci_info, ci, &info);
    if (rc == NVML_NOT_FOUND)
        return 0; /* it disappeared between the list and the question */
    TRY(nvml_check(n, nvml_names.ci_info, rc, e));
    TRY(nvml_sound_ci(in, &info, e));
    if (in->n_cis == MIG_MAX_CIS)
        return err_set(e, ERR_TOO_LARGE, "more than %d compute instances in one", MIG_MAX_CIS);
    if (card->n_partitions == GPU_MAX_PARTITIONS)
        return err_set(e, ERR_TOO_LARGE, "more than %d partitions", GPU_MAX_PARTITIONS);
    assert(in->profile < card->mig.n_profiles);
    struct gpu_partition *p = &card->partitions[card->n_partitions];
    *p = (struct gpu_partition){.healthy = true,
                                .gi_id = in->gi_id,
                                .ci_id = info.id,
                                .instance = at,
                                .ci = in->n_cis,
                                .ci_start = (int)info.placement.start,
                                .mig_index = mig_index_of(n, info.device)};
    /* A partition without a UUID still exists, but cannot be granted yet. */
    (void)NVML_CALL(n, uuid, info.device, p->uuid, sizeof(p->uuid));
    if (slices != card->mig.profiles[in->profile].slices)
        p->multiprocessors = multiprocessors_of(n, info.device);
    nvml_sound_partition(card, p);
    in->cis[in->n_cis++] = (struct mig_ci){.id = info.id, .slices = slices};
    card->n_partitions++;
    return 0;
}

static int read_cis(struct nvml *n, nvml_gi gi, const struct nvml_ci_table *kinds,
                    struct gpu_card *card, struct err *e)
{
    for (unsigned k = 0; k < kinds->n; k++) {
        nvml_ci cis[MAX_HANDLES] = {0};
        unsigned count = MAX_HANDLES;
        nvml_ret rc = NVML_CALL(n, ci_list, gi, kinds->items[k].id, cis, &count);
        if (rc == NVML_NOT_SUPPORTED)
            continue;
        TRY(nvml_check(n, nvml_names.ci_list, rc, e));
        TRY(nvml_sound_count("compute instances", count, MAX_HANDLES, e));
        for (unsigned i = 0; i < count; i++)
            TRY(read_ci(n, cis[i], kinds->items[k].slices, card, e));
    }
    return 0;
}

static int read_instance(struct nvml *n, struct nvml_facts *f, unsigned profile, nvml_gi gi,
                         struct gpu_card *card, struct err *e)
{
    struct nvml_gi_info info = {0};
    const struct nvml_ci_table *kinds = NULL;
    nvml_ret rc = NVML_CALL(n, gi_info, gi, &info);
    if (rc == NVML_NOT_FOUND)
        return 0;
    TRY(nvml_check(n, nvml_names.gi_info, rc, e));
    TRY(nvml_sound_instance(card, &info, e));
    if (card->state.n == MIG_MAX_INSTANCES)
        return err_set(e, ERR_TOO_LARGE, "more than %d GPU instances", MIG_MAX_INSTANCES);
    card->state.items[card->state.n++] = (struct mig_instance){.profile = profile,
                                                               .gi_id = info.id,
                                                               .start = info.placement.start,
                                                               .size = info.placement.size};
    TRY(nvml_ci_table_get(n, f, profile, gi, &kinds, e));
    return read_cis(n, gi, kinds, card, e);
}

int nvml_instances_read(struct nvml *n, struct nvml_facts *f, struct gpu_card *card, struct err *e)
{
    card->state.n = 0;
    card->n_partitions = 0;
    for (unsigned p = 0; p < card->mig.n_profiles; p++) {
        nvml_gi gis[MAX_HANDLES] = {0};
        unsigned count = MAX_HANDLES;
        nvml_ret rc = NVML_CALL(n, gi_list, f->device, card->mig.profiles[p].id, gis, &count);
        if (rc == NVML_NOT_SUPPORTED)
            continue;
        TRY(nvml_check(n, nvml_names.gi_list, rc, e));
        TRY(nvml_sound_count("GPU instances", count, MAX_HANDLES, e));
        for (unsigned i = 0; i < count; i++)
            TRY(read_instance(n, f, p, gis[i], card, e));
    }
    return 0;
}
