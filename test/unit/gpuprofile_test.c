/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <string.h>

#include "base/auto.h"
#include "base/xalloc.h"
#include "base/yaml.h"

#include "api/gpuprofile.h"

static json_t *doc(const char *text)
{
    auto_err struct err e = {0};
    json_t *v = NULL;
    cr_assert_eq(yaml_load(text, strlen(text), &v, &e), 0, "%s", err_msg(&e));
    return v;
}

Test(gpuprofile, every_field_of_the_spec_is_read)
{
    auto_json json_t *obj =
        doc("spec:\n"
            "  nodeSelector:\n"
            "    matchLabels: {pool: a}\n"
            "    matchExpressions: [{key: k, operator: In, values: [x, y]}]\n"
            "  priority: -5\n"
            "  paused: true\n"
            "  devices:\n"
            "  - selector: {vendor: nvidia, model: '*H100*', indices: [0],\n"
            "      uuids: [u], pciBusIDs: ['0000:17:00.0'], count: 2}\n"
            "    mode: mig\n"
            "    mig: {profiles: {1g.10gb: 7}}\n"
            "    sharing: {timeSlicing: {replicas: 3}}\n"
            "  - mode: mig\n"
            "    mig: {config: halves}\n"
            "  remainder: native\n"
            "  migStrategy: none\n"
            "  rollout: {maxUnavailable: 25%, drain: evict, timeoutSeconds: 9}\n"
            "  failurePolicy: hold\n");
    auto_err struct err e = {0};
    auto_gpuprofile_spec struct gpuprofile_spec s;
    cr_assert_eq(gpuprofile_spec_decode(obj, &s, &e), 0, "%s", err_msg(&e));
    cr_expect_str_eq(s.node_selector.match_labels[0].str, "a");
    cr_expect_eq(s.node_selector.expressions[0].op, API_IN);
    cr_expect_eq(s.node_selector.expressions[0].n_values, 2);
    cr_expect_eq(s.priority, -5);
    cr_expect(s.paused);
    const struct gpuprofile_entry *first = &s.devices[0];
    cr_expect_str_eq(first->selector.vendor, "nvidia");
    cr_expect_str_eq(first->selector.model, "*H100*");
    cr_expect_eq(first->selector.count, 2);
    cr_expect_str_eq(first->selector.pci_bus_ids[0], "0000:17:00.0");
    cr_expect(first->has_mig && first->mig.has_profiles && first->has_sharing);
    cr_expect_eq(first->mig.profiles[0].num, 7);
    cr_expect_eq(first->sharing.time_slicing.replicas, 3);
    cr_expect_str_eq(s.devices[1].mig.config, "halves");
    cr_expect_not(s.devices[1].mig.has_profiles);
    cr_expect_eq(s.remainder, API_REMAINDER_NATIVE);
    cr_expect_eq(s.mig_strategy, API_STRATEGY_NONE);
    cr_expect_str_eq(s.rollout.max_unavailable, "25%");
    cr_expect_eq(s.rollout.drain, API_DRAIN_EVICT);
    cr_expect_eq(s.rollout.timeout_s, 9);
    cr_expect_eq(s.failure_policy, API_HOLD);
}

Test(gpuprofile, what_is_absent_has_the_schemas_defaults)
{
    auto_json json_t *obj = doc("spec: {nodeSelector: {}, devices: [{mode: native}], rollout: {}}");
    auto_err struct err e = {0};
    auto_gpuprofile_spec struct gpuprofile_spec s;
    cr_assert_eq(gpuprofile_spec_decode(obj, &s, &e), 0, "%s", err_msg(&e));
    cr_expect_eq(s.mig_strategy, API_STRATEGY_MIXED);
    cr_expect_eq(s.rollout.timeout_s, 600);
    cr_expect_eq(s.rollout.drain, API_DRAIN_REFUSE);
    cr_expect_eq(s.remainder, API_REMAINDER_UNCHANGED);
    cr_expect_eq(s.failure_policy, API_ROLLBACK);
    cr_expect_eq(s.priority, 0);
    cr_expect_not(s.paused);
}

