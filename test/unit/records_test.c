/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <string.h>

#include "base/jx.h"
#include "base/sb.h"
#include "base/xalloc.h"
#include "base/yaml.h"

#include "api/label_value.h"
#include "interop/node_lock.h"
#include "reconcilers/records/device_record.h"
#include "reconcilers/records/node_record.h"
#include "reconcilers/records/profile_record.h"
#include "reconcilers/records/shared_parts.h"

/* An object of this type from YAML. The caller drops it. */
static struct object *make(const struct object_type *type, const char *yaml)
{
    auto_err struct err e = {0};
    auto_json json_t *json = NULL;
    struct object *o = NULL;
    cr_assert_eq(yaml_load(yaml, strlen(yaml), &json, &e), 0, "%s", err_msg(&e));
    cr_assert_eq(object_new(type, json, &o, &e), 0, "%s", err_msg(&e));
    return o;
}

#define NODE                                                                                        \
    "metadata:\n"                                                                                   \
    "  name: n1\n"                                                                                  \
    "  labels: {zone: z, nvidia.com/mig.config: all-balanced, arch: amd64}\n"                       \
    "  managedFields:\n"                                                                            \
    "  - {manager: kubelet, operation: Update, fieldsV1: {f:metadata: {f:labels: {f:arch: {}}}}}\n" \
    "  - manager: cleave-controller-node\n"                                                         \
    "    operation: Apply\n"                                                                        \
    "    subresource: status\n"                                                                     \
    "    fieldsV1: {f:metadata: {f:labels: {f:nvidia.com/gpu.count: {}, f:a: {}}},"                 \
    " f:status: {f:capacity: {f:nvidia.com/gpu: {}},"                                               \
    " f:allocatable: {f:nvidia.com/gpu: {}, f:nvidia.com/x: {}}}}\n"                                \
    "status:\n"                                                                                     \
    "  capacity: {cpu: '8', nvidia.com/gpu: '4', nvidia.com/x: 1k}\n"                               \
    "  allocatable: {cpu: '8', nvidia.com/gpu: '3', nvidia.com/x: nonsense}\n"

Test(records, a_node_is_its_labels_and_the_resources_of_vendors)
{
    auto_object struct object *o = make(&records_node_type, NODE);
    const struct node_record *r = object_payload(o);
    cr_expect_str_eq(records_label(r->labels, r->n_labels, "zone"), "z");
    cr_expect_null(records_label(r->labels, r->n_labels, "zon"));
    cr_expect_str_eq(records_mig_label(r), "all-balanced");
    cr_assert_eq(r->n_resources, 2);
    cr_expect_str_eq(r->resources[0].name, "nvidia.com/gpu");
    cr_expect_eq(r->resources[0].capacity, 4);
    cr_expect_eq(r->resources[0].allocatable, 3);
    cr_expect_eq(r->resources[1].capacity, 1000);
    cr_expect_eq(r->resources[1].allocatable, -1, "what is no quantity counts as absent");
}

Test(records, a_node_knows_what_we_applied)
{
    auto_object struct object *o = make(&records_node_type, NODE);
    const struct node_record *r = object_payload(o);
    cr_assert_eq(r->owned_labels.n, 2);
    cr_expect_str_eq(r->owned_labels.items[0], "a");
    cr_expect_str_eq(r->owned_labels.items[1], "nvidia.com/gpu.count");
    cr_assert_eq(r->owned_resources.n, 2);
    cr_expect_str_eq(r->owned_resources.items[1], "nvidia.com/x");
}

Test(records, nodes_are_compared_by_what_matters)
{
    auto_object struct object *a = make(&records_node_type, NODE);
    auto_object struct object *b =
        make(&records_node_type, NODE "  conditions: [{type: Ready, status: 'True'}]\n");
    auto_object struct object *other =
        make(&records_node_type, "metadata: {name: n1, labels: {zone: y}}\n");
    cr_expect(records_same_labels(object_payload(a), object_payload(b)));
    cr_expect(records_same_resources(object_payload(a), object_payload(b)));
    cr_expect_not(records_same_labels(object_payload(a), object_payload(other)));
    cr_expect_not(records_same_resources(object_payload(a), object_payload(other)));
}

