/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <string.h>

#include "base/rng.h"
#include "base/sb.h"
#include "base/xalloc.h"

#include "api/koordinator.h"
#include "cluster_support.h"
#include "service/resources.h"

/*
 * Whatever order things happen in: once people leave the cluster alone and its agents work, the
 * controller comes to rest, holds nothing back, and one that starts anew finds nothing to do.
 */

enum { NODES = 4, ACTS = 25, SEEDS = 6, ROUNDS = 12, END_BYTES = 16 * 1024 };

static struct cluster c;
static bool is_up[NODES];

static const char *const nodes[NODES] = {"n1", "n2", "n3", "n4"};

#define PROFILE(name, rest)                                                                        \
    "apiVersion: gpu.cleave.dev/v1alpha1\n"                                                        \
    "kind: GPUProfile\n"                                                                           \
    "metadata: {name: " name "}\n"                                                                 \
    "spec:\n"                                                                                      \
    "  nodeSelector: {matchLabels: {pool: a}}\n" rest

static const char *const profiles[] = {
    PROFILE("p",
            "  devices: [{selector: {indices: [0]}, mode: mig, mig: {profiles: {3g.40gb: 2}}}]\n"
            "  rollout: {maxUnavailable: 1}\n"),
    PROFILE("p", "  devices: [{mode: mig, mig: {profiles: {1g.10gb: 7}}}]\n"
                 "  rollout: {maxUnavailable: 2}\n"),
    PROFILE("p", "  devices: [{mode: mig, mig: {config: mine}}]\n"
                 "  paused: true\n"),
    PROFILE("q", "  devices: [{selector: {indices: [1]}, mode: native}]\n"
                 "  priority: 5\n"),
    PROFILE("q",
            "  devices: [{selector: {indices: [1]}, mode: mig, mig: {profiles: {7g.80gb: 2}}}]\n"
            "  rollout: {maxUnavailable: 50%}\n"),
    PROFILE("r", "  devices: [{mode: mig, mig: {profiles: {2g.20gb: 3}}}]\n"
                 "  rollout: {maxUnavailable: 1}\n"),
    "apiVersion: gpu.cleave.dev/v1alpha1\n"
    "kind: MIGConfig\n"
    "metadata: {name: mine}\n"
    "spec: {devices: [{migEnabled: true, migDevices: {1g.10gb: 3}}]}\n",
};

static const char *const labels[] = {"all-1g.10gb", "mine", "nothing-like-it", "all-disabled"};

static void remove_if_there(const struct kc_resource *res, const char *name)
{
    const struct kc_target t = {.res = res, .name = name};
    (void)!kc_remove(c.api, c.scope, &t, /* if_uid= */ NULL, /* e= */ NULL);
}

static void come_or_go(size_t i)
{
    if (is_up[i]) {
        cluster_remove(&c, &resource_nodes, nodes[i]);
        remove_if_there(&resource_devices, nodes[i]); /* unless it went with its Node */
    } else {
        cluster_add_node(&c, nodes[i], 2);
    }
    is_up[i] = !is_up[i];
}

static void act(struct rng *rng)
{
    size_t i = rng_below(rng, NODES);
    switch (rng_below(rng, 14)) {
    case 0:
    case 1:
    case 2:
        cluster_apply(&c, profiles[rng_below(rng, ARRAY_LEN(profiles))]);
        break;
    case 3:
        remove_if_there(&resource_gpuprofiles, rng_below(rng, 2) ? "p" : "q");
        break;
    case 4:
        remove_if_there(&resource_migconfigs, "mine");
        break;
    case 5:
        come_or_go(i);
        break;
    case 6:
        if (is_up[i])
            cluster_label(&c, nodes[i], "nvidia.com/mig.config",
                          rng_below(rng, 3) ? labels[rng_below(rng, ARRAY_LEN(labels))] : NULL);
        break;
    case 7:
        if (is_up[i])
            cluster_label(&c, nodes[i], "pool", rng_below(rng, 2) ? "a" : "b");
        break;
    case 8:
        if (is_up[i])
            cluster_agent_fails(&c, nodes[i], rng_below(rng, 2) ? "RolledBack" : "InUse");
        break;
    case 9:
        cluster_restart(&c);
        break;
    case 10:
        remove_if_there(&resource_koordinator_devices, nodes[i]);
        break;
    case 11:
        if (rng_below(rng, 2))
            cluster_install_koordinator(&c);
        else
            remove_if_there(&resource_crds, KOORDINATOR_CRD);
        break;
    default:
        if (is_up[i])
            cluster_agent(&c, nodes[i]);
    }
    if (rng_below(rng, 2))
        cluster_settle(&c);
}

static char *end_state(void)
{
    auto_sb struct sb text = SB_INIT(END_BYTES);
    for (size_t i = 0; i < NODES; i++) {
        if (!is_up[i])
            continue;
        auto_free char *spec = cluster_spec(&c, nodes[i]);
        auto_free char *state = cluster_label_of(&c, nodes[i], "nvidia.com/mig.config.state");
        auto_free char *mirror = cluster_mirror(&c, nodes[i]);
        sb_addf(&text, "%s: %s (%s) %s\n", nodes[i], spec, state, mirror);
    }
    static const char *const names[] = {"p", "q", "r"};
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        const struct kc_target t = {.res = &resource_gpuprofiles, .name = names[i]};
        if (kc_get(c.api, c.scope, &t, NULL, NULL) < 0)
            continue;
        auto_free char *profile = cluster_profile(&c, names[i]);
        sb_addf(&text, "%s: %s\n", names[i], profile);
    }
    return sb_take(&text);
}

static void let_it_rest(void)
{
    for (int round = 0; round < ROUNDS; round++) {
        cluster_settle(&c);
        for (size_t i = 0; i < NODES; i++)
            if (is_up[i])
                cluster_agent(&c, nodes[i]);
    }
    cluster_settle(&c);
}

Test(chaos, whatever_happened_it_comes_to_rest_where_a_new_start_would)
{
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        struct rng rng;
        rng_init(&rng, seed);
        cluster_start(&c, /* plan= */ NULL);
        memset(is_up, 0, sizeof(is_up));
        cluster_install_koordinator(&c);
        for (size_t i = 0; i < NODES; i++)
            come_or_go(i);
        for (int k = 0; k < ACTS; k++)
            act(&rng);
        let_it_rest();
        auto_free char *here = end_state();
        cr_assert_eq(cluster_nodes_in_change(&c), 0, "seed %d: %s", (int)seed, here);
        cluster_restart(&c);
        cluster_settle(&c);
        auto_free char *anew = end_state();
        cr_expect_eq(cluster_writes(&c), 0, "seed %d: %d writes:\n%s\nanew:\n%s", (int)seed,
                     cluster_writes(&c), here, anew);
        cr_expect_str_eq(anew, here, "seed %d:\n%s\nanew:\n%s", (int)seed, here, anew);
        cluster_stop(&c);
    }
}
