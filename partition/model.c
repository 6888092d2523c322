/* SPDX-License-Identifier: Apache-2.0 */
#include "partition/model.h"

#include <assert.h>
#include <string.h>

#include "base/xalloc.h"

static int read_placements(const struct device_model *m, const struct device_mig_profile *from,
                           struct mig_profile *to, struct err *e)
{
    if (from->n_starts > MIG_MAX_PLACEMENTS)
        return err_set(e, ERR_INVALID,
                       "profile %s of %s: %zu placements; at most %d can be handled", from->name,
                       m->name, from->n_starts, MIG_MAX_PLACEMENTS);
    for (size_t i = 0; i < from->n_starts; i++) {
        int64_t start = from->starts[i];
        if (start < 0 || from->size < 1 || start > m->mig_memory_slices - from->size)
            return err_set(e, ERR_INVALID,
                           "profile %s of %s: placement %lld:%lld is not on a grid of %lld memory "
                           "slices",
                           from->name, m->name, (long long)start, (long long)from->size,
                           (long long)m->mig_memory_slices);
        to->starts[to->n_starts++] = (uint8_t)start;
    }
    assert(to->n_starts == from->n_starts);
    to->size = (unsigned)from->size;
    return 0;
}

static int read_profile(const struct device_model *m, const struct device_mig_profile *from,
                        struct mig_profile *to, struct err *e)
{
    struct mig_name name;
    if (mig_name_parse(from->name, &name, e) < 0)
        return err_wrap(e, "%s", m->name);
    *to = (struct mig_profile){
        .id = (unsigned)from->id,
        .slices = (unsigned)from->slices,
        .max_count = (unsigned)from->max_count,
        .multiprocessors = (unsigned)from->multiprocessors,
        .memory_mib = (uint64_t)from->memory_mib,
        .engines = {.copy = (unsigned)from->engines.copy,
                    .decoder = (unsigned)from->engines.decoder,
                    .encoder = (unsigned)from->engines.encoder,
                    .jpeg = (unsigned)from->engines.jpeg,
                    .ofa = (unsigned)from->engines.ofa},
    };
    mig_name_format(&name, to->name);
    return read_placements(m, from, to, e);
}

int model_to_table(const struct device_model *m, struct mig_table *ret, struct err *e)
{
    struct mig_table t = {.memory_slices = (unsigned)m->mig_memory_slices};
    if (m->n_mig_profiles > MIG_MAX_PROFILES || m->mig_memory_slices > MIG_MAX_MEMORY_SLICES)
        return err_set(e, ERR_INVALID,
                       "%s: %zu profiles on %lld memory slices; at most %d on %d can be handled",
                       m->name, m->n_mig_profiles, (long long)m->mig_memory_slices,
                       MIG_MAX_PROFILES, MIG_MAX_MEMORY_SLICES);
    for (size_t i = 0; i < m->n_mig_profiles; i++) {
        TRY(read_profile(m, &m->mig_profiles[i], &t.profiles[i], e));
        if (t.profiles[i].slices > t.slices)
            t.slices = t.profiles[i].slices;
    }
    t.n_profiles = (unsigned)m->n_mig_profiles;
    if (mig_table_check(&t, e) < 0)
        return err_wrap(e, "%s", m->name);
    *ret = t;
    return 0;
}

static void write_profile(const struct mig_profile *from, struct device_mig_profile *to)
{
    *to = (struct device_mig_profile){
        .name = xstrdup(from->name),
        .id = from->id,
        .slices = from->slices,
        .memory_mib = (int64_t)from->memory_mib,
        .max_count = from->max_count,
        .multiprocessors = from->multiprocessors,
        .size = from->size,
        .has_engines = true,
        .engines = {.copy = from->engines.copy,
                    .decoder = from->engines.decoder,
                    .encoder = from->engines.encoder,
                    .jpeg = from->engines.jpeg,
                    .ofa = from->engines.ofa},
    };
    for (unsigned i = 0; i < from->n_starts; i++)
        *XPUSH(to->starts, to->n_starts) = from->starts[i];
}

void model_from_table(const char *name, const struct mig_table *t, struct device_model *ret)
{
    assert(!ret->name && !ret->mig_profiles && ret->n_mig_profiles == 0);
    ret->name = xstrdup(name);
    ret->mig_memory_slices = t->memory_slices;
    for (unsigned i = 0; i < t->n_profiles; i++)
        write_profile(&t->profiles[i], XPUSH(ret->mig_profiles, ret->n_mig_profiles));
}
