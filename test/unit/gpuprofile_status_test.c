/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <string.h>

#include "base/sb.h"
#include "base/xalloc.h"

#include "cluster_support.h"
#include "golden_support.h"
#include "reconcilers/coverage.h"
#include "reconcilers/gpuprofile.h"
#include "service/conditions.h"
#include "service/resources.h"

/* --- The plan, pure: golden --- */

static const struct {
    const char *name;
    size_t matched, cardless, count[PHASES], refused, tickets_of_failed;
    const char *failure, *misfit, *busy, *not_found; /* reasons */
    size_t overridden;
    size_t rounded;
    bool paused;
    const char *max_unavailable;
} situations[] = {
    {.name = "no node"},
    {.name = "all up to date", .matched = 3, .count[PHASE_UP_TO_DATE] = 3},
    {.name = "one in change, two wait",
     .matched = 3,
     .count = {[PHASE_CHANGING] = 1, [PHASE_WAITING] = 2},
     .busy = "Progressing"},
    {.name = "in use", .matched = 1, .count[PHASE_CHANGING] = 1, .busy = "InUse"},
    {.name = "paused, none begun", .matched = 2, .count[PHASE_WAITING] = 2, .paused = true},
    {.name = "paused, one in change",
     .matched = 2,
     .count = {[PHASE_CHANGING] = 1, [PHASE_WAITING] = 1},
     .busy = "Draining",
     .paused = true},
    {.name = "all wait for their turn", .matched = 2, .count[PHASE_WAITING] = 2},
    {.name = "a failed node stops two",
     .matched = 3,
     .count = {[PHASE_FAILED] = 1, [PHASE_WAITING] = 2},
     .tickets_of_failed = 1,
     .failure = "RolledBack"},
    {.name = "a failed node, and room for more",
     .matched = 4,
     .count = {[PHASE_FAILED] = 1, [PHASE_WAITING] = 2, [PHASE_UP_TO_DATE] = 1},
     .tickets_of_failed = 1,
     .failure = "RolledBack",
     .max_unavailable = "2"},
    {.name = "one failed, the others done",
     .matched = 3,
     .count = {[PHASE_FAILED] = 1, [PHASE_UP_TO_DATE] = 2},
     .failure = "Held"},
    {.name = "refused by every node",
     .matched = 2,
     .count[PHASE_FAILED] = 2,
     .refused = 2,
     .failure = "Infeasible"},
    {.name = "refused by one of two",
     .matched = 2,
     .count = {[PHASE_FAILED] = 1, [PHASE_UP_TO_DATE] = 1},
     .refused = 1,
     .failure = "UnknownProfile"},
    {.name = "a name that does not exist",
     .matched = 2,
     .count = {[PHASE_FAILED] = 1, [PHASE_UP_TO_DATE] = 1},
     .refused = 1,
     .failure = "UnknownConfig",
     .misfit = "UnknownConfig"},
    {.name = "a card that no node has",
     .matched = 2,
     .count[PHASE_UP_TO_DATE] = 2,
     .not_found = "with index 9"},
    {.name = "no card anywhere", .matched = 2, .cardless = 2, .count[PHASE_UP_TO_DATE] = 2},
    {.name = "a node without cards among others",
     .matched = 3,
     .cardless = 1,
     .count[PHASE_UP_TO_DATE] = 3},
    {.name = "overridden everywhere", .matched = 2, .count[PHASE_OVERRIDDEN] = 2, .overridden = 2},
    {.name = "overridden on its only node",
     .matched = 1,
     .count[PHASE_OVERRIDDEN] = 1,
     .overridden = 1},
    {.name = "overridden on one of two",
     .matched = 2,
     .count = {[PHASE_OVERRIDDEN] = 1, [PHASE_UP_TO_DATE] = 1},
     .overridden = 1},
    {.name = "overridden in part on two",
     .matched = 3,
     .count[PHASE_UP_TO_DATE] = 3,
     .overridden = 2},
    {.name = "a name is rounded on its only node",
     .matched = 1,
     .count[PHASE_UP_TO_DATE] = 1,
     .rounded = 1},
    {.name = "names are rounded on two of three, and others govern cards of one",
     .matched = 3,
     .count[PHASE_UP_TO_DATE] = 3,
     .overridden = 1,
     .rounded = 2},
    {.name = "a budget that is none", .matched = 1, .max_unavailable = "many"},
};

