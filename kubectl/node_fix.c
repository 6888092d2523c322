/* SPDX-License-Identifier: Apache-2.0 */
#include "kubectl/node_fix.h"

#include <assert.h>
#include <string.h>

#include "base/xalloc.h"

#include "kubectl/slice_fix.h"
#include "kubectl/status_card.h"
#include "partition/mig_name.h"
#include "partition/vendor.h"

/* --- What one card can give --- */

/* The partition that the resource means ("nvidia.com/mig-1g.10gb"). buf: MIG_NAME_BYTES. */
static bool partition_of(const char *resource, char *buf)
{
    struct mig_name name;
    for (const struct vendor *v = vendors; v->name; v++) {
        size_t len = v->part ? strlen(v->part) : 0;
        if (!len || strncmp(resource, v->part, len) != 0 ||
            mig_name_parse_label(resource + len, &name, NULL) < 0)
            continue;
        (void)mig_name_format(&name, buf);
        return true;
    }
    return false;
}

static bool is_whole_card(const char *resource, const char *vendor)
{
    const struct vendor *v = vendor ? vendor_find(vendor) : NULL;
    return v && strcmp(resource, v->card) == 0;
}

bool node_fix_can_give(const char *resource)
{
    char profile[MIG_NAME_BYTES];
    for (const struct vendor *v = vendors; v->name; v++)
        if (is_whole_card(resource, v->name))
            return true;
    return partition_of(resource, profile) || slice_fix_kind(resource);
}

/* The changes of one card: items[i] gives i + 1 more, each for the least that it takes. */
struct options {
    struct layout_fix *items;
    unsigned n;
};

struct card_ask {
    const char *resource;
    unsigned more;
    struct fix_effort *effort;
};

static void add_partitions(const struct device_card *card, const struct mig_table *t,
                           const char *profile, const struct card_ask *ask, struct options *ret)
{
    while (ret->n < ask->more &&
           layout_fix_partitions(card, t, profile, ret->n + 1, ask->effort, &ret->items[ret->n]))
        ret->n++;
}

static void add_slices(const struct device_card *card, const struct device_spec *spec,
                       const char *kind, const struct card_ask *ask, struct options *ret)
{
    while (ret->n < ask->more &&
           slice_fix_find(card, spec, kind, ret->n + 1, ask->effort, &ret->items[ret->n]))
        ret->n++;
}

static void find_options(const struct device_status *st, const struct device_spec *spec,
                         const struct device_card *card, const struct card_ask *ask,
                         struct options *ret)
{
    char profile[MIG_NAME_BYTES];
    const struct device_want whole = {.mode = API_MODE_NATIVE};
    auto_free struct mig_table *t = status_card_table(st, card);
    ret->items = xcalloc(ask->more, sizeof(*ret->items));
    if (is_whole_card(ask->resource, card->vendor))
        ret->n = card->mode != API_MODE_NATIVE &&
                 layout_fix_want(card, t, &whole, "native", &ret->items[0]);
    else if (t && partition_of(ask->resource, profile))
        add_partitions(card, t, profile, ask, ret);
    else if (slice_fix_kind(ask->resource))
        add_slices(card, spec, slice_fix_kind(ask->resource), ask, ret);
}

static void options_done(struct options *o)
{
    for (unsigned i = 0; i < o->n; i++)
        layout_fix_done(&o->items[i]);
    free(o->items);
}

/* --- Which cards change, and how --- */

/* The cheapest way to have so many from the cards so far. */
struct sum {
    bool there;
    struct fix_cost cost;
};

struct search {
    const struct device_status *st;
    struct options *options; /* of each card */
    unsigned char *taken;    /* of each card, by the sum with it: how many of the sum it gives */
    struct sum *least;       /* by the sum */
    unsigned more;
};

