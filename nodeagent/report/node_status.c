/* SPDX-License-Identifier: Apache-2.0 */
#include "nodeagent/report/node_status.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/xalloc.h"

#include "api/kinds.h"
#include "nodeagent/mode/card_mode.h"
#include "nodeagent/offer/plugin_config.h"
#include "nodeagent/offer/sharing.h"
#include "nodeagent/report/card_status.h"
#include "nodeagent/report/gpu_labels.h"
#include "nodeagent/report/neighbours.h"
#include "nodeagent/report/node_kstatus.h"
#include "nodeagent/report/node_readiness.h"
#include "nodeagent/report/node_summary.h"
#include "nodeagent/report/outdated_report.h"
#include "partition/model.h"
#include "partition/share_numbers.h"
#include "service/conditions.h"

static void build_models(const struct node_state *s, struct device_status *ret)
{
    for (size_t i = 0; i < s->n_cards; i++) {
        const struct gpu_card *card = &s->cards[i].card;
        if (card->unread || !*card->model || device_status_model(ret, card->model))
            continue;
        model_from_table(card->model, &card->mig, XPUSH(ret->models, ret->n_models));
    }
}

/* Keeps the models of cards that are shown as last published. */
static void keep_models(const struct device_status *prev, struct device_status *ret)
{
    auto_device_status struct device_status copy = {0};
    device_status_copy(prev, &copy);
    for (size_t i = 0; i < copy.n_models; i++) {
        bool shown = false;
        for (size_t k = 0; k < ret->n_devices && !shown; k++)
            shown =
                ret->devices[k].model && strcmp(ret->devices[k].model, copy.models[i].name) == 0;
        if (!shown || device_status_model(ret, copy.models[i].name))
            continue;
        *XPUSH(ret->models, ret->n_models) = copy.models[i];
        copy.models[i] = (struct device_model){0};
    }
}

static const char *const plugin_reasons[] = {
    [PLUGIN_SERVED] = "Served",          [PLUGIN_WAITING] = "KubeletUnavailable",
    [PLUGIN_REFUSED] = "KubeletRefused", [PLUGIN_TOO_LARGE] = "TooManyDevices",
    [PLUGIN_FAILED] = "SocketFailed",    [PLUGIN_NO_CDI] = "CDIFailed",
    [PLUGIN_NO_MPS] = "MPSFailed",
};

static_assert(ARRAY_LEN(plugin_reasons) == PLUGIN_NO_MPS + 1, "a reason for each state");

/* Repeats the controller's answer to the node's label, for readers of conditions. */
static void build_accepted(const struct node_state *s, int64_t now_ms, struct device_status *ret)
{
    static const char type[] = "Accepted";
    if (!s->spec || !s->spec->has_refused_label) {
        (void)condition_remove(&ret->conditions, type);
        return;
    }
    const struct device_refused_label *label = &s->spec->refused_label;
    auto_free char *text = xasprintf("%s=%s: %s", LABEL_MIG_CONFIG, label->value, label->message);
    /* The spec may have been stored before its schema asked for such a word, and one condition that
     * the API server refuses would cost the whole status. */
    const char *reason = condition_is_reason(label->reason) ? label->reason : "Refused";
    (void)condition_set(&ret->conditions, type, CONDITION_FALSE, reason, text, s->generation,
                        now_ms);
}

/* Set only where there is something to report. */
static void build_understood(const struct node_state *s, int64_t now_ms, struct device_status *ret)
{
    static const char type[] = "ConfigUnderstood";
    if (!s->config || !s->config->n_notices) {
        (void)condition_remove(&ret->conditions, type);
        return;
    }
    auto_free char *text = plugin_config_words(s->config);
    (void)condition_set(&ret->conditions, type, CONDITION_FALSE, "PartlyIgnored", text,
                        s->generation, now_ms);
}

/* ResourcesPublished is False with the reason wherever something is wrong, and True only where the
 * agent serves a kubelet. */
static void build_published(const struct node_state *s, const struct node_offer *o, int64_t now_ms,
                            struct device_status *ret)
{
    static const char type[] = "ResourcesPublished";
    bool served = s->plugin_text;
    const struct device_table *table = &o->table;
    if (served && s->plugin_state != PLUGIN_SERVED)
        (void)condition_set(&ret->conditions, type, CONDITION_FALSE,
                            plugin_reasons[s->plugin_state], s->plugin_text, s->generation, now_ms);
    else if (served && table->cdi_off)
        (void)condition_set(&ret->conditions, type, CONDITION_FALSE, "CDIDisabled",
                            "slices for pods reach their containers by CDI or cleave-runtime, "
                            "and the container runtime has neither; the condition "
                            "ContainerRuntimeReady has the remedy",
                            s->generation, now_ms);
    else if (served && table->pods_forbidden)
        (void)condition_set(&ret->conditions, type, CONDITION_FALSE, "PodsForbidden",
                            s->pods_forbidden, s->generation, now_ms);
    else if (served && table->left_out)
        (void)condition_set(&ret->conditions, type, CONDITION_FALSE, plugin_reasons[PLUGIN_NO_CDI],
                            table->left_out, s->generation, now_ms);
    else if (o->mixed_instead_of_single)
        (void)condition_set(&ret->conditions, type, CONDITION_FALSE, "MixedInsteadOfSingle",
                            "migStrategy single fits only nodes all of whose cards are cut into "
                            "one kind of partition, none of them empty: the names of mixed are "
                            "used",
                            s->generation, now_ms);
    else if (served)
        (void)condition_set(&ret->conditions, type, CONDITION_TRUE, "Served",
                            "the kubelet is served", s->generation, now_ms);
    else
        (void)condition_remove(&ret->conditions, type);
}

