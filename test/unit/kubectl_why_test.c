/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <string.h>

#include "base/jx.h"
#include "base/sb.h"
#include "base/xalloc.h"
#include "base/yaml.h"

#include "api/label_value.h"
#include "kubectl/pod_nodes.h"
#include "kubectl_support.h"
#include "service/resources.h"

TestSuite(why, .init = desk_set_up, .fini = desk_tear_down);

#define ASKS(resource, count)                                                                      \
    "{containers: [{name: c, resources: {limits: {" resource ": " #count "}}}]}"
#define TWO_G "nvidia.com/mig-2g.20gb"

static void offer(const char *node, const char *allocatable)
{
    char yaml[200];
    (void)snprintf(yaml, sizeof(yaml), "{status: {allocatable: {%s}}}", allocatable);
    desk_patch(&resource_nodes, node, "status", yaml);
}

/* The pod p asks for so many, the node n1 is the first and offers none: rest is what follows of the
 * answer. */
static void expect_none_offered(int count, const char *resource, const char *rest)
{
    auto_free char *spec =
        xasprintf("{containers: [{name: c, resources: {limits: {%s: %d}}}]}", resource, count);
    auto_free char *text =
        xasprintf("ns/p asks for %d %s\nNo node offers %s.\n  n1  offers none\n%s", count, resource,
                  resource, rest);
    desk_pod("p", NULL, spec);
    desk_expect_why(text);
}

Test(why, what_nobody_offers_is_said_with_the_layout_that_would)
{
    desk_node("n1", 1);
    desk_cut("n1", 0, "1g.10gb@0=ml/a 1g.10gb@1 3g.40gb@4=ml/b");
    expect_none_offered(1, TWO_G,
                        "The smallest change: NVIDIA GPU 0 of node n1 as\n"
                        "    2g.20gb: 1, 1g.10gb: 2, 3g.40gb: 1\n"
                        "  2g.20gb@2 is made; nothing that stands goes.\n");
}

Test(why, a_free_partition_gives_way_before_a_card_changes_its_mode)
{
    desk_node("n1", 2);
    desk_cut("n1", 0, "3g.40gb@0=ml/a 3g.40gb@4");
    expect_none_offered(1, TWO_G,
                        "The smallest change: NVIDIA GPU 0 of node n1 as\n"
                        "    2g.20gb: 1, 3g.40gb: 1\n"
                        "  2g.20gb@4 is made; 1 part that nobody uses goes.\n");
}

Test(why, the_change_is_the_one_that_destroys_fewest_not_the_one_that_gives_up_fewest)
{
    desk_node("n1", 1);
    desk_cut("n1", 0, "2g.20gb@0 1g.10gb@2 1g.10gb@3 3g.40gb@4");
    expect_none_offered(1, "nvidia.com/mig-4g.40gb",
                        "The smallest change: NVIDIA GPU 0 of node n1 as\n"
                        "    4g.40gb: 1, 3g.40gb: 1\n"
                        "  4g.40gb@0 is made; 3 parts that nobody uses go.\n");
}

Test(why, what_is_offered_and_held_is_said_with_who_holds_it)
{
    desk_node("n1", 1);
    desk_cut("n1", 0, "2g.20gb@0=ns/a 2g.20gb@2=ns/b 3g.40gb@4=ns/c");
    offer("n1", TWO_G ": '2'");
    desk_pod("a", "n1", ASKS(TWO_G, 1));
    desk_pod("b", "n1", ASKS(TWO_G, 1));
    desk_pod("p", NULL, ASKS(TWO_G, 1));
    desk_expect_why(
        "ns/p asks for 1 nvidia.com/mig-2g.20gb\n"
        "No node that the pod may have has 1 free of nvidia.com/mig-2g.20gb.\n"
        "  n1  offers 2, 0 free\n"
        "    held by  ns/a, ns/b\n"
        "No new layout of a single card gives the pod one while all other pods stay.\n");
}

