/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/jx.h"
#include "base/sb.h"
#include "base/xalloc.h"
#include "base/yaml.h"

#include "kubeclient/fake/fake.h"
#include "kubectl/plan_file.h"
#include "kubectl_support.h"
#include "service/resources.h"

TestSuite(plan, .init = desk_set_up, .fini = desk_tear_down);

#define HEAD                                                                                       \
    "apiVersion: gpu.cleave.dev/v1alpha1\n"                                                        \
    "kind: GPUProfile\n"
#define PROFILE(name, spec) HEAD "metadata: {name: " name "}\nspec: " spec "\n"
#define CUT(counts)         "devices: [{selector: {}, mode: mig, mig: {profiles: {" counts "}}}]"
#define MIG(counts)         "nodeSelector: {}, " CUT(counts)

#define ONE_CARD(name, index)                                                                      \
    PROFILE(name, "{nodeSelector: {}, devices: [{selector: {indices: [" index "]}, mode: mig,"     \
                  " mig: {profiles: {7g.80gb: 1}}}]}")

#define NOT_KNOWN "  how long it takes is not known: no node's last order changed a card\n"
#define ONE_WAITS "  1 node waits for users whom nobody evicts: for how long is not known\n"

static void expect_plan(const char *yaml, int code, const char *text)
{
    auto_desk_answer struct desk_answer a = desk_plan(OUTPUT_TEXT, yaml);
    cr_expect_eq(a.code, code, "exit code %d: %s", a.code, a.err);
    cr_expect_str_eq(a.out, text, "got:\n%s", a.out);
    cr_expect_str_eq(a.err, "");
}

/* The node n1 with one card, which is as the profile p ordered it: two halves. */
static void halved_node(void)
{
    desk_node("n1", 1);
    desk_cut("n1", 0, "3g.40gb@0 3g.40gb@4");
    desk_patch(&resource_devices, "n1", NULL,
               "{spec: {source: {kind: GPUProfile, name: p, generation: 1}, migStrategy: mixed,"
               " rollout: {drain: refuseIfInUse, timeoutSeconds: 600},"
               " devices: [{uuid: GPU-n1-0, mode: mig,"
               " mig: {profiles: [{profile: 3g.40gb, count: 2}]}}]}}");
    desk_applied("n1");
}

static void expect_refusal(const char *yaml, const char *error)
{
    auto_desk_answer struct desk_answer a = desk_plan(OUTPUT_TEXT, yaml);
    cr_expect_eq(a.code, 1);
    cr_expect_str_eq(a.out, "", "got:\n%s", a.out);
    cr_expect(strstr(a.err, error), "got: %s", a.err);
}

/* The output has this line, and ends so. */
static void expect_end(const char *yaml, int code, const char *line, const char *end)
{
    auto_desk_answer struct desk_answer a = desk_plan(OUTPUT_TEXT, yaml);
    size_t len = strlen(a.out);
    cr_expect_eq(a.code, code, "exit code %d: %s", a.code, a.err);
    cr_expect(strstr(a.out, line), "got:\n%s", a.out);
    cr_expect(len >= strlen(end) && strcmp(a.out + len - strlen(end), end) == 0, "got:\n%s", a.out);
}

Test(plan, says_which_partitions_stay_go_and_come)
{
    desk_node("n1", 2);
    desk_cut("n1", 0, "1g.10gb@0 3g.40gb@4");
    expect_plan(PROFILE("p", "{" MIG("1g.10gb: 2, 2g.20gb: 1") "}"), 2,
                "n1\n"
                "  NVIDIA GPU 0  NVIDIA H100 80GB HBM3  by p: changes\n"
                "    stays   1g.10gb@0\n"
                "    goes    3g.40gb@4\n"
                "    comes   1g.10gb@1, 2g.20gb@2\n"
                "  NVIDIA GPU 1  NVIDIA H100 80GB HBM3  by p: changes\n"
                "    mode    from native to mig\n"
                "    goes    the whole card\n"
                "    comes   1g.10gb@2, 1g.10gb@3, 2g.20gb@0\n"
                "\n"
                "Order of p: by name, at most 1 node at a time (rollout.maxUnavailable: 1)\n"
                "  n1\n" NOT_KNOWN "Plan: 1 of 1 nodes changes, 2 parts go, 5 parts come\n");
}

/* --- Times of orders, which the model of an API server does not note --- */

static const struct kc_ops *model;

struct item_to {
    kc_item_fn *fn;
    void *arg;
};

static int date_n1(void *arg, const json_t *obj, struct err *e)
{
    const struct item_to *to = arg;
    auto_json json_t *dated = json_deep_copy(obj);
    json_t *written = json_pack("[{s:s, s:s, s:{s:{}}}]", "manager", "cleave-controller", "time",
                                "1970-01-01T00:00:00Z", "fieldsV1", "f:spec");
    if (strcmp(JX_STR_AT(obj, "metadata", "name"), "n1") == 0)
        (void)json_object_set(json_object_get(dated, "metadata"), "managedFields", written);
    json_decref(written);
    return to->fn(to->arg, dated, e);
}

static int list_dated(struct kc *c, struct scope *s, const struct kc_target *t,
                      const struct kc_list_opts *o, kc_item_fn *fn, void *arg, char **ret_version,
                      struct err *e)
{
    struct item_to to = {fn, arg};
    return model->list(c, s, t, o, date_n1, &to, ret_version, e);
}

#define OF_POOL(name, pool)                                                                        \
    PROFILE(name, "{nodeSelector: {matchLabels: {pool: " pool "}}, " SEVEN "}")
#define SEVEN CUT("7g.80gb: 1")

