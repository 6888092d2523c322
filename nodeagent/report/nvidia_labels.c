/* SPDX-License-Identifier: Apache-2.0 */
#include "nodeagent/report/nvidia_labels.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/xalloc.h"

#include "api/device.h"
#include "api/feature_label.h"
#include "api/label_value.h"

/* Sets the present names and the deprecated ones, which selectors still use. */
static void add_driver(struct label_list *l, const char *version)
{
    static const char *const today[] = {"major", "minor", "revision"};
    static const char *const before[] = {"major", "minor", "rev"};
    char parts[3][24];
    if (!version || !*version)
        return;
    label_split_version(version, parts);
    label_put_text(l, FEATURE_NVIDIA, "cuda.driver-version.full", version);
    for (size_t i = 0; i < 3; i++) {
        label_put_text(l, FEATURE_NVIDIA "cuda.driver-version.", today[i], parts[i]);
        label_put_text(l, FEATURE_NVIDIA "cuda.driver.", before[i], parts[i]);
    }
}

static void add_runtime(struct label_list *l, const char *version)
{
    static const char *const names[] = {"major", "minor"};
    char parts[3][24];
    if (!version || !*version)
        return;
    label_split_version(version, parts);
    label_put_text(l, FEATURE_NVIDIA, "cuda.runtime-version.full", version);
    for (size_t i = 0; i < 2; i++) {
        label_put_text(l, FEATURE_NVIDIA "cuda.runtime-version.", names[i], parts[i]);
        label_put_text(l, FEATURE_NVIDIA "cuda.runtime.", names[i], parts[i]);
    }
}

static void add_machine(struct label_list *l, const struct host_facts *host)
{
    auto_free char *name = host ? label_value_from(host->machine) : NULL;
    label_put_of(l, FEATURE_GPU, "machine", "%s", name ? name : "unknown");
}

/* GFD's words; it has none for shares. */
static const char *strategy_word(enum sharing_kind s)
{
    static const char *const words[] = {
        [SHARING_NONE] = "none",
        [SHARING_TIME_SLICING] = "time-slicing",
        [SHARING_MPS] = "mps",
        [SHARING_FRACTIONAL] = "fractional",
    };
    assert((size_t)s < ARRAY_LEN(words));
    return words[s];
}

/* Sets the model's name with a suffix; a long name is cut, the suffix never. */
static void add_product(struct label_list *l, const char *base, const char *model, const char *more)
{
    assert(strlen(more) < LABEL_VALUE_MAX);
    unsigned room = LABEL_VALUE_MAX - (unsigned)strlen(more);
    auto_free char *name = label_value_of(model, room);
    label_put_of(l, base, ".product", "%s%s", name ? name : "unknown", more);
}

/* Sets the number of replicas or shares; 0: the devices are not offered under this name. */
static void add_sharing(struct label_list *l, const char *base, const struct sharing *sharing)
{
    label_put_of(l, base, ".replicas", "%lld", (long long)sharing_times(sharing));
    label_put_of(l, base, ".sharing-strategy", "%s", strategy_word(sharing->kind));
}

/* The suffix of a shared product. A resource with a name of its own needs none, nor does a card
 * with shares: a container that asks for no size gets all of it. */