Test(why, pods_that_ask_for_more_than_there_are_numbers_take_all)
{
    desk_node("n1", 0);
    offer("n1", TWO_G ": '2'");
    desk_pod("a", "n1", ASKS(TWO_G, 9223372036854775807));
    desk_pod("b", "n1", ASKS(TWO_G, 9223372036854775807));
    desk_pod("p", NULL, ASKS(TWO_G, 1));
    desk_expect_why("ns/p asks for 1 nvidia.com/mig-2g.20gb\n"
                    "No node that the pod may have has 1 free of nvidia.com/mig-2g.20gb.\n"
                    "  n1  offers 2, 0 free\n"
                    "    held by  ns/a, ns/b\n");
}

Test(why, nodes_that_the_pod_may_not_have_say_so)
{
    desk_node("n1", 0);
    desk_node("n2", 0);
    desk_node("n3", 0);
    desk_node("n4", 0);
    offer("n1", TWO_G ": '1'");
    offer("n2", TWO_G ": '1'");
    offer("n3", TWO_G ": '1'");
    offer("n4", TWO_G ": '1'");
    desk_patch(&resource_nodes, "n1", "status", "{status: {conditions: []}}");
    desk_patch(&resource_nodes, "n2", NULL, "{spec: {unschedulable: true}}");
    desk_patch(&resource_nodes, "n3", NULL,
               "{spec: {taints: [{key: team, value: b, effect: NoSchedule}]}}");
    desk_pod("p", NULL,
             "{nodeSelector: {pool: b}, containers: [{name: c, resources: {limits: {" TWO_G
             ": 1}}}]}");
    desk_expect_why(
        "ns/p asks for 1 nvidia.com/mig-2g.20gb\n"
        "No node that the pod may have offers nvidia.com/mig-2g.20gb.\n"
        "  n1  offers 1, 1 free; the node is not Ready\n"
        "  n2  offers 1, 1 free; the node is cordoned\n"
        "  n3  offers 1, 1 free; the pod does not tolerate the taint team=b:NoSchedule\n"
        "  n4  offers 1, 1 free; the pod's nodeSelector asks for pool=b\n");
}

Test(why, tolerations_are_kept)
{
    desk_node("n1", 0);
    offer("n1", TWO_G ": '1'");
    desk_patch(&resource_nodes, "n1", NULL,
               "{spec: {taints: [{key: team, value: b, effect: NoSchedule}]}}");
    desk_pod("p", NULL,
             "{tolerations: [{key: team, operator: Exists}], containers: [{name: c, resources: "
             "{limits: {" TWO_G ": 1}}}]}");
    desk_expect_why(
        "ns/p asks for 1 nvidia.com/mig-2g.20gb\n"
        "nvidia.com/mig-2g.20gb is free: something other than GPUs keeps the pod waiting.\n"
        "  n1  offers 1, 1 free\n");
}

Test(why, a_node_with_cards_that_the_pod_may_not_have_is_named_though_it_offers_none)
{
    desk_node("n1", 1);
    desk_node("n2", 1);
    desk_node("n3", 0);
    desk_patch(&resource_nodes, "n1", NULL, "{spec: {unschedulable: true}}");
    desk_patch(&resource_nodes, "n2", NULL,
               "{spec: {taints: [{key: team, value: b, effect: NoSchedule}]}}");
    desk_patch(&resource_nodes, "n3", NULL, "{spec: {unschedulable: true}}");
    desk_pod("p", NULL, ASKS(TWO_G, 1));
    desk_expect_why("ns/p asks for 1 nvidia.com/mig-2g.20gb\n"
                    "No node offers nvidia.com/mig-2g.20gb.\n"
                    "  n1  offers none; the node is cordoned\n"
                    "  n2  offers none; the pod does not tolerate the taint team=b:NoSchedule\n"
                    "2 nodes with cards are left out, each for the reason behind its name.\n");
}

static void expect_tolerated(bool tolerated, const char *tolerations)
{
    static unsigned n;
    auto_free char *name = xasprintf("t%u", n++);
    auto_free char *spec =
        xasprintf("{tolerations: [%s], containers: [{name: c, resources: {limits: {" TWO_G
                  ": 1}}}]}",
                  tolerations);
    desk_pod(name, NULL, spec);
    auto_desk_answer struct desk_answer a = desk_why(OUTPUT_TEXT, name);
    cr_expect_eq(!strstr(a.out, "does not tolerate"), tolerated, "%s: %s", tolerations, a.out);
}