static void fill(struct gpuprofile_failure *f, const char *node, const char *reason)
{
    if (!reason)
        return;
    f->node = xstrdup(node);
    f->reason = xstrdup(reason);
    f->message = xasprintf("why it is %s", reason);
}

static void describe(size_t i, struct sb *out)
{
    struct profile_record record = {0};
    auto_rollout_summary struct rollout_summary s = {0};
    auto_gpuprofile_status struct gpuprofile_status status = {0};
    auto_free char *budget =
        situations[i].max_unavailable ? xstrdup(situations[i].max_unavailable) : NULL;
    record.spec.paused = situations[i].paused;
    record.spec.rollout.max_unavailable = budget;
    memcpy(s.count, situations[i].count, sizeof(s.count));
    s.refused = situations[i].refused;
    s.tickets_of_failed = situations[i].tickets_of_failed;
    if (situations[i].failure)
        fill(XPUSH(s.failures, s.n_failures), "n1", situations[i].failure);
    fill(&s.misfit, "n1", situations[i].misfit);
    fill(&s.busy, "n2", situations[i].busy);
    s.overridden = situations[i].overridden;
    fill(&s.ceded, "n3", s.overridden ? "Overridden" : NULL);
    s.rounded = situations[i].rounded;
    fill(&s.first_rounded, "n4", s.rounded ? RESOLVE_ROUNDED : NULL);
    gpuprofile_plan(&(struct profile_facts){.generation = 4,
                                            .record = &record,
                                            .matched = situations[i].matched,
                                            .cardless = situations[i].cardless,
                                            .summary = &s,
                                            .not_found = situations[i].not_found,
                                            .now_ms = 1800000000000},
                    &(struct gpuprofile_status){0}, &status);
    auto_json json_t *json = gpuprofile_status_encode(&status);
    auto_free char *text = json_dumps(json, JSON_INDENT(2) | JSON_SORT_KEYS);
    sb_addf(out, "# %s\n%s\n", situations[i].name, text);
}

Test(gpuprofile_status, status_follows_from_the_standings)
{
    auto_sb struct sb text = SB_INIT(65536);
    for (size_t i = 0; i < ARRAY_LEN(situations); i++)
        describe(i, &text);
    golden_check("reconcilers/profile_status.txt", sb_str(&text));
}

/* --- Coverage --- */

Test(gpuprofile_status, names_of_cards_that_do_not_exist_are_found)
{
    char first[] = "GPU-1";
    char second[] = "GPU-2";
    char model[] = "NVIDIA H*";
    char *uuids[] = {first, second};
    int64_t indices[] = {0, 9};
    struct gpuprofile_entry entry = {.selector = {.uuids = uuids,
                                                  .n_uuids = 2,
                                                  .indices = indices,
                                                  .n_indices = 2,
                                                  .model = model}};
    const struct gpuprofile_spec spec = {.devices = &entry, .n_devices = 1};
    auto_coverage struct coverage *cov = coverage_new(&spec);
    coverage_add(cov, &(struct resolve_card){.uuid = "GPU-1",
                                             .vendor = "nvidia",
                                             .model = "NVIDIA H100",
                                             .pci_bus_id = ""});
    auto_free char *missing = coverage_missing(cov);
    cr_assert_str_eq(missing, "with uuid GPU-2, index 9 (there are 0)");
}

static char nvidia[] = "nvidia";
static char metax[] = "metax";
static char amd[] = "amd";