static void build_drivers(const struct node_state *s, struct device_status *ret)
{
    for (size_t i = 0; s->inventory && i < s->inventory->n_drivers; i++) {
        const struct gpu_driver *from = &s->inventory->drivers[i];
        if (!*from->version)
            continue;
        struct device_driver *d = XPUSH(ret->drivers, ret->n_drivers);
        d->vendor = xstrdup(from->vendor);
        d->version = xstrdup(from->version);
        d->cuda_version = *from->cuda_version ? xstrdup(from->cuda_version) : NULL;
    }
}

/* --- Labels --- */

static void copy_labels(const struct device_status *from, struct device_status *ret)
{
    for (size_t i = 0; i < from->n_labels; i++) {
        struct jx_pair *p = XPUSH(ret->labels, ret->n_labels);
        p->key = xstrdup(from->labels[i].key);
        p->str = xstrdup(from->labels[i].str);
    }
}

/* A card that was never read since the agent started may be of any kind, with any layout. */
static bool has_unread_card(const struct node_state *s)
{
    for (size_t i = 0; i < s->n_cards; i++)
        if (s->cards[i].card.unread)
            return true;
    return false;
}

/* Labels beyond the schema's bound are left out as a whole, because half of a resource's labels
 * would be worse than none. */
static void bound_labels(struct device_status *ret)
{
    if (ret->n_labels <= DEVICE_MAX_LABELS)
        return;
    gpu_labels_free(ret->labels, ret->n_labels);
    ret->labels = NULL;
    ret->n_labels = 0;
}

/* While some of the hardware cannot be read, the published labels stay. */
static void build_labels(const struct node_state *s, const struct node_offer *o,
                         const struct device_status *prev, int64_t now_ms,
                         struct device_status *ret)
{
    if (prev && prev->n_labels && (!s->host || (s->inventory && has_unread_card(s)))) {
        copy_labels(prev, ret);
        return;
    }
    auto_free struct gpu_labels_card *cards = xcalloc(s->n_cards, sizeof(*cards));
    struct gpu_labels_input in = {.cards = cards,
                                  .host = s->host,
                                  .config = s->config,
                                  .means = s->means};
    if (s->inventory) {
        in.drivers = s->inventory->drivers;
        in.n_drivers = s->inventory->n_drivers;
        in.mig_strategy = sharing_strategy(s->config, s->spec);
        in.strategy_in_force = o->strategy;
    }
    for (size_t i = 0; s->inventory && i < s->n_cards; i++)
        cards[in.n_cards++] =
            (struct gpu_labels_card){&s->cards[i].card, node_state_want(s, s->cards[i].card.uuid)};
    gpu_labels_build(&in, &ret->labels, &ret->n_labels);
    if (!s->config || !s->config->no_timestamp)
        gpu_labels_stamp(&ret->labels, &ret->n_labels, prev ? prev->labels : NULL,
                         prev ? prev->n_labels : 0, now_ms / 1000);
    bound_labels(ret);
}

/* True when the card's links are valid. Links are read together with all cards; a card cut since
 * then has none (NVIDIA's MIG user guide: no peer access). */
static bool is_linked(const struct node_state *s, size_t a, size_t b)
{
    return s->cards[a].card.mode != GPU_MIG && s->cards[b].card.mode != GPU_MIG &&
           gpu_pair_between(&s->inventory->topology, a, b).links;
}

/* Not for a card that is shown as last published, whose links come from there. */
static void build_links(const struct node_state *s, size_t at, struct device_card *to)
{
    bool told = to->n_linked_with > 0;
    for (size_t i = 0; i < s->n_cards && !told; i++)
        if (is_linked(s, at, i))
            *XPUSH(to->linked_with, to->n_linked_with) = s->cards[i].card.index;
}

/* How many containers the kubelet may give the card, or its part p, at a time. 0: one, or it is not
 * offered. */
static int64_t replicas_of(const struct device_table *t, const struct gpu_card *card,
                           const struct card_part *p)
{
    char id[DEVICE_ID_BYTES];
    const struct table_device *d = device_table_device(t, device_id(card, p, id));
    static_assert(PLUGIN_CONFIG_MAX_REPLICAS <= DEVICE_MAX_REPLICAS, "the schema's bound");
    return d && d->replicas > 1 ? d->replicas : 0;
}

/* The card's parts come first among the partitions, in their order. */
static void build_replicas(const struct node_offer *o, const struct gpu_card *card,
                           struct device_card *to)
{
    assert(to->n_partitions >= card_parts(card));
    to->replicas = replicas_of(&o->table, card, /* p= */ NULL);
    for (unsigned i = 0; i < card_parts(card); i++) {
        const struct card_part p = card_part_at(card, i);
        to->partitions[i].replicas = replicas_of(&o->table, card, &p);
    }
}