Test(why, a_toleration_is_kept_as_kubernetes_keeps_it)
{
    desk_node("n1", 1);
    desk_patch(&resource_nodes, "n1", NULL,
               "{spec: {taints: [{key: team, value: b, effect: NoSchedule}]}}");
    expect_tolerated(true, "{operator: Exists}");
    expect_tolerated(true, "{operator: Exists, effect: NoSchedule}");
    expect_tolerated(true, "{key: team, operator: Exists}");
    expect_tolerated(true, "{key: team, value: b}");
    expect_tolerated(true, "{key: team, operator: Equal, value: b, effect: NoSchedule}");
    expect_tolerated(true,
                     "{key: a, operator: Exists}, {key: team, value: a}, {key: team, value: b}");
    expect_tolerated(false, "");
    expect_tolerated(false, "{value: b}");
    expect_tolerated(false, "{operator: Equal}");
    expect_tolerated(false, "{key: team}");
    expect_tolerated(false, "{key: team, operator: Lt, value: b}");
    expect_tolerated(false, "{operator: Exists, effect: NoExecute}");
    expect_tolerated(false, "{key: teams, operator: Exists}");
}

Test(why, thousands_of_tolerations_are_read_once)
{
    auto_sb struct sb text = SB_INIT(1 << 20);
    for (unsigned i = 0; i < 4000; i++)
        sb_addf(&text, "{key: team, value: x%u}, ", i);
    sb_add(&text, "{key: team, value: b}");
    auto_json json_t *pod = NULL;
    auto_free char *yaml = xasprintf("{spec: {tolerations: [%s]}}", sb_str(&text));
    cr_assert_eq(yaml_load(yaml, strlen(yaml), &pod, NULL), 0);
    struct pod_nodes may;
    pod_nodes_read(pod, &may);
    cr_expect_eq(may.n, 4001);
    for (unsigned i = 0; i < 1000; i++) {
        auto_json json_t *node =
            json_pack("{s:{s:[{s:s, s:s}]}, s:{s:[{s:s, s:s, s:s}, {s:s, s:s, s:s}]}}", "status",
                      "conditions", "type", "Ready", "status", "True", "spec", "taints", "key",
                      "team", "value", "b", "effect", "NoSchedule", "key", "gone", "value", "b",
                      "effect", "NoSchedule");
        auto_free char *refusal = pod_nodes_refusal(&may, node);
        cr_assert_str_eq(refusal, "the pod does not tolerate the taint gone=b:NoSchedule");
    }
    pod_nodes_done(&may);
}