Test(plan, the_time_of_a_profiles_nodes_is_by_the_last_changes_of_its_own)
{
    desk_node("n1", 1);
    desk_node("n2", 1);
    desk_patch(&resource_nodes, "n2", NULL, "{metadata: {labels: {pool: b}}}");
    desk_applied("n1");
    desk_applied("n2");
    model = desk_kc->ops;
    struct kc_ops dated = *model;
    dated.list = list_dated;
    desk_kc->ops = &dated;
    auto_desk_answer struct desk_answer a =
        desk_plan(OUTPUT_TEXT, OF_POOL("p", "a") "---\n" OF_POOL("q", "b"));
    desk_kc->ops = model;
    cr_expect_eq(a.code, 2, "%s", a.err);
    cr_expect(strstr(a.out, "  n1\n  takes about 1 s, if each node takes 1 s: the median of the "
                            "last changes of 1 node"),
              "got:\n%s", a.out);
    cr_expect(strstr(a.out, "  n2\n" NOT_KNOWN), "got:\n%s", a.out);
}

Test(plan, what_is_in_use_is_waited_for_or_evicted_as_the_profile_says)
{
    desk_node("n1", 1);
    desk_cut("n1", 0, "3g.40gb@0=ml/train 3g.40gb@4=ml/other");
    expect_plan(PROFILE("p", "{" MIG("7g.80gb: 1") "}"), 2,
                "n1\n"
                "  NVIDIA GPU 0  NVIDIA H100 80GB HBM3  by p: changes when it is free\n"
                "    goes    3g.40gb@0, 3g.40gb@4\n"
                "    comes   7g.80gb@0\n"
                "    waits for  ml/train, ml/other\n"
                "\n"
                "Order of p: by name, at most 1 node at a time (rollout.maxUnavailable: 1)\n"
                "  n1\n" NOT_KNOWN ONE_WAITS
                "Plan: 1 of 1 nodes changes, 2 parts go, 1 part comes, 2 users are waited for\n");
    expect_plan(PROFILE("p", "{" MIG("7g.80gb: 1") ", rollout: {drain: evict}}"), 2,
                "n1\n"
                "  NVIDIA GPU 0  NVIDIA H100 80GB HBM3  by p: changes when it is free\n"
                "    goes    3g.40gb@0, 3g.40gb@4\n"
                "    comes   7g.80gb@0\n"
                "    evicts  ml/train, ml/other\n"
                "\n"
                "Order of p: by name, at most 1 node at a time (rollout.maxUnavailable: 1)\n"
                "  n1\n" NOT_KNOWN
                "  1 node evicts pods first, each for at most 10 min (rollout.timeoutSeconds)\n"
                "Plan: 1 of 1 nodes changes, 2 parts go, 1 part comes, 2 pods are evicted\n");
}

Test(plan, a_partition_in_use_that_can_stay_stays)
{
    desk_node("n1", 1);
    desk_cut("n1", 0, "1g.10gb@6=ml/a 3g.40gb@0");
    expect_plan(PROFILE("p", "{" MIG("1g.10gb: 7") "}"), 2,
                "n1\n"
                "  NVIDIA GPU 0  NVIDIA H100 80GB HBM3  by p: changes\n"
                "    stays   1g.10gb@6\n"
                "    goes    3g.40gb@0\n"
                "    comes   1g.10gb@0, 1g.10gb@1, 1g.10gb@2, 1g.10gb@3, 1g.10gb@4, 1g.10gb@5\n"
                "\n"
                "Order of p: by name, at most 1 node at a time (rollout.maxUnavailable: 1)\n"
                "  n1\n" NOT_KNOWN "Plan: 1 of 1 nodes changes, 1 part goes, 6 parts come\n");
}

Test(plan, a_change_of_mode_waits_for_the_pod_on_the_whole_card)
{
    desk_node("n1", 1);
    desk_hold("n1", 0, "ml", "big");
    expect_plan(PROFILE("p", "{" MIG("3g.40gb: 2") "}"), 2,
                "n1\n"
                "  NVIDIA GPU 0  NVIDIA H100 80GB HBM3  by p: changes when it is free\n"
                "    mode    from native to mig\n"
                "    goes    the whole card\n"
                "    comes   3g.40gb@0, 3g.40gb@4\n"
                "    waits for  ml/big\n"
                "\n"
                "Order of p: by name, at most 1 node at a time (rollout.maxUnavailable: 1)\n"
                "  n1\n" NOT_KNOWN ONE_WAITS
                "Plan: 1 of 1 nodes changes, 1 part goes, 2 parts come, 1 user is waited for\n");
}

Test(plan, nodes_go_by_name_as_many_at_a_time_as_the_profile_allows)
{
    desk_node("n3", 1);
    desk_node("n1", 1);
    desk_node("n2", 1);
    expect_plan(PROFILE("p", "{" MIG("3g.40gb: 2") ", rollout: {maxUnavailable: 50%}}"), 2,
                "n1\n"
                "  NVIDIA GPU 0  NVIDIA H100 80GB HBM3  by p: changes\n"
                "    mode    from native to mig\n"
                "    goes    the whole card\n"
                "    comes   3g.40gb@0, 3g.40gb@4\n"
                "n2\n"
                "  NVIDIA GPU 0  NVIDIA H100 80GB HBM3  by p: changes\n"
                "    mode    from native to mig\n"
                "    goes    the whole card\n"
                "    comes   3g.40gb@0, 3g.40gb@4\n"
                "n3\n"
                "  NVIDIA GPU 0  NVIDIA H100 80GB HBM3  by p: changes\n"
                "    mode    from native to mig\n"
                "    goes    the whole card\n"
                "    comes   3g.40gb@0, 3g.40gb@4\n"
                "\n"
                "Order of p: by name, at most 2 nodes at a time (rollout.maxUnavailable: 50%)\n"
                "  n1, n2, n3\n" NOT_KNOWN "Plan: 3 of 3 nodes change, 3 parts go, 6 parts come\n");
}

Test(plan, a_paused_profile_begins_nowhere)
{
    desk_node("n1", 1);
    auto_desk_answer struct desk_answer a =
        desk_plan(OUTPUT_TEXT, PROFILE("p", "{paused: true, " MIG("3g.40gb: 2") "}"));
    cr_expect(strstr(a.out, "Order of p: none begins, since it is paused"), "got:\n%s", a.out);
}

Test(plan, nothing_to_do_is_0)
{
    halved_node();
    expect_plan(PROFILE("p", "{" MIG("3g.40gb: 2") "}"), 0,
                "n1  nothing changes\n\nPlan: 0 of 1 nodes change\n");
}

