/* SPDX-License-Identifier: Apache-2.0 */
#include "nodeagent/report/gpu_labels.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/xalloc.h"

#include "api/device.h"
#include "api/feature_label.h"
#include "api/label_value.h"

#define NVIDIA 0x10de

struct labels {
    struct jx_pair *items;
    size_t n;
};

/* --- The list --- */

/* Sets a label. The later one of two with the same key wins. */
static void put(struct labels *l, const char *key, const char *value)
{
    for (size_t i = 0; i < l->n; i++) {
        if (strcmp(l->items[i].key, key) == 0) {
            xstr_set(&l->items[i].str, value);
            return;
        }
    }
    struct jx_pair *p = XPUSH(l->items, l->n);
    p->key = xstrdup(key);
    p->str = xstrdup(value);
}

/* Sets a label of a resource: base is "nvidia.com/gpu", what is ".count". */
static void PRINTF_LIKE(4, 5)
    put_of(struct labels *l, const char *base, const char *what, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    auto_free char *value = xvasprintf(fmt, ap);
    va_end(ap);
    auto_free char *key = xasprintf("%s%s", base, what);
    put(l, key, value);
}

/* Sets a label to a text of foreign origin. */
static void put_text(struct labels *l, const char *base, const char *what, const char *text)
{
    auto_free char *value = text ? label_value_from(text) : NULL;
    put_of(l, base, what, "%s", value ? value : "");
}

static int by_key(const void *a, const void *b)
{
    return strcmp(((const struct jx_pair *)a)->key, ((const struct jx_pair *)b)->key);
}

/* --- Versions and the machine --- */

/* Splits "570.86.15" into its parts; a missing part is "". */
static void split_version(const char *text, char parts[3][24])
{
    for (size_t i = 0; i < 3; i++) {
        size_t n = strcspn(text, ".");
        (void)snprintf(parts[i], sizeof(parts[i]), "%.*s", (int)n, text);
        text += n + (text[n] == '.');
    }
}

/* Sets the present names and the deprecated ones, which selectors still use. */
static void add_driver(struct labels *l, const char *version)
{
    static const char *const today[] = {"major", "minor", "revision"};
    static const char *const before[] = {"major", "minor", "rev"};
    char parts[3][24];
    if (!version || !*version)
        return;
    split_version(version, parts);
    put_text(l, FEATURE_NVIDIA, "cuda.driver-version.full", version);
    for (size_t i = 0; i < 3; i++) {
        put_text(l, FEATURE_NVIDIA "cuda.driver-version.", today[i], parts[i]);
        put_text(l, FEATURE_NVIDIA "cuda.driver.", before[i], parts[i]);
    }
}

static void add_runtime(struct labels *l, const char *version)
{
    static const char *const names[] = {"major", "minor"};
    char parts[3][24];
    if (!version || !*version)
        return;
    split_version(version, parts);
    put_text(l, FEATURE_NVIDIA, "cuda.runtime-version.full", version);
    for (size_t i = 0; i < 2; i++) {
        put_text(l, FEATURE_NVIDIA "cuda.runtime-version.", names[i], parts[i]);
        put_text(l, FEATURE_NVIDIA "cuda.runtime.", names[i], parts[i]);
    }
}

static void add_machine(struct labels *l, const struct host_facts *host)
{
    auto_free char *name = host ? label_value_from(host->machine) : NULL;
    put_of(l, FEATURE_GPU, "machine", "%s", name ? name : "unknown");
}

/* --- A resource: devices with the same name --- */

/* One device: a whole card (no part), or a partition of it. */
struct member {
    const struct gpu_labels_card *of;
    const struct gpu_partition *part;
    struct share share;
    char profile[MIG_NAME_BYTES]; /* in a label's spelling; "" for a whole card */
};

struct pool {
    struct member *members;
    size_t n;
};

static const char *model_of(const struct member *m)
{
    return m->of->card->model;
}

static size_t count_model(const struct pool *p, const char *model)
{
    size_t n = 0;
    for (size_t i = 0; i < p->n; i++)
        n += strcmp(model_of(&p->members[i]), model) == 0;
    return n;
}

/* The device that the resource's labels describe: the first one of the model with most devices;
 * ties: of the first model by name. */
static const struct member *speaker(const struct pool *p)
{
    const struct member *best = NULL;
    size_t most = 0;
    for (size_t i = 0; i < p->n; i++) {
        const struct member *m = &p->members[i];
        size_t n = count_model(p, model_of(m));
        if (n < most || (best && n == most && strcmp(model_of(m), model_of(best)) >= 0))
            continue;
        most = n;
        best = m;
    }
    return best;
}