Test(records, an_empty_label_is_none)
{
    auto_object struct object *o =
        make(&records_node_type, "metadata: {name: n, labels: {nvidia.com/mig.config: ''}}\n");
    cr_expect_null(records_mig_label(object_payload(o)));
}

#define DEVICE                                                                                               \
    "metadata:\n"                                                                                            \
    "  name: n1\n"                                                                                           \
    "  generation: 3\n"                                                                                      \
    "  ownerReferences: [{apiVersion: v1, kind: Node, name: n1, uid: u1}]\n"                                 \
    "spec: {devices: [{uuid: GPU-1, mode: mig, mig: {profiles: [{profile: 1g.10gb, count: 1}]}}]}\n"         \
    "status:\n"                                                                                              \
    "  observedGeneration: 2\n"                                                                              \
    "  drivers: [{vendor: nvidia, version: '570.1'}]\n"                                                      \
    "  models: [{name: M, migMemorySlices: 8, migProfiles: [{name: 1g.10gb, id: 19, slices: 1, maxCount: 7," \
    " size: 1, starts: [0]}]}]\n"                                                                            \
    "  devices:\n"                                                                                           \
    "  - {uuid: GPU-2, index: 1, vendor: nvidia, model: M}\n"                                                \
    "  - uuid: GPU-1\n"                                                                                      \
    "    index: 0\n"                                                                                         \
    "    vendor: nvidia\n"                                                                                   \
    "    model: M\n"                                                                                         \
    "    mode: mig\n"                                                                                        \
    "    pciDeviceID: '0x233010DE'\n"                                                                        \
    "    partitions:\n"                                                                                      \
    "    - {uuid: MIG-1, profile: 1g.10gb, giID: 1, inUseBy: [{pid: 1, uid: p1}, {pid: 2}]}\n"               \
    "    - {uuid: MIG-2, profile: 1g.10gb, giID: 2, inUseBy: [{pid: 3, uid: p2}]}\n"                         \
    "    drain: {since: '2027-01-01T00:00:00Z', partitions: [MIG-1]}\n"                                      \
    "    conditions: [{type: Applied, status: 'False', reason: Draining, message: m,"                        \
    " lastTransitionTime: '2027-01-01T00:00:00Z'}]\n"

Test(records, a_device_is_its_cards_by_index)
{
    auto_object struct object *o = make(&records_device_type, DEVICE);
    const struct device_record *r = object_payload(o);
    cr_assert_null(r->status_error, "%s", r->status_error);
    cr_assert_eq(r->n_cards, 2);
    const struct card_record *card = &r->cards[0];
    cr_expect_str_eq(card->uuid, "GPU-1");
    cr_expect_eq(card->pci_device_id, 0x233010DE);
    cr_assert_eq(card->n_partitions, 1);
    cr_expect_eq(card->partitions[0].count, 2);
    cr_expect_str_eq(card->applied.reason, "Draining");
    cr_expect_str_eq(r->owner_uid, "u1");
    cr_expect_str_eq(r->driver_version, "570.1");
    cr_expect_eq(r->observed_generation, 2);
}

/* The agent plans with its own inventory (vendors.def): an entry that takes one card has to take
 * the same one in both programs. */
Test(records, cards_of_two_vendors_are_in_the_order_of_the_inventory)
{
    auto_object struct object *o =
        make(&records_device_type, "metadata: {name: n1}\n"
                                   "status: {devices: [{uuid: N0, vendor: nvidia, index: 0}, "
                                   "{uuid: M1, vendor: metax, index: 1}, "
                                   "{uuid: N1, vendor: nvidia, index: 1}, "
                                   "{uuid: M0, vendor: metax, index: 0}]}\n");
    const struct device_record *r = object_payload(o);
    cr_assert_null(r->status_error, "%s", r->status_error);
    cr_assert_eq(r->n_cards, 4);
    static const char *const uuids[] = {"M0", "M1", "N0", "N1"};
    for (size_t i = 0; i < 4; i++)
        cr_expect_str_eq(r->cards[i].uuid, uuids[i]);
}