/* --- Profiles that the controller will reject, in its own words --- */

Test(plan, a_profile_without_nodes_is_refused)
{
    desk_node("n1", 1);
    expect_plan(
        PROFILE("p", "{nodeSelector: {matchLabels: {pool: inferense}}, " SEVEN "}"), 1,
        "Cannot be: p: NoNodes: no Node matches nodeSelector (pool=inferense); compare with "
        "kubectl get nodes --show-labels\n"
        "Plan: concerns none of 1 nodes with a Device, 1 profile cannot be as asked\n");
}

Test(plan, a_profile_whose_cards_are_on_no_node_is_refused_while_the_others_change)
{
    desk_node("n1", 2);
    expect_plan(PROFILE("p", "{nodeSelector: {}, devices: [{selector: {indices: [9]}, mode: mig,"
                             " mig: {profiles: {7g.80gb: 1}}}]}"),
                1,
                "n1  nothing changes\n\n"
                "Cannot be: p: DeviceNotFound: no matched node has a card with index 9 (there are "
                "0-1)\n"
                "Plan: 0 of 1 nodes change, 1 profile cannot be as asked\n");
    auto_desk_answer struct desk_answer a =
        desk_plan(OUTPUT_JSON,
                  PROFILE("p", "{nodeSelector: {}, devices: [{selector: {indices: [0, 9]},"
                               " mode: mig, mig: {profiles: {7g.80gb: 1}}}]}"));
    auto_json json_t *doc = json_loads(a.out, 0, NULL);
    const json_t *p = json_array_get(JX_AT(doc, "profiles"), 0);
    cr_expect_eq(a.code, 1);
    cr_expect(json_is_true(JX_AT(doc, "changes")) && json_is_true(JX_AT(doc, "refused")));
    cr_expect_str_eq(JX_STR_AT(p, "name"), "p");
    cr_expect(json_is_true(JX_AT(p, "refused")));
    cr_expect_str_eq(JX_STR_AT(p, "reason"), "DeviceNotFound");
}

Test(plan, a_profile_that_others_override_everywhere_is_told_and_is_no_fault)
{
    desk_node("n1", 1);
    desk_create(&resource_gpuprofiles, PROFILE("other", "{priority: 5, " MIG("3g.40gb: 2") "}"));
    auto_desk_answer struct desk_answer a =
        desk_plan(OUTPUT_JSON, PROFILE("p", "{" MIG("7g.80gb: 1") "}"));
    auto_json json_t *doc = json_loads(a.out, 0, NULL);
    const json_t *p = json_array_get(JX_AT(doc, "profiles"), 0);
    cr_expect_eq(a.code, 2, "got:\n%s", a.out); /* the other's change is not ordered yet */
    cr_expect(json_is_false(JX_AT(p, "refused")));
    cr_expect_str_eq(JX_STR_AT(p, "reason"), "Overridden");
}

/* --- What is wrong already, and not by the file --- */

Test(plan, a_label_that_names_nothing_is_a_note_of_the_node)
{
    desk_node("n1", 1);
    desk_patch(&resource_nodes, "n1", NULL,
               "{metadata: {labels: {nvidia.com/mig.config: nonsense}}}");
    auto_desk_answer struct desk_answer a =
        desk_plan(OUTPUT_TEXT, PROFILE("p", "{" MIG("7g.80gb: 1") "}"));
    cr_expect_eq(a.code, 2, "got:\n%s", a.out);
    cr_expect(strstr(a.out, "  note: nonsense: UnknownConfig: "), "got:\n%s", a.out);
    cr_expect_not(strstr(a.out, "cannot be"), "got:\n%s", a.out);
}

static void break_card(const char *uuid)
{
    auto_free char *cards =
        xasprintf("{status: {devices: [{uuid: GPU-n1-0, index: 0, vendor: nvidia,"
                  " model: NVIDIA H100 80GB HBM3, memoryMiB: 81559, healthy: %s, migCapable: true,"
                  " mode: native, partitions: []}, {uuid: GPU-n1-1, index: 1, vendor: nvidia,"
                  " model: NVIDIA H100 80GB HBM3, memoryMiB: 81559, healthy: %s, migCapable: true,"
                  " mode: native, partitions: []}]}}",
                  strcmp(uuid, "GPU-n1-0") ? "true" : "false",
                  strcmp(uuid, "GPU-n1-1") ? "true" : "false");
    desk_patch(&resource_devices, "n1", "status", cards);
}

Test(plan, an_ill_card_is_shown_and_is_no_fault_of_the_file)
{
    desk_node("n1", 2);
    break_card("GPU-n1-1");
    desk_create(&resource_gpuprofiles, ONE_CARD("other", "1"));
    static const char *const files[] = {ONE_CARD("p", "0"),
                                        PROFILE("p", "{priority: 1, " MIG("7g.80gb: 1") "}")};
    for (size_t i = 0; i < ARRAY_LEN(files); i++) {
        auto_desk_answer struct desk_answer a = desk_plan(OUTPUT_TEXT, files[i]);
        cr_expect_eq(a.code, 2, "got:\n%s", a.out);
        cr_expect(strstr(a.out, "  NVIDIA GPU 1  NVIDIA H100 80GB HBM3  by "), "got:\n%s", a.out);
        cr_expect(strstr(a.out, ": stays as it is, for it is ill\n    Unhealthy: "), "got:\n%s",
                  a.out);
        cr_expect(strstr(a.out, ", 1 card is ill\n"), "got:\n%s", a.out);
    }
}

Test(plan, a_config_of_the_file_that_cannot_be_is_a_fault_of_the_file)
{
    desk_node("n1", 1);
    desk_create(&resource_gpuprofiles,
                PROFILE("other", "{nodeSelector: {}, devices: [{selector: {}, mode: mig,"
                                 " mig: {config: large}}]}"));
    auto_desk_answer struct desk_answer a =
        desk_plan(OUTPUT_TEXT, "apiVersion: gpu.cleave.dev/v1alpha1\nkind: MIGConfig\n"
                               "metadata: {name: large}\n"
                               "spec: {devices: [{migEnabled: true, migDevices: {7g.80gb: 2}}]}\n");
    cr_expect_eq(a.code, 1);
    cr_expect(strstr(a.out, "  cannot be: other: Infeasible: "), "got:\n%s", a.out);
}

