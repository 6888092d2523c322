/* SPDX-License-Identifier: Apache-2.0 */
#include "reconcilers/coverage.h"

#include <assert.h>
#include <string.h>

#include "base/sb.h"
#include "base/xalloc.h"

#include "partition/select.h"

enum { TEXT_BYTES = 512, MAX_MODELS = 8 };

/* One name of a selector by itself, with the selector's vendor, so that its cards are counted
 * separately. */
struct probe {
    struct card_selector selector; /* borrows from the spec */
    bool found;
    uint64_t indices; /* bits: the indices of all cards of its vendor; a node has at most 64 */
};

struct coverage {
    const struct gpuprofile_spec *spec; /* borrowed */
    struct probe *probes;
    size_t n_probes;
    bool concerns_any;        /* an entry selects some card, or the profile has a remainder */
    char *models[MAX_MODELS]; /* models of the existing cards, owned */
    size_t n_models;
};

static void add_probe(struct coverage *c, const struct card_selector *of,
                      struct card_selector selector)
{
    selector.vendor = of->vendor;
    XPUSH(c->probes, c->n_probes)->selector = selector;
}

static void add_probes(struct coverage *c, const struct card_selector *s)
{
    for (size_t i = 0; i < s->n_uuids; i++)
        add_probe(c, s, (struct card_selector){.uuids = &s->uuids[i], .n_uuids = 1});
    for (size_t i = 0; i < s->n_pci_bus_ids; i++)
        add_probe(c, s,
                  (struct card_selector){.pci_bus_ids = &s->pci_bus_ids[i], .n_pci_bus_ids = 1});
    for (size_t i = 0; i < s->n_indices; i++)
        add_probe(c, s, (struct card_selector){.indices = &s->indices[i], .n_indices = 1});
    if (s->model)
        add_probe(c, s, (struct card_selector){.model = s->model});
}

struct coverage *coverage_new(const struct gpuprofile_spec *spec)
{
    struct coverage *c = xmalloc(sizeof(*c));
    *c = (struct coverage){.spec = spec, .concerns_any = spec->remainder == API_REMAINDER_NATIVE};
    for (size_t i = 0; i < spec->n_devices; i++)
        add_probes(c, &spec->devices[i].selector);
    return c;
}

static void note_model(struct coverage *c, const char *model)
{
    for (size_t i = 0; i < c->n_models; i++)
        if (strcmp(c->models[i], model) == 0)
            return;
    assert(c->n_models <= MAX_MODELS);
    if (c->n_models < MAX_MODELS)
        c->models[c->n_models++] = xstrdup(model);
}

static void look_at(struct probe *p, const struct resolve_card *card)
{
    const struct card_selector vendor = {.vendor = p->selector.vendor};
    if (!p->found)
        p->found = select_card(&p->selector, card);
    if (card->index < 64 && select_card(&vendor, card))
        p->indices |= UINT64_C(1) << card->index;
}

void coverage_add(struct coverage *c, const struct resolve_card *card)
{
    for (size_t i = 0; i < c->n_probes; i++)
        look_at(&c->probes[i], card);
    for (size_t i = 0; i < c->spec->n_devices && !c->concerns_any; i++)
        c->concerns_any = select_card(&c->spec->devices[i].selector, card);
    if (card->model)
        note_model(c, card->model);
}

static void describe(const struct card_selector *s, struct sb *out)
{
    assert(s->n_uuids || s->n_pci_bus_ids || s->n_indices || s->model);
    sb_add(out, out->len ? ", " : "with ");
    if (s->n_uuids)
        sb_addf(out, "uuid %s", s->uuids[0]);
    else if (s->n_pci_bus_ids)
        sb_addf(out, "PCI address %s", s->pci_bus_ids[0]);
    else if (s->n_indices)
        sb_addf(out, "index %lld", (long long)s->indices[0]);
    else
        sb_addf(out, "model \"%s\"", s->model);
    if (s->vendor && (s->n_indices || s->model))
        sb_addf(out, " of vendor %s", s->vendor);
}

static void describe_models(const struct coverage *c, struct sb *out)
{
    for (size_t i = 0; i < c->n_models; i++)
        sb_addf(out, "%s%s", i ? ", " : "; there are ", c->models[i]);
}

static bool has_index(const struct probe *p, unsigned index)
{
    return index < 64 && (p->indices >> index & 1);
}

/* Appends " (there are 0-3, 6)". */
static void describe_indices(const struct probe *p, struct sb *out)
{
    const char *separator = " (there are ";
    for (unsigned i = 0; i < 64; i++) {
        unsigned last = i;
        if (!has_index(p, i))
            continue;
        while (has_index(p, last + 1))
            last++;
        sb_addf(out, "%s%u", separator, i);
        if (last > i)
            sb_addf(out, "-%u", last);
        separator = ", ";
        i = last;
    }
    sb_add(out, p->indices ? ")" : " (there are none)");
}

char *coverage_missing(const struct coverage *c)
{
    auto_sb struct sb text = SB_INIT(TEXT_BYTES);
    bool lacks_model = false;
    bool lacks_index = false;
    for (size_t i = 0; i < c->n_probes; i++) {
        const struct probe *p = &c->probes[i];
        if (p->found)
            continue;
        describe(&p->selector, &text);
        lacks_model |= p->selector.model != NULL;
        if (p->selector.n_indices && !lacks_index)
            describe_indices(p, &text);
        lacks_index |= p->selector.n_indices > 0;
    }
    bool lacks_all = !text.len && !c->concerns_any;
    if (lacks_all)
        sb_add(&text, "that spec.devices selects");
    if (lacks_model || lacks_all)
        describe_models(c, &text);
    return text.len ? sb_take(&text) : NULL;
}

struct coverage *coverage_free(struct coverage *c)
{
    if (!c)
        return NULL;
    for (size_t i = 0; i < c->n_models; i++)
        free(c->models[i]);
    free(c->probes);
    free(c);
    return NULL;
}
