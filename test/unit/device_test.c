/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <string.h>

#include "base/auto.h"
#include "base/xalloc.h"
#include "base/yaml.h"

#include "api/device.h"

static json_t *doc(const char *text)
{
    auto_err struct err e = {0};
    json_t *v = NULL;
    cr_assert_eq(yaml_load(text, strlen(text), &v, &e), 0, "%s", err_msg(&e));
    return v;
}

static const char full_spec[] =
    "spec:\n"
    "  source: {kind: GPUProfile, name: inference, generation: 4}\n"
    "  migStrategy: single\n"
    "  rollout: {drain: evict, timeoutSeconds: 60}\n"
    "  failurePolicy: hold\n"
    "  devices:\n"
    "  - uuid: GPU-1\n"
    "    mode: mig\n"
    "    source: {kind: NodeLabel, name: all-balanced}\n"
    "    rollout: {drain: refuseIfInUse, timeoutSeconds: 600}\n"
    "    failurePolicy: rollback\n"
    "    mig: {profiles: [{profile: 1g.10gb, count: 2}, {profile: 1c.3g.40gb, count: 3}]}\n"
    "    sharing: {timeSlicing: {replicas: 4}}\n"
    "  - uuid: GPU-2\n"
    "    mode: native\n"
    "    failurePolicy: rollback\n"
    "    sharing:\n"
    "      fractional: {maxShares: 20, memoryOversubscriptionPercent: 150,\n"
    "        computeOversubscriptionPercent: 200}\n";

Test(device, every_field_of_the_spec_is_read_and_written_back)
{
    auto_json json_t *obj = doc(full_spec);
    auto_err struct err e = {0};
    auto_device_spec struct device_spec s;
    cr_assert_eq(device_spec_decode(obj, &s, &e), 0, "%s", err_msg(&e));
    cr_expect_eq(s.source.kind, API_SOURCE_PROFILE);
    cr_expect_eq(s.source.generation, 4);
    cr_expect_eq(s.mig_strategy, API_STRATEGY_SINGLE);
    cr_expect_eq(s.rollout.drain, API_DRAIN_EVICT);
    cr_expect_eq(s.failure_policy, API_HOLD);
    cr_expect_eq(s.n_devices, 2);
    const struct device_want *w = &s.devices[0];
    cr_expect_eq(w->mode, API_MODE_MIG);
    cr_expect(w->has_source && w->has_rollout && w->has_mig && w->has_sharing);
    cr_expect_eq(w->mig.n_profiles, 2);
    cr_expect_str_eq(w->mig.profiles[1].profile, "1c.3g.40gb");
    cr_expect_eq(w->mig.profiles[1].count, 3);
    cr_expect_eq(w->sharing.time_slicing.replicas, 4);
    cr_expect_not(s.devices[1].has_mig);
    cr_expect(s.devices[1].has_sharing && s.devices[1].sharing.has_fractional);
    cr_expect_eq(s.devices[1].sharing.fractional.max_shares, 20);
    cr_expect_eq(s.devices[1].sharing.fractional.memory_percent, 150);
    cr_expect_eq(s.devices[1].sharing.fractional.compute_percent, 200);
    cr_expect_eq(s.devices[1].failure_policy, API_ROLLBACK, "not as the spec says");
    cr_expect(s.devices[1].has_rollout && s.devices[1].has_source, "as the spec says");
    cr_expect_str_eq(s.devices[1].source.name, s.source.name);
    cr_expect_eq(s.devices[1].rollout.drain, s.rollout.drain);
    auto_json json_t *again = device_spec_encode(&s);
    cr_expect(json_equal(again, json_object_get(obj, "spec")));
}