Test(plan, a_layout_that_cannot_be_is_an_error_with_the_nearest_that_can)
{
    desk_node("n1", 1);
    expect_plan(
        PROFILE("p", "{" MIG("7g.80gb: 1, 1g.10gb: 1") "}"), 1,
        "n1  nothing changes\n"
        "  cannot be: p: Infeasible: GPU 0 (NVIDIA H100 80GB HBM3): 1g.10gb x1, 7g.80gb x1 needs 9 of 8 memory slices; the nearest layout that fits is 7g.80gb x1\n"
        "\n"
        "Plan: 0 of 1 nodes change, 1 node cannot be as asked\n");
}

Test(plan, another_profile_of_the_same_priority_is_a_conflict)
{
    desk_node("n1", 1);
    desk_create(&resource_gpuprofiles, PROFILE("other", "{" MIG("3g.40gb: 2") "}"));
    auto_desk_answer struct desk_answer a =
        desk_plan(OUTPUT_TEXT, PROFILE("p", "{" MIG("7g.80gb: 1") "}"));
    cr_expect_eq(a.code, 1);
    cr_expect(strstr(a.out, "Conflict"), "got:\n%s", a.out);
    auto_desk_answer struct desk_answer wins =
        desk_plan(OUTPUT_TEXT, PROFILE("p", "{priority: 5, " MIG("7g.80gb: 1") "}"));
    cr_expect_eq(wins.code, 2, "got:\n%s", wins.out);
}

Test(plan, a_conflict_is_one_line_for_all_cards_and_hides_no_other_fault)
{
    desk_node("n1", 4);
    desk_cut("n1", 3, "7g.80gb@0");
    desk_create(&resource_gpuprofiles, PROFILE("other", "{" MIG("3g.40gb: 2") "}"));
    expect_plan(
        PROFILE("p", "{nodeSelector: {}, " CUT("1g.10gb: 8") "}"), 1,
        "n1  nothing changes\n"
        "  note: other: Conflict: NVIDIA GPU 0 is selected with equal priority by GPUProfile p too; raise one priority or narrow a selector; the same of GPU 1, 2, 3\n"
        "  cannot be: p: Conflict: NVIDIA GPU 0 is selected with equal priority by GPUProfile other too; raise one priority or narrow a selector; the same of GPU 1, 2, 3\n"
        "  cannot be: p: Infeasible: GPU 0 (NVIDIA H100 80GB HBM3): 1g.10gb x8 needs 8 of 7 compute slices; the nearest layout that fits is 1g.10gb x7; the same of GPU 1, 2, 3\n"
        "\n"
        "Plan: 0 of 1 nodes change, 1 node cannot be as asked\n");
}

/* GPU 0 is contested; of GPU 1 the layout is seen at once, and told once. */
Test(plan, a_conflict_on_one_card_adds_only_what_it_hides)
{
    desk_node("n1", 2);
    desk_create(&resource_gpuprofiles, ONE_CARD("other", "0"));
    auto_desk_answer struct desk_answer a =
        desk_plan(OUTPUT_JSON, PROFILE("p", "{" MIG("1g.10gb: 8") "}"));
    auto_json json_t *doc = json_loads(a.out, 0, NULL);
    const json_t *problems = JX_AT(json_array_get(JX_AT(doc, "nodes"), 0), "problems");
    size_t i;
    json_t *problem;
    size_t infeasible = 0;
    json_array_foreach(problems, i, problem)
        infeasible += strcmp(JX_STR_AT(problem, "reason"), "Infeasible") == 0;
    cr_expect_eq(infeasible, 2, "got:\n%s", a.out);
}

/* While p is refused the card keeps the want of a profile that is gone. */
Test(plan, a_want_of_a_profile_that_is_gone_is_not_of_the_file)
{
    desk_node("n1", 1);
    desk_patch(&resource_devices, "n1", NULL,
               "{spec: {source: {kind: GPUProfile, name: gone, generation: 1}, migStrategy: mixed,"
               " devices: [{uuid: GPU-n1-0, mode: mig,"
               " source: {kind: GPUProfile, name: gone, generation: 1},"
               " mig: {profiles: [{profile: 3g.40gb, count: 2}]}}]}}");
    desk_create(&resource_gpuprofiles, PROFILE("p", "{" MIG("1g.10gb: 8") "}"));
    auto_desk_answer struct desk_answer a =
        desk_plan(OUTPUT_TEXT, "apiVersion: gpu.cleave.dev/v1alpha1\nkind: MIGConfig\n"
                               "metadata: {name: halves}\n"
                               "spec: {devices: [{migEnabled: true, migDevices: {3g.40gb: 2}}]}\n");
    cr_expect_eq(a.code, 2, "got:\n%s%s", a.out, a.err);
}

Test(plan, a_change_of_the_order_alone_is_told_as_one)
{
    halved_node();
    expect_plan(PROFILE("p", "{" MIG("3g.40gb: 2") ", rollout: {drain: evict}}"), 2,
                "n1  only Device.spec changes, no card\n\n"
                "Plan: 1 of 1 nodes changes, 1 of them in Device.spec only\n");
}

Test(plan, an_edit_takes_the_place_of_the_profile_that_is_there)
{
    desk_node("n1", 1);
    desk_create(&resource_gpuprofiles, PROFILE("p", "{" MIG("3g.40gb: 2") "}"));
    auto_desk_answer struct desk_answer a =
        desk_plan(OUTPUT_TEXT, PROFILE("p", "{" MIG("7g.80gb: 1") "}"));
    cr_expect_eq(a.code, 2);
    cr_expect(strstr(a.out, "comes   7g.80gb@0"), "got:\n%s", a.out);
    cr_expect_not(strstr(a.out, "Conflict"));
}

