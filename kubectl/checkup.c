/* SPDX-License-Identifier: Apache-2.0 */
#include "kubectl/checkup.h"

#include <string.h>

#include "base/jx.h"
#include "base/quantity.h"
#include "base/rfc3339.h"
#include "base/sb.h"
#include "base/xalloc.h"

#include "api/feature_label.h"
#include "kubectl/checkup_device.h"
#include "partition/vendor.h"
#include "reconcilers/records/node_record.h"
#include "reconcilers/silence.h"
#include "service/conditions.h"

/* Different versions that one finding names, and the bytes of each. */
enum { MAX_VERSIONS = 8, MAX_VERSION_BYTES = 64, MS_PER_S = 1000, MAX_LEASE_S = 3600 };
enum { MAX_LEADERS_BYTES = 512 };

void checkup_init(struct checkup *c, int64_t now_ms)
{
    *c = (struct checkup){.now_ms = now_ms,
                          .nodes = json_object(),
                          .versions = json_object(),
                          .leaders = SB_INIT(MAX_LEADERS_BYTES)};
}

void checkup_done(struct checkup *c)
{
    complaints_done(&c->found);
    json_decref(c->nodes);
    json_decref(c->versions);
    sb_done(&c->leaders);
    *c = (struct checkup){0};
}

void checkup_lacks(struct checkup *c, const char *plural)
{
    auto_free char *seen = xasprintf("the API server does not know %s.gpu.cleave.dev", plural);
    complaints_add(&c->found, &(struct complaint){.kind = "Cluster",
                                                  .reason = "NotInstalled",
                                                  .part = plural,
                                                  .seen = seen});
}

/* --- Nodes --- */

/* node-feature-discovery's label of a vendor's cards on the PCI bus. */
static bool is_card_label(const char *key)
{
    size_t len = strlen(FEATURE_PCI);
    for (const struct vendor *v = vendors; v->name; v++) {
        auto_free char *tail = xasprintf("%04x.present", v->pci);
        size_t n = strlen(key);
        if (v->pci && strncmp(key, FEATURE_PCI, len) == 0 && n >= strlen(tail) &&
            strcmp(key + n - strlen(tail), tail) == 0)
            return true;
    }
    return false;
}

static bool has_card_label(const json_t *node)
{
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)JX_AT(node, "metadata", "labels"), key, value) {
        const char *text = json_string_value(value);
        if (is_card_label(key) && text && strcmp(text, "true") == 0)
            return true;
    }
    return false;
}

static bool offers_cards(const json_t *node)
{
    const char *name;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)JX_AT(node, "status", "capacity"), name, value) {
        const char *text = json_string_value(value);
        int64_t n = 0;
        if (vendor_owns(name) && text && quantity_parse(text, &n, NULL) == 0 && n > 0)
            return true;
    }
    return false;
}

void checkup_node(struct checkup *c, const json_t *node)
{
    const char *name = JX_STR_AT(node, "metadata", "name");
    bool has_cards = has_card_label(node) || offers_cards(node);
    if (!name)
        return;
    c->n_nodes++;
    (void)json_object_set_new(c->nodes, name, json_boolean(has_cards));
    if (has_cards && !records_node_is_ready(node))
        complaints_add(&c->found, &(struct complaint){.kind = "Node",
                                                      .name = name,
                                                      .reason = "NodeNotReady",
                                                      .seen = "the node has cards, and its "
                                                              "condition Ready is not True"});
}

/* --- Devices --- */

/* When the object was last written, its status apart; 0: not known. */
static int64_t written_ms(const json_t *obj)
{
    size_t i;
    json_t *entry;
    int64_t last = 0;
    json_array_foreach(JX_AT(obj, "metadata", "managedFields"), i, entry) {
        int64_t ms = rfc3339_or(JX_STR_AT(entry, "time"), 0);
        if (!JX_STR_AT(entry, "subresource") && ms > last)
            last = ms;
    }
    return last;
}

/* True when the agent or the controller, who acknowledges an object within seconds, has not done so
 * for as long as makes an agent silent. */
static bool is_unseen(const struct checkup *c, const json_t *obj)
{
    json_int_t generation = json_integer_value(JX_AT(obj, "metadata", "generation"));
    json_int_t seen = json_integer_value(JX_AT(obj, "status", "observedGeneration"));
    return seen < generation && c->now_ms - written_ms(obj) > SILENCE_AFTER_MS;
}

