/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <string.h>

#include "base/auto.h"
#include "base/sb.h"

#include "partition/mig.h"

/* Room for the names of every profile of a table. */
#define MAX_OFFER_BYTES 2048

/* How far a name's GB may be from the profile's. Drivers, ECC and VBIOS move a card's memory by up
 * to a sixteenth (seen: 1g.23gb and 1g.24gb, 3g.90gb and 3g.95gb, 7g.180gb and 7g.189gb). Rounding
 * alone may add 1 GB to a small number, but no more than an eighth: 1g.5gb and 1g.6gb belong to two
 * models. */
#define GB_DRIFT    16
#define GB_ROUNDING 8

static bool is_near(unsigned gap, unsigned gb)
{
    return (uint64_t)gap * (gap > 1 ? GB_DRIFT : GB_ROUNDING) <= gb;
}

/* The GB under which 1g profiles without attributes are published: those of the smallest share of
 * memory, and those of twice as much (mig-parted's shipped configurations, nvidia.md 1.5). */
static const unsigned plain_gb[] = {5, 6, 10, 12, 16, 18, 23, 24, 34, 35};
static const unsigned doubled_gb[] = {10, 20, 24, 35, 36, 45, 47, 67, 70};

static bool is_among(unsigned gb, const unsigned *list, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (list[i] == gb)
            return true;
    return false;
}

/* True when a profile of the same slices and attributes has less memory. */
static bool is_doubled(const struct mig_table *t, unsigned profile, const struct mig_name *name)
{
    for (unsigned i = 0; i < t->n_profiles; i++) {
        struct mig_name p = {0};
        if (t->profiles[i].size < t->profiles[profile].size &&
            mig_name_parse(t->profiles[i].name, &p, NULL) == 0 && p.gi_slices == name->gi_slices &&
            strcmp(p.attr, name->attr) == 0)
            return true;
    }
    return false;
}

/* True when the name is published for only one of the two kinds of 1g, and the profile is of the
 * other. Then its closeness is chance: 1g.36gb is twice the memory on a GH200, and 1g.35gb the
 * smallest share on a GB300. */
static bool is_other_kind(const struct mig_table *t, unsigned profile, const struct mig_name *n)
{
    bool plain = is_among(n->gb, plain_gb, ARRAY_LEN(plain_gb));
    bool doubled = is_among(n->gb, doubled_gb, ARRAY_LEN(doubled_gb));
    return n->gi_slices == 1 && !*n->attr && plain != doubled &&
           doubled != is_doubled(t, profile, n);
}

static unsigned gap_between(unsigned a, unsigned b)
{
    return a > b ? a - b : b - a;
}

/* The profile closest in GB among those of the same slices and attributes; t->n_profiles: none. A
 * name that the card has always means that profile, whatever it means on other models. */
static unsigned find_profile(const struct mig_table *t, const struct mig_name *n)
{
    assert(t->n_profiles <= MIG_MAX_PROFILES);
    unsigned found = t->n_profiles;
    unsigned closest = UINT32_MAX;
    for (unsigned i = 0; i < t->n_profiles; i++) {
        struct mig_name p = {0};
        if (mig_name_parse(t->profiles[i].name, &p, NULL) < 0 || p.gi_slices != n->gi_slices ||
            strcmp(p.attr, n->attr) != 0)
            continue;
        unsigned gap = gap_between(p.gb, n->gb);
        if (gap < closest && is_near(gap, p.gb) && (gap == 0 || !is_other_kind(t, i, n))) {
            closest = gap;
            found = i;
        }
    }
    return found;
}

static int refuse_name(const struct mig_table *t, const struct mig_name *n, struct err *e)
{
    char name[MIG_NAME_BYTES];
    auto_sb struct sb offers = SB_INIT(MAX_OFFER_BYTES);
    for (unsigned i = 0; i < t->n_profiles; i++)
        sb_addf(&offers, "%s%s", i ? ", " : "", t->profiles[i].name);
    return err_set(e, ERR_NOT_FOUND, "the card has no profile %s; it offers %s",
                   mig_name_format(n, name), sb_str(&offers));
}

static int resolve_one(const struct mig_table *t, const struct mig_name *n, struct mig_want *ret,
                       struct err *e)
{
    unsigned p = find_profile(t, n);
    if (p == t->n_profiles)
        return refuse_name(t, n, e);
    if (n->ci_slices && mig_ci_max(n->gi_slices, n->ci_slices) == 0)
        return err_set(e, ERR_NOT_FOUND, "%s offers no compute instance of %u slices",
                       t->profiles[p].name, n->ci_slices);
    *ret = (struct mig_want){.profile = p, .ci_slices = n->ci_slices};
    return 0;
}