Test(plan, a_new_config_changes_the_nodes_whose_profile_or_label_names_it)
{
    desk_node("n1", 1);
    desk_node("n2", 1);
    desk_patch(&resource_nodes, "n1", NULL,
               "{metadata: {labels: {nvidia.com/mig.config: halves}}}");
    auto_desk_answer struct desk_answer a =
        desk_plan(OUTPUT_TEXT, "apiVersion: gpu.cleave.dev/v1alpha1\nkind: MIGConfig\n"
                               "metadata: {name: halves}\n"
                               "spec: {devices: [{migEnabled: true, migDevices: {3g.40gb: 2}}]}\n");
    cr_expect_eq(a.code, 2, "%s%s", a.out, a.err);
    cr_expect(strstr(a.out, "n1\n") && !strstr(a.out, "n2"), "got:\n%s", a.out);
    cr_expect(strstr(a.out, "by halves: changes"), "got:\n%s", a.out);
}

Test(plan, another_sharing_is_a_change_without_new_partitions)
{
    desk_node("n1", 1);
    auto_desk_answer struct desk_answer a =
        desk_plan(OUTPUT_TEXT,
                  PROFILE("p", "{nodeSelector: {}, devices: [{selector: {}, mode: native,"
                               " sharing: {timeSlicing: {replicas: 4}}}]}"));
    cr_expect_eq(a.code, 2);
    cr_expect(strstr(a.out, "sharing from not shared to timeSlicing, 4 replicas"), "got:\n%s",
              a.out);
}

#define SLICES(words)                                                                              \
    PROFILE("p", "{nodeSelector: {}, devices: [{mode: sgpu, sgpu: {slices: [" words "]}}]}")

Test(plan, slices_stay_by_their_names_and_go_when_nobody_has_them)
{
    desk_node("n1", 0);
    desk_patch(&resource_devices, "n1", "status",
               "{status: {devices: [{uuid: GPU-1, index: 0, vendor: metax, model: MXC500,"
               " memoryMiB: 65536, healthy: true, migCapable: false, mode: sgpu,"
               " sgpu: {memoryMiB: 65536, qosPolicy: best-effort}, partitions: ["
               "{uuid: s0, profile: small, inUse: true, inUseBy: [{namespace: ml, name: a}],"
               " slice: {id: 0, alias: small-0, memoryMiB: 16384, computePercent: 10}},"
               "{uuid: s1, profile: small,"
               " slice: {id: 1, alias: small-1, memoryMiB: 16384, computePercent: 10}}]}]}}");
    expect_plan(SLICES("{alias: small, memoryMiB: 16384, computePercent: 10, count: 3}"), 2,
                "n1\n"
                "  MetaX GPU 0  MXC500  by p: changes\n"
                "    stays   small-0, small-1\n"
                "    comes   small-2 (16384 MiB, 10 %)\n"
                "\n"
                "Order of p: by name, at most 1 node at a time (rollout.maxUnavailable: 1)\n"
                "  n1\n" NOT_KNOWN "Plan: 1 of 1 nodes changes, 1 part comes\n");
    expect_plan(SLICES("{alias: large, memoryMiB: 32768, computePercent: 50}"), 2,
                "n1\n"
                "  MetaX GPU 0  MXC500  by p: changes when it is free\n"
                "    goes    small-0, small-1\n"
                "    comes   large (32768 MiB, 50 %)\n"
                "    waits for  ml/a\n"
                "\n"
                "Order of p: by name, at most 1 node at a time (rollout.maxUnavailable: 1)\n"
                "  n1\n" NOT_KNOWN ONE_WAITS
                "Plan: 1 of 1 nodes changes, 2 parts go, 1 part comes, 1 user is waited for\n");
}

Test(plan, nothing_is_written)
{
    desk_node("n1", 1);
    size_t before = kc_fake_writes(desk_kc);
    auto_desk_answer struct desk_answer a =
        desk_plan(OUTPUT_TEXT, PROFILE("p", "{" MIG("7g.80gb: 1") "}"));
    cr_expect_eq(a.code, 2);
    cr_expect_eq(kc_fake_writes(desk_kc), before);
}

Test(plan, json_has_all_that_the_text_has)
{
    desk_node("n1", 1);
    desk_cut("n1", 0, "3g.40gb@0=ml/a 1g.10gb@4");
    auto_desk_answer struct desk_answer a =
        desk_plan(OUTPUT_JSON, PROFILE("p", "{" MIG("7g.80gb: 1") ", rollout: {drain: evict}}"));
    auto_json json_t *doc = json_loads(a.out, 0, NULL);
    const json_t *node = json_array_get(JX_AT(doc, "nodes"), 0);
    const json_t *card = json_array_get(JX_AT(node, "cards"), 0);
    const json_t *user = json_array_get(JX_AT(card, "users"), 0);
    cr_expect_eq(a.code, 2);
    cr_expect(json_is_true(JX_AT(doc, "changes")) && json_is_false(JX_AT(doc, "refused")));
    cr_expect_str_eq(JX_STR_AT(card, "fate"), "Drains");
    cr_expect_eq(json_array_size(JX_AT(card, "goes")), 2);
    cr_expect(json_is_true(JX_AT(card, "evicts")));
    cr_expect_str_eq(JX_STR_AT(user, "name"), "a");
    const json_t *order = json_array_get(JX_AT(doc, "order"), 0);
    cr_expect_str_eq(json_string_value(json_array_get(JX_AT(order, "waiting"), 0)), "n1");
    cr_expect_eq(json_integer_value(JX_AT(order, "duration", "samples")), 0);
    cr_expect_not(JX_AT(order, "duration", "seconds"));
    cr_expect_eq(json_integer_value(JX_AT(order, "duration", "evicting")), 1);
    cr_expect_eq(json_integer_value(JX_AT(order, "duration", "evictingMostSeconds")), 600);
}

