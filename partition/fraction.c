/* SPDX-License-Identifier: Apache-2.0 */
#include "partition/fraction.h"

#include <assert.h>
#include <ctype.h>
#include <limits.h>
#include <string.h>
#include <strings.h>

/* The policies and rules of one card; fraction_search.c chooses among several. */

const char *const fraction_policy_names[FRACTION_N_POLICIES] = {"binpack", "spread", "numa",
                                                                "mutex", "topology-aware"};

const char *const fraction_misfit_names[FRACTION_N_MISFITS] = {
    [FRACTION_ILL] = "CardNotHealth",
    [FRACTION_CORDONED] = "CardCordoned",
    [FRACTION_MODEL] = "CardTypeMismatch",
    [FRACTION_UUID] = "CardUuidMismatch",
    [FRACTION_PART] = "CardGivesNoPart",
    [FRACTION_LONELY] = "CardServesOneShare",
    [FRACTION_SHARES] = "CardTimeSlicingExhausted",
    [FRACTION_BUSY] = "ExclusiveDeviceAllocateConflict",
    [FRACTION_MEMORY] = "CardInsufficientMemory",
    [FRACTION_COMPUTE] = "CardInsufficientCore",
    [FRACTION_SHARED] = "ExclusiveDeviceAllocateConflict",
    [FRACTION_TAKEN] = "CardComputeUnitsExhausted",
};

enum { WHOLE_PERCENT = 100 };

/* --- The wishes --- */

/* The next item of a comma list, without blanks around it; false: there is none. Empty items are
 * passed over. */
static bool next_item(const char **list, const char **ret, size_t *ret_len)
{
    while (*list && **list) {
        const char *item = *list;
        while (*item == ' ' || *item == '\t')
            item++;
        size_t len = strcspn(item, ",");
        *list = item + len + (item[len] == ',');
        while (len && isspace((unsigned char)item[len - 1]))
            len--;
        if (!len)
            continue;
        *ret = item;
        *ret_len = len;
        return true;
    }
    return false;
}

static bool has_items(const char *list)
{
    const char *item;
    size_t len;
    return next_item(&list, &item, &len);
}

static bool has_part(const char *text, const char *part, size_t len)
{
    size_t n = strlen(text);
    int first = tolower((unsigned char)part[0]);
    for (size_t i = 0; i + len <= n; i++)
        if (tolower((unsigned char)text[i]) == first && strncasecmp(text + i, part, len) == 0)
            return true;
    return false;
}

static bool names_model(const char *list, const char *model)
{
    const char *item;
    size_t len;
    while (next_item(&list, &item, &len))
        if (has_part(model, item, len))
            return true;
    return false;
}

bool fraction_names_uuid(const char *list, const char *uuid)
{
    const char *item;
    size_t len;
    while (next_item(&list, &item, &len))
        if (strlen(uuid) == len && strncmp(uuid, item, len) == 0)
            return true;
    return false;
}

static bool wants_mutex(const struct fraction_wish *w)
{
    for (unsigned i = 0; i < w->n_policies; i++)
        if (w->policies[i] == FRACTION_MUTEX)
            return true;
    return false;
}

/* --- One card --- */

bool fraction_is_whole(const struct fraction_ask *a)
{
    return !a->memory_mib && a->memory_percent == WHOLE_PERCENT && a->percent == WHOLE_PERCENT;
}

struct fraction_size fraction_share(const struct fraction_card *c, const struct fraction_ask *a)
{
    uint64_t part = (uint64_t)c->total.memory_mib * a->memory_percent / WHOLE_PERCENT;
    assert(a->memory_percent <= WHOLE_PERCENT);
    return (struct fraction_size){a->memory_mib ? a->memory_mib : (unsigned)part, a->percent, 1};
}

static unsigned left(unsigned total, unsigned used)
{
    return used < total ? total - used : 0;
}

struct fraction_size fraction_room(const struct fraction_card *c)
{
    return (struct fraction_size){left(c->total.memory_mib, c->used.memory_mib),
                                  left(c->total.percent, c->used.percent),
                                  left(c->total.shares, c->used.shares)};
}

static unsigned plus(unsigned a, unsigned b)
{
    return b < UINT_MAX - a ? a + b : UINT_MAX;
}

struct fraction_size fraction_add(struct fraction_size a, struct fraction_size b)
{
    return (struct fraction_size){plus(a.memory_mib, b.memory_mib), plus(a.percent, b.percent),
                                  plus(a.shares, b.shares)};
}

static bool allows_model(const struct fraction_wish *w, const char *model)
{
    return (!has_items(w->use_models) || names_model(w->use_models, model)) &&
           !names_model(w->no_models, model);
}

static bool allows_uuid(const struct fraction_wish *w, const char *uuid)
{
    return (!has_items(w->use_uuids) || fraction_names_uuid(w->use_uuids, uuid)) &&
           !fraction_names_uuid(w->no_uuids, uuid);
}

static const char *text_of(const char *text)
{
    return text ? text : "";
}

/* The cards of a node are mostly of one model. */
void fraction_listed(const struct fraction_card *cards, unsigned n, const struct fraction_wish *w,
                     enum fraction_misfit *ret)
{
    bool allowed = false;
    for (unsigned i = 0; i < n; i++) {
        const char *model = text_of(cards[i].model);
        if (!i || strcmp(model, text_of(cards[i - 1].model)) != 0)
            allowed = allows_model(w, model);
        if (!allowed)
            ret[i] = FRACTION_MODEL;
        else
            ret[i] = allows_uuid(w, text_of(cards[i].uuid)) ? FRACTION_FITS : FRACTION_UUID;
    }
}

