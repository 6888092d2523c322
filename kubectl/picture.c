/* SPDX-License-Identifier: Apache-2.0 */
#include "kubectl/picture.h"

#include <string.h>

#include "base/sb.h"
#include "base/xalloc.h"

#include "kubectl/status_card.h"
#include "kubectl/text.h"
#include "partition/mig_part.h"
#include "partition/mig_room.h"

/* Several compute instances share the place of their GPU instance, eight at most. */
enum { SLICE_WEIGHT = 8, WORDS_BYTES = 400 };

static struct picture_part *add(struct picture *p, const char *name, uint64_t weight,
                                enum part_state state, const struct device_partition *from)
{
    struct picture_part *to = XPUSH(p->parts, p->n);
    *to = (struct picture_part){.name = xstrdup(name ? name : ""),
                                .weight = weight,
                                .state = state,
                                .from = from,
                                .free = state == PART_FREE};
    return to;
}

/* The agent offers nothing of a card that is ill, whoever has it. */
static enum part_state state_of(const struct device_card *card, const struct device_partition *p)
{
    if (!card->healthy || p->has_unhealthy)
        return PART_ILL;
    return p->in_use || p->n_in_use_by ? PART_USED : PART_FREE;
}

/* Containers are listed by name, once for each replica that they have; whoever else uses it counts as
 * one. A list that is full may lack some, so that none is said to be free. */
static void count_replicas(struct picture_part *p, int64_t replicas,
                           const struct device_consumer *list, size_t n)
{
    int64_t taken = 0;
    if (replicas < 2)
        return;
    for (size_t i = 0; i < n; i++)
        taken += list[i].name != NULL;
    if (taken == 0 && p->state == PART_USED)
        taken = 1;
    bool is_known = p->state != PART_ILL && n < DEVICE_MAX_CONSUMERS;
    p->replicas = replicas;
    p->free = is_known && taken < replicas ? (size_t)(replicas - taken) : 0;
}

static uint64_t positive(int64_t n)
{
    return n > 0 ? (uint64_t)n : 0;
}

/* --- Partitions of MIG --- */

struct place {
    unsigned start, size, sharers;
    const struct device_partition *from;
};

static int by_place(const void *a, const void *b)
{
    const struct place *x = a;
    const struct place *y = b;
    if (x->start != y->start)
        return x->start < y->start ? -1 : 1;
    return x->from < y->from ? -1 : x->from > y->from;
}

static struct place *places_of(const struct device_card *card, size_t *ret_n)
{
    struct place *list = NULL;
    size_t n = 0;
    for (size_t i = 0; i < card->n_partitions; i++) {
        const struct device_partition *p = &card->partitions[i];
        struct place at = {.sharers = 1, .from = p};
        if (mig_part_place(p->placement, &at.start, &at.size))
            *XPUSH(list, n) = at;
    }
    if (n)
        qsort(list, n, sizeof(*list), by_place);
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < n; k++)
            list[i].sharers += k != i && list[k].start == list[i].start;
    *ret_n = n;
    return list;
}

static void picture_mig(const struct device_card *card, const struct mig_table *table,
                        struct picture *ret)
{
    size_t n;
    unsigned at = 0;
    auto_free struct place *places = places_of(card, &n);
    for (size_t i = 0; i < n; i++) {
        const struct place *p = &places[i];
        if (p->start > at)
            (void)add(ret, "", (uint64_t)(p->start - at) * SLICE_WEIGHT, PART_UNCUT, NULL);
        struct picture_part *part =
            add(ret, p->from->profile, (uint64_t)p->size * SLICE_WEIGHT / p->sharers,
                state_of(card, p->from), p->from);
        count_replicas(part, p->from->replicas, p->from->in_use_by, p->from->n_in_use_by);
        if (p->start + p->size > at)
            at = p->start + p->size;
    }
    if (table && table->memory_slices > at)
        (void)add(ret, "", (uint64_t)(table->memory_slices - at) * SLICE_WEIGHT, PART_UNCUT, NULL);
}

/* --- Cards that are divided by memory --- */

/* A pod may have a card whole that gives shares: then it gives none. */
static bool is_shared(const struct device_card *card)
{
    bool whole = card->n_partitions == 0 && card->n_in_use_by;
    return card->mode == API_MODE_NATIVE && card->has_fractional && !whole;
}

/* The name of a part: of a share, which has none that says anything to a person, what it has.
 * Caller frees. */
static char *name_of(const struct device_card *card, const struct device_partition *p)
{
    if (card->mode == API_MODE_NATIVE && p->has_slice)
        return xasprintf("%lld MiB %lld %%", (long long)p->slice.memory_mib,
                         (long long)p->slice.compute_percent);
    return xstrdup(p->has_slice && p->slice.alias ? p->slice.alias : p->profile);
}

/* Shares have no place on a card: by their pods a person finds one. */
static int by_user(const void *a, const void *b)
{
    const struct device_partition *x = ((const struct picture_part *)a)->from;
    const struct device_partition *y = ((const struct picture_part *)b)->from;
    if (x->n_in_use_by == 0 || y->n_in_use_by == 0)
        return (x->n_in_use_by == 0) - (y->n_in_use_by == 0);
    int order = text_order(x->in_use_by[0].namespace, y->in_use_by[0].namespace);
    order = order ? order : text_order(x->in_use_by[0].name, y->in_use_by[0].name);
    return order ? order : text_order(x->uuid, y->uuid);
}

