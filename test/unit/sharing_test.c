/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <string.h>

#include "base/yaml.h"

#include "nodeagent/offer/plugin_config_build.h"
#include "nodeagent/offer/share_card.h"
#include "nodeagent/offer/sharing.h"

/* A node with a file and a Device whose only card is GPU-a. */
struct node {
    struct plugin_config config;
    struct device_spec spec;
};

static void node_init(struct node *n, const char *file, const char *spec)
{
    auto_json json_t *doc = NULL;
    auto_err struct err e = {0};
    const struct plugin_config_source src = {.file_text = file, .file_bytes = strlen(file)};
    *n = (struct node){0};
    cr_assert_eq(plugin_config_build(&src, &n->config, &e), 0, "%s", err_msg(&e));
    cr_assert_eq(yaml_load(spec, strlen(spec), &doc, &e), 0, "%s", err_msg(&e));
    cr_assert_eq(device_spec_decode(doc, &n->spec, &e), 0, "%s", err_msg(&e));
}

static void node_done(struct node *n)
{
    plugin_config_done(&n->config);
    device_spec_done(&n->spec);
}

static const struct sharing_means serves = {.publisher = API_PUBLISHER_KUBELET};

static struct sharing_rules rules_of(const struct node *n)
{
    return (struct sharing_rules){&n->config, API_STRATEGY_MIXED, serves};
}

static struct sharing sharing_on(const struct node *n, const char *profile)
{
    const struct device_want *want = n->spec.n_devices ? &n->spec.devices[0] : NULL;
    const struct sharing_rules rules = rules_of(n);
    return sharing_of(&rules, "nvidia", want, profile);
}

#define SLICED                                                                                     \
    "flags: {migStrategy: single}\n"                                                               \
    "sharing: {timeSlicing: {renameByDefault: true, failRequestsGreaterThanOne: true, resources: " \
    "[{name: nvidia.com/gpu, replicas: 4}, {name: nvidia.com/mig-1g.10gb, replicas: 2}]}}\n"
#define SOURCE "source: {kind: GPUProfile, name: p, generation: 1}"

Test(sharing, without_a_device_the_configuration_decides)
{
    struct node n;
    node_init(&n, SLICED, "spec: {}");
    struct sharing s = sharing_on(&n, /* profile= */ NULL);
    cr_expect(s.kind == SHARING_TIME_SLICING && s.replicas == 4 && s.renamed && s.one_only);
    cr_expect_eq(sharing_on(&n, "1g.10gb").replicas, 2);
    cr_expect_eq(sharing_strategy(&n.config, &n.spec), API_STRATEGY_SINGLE);
    cr_expect_eq(sharing_strategy(&n.config, /* spec= */ NULL), API_STRATEGY_SINGLE);
    node_done(&n);
}

Test(sharing, what_the_configuration_does_not_name_is_not_shared)
{
    struct node n;
    node_init(&n, SLICED, "spec: {}");
    struct sharing s = sharing_on(&n, "3g.40gb");
    cr_expect(s.kind == SHARING_NONE && s.replicas == 1 && !s.renamed && !s.one_only);
    node_done(&n);
}

Test(sharing, a_card_that_a_source_governs_is_shared_as_that_says_even_not_at_all)
{
    struct node n;
    node_init(&n, SLICED,
              "spec: {" SOURCE ", migStrategy: mixed, devices: [{uuid: GPU-a, mode: native}]}");
    cr_expect_eq(sharing_on(&n, /* profile= */ NULL).replicas, 1);
    cr_expect_eq(sharing_strategy(&n.config, &n.spec), API_STRATEGY_MIXED);
    node_done(&n);
}

Test(sharing, a_device_without_a_source_leaves_the_rest_to_the_configuration)
{
    struct node n;
    node_init(&n, SLICED, "spec: {migStrategy: mixed, devices: [{uuid: GPU-a, mode: native}]}");
    cr_expect_eq(sharing_on(&n, /* profile= */ NULL).replicas, 4);
    cr_expect_eq(sharing_strategy(&n.config, &n.spec), API_STRATEGY_SINGLE);
    node_done(&n);
}