/* The sharing of the device with the fewest replicas, which the label gives. Without devices: 0
 * replicas. */
static struct share least_shared(const struct pool *p)
{
    struct share least = {0};
    for (size_t i = 0; i < p->n; i++)
        if (i == 0 || p->members[i].share.replicas < least.replicas)
            least = p->members[i].share;
    return least;
}

static const char *strategy_word(enum share_kind s)
{
    return s == SHARE_MPS ? "mps" : s == SHARE_TIME_SLICING ? "time-slicing" : "none";
}

/* Sets the model's name with a suffix; a long name is cut, the suffix never. */
static void add_product(struct labels *l, const char *base, const char *model, const char *more)
{
    unsigned room = LABEL_VALUE_MAX - (unsigned)strlen(more);
    auto_free char *name = label_value_of(model, room);
    put_of(l, base, ".product", "%s%s", name ? name : "unknown", more);
}

/* Sets the number of replicas; 0: the devices are not offered under this name. */
static void add_sharing(struct labels *l, const char *base, const struct share *share)
{
    put_of(l, base, ".replicas", "%lld", (long long)share->replicas);
    put_of(l, base, ".sharing-strategy", "%s", strategy_word(share->kind));
}

/* The suffix of a shared product. A resource with a name of its own needs none. */
static const char *shared_mark(const struct share *share)
{
    return share->replicas > 1 && !share->renamed ? "-SHARED" : "";
}

/* --- Whole cards --- */

/* GFD's names by compute capability (internal/lm/resource.go, getArchFamily). */
static const char *family_of(int major, int minor)
{
    switch (major) {
    case 1:
        return "tesla";
    case 2:
        return "fermi";
    case 3:
        return "kepler";
    case 5:
        return "maxwell";
    case 6:
        return "pascal";
    case 7:
        return minor < 5 ? "volta" : "turing";
    case 8:
        return minor < 9 ? "ampere" : "ada-lovelace";
    case 9:
        return "hopper";
    case 10:
    case 12:
        return "blackwell";
    case 13:
        return "rubin";
    default:
        return "undefined";
    }
}

static void add_architecture(struct labels *l, const struct gpu_card *card)
{
    if (card->compute_major == 0)
        return;
    put_of(l, FEATURE_GPU, "family", "%s", family_of(card->compute_major, card->compute_minor));
    put_of(l, FEATURE_GPU, "compute.major", "%d", card->compute_major);
    put_of(l, FEATURE_GPU, "compute.minor", "%d", card->compute_minor);
}

/* The sharing of one model's cards that are offered whole; none where all of them are cut. */
static struct share sharing_of_whole(const struct pool *cards, const char *model)
{
    struct pool whole = {0};
    for (size_t i = 0; i < cards->n; i++)
        if (cards->members[i].of->card->mode != GPU_MIG &&
            strcmp(model_of(&cards->members[i]), model) == 0)
            *XPUSH(whole.members, whole.n) = cards->members[i];
    struct share least = least_shared(&whole);
    free(whole.members);
    return least;
}

static void add_cards(struct labels *l, const struct pool *cards)
{
    const struct member *first = speaker(cards);
    const struct share share = sharing_of_whole(cards, model_of(first));
    add_product(l, "nvidia.com/gpu", model_of(first), shared_mark(&share));
    put_of(l, FEATURE_GPU, "count", "%zu", count_model(cards, model_of(first)));
    add_sharing(l, "nvidia.com/gpu", &share);
    if (first->of->card->memory_mib)
        put_of(l, FEATURE_GPU, "memory", "%llu", (unsigned long long)first->of->card->memory_mib);
    add_architecture(l, first->of->card);
}

/* Cleave's own labels, for which GFD has no key. */
static void add_models(struct labels *l, const struct pool *cards)
{
    for (size_t i = 0; i < cards->n; i++) {
        const struct member *m = &cards->members[i];
        auto_free char *name = label_value_of(model_of(m), LABEL_NAME_MAX - sizeof(".memory") + 1);
        auto_free char *base = name ? xasprintf(FEATURE_MODEL "%s", name) : NULL;
        if (!base)
            continue;
        put_of(l, base, ".count", "%zu", count_model(cards, model_of(m)));
        put_of(l, base, ".memory", "%llu", (unsigned long long)m->of->card->memory_mib);
    }
}