/* Written piece by piece, and yet as kubectl writes a document. */
Test(plan, json_is_indented_as_kubectl_indents)
{
    static const char *const files[] = {
        PROFILE("p", "{nodeSelector: {matchLabels: {pool: none}}, " CUT("7g.80gb: 1") "}"),
        PROFILE("p", "{" MIG("7g.80gb: 1") "}"),
    };
    desk_node("n1", 2);
    desk_node("n2", 1);
    for (size_t i = 0; i < ARRAY_LEN(files); i++) {
        auto_desk_answer struct desk_answer a = desk_plan(OUTPUT_JSON, files[i]);
        auto_json json_t *doc = json_loads(a.out, 0, NULL);
        auto_free char *text = json_dumps(doc, JSON_INDENT(4));
        auto_free char *line = xasprintf("%s\n", text);
        cr_expect_eq(json_array_size(JX_AT(doc, "nodes")), i * 2);
        cr_expect_str_eq(a.out, line, "got:\n%s", a.out);
    }
}

Test(plan, what_json_has_of_others_never_commands_the_terminal)
{
    desk_node("n1", 1);
    desk_hold("n1", 0, "ml", "a\xE2\x80\xAEz\xC3\xB6");
    auto_desk_answer struct desk_answer a =
        desk_plan(OUTPUT_JSON, PROFILE("p", "{" MIG("7g.80gb: 1") "}"));
    cr_expect(strstr(a.out, "\"a\\u202Ez\xC3\xB6\""), "got:\n%s", a.out);
}

Test(plan, yaml_is_the_same_document)
{
    desk_node("n1", 1);
    auto_err struct err e = {0};
    auto_desk_answer struct desk_answer a =
        desk_plan(OUTPUT_JSON, PROFILE("p", "{" MIG("7g.80gb: 1") "}"));
    auto_desk_answer struct desk_answer b =
        desk_plan(OUTPUT_YAML, PROFILE("p", "{" MIG("7g.80gb: 1") "}"));
    auto_json json_t *json = json_loads(a.out, 0, NULL);
    auto_json json_t *yaml = NULL;
    cr_assert_eq(yaml_load(b.out, strlen(b.out), &yaml, &e), 0, "%s", err_msg(&e));
    cr_expect(json_equal(json, yaml), "got:\n%s", b.out);
}

/* --- Labels --- */

#define NODE(name, labels)                                                                         \
    "apiVersion: v1\nkind: Node\nmetadata: {name: " name ", labels: {" labels "}}\n"
/* As `kubectl label --dry-run=client -o yaml` prints it: with all that the Node has. */
#define WHOLE_NODE(name, labels)                                                                   \
    "apiVersion: v1\nkind: Node\nmetadata: {name: " name ", uid: u-1, labels: {" labels "}}\n"
#define AS_HALVES                                                                                  \
    "n1\n"                                                                                         \
    "  NVIDIA GPU 0  NVIDIA H100 80GB HBM3  by all-3g.40gb: changes\n"                             \
    "    mode    from native to mig\n"                                                             \
    "    goes    the whole card\n"                                                                 \
    "    comes   3g.40gb@0, 3g.40gb@4\n"                                                           \
    "\n"                                                                                           \
    "Plan: 1 of 1 nodes changes, 1 part goes, 2 parts come\n"

Test(plan, a_node_with_a_label_is_cut_as_the_label_says)
{
    desk_node("n1", 1);
    desk_node("n2", 1);
    expect_plan(NODE("n1", "nvidia.com/mig.config: all-3g.40gb"), 2, AS_HALVES);
    expect_plan(WHOLE_NODE("n1", "nvidia.com/mig.config: all-3g.40gb"), 2, AS_HALVES);
    expect_plan(NODE("n1", "rack: a"), 0, "n1  nothing changes\n\nPlan: 0 of 1 nodes change\n");
    expect_plan("apiVersion: v1\nkind: Node\nmetadata: {name: n1, labels: null}\n", 0,
                "n1  nothing changes\n\nPlan: 0 of 1 nodes change\n");
}

Test(plan, a_node_written_by_hand_keeps_its_other_labels_and_a_whole_one_has_none_but_its_own)
{
    static const char of_p[] = "n1\n"
                               "  NVIDIA GPU 0  NVIDIA H100 80GB HBM3  by p: changes\n"
                               "    mode    from native to mig\n"
                               "    goes    the whole card\n"
                               "    comes   7g.80gb@0\n"
                               "\n"
                               "Plan: 1 of 1 nodes changes, 1 part goes, 1 part comes\n";
    desk_node("n1", 1);
    desk_create(&resource_gpuprofiles,
                PROFILE("p", "{nodeSelector: {matchLabels: {pool: a}}, " CUT("7g.80gb: 1") "}"));
    expect_plan(NODE("n1", "rack: a"), 2, of_p);
    expect_plan(WHOLE_NODE("n1", "pool: a, rack: a"), 2, of_p);
    expect_plan(WHOLE_NODE("n1", "rack: a"), 0,
                "n1  nothing changes\n\nPlan: 0 of 1 nodes change\n");
}

/* `kubectl label -o json` prints nodes one after the other, and of a large cluster more than YAML may
 * be. */
Test(plan, nodes_come_one_after_the_other_as_json)
{
    enum { NODES = 2000, ROOM_BYTES = 3000 };
    auto_free char *annotation = xmalloc(ROOM_BYTES);
    auto_sb struct sb json = SB_INIT(NODES * (ROOM_BYTES + 200));
    desk_node("n1", 1);
    memset(annotation, 'a', ROOM_BYTES - 1);
    annotation[ROOM_BYTES - 1] = '\0';
    for (unsigned i = 1; i <= NODES; i++)
        sb_addf(
            &json,
            "{\"apiVersion\": \"v1\", \"kind\": \"Node\", \"metadata\": {\"name\": \"n%u\", \"uid\": "
            "\"u\", \"annotations\": {\"a\": \"%s\"}, \"labels\": {\"nvidia.com/mig.config\": "
            "\"all-3g.40gb\"}}}\n",
            i, annotation);
    expect_plan(sb_str(&json), 2, AS_HALVES);
}