/* What a profile of one entry lacks on a node with an H100 and two C500. */
static char *lacking(struct card_selector selector, enum api_remainder remainder)
{
    struct gpuprofile_entry entry = {.selector = selector};
    const struct gpuprofile_spec spec = {.devices = &entry, .n_devices = 1, .remainder = remainder};
    auto_coverage struct coverage *cov = coverage_new(&spec);
    for (unsigned i = 0; i < 3; i++)
        coverage_add(cov, &(struct resolve_card){.uuid = "",
                                                 .vendor = i ? "metax" : "nvidia",
                                                 .model = i ? "MXC500" : "NVIDIA H100",
                                                 .index = i ? i - 1 : 0,
                                                 .pci_bus_id = ""});
    return coverage_missing(cov);
}

Test(gpuprofile_status, index_of_one_vendor_is_not_found_among_those_of_another)
{
    int64_t index = 1;
    struct card_selector s = {.vendor = nvidia, .indices = &index, .n_indices = 1};
    auto_free char *missing = lacking(s, API_REMAINDER_UNCHANGED);
    cr_assert_str_eq(missing, "with index 1 of vendor nvidia (there are 0)");
    s.vendor = amd;
    auto_free char *none = lacking(s, API_REMAINDER_UNCHANGED);
    cr_assert_str_eq(none, "with index 1 of vendor amd (there are none)");
    int64_t beyond = 12;
    s = (struct card_selector){.indices = &beyond, .n_indices = 1};
    auto_free char *all = lacking(s, API_REMAINDER_UNCHANGED);
    cr_assert_str_eq(all, "with index 12 (there are 0-1)");
    s = (struct card_selector){.vendor = metax, .indices = &index, .n_indices = 1};
    cr_assert_null(lacking(s, API_REMAINDER_UNCHANGED));
}

Test(gpuprofile_status, model_that_is_not_there_is_said_with_those_that_are)
{
    char model[] = "MetaX C500";
    auto_free char *missing =
        lacking((struct card_selector){.model = model}, API_REMAINDER_UNCHANGED);
    cr_assert_str_eq(missing, "with model \"MetaX C500\"; there are NVIDIA H100, MXC500");
}

Test(gpuprofile_status, profile_that_concerns_no_card_is_found)
{
    auto_free char *missing =
        lacking((struct card_selector){.vendor = amd}, API_REMAINDER_UNCHANGED);
    cr_assert_str_eq(missing, "that spec.devices selects; there are NVIDIA H100, MXC500");
    cr_assert_null(lacking((struct card_selector){.vendor = metax}, API_REMAINDER_UNCHANGED));
    cr_assert_null(lacking((struct card_selector){.vendor = amd}, API_REMAINDER_NATIVE));
}

/* --- In the cluster --- */

static struct cluster c;

static void start(const char *devices)
{
    cluster_start(&c, /* plan= */ NULL);
    cluster_add_node(&c, "n1", 1);
    auto_free char *yaml = xasprintf("apiVersion: gpu.cleave.dev/v1alpha1\n"
                                     "kind: GPUProfile\n"
                                     "metadata: {name: p}\n"
                                     "spec:\n"
                                     "  nodeSelector: {matchLabels: {pool: a}}\n"
                                     "  devices: [%s]\n",
                                     devices);
    cluster_apply(&c, yaml);
    cluster_settle(&c);
}

static void expect_condition(const char *type, const char *expected)
{
    auto_free char *is = cluster_condition(&c, &resource_gpuprofiles, "p", type);
    cr_assert_str_eq(is, expected);
}

static void expect_ready_message(const char *expected)
{
    auto_json json_t *p = cluster_get(&c, &resource_gpuprofiles, "p");
    auto_conditions struct conditions list = {0};
    conditions_from_json(JX_AT(p, "status", "conditions"), &list);
    cr_assert_str_eq(condition_get(&list, "Ready")->message, expected);
}

#define HALVES "{mode: mig, mig: {profiles: {3g.40gb: 2}}}"