static const char *shared_mark(const struct sharing *sharing)
{
    return sharing->replicas > 1 && !sharing->renamed ? "-SHARED" : "";
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

static void add_architecture(struct label_list *l, const struct gpu_card *card)
{
    if (card->compute_major == 0)
        return;
    label_put_of(l, FEATURE_GPU, "family", "%s",
                 family_of(card->compute_major, card->compute_minor));
    label_put_of(l, FEATURE_GPU, "compute.major", "%d", card->compute_major);
    label_put_of(l, FEATURE_GPU, "compute.minor", "%d", card->compute_minor);
}

/* The sharing of one model's cards that are offered whole; none where all of them are cut. */
static struct sharing sharing_of_whole(const struct label_pool *cards, const char *model)
{
    struct label_pool whole = {0};
    for (size_t i = 0; i < cards->n; i++)
        if (cards->members[i].of->card->mode != GPU_MIG &&
            strcmp(label_device_model(&cards->members[i]), model) == 0)
            *XPUSH(whole.members, whole.n) = cards->members[i];
    struct sharing least = label_pool_least_shared(&whole);
    free(whole.members);
    return least;
}

static void add_cards(struct label_list *l, const struct label_pool *cards)
{
    const struct label_device *first = label_pool_speaker(cards);
    const struct sharing sharing = sharing_of_whole(cards, label_device_model(first));
    add_product(l, "nvidia.com/gpu", label_device_model(first), shared_mark(&sharing));
    label_put_of(l, FEATURE_GPU, "count", "%zu",
                 label_pool_count(cards, label_device_model(first)));
    add_sharing(l, "nvidia.com/gpu", &sharing);
    if (first->of->card->memory_mib)
        label_put_of(l, FEATURE_GPU, "memory", "%llu",
                     (unsigned long long)first->of->card->memory_mib);
    add_architecture(l, first->of->card);
}

/* As GFD decides: cards of different classes have no mode in common (internal/lm/nvml.go,
 * getModeForClasses). */
static void add_mode(struct label_list *l, const struct label_pool *cards)
{
    uint32_t class = cards->members[0].of->card->pci_class;
    for (size_t i = 1; i < cards->n; i++)
        if (cards->members[i].of->card->pci_class != class)
            class = 0;
    label_put_of(l, FEATURE_GPU, "mode", "%s",
                 class == 0x030000   ? "graphics"
                 : class == 0x030200 ? "compute"
                                     : "unknown");
}

/* A node whose cards are in two fabrics, or only partly in one, gets no label. */
static void add_clique(struct label_list *l, const struct label_pool *cards)
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
        label_put_text(l, FEATURE_GPU, "clique", clique);
}

static void add_abilities(struct label_list *l, const struct label_pool *cards)
{
    bool mig_capable = false;
    bool mps = false;
    bool cut = false;
    for (size_t i = 0; i < cards->n; i++) {
        const struct gpu_labels_card *c = cards->members[i].of;
        mig_capable |= c->card->mig_capable;
        mps |= cards->members[i].sharing.kind == SHARING_MPS;
        cut |= c->card->mode == GPU_MIG;
    }
    label_put(l, FEATURE_MIG_CAP, mig_capable ? "true" : "false");
    label_put(l, FEATURE_MPS_CAP, mps && !cut ? "true" : "false");
}

/* --- Partitions --- */

/* A partition whose profile the driver's table lacks has no name, so it gets no label. */
static bool member_of_part(const struct gpu_labels_input *in, const struct gpu_labels_card *c,
                           const struct gpu_partition *p, struct label_device *ret)
{
    const struct mig_instance *inst = &c->card->state.items[p->instance];
    assert(p->instance < c->card->state.n && p->ci < inst->n_cis);
    struct mig_name name;
    char text[MIG_NAME_BYTES];
    if (inst->profile == MIG_NO_PROFILE)
        return false;
    mig_partition_name(&c->card->mig.profiles[inst->profile], inst->cis[p->ci].slices, text);
    if (mig_name_parse(text, &name, NULL) < 0)
        return false;
    *ret = (struct label_device){.of = c, .part = p, .sharing = label_sharing_in(in, c, text)};
    (void)mig_name_format_label(&name, ret->profile);
    return true;
}

static void collect_parts(const struct gpu_labels_input *in, const struct label_pool *cards,
                          struct label_pool *ret)
{
    for (size_t i = 0; i < cards->n; i++) {
        const struct gpu_labels_card *c = cards->members[i].of;
        struct label_device m;
        for (unsigned k = 0; c->card->mode == GPU_MIG && k < c->card->n_partitions; k++)
            if (member_of_part(in, c, &c->card->partitions[k], &m))
                *XPUSH(ret->members, ret->n) = m;
    }
}

/* The attributes that the driver reports for a partition (nvmlDeviceGetAttributes): engines and
 * memory are the GPU instance's. */
static void add_attributes(struct label_list *l, const char *base, const struct label_device *m)
{
    assert(m->part && m->of->card->mode == GPU_MIG);
    const struct gpu_card *card = m->of->card;
    const struct mig_instance *in = &card->state.items[m->part->instance];
    const struct mig_profile *p = &card->mig.profiles[in->profile];
    const struct mig_engines *e = &p->engines;
    unsigned ci = in->cis[m->part->ci].slices;
    unsigned sms = m->part->multiprocessors;
    if (!sms && ci == p->slices)
        sms = p->multiprocessors;
    label_put_of(l, base, ".memory", "%llu", (unsigned long long)p->memory_mib);
    if (sms)
        label_put_of(l, base, ".multiprocessors", "%u", sms);
    label_put_of(l, base, ".slices.gi", "%u", p->slices);
    label_put_of(l, base, ".slices.ci", "%u", ci);
    label_put_of(l, base, ".engines.copy", "%u", e->copy);
    label_put_of(l, base, ".engines.decoder", "%u", e->decoder);
    label_put_of(l, base, ".engines.encoder", "%u", e->encoder);
    label_put_of(l, base, ".engines.jpeg", "%u", e->jpeg);
    label_put_of(l, base, ".engines.ofa", "%u", e->ofa);
}

