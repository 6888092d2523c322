/* SPDX-License-Identifier: Apache-2.0 */
#include "reconcilers/capacity.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/strmap.h"
#include "base/xalloc.h"

#include "partition/resource_names.h"

enum { MAX_LABELS = 3, MIB = 1 << 20 };

/* --- Sums by labels --- */

struct row {
    char *labels[MAX_LABELS]; /* NULL behind the last one */
    int64_t value;
};

struct tally {
    struct strmap *by_key; /* the labels in one text → struct row, owned by rows */
    struct row **rows;
    size_t n;
};

static struct row *row_of(struct tally *t, const char *const labels[MAX_LABELS])
{
    auto_free char *key =
        xasprintf("%s\n%s\n%s", labels[0], labels[1] ? labels[1] : "", labels[2] ? labels[2] : "");
    struct row *r = strmap_get(t->by_key, key);
    if (r)
        return r;
    r = xmalloc(sizeof(*r));
    for (size_t i = 0; i < MAX_LABELS; i++)
        r->labels[i] = xstrdup(labels[i]);
    (void)strmap_put(t->by_key, key, r);
    *XPUSH(t->rows, t->n) = r;
    return r;
}

#define ADD(tally, n, ...)                                                                         \
    (row_of(tally, (const char *const[MAX_LABELS]){__VA_ARGS__})->value += (n))

static void tally_init(struct tally *t)
{
    *t = (struct tally){.by_key = strmap_new()};
}

static void tally_done(struct tally *t)
{
    for (size_t i = 0; i < t->n; i++) {
        for (size_t k = 0; k < MAX_LABELS; k++)
            free(t->rows[i]->labels[k]);
        free(t->rows[i]);
    }
    free(t->rows);
    (void)strmap_free(t->by_key);
}

/* The largest first; equal ones in the order of their labels. */
static int by_value(const void *a, const void *b)
{
    const struct row *x = *(struct row *const *)a;
    const struct row *y = *(struct row *const *)b;
    if (x->value != y->value)
        return x->value > y->value ? -1 : 1;
    int order = 0;
    for (size_t i = 0; i < MAX_LABELS && x->labels[i] && !order; i++)
        order = strcmp(x->labels[i], y->labels[i]);
    return order;
}

static void publish(struct tally *t, struct metric *family, size_t n_labels)
{
    size_t n = t->n < METRICS_MAX_SERIES ? t->n : METRICS_MAX_SERIES;
    auto_free const char **labels = xcalloc(n * n_labels, sizeof(*labels));
    auto_free int64_t *values = xcalloc(n, sizeof(*values));
    if (t->n)
        qsort(t->rows, t->n, sizeof(struct row *), by_value);
    for (size_t i = 0; i < t->n; i++) {
        size_t at = i < n ? i : n - 1;
        bool other = t->n > n && at == n - 1;
        for (size_t k = 0; k < n_labels; k++)
            labels[at * n_labels + k] = other ? "other" : t->rows[i]->labels[k];
        values[at] += t->rows[i]->value;
    }
    metric_rows(family, labels, values, n);
}

/* --- One Device --- */

enum { CAPACITY, GRANTED, FREE, CARDS, MEMORY, MEMORY_FREE, MEMORY_LARGEST, FAMILIES };

/* The number of one resource that one node's containers have. */
struct held {
    char name[RESOURCE_NAME_BYTES];
    int64_t n;
};

struct node_count {
    const struct device_record *device;
    const char *model;
    int strategy;
    struct held *held;
    size_t n_held;
};

static const char *model_of(const struct device_record *d)
{
    const char *model = d->n_cards ? d->cards[0].model : "";
    for (size_t i = 1; i < d->n_cards; i++)
        if (strcmp(d->cards[i].model, model) != 0)
            return CAPACITY_SEVERAL;
    return model;
}

static int strategy_of(const struct device_record *d)
{
    auto_free struct resolve_card *cards = xcalloc(d->n_cards, sizeof(*cards));
    if (d->spec.mig_strategy != API_STRATEGY_SINGLE)
        return d->spec.mig_strategy;
    for (size_t i = 0; i < d->n_cards; i++)
        records_card_view(&d->cards[i], &cards[i]);
    return resource_strategy(cards, d->n_cards, &d->spec, d->spec.mig_strategy);
}

/* The resource that a container asked for when it got a part of this profile; "": the card. */
static bool name_of(const struct node_count *c, const struct card_record *card, const char *profile,
                    char *buf)
{
    const struct device_want *want = device_spec_want(&c->device->spec, card->uuid);
    const struct device_replicas *terms =
        want && want->has_sharing ? device_sharing_terms(&want->sharing) : NULL;
    bool renamed = terms && terms->rename_by_default;
    if (card->mode == API_MODE_SGPU) {
        bool declared = want && want->has_sgpu && want->sgpu.n_slices;
        return resource_slice_name(card->vendor, declared ? profile : NULL, buf);
    }
    if (card->mode == API_MODE_VGPU) {
        const char *name = resource_function_name(card->vendor);
        (void)snprintf(buf, RESOURCE_NAME_BYTES, "%s", name ? name : "");
        return name;
    }
    bool part = card->mode == API_MODE_MIG && c->strategy != API_STRATEGY_NONE;
    return resource_name(card->vendor, c->strategy, renamed, part ? profile : NULL, buf);
}