Test(gpuprofile_status, reconciling_until_the_agent_is_done)
{
    start(HALVES);
    expect_condition("Reconciling", "True Progressing");
    expect_condition("Ready", "False Progressing");
    cluster_agent(&c, "n1");
    cluster_settle(&c);
    expect_condition("Ready", "True Applied");
    expect_condition("Reconciling", "");
    cluster_stop(&c);
}

Test(gpuprofile_status, no_node_and_no_agent_are_told_apart)
{
    start(HALVES);
    cluster_patch(&c, &resource_gpuprofiles, "p", NULL,
                  "{spec: {nodeSelector: {matchLabels: {pool: b}, matchExpressions: [{key: track, "
                  "operator: In, values: [x, y]}, {key: old, operator: DoesNotExist}]}}}");
    cluster_settle(&c);
    expect_ready_message("no Node matches nodeSelector (pool=b,track in (x, y),!old); compare with "
                         "kubectl get nodes --show-labels");
    cluster_patch(&c, &resource_gpuprofiles, "p", NULL,
                  "{spec: {nodeSelector: {matchLabels: {pool: a}, matchExpressions: null}}}");
    cluster_remove(&c, &resource_devices, "n1");
    cluster_settle(&c);
    expect_ready_message("1 Node matches nodeSelector (pool=a), and none of them has a Device; is "
                         "cleave-agent running there (kubectl get pods -A -l "
                         "app.kubernetes.io/name=cleave)?");
    cluster_stop(&c);
}

Test(gpuprofile_status, who_governs_cards_that_it_selects_is_said)
{
    start("{selector: {indices: [0]}, mode: mig, mig: {profiles: {3g.40gb: 2}}}, {mode: native}");
    cluster_add_node(&c, "n2", 2);
    cluster_apply(&c, "apiVersion: gpu.cleave.dev/v1alpha1\n"
                      "kind: GPUProfile\n"
                      "metadata: {name: canary}\n"
                      "spec:\n"
                      "  priority: 100\n"
                      "  nodeSelector: {matchLabels: {track: canary}}\n"
                      "  devices: [{selector: {indices: [0]}, mode: native}]\n");
    cluster_settle(&c);
    cluster_agent(&c, "n1");
    cluster_agent(&c, "n2");
    cluster_settle(&c);
    cluster_agent(&c, "n1");
    cluster_agent(&c, "n2");
    cluster_settle(&c);
    expect_ready_message("2 nodes are as wanted");
    cluster_label(&c, "n2", "track", "canary");
    cluster_settle(&c);
    cluster_agent(&c, "n2");
    cluster_settle(&c);
    expect_ready_message(
        "2 nodes are as wanted; n2: NVIDIA GPU 0 is governed by GPUProfile canary");
    expect_condition("Ready", "True Applied");
    cluster_stop(&c);
}

Test(gpuprofile_status, a_layout_that_does_not_fit_is_refused_and_touches_nothing)
{
    start("{mode: mig, mig: {profiles: {3g.40gb: 3}}}");
    expect_condition("Accepted", "False Infeasible");
    expect_condition("Stalled", "True Infeasible");
    auto_free char *spec = cluster_spec(&c, "n1");
    cr_assert_str_eq(spec, "");
    auto_json json_t *p = cluster_get(&c, &resource_gpuprofiles, "p");
    const json_t *failure = json_array_get(JX_AT(p, "status", "failures"), 0);
    cr_assert_not_null(strstr(JX_STR_AT(failure, "message"), "the nearest layout that fits"));
    cluster_stop(&c);
}

Test(gpuprofile_status, a_config_that_does_not_exist_heals_when_it_comes)
{
    start("{mode: mig, mig: {config: mine}}");
    expect_condition("Accepted", "False UnknownConfig");
    cluster_apply(&c, "apiVersion: gpu.cleave.dev/v1alpha1\n"
                      "kind: MIGConfig\n"
                      "metadata: {name: mine}\n"
                      "spec: {devices: [{migEnabled: true, migDevices: {3g.40gb: 2}}]}\n");
    cluster_settle(&c);
    expect_condition("Accepted", "True Accepted");
    cluster_agent(&c, "n1");
    cluster_settle(&c);
    expect_condition("Ready", "True Applied");
    cluster_stop(&c);
}