static int add_want(struct mig_wants *w, const struct mig_want *one, unsigned count, struct err *e)
{
    for (unsigned i = 0; i < w->n; i++) {
        struct mig_want *it = &w->items[i];
        if (it->profile != one->profile || it->ci_slices != one->ci_slices)
            continue;
        it->count += count < UINT32_MAX - it->count ? count : UINT32_MAX - it->count;
        return 0;
    }
    if (w->n == MIG_MAX_WANTS)
        return err_set(e, ERR_TOO_LARGE, "a layout names at most %u kinds of partitions",
                       MIG_MAX_WANTS);
    w->items[w->n] = *one;
    w->items[w->n++].count = count;
    return 0;
}

int mig_resolve(const struct mig_table *t, const struct mig_request *requests, size_t n,
                struct mig_wants *ret, struct err *e)
{
    struct mig_wants w = {0};
    for (size_t i = 0; i < n; i++) {
        struct mig_name name = {0};
        TRY(mig_name_parse(requests[i].profile, &name, e));
        if (requests[i].count == 0)
            continue;
        struct mig_want one = {0};
        TRY(resolve_one(t, &name, &one, e));
        TRY(add_want(&w, &one, requests[i].count, e));
    }
    *ret = w;
    return 0;
}

bool mig_rounds(const struct mig_table *t, const char *name, char *ret)
{
    struct mig_name n = {0};
    struct mig_name p = {0};
    if (mig_name_parse(name, &n, NULL) < 0 && mig_name_parse_label(name, &n, NULL) < 0)
        return false;
    unsigned profile = find_profile(t, &n);
    if (profile == t->n_profiles || mig_name_parse(t->profiles[profile].name, &p, NULL) < 0 ||
        p.gb == n.gb)
        return false;
    p.ci_slices = n.ci_slices;
    (void)mig_name_format(&p, ret);
    return true;
}

static int unknown_layout(const char *name, struct err *e)
{
    return err_set(e, ERR_NOT_FOUND, "the card has no built-in layout named %.60s", name);
}

/* all-<profile>: as many of it as the card allows. */
static int all_of_one(const struct mig_table *t, const char *name, struct mig_wants *ret,
                      struct err *e)
{
    struct mig_name n = {0};
    if (mig_name_parse_label(name + strlen("all-"), &n, NULL) < 0 || n.ci_slices)
        return unknown_layout(name, e);
    unsigned p = find_profile(t, &n);
    if (p == t->n_profiles)
        return unknown_layout(name, e);
    *ret = (struct mig_wants){.n = 1, .items = {{.profile = p, .count = t->profiles[p].max_count}}};
    return 0;
}

/* The profile without attributes of so many slices that fits most often. */
static unsigned base_profile(const struct mig_table *t, unsigned slices)
{
    unsigned found = t->n_profiles;
    for (unsigned i = 0; i < t->n_profiles; i++) {
        const struct mig_profile *p = &t->profiles[i];
        if (p->slices != slices || strpbrk(p->name, "+-"))
            continue;
        if (found == t->n_profiles || p->max_count > t->profiles[found].max_count)
            found = i;
    }
    return found;
}

/* mig-parted pkg/mig/builder: two of 1g, one of 2g, and on cards of seven slices one of 3g. */
static int balanced(const struct mig_table *t, const char *name, struct mig_wants *ret,
                    struct err *e)
{
    static const unsigned counts[] = {2, 1, 1};
    unsigned kinds = t->slices == 7 ? 3 : t->slices == 4 ? 2 : 0;
    assert(kinds <= ARRAY_LEN(counts));
    struct mig_wants w = {.n = kinds};
    for (unsigned i = 0; i < kinds; i++) {
        w.items[i] = (struct mig_want){.profile = base_profile(t, i + 1), .count = counts[i]};
        if (w.items[i].profile == t->n_profiles)
            return unknown_layout(name, e);
    }
    if (kinds == 0)
        return unknown_layout(name, e);
    *ret = w;
    return 0;
}

int mig_named_layout(const struct mig_table *t, const char *name, bool *ret_enabled,
                     struct mig_wants *ret, struct err *e)
{
    struct mig_wants w = {0};
    bool enabled = strcmp(name, "all-disabled") != 0;
    if (enabled && (!t || strncmp(name, "all-", strlen("all-")) != 0))
        return unknown_layout(name, e);
    if (strcmp(name, "all-balanced") == 0)
        TRY(balanced(t, name, &w, e));
    else if (enabled && strcmp(name, "all-enabled") != 0)
        TRY(all_of_one(t, name, &w, e));
    *ret_enabled = enabled;
    *ret = w;
    return 0;
}