/* As GFD decides: cards of different classes have no mode in common (internal/lm/nvml.go,
 * getModeForClasses). */
static void add_mode(struct labels *l, const struct pool *cards)
{
    uint32_t class = cards->members[0].of->card->pci_class;
    for (size_t i = 1; i < cards->n; i++)
        if (cards->members[i].of->card->pci_class != class)
            class = 0;
    put_of(l, FEATURE_GPU, "mode", "%s",
           class == 0x030000   ? "graphics"
           : class == 0x030200 ? "compute"
                               : "unknown");
}

/* A node whose cards are in two fabrics, or only partly in one, gets no label. */
static void add_clique(struct labels *l, const struct pool *cards)
{
    const char *clique = NULL;
    for (size_t i = 0; i < cards->n; i++) {
        const char *its = cards->members[i].of->card->fabric;
        if (!*its)
            continue;
        if (clique && strcmp(clique, its) != 0)
            return;
        clique = its;
    }
    if (clique)
        put_text(l, FEATURE_GPU, "clique", clique);
}

static void add_abilities(struct labels *l, const struct pool *cards)
{
    bool mig_capable = false;
    bool mps = false;
    bool cut = false;
    for (size_t i = 0; i < cards->n; i++) {
        const struct gpu_labels_card *c = cards->members[i].of;
        mig_capable |= c->card->mig_capable;
        mps |= cards->members[i].share.kind == SHARE_MPS;
        cut |= c->card->mode == GPU_MIG;
    }
    put(l, FEATURE_MIG_CAP, mig_capable ? "true" : "false");
    put(l, FEATURE_MPS_CAP, mps && !cut ? "true" : "false");
}

/* --- Partitions --- */

static struct share share_in(const struct gpu_labels_input *in, const struct gpu_labels_card *c,
                             const char *profile)
{
    const struct share_rules rules = {in->config, in->mig_strategy, in->publisher};
    return share_of(&rules, c->card->vendor, c->want, profile);
}

/* A partition whose profile the driver's table lacks has no name, so it gets no label. */
static bool member_of_part(const struct gpu_labels_input *in, const struct gpu_labels_card *c,
                           const struct gpu_partition *p, struct member *ret)
{
    const struct mig_instance *inst = &c->card->state.items[p->instance];
    struct mig_name name;
    char text[MIG_NAME_BYTES];
    if (inst->profile == MIG_NO_PROFILE)
        return false;
    mig_partition_name(&c->card->mig.profiles[inst->profile], inst->cis[p->ci].slices, text);
    if (mig_name_parse(text, &name, NULL) < 0)
        return false;
    *ret = (struct member){.of = c, .part = p, .share = share_in(in, c, text)};
    (void)mig_name_format_label(&name, ret->profile);
    return true;
}

static void collect_parts(const struct gpu_labels_input *in, const struct pool *cards,
                          struct pool *ret)
{
    for (size_t i = 0; i < cards->n; i++) {
        const struct gpu_labels_card *c = cards->members[i].of;
        struct member m;
        for (unsigned k = 0; c->card->mode == GPU_MIG && k < c->card->n_partitions; k++)
            if (member_of_part(in, c, &c->card->partitions[k], &m))
                *XPUSH(ret->members, ret->n) = m;
    }
}

/* The attributes that the driver reports for a partition (nvmlDeviceGetAttributes): engines and
 * memory are the GPU instance's. */
static void add_attributes(struct labels *l, const char *base, const struct member *m)
{
    const struct gpu_card *card = m->of->card;
    const struct mig_instance *in = &card->state.items[m->part->instance];
    const struct mig_profile *p = &card->mig.profiles[in->profile];
    const struct mig_engines *e = &p->engines;
    unsigned ci = in->cis[m->part->ci].slices;
    unsigned sms = m->part->multiprocessors;
    if (!sms && ci == p->slices)
        sms = p->multiprocessors;
    put_of(l, base, ".memory", "%llu", (unsigned long long)p->memory_mib);
    if (sms)
        put_of(l, base, ".multiprocessors", "%u", sms);
    put_of(l, base, ".slices.gi", "%u", p->slices);
    put_of(l, base, ".slices.ci", "%u", ci);
    put_of(l, base, ".engines.copy", "%u", e->copy);
    put_of(l, base, ".engines.decoder", "%u", e->decoder);
    put_of(l, base, ".engines.encoder", "%u", e->encoder);
    put_of(l, base, ".engines.jpeg", "%u", e->jpeg);
    put_of(l, base, ".engines.ofa", "%u", e->ofa);
}

