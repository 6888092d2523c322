/* SPDX-License-Identifier: Apache-2.0 */
#include "reconcilers/coverage.h"

#include "base/sb.h"
#include "base/xalloc.h"

#include "partition/select.h"

enum { TEXT_BYTES = 512 };

/* One name of a selector, alone. */
struct probe {
    struct card_selector selector; /* borrows from the spec */
    bool found;
};

struct coverage {
    struct probe *probes;
    size_t n_probes;
};

static void add_probe(struct coverage *c, struct card_selector selector)
{
    XPUSH(c->probes, c->n_probes)->selector = selector;
}

static void add_probes(struct coverage *c, const struct card_selector *s)
{
    for (size_t i = 0; i < s->n_uuids; i++)
        add_probe(c, (struct card_selector){.uuids = &s->uuids[i], .n_uuids = 1});
    for (size_t i = 0; i < s->n_pci_bus_ids; i++)
        add_probe(c, (struct card_selector){.pci_bus_ids = &s->pci_bus_ids[i], .n_pci_bus_ids = 1});
    for (size_t i = 0; i < s->n_indices; i++)
        add_probe(c, (struct card_selector){.indices = &s->indices[i], .n_indices = 1});
    if (s->model)
        add_probe(c, (struct card_selector){.model = s->model});
}

struct coverage *coverage_new(const struct gpuprofile_spec *spec)
{
    struct coverage *c = xmalloc(sizeof(*c));
    for (size_t i = 0; i < spec->n_devices; i++)
        add_probes(c, &spec->devices[i].selector);
    return c;
}

void coverage_add(struct coverage *c, const struct resolve_card *card)
{
    for (size_t i = 0; i < c->n_probes; i++)
        if (!c->probes[i].found)
            c->probes[i].found = select_card(&c->probes[i].selector, card);
}

static void describe(const struct card_selector *s, struct sb *out)
{
    if (out->len)
        sb_add(out, ", ");
    if (s->n_uuids)
        sb_addf(out, "uuid %s", s->uuids[0]);
    else if (s->n_pci_bus_ids)
        sb_addf(out, "PCI address %s", s->pci_bus_ids[0]);
    else if (s->n_indices)
        sb_addf(out, "index %lld", (long long)s->indices[0]);
    else
        sb_addf(out, "model \"%s\"", s->model);
}

char *coverage_missing(const struct coverage *c)
{
    auto_sb struct sb text = SB_INIT(TEXT_BYTES);
    for (size_t i = 0; i < c->n_probes; i++)
        if (!c->probes[i].found)
            describe(&c->probes[i].selector, &text);
    return text.len ? sb_take(&text) : NULL;
}

struct coverage *coverage_free(struct coverage *c)
{
    if (!c)
        return NULL;
    free(c->probes);
    free(c);
    return NULL;
}