static const char full_status[] =
    "status:\n"
    "  observedGeneration: 7\n"
    "  agentVersion: v1\n"
    "  bootID: 0b5e\n"
    "  summary: {gpus: 1, models: 1x H100, layout: 1x1g.10gb, partitions: 1, inUse: 1}\n"
    "  drivers: [{vendor: nvidia, version: 570.86.15, libraryVersion: '1', cudaVersion: '12.8'}]\n"
    "  models:\n"
    "  - name: H100\n"
    "    migMemorySlices: 8\n"
    "    migProfiles:\n"
    "    - name: 1g.10gb\n"
    "      id: 19\n"
    "      slices: 1\n"
    "      memoryMiB: 9984\n"
    "      maxCount: 7\n"
    "      multiprocessors: 16\n"
    "      engines: {copy: 1, decoder: 1, jpeg: 1}\n"
    "      size: 1\n"
    "      starts: [0, 1]\n"
    "  devices:\n"
    "  - uuid: GPU-1\n"
    "    index: 0\n"
    "    minor: 0\n"
    "    vendor: nvidia\n"
    "    model: H100\n"
    "    pciBusID: 00000000:17:00.0\n"
    "    pciDeviceID: '0x233010DE'\n"
    "    pciSubsystemID: '0x16C110DE'\n"
    "    numaNode: -1\n"
    "    memoryMiB: 81559\n"
    "    healthy: true\n"
    "    migCapable: true\n"
    "    mode: mig\n"
    "    pendingMode: native\n"
    "    inUseBy: [{pid: 1, process: smi}]\n"
    "    partitions:\n"
    "    - uuid: MIG-1\n"
    "      profile: 1g.10gb\n"
    "      giID: 7\n"
    "      ciID: 0\n"
    "      placement: '6:1'\n"
    "      inUse: true\n"
    "      inUseBy: [{pid: 9, process: cuda, namespace: a, name: b, uid: c, container: d}]\n"
    "    drain:\n"
    "      since: '2026-01-02T03:04:05Z'\n"
    "      deadline: '2026-01-02T03:14:05Z'\n"
    "      card: true\n"
    "      partitions: [MIG-1]\n"
    "    conditions:\n"
    "    - {type: Healthy, status: 'True', observedGeneration: 7, reason: Healthy, message: ok,\n"
    "       lastTransitionTime: '2026-01-02T03:04:05Z'}\n"
    "  - uuid: GPU-3\n"
    "    index: 1\n"
    "    vendor: nvidia\n"
    "    numaNode: -1\n"
    "    memoryMiB: 81559\n"
    "    healthy: true\n"
    "    migCapable: true\n"
    "    mode: native\n"
    "    fractional: {memoryMiB: 163118, maxShares: 20, computePercent: 200,\n"
    "      memory: library, compute: none}\n"
    "    partitions:\n"
    "    - uuid: GPU-3/share-4\n"
    "      profile: share\n"
    "      slice: {id: 4, alias: share-4, memoryMiB: 3000, computePercent: 30}\n"
    "      inUse: true\n"
    "      inUseBy: [{namespace: a, name: b, uid: c, container: d}]\n"
    "  resources: [{name: nvidia.com/mig-1g.10gb, count: 1, publisher: controller}]\n"
    "  conditions:\n"
    "  - {type: Ready, status: Unknown, observedGeneration: 7, reason: X, message: '',\n"
    "     lastTransitionTime: '2026-01-02T03:04:05Z'}\n";

