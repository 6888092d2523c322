/* SPDX-License-Identifier: Apache-2.0 */
#include "reconcilers/node_labels.h"

#include <string.h>

#include "api/kinds.h"
#include "reconcilers/records/shared_parts.h"
#include "reconcilers/standing.h"

/* --- The answer to nvidia.com/mig.config --- */

/* InUse without eviction is `failed` to mig-manager; the failure ends by itself when the card
 * becomes free. */
static const char *state_of(const struct standing *s)
{
    switch (s->phase) {
    case PHASE_UP_TO_DATE:
        return MIG_STATE_SUCCESS;
    case PHASE_CHANGING:
        return strcmp(s->reason, "InUse") == 0 ? MIG_STATE_FAILED : MIG_STATE_PENDING;
    case PHASE_FAILED:
        return strcmp(s->reason, "RebootRequired") == 0 ? MIG_STATE_REBOOTING : MIG_STATE_FAILED;
    case PHASE_WAITING:
    case PHASE_OVERRIDDEN:
    case PHASES:
        return MIG_STATE_PENDING;
    }
    return MIG_STATE_PENDING;
}

void node_labels_state(const struct node_view *v, struct label_state *ret)
{
    *ret = (struct label_state){0};
    const struct resolve_outcome *o = v->device ? node_view_label(v) : NULL;
    if (!o)
        return;
    auto_standing struct standing s = {0};
    standing_of(v, o, &s);
    ret->value = state_of(&s);
    ret->reason = TAKE(s.reason);
    ret->message = TAKE(s.message);
}

void label_state_done(struct label_state *s)
{
    free(s->reason);
    free(s->message);
    *s = (struct label_state){0};
}

/* --- Labels --- */

static void add_text(json_t *labels, const char *key, const char *value)
{
    if (value)
        (void)json_object_set_new(labels, key, json_string(value));
}

static bool is_discovered(const struct node_record *node, const char *key)
{
    for (size_t i = 0; i < node->discovered_labels.n; i++)
        if (strcmp(node->discovered_labels.items[i], key) == 0)
            return true;
    return false;
}

/* Labels that a feature discovery writes on this Node are left to it, because the two would
 * overwrite each other for ever. A value from any other writer is overwritten. */
static void add_features(const struct node_view *v, json_t *labels)
{
    for (size_t i = 0; i < v->device->n_features; i++)
        if (!is_discovered(v->node, v->device->features[i].key))
            add_text(labels, v->device->features[i].key, v->device->features[i].str);
}

size_t node_labels_left(const struct node_view *v)
{
    size_t n = 0;
    for (size_t i = 0; v->device && i < v->device->n_features; i++)
        n += is_discovered(v->node, v->device->features[i].key);
    return n;
}

/* While the hardware cannot be read, or the agent is too old to describe it, the present labels
 * stay. */
static void keep_cards(const struct node_record *node, json_t *labels)
{
    for (size_t i = 0; i < node->owned_labels.n; i++)
        if (strcmp(node->owned_labels.items[i], LABEL_MIG_CONFIG_STATE) != 0)
            add_text(labels, node->owned_labels.items[i],
                     records_label(node->labels, node->n_labels, node->owned_labels.items[i]));
}

json_t *node_labels_wanted(const struct node_view *v, const char *state)
{
    json_t *labels = json_object();
    add_text(labels, LABEL_MIG_CONFIG_STATE, state);
    if (!v->device)
        return labels;
    if (v->device->n_features)
        add_features(v, labels);
    else if (v->device->status_error || !v->device->has_status || v->device->n_cards)
        keep_cards(v->node, labels);
    return labels;
}

bool node_labels_stand(const struct node_record *node, json_t *wanted)
{
    const char *key;
    json_t *value;
    json_object_foreach(wanted, key, value) {
        const char *now = records_label(node->labels, node->n_labels, key);
        if (!now || strcmp(now, json_string_value(value)) != 0)
            return false;
    }
    /* Every wanted key is owned and the numbers are equal, so the sets are the same. */
    if (node->owned_labels.n != json_object_size(wanted))
        return false;
    for (size_t i = 0; i < node->owned_labels.n; i++)
        if (!json_object_get(wanted, node->owned_labels.items[i]))
            return false;
    return true;
}
