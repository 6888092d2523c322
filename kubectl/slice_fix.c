/* SPDX-License-Identifier: Apache-2.0 */
#include "kubectl/slice_fix.h"

#include <string.h>

#include "base/jx.h"
#include "base/sb.h"
#include "base/xalloc.h"

#include "partition/sgpu.h"
#include "partition/vendor.h"

enum { TEXT_BYTES = 1000 };

const char *slice_fix_kind(const char *resource)
{
    for (const struct vendor *v = vendors; v->name; v++) {
        size_t len = v->slice ? strlen(v->slice) : 0;
        if (len && strncmp(resource, v->slice, len) == 0 && resource[len] == '-')
            return resource + len + 1;
    }
    return NULL;
}

/* --- The wants of the node --- */

static struct device_slice_want *entry_of(const struct device_sgpu *s, const char *kind)
{
    for (size_t i = 0; i < s->n_slices; i++)
        if (s->slices[i].alias && strcmp(s->slices[i].alias, kind) == 0)
            return &s->slices[i];
    return NULL;
}

/* The first slice of the kind in the wants of the node, and its want; NULL: none names it. */
static const struct device_slice_want *find_kind(const struct device_spec *spec, const char *kind,
                                                 const struct device_sgpu **ret_of)
{
    for (size_t i = 0; spec && i < spec->n_devices; i++) {
        const struct device_want *want = &spec->devices[i];
        const struct device_slice_want *w = entry_of(&want->sgpu, kind);
        if (want->mode != API_MODE_SGPU || !w)
            continue;
        *ret_of = &want->sgpu;
        return w;
    }
    return NULL;
}

static int64_t count_of(const struct device_slice_want *w)
{
    return w->count ? w->count : 1;
}

/* Adds so many slices of this size to a want without the kind. of: the want that has this one, whose
 * policy a card without slices takes. */
static void add_kind(const struct device_slice_want *w, unsigned count,
                     const struct device_sgpu *of, struct device_sgpu *to)
{
    if (to->n_slices == 0) {
        to->has_qos_policy = of->has_qos_policy;
        to->qos_policy = of->qos_policy;
        to->timeslice_ms = of->timeslice_ms;
    }
    struct device_slice_want *slice = XPUSH(to->slices, to->n_slices);
    *slice = *w;
    slice->alias = xstrdup(w->alias);
    slice->count = count;
}

/* Makes the card's want with so many slices of the kind more, all others as they are. False: the card
 * cannot have slices of a layout, or how large they are is not known. */
static bool want_more(const struct device_card *card, const struct device_spec *spec,
                      const char *kind, unsigned more, struct device_sgpu *ret)
{
    const struct device_want *want = device_spec_want(spec, card->uuid);
    const struct device_sgpu *of = NULL;
    const struct device_slice_want *known = find_kind(spec, kind, &of);
    bool cut = want && want->mode == API_MODE_SGPU && want->sgpu.n_slices > 0;
    if (!known || !card->has_sgpu || card->has_drain || (!cut && card->mode != API_MODE_NATIVE))
        return false;
    *ret = (struct device_sgpu){0};
    if (cut)
        device_sgpu_copy(&want->sgpu, ret);
    struct device_slice_want *entry = entry_of(ret, kind);
    if (entry)
        entry->count = count_of(entry) + more;
    else
        add_kind(known, more, of, ret);
    return true;
}

/* --- The search --- */

struct search {
    const struct device_card *card;
    const struct device_sgpu *full; /* with all others */
    const char *kind;
    struct fix_effort *effort;
    int64_t *counts; /* of each of its slices */
    struct layout_fix *best;
    bool found;
};

/* The card's want with the counts. Borrows the aliases. */
static struct device_want want_of(const struct search *s, struct device_slice_want *slices)
{
    struct device_want w = {.mode = API_MODE_SGPU, .has_sgpu = true, .sgpu = *s->full};
    w.sgpu.slices = slices;
    w.sgpu.n_slices = 0;
    for (size_t i = 0; i < s->full->n_slices; i++)
        if (s->counts[i] > 0) {
            slices[w.sgpu.n_slices] = s->full->slices[i];
            slices[w.sgpu.n_slices++].count = s->counts[i];
        }
    return w;
}

static char *layout_text(const struct device_sgpu *l)
{
    auto_sb struct sb b = SB_INIT(TEXT_BYTES);
    for (size_t i = 0; i < l->n_slices; i++)
        sb_addf(&b, "%s%s: %lld (%lld MiB %lld %%)", i ? ", " : "", l->slices[i].alias,
                (long long)l->slices[i].count, (long long)l->slices[i].memory_mib,
                (long long)l->slices[i].compute_percent);
    return sb_take(&b);
}

static void try_counts(struct search *s)
{
    struct layout_fix fix;
    auto_free struct device_slice_want *slices = xcalloc(s->full->n_slices, sizeof(*slices));
    if (!fix_effort_spend(s->effort, /* plans= */ 1))
        return;
    struct device_want want = want_of(s, slices);
    auto_free char *text = layout_text(&want.sgpu);
    if (!layout_fix_want(s->card, /* table= */ NULL, &want, text, &fix))
        return;
    if (s->found && !fix_cost_is_less(&fix.cost, &s->best->cost)) {
        layout_fix_done(&fix);
        return;
    }
    if (s->found)
        layout_fix_done(s->best);
    *s->best = fix;
    s->found = true;
}

/* Tries all numbers of the other kinds from this one on, the most first; nothing is cheaper than a
 * change by which nothing goes. */
static void try_fewer(struct search *s, size_t i)
{
    if (i == s->full->n_slices) {
        try_counts(s);
        return;
    }
    int64_t all = count_of(&s->full->slices[i]);
    bool fixed = strcmp(s->full->slices[i].alias, s->kind) == 0;
    for (int64_t n = all; n >= (fixed ? all : 0); n--) {
        if ((s->found && s->best->cost.goes == 0) || s->effort->cut)
            return;
        s->counts[i] = n;
        try_fewer(s, i + 1);
    }
}

bool slice_fix_find(const struct device_card *card, const struct device_spec *spec,
                    const char *kind, unsigned more, struct fix_effort *effort,
                    struct layout_fix *ret)
{
    struct device_sgpu full;
    if (more > SGPU_MAX_SLICES || !want_more(card, spec, kind, more, &full))
        return false;
    auto_free int64_t *counts = xcalloc(full.n_slices, sizeof(*counts));
    struct search s = {card, &full, kind, effort, counts, ret, false};
    try_fewer(&s, 0);
    jx_free(device_sgpu_fields, &full);
    return s.found;
}
