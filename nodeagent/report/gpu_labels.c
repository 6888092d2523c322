/* SPDX-License-Identifier: Apache-2.0 */
#include "nodeagent/report/gpu_labels.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/xalloc.h"

#include "api/feature_label.h"
#include "api/label_value.h"
#include "nodeagent/report/label_list.h"
#include "nodeagent/report/metax_labels.h"
#include "nodeagent/report/nvidia_labels.h"

static int by_key(const void *a, const void *b)
{
    return strcmp(((const struct jx_pair *)a)->key, ((const struct jx_pair *)b)->key);
}

/* --- Cards and host --- */

/* Cleave's own labels, for which GFD has no key. */
static void add_models(struct label_list *l, const struct label_pool *cards)
{
    for (size_t i = 0; i < cards->n; i++) {
        const struct label_device *m = &cards->members[i];
        auto_free char *name =
            label_value_of(label_device_model(m), LABEL_NAME_MAX - sizeof(".memory") + 1);
        auto_free char *base = name ? xasprintf(FEATURE_MODEL "%s", name) : NULL;
        if (!base)
            continue;
        label_put_of(l, base, ".count", "%zu", label_pool_count(cards, label_device_model(m)));
        label_put_of(l, base, ".memory", "%llu", (unsigned long long)m->of->card->memory_mib);
    }
}

static void add_vgpu(struct label_list *l, const struct host_facts *host)
{
    if (!host->vgpu_known)
        return;
    label_put(l, FEATURE_VGPU "present", host->vgpu ? "true" : "false");
    if (!host->vgpu)
        return;
    label_put_text(l, FEATURE_VGPU, "host-driver-version", host->vgpu_driver);
    label_put_text(l, FEATURE_VGPU, "host-driver-branch", host->vgpu_branch);
}

/* By vendor alone, as in the GPU operator's chart, and by class and vendor, as in
 * node-feature-discovery's default, which leaves out network devices. */
static void add_pci(struct label_list *l, unsigned class, unsigned vendor, bool sriov)
{
    auto_free char *plain = xasprintf(FEATURE_PCI "%04x", vendor);
    auto_free char *full = xasprintf(FEATURE_PCI "%04x_%04x", class, vendor);
    bool network = class >> 8 == 0x02;
    label_put_of(l, plain, ".present", "true");
    if (sriov)
        label_put_of(l, plain, ".sriov.capable", "true");
    if (!network)
        label_put_of(l, full, ".present", "true");
    if (!network && sriov)
        label_put_of(l, full, ".sriov.capable", "true");
}

static void add_host(struct label_list *l, const struct host_facts *host)
{
    add_vgpu(l, host);
    for (unsigned i = 0; i < host->n_pci; i++)
        add_pci(l, host->pci[i].class, host->pci[i].vendor, host->pci[i].sriov);
}

/* A card that the driver shows counts even if the agent's view of the kernel's tree lacks it. */
static void add_pci_of_cards(struct label_list *l, const struct label_pool *cards)
{
    for (size_t i = 0; i < cards->n; i++) {
        const struct gpu_card *c = cards->members[i].of->card;
        uint32_t vendor = c->pci_device_id & 0xffff;
        if (c->pci_class && vendor)
            add_pci(l, c->pci_class >> 8, vendor, /* sriov= */ false);
    }
}

/* --- All of it --- */

/* The labels that each vendor's own software sets, which users select on. */
static const struct {
    const char *vendor;
    void (*add)(struct label_list *l, const struct gpu_labels_input *in,
                const struct gpu_driver *driver, const struct label_pool *cards);
} families[] = {{"metax", metax_labels_add}, {"nvidia", nvidia_labels_add}};

static void add_family(struct label_list *l, const struct gpu_labels_input *in, size_t family)
{
    struct gpu_driver driver = {.vendor = families[family].vendor};
    for (size_t i = 0; i < in->n_drivers; i++)
        if (strcmp(in->drivers[i].vendor, driver.vendor) == 0)
            driver = in->drivers[i];
    struct label_pool cards = label_pool_of_cards(in, driver.vendor);
    if (cards.n)
        families[family].add(l, in, &driver, &cards);
    free(cards.members);
}

void gpu_labels_build(const struct gpu_labels_input *in, struct jx_pair **ret, size_t *ret_n)
{
    struct label_list l = {0};
    struct label_pool cards = label_pool_of_cards(in, /* vendor= */ NULL);
    for (size_t i = 0; i < ARRAY_LEN(families); i++)
        add_family(&l, in, i);
    add_models(&l, &cards);
    add_pci_of_cards(&l, &cards);
    if (in->host && (cards.n || !host_has_no_cards(in->host)))
        add_host(&l, in->host);
    free(cards.members);
    if (l.n)
        qsort(l.items, l.n, sizeof(*l.items), by_key);
    *ret = l.items;
    *ret_n = l.n;
}

/* --- The timestamp --- */

static const struct jx_pair *label_of(const struct jx_pair *labels, size_t n, const char *key)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(labels[i].key, key) == 0)
            return &labels[i];
    return NULL;
}

static bool same_but_stamp(const struct jx_pair *labels, size_t n, const struct jx_pair *prev,
                           size_t n_prev)
{
    if (n + 1 != n_prev)
        return false;
    for (size_t i = 0; i < n; i++) {
        const struct jx_pair *was = label_of(prev, n_prev, labels[i].key);
        if (!was || strcmp(was->str, labels[i].str) != 0)
            return false;
    }
    return true;
}

/* XPUSH writes the count. NOLINTBEGIN(readability-non-const-parameter) */
void gpu_labels_stamp(struct jx_pair **labels, size_t *n, const struct jx_pair *prev, size_t n_prev,
                      int64_t now_s)
{
    assert(!label_of(*labels, *n, FEATURE_TIMESTAMP)); /* once */
    if (!label_of(*labels, *n, FEATURE_MIG_CAP))
        return;
    const struct jx_pair *was = label_of(prev, n_prev, FEATURE_TIMESTAMP);
    bool keep = was && same_but_stamp(*labels, *n, prev, n_prev);
    struct jx_pair *p = XPUSH(*labels, *n);
    p->key = xstrdup(FEATURE_TIMESTAMP);
    p->str = keep ? xstrdup(was->str) : xasprintf("%lld", (long long)now_s);
    qsort(*labels, *n, sizeof(**labels), by_key);
}
/* NOLINTEND(readability-non-const-parameter) */

void gpu_labels_free(struct jx_pair *labels, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        free(labels[i].key);
        free(labels[i].str);
    }
    free(labels);
}
