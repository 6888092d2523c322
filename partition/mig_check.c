/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <limits.h>
#include <string.h>

#include "base/auto.h"
#include "base/xalloc.h"

#include "partition/mig.h"

static_assert(MIG_MAX_SLICES <= MIG_MAX_CIS, "a GPU instance of 1c each is listed whole");
static_assert(MIG_MAX_MEMORY_SLICES <= UINT8_MAX, "starts are bytes");

static int refuse_value(const struct mig_profile *p, const char *what, uint64_t value,
                        uint64_t least, uint64_t most, struct err *e)
{
    return err_set(e, ERR_INVALID, "MIG profile %s: %s %llu, only %llu to %llu can be handled",
                   p->name, what, (unsigned long long)value, (unsigned long long)least,
                   (unsigned long long)most);
}

static int check_numbers(const struct mig_profile *p, struct err *e)
{
    const struct {
        const char *what;
        uint64_t value, least, most;
    } rows[] = {
        {"compute slices", p->slices, 1, MIG_MAX_SLICES},
        {"memory slices", p->size, p->n_starts ? 1 : 0, MIG_MAX_MEMORY_SLICES},
        {"placements", p->n_starts, 0, MIG_MAX_PLACEMENTS},
        {"count per card", p->max_count, 0, MIG_MAX_MEMORY_SLICES},
        {"id", p->id, 0, INT_MAX},
        {"multiprocessors", p->multiprocessors, 0, INT_MAX},
        {"MiB of memory", p->memory_mib, 0, MIG_MAX_MEMORY_MIB},
        {"copy engines", p->engines.copy, 0, INT_MAX},
        {"decoders", p->engines.decoder, 0, INT_MAX},
        {"encoders", p->engines.encoder, 0, INT_MAX},
        {"JPEG engines", p->engines.jpeg, 0, INT_MAX},
        {"optical flow engines", p->engines.ofa, 0, INT_MAX},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        if (rows[i].value < rows[i].least || rows[i].value > rows[i].most)
            return refuse_value(p, rows[i].what, rows[i].value, rows[i].least, rows[i].most, e);
    return 0;
}

static int check_placements(const struct mig_table *t, const struct mig_profile *p, struct err *e)
{
    for (unsigned i = 0; i < p->n_starts; i++) {
        if (p->starts[i] + p->size > t->memory_slices)
            return err_set(e, ERR_INVALID,
                           "MIG profile %s has placement %u:%u, which is not on a grid of %u "
                           "memory slices",
                           p->name, p->starts[i], p->size, t->memory_slices);
        if (i > 0 && p->starts[i] <= p->starts[i - 1])
            return err_set(e, ERR_INVALID,
                           "MIG profile %s has placement %u:%u twice, or not in ascending order",
                           p->name, p->starts[i], p->size);
    }
    return 0;
}

static int check_identity(const struct mig_table *t, unsigned at, struct err *e)
{
    const struct mig_profile *p = &t->profiles[at];
    for (unsigned i = 0; i < at; i++) {
        if (strcmp(t->profiles[i].name, p->name) == 0)
            return err_set(e, ERR_INVALID, "two MIG profiles have the name %s", p->name);
        if (t->profiles[i].id == p->id)
            return err_set(e, ERR_INVALID, "MIG profiles %s and %s both have id %u",
                           t->profiles[i].name, p->name, p->id);
    }
    return 0;
}

int mig_table_check(const struct mig_table *t, struct err *e)
{
    if (t->n_profiles > MIG_MAX_PROFILES || t->memory_slices > MIG_MAX_MEMORY_SLICES)
        return err_set(e, ERR_INVALID,
                       "%u MIG profiles on %u memory slices; at most %d on %d can be handled",
                       t->n_profiles, t->memory_slices, MIG_MAX_PROFILES, MIG_MAX_MEMORY_SLICES);
    for (unsigned i = 0; i < t->n_profiles; i++) {
        TRY(check_numbers(&t->profiles[i], e));
        TRY(check_placements(t, &t->profiles[i], e));
        TRY(check_identity(t, i, e));
    }
    if (t->slices > MIG_MAX_SLICES)
        return err_set(e, ERR_INVALID, "%u compute slices; at most %d can be handled", t->slices,
                       MIG_MAX_SLICES);
    return 0;
}