/* That all of a card's compute means the card alone is so where compute is not oversubscribed. */
enum fraction_misfit fraction_fit_listed(const struct fraction_card *c,
                                         const struct fraction_ask *a,
                                         const struct fraction_wish *w, enum fraction_misfit listed)
{
    struct fraction_size share = fraction_share(c, a);
    struct fraction_size room = fraction_room(c);
    if (c->ill)
        return FRACTION_ILL;
    if (c->cordoned)
        return FRACTION_CORDONED;
    if (listed != FRACTION_FITS)
        return listed;
    if (c->only_whole && !fraction_is_whole(a))
        return FRACTION_PART;
    if (c->lonely && a->count > 1)
        return FRACTION_LONELY;
    if (!room.shares)
        return FRACTION_SHARES;
    if (c->used.shares && wants_mutex(w))
        return FRACTION_BUSY;
    if (!share.memory_mib || share.memory_mib > room.memory_mib)
        return FRACTION_MEMORY;
    if (share.percent > room.percent)
        return FRACTION_COMPUTE;
    if (share.percent == WHOLE_PERCENT && c->total.percent == WHOLE_PERCENT && c->used.shares)
        return FRACTION_SHARED;
    return !share.percent && c->total.percent && !room.percent ? FRACTION_TAKEN : FRACTION_FITS;
}

enum fraction_misfit fraction_fit(const struct fraction_card *c, const struct fraction_ask *a,
                                  const struct fraction_wish *w)
{
    enum fraction_misfit listed;
    fraction_listed(c, 1, w, &listed);
    return fraction_fit_listed(c, a, w, listed);
}

/* --- Several cards --- */

static unsigned near(const struct fraction_card *cards, uint64_t set, int numa)
{
    unsigned n = 0;
    for (uint64_t rest = set; rest; rest &= rest - 1)
        n += cards[__builtin_ctzll(rest)].numa == numa;
    return numa < 0 && n ? 1 : n;
}

unsigned fraction_together(const struct fraction_card *cards, uint64_t set,
                           const struct fraction_wish *w)
{
    unsigned most = 0;
    if (!w->one_numa)
        return (unsigned)__builtin_popcountll(set);
    for (uint64_t rest = set; rest; rest &= rest - 1) {
        unsigned n = near(cards, set, cards[__builtin_ctzll(rest)].numa);
        most = n > most ? n : most;
    }
    return most;
}

/* --- The order of the policies --- */

/* How full a card is, in millionths of the sum of the weights. */
static uint64_t fullness(const struct fraction_card *c, const struct fraction_wish *w)
{
    enum { MILLION = 1000000 };
    bool equal = !w->weights.shares && !w->weights.percent && !w->weights.memory;
    const struct {
        uint64_t weight, used, total;
    } parts[] = {
        {equal ? 1 : w->weights.shares, c->used.shares, c->total.shares},
        {equal ? 1 : w->weights.percent, c->used.percent, c->total.percent},
        {equal ? 1 : w->weights.memory, c->used.memory_mib, c->total.memory_mib},
    };
    uint64_t sum = 0;
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
        if (parts[i].total)
            sum += parts[i].weight * (parts[i].used * MILLION / parts[i].total);
    return sum;
}

static int compare(uint64_t a, uint64_t b)
{
    return (a > b) - (a < b);
}

/* What the policies look at. */
struct rank {
    uint64_t fullness;
    int numa;
};

static bool puts_in_order(enum fraction_policy policy)
{
    return policy == FRACTION_BINPACK || policy == FRACTION_SPREAD || policy == FRACTION_NUMA;
}

/* Negative: a comes before b. */
static int compare_by(enum fraction_policy policy, const struct rank *a, const struct rank *b)
{
    if (policy == FRACTION_BINPACK)
        return compare(b->fullness, a->fullness);
    if (policy == FRACTION_SPREAD)
        return compare(a->fullness, b->fullness);
    return policy == FRACTION_NUMA ? (a->numa < b->numa) - (a->numa > b->numa) : 0;
}

static int compare_ranks(const struct rank *a, const struct rank *b, const struct fraction_wish *w)
{
    int order = 0;
    bool any = false;
    for (unsigned i = 0; i < w->n_policies && !order; i++) {
        any |= puts_in_order(w->policies[i]);
        order = compare_by(w->policies[i], a, b);
    }
    return any ? order : compare_by(FRACTION_SPREAD, a, b);
}

void fraction_order(const struct fraction_card *cards, unsigned n, const struct fraction_wish *w,
                    uint8_t *ret)
{
    struct rank ranks[FRACTION_MAX_CARDS];
    assert(n <= FRACTION_MAX_CARDS && w->n_policies <= FRACTION_N_POLICIES);
    for (unsigned i = 0; i < n; i++) {
        unsigned at = i;
        ranks[i] = (struct rank){fullness(&cards[i], w), cards[i].numa};
        for (; at && compare_ranks(&ranks[i], &ranks[ret[at - 1]], w) < 0; at--)
            ret[at] = ret[at - 1];
        ret[at] = (uint8_t)i;
    }
}