static void search_init(struct search *s, const struct device_status *st, unsigned more)
{
    *s = (struct search){.st = st,
                         .options = xcalloc(st->n_devices, sizeof(*s->options)),
                         .taken = xcalloc(st->n_devices, more + 1),
                         .least = xcalloc(more + 1, sizeof(*s->least)),
                         .more = more};
    s->least[0].there = true;
}

static void search_done(struct search *s)
{
    for (size_t i = 0; i < s->st->n_devices; i++)
        options_done(&s->options[i]);
    free(s->options);
    free(s->taken);
    free(s->least);
}

static unsigned char *taken_of(struct search *s, size_t card, unsigned sum)
{
    return &s->taken[card * (s->more + 1) + sum];
}

/* Adds one card more to the sums, the largest first: each is made of one without the card. */
static void add_card(struct search *s, size_t card)
{
    const struct options *o = &s->options[card];
    for (unsigned sum = s->more; sum > 0; sum--)
        for (unsigned gives = 1; gives <= o->n && gives <= sum; gives++) {
            const struct sum *without = &s->least[sum - gives];
            struct fix_cost cost = fix_cost_sum(&without->cost, &o->items[gives - 1].cost);
            if (!without->there ||
                (s->least[sum].there && !fix_cost_is_less(&cost, &s->least[sum].cost)))
                continue;
            s->least[sum] = (struct sum){true, cost};
            *taken_of(s, card, sum) = (unsigned char)gives;
        }
}

void node_fix_add(struct node_fix *f, const struct device_card *card,
                  const struct device_want *want, const struct layout_fix *layout_take)
{
    struct card_fix *to = XPUSH(f->cards, f->n);
    to->card = status_card_title(card->vendor, card->index);
    to->uuid = xstrdup(card->uuid);
    to->source = xstrdup(want && want->has_source ? want->source.name : NULL);
    to->by_label = to->source && want->source.kind == API_SOURCE_NODE_LABEL;
    to->layout = *layout_take;
}

static void take_card(struct search *s, size_t i, unsigned gives, const struct device_spec *spec,
                      struct node_fix *ret)
{
    const struct device_card *card = &s->st->devices[i];
    struct layout_fix *layout = &s->options[i].items[gives - 1];
    node_fix_add(ret, card, device_spec_want(spec, card->uuid), layout);
    *layout = (struct layout_fix){0};
}

static void take_all(struct search *s, const struct device_spec *spec, struct node_fix *ret)
{
    unsigned sum = s->more;
    *ret = (struct node_fix){.cost = s->least[sum].cost};
    for (size_t i = s->st->n_devices; i-- > 0;) {
        unsigned gives = *taken_of(s, i, sum);
        if (gives)
            take_card(s, i, gives, spec, ret);
        sum -= gives;
    }
    assert(sum == 0);
    for (size_t i = 0; i < ret->n / 2; i++) {
        struct card_fix last = ret->cards[ret->n - 1 - i];
        ret->cards[ret->n - 1 - i] = ret->cards[i];
        ret->cards[i] = last;
    }
}

bool node_fix_find(const struct device_status *st, const struct device_spec *spec,
                   const char *resource, unsigned more, struct fix_effort *effort,
                   struct node_fix *ret)
{
    struct search s;
    const struct card_ask ask = {resource, more, effort};
    assert(more > 0 && more <= NODE_FIX_MAX);
    search_init(&s, st, more);
    for (size_t i = 0; i < st->n_devices; i++) {
        find_options(st, spec, &st->devices[i], &ask, &s.options[i]);
        add_card(&s, i);
    }
    bool found = s.least[more].there;
    if (found)
        take_all(&s, spec, ret);
    search_done(&s);
    return found;
}

void node_fix_done(struct node_fix *f)
{
    for (size_t i = 0; i < f->n; i++) {
        free(f->cards[i].card);
        free(f->cards[i].uuid);
        free(f->cards[i].source);
        layout_fix_done(&f->cards[i].layout);
    }
    free(f->cards);
    *f = (struct node_fix){0};
}