static struct held *held_of(struct node_count *c, const char *name)
{
    for (size_t i = 0; i < c->n_held; i++)
        if (strcmp(c->held[i].name, name) == 0)
            return &c->held[i];
    struct held *h = XPUSH(c->held, c->n_held);
    (void)snprintf(h->name, sizeof(h->name), "%s", name);
    return h;
}

static void count_grant(struct node_count *c, const struct card_record *card,
                        const struct profile_count *grant, struct tally *granted)
{
    char name[RESOURCE_NAME_BYTES];
    const char *slash = strchr(grant->profile, '/');
    if (!slash || !name_of(c, card, slash + 1, name))
        return;
    auto_free char *ns = xasprintf("%.*s", (int)(slash - grant->profile), grant->profile);
    held_of(c, name)->n += grant->count;
    ADD(granted, grant->count, name, card->model, ns);
}

static void count_card(struct node_count *c, const struct card_record *card, struct tally *sums)
{
    for (size_t i = 0; i < card->use.n_grants; i++)
        count_grant(c, card, &card->use.grants[i], &sums[GRANTED]);
    ADD(&sums[CARDS], 1, card->model);
    ADD(&sums[MEMORY], card->memory_mib * MIB, card->model);
    ADD(&sums[MEMORY_FREE], card->use.free_mib * MIB, card->model);
    struct row *largest =
        row_of(&sums[MEMORY_LARGEST], (const char *const[MAX_LABELS]){card->model});
    if (card->use.largest_mib * MIB > largest->value)
        largest->value = card->use.largest_mib * MIB;
}

static void count_device(const struct device_record *d, struct tally *sums)
{
    struct node_count c = {.device = d, .model = model_of(d), .strategy = strategy_of(d)};
    for (size_t i = 0; i < d->n_cards; i++)
        count_card(&c, &d->cards[i], sums);
    for (size_t i = 0; i < d->n_resources; i++) {
        const struct device_resource *r = &d->resources[i];
        int64_t held = held_of(&c, r->name)->n;
        ADD(&sums[CAPACITY], r->count, r->name, c.model);
        ADD(&sums[FREE], held < r->count ? r->count - held : 0, r->name, c.model);
    }
    free(c.held);
}

/* --- All of them --- */

struct capacity {
    struct store *devices;
    const struct clock *clk;
    struct metric *families[FAMILIES];
    pthread_mutex_t mu;
    int64_t next_mono_ms; /* guarded by mu: not counted again before */
};

static const struct {
    const char *name, *help;
    size_t n_labels;
} families[FAMILIES] = {
    [CAPACITY] = {"cleave_controller_capacity", "What nodes offer to pods, by resource name.", 2},
    [GRANTED] = {"cleave_controller_granted", "Containers that were given one, by resource name.",
                 3},
    [FREE] = {"cleave_controller_free", "What pods can still get, by resource name.", 2},
    [CARDS] = {"cleave_controller_cards", "Cards that agents report.", 1},
    [MEMORY] = {"cleave_controller_memory_bytes", "Memory of all cards.", 1},
    [MEMORY_FREE] = {"cleave_controller_memory_free_bytes",
                     "Memory of healthy cards that nobody was given.", 1},
    [MEMORY_LARGEST] = {"cleave_controller_largest_free_bytes",
                        "Memory of the largest partition, share or card that still fits somewhere.",
                        1},
};

static void count_all(const struct capacity *c)
{
    struct tally sums[FAMILIES];
    auto_object_list struct object_list all = {0};
    store_list(c->devices, &all);
    for (size_t i = 0; i < FAMILIES; i++)
        tally_init(&sums[i]);
    for (size_t i = 0; i < all.count; i++)
        count_device(object_payload(all.items[i]), sums);
    for (size_t i = 0; i < FAMILIES; i++) {
        publish(&sums[i], c->families[i], families[i].n_labels);
        tally_done(&sums[i]);
    }
}

static void collect(void *arg)
{
    struct capacity *c = arg;
    HOLD(&c->mu);
    int64_t now = clock_mono_ms(c->clk);
    if (now < c->next_mono_ms)
        return;
    count_all(c);
    c->next_mono_ms = clock_mono_ms(c->clk) + CAPACITY_EVERY_MS;
}

struct capacity *capacity_new(struct metrics *m, const struct caches *caches,
                              const struct clock *clk)
{
    static const char *const labels[][MAX_LABELS + 1] = {{NULL},
                                                         {"model", NULL},
                                                         {"resource", "model", NULL},
                                                         {"resource", "model", "namespace", NULL}};
    struct capacity *c = xmalloc(sizeof(*c));
    *c = (struct capacity){.devices = caches->devices, .clk = clk};
    (void)pthread_mutex_init(&c->mu, NULL);
    for (size_t i = 0; i < FAMILIES; i++)
        c->families[i] =
            metrics_gauge(m, families[i].name, families[i].help, labels[families[i].n_labels]);
    metrics_on_collect(m, collect, c);
    return c;
}

struct capacity *capacity_free(struct capacity *c)
{
    if (!c)
        return NULL;
    (void)pthread_mutex_destroy(&c->mu);
    free(c);
    return NULL;
}