static struct device_fractional shares_of(const char *fractional)
{
    auto_free char *text = xasprintf("spec: {nodeSelector: {}, devices: [{mode: native, sharing: "
                                     "{fractional: %s}}]}",
                                     fractional);
    auto_json json_t *obj = doc(text);
    auto_err struct err e = {0};
    auto_gpuprofile_spec struct gpuprofile_spec s;
    cr_assert_eq(gpuprofile_spec_decode(obj, &s, &e), 0, "%s", err_msg(&e));
    cr_assert(s.devices[0].has_sharing && s.devices[0].sharing.has_fractional);
    cr_expect_null(device_sharing_terms(&s.devices[0].sharing), "shares are no replicas");
    return s.devices[0].sharing.fractional;
}

Test(gpuprofile, shares_that_say_nothing_are_as_hamis)
{
    const struct device_fractional f = shares_of("{}");
    cr_expect(f.max_shares == 10 && f.memory_percent == 100 && f.compute_percent == 100);
}

Test(gpuprofile, shares_are_as_many_and_as_large_as_they_are_said_to_be)
{
    const struct device_fractional least = shares_of("{maxShares: 1}");
    const struct device_fractional most =
        shares_of("{maxShares: 128, memoryOversubscriptionPercent: 400, "
                  "computeOversubscriptionPercent: 250}");
    cr_expect(least.max_shares == 1 && least.memory_percent == 100);
    cr_expect(most.max_shares == 128 && most.memory_percent == 400 && most.compute_percent == 250);
}

#define SPEC(entry) "spec: {nodeSelector: {}, devices: [" entry "]}"