Test(why, where_a_label_governs_the_card_the_commands_make_a_layout_for_it)
{
    desk_node("n1", 4);
    desk_cut("n1", 0, "1g.10gb@0=ml/a 1g.10gb@1 3g.40gb@4=ml/b");
    desk_cut("n1", 1, "7g.80gb@0=ml/c");
    desk_hold("n1", 2, "ml", "d");
    desk_cut("n1", 3, "7g.80gb@0=ml/e");
    desk_patch(&resource_devices, "n1", NULL,
               "{spec: {devices: ["
               "{uuid: GPU-n1-0, mode: mig, source: {kind: NodeLabel, name: all-balanced, "
               "generation: 0}, mig: {profiles: [{profile: 1g.10gb, count: 2}, {profile: 3g.40gb, "
               "count: 1}]}},"
               "{uuid: GPU-n1-1, mode: mig, source: {kind: NodeLabel, name: all-balanced, "
               "generation: 0}, mig: {profiles: [{profile: 7g.80gb, count: 1}]}},"
               "{uuid: GPU-n1-3, mode: mig, source: {kind: NodeLabel, name: all-balanced, "
               "generation: 0}, mig: {profiles: [{profile: 7g.80gb, count: 1}]}},"
               "{uuid: GPU-n1-2, mode: native, source: {kind: GPUProfile, name: whole, "
               "generation: 1}}]}}");
    expect_none_offered(
        1, TWO_G,
        "The smallest change: NVIDIA GPU 0 of node n1, which the label "
        "nvidia.com/mig.config=all-balanced governs, as\n"
        "    2g.20gb: 1, 1g.10gb: 2, 3g.40gb: 1\n"
        "  2g.20gb@2 is made; nothing that stands goes.\n"
        "The label beats every profile. These commands give it such a layout:\n"
        "kubectl apply -f - <<'EOF'\n"
        "apiVersion: gpu.cleave.dev/v1alpha1\n"
        "kind: MIGConfig\n"
        "metadata: {name: \"n1\"}\n"
        "spec:\n"
        "  devices:\n"
        "  - {\"indices\": [0], \"migEnabled\": true, \"migDevices\": {\"2g.20gb\": 1, "
        "\"1g.10gb\": 2, \"3g.40gb\": 1}}\n"
        "  - {\"indices\": [1, 3], \"migEnabled\": true, \"migDevices\": {\"7g.80gb\": "
        "1}}\n"
        "EOF\n"
        "kubectl label node n1 nvidia.com/mig.config=n1 --overwrite\n");
    auto_desk_answer struct desk_answer a = desk_why(OUTPUT_JSON, "p");
    auto_json json_t *doc = json_loads(a.out, 0, NULL);
    const json_t *label = JX_AT(json_array_get(JX_AT(doc, "resources"), 0), "change", "label");
    cr_expect_str_eq(JX_STR_AT(label, "key"), "nvidia.com/mig.config");
    cr_expect_str_eq(JX_STR_AT(label, "value"), "n1");
    cr_expect_str_eq(JX_STR_AT(label, "config", "kind"), "MIGConfig");
}

/* The name of the MIGConfig that why makes for a node whose own is too long for a label's value.
 * Caller frees. */
static char *config_name_for(const char *node)
{
    desk_node(node, 1);
    desk_cut(node, 0, "7g.80gb@0");
    auto_free char *spec = xasprintf(
        "{spec: {devices: [{uuid: GPU-%s-0, mode: mig, source: {kind: NodeLabel, name: "
        "all-balanced, generation: 0}, mig: {profiles: [{profile: 7g.80gb, count: 1}]}}]}}",
        node);
    desk_patch(&resource_devices, node, NULL, spec);
    desk_pod("p", NULL, ASKS(TWO_G, 1));
    auto_desk_answer struct desk_answer a = desk_why(OUTPUT_JSON, "p");
    auto_json json_t *doc = json_loads(a.out, 0, NULL);
    const json_t *label = JX_AT(json_array_get(JX_AT(doc, "resources"), 0), "change", "label");
    const char *value = JX_STR_AT(label, "value");
    cr_assert_not_null(value);
    cr_expect_str_eq(value, JX_STR_AT(label, "config", "metadata", "name"));
    return xstrdup(value);
}

#define LONG_NAME "gpu-worker-of-the-third-hall-on-the-left-side-in-row-fifteen."

Test(why, layouts_for_nodes_whose_names_begin_alike_have_names_of_their_own)
{
    auto_free char *one = config_name_for(LONG_NAME "one.example");
    desk_tear_down();
    desk_set_up();
    auto_free char *two = config_name_for(LONG_NAME "two.example");
    cr_expect(label_value_legal(one) && strlen(one) == LABEL_VALUE_MAX, "%s", one);
    cr_expect(label_value_legal(two), "%s", two);
    cr_expect_str_neq(one, two);
}

static void expect_verdict(const char *resource, const char *text)
{
    auto_free char *spec =
        xasprintf("{containers: [{name: c, resources: {limits: {%s: 1}}}]}", resource);
    static unsigned n;
    auto_free char *name = xasprintf("w%u", n++);
    desk_pod(name, NULL, spec);
    auto_desk_answer struct desk_answer a = desk_why(OUTPUT_TEXT, name);
    const char *second = strchr(a.out, '\n') + 1;
    cr_expect_str_eq(second, text, "got:\n%s", a.out);
}