static void note_version(struct checkup *c, const struct device_status *st)
{
    const char *said = st->agent_version ? st->agent_version : "";
    auto_free char *version = xstrndup(said, utf8_cut(said, MAX_VERSION_BYTES));
    json_int_t n = json_integer_value(json_object_get(c->versions, version));
    if (*version && (n || json_object_size(c->versions) < MAX_VERSIONS))
        (void)json_object_set_new(c->versions, version, json_integer(n + 1));
}

static void note_presence(struct checkup *c, const char *name)
{
    struct complaint what = {.severity = SEVERITY_WARNING,
                             .kind = "Device",
                             .name = name,
                             .reason = "NoNode",
                             .seen = "there is no Node of this name"};
    if (!c->has_nodes)
        return;
    if (!json_object_get(c->nodes, name))
        complaints_add(&c->found, &what);
    else
        (void)json_object_set_new(c->nodes, name, json_false());
}

void checkup_device(struct checkup *c, const json_t *device)
{
    auto_err struct err why = {0};
    auto_device_status struct device_status st = {0};
    const char *name = JX_STR_AT(device, "metadata", "name");
    if (!name)
        return;
    c->n_devices++;
    note_presence(c, name);
    if (device_status_decode(device, &st, &why) < 0) {
        complaints_add(&c->found, &(struct complaint){.kind = "Device",
                                                      .name = name,
                                                      .reason = "Unreadable",
                                                      .seen = err_msg(&why)});
        return;
    }
    note_version(c, &st);
    checkup_status(&c->found, name, &st, is_unseen(c, device), c->now_ms);
}

/* --- GPUProfiles and MIGConfigs --- */

void checkup_wish(struct checkup *c, const char *kind, const json_t *obj)
{
    auto_conditions struct conditions all = {0};
    const char *name = JX_STR_AT(obj, "metadata", "name");
    struct complaint what = {.kind = kind, .name = name};
    if (!name)
        return;
    c->n_profiles += strcmp(kind, "GPUProfile") == 0;
    conditions_from_json(JX_AT(obj, "status", "conditions"), &all);
    if (is_unseen(c, obj)) {
        what.reason = "NotSeen";
        what.seen = "the controller has not looked at this version of it";
        complaints_add(&c->found, &what);
        return;
    }
    checkup_ready(&c->found, &what, &all, c->now_ms);
}

/* --- Leases --- */

static int64_t lease_ms(const json_t *lease)
{
    json_int_t s = json_integer_value(JX_AT(lease, "spec", "leaseDurationSeconds"));
    return (s < 0 || s > MAX_LEASE_S ? MAX_LEASE_S : s) * MS_PER_S;
}

static int64_t renewed_ms(const json_t *lease)
{
    return rfc3339_or(JX_STR_AT(lease, "spec", "renewTime"), 0);
}

/* A Lease counts as kept for a minute more than it asks for: clocks of two machines differ. */
static bool is_kept(const struct checkup *c, const json_t *lease)
{
    const char *holder = JX_STR_AT(lease, "spec", "holderIdentity");
    return holder && *holder &&
           c->now_ms - renewed_ms(lease) <= lease_ms(lease) + SILENCE_AFTER_MS / 2;
}

/* --- The controller --- */

void checkup_lease(struct checkup *c, const json_t *lease)
{
    const char *ns = JX_STR_AT(lease, "metadata", "namespace");
    if (is_kept(c, lease)) {
        sb_addf(&c->leaders, "%s%s", c->n_leaders++ ? ", " : "", ns ? ns : "");
        return;
    }
    c->n_left++;
    auto_free char *seen =
        xasprintf("nobody has renewed the Lease %s/" CHECKUP_LEASE, ns ? ns : "");
    complaints_add(&c->found, &(struct complaint){.kind = "Cluster",
                                                  .reason = "NotLeading",
                                                  .seen = seen,
                                                  .since_ms = renewed_ms(lease)});
}