/* Sets the labels of the partitions of one profile, under base. */
static void add_parts(struct labels *l, const char *base, const struct pool *parts)
{
    const struct member *first = speaker(parts);
    const struct share share = least_shared(parts);
    auto_free char *more = xasprintf("-MIG-%s%s", first->profile, shared_mark(&share));
    add_product(l, base, model_of(first), more);
    put_of(l, base, ".count", "%zu", parts->n);
    add_sharing(l, base, &share);
    add_attributes(l, base, first);
}

static void pool_of_profile(const struct pool *parts, const char *profile, struct pool *ret)
{
    for (size_t i = 0; i < parts->n; i++)
        if (strcmp(parts->members[i].profile, profile) == 0)
            *XPUSH(ret->members, ret->n) = parts->members[i];
}

static void add_mixed(struct labels *l, const struct pool *parts)
{
    for (size_t i = 0; i < parts->n; i++) {
        const char *profile = parts->members[i].profile;
        struct pool same = {0};
        pool_of_profile(parts, profile, &same);
        /* Each profile once, at its first partition. */
        if (same.members[0].part == parts->members[i].part) {
            auto_free char *base = xasprintf(FEATURE_MIG "%s", profile);
            add_parts(l, base, &same);
        }
        free(same.members);
    }
}

/* The profile of strategy single. Partitions on an ill card do not count. */
static const char *single_profile(const struct pool *parts)
{
    for (size_t i = 0; i < parts->n; i++)
        if (parts->members[i].of->card->healthy)
            return parts->members[i].profile;
    return parts->n ? parts->members[0].profile : NULL;
}

static void add_invalid(struct labels *l, const struct pool *cut)
{
    add_product(l, "nvidia.com/gpu", model_of(speaker(cut)), "-MIG-INVALID");
    put(l, FEATURE_GPU "count", "0");
    put(l, FEATURE_GPU "replicas", "0");
    put(l, FEATURE_GPU "memory", "0");
    put(l, FEATURE_GPU "sharing-strategy", "");
}

static void collect_cut(const struct pool *cards, struct pool *ret)
{
    for (size_t i = 0; i < cards->n; i++)
        if (cards->members[i].of->card->mode == GPU_MIG)
            *XPUSH(ret->members, ret->n) = cards->members[i];
}

/* Without a cut card, single means the same as none. */
static void add_single(struct labels *l, bool holds, const struct pool *cards,
                       const struct pool *parts)
{
    struct pool cut = {0};
    struct pool same = {0};
    collect_cut(cards, &cut);
    const char *profile = single_profile(parts);
    if (profile)
        pool_of_profile(parts, profile, &same);
    if (holds && same.n)
        add_parts(l, "nvidia.com/gpu", &same);
    else if (cut.n)
        add_invalid(l, &cut);
    free(same.members);
    free(cut.members);
}

static void add_mig(struct labels *l, const struct gpu_labels_input *in, const struct pool *cards)
{
    if (in->mig_strategy == API_STRATEGY_NONE)
        return;
    struct pool parts = {0};
    collect_parts(in, cards, &parts);
    put(l, FEATURE_MIG_STRAT, api_mig_strategy_names[in->mig_strategy]);
    if (in->mig_strategy == API_STRATEGY_SINGLE)
        add_single(l, in->strategy_in_force == API_STRATEGY_SINGLE, cards, &parts);
    else
        add_mixed(l, &parts);
    free(parts.members);
}

/* --- The host --- */

static void add_vgpu(struct labels *l, const struct host_facts *host)
{
    if (!host->vgpu_known)
        return;
    put(l, FEATURE_VGPU "present", host->vgpu ? "true" : "false");
    if (!host->vgpu)
        return;
    put_text(l, FEATURE_VGPU, "host-driver-version", host->vgpu_driver);
    put_text(l, FEATURE_VGPU, "host-driver-branch", host->vgpu_branch);
}

/* By vendor alone, as in the GPU operator's chart, and by class and vendor, as in
 * node-feature-discovery's default, which leaves out network devices. */
static void add_pci(struct labels *l, unsigned class, unsigned vendor, bool sriov)
{
    auto_free char *plain = xasprintf(FEATURE_PCI "%04x", vendor);
    auto_free char *full = xasprintf(FEATURE_PCI "%04x_%04x", class, vendor);
    bool network = class >> 8 == 0x02;
    put_of(l, plain, ".present", "true");
    if (sriov)
        put_of(l, plain, ".sriov.capable", "true");
    if (!network)
        put_of(l, full, ".present", "true");
    if (!network && sriov)
        put_of(l, full, ".sriov.capable", "true");
}