Test(why, a_name_that_no_card_can_give_is_said_with_those_that_look_like_it)
{
    desk_node("n1", 1);
    expect_verdict("nvidia.com/gpus", "No node offers nvidia.com/gpus: no card here gives anything "
                                      "of that name.\n"
                                      "The nearest names here: nvidia.com/gpu\n");
    expect_verdict("nvidia.com/mig-1g10gb",
                   "No node offers nvidia.com/mig-1g10gb: no card here gives anything of that "
                   "name.\n"
                   "The nearest names here: nvidia.com/mig-1g.10gb, nvidia.com/mig-1g.20gb, "
                   "nvidia.com/mig-2g.20gb\n");
    expect_verdict("nvidia.com/mig-9g.99gb",
                   "No node offers nvidia.com/mig-9g.99gb: no card here has the profile 9g.99gb.\n"
                   "The nearest names here: nvidia.com/mig-1g.10gb, nvidia.com/mig-1g.20gb, "
                   "nvidia.com/mig-2g.20gb\n");
    expect_verdict("metax-tech.com/gpu", "No node offers metax-tech.com/gpu: no card here gives "
                                         "anything of that name.\n");
}

Test(why, a_name_that_a_card_could_give_is_no_wrong_one)
{
    desk_node("n1", 1);
    desk_hold("n1", 0, "ml", "a");
    expect_verdict("nvidia.com/mig-1c.3g.40gb",
                   "No node offers nvidia.com/mig-1c.3g.40gb.\n"
                   "  n1  offers none\n"
                   "No new layout of a single card gives the pod one while all other pods stay.\n");
    expect_verdict("metax-tech.com/sgpu-small",
                   "No node offers metax-tech.com/sgpu-small.\n"
                   "  n1  offers none\n"
                   "No new layout of a single card gives the pod one while all other pods stay.\n");
    expect_verdict("nvidia.com/gpu.shared", "No node offers nvidia.com/gpu.shared.\n"
                                            "  n1  offers none\n");
}

Test(why, a_whole_card_may_be_made_of_one_that_nobody_uses)
{
    desk_node("n1", 2);
    desk_cut("n1", 0, "1g.10gb@0=ml/a");
    desk_cut("n1", 1, "1g.10gb@0");
    expect_none_offered(1, "nvidia.com/gpu",
                        "The smallest change: NVIDIA GPU 1 of node n1 as\n"
                        "    native\n"
                        "  1 part that nobody uses goes, and the card's mode changes.\n");
}

Test(why, what_is_free_on_a_node_counts_for_what_it_asks_for_together)
{
    desk_node("n1", 1);
    desk_cut("n1", 0, "2g.20gb@0 3g.40gb@4=ml/a");
    offer("n1", TWO_G ": '1'");
    desk_pod("p", NULL, ASKS(TWO_G, 2));
    desk_expect_why("ns/p asks for 2 nvidia.com/mig-2g.20gb\n"
                    "No node that the pod may have has 2 free of nvidia.com/mig-2g.20gb.\n"
                    "  n1  offers 1, 1 free\n"
                    "The smallest change: NVIDIA GPU 0 of node n1 as\n"
                    "    2g.20gb: 2, 3g.40gb: 1\n"
                    "  2g.20gb@2 is made; nothing that stands goes.\n");
}

Test(why, several_partitions_may_come_from_several_cards)
{
    desk_node("n1", 3);
    desk_cut("n1", 0, "3g.40gb@0=ml/a");
    desk_cut("n1", 1, "3g.40gb@0=ml/b 1g.10gb@4 1g.10gb@5");
    expect_none_offered(2, "nvidia.com/mig-3g.40gb",
                        "The smallest change: 2 cards of node n1\n"
                        "  NVIDIA GPU 0 as\n"
                        "    3g.40gb: 2\n"
                        "  3g.40gb@4 is made; nothing that stands goes.\n"
                        "  NVIDIA GPU 1 as\n"
                        "    3g.40gb: 2\n"
                        "  3g.40gb@4 is made; 2 parts that nobody uses go.\n");
}