Test(records, what_schedulers_say_of_a_node_is_kept_as_far_as_it_may_be_meant)
{
    auto_object struct object *o = make(
        &records_node_type,
        "metadata:\n"
        "  name: n\n"
        "  annotations: {hami.io/mutex.lock: x, metax-tech.com/node-gpu-devices: y, other: z}\n"
        "  managedFields:\n"
        "  - manager: cleave-controller-node-cards\n"
        "    operation: Apply\n"
        "    fieldsV1: {f:metadata: {f:annotations: {f:metax-tech.com/node-gpu-devices: {}}}}\n");
    const struct node_record *r = object_payload(o);
    cr_expect_str_eq(r->lock, "x");
    cr_expect_str_eq(r->cards, "y");
    cr_expect(r->owns_cards);
    auto_free char *long_text = xcalloc(1, 100001);
    memset(long_text, 'x', 100000);
    auto_free char *yaml =
        xasprintf("metadata: {name: n, annotations: {hami.io/mutex.lock: %s}}\n", long_text);
    auto_object struct object *big = make(&records_node_type, yaml);
    r = object_payload(big);
    cr_expect_eq(strlen(r->lock), NODE_LOCK_MAX_BYTES + 1);
    cr_expect_null(r->cards);
    cr_expect_not(r->owns_cards);
}

Test(records, a_partition_of_unknown_profile_counts_too)
{
    auto_object struct object *o =
        make(&records_device_type, "metadata: {name: n1}\nstatus: {devices: [{uuid: G, vendor: "
                                   "nvidia, index: 0, partitions: [{uuid: M, giID: 1}]}]}\n");
    const struct device_record *r = object_payload(o);
    cr_assert_null(r->status_error, "%s", r->status_error);
    cr_expect_str_eq(r->cards[0].partitions[0].profile, "unknown");
}

Test(records, only_the_pods_that_a_drain_waits_for_are_kept)
{
    auto_object struct object *o = make(&records_device_type, DEVICE);
    const struct device_record *r = object_payload(o);
    cr_assert(r->cards[0].draining);
    cr_assert_eq(r->cards[0].n_drain_pods, 1);
    cr_expect_str_eq(r->cards[0].drain_pods[0].uid, "p1");
}

Test(records, devices_alike_share_what_they_say)
{
    auto_object struct object *a = make(&records_device_type, DEVICE);
    auto_object struct object *b = make(&records_device_type, DEVICE);
    const struct device_record *x = object_payload(a);
    const struct device_record *y = object_payload(b);
    cr_expect_eq(x->models[0].table, y->models[0].table);
    cr_expect_eq(x->cards[0].partitions, y->cards[0].partitions);
    cr_expect_eq(x->spec.devices[0].mig.profiles, y->spec.devices[0].mig.profiles);
}

Test(records, a_device_without_status_has_not_reported)
{
    auto_object struct object *o = make(&records_device_type, "metadata: {name: n1}\nspec: {}\n");
    const struct device_record *r = object_payload(o);
    cr_expect_not(r->has_status);
    cr_expect_null(r->status_error);
}

Test(records, garbage_in_a_status_leaves_a_note_and_no_hardware)
{
    static const char *const garbage[] = {
        "status: 7\n",
        "status: {devices: 7}\n",
        "status: {devices: [{uuid: 1}]}\n",
        "status: {devices: [{index: 0}]}\n",
        "status: {models: [{name: M, migMemorySlices: 8, migProfiles: [{name: nonsense, id: 1, slices: 1, maxCount: 1}]}]}\n",
        "status: {models: [{name: M, migMemorySlices: 2, migProfiles: [{name: 1g.10gb, id: 1, slices: 1, maxCount: 1, size: 8, starts: [60]}]}]}\n",
        "status: {resources: [{name: x, count: many}]}\n",
    };
    for (size_t i = 0; i < ARRAY_LEN(garbage); i++) {
        auto_sb struct sb yaml = SB_INIT(1024);
        sb_addf(&yaml, "metadata: {name: n1}\n%s", garbage[i]);
        auto_object struct object *o = make(&records_device_type, sb_str(&yaml));
        const struct device_record *r = object_payload(o);
        cr_expect_not_null(r->status_error, "%s", garbage[i]);
        cr_expect(r->has_status);
        cr_expect_eq(r->n_cards + r->n_models + r->n_resources, 0);
    }
}