/* A card that has not been readable since start-up is shown as last published, or not at all. It
 * must not appear as an idle whole card. */
static bool is_known(const struct gpu_card *card, const struct device_status *prev)
{
    return *card->uuid && (!card->unread || (prev && device_status_card(prev, card->uuid)));
}

static void build_cards(const struct node_state *s, const struct node_offer *o,
                        const struct device_status *prev, int64_t now_ms, struct device_status *ret)
{
    assert(o->n == s->n_cards);
    for (size_t i = 0; i < s->n_cards; i++) {
        const struct gpu_card *card = &s->cards[i].card;
        if (!is_known(card, prev))
            continue;
        struct device_card *to = XPUSH(ret->devices, ret->n_devices);
        card_status_build(s, &s->cards[i], o->plans[i],
                          prev ? device_status_card(prev, card->uuid) : NULL, now_ms, to);
        build_links(s, i, to);
        if (!card->unread)
            build_replicas(o, card, to);
    }
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct device_resource *)a)->name,
                  ((const struct device_resource *)b)->name);
}

/* What the cards have for shares together, beside the slots that the kubelet counts. */
static void build_sums(const struct node_state *s, const struct node_offer *o,
                       struct device_status *ret)
{
    struct share_sums sums = {0};
    for (size_t i = 0; i < s->n_cards; i++) {
        const struct gpu_card *card = &s->cards[i].card;
        const struct device_card *told = device_status_card(ret, card->uuid);
        const struct device_want *want = node_state_want(s, card->uuid);
        bool gives = want && want->has_sharing && want->sharing.has_fractional;
        if (gives && told && told->has_fractional && card->healthy && !card->unread &&
            o->cards[i].whole)
            share_sums_add(&sums, (int64_t)card->memory_mib, &want->sharing.fractional);
    }
    share_sums_offer(&sums, &ret->resources, &ret->n_resources);
    if (ret->n_resources)
        qsort(ret->resources, ret->n_resources, sizeof(*ret->resources), by_name);
}

static void build_hardware(const struct node_state *s, const struct node_offer *o,
                           const struct device_status *prev, int64_t now_ms,
                           struct device_status *ret)
{
    ret->boot_id = *s->inventory->boot_id ? xstrdup(s->inventory->boot_id) : NULL;
    build_cards(s, o, prev, now_ms, ret);
    build_drivers(s, ret);
    build_models(s, ret);
    if (prev && ret->n_models < prev->n_models)
        keep_models(prev, ret);
    node_summary_build(ret);
    device_table_counts(&o->table, &s->unready, s->means.publisher, ret);
    build_sums(s, o, ret);
    build_labels(s, o, prev, now_ms, ret);
}

/* Before the first reading the published status stays as it is, with the generation that it was
 * published for. */
static void keep_hardware(const struct device_status *prev, struct device_status *ret)
{
    device_status_copy(prev, ret);
    free(TAKE(ret->agent_version));
    conditions_done(&ret->conditions);
}

/* The message for a node where everything is as wanted; owned by the caller. A spec without cards
 * leaves all of them as they are. Whoever set a label that is refused wants what the spec does not
 * have: Ready alone would tell him that he has it. */
static char *as_wanted(const struct node_state *s)
{
    const char *text = s->spec && s->spec->n_devices ? "the hardware is as wanted"
                                                     : "nothing is wanted of this node";
    if (!s->spec || !s->spec->has_refused_label)
        return xstrdup(text);
    const struct device_refused_label *label = &s->spec->refused_label;
    return xasprintf("%s, but for the label %s=%s, which is not followed: %s", text,
                     LABEL_MIG_CONFIG, label->value, label->message);
}

void node_status_build(const struct node_state *s, const struct node_offer *o,
                       const struct device_status *prev, int64_t now_ms, struct device_status *ret)
{
    *ret = (struct device_status){.observed_generation = s->generation};
    if (s->inventory) {
        build_hardware(s, o, prev, now_ms, ret);
    } else if (prev && prev->n_devices) {
        keep_hardware(prev, ret);
    } else {
        node_summary_build(ret);
        build_labels(s, o, prev, now_ms, ret);
    }
    ret->agent_version = xstrdup(s->agent_version);
    xstr_set(&ret->withdrawal, s->withdrawal);
    if (prev)
        conditions_copy(&ret->conditions, &prev->conditions);
    build_published(s, o, now_ms, ret);
    build_accepted(s, now_ms, ret);
    build_understood(s, now_ms, ret);
    node_readiness_build(s, now_ms, ret);
    neighbours_build(s, now_ms, ret);
    outdated_report_build(s, now_ms, ret);
    struct node_kstatus v = node_kstatus_of(s, ret);
    assert(v.reason);
    auto_free char *text = v.message ? v.message : as_wanted(s);
    (void)conditions_set_kstatus(&ret->conditions, v.state, v.reason, text, s->generation, now_ms);
}