Test(why, several_whole_cards_are_made_of_those_that_nobody_uses)
{
    desk_node("n1", 3);
    desk_node("n2", 1);
    desk_cut("n1", 0, "1g.10gb@0=ml/a");
    desk_cut("n1", 1, "1g.10gb@0");
    desk_cut("n1", 2, "");
    expect_none_offered(2, "nvidia.com/gpu",
                        "  n2  offers none\n"
                        "The smallest change: 2 cards of node n1\n"
                        "  NVIDIA GPU 1 as\n"
                        "    native\n"
                        "  1 part that nobody uses goes, and the card's mode changes.\n"
                        "  NVIDIA GPU 2 as\n"
                        "    native\n"
                        "  nothing that stands goes, and the card's mode changes.\n");
}

Test(why, what_no_node_can_give_together_is_said)
{
    desk_node("n1", 1);
    desk_node("n2", 1);
    expect_none_offered(
        2, "nvidia.com/mig-7g.80gb",
        "  n2  offers none\n"
        "No new layouts of one node's cards give the pod all 2 while all other pods stay.\n");
}

Test(why, more_than_is_looked_for_is_said)
{
    desk_node("n1", 1);
    desk_pod("p", NULL, ASKS(TWO_G, 129));
    auto_desk_answer struct desk_answer a = desk_why(OUTPUT_TEXT, "p");
    cr_expect(strstr(a.out, "No new layouts of one node's cards give the pod all 129 while all "
                            "other pods stay, among those that were looked at: there are more.\n"),
              "got:\n%s", a.out);
}

Test(why, nothing_in_use_is_ever_given_up)
{
    desk_node("n1", 1);
    desk_cut("n1", 0, "7g.80gb@0=ml/a");
    desk_pod("p", NULL, ASKS(TWO_G, 1));
    auto_desk_answer struct desk_answer a = desk_why(OUTPUT_TEXT, "p");
    cr_expect(strstr(a.out, "No new layout of a single card gives the pod one"), "got:\n%s", a.out);
}

Test(why, what_needs_no_answer_has_a_short_one)
{
    desk_pod("p", "n1", ASKS(TWO_G, 1));
    desk_expect_why("ns/p: it is bound to node n1\n");
    desk_pod("q", NULL, ASKS("cpu", 1));
    auto_desk_answer struct desk_answer q = desk_why(OUTPUT_TEXT, "q");
    cr_expect_str_eq(q.out,
                     "ns/q: it asks for no GPU, under none of the names that Cleave offers\n");
    desk_pod("r", NULL, ASKS("amd.com/gpu", 1));
    auto_desk_answer struct desk_answer r = desk_why(OUTPUT_TEXT, "r");
    cr_expect_str_eq(r.out, "ns/r: it asks for no GPU, under none of the names that Cleave offers, "
                            "but for amd.com/gpu\n");
    auto_desk_answer struct desk_answer none = desk_why(OUTPUT_TEXT, "none");
    cr_expect_eq(none.code, 1);
    cr_expect_str_eq(none.err, "error: pods \"none\" not found in namespace ns\n");
    auto_desk_answer struct desk_answer empty = desk_why(OUTPUT_TEXT, "");
    cr_expect_eq(empty.code, 1);
    cr_expect_str_eq(empty.err, "error: the name of the pod is empty\n");
}

Test(why, init_containers_count_once_and_sidecars_all_the_time)
{
    desk_node("n1", 0);
    desk_pod("p", NULL,
             "{initContainers: [{name: i, resources: {limits: {" TWO_G ": 3}}},"
             " {name: s, restartPolicy: Always, resources: {limits: {" TWO_G ": 1}}}],"
             " containers: [{name: c, resources: {limits: {" TWO_G ": '1'}}}]}");
    auto_desk_answer struct desk_answer a = desk_why(OUTPUT_TEXT, "p");
    cr_expect(strstr(a.out, "ns/p asks for 4 nvidia.com/mig-2g.20gb"), "got:\n%s", a.out);
}