Test(device, every_field_of_the_status_is_read_and_written_back)
{
    auto_json json_t *obj = doc(full_status);
    auto_err struct err e = {0};
    auto_device_status struct device_status s;
    cr_assert_eq(device_status_decode(obj, &s, &e), 0, "%s", err_msg(&e));
    auto_json json_t *again = device_status_encode(&s);
    auto_free char *have = yaml_dump(again);
    cr_expect(json_equal(again, json_object_get(obj, "status")), "%s", have);
    const struct device_card *c = device_status_card(&s, "GPU-1");
    cr_assert_not_null(c);
    cr_expect_eq(c->drain.deadline_ms - c->drain.since_ms, 600000);
    cr_expect_null(device_status_card(&s, "GPU-2"));
    const struct device_card *shared = device_status_card(&s, "GPU-3");
    cr_assert(shared && shared->has_fractional && !c->has_fractional);
    cr_expect_eq(shared->fractional.memory_mib, 163118);
    cr_expect_eq(shared->fractional.memory, API_LEVEL_LIBRARY);
    cr_expect_eq(shared->fractional.compute, API_LEVEL_NONE);
    cr_expect_str_eq(shared->partitions[0].profile, DEVICE_SHARE);
    cr_assert_not_null(device_status_model(&s, "H100"));
    cr_expect_null(device_status_model(&s, "A100"));
}

Test(device, absent_and_unknown_fields_are_no_error)
{
    auto_json json_t *obj = doc("spec: {novel: 1, devices: [{uuid: a, mode: native, more: {}}]}");
    auto_json json_t *none = doc("kind: Device");
    auto_device_spec struct device_spec s;
    auto_device_spec struct device_spec empty;
    auto_device_status struct device_status st;
    cr_expect_eq(device_spec_decode(obj, &s, NULL), 0);
    cr_expect_eq(s.n_devices, 1);
    cr_expect_eq(device_spec_decode(none, &empty, NULL), 0);
    cr_expect_eq(empty.mig_strategy, API_STRATEGY_MIXED);
    cr_expect_eq(empty.n_devices, 0);
    cr_expect_eq(device_status_decode(none, &st, NULL), 0);
    cr_expect_eq(st.n_devices, 0);
}