/* Sets the labels of the partitions of one profile, under base. */
static void add_parts(struct label_list *l, const char *base, const struct label_pool *parts)
{
    assert(parts->n > 0);
    const struct label_device *first = label_pool_speaker(parts);
    const struct sharing sharing = label_pool_least_shared(parts);
    auto_free char *more = xasprintf("-MIG-%s%s", first->profile, shared_mark(&sharing));
    add_product(l, base, label_device_model(first), more);
    label_put_of(l, base, ".count", "%zu", parts->n);
    add_sharing(l, base, &sharing);
    add_attributes(l, base, first);
}

static void pool_of_profile(const struct label_pool *parts, const char *profile,
                            struct label_pool *ret)
{
    for (size_t i = 0; i < parts->n; i++)
        if (strcmp(parts->members[i].profile, profile) == 0)
            *XPUSH(ret->members, ret->n) = parts->members[i];
}

static void add_mixed(struct label_list *l, const struct label_pool *parts)
{
    for (size_t i = 0; i < parts->n; i++) {
        const char *profile = parts->members[i].profile;
        struct label_pool same = {0};
        pool_of_profile(parts, profile, &same);
        assert(same.n > 0); /* at least the i-th itself */
        /* Each profile once, at its first partition. */
        if (same.members[0].part == parts->members[i].part) {
            auto_free char *base = xasprintf(FEATURE_MIG "%s", profile);
            add_parts(l, base, &same);
        }
        free(same.members);
    }
}

/* The profile of strategy single. Partitions on an ill card do not count. */
static const char *single_profile(const struct label_pool *parts)
{
    for (size_t i = 0; i < parts->n; i++)
        if (parts->members[i].of->card->healthy)
            return parts->members[i].profile;
    return parts->n ? parts->members[0].profile : NULL;
}

static void add_invalid(struct label_list *l, const struct label_pool *cut)
{
    add_product(l, "nvidia.com/gpu", label_device_model(label_pool_speaker(cut)), "-MIG-INVALID");
    label_put(l, FEATURE_GPU "count", "0");
    label_put(l, FEATURE_GPU "replicas", "0");
    label_put(l, FEATURE_GPU "memory", "0");
    label_put(l, FEATURE_GPU "sharing-strategy", "");
}

static void collect_cut(const struct label_pool *cards, struct label_pool *ret)
{
    for (size_t i = 0; i < cards->n; i++)
        if (cards->members[i].of->card->mode == GPU_MIG)
            *XPUSH(ret->members, ret->n) = cards->members[i];
}

/* Without a cut card, single means the same as none. */
static void add_single(struct label_list *l, bool holds, const struct label_pool *cards,
                       const struct label_pool *parts)
{
    struct label_pool cut = {0};
    struct label_pool same = {0};
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

static void add_mig(struct label_list *l, const struct gpu_labels_input *in,
                    const struct label_pool *cards)
{
    if (in->mig_strategy == API_STRATEGY_NONE)
        return;
    struct label_pool parts = {0};
    collect_parts(in, cards, &parts);
    label_put(l, FEATURE_MIG_STRAT, api_mig_strategy_names[in->mig_strategy]);
    if (in->mig_strategy == API_STRATEGY_SINGLE)
        add_single(l, in->strategy_in_force == API_STRATEGY_SINGLE, cards, &parts);
    else
        add_mixed(l, &parts);
    free(parts.members);
}

void nvidia_labels_add(struct label_list *l, const struct gpu_labels_input *in,
                       const struct gpu_driver *driver, const struct label_pool *cards)
{
    assert(cards->n);
    add_driver(l, driver->version);
    add_runtime(l, driver->cuda_version);
    add_machine(l, in->host);
    add_cards(l, cards);
    add_mode(l, cards);
    add_clique(l, cards);
    add_abilities(l, cards);
    add_mig(l, in, cards);
}