Test(gpuprofile_status, an_index_that_no_card_has_is_said)
{
    start("{selector: {indices: [0, 9]}, mode: native}");
    cluster_agent(&c, "n1");
    cluster_settle(&c);
    expect_condition("Accepted", "False DeviceNotFound");
    expect_condition("Stalled", "True DeviceNotFound");
    cluster_stop(&c);
}

Test(gpuprofile_status, without_nodes_it_says_so)
{
    cluster_start(&c, /* plan= */ NULL);
    cluster_apply(&c,
                  "apiVersion: gpu.cleave.dev/v1alpha1\n"
                  "kind: GPUProfile\n"
                  "metadata: {name: p}\n"
                  "spec: {nodeSelector: {matchLabels: {pool: b}}, devices: [{mode: native}]}\n");
    cluster_settle(&c);
    expect_condition("Stalled", "True NoNodes");
    cluster_stop(&c);
}

Test(gpuprofile_status, a_node_that_joins_is_counted)
{
    start(HALVES);
    cluster_agent(&c, "n1");
    cluster_settle(&c);
    cluster_add_node(&c, "n2", 1);
    cluster_settle(&c);
    auto_free char *is = cluster_profile(&c, "p");
    cr_assert_str_eq(is, "2/1/1/0 False Progressing");
    cluster_stop(&c);
}

Test(gpuprofile_status, a_status_that_somebody_edits_is_put_right)
{
    start(HALVES);
    cluster_agent(&c, "n1");
    cluster_settle(&c);
    cluster_patch(&c, &resource_gpuprofiles, "p", "status",
                  "{status: {nodes: {matched: 9}, conditions: nonsense}}");
    cluster_settle(&c);
    auto_free char *is = cluster_profile(&c, "p");
    cr_assert_str_eq(is, "1/1/0/0 True Applied");
    cluster_stop(&c);
}

Test(gpuprofile_status, a_rollout_writes_at_most_one_status_a_second)
{
    cluster_start(&c, /* plan= */ NULL);
    for (int i = 0; i < 40; i++) {
        auto_free char *name = xasprintf("n%02d", i);
        cluster_add_node(&c, name, 1);
    }
    cluster_settle(&c);
    int before = cluster_writes(&c);
    cluster_apply(&c, "apiVersion: gpu.cleave.dev/v1alpha1\n"
                      "kind: GPUProfile\n"
                      "metadata: {name: p}\n"
                      "spec:\n"
                      "  nodeSelector: {}\n"
                      "  devices: [{mode: mig, mig: {profiles: {3g.40gb: 2}}}]\n"
                      "  rollout: {maxUnavailable: 40}\n");
    cluster_settle(&c);
    cr_assert_leq(cluster_writes(&c) - before, 40 + 2, "40 Devices, and a first and last status");
    cluster_stop(&c);
}

/* From a number of nodes on a look at all of them is rationed, which must not stop the writes. */
Test(gpuprofile_status, many_nodes_end_as_few_do)
{
    start(HALVES);
    cluster_add_node(&c, "n2", 1);
    c.many_nodes = 1;
    cluster_restart(&c);
    cluster_settle(&c);
    auto_free char *before = cluster_profile(&c, "p");
    cr_expect_str_eq(before, "2/0/2/0 False Progressing");
    cluster_agent(&c, "n1");
    cluster_settle(&c);
    cluster_agent(&c, "n2");
    cluster_settle(&c);
    auto_free char *after = cluster_profile(&c, "p");
    cr_expect_str_eq(after, "2/2/0/0 True Applied");
    cluster_stop(&c);
}