static void end_leases(struct checkup *c)
{
    struct complaint what = {.kind = "Cluster"};
    if (c->n_leaders > 1) {
        auto_free char *seen = xasprintf("Leases " CHECKUP_LEASE " are kept in %zu namespaces: %s",
                                         c->n_leaders, sb_str(&c->leaders));
        what.reason = "SeveralControllers";
        what.seen = seen;
        complaints_add(&c->found, &what);
    } else if (c->n_leaders == 0 && c->n_left == 0) {
        what.reason = "NoController";
        what.seen = "no controller leads: profiles are not followed";
        complaints_add(&c->found, &what);
    }
}

/* --- The scheduler --- */

static int64_t unavailable_since(const json_t *deployment)
{
    auto_conditions struct conditions all = {0};
    conditions_from_json(JX_AT(deployment, "status", "conditions"), &all);
    const struct condition *available = condition_get(&all, "Available");
    return available && available->status != CONDITION_TRUE ? available->last_transition_ms : 0;
}

/* A Deployment with zero replicas wanted is a warning alone: somebody has meant it so. */
void checkup_scheduler(struct checkup *c, const json_t *deployment)
{
    const char *ns = JX_STR_AT(deployment, "metadata", "namespace");
    json_int_t wanted = json_integer_value(JX_AT(deployment, "spec", "replicas"));
    if (json_integer_value(JX_AT(deployment, "status", "readyReplicas")) > 0) {
        c->scheduler.n_ready++;
        return;
    }
    auto_free char *seen =
        xasprintf("of %" JSON_INTEGER_FORMAT " replicas of Deployment %s/" CHECKUP_SCHEDULER
                  " none is ready: its pods are not placed",
                  wanted, ns ? ns : "");
    complaints_add(&c->found,
                   &(struct complaint){.severity = wanted ? SEVERITY_ERROR : SEVERITY_WARNING,
                                       .kind = "Cluster",
                                       .reason = "SchedulerNotReady",
                                       .seen = seen,
                                       .since_ms = unavailable_since(deployment)});
}

void checkup_scheduler_lease(struct checkup *c, const json_t *lease)
{
    int64_t renewed = renewed_ms(lease);
    c->scheduler.n_leaders += is_kept(c, lease);
    if (renewed > c->scheduler.renewed_ms)
        c->scheduler.renewed_ms = renewed;
}

static void end_scheduler(struct checkup *c)
{
    if (c->scheduler.n_ready && c->scheduler.n_leaders == 0)
        complaints_add(&c->found,
                       &(struct complaint){.kind = "Cluster",
                                           .reason = "SchedulerNotLeading",
                                           .seen = "replicas are ready, and nobody renews the "
                                                   "Lease " CHECKUP_SCHEDULER
                                                   ": its pods are not placed",
                                           .since_ms = c->scheduler.renewed_ms});
}

/* --- All together --- */

static void end_nodes(struct checkup *c)
{
    const char *name;
    json_t *lacks;
    json_object_foreach(c->nodes, name, lacks) {
        if (json_is_true(lacks))
            complaints_add(&c->found, &(struct complaint){.severity = SEVERITY_WARNING,
                                                          .kind = "Node",
                                                          .name = name,
                                                          .reason = "NoDevice",
                                                          .seen = "the node has cards, and no "
                                                                  "agent has reported them"});
    }
}

static void end_versions(struct checkup *c)
{
    const char *version;
    json_t *n;
    auto_sb struct sb seen = SB_INIT(MAX_VERSIONS * 2 * MAX_VERSION_BYTES);
    if (json_object_size(c->versions) < 2)
        return;
    const char *before = "agents of several versions run: ";
    json_object_foreach(c->versions, version, n) {
        json_int_t nodes = json_integer_value(n);
        sb_addf(&seen, "%s%s on %" JSON_INTEGER_FORMAT " node%s", before, version, nodes,
                nodes == 1 ? "" : "s");
        before = ", ";
    }
    complaints_add(&c->found, &(struct complaint){.severity = SEVERITY_WARNING,
                                                  .kind = "Cluster",
                                                  .reason = "MixedVersions",
                                                  .seen = sb_str(&seen)});
}

void checkup_end(struct checkup *c)
{
    if (c->has_nodes && c->has_devices)
        end_nodes(c);
    if (c->has_leases) {
        end_leases(c);
        end_scheduler(c);
    }
    end_versions(c);
    complaints_sort(&c->found);
}