Test(records, garbage_in_a_spec_leaves_a_note)
{
    auto_object struct object *device =
        make(&records_device_type, "metadata: {name: n}\nspec: {devices: {}}\n");
    auto_object struct object *profile =
        make(&records_profile_type, "metadata: {name: p}\nspec: {devices: 1}\nstatus: 3\n");
    auto_object struct object *config =
        make(&records_config_type, "metadata: {name: c}\nspec: []\nstatus: x\n");
    cr_expect_not_null(((const struct device_record *)object_payload(device))->spec_error);
    cr_expect_not_null(((const struct profile_record *)object_payload(profile))->spec_error);
    cr_expect_not_null(((const struct config_record *)object_payload(config))->spec_error);
}

Test(records, configs_are_found_by_name_and_alias)
{
    auto_object struct object *config =
        make(&records_config_type,
             "metadata: {name: c}\nspec: {aliases: [C_1], devices: [{migEnabled: false}]}\n");
    auto_object struct object *profile =
        make(&records_profile_type, "metadata: {name: p}\nspec: {nodeSelector: {}, devices:"
                                    " [{mode: mig, mig: {config: C_1}}]}\n");
    const struct config_record *r = object_payload(config);
    cr_assert_null(r->spec_error, "%s", r->spec_error);
    cr_expect(records_config_named(config, "c"));
    cr_expect(records_config_named(config, "C_1"));
    cr_expect_not(records_config_named(config, "C"));
    cr_expect(records_profile_names(object_payload(profile), config));
}

Test(records, label_values_are_made_of_product_names)
{
    static const struct {
        const char *text, *value;
    } rows[] = {
        {"NVIDIA H100 80GB HBM3", "NVIDIA-H100-80GB-HBM3"},
        {" (Tesla) T4! ", "Tesla-T4"},
        {"RTX PRO 6000 Blackwell Server Edition with a very long name indeed, sir",
         "RTX-PRO-6000-Blackwell-Server-Edition-with-a-very-long-name-ind"},
        {"???", NULL},
        {"", NULL},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        auto_free char *value = label_value_from(rows[i].text);
        if (rows[i].value)
            cr_expect_str_eq(value, rows[i].value);
        else
            cr_expect_null(value);
    }
}

Test(records, what_an_agent_may_not_say_is_no_feature)
{
    auto_object struct object *o =
        make(&records_device_type,
             "metadata: {name: n1}\n"
             "status: {labels: {nvidia.com/gpu.count: '8', pool: b, zone: y}}\n");
    const struct device_record *r = object_payload(o);
    cr_assert_eq(r->n_features, 1);
    cr_expect_str_eq(r->features[0].key, "nvidia.com/gpu.count");
    cr_expect_eq(r->n_refused, 2);
    cr_expect_str_eq(r->refused, "pool");
}

Test(records, an_agent_offers_nothing_but_vendors_names)
{
    auto_object struct object *o =
        make(&records_device_type,
             "metadata: {name: n1}\n"
             "status:\n"
             "  resources:\n"
             "  - {name: cpu, count: 4096, publisher: controller}\n"
             "  - {name: nvidia.com/mig-1g.10gb, count: 7, publisher: controller}\n"
             "  - {name: amd.com/gpu, count: 8, publisher: controller}\n"
             "  - {name: nvidia.com/anything, count: 1, publisher: controller}\n"
             "  - {name: koordinator.sh/gpu-core, count: 1, publisher: controller}\n"
             "  - {name: nvidia.com/mig-1g.10gb/x, count: 1, publisher: controller}\n"
             "  - {name: nvidia.com/mig-, count: 1, publisher: controller}\n"
             "  - {name: 'nvidia.com/mig-1g 10gb', count: 1, publisher: controller}\n"
             "  - {name: nvidia.com/mig-"
             "a123456789a123456789a123456789a123456789a123456789a123456789, count: 1}\n"
             "  - {name: metax-tech.com/sgpu-small, count: 4, publisher: controller}\n");
    const struct device_record *r = object_payload(o);
    cr_assert_null(r->status_error, "%s", r->status_error);
    cr_assert_eq(r->n_resources, 2);
    cr_expect_str_eq(r->resources[0].name, "nvidia.com/mig-1g.10gb");
    cr_expect_eq(r->resources[0].count, 7);
    cr_expect_str_eq(r->resources[1].name, "metax-tech.com/sgpu-small");
    cr_expect_eq(r->n_refused_resources, 8);
    cr_expect_str_eq(r->refused_resource, "cpu");
}