/* A label is not to blame for what was wrong before it. */
Test(plan, a_label_that_moves_a_node_under_a_profile_that_cannot_be_there_cannot_be)
{
    desk_node("n1", 1);
    desk_create(&resource_gpuprofiles,
                PROFILE("p", "{nodeSelector: {matchLabels: {x: a}}, " CUT("7g.80gb: 2") "}"));
    expect_end(NODE("n1", "x: a"), 1, "  cannot be: p: Infeasible: ",
               "Plan: 0 of 1 nodes change, 1 node cannot be as asked\n");
    desk_create(&resource_gpuprofiles, OF_POOL("q", "a"));
    expect_end(NODE("n1", "x: a"), 1, "  cannot be: q: Conflict: ", "cannot be as asked\n");
    desk_patch(&resource_nodes, "n1", NULL, "{metadata: {labels: {x: a, pool: b}}}");
    expect_end(NODE("n1", "rack: a"), 0, "  note: p: Infeasible: ", "Plan: 0 of 1 nodes change\n");
}

Test(plan, a_label_taken_away_that_leaves_a_node_to_a_profile_that_cannot_be_there_cannot_be)
{
    desk_node("n1", 1);
    desk_create(&resource_gpuprofiles, PROFILE("p", "{" MIG("7g.80gb: 2") "}"));
    desk_patch(&resource_nodes, "n1", NULL,
               "{metadata: {labels: {nvidia.com/mig.config: all-disabled}}}");
    expect_end(WHOLE_NODE("n1", "nvidia.com/mig.config: all-disabled, rack: a"), 2,
               "  note: p: Overridden: ", "1 of them in Device.spec only\n");
    expect_end(WHOLE_NODE("n1", "rack: a"), 1,
               "  cannot be: p: Infeasible: ", "1 node cannot be as asked\n");
}

#define CONFIG(name, alias, spec)                                                                  \
    "apiVersion: gpu.cleave.dev/v1alpha1\nkind: MIGConfig\nmetadata: {name: " name                 \
    "}\nspec: {aliases: [" alias "], devices: [{migEnabled: true, migDevices: {" spec "}}]}\n"

/* c0 would be new, and c2 is younger than c1. */
Test(plan, an_alias_belongs_to_the_config_that_the_cluster_had_first)
{
    desk_node("n1", 1);
    desk_create(&resource_migconfigs, CONFIG("c1", "half", "3g.40gb: 2"));
    const char *label = NODE("n1", "nvidia.com/mig.config: half");
    auto_free char *both = xasprintf("%s---\n%s", label, CONFIG("c0", "half", "7g.80gb: 1"));
    expect_end(both, 2, "    comes   3g.40gb@0, 3g.40gb@4\n", "2 parts come\n");
    desk_create(&resource_migconfigs, CONFIG("c2", "other", "7g.80gb: 1"));
    auto_free char *younger = xasprintf("%s---\n%s", label, CONFIG("c2", "half", "7g.80gb: 1"));
    expect_end(younger, 2, "    comes   3g.40gb@0, 3g.40gb@4\n", "2 parts come\n");
}

/* --- Memory --- */

static size_t pieces, most_pieces;

static void *count_piece(size_t bytes)
{
    pieces++;
    most_pieces = most_pieces > pieces ? most_pieces : pieces;
    return malloc(bytes);
}

static void drop_piece(void *piece)
{
    pieces -= piece != NULL;
    free(piece);
}

Test(plan, of_a_long_file_only_what_a_plan_reads_is_kept)
{
    enum { NODES = 2000, OTHERS = 100, PIECES_OF_A_NODE = 40 };
    auto_sb struct sb others = SB_INIT(3 * OTHERS);
    auto_sb struct sb json = SB_INIT(NODES * (3 * OTHERS + 300));
    desk_node("n1", 1);
    for (unsigned i = 0; i < OTHERS; i++)
        sb_add(&others, i ? ",{}" : "{}");
    for (unsigned i = 1; i <= NODES; i++)
        sb_addf(&json,
                "{\"apiVersion\": \"v1\", \"kind\": \"Node\", \"metadata\": {\"name\": \"n%u\","
                " \"uid\": \"u\", \"labels\": {\"nvidia.com/mig.config\": \"all-3g.40gb\"}},"
                " \"status\": {\"images\": [%s]}}\n",
                i, sb_str(&others));
    json_set_alloc_funcs(count_piece, drop_piece);
    expect_plan(sb_str(&json), 2, AS_HALVES);
    json_set_alloc_funcs(malloc, free);
    cr_expect_leq(most_pieces, NODES * PIECES_OF_A_NODE, "%zu pieces", most_pieces);
}

Test(plan, of_a_file_too_long_for_yaml_the_error_is_that_of_json)
{
    auto_sb struct sb json = SB_INIT(YAML_MAX_BYTES + 100);
    desk_node("n1", 1);
    sb_add(
        &json,
        "{\"apiVersion\": \"v1\", \"kind\": \"Node\", \"metadata\": {\"name\": \"n1\"}}{\"a\": b}");
    while (json.len <= YAML_MAX_BYTES)
        sb_add_char(&json, ' ');
    expect_refusal(sb_str(&json), "plan.yaml, document 2: JSON line 1, column 7");
}

Test(plan, a_label_that_names_no_layout_cannot_be)
{
    desk_node("n1", 1);
    auto_desk_answer struct desk_answer a =
        desk_plan(OUTPUT_TEXT, NODE("n1", "nvidia.com/mig.config: all-9g.90gb"));
    cr_expect_eq(a.code, 1);
    cr_expect(strstr(a.out, "  cannot be: all-9g.90gb: "), "got:\n%s", a.out);
}

Test(plan, a_node_that_is_not_there_or_a_label_that_cannot_be_is_an_error)
{
    desk_node("n1", 1);
    expect_refusal(NODE("n9", "a: b"), "\"n9\" not found");
    expect_refusal(NODE("n1", "a: b!"), "Node n1: .metadata.labels: the value of a must be");
    expect_refusal(NODE("n1", "a: 1"), "Node n1: .metadata.labels: the value of a must be");
    expect_refusal("apiVersion: v1\nkind: Node\nmetadata: {name: n1, labels: [a]}\n",
                   "Node n1: .metadata.labels must be an object");
    expect_refusal(NODE("n1", "a: b") "---\n" NODE("n1", "a: b"), "Node n1 is there twice");
}