static void add_host(struct labels *l, const struct host_facts *host)
{
    add_vgpu(l, host);
    for (unsigned i = 0; i < host->n_pci; i++)
        add_pci(l, host->pci[i].class, host->pci[i].vendor, host->pci[i].sriov);
}

/* A card that the driver shows counts even if the agent's view of the kernel's tree lacks it. */
static void add_pci_of_cards(struct labels *l, const struct pool *cards)
{
    for (size_t i = 0; i < cards->n; i++) {
        const struct gpu_card *c = cards->members[i].of->card;
        uint32_t vendor = c->pci_device_id & 0xffff;
        if (c->pci_class && vendor)
            add_pci(l, c->pci_class >> 8, vendor, /* sriov= */ false);
    }
}

/* --- All of it --- */

static void add_nvidia(struct labels *l, const struct gpu_labels_input *in,
                       const struct gpu_driver *driver, const struct pool *cards)
{
    add_driver(l, driver->version);
    add_runtime(l, driver->cuda_version);
    add_machine(l, in->host);
    add_cards(l, cards);
    add_mode(l, cards);
    add_clique(l, cards);
    add_abilities(l, cards);
    add_mig(l, in, cards);
}

/* "MXC500" belongs to the family MXC. */
static void add_metax_model(struct labels *l, const struct gpu_card *card)
{
    char family[GPU_NAME_BYTES];
    size_t n = strcspn(card->model, "0123456789");
    (void)snprintf(family, sizeof(family), "%.*s", (int)n, card->model);
    put_text(l, FEATURE_METAX, "product", card->model);
    put_text(l, FEATURE_METAX, "family", family);
    if (card->memory_mib)
        put_of(l, FEATURE_METAX, "memory", "%lluGB", (unsigned long long)card->memory_mib >> 10);
}

static void add_metax(struct labels *l, const struct gpu_labels_input *in,
                      const struct gpu_driver *driver, const struct pool *cards)
{
    static const char *const names[] = {"major", "minor", "patch"};
    char parts[3][24];
    (void)in;
    put(l, FEATURE_METAX "installed", "true");
    add_metax_model(l, speaker(cards)->of->card);
    split_version(driver->version, parts);
    for (size_t i = 0; *driver->version && i < ARRAY_LEN(names); i++)
        put_text(l, FEATURE_METAX "driver.", names[i], parts[i]);
}

/* The labels that each vendor's own software sets, which users select on. */
static const struct {
    const char *vendor;
    void (*add)(struct labels *l, const struct gpu_labels_input *in,
                const struct gpu_driver *driver, const struct pool *cards);
} families[] = {{"metax", add_metax}, {"nvidia", add_nvidia}};

static struct member member_of_card(const struct gpu_labels_input *in,
                                    const struct gpu_labels_card *c)
{
    return (struct member){.of = c, .share = share_in(in, c, /* profile= */ NULL)};
}

/* The cards that could be read, of this vendor or (NULL) of all. The caller owns the members. */
static struct pool pool_of(const struct gpu_labels_input *in, const char *vendor)
{
    struct pool cards = {0};
    for (size_t i = 0; i < in->n_cards; i++) {
        const struct gpu_card *c = in->cards[i].card;
        if (!c->unread && (!vendor || strcmp(c->vendor, vendor) == 0))
            *XPUSH(cards.members, cards.n) = member_of_card(in, &in->cards[i]);
    }
    return cards;
}

static void add_family(struct labels *l, const struct gpu_labels_input *in, size_t family)
{
    struct gpu_driver driver = {.vendor = families[family].vendor};
    for (size_t i = 0; i < in->n_drivers; i++)
        if (strcmp(in->drivers[i].vendor, driver.vendor) == 0)
            driver = in->drivers[i];
    struct pool cards = pool_of(in, driver.vendor);
    if (cards.n)
        families[family].add(l, in, &driver, &cards);
    free(cards.members);
}

void gpu_labels_build(const struct gpu_labels_input *in, struct jx_pair **ret, size_t *ret_n)
{
    struct labels l = {0};
    struct pool cards = pool_of(in, /* vendor= */ NULL);
    for (size_t i = 0; i < ARRAY_LEN(families); i++)
        add_family(&l, in, i);
    add_models(&l, &cards);
    add_pci_of_cards(&l, &cards);
    if (in->host)
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
