/* SPDX-License-Identifier: Apache-2.0 */
#include "kubectl/label_fix.h"

#include <string.h>

#include "base/fnv1a.h"
#include "base/jx.h"
#include "base/sb.h"
#include "base/xalloc.h"

#include "api/kinds.h"
#include "api/label_value.h"

/* A bound on the commands for a node's cards, of which a Device has few. */
enum { MAX_COMMANDS_BYTES = 1 << 20 };

/* The name of the MIGConfig: the node's. One that is too long for a label's value is cut, and ends
 * in a number made of all of it: nodes of one domain may begin alike. */
static char *name_for(const char *node)
{
    enum { NUMBER_BYTES = sizeof("-01234567") - 1 };
    if (label_value_legal(node))
        return xstrdup(node);
    auto_free char *begin = label_value_of(node, LABEL_VALUE_MAX - NUMBER_BYTES);
    return xasprintf("%s-%08x", begin ? begin : "node",
                     (unsigned)fnv1a(/* seed= */ 0, node, strlen(node)));
}

/* True when the label governs one of the cards that change, and a MIGConfig has all their layouts:
 * slices it has not. */
static bool is_for_label(const struct node_fix *fix)
{
    bool any = false;
    for (size_t i = 0; i < fix->n; i++) {
        const struct card_fix *c = &fix->cards[i];
        if (c->by_label && c->layout.mode != API_MODE_MIG && c->layout.mode != API_MODE_NATIVE)
            return false;
        any |= c->by_label;
    }
    return any;
}

static const struct card_fix *fix_of(const struct node_fix *fix, const char *uuid)
{
    for (size_t i = 0; i < fix->n; i++)
        if (fix->cards[i].by_label && strcmp(fix->cards[i].uuid, uuid) == 0)
            return &fix->cards[i];
    return NULL;
}

/* The partitions of a want; NULL: the whole card. */
static json_t *partitions_of(const struct device_want *want)
{
    if (want->mode != API_MODE_MIG)
        return NULL;
    json_t *counts = json_object();
    for (size_t i = 0; i < want->mig.n_profiles; i++)
        (void)json_object_set_new(counts, want->mig.profiles[i].profile,
                                  json_integer(want->mig.profiles[i].count));
    return counts;
}

/* Adds a card: to the entry that has its layout, or as one of its own. */
static void add_card(json_t *entries, const struct device_card *card, const json_t *partitions)
{
    size_t i;
    json_t *entry;
    json_array_foreach(entries, i, entry) {
        const json_t *others = json_object_get(entry, "migDevices");
        if (partitions ? json_equal(others, partitions) : !others) {
            (void)json_array_append_new(json_object_get(entry, "indices"),
                                        json_integer(card->index));
            return;
        }
    }
    entry = json_pack("{s:[I], s:b}", "indices", (json_int_t)card->index, "migEnabled",
                      partitions != NULL);
    if (partitions)
        (void)json_object_set(entry, "migDevices", (json_t *)(uintptr_t)partitions);
    (void)json_array_append_new(entries, entry);
}

json_t *label_fix_config(const char *node, const struct device_status *st,
                         const struct device_spec *spec, const struct node_fix *fix)
{
    if (!is_for_label(fix))
        return NULL;
    auto_free char *name = name_for(node);
    auto_json json_t *entries = json_array();
    for (size_t i = 0; i < st->n_devices; i++) {
        const struct device_card *card = &st->devices[i];
        const struct device_want *want = device_spec_want(spec, card->uuid);
        const struct card_fix *to = fix_of(fix, card->uuid);
        if (!want || !want->has_source || want->source.kind != API_SOURCE_NODE_LABEL)
            continue;
        auto_json json_t *partitions =
            to ? json_incref(to->layout.partitions) : partitions_of(want);
        add_card(entries, card, partitions);
    }
    return json_pack("{s:s, s:s, s:{s:s}, s:{s:O}}", "apiVersion", API_GROUP_VERSION, "kind",
                     "MIGConfig", "metadata", "name", name, "spec", "devices", entries);
}

/* Each entry is a line of JSON, which is YAML too. */
char *label_fix_commands(const char *node, const json_t *config)
{
    size_t i;
    json_t *entry;
    const char *name = JX_STR_AT(config, "metadata", "name");
    auto_sb struct sb b = SB_INIT(MAX_COMMANDS_BYTES);
    sb_addf(&b,
            "kubectl apply -f - <<'EOF'\n"
            "apiVersion: " API_GROUP_VERSION "\n"
            "kind: MIGConfig\n"
            "metadata: {name: \"%s\"}\n"
            "spec:\n"
            "  devices:\n",
            name);
    json_array_foreach(JX_AT(config, "spec", "devices"), i, entry) {
        auto_free char *text = json_dumps(entry, 0);
        sb_addf(&b, "  - %s\n", text);
    }
    sb_addf(&b, "EOF\nkubectl label node %s " LABEL_MIG_CONFIG "=%s --overwrite\n", node, name);
    return sb_take(&b);
}