/* --- Bad input --- */

Test(plan, a_file_that_cannot_be_is_refused_with_the_field)
{
    desk_node("n1", 1);
    expect_refusal("", "plan.yaml: holds nothing");
    expect_refusal("a: [", "plan.yaml");
    expect_refusal("{\"kind\": \"Pod\"}{\"kind\"", "plan.yaml");
    expect_refusal("kind: Pod\n", "Pod is none of GPUProfile, MIGConfig and Node");
    expect_refusal("kind: GPUProfile\nmetadata: {name: p}\n",
                   "apiVersion must be gpu.cleave.dev/v1alpha1");
    expect_refusal(HEAD, "GPUProfile: .metadata.name is missing");
    expect_refusal(PROFILE("Foo_Bar", "{" MIG("3g.40gb: 2") "}"),
                   "GPUProfile Foo_Bar: .metadata.name must be at most 253 small letters");
    expect_refusal(PROFILE("a..b", "{" MIG("3g.40gb: 2") "}"), ".metadata.name must be");
    expect_refusal(PROFILE("a-", "{" MIG("3g.40gb: 2") "}"), ".metadata.name must be");
    expect_refusal(PROFILE("y", "{" MIG("3g.40gb: 2") "}"),
                   "plan.yaml: YAML line 3, column 18: kubectl reads y as a boolean: write it in "
                   "quotes");
    expect_refusal(PROFILE("p", "{nodeSelector: {}}"), ".spec.devices: required");
    expect_refusal(PROFILE("p", "{nodeSelector: {}, devices: [{mode: odd}]}"),
                   ".spec.devices[0].mode");
    expect_refusal(PROFILE("p", "{prioritty: 1, " MIG("3g.40gb: 1") "}"), "prioritty");
    expect_refusal(PROFILE("p",
                           "{" MIG("3g.40gb: 2") "}") "---\n" PROFILE("p",
                                                                      "{" MIG("3g.40gb: 1") "}"),
                   "twice");
    expect_refusal(PROFILE("p", "{rollout: {maxUnavailable: lots}, " MIG("3g.40gb: 2") "}"),
                   "maxUnavailable");
    expect_refusal(PROFILE("\"\\e[2J\"", "{devices: 1}"), "\xEF\xBF\xBD[2J");
}

static void write_file(const char *path, const char *text)
{
    auto_err struct err e = {0};
    cr_assert_eq(file_write_atomic(path, text, strlen(text), 0600, &e), 0, "%s", err_msg(&e));
}

static void expect_read(const char *path, size_t n_profiles, const char *error)
{
    auto_err struct err e = {0};
    auto_plan_file struct plan_file f = {0};
    int rc = plan_file_read(path, &f, &e);
    cr_expect_eq(rc == 0, error == NULL, "%s", err_msg(&e));
    cr_expect_eq(json_object_size(f.profiles), n_profiles);
    if (error)
        cr_expect_str_eq(err_msg(&e), error);
}

Test(plan, a_folder_is_read_file_by_file_as_kubectl_reads_it)
{
    cr_assert_eq(mkdir("layouts", 0700), 0);
    expect_read("layouts", 0, "layouts: holds nothing");
    write_file("layouts/b.yaml", PROFILE("b", "{" MIG("3g.40gb: 2") "}"));
    write_file("layouts/a.yml", PROFILE("a", "{" MIG("7g.80gb: 1") "}"));
    write_file("layouts/notes.md", "# notes");
    expect_read("layouts", 2, NULL);
    write_file("layouts/c.json", "{\"kind\": \"Pod\"}");
    expect_read("layouts", 0,
                "layouts/c.json, document 1: Pod is none of GPUProfile, MIGConfig and Node");
}

Test(plan, an_address_is_not_read_and_the_error_says_what_to_do)
{
    expect_read("https://example.org/p.yaml", 0,
                "https://example.org/p.yaml: addresses are not read: curl -fsSL "
                "https://example.org/p.yaml | kubectl cleave plan -f -");
}

Test(plan, what_may_not_be_read_is_said)
{
    desk_node("n1", 1);
    desk_forbid("gpuprofiles");
    auto_desk_answer struct desk_answer a =
        desk_plan(OUTPUT_TEXT, PROFILE("p", "{" MIG("7g.80gb: 1") "}"));
    cr_expect_eq(a.code, 2);
    cr_expect(strstr(a.err, "Warning: gpuprofiles cannot be read"), "got: %s", a.err);
    desk_forbid("nodes");
    expect_refusal(PROFILE("p", "{" MIG("7g.80gb: 1") "}"),
                   "Error from server (Forbidden): nodes is forbidden");
    desk_forbid("devices");
    expect_refusal(PROFILE("p", "{" MIG("7g.80gb: 1") "}"),
                   "Error from server (Forbidden): devices is forbidden");
}

Test(plan, a_device_that_cannot_be_read_is_a_note_and_hides_no_other)
{
    desk_node("n1", 1);
    desk_node("n2", 1);
    desk_patch(&resource_devices, "n1", "status", "{status: {devices: 7}}");
    auto_desk_answer struct desk_answer a =
        desk_plan(OUTPUT_TEXT, PROFILE("p", "{" MIG("7g.80gb: 1") "}"));
    cr_expect_eq(a.code, 2);
    cr_expect(strstr(a.out, "the Device's status cannot be read"), "got:\n%s", a.out);
    cr_expect(strstr(a.out, "comes   7g.80gb@0"), "got:\n%s", a.out);
}

Test(plan, names_of_pods_never_command_the_terminal)
{
    desk_node("n1", 1);
    desk_hold("n1", 0, "ml", "x\x1b[2J");
    auto_desk_answer struct desk_answer a =
        desk_plan(OUTPUT_TEXT, PROFILE("p", "{" MIG("7g.80gb: 1") "}"));
    cr_expect_not(strchr(a.out, '\x1b'));
    cr_expect(strstr(a.out, "ml/x\xEF\xBF\xBD[2J"), "got:\n%s", a.out);
}