/* total 0: unknown. */
static void picture_memory(const struct device_card *card, uint64_t total, struct picture *ret)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < card->n_partitions; i++) {
        const struct device_partition *p = &card->partitions[i];
        uint64_t memory = positive(p->has_vf ? p->vf.memory_mib : p->slice.memory_mib);
        auto_free char *name = name_of(card, p);
        (void)add(ret, name, memory ? memory : 1, state_of(card, p), p);
        sum += memory;
    }
    if (is_shared(card) && ret->n)
        qsort(ret->parts, ret->n, sizeof(*ret->parts), by_user);
    if (total > sum)
        (void)add(ret, "", total - sum, PART_UNCUT, NULL);
}

static void picture_whole(const struct device_card *card, struct picture *ret)
{
    enum part_state state = card->in_use || card->n_in_use_by ? PART_USED : PART_FREE;
    struct picture_part *gpu = add(ret, "gpu", 1, card->healthy ? state : PART_ILL, NULL);
    count_replicas(gpu, card->replicas, card->in_use_by, card->n_in_use_by);
}

/* --- Room in words --- */

static size_t free_of(const struct picture *p, const char *name, size_t from)
{
    size_t n = 0;
    for (size_t i = from; i < p->n; i++)
        n += strcmp(p->parts[i].name, name) == 0 ? p->parts[i].free : 0;
    return n;
}

static bool is_first(const struct picture *p, size_t i)
{
    for (size_t k = 0; k < i; k++)
        if (p->parts[k].free && strcmp(p->parts[k].name, p->parts[i].name) == 0)
            return false;
    return true;
}

static void add_free_parts(const struct picture *p, struct sb *b)
{
    for (size_t i = 0; i < p->n; i++)
        if (p->parts[i].free && is_first(p, i))
            sb_addf(b, "%s%zux %s", b->len ? ", " : "", free_of(p, p->parts[i].name, i),
                    p->parts[i].name);
}

static void add_share_room(const struct device_card *card, struct sb *b)
{
    int64_t memory = card->fractional.memory_mib;
    int64_t compute = card->fractional.compute_percent;
    int64_t shares = card->fractional.max_shares - (int64_t)card->n_partitions;
    for (size_t i = 0; i < card->n_partitions; i++) {
        memory -= card->partitions[i].slice.memory_mib;
        compute -= card->partitions[i].slice.compute_percent;
    }
    long long most = card->fractional.max_shares;
    if (shares > 0 && memory > 0)
        sb_addf(b, "room for %lld MiB, %lld %%, in %lld of %lld shares", (long long)memory,
                (long long)(compute > 0 ? compute : 0), (long long)shares, most);
    else if (shares > 0)
        sb_addf(b, "none: all %lld MiB of memory are given out",
                (long long)card->fractional.memory_mib);
    else
        sb_addf(b, "none: %zu of %lld shares are given out", card->n_partitions, most);
}

/* The largest partition that could be made beside those that stand. NULL: none, or the card is in
 * another mode. Borrowed from the table. */
static const struct mig_profile *partition_room(const struct device_card *card,
                                                const struct mig_table *table)
{
    if (!table || card->mode != API_MODE_MIG)
        return NULL;
    auto_free struct gpu_card *now = xmalloc(sizeof(*now));
    status_card_read(card, table, now);
    const struct mig_profile *largest = mig_room(table, &now->state).largest;
    gpu_card_done(now);
    return largest;
}

static char *room_words(const struct device_card *card, const struct mig_table *table,
                        const struct picture *p)
{
    auto_sb struct sb b = SB_INIT(WORDS_BYTES);
    if (!card->healthy)
        return xstrdup("");
    if (is_shared(card)) {
        add_share_room(card, &b);
        return sb_take(&b);
    }
    add_free_parts(p, &b);
    const struct picture_part *last = p->n ? &p->parts[p->n - 1] : NULL;
    if (card->mode == API_MODE_SGPU && last && last->state == PART_UNCUT)
        sb_addf(&b, "%sroom for %llu MiB", b.len ? "; " : "", (unsigned long long)last->weight);
    const struct mig_profile *more = partition_room(card, table);
    if (more)
        sb_addf(&b, "%sroom for %s", b.len ? "; " : "", more->name);
    return sb_take(&b);
}

void picture_make(const struct device_card *card, const struct mig_table *table,
                  struct picture *ret)
{
    *ret = (struct picture){0};
    if (card->mode == API_MODE_MIG)
        picture_mig(card, table, ret);
    else if (card->mode == API_MODE_SGPU)
        picture_memory(card, positive(card->sgpu.memory_mib), ret);
    else if (card->mode == API_MODE_VGPU)
        picture_memory(card, 0, ret);
    else if (is_shared(card))
        picture_memory(card, positive(card->fractional.memory_mib), ret);
    else
        picture_whole(card, ret);
    ret->room = room_words(card, table, ret);
}

const struct device_consumer *picture_users(const struct device_card *card,
                                            const struct picture_part *p, size_t *ret_n)
{
    bool whole = !p->from && p->state != PART_UNCUT;
    *ret_n = p->from ? p->from->n_in_use_by : whole ? card->n_in_use_by : 0;
    return p->from ? p->from->in_use_by : card->in_use_by;
}

void picture_done(struct picture *p)
{
    for (size_t i = 0; i < p->n; i++)
        free(p->parts[i].name);
    free(p->parts);
    free(p->room);
    *p = (struct picture){0};
}