Test(sharing, a_configuration_that_says_no_strategy_changes_none)
{
    struct node n;
    node_init(&n, "version: v1", "spec: {migStrategy: single}");
    cr_expect_eq(sharing_strategy(&n.config, &n.spec), API_STRATEGY_SINGLE);
    cr_expect_eq(sharing_strategy(&n.config, /* spec= */ NULL), API_STRATEGY_MIXED);
    node_done(&n);
}

Test(sharing, partitions_under_single_are_the_resource_of_cards)
{
    struct node n;
    node_init(&n, SLICED, "spec: {}");
    struct sharing_rules rules = rules_of(&n);
    rules.strategy = API_STRATEGY_SINGLE;
    struct sharing s = sharing_of(&rules, "nvidia", /* want= */ NULL, "3g.40gb");
    cr_expect_eq(s.replicas, 4);
    node_done(&n);
}

Test(sharing, mps_of_a_device_is_told_from_time_slicing)
{
    struct node n;
    node_init(&n, SLICED,
              "spec: {devices: [{uuid: GPU-a, mode: native, sharing: {mps: {replicas: 6, "
              "failRequestsGreaterThanOne: true}}}]}");
    struct sharing s = sharing_on(&n, /* profile= */ NULL);
    cr_expect(s.kind == SHARING_MPS && s.replicas == 6 && !s.renamed && s.one_only);
    node_done(&n);
}

Test(sharing, mps_of_a_configuration_is_told_from_time_slicing)
{
    struct node n;
    node_init(&n, "sharing: {mps: {resources: [{name: nvidia.com/gpu, replicas: 4}]}}", "spec: {}");
    struct sharing s = sharing_on(&n, /* profile= */ NULL);
    cr_expect(s.kind == SHARING_MPS && s.replicas == 4 && s.one_only);
    node_done(&n);
}

Test(sharing, what_the_configuration_says_of_nvidias_cards_is_not_said_of_others)
{
    struct node n;
    node_init(&n, SLICED, "spec: {}");
    const struct sharing_rules rules = rules_of(&n);
    struct sharing s = sharing_of(&rules, "metax", /* want= */ NULL, /* profile= */ NULL);
    cr_expect(s.kind == SHARING_NONE && s.replicas == 1);
    node_done(&n);
}

#define MPS                                                                                        \
    "spec: {" SOURCE ", devices: [{uuid: GPU-a, mode: native, sharing: {mps: {replicas: 4}}}]}"

Test(sharing, mps_is_for_cards_that_have_it)
{
    struct node n;
    node_init(&n, "{}", MPS);
    const struct device_want *want = &n.spec.devices[0];
    const struct sharing_rules rules = rules_of(&n);
    cr_expect_eq(sharing_of(&rules, "nvidia", want, NULL).kind, SHARING_MPS);
    cr_expect_eq(sharing_of(&rules, "metax", want, NULL).kind, SHARING_NONE);
    cr_expect_null(sharing_refusal("nvidia", want, &serves, NULL));
    const char *reason = NULL;
    const char *why = sharing_refusal("metax", want, &serves, &reason);
    cr_expect(why && strstr(why, "NVIDIA"), "%s", why);
    cr_expect_str_eq(reason, "MPSUnsupported");
    node_done(&n);
}

#define SHARES                                                                                     \
    "spec: {" SOURCE ", devices: [{uuid: GPU-a, mode: native, sharing: {fractional: "              \
    "{maxShares: 20}}}]}"

Test(sharing, shares_are_no_replicas)
{
    struct node n;
    node_init(&n, SLICED, SHARES);
    struct sharing s = sharing_on(&n, /* profile= */ NULL);
    cr_expect(s.kind == SHARING_FRACTIONAL && s.replicas == 1 && s.shares == 20);
    cr_expect(!s.renamed && !s.one_only);
    cr_expect_eq(sharing_times(&s), 20);
    node_done(&n);
}

/* Until the change that ends them. */
Test(sharing, partitions_of_a_card_that_is_to_have_shares_are_not_shared)
{
    struct node n;
    node_init(&n, SLICED, SHARES);
    struct sharing s = sharing_on(&n, "1g.10gb");
    cr_expect(s.kind == SHARING_NONE && s.replicas == 1 && s.shares == 0);
    cr_expect_eq(sharing_times(&s), 1);
    node_done(&n);
}