Test(why, what_may_not_be_read_is_said)
{
    desk_node("n1", 1);
    desk_pod("p", NULL, ASKS(TWO_G, 1));
    desk_forbid("devices");
    auto_desk_answer struct desk_answer a = desk_why(OUTPUT_TEXT, "p");
    cr_expect_eq(a.code, 0);
    cr_expect(strstr(a.err, "Warning: devices cannot be read"), "got: %s", a.err);
    desk_forbid("nodes");
    auto_desk_answer struct desk_answer none = desk_why(OUTPUT_TEXT, "p");
    cr_expect_eq(none.code, 1);
    cr_expect(strstr(none.err, "Error from server (Forbidden)"), "got: %s", none.err);
}

Test(why, the_schedulers_words_are_told_and_never_command_the_terminal)
{
    desk_node("n1", 1);
    desk_pod("p", NULL, ASKS(TWO_G, 1));
    desk_pod_status("p", "{conditions: [{type: PodScheduled, status: 'False',"
                         " message: \"0/1 nodes\\e[2J\"}]}");
    auto_desk_answer struct desk_answer a = desk_why(OUTPUT_TEXT, "p");
    cr_expect(strstr(a.out, "kube-scheduler says: 0/1 nodes\xEF\xBF\xBD[2J\n"), "got:\n%s", a.out);
}

Test(why, a_scheduler_of_another_name_that_says_nothing_is_asked_after)
{
    desk_node("n1", 0);
    desk_pod("p", NULL,
             "{schedulerName: nobody, containers: [{name: c, resources: {limits: {" TWO_G
             ": 1}}}]}");
    auto_desk_answer struct desk_answer a = desk_why(OUTPUT_TEXT, "p");
    cr_expect(strstr(a.out, "Its spec.schedulerName is nobody, which has said nothing of it: does "
                            "that scheduler run?\n"),
              "got:\n%s", a.out);
}

Test(why, a_device_that_no_agent_wrote_takes_no_time)
{
    desk_node("n1", 1);
    desk_cut("n1", 0,
             "1g.10gb@0 1g.10gb@1 1g.10gb@2 1g.10gb@3 1g.10gb@4 1g.10gb@5 1g.10gb@6 1g.10gb@7"
             " 1g.10gb@8 1g.10gb@9 1g.10gb@10 1g.10gb@11 1g.10gb@12 1g.10gb@13 1g.10gb@14");
    desk_pod("p", NULL, ASKS(TWO_G, 1));
    auto_desk_answer struct desk_answer a = desk_why(OUTPUT_TEXT, "p");
    cr_expect_eq(a.code, 0);
}

Test(why, of_a_pod_that_asks_for_thousands_of_things_some_are_looked_at)
{
    auto_sb struct sb limits = SB_INIT(1 << 20);
    for (unsigned i = 0; i < 2000; i++)
        sb_addf(&limits, "nvidia.com/r%u: 1, ", i);
    auto_free char *spec =
        xasprintf("{containers: [{name: c, resources: {limits: {%s}}}]}", sb_str(&limits));
    desk_node("n1", 1);
    desk_pod("other", "n1", spec);
    desk_pod("p", NULL, spec);
    auto_desk_answer struct desk_answer a = desk_why(OUTPUT_JSON, "p");
    auto_json json_t *doc = json_loads(a.out, 0, NULL);
    cr_expect_eq(json_array_size(JX_AT(doc, "resources")), 32);
    cr_expect_str_eq(a.err, "Warning: the pod asks for more than 32 of the vendors' resources: "
                            "the others are passed over\n");
}

Test(why, json_has_the_change)
{
    desk_node("n1", 1);
    desk_pod("p", NULL, ASKS(TWO_G, 1));
    auto_desk_answer struct desk_answer a = desk_why(OUTPUT_JSON, "p");
    auto_json json_t *doc = json_loads(a.out, 0, NULL);
    const json_t *one = json_array_get(JX_AT(doc, "resources"), 0);
    const json_t *card = json_array_get(JX_AT(one, "change", "cards"), 0);
    cr_expect_str_eq(JX_STR_AT(one, "change", "node"), "n1");
    cr_expect_str_eq(JX_STR_AT(card, "layout"), "2g.20gb: 1");
    cr_expect_str_eq(JX_STR_AT(card, "makes"), "2g.20gb@4");
    cr_expect(json_is_true(JX_AT(card, "modeChanges")));
    cr_expect_null(JX_AT(one, "incomplete"));
}