Test(device, what_is_wrong_is_named_by_its_path)
{
    static const struct {
        const char *text, *path;
    } cases[] = {
        {"spec: []", ".spec"},
        {"spec: {devices: {}}", ".spec.devices"},
        {"spec: {devices: [{mode: mig}]}", ".spec.devices[0].uuid"},
        {"spec: {devices: [{uuid: '', mode: mig}]}", ".spec.devices[0].uuid"},
        {"spec: {devices: [{uuid: a}]}", ".spec.devices[0].mode"},
        {"spec: {devices: [{uuid: a, mode: sliced}]}", ".spec.devices[0].mode"},
        {"spec: {devices: [{uuid: a, mode: mig, mig: {profiles: 3}}]}",
         ".spec.devices[0].mig.profiles"},
        {"spec: {devices: [{uuid: a, mode: mig, mig: {profiles: [{profile: x}]}}]}",
         ".spec.devices[0].mig.profiles[0].count"},
        {"spec: {devices: [{uuid: a, mode: mig, mig: {profiles: [{profile: x, count: 65}]}}]}",
         ".spec.devices[0].mig.profiles[0].count"},
        {"spec: {devices: [{uuid: a, mode: mig, mig: {profiles: [{profile: x, count: -1}]}}]}",
         ".spec.devices[0].mig.profiles[0].count"},
        {"spec: {devices: [{uuid: a, mode: mig, sharing: {timeSlicing: {replicas: 1}}}]}",
         ".spec.devices[0].sharing.timeSlicing.replicas"},
        {"spec: {devices: [{uuid: a, mode: native, sharing: {fractional: {maxShares: 129}}}]}",
         ".spec.devices[0].sharing.fractional.maxShares"},
        {"spec: {source: {kind: Pod, name: x}}", ".spec.source.kind"},
        {"spec: {rollout: {timeoutSeconds: 1.5}}", ".spec.rollout.timeoutSeconds"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        auto_json json_t *obj = doc(cases[i].text);
        auto_err struct err e = {0};
        struct device_spec s;
        cr_expect_eq(device_spec_decode(obj, &s, &e), -(int)ERR_INVALID, "%s", cases[i].text);
        cr_expect_not_null(strstr(err_msg(&e), cases[i].path), "%s: %s", cases[i].text,
                           err_msg(&e));
        cr_expect_null(s.devices, "nothing to free is left");
    }
}

/* As many as one card has shares. */
Test(device, a_card_shows_up_to_128_partitions)
{
    auto_json json_t *parts = json_array();
    auto_json json_t *status = json_pack("{s:{s:[{s:s, s:s, s:O}]}}", "status", "devices", "uuid",
                                         "GPU-1", "vendor", "nvidia", "partitions", parts);
    for (int i = 0; i < 129; i++) {
        auto_device_status struct device_status st = {0};
        auto_free char *uuid = xasprintf("GPU-1/share-%d", i);
        (void)json_array_append_new(parts, json_pack("{s:s}", "uuid", uuid));
        cr_expect_eq(device_status_decode(status, &st, NULL), i < 128 ? 0 : -(int)ERR_INVALID, "%d",
                     i + 1);
    }
}

Test(device, shares_that_say_nothing_have_the_schemas_defaults)
{
    auto_json json_t *obj =
        doc("spec: {devices: [{uuid: a, mode: native, sharing: {fractional: {}}}]}");
    auto_device_spec struct device_spec s;
    cr_assert_eq(device_spec_decode(obj, &s, NULL), 0);
    const struct device_fractional *f = &s.devices[0].sharing.fractional;
    cr_expect(f->max_shares == 10 && f->memory_percent == 100 && f->compute_percent == 100);
    cr_expect_null(device_sharing_terms(&s.devices[0].sharing), "shares are no replicas");
}

Test(device, a_status_written_by_hand_past_the_schema_is_an_error_and_leaks_nothing)
{
    static const char *const bad[] = {
        "status: 1",
        "status: {devices: 5}",
        "status: {devices: [{uuid: a, vendor: nvidia, healthy: maybe}]}",
        "status: {devices: [{uuid: a, vendor: nvidia, partitions: [{uuid: 3}]}]}",
        "status: {devices: [{uuid: a, vendor: nvidia, drain: {since: yesterday}}]}",
        "status: {conditions: [{type: Ready}]}",
        "status: {models: [{name: x, migProfiles: [{name: y, id: 1, slices: 1, maxCount: 1}]}]}",
    };
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        auto_json json_t *obj = doc(bad[i]);
        auto_err struct err e = {0};
        struct device_status s;
        cr_expect_eq(device_status_decode(obj, &s, &e), -(int)ERR_INVALID, "%s", bad[i]);
        cr_expect_eq(strncmp(err_msg(&e), ".status", 7), 0, "%s", err_msg(&e));
        cr_expect_null(s.devices);
    }
}

/* Numbers of an agent's that are added up and made bytes of stay within 63 bits. */
Test(device, more_memory_than_a_card_can_have_is_refused)
{
    static const char *const parts[] = {
        "memoryMiB: 16777217",
        "sgpu: {memoryMiB: 9007199254740992}",
        "partitions: [{uuid: P, slice: {memoryMiB: 9007199254740992}}]",
        "partitions: [{uuid: P, vf: {index: 0, memoryMiB: 9007199254740992}}]",
        "fractional: {memoryMiB: 67108865}",
    };
    for (size_t i = 0; i < ARRAY_LEN(parts); i++) {
        auto_err struct err e = {0};
        auto_json json_t *obj = NULL;
        auto_device_status struct device_status st = {0};
        auto_free char *text =
            xasprintf("status: {devices: [{uuid: U, vendor: nvidia, %s}]}", parts[i]);
        cr_assert_eq(yaml_load(text, strlen(text), &obj, &e), 0, "%s", err_msg(&e));
        cr_expect_eq(device_status_decode(obj, &st, &e), -(int)ERR_INVALID, "%s", parts[i]);
        const char *bound = strstr(parts[i], "fractional") ? "67108864" : "16777216";
        cr_expect(e.msg && strstr(e.msg, "between 0 and ") && strstr(e.msg, bound), "%s",
                  err_msg(&e));
    }
}