Test(gpuprofile, what_is_wrong_is_named_by_its_path)
{
    static const struct {
        const char *text, *path;
    } cases[] = {
        {"spec: {devices: [{mode: native}]}", ".spec.nodeSelector"},
        {"spec: {nodeSelector: {}}", ".spec.devices"},
        {SPEC(""), ".spec.devices"},
        {SPEC("{}"), ".spec.devices[0].mode"},
        {SPEC("{mode: gone}"), ".spec.devices[0].mode"},
        {SPEC("{mode: mig, mig: {profiles: [a]}}"), ".spec.devices[0].mig.profiles"},
        {SPEC("{mode: mig, mig: {profiles: {1g.5gb: x}}}"), ".spec.devices[0].mig.profiles"},
        /* Would otherwise select every card. */
        {SPEC("{mode: native, selector: {indices: []}}"), ".spec.devices[0].selector.indices"},
        {SPEC("{mode: native, selector: {uuids: []}}"), ".spec.devices[0].selector.uuids"},
        {SPEC("{mode: native, selector: {pciBusIDs: []}}"), ".spec.devices[0].selector.pciBusIDs"},
        {SPEC("{mode: native, selector: {model: ''}}"), ".spec.devices[0].selector.model"},
        {SPEC("{mode: native, selector: {count: 0}}"), ".spec.devices[0].selector.count"},
        {SPEC("{mode: native, sharing: {}}"), ".spec.devices[0].sharing"},
        {SPEC("{mode: native, sharing: {timeSlicing: {replicas: 2}, mps: {replicas: 2}}}"),
         ".spec.devices[0].sharing"},
        {SPEC("{mode: native, sharing: {mps: {replicas: 49}}}"),
         ".spec.devices[0].sharing.mps.replicas"},
        {SPEC("{mode: native, sharing: {fractional: {}, mps: {replicas: 2}}}"),
         ".spec.devices[0].sharing: give exactly one of timeSlicing, mps and fractional"},
        {SPEC("{mode: native, sharing: {fractional: {}, timeSlicing: {replicas: 2}}}"),
         ".spec.devices[0].sharing: give exactly one"},
        {SPEC("{mode: native, sharing: {fractional: {}, mps: {replicas: 2}, timeSlicing: "
              "{replicas: 2}}}"),
         ".spec.devices[0].sharing: give exactly one"},
        {SPEC("{mode: mig, mig: {profiles: {}}, sharing: {fractional: {}}}"),
         ".spec.devices[0].sharing.fractional: only a whole card"},
        {SPEC("{mode: native, sharing: {fractional: {memoryOversubscriptionPercent: 101, "
              "enforcement: {memory: driver}}}}"),
         ".spec.devices[0].sharing.fractional.memoryOversubscriptionPercent: limits of the driver"},
        {SPEC("{mode: native, sharing: {fractional: {enforcement: {memory: mps}}}}"),
         ".spec.devices[0].sharing.fractional.enforcement.memory"},
        {SPEC("{mode: native, sharing: {fractional: {enforcement: {compute: driver}}}}"),
         ".spec.devices[0].sharing.fractional.enforcement.compute"},
        {SPEC("{mode: native, sharing: {fractional: {qosPolicy: force}}}"),
         ".spec.devices[0].sharing.fractional.qosPolicy"},
        {SPEC("{mode: native, sharing: {fractional: {onExceed: ignore}}}"),
         ".spec.devices[0].sharing.fractional.onExceed"},
        {SPEC("{mode: native, sharing: {fractional: {maxShares: 0}}}"),
         ".spec.devices[0].sharing.fractional.maxShares"},
        {SPEC("{mode: native, sharing: {fractional: {maxShares: 129}}}"),
         ".spec.devices[0].sharing.fractional.maxShares"},
        {SPEC("{mode: native, sharing: {fractional: {memoryOversubscriptionPercent: 99}}}"),
         ".spec.devices[0].sharing.fractional.memoryOversubscriptionPercent"},
        {SPEC("{mode: native, sharing: {fractional: {computeOversubscriptionPercent: 401}}}"),
         ".spec.devices[0].sharing.fractional.computeOversubscriptionPercent"},
        {"spec: {nodeSelector: {matchLabels: {a: 1}}, devices: [{mode: native}]}",
         ".spec.nodeSelector.matchLabels"},
        {"spec: {nodeSelector: {}, priority: 1000000001, devices: [{mode: native}]}",
         ".spec.priority"},
        {"spec: {nodeSelector: {}, rollout: {maxUnavailable: true}, devices: [{mode: native}]}",
         ".spec.rollout.maxUnavailable"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        auto_json json_t *obj = doc(cases[i].text);
        auto_err struct err e = {0};
        struct gpuprofile_spec s;
        cr_expect_eq(gpuprofile_spec_decode(obj, &s, &e), -(int)ERR_INVALID, "%s", cases[i].text);
        cr_expect_not_null(strstr(err_msg(&e), cases[i].path), "%s: %s", cases[i].text,
                           err_msg(&e));
        cr_expect_null(s.devices);
    }
}

Test(gpuprofile, status_survives_the_round_trip)
{
    auto_json json_t *obj = doc(
        "status:\n"
        "  observedGeneration: 2\n"
        "  nodes: {matched: 3, upToDate: 1, progressing: 1, failed: 1}\n"
        "  failures: [{node: n1, reason: Infeasible, message: no}]\n"
        "  conditions:\n"
        "  - {type: Ready, status: 'False', observedGeneration: 2, reason: Failed, message: m,\n"
        "     lastTransitionTime: '2026-01-02T03:04:05Z'}\n");
    auto_err struct err e = {0};
    auto_gpuprofile_status struct gpuprofile_status s;
    cr_assert_eq(gpuprofile_status_decode(obj, &s, &e), 0, "%s", err_msg(&e));
    cr_expect_eq(s.nodes.up_to_date, 1);
    auto_json json_t *again = gpuprofile_status_encode(&s);
    cr_expect(json_equal(again, json_object_get(obj, "status")));
}

/* --- Label selectors: apimachinery pkg/labels --- */

static bool selects(const char *selector, const char *labels)
{
    auto_free char *text = NULL;
    cr_assert_geq(asprintf(&text, "spec: {nodeSelector: %s, devices: [{mode: native}]}", selector),
                  0);
    auto_json json_t *obj = doc(text);
    auto_json json_t *set = doc(labels);
    auto_err struct err e = {0};
    auto_gpuprofile_spec struct gpuprofile_spec s;
    cr_assert_eq(gpuprofile_spec_decode(obj, &s, &e), 0, "%s", err_msg(&e));
    struct jx_pair pairs[8];
    size_t n = 0;
    const char *key;
    json_t *value;
    json_object_foreach(set, key, value) {
        pairs[n++] = (struct jx_pair){.key = (char *)(uintptr_t)key,
                                      .str = (char *)(uintptr_t)json_string_value(value)};
    }
    return label_selector_matches(&s.node_selector, pairs, n);
}

Test(gpuprofile, selectors_mean_what_they_mean_to_kubernetes)
{
    static const struct {
        const char *selector, *labels;
        bool matches;
    } cases[] = {
        {"{}", "{}", true},
        {"{}", "{a: b}", true},
        {"{matchLabels: {a: b}}", "{a: b, c: d}", true},
        {"{matchLabels: {a: b}}", "{a: c}", false},
        {"{matchLabels: {a: b}}", "{}", false},
        {"{matchLabels: {a: ''}}", "{a: ''}", true},
        {"{matchLabels: {a: ''}}", "{}", false},
        {"{matchLabels: {a: b, c: d}}", "{a: b}", false},
        {"{matchExpressions: [{key: a, operator: In, values: [x, y]}]}", "{a: y}", true},
        {"{matchExpressions: [{key: a, operator: In, values: [x, y]}]}", "{a: z}", false},
        {"{matchExpressions: [{key: a, operator: In, values: [x, y]}]}", "{}", false},
        {"{matchExpressions: [{key: a, operator: NotIn, values: [x]}]}", "{a: x}", false},
        {"{matchExpressions: [{key: a, operator: NotIn, values: [x]}]}", "{a: y}", true},
        {"{matchExpressions: [{key: a, operator: NotIn, values: [x]}]}", "{}", true},
        {"{matchExpressions: [{key: a, operator: Exists}]}", "{a: ''}", true},
        {"{matchExpressions: [{key: a, operator: Exists}]}", "{b: ''}", false},
        {"{matchExpressions: [{key: a, operator: DoesNotExist}]}", "{a: x}", false},
        {"{matchExpressions: [{key: a, operator: DoesNotExist}]}", "{}", true},
        {"{matchLabels: {a: b}, matchExpressions: [{key: c, operator: Exists}]}", "{a: b}", false},
        {"{matchLabels: {a: b}, matchExpressions: [{key: c, operator: Exists}]}", "{a: b, c: d}",
         true},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++)
        cr_expect_eq(selects(cases[i].selector, cases[i].labels), cases[i].matches, "%s of %s",
                     cases[i].selector, cases[i].labels);
}

Test(gpuprofile, max_unavailable_is_a_number_or_a_share_rounded_up_and_never_none)
{
    static const struct {
        const char *text;
        size_t matched, count;
    } cases[] = {
        {NULL, 10, 1}, {"1", 10, 1},   {"7", 3, 7},   {"25%", 10, 3},   {"25%", 8, 2},
        {"1%", 5, 1},  {"100%", 5, 5}, {"50%", 0, 1}, {"1%", 5000, 50}, {"100000", 1, 100000},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        size_t n = 0;
        cr_expect_eq(gpuprofile_max_unavailable(cases[i].text, cases[i].matched, &n, NULL), 0);
        cr_expect_eq(n, cases[i].count, "%s of %zu is %zu", cases[i].text, cases[i].matched, n);
    }
    static const char *const bad[] = {"", "0", "-1", "0%", "101%", "%", "1.5", "5 %", "x"};
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        size_t n = 77;
        auto_err struct err e = {0};
        cr_expect_eq(gpuprofile_max_unavailable(bad[i], 5, &n, &e), -(int)ERR_INVALID, "%s",
                     bad[i]);
        cr_expect_eq(n, 77);
        cr_expect_not_null(strstr(err_msg(&e), ".spec.rollout.maxUnavailable"));
    }
}