Test(sharing, shares_are_for_cards_that_have_them)
{
    struct node n;
    node_init(&n, "{}", SHARES);
    const struct device_want *want = &n.spec.devices[0];
    const struct sharing_rules rules = rules_of(&n);
    cr_expect_eq(sharing_of(&rules, "metax", want, NULL).kind, SHARING_NONE);
    cr_expect_null(sharing_refusal("nvidia", want, &serves, NULL));
    const char *reason = NULL;
    const char *why = sharing_refusal("metax", want, &serves, &reason);
    cr_expect(why && strstr(why, "NVIDIA"), "%s", why);
    cr_expect_str_eq(reason, "FractionalUnsupported");
    node_done(&n);
}

/* A card whose shares ask for enforcement that the node does not have is shared by nobody. */
Test(sharing, shares_that_are_to_be_kept_by_what_the_node_has_not_are_refused)
{
    struct node n;
    node_init(&n, "{}",
              "spec: {" SOURCE ", devices: [{uuid: GPU-a, mode: native, sharing: {fractional: "
              "{maxShares: 20, enforcement: {memory: library}}}}]}");
    const struct device_want *want = &n.spec.devices[0];
    const struct sharing_rules rules = rules_of(&n);
    const char *reason = NULL;
    const char *why = sharing_refusal("nvidia", want, &serves, &reason);
    cr_expect(why && strstr(why, "enforcement.memory"), "%s", why);
    cr_expect_str_eq(reason, "EnforcementUnavailable");
    cr_expect_eq(sharing_of(&rules, "nvidia", want, NULL).kind, SHARING_NONE);
    cr_expect_not(share_pool_exists(&n.spec, &serves));
    const struct sharing_means limits = {API_PUBLISHER_KUBELET, {.library = true}};
    const struct sharing_rules limiting = {&n.config, API_STRATEGY_MIXED, limits};
    cr_expect_null(sharing_refusal("nvidia", want, &limits, NULL));
    cr_expect_eq(sharing_of(&limiting, "nvidia", want, NULL).kind, SHARING_FRACTIONAL);
    cr_expect(share_pool_exists(&n.spec, &limits));
    node_done(&n);
}

/* Of MPS nobody would start the daemons, and pods would share the card without limits; of shares
 * nobody would know whose is whose. */
static void expect_for_agents_that_serve_the_kubelet(const char *spec)
{
    static const struct {
        int publisher;
        const char *how;
    } cases[] = {{API_PUBLISHER_CONTROLLER, "runs with controller"},
                 {API_PUBLISHER_OTHER, "runs with none"}};
    struct node n;
    node_init(&n, "{}", spec);
    const struct device_want *want = &n.spec.devices[0];
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct sharing_rules rules = rules_of(&n);
        rules.means.publisher = cases[i].publisher;
        const struct sharing s = sharing_of(&rules, "nvidia", want, /* profile= */ NULL);
        cr_expect(s.kind == SHARING_NONE && s.replicas == 1 && s.shares == 0, "%s", cases[i].how);
        const char *why = sharing_refusal("nvidia", want, &rules.means, NULL);
        cr_assert_not_null(why, "%s", cases[i].how);
        cr_expect(strstr(why, "--resources=kubelet") && strstr(why, cases[i].how), "%s", why);
    }
    node_done(&n);
}

Test(sharing, mps_and_shares_are_for_agents_that_serve_the_kubelet)
{
    expect_for_agents_that_serve_the_kubelet(MPS);
    expect_for_agents_that_serve_the_kubelet(SHARES);
}

Test(sharing, time_slicing_needs_nobody_in_particular)
{
    struct node n;
    node_init(&n, "{}",
              "spec: {" SOURCE ", devices: [{uuid: GPU-a, mode: native, sharing: {timeSlicing: "
              "{replicas: 4}}}]}");
    for (int who = API_PUBLISHER_KUBELET; who <= API_PUBLISHER_OTHER; who++) {
        struct sharing_rules rules = rules_of(&n);
        rules.means.publisher = who;
        cr_expect_null(sharing_refusal("nvidia", &n.spec.devices[0], &rules.means, NULL));
        cr_expect_eq(sharing_of(&rules, "nvidia", &n.spec.devices[0], NULL).replicas, 4);
        cr_expect_null(sharing_refusal("nvidia", /* want= */ NULL, &rules.means, NULL));
    }
    node_done(&n);
}