Test(records, a_node_knows_what_a_feature_discovery_wrote)
{
    auto_object struct object *o =
        make(&records_node_type,
             "metadata:\n"
             "  name: n1\n"
             "  managedFields:\n"
             "  - {manager: kubectl, operation: Update, fieldsV1: {f:metadata: {f:labels:"
             " {f:nvidia.com/gpu.count: {}}}}}\n"
             "  - {manager: nfd-master, operation: Update, fieldsV1: {f:metadata: {f:labels:"
             " {f:nvidia.com/gpu.product: {}, f:nvidia.com/gpu.family: {}, f:x/y: {}}}}}\n");
    const struct node_record *r = object_payload(o);
    cr_assert_eq(r->discovered_labels.n, 2);
    cr_expect_str_eq(r->discovered_labels.items[0], "nvidia.com/gpu.family");
}

/* Slices of a layout are what a card is cut into; the rest comes and goes with pods, or is others'.
 */
Test(records, slices_count_as_partitions_where_a_layout_made_them)
{
    auto_object struct object *o =
        make(&records_device_type,
             "metadata: {name: n1, generation: 1}\n"
             "status:\n"
             "  devices:\n"
             "  - uuid: GPU-1\n"
             "    index: 0\n"
             "    vendor: metax\n"
             "    mode: sgpu\n"
             "    sgpu: {memoryMiB: 65536, qosPolicy: fixed-share, timesliceMilliseconds: 10}\n"
             "    partitions:\n"
             "    - {uuid: S-0, profile: small, slice: {id: 0, alias: small-0, memoryMiB: 1024,"
             " computePercent: 10}}\n"
             "    - {uuid: S-1, profile: sgpu, slice: {id: 1, alias: slot.3, memoryMiB: 1024,"
             " computePercent: 10}}\n"
             "    - {uuid: S-2, profile: sgpu, slice: {id: 2, alias: theirs, foreign: true,"
             " memoryMiB: 1024, computePercent: 10}}\n"
             "    - {uuid: S-3, profile: sgpu, slice: {id: 3, foreign: true, memoryMiB: 1024,"
             " computePercent: 10}}\n");
    const struct device_record *r = object_payload(o);
    cr_assert_eq(r->n_cards, 1);
    cr_assert_eq(r->cards[0].n_partitions, 1);
    cr_expect_str_eq(r->cards[0].partitions[0].profile, "small");
    cr_expect_eq(r->cards[0].partitions[0].count, 1);
    cr_expect_eq(r->cards[0].sgpu->n, 4, "all take their place on the card");
}

/* A card with shares is whole: its shares come and go with pods, and belong to no layout. */
Test(records, shares_are_no_partitions_of_a_layout)
{
    auto_object struct object *o =
        make(&records_device_type,
             "metadata: {name: n1, generation: 1}\n"
             "status:\n"
             "  devices:\n"
             "  - uuid: GPU-1\n"
             "    index: 0\n"
             "    vendor: nvidia\n"
             "    mode: native\n"
             "    fractional: {memoryMiB: 81559, maxShares: 10, computePercent: 100,"
             " memory: none, compute: none}\n"
             "    partitions:\n"
             "    - {uuid: GPU-1/share-4, profile: share, slice: {id: 4, alias: share-4,"
             " memoryMiB: 3000, computePercent: 30}, inUseBy: [{uid: p1}]}\n"
             "    drain: {since: '2027-01-01T00:00:00Z', card: true}\n");
    const struct device_record *r = object_payload(o);
    cr_assert_eq(r->n_cards, 1);
    cr_expect_eq(r->cards[0].n_partitions, 0);
    cr_assert_eq(r->cards[0].n_drain_pods, 1, "a card that must become free waits for its shares");
    cr_expect_str_eq(r->cards[0].drain_pods[0].uid, "p1");
}
