/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>

#include "base/jx.h"
#include "base/sb.h"
#include "base/xalloc.h"

#include "cluster_support.h"
#include "service/resources.h"

/*
 * Torture: one story in which everything happens is told again and again, with one write of the
 * controller's spoiled each time, the first, the second, … until there is none left to spoil. Every
 * telling must end as the undisturbed one.
 */
static struct cluster c;

enum { END_BYTES = 16384 };

static void agents(void)
{
    cluster_agent(&c, "n1");
    cluster_agent(&c, "n2");
    cluster_settle(&c);
}

static void tell_story(void)
{
    cluster_add_node(&c, "n1", 2);
    cluster_add_node(&c, "n2", 2);
    cluster_apply(&c, "apiVersion: gpu.cleave.dev/v1alpha1\n"
                      "kind: MIGConfig\n"
                      "metadata: {name: mine}\n"
                      "spec: {devices: [{migEnabled: true, migDevices: {3g.40gb: 2}}]}\n"
                      "---\n"
                      "apiVersion: gpu.cleave.dev/v1alpha1\n"
                      "kind: GPUProfile\n"
                      "metadata: {name: p}\n"
                      "spec:\n"
                      "  nodeSelector: {matchLabels: {pool: a}}\n"
                      "  devices: [{selector: {indices: [0]}, mode: mig, mig: {config: mine}}]\n");
    cluster_settle(&c);
    agents();
    cluster_label(&c, "n2", "nvidia.com/mig.config", "all-1g.10gb");
    cluster_settle(&c);
    agents();
    cluster_patch(&c, &resource_gpuprofiles, "p", NULL,
                  "{spec: {devices: [{mode: mig, mig: {profiles: {7g.80gb: 1}}}]}}");
    cluster_settle(&c);
    agents();
    cluster_label(&c, "n2", "nvidia.com/mig.config", NULL);
    cluster_settle(&c);
    agents();
    agents();
}

static void add_node(struct sb *out, const char *name)
{
    auto_free char *spec = cluster_spec(&c, name);
    auto_json json_t *node = cluster_get(&c, &resource_nodes, name);
    auto_free char *labels = jx_dump(JX_AT(node, "metadata", "labels"));
    auto_free char *offers = jx_dump(JX_AT(node, "status"));
    sb_addf(out, "%s: %s\n%s\n%s\n", name, spec, labels, offers);
}

/* All that matters in the end, without versions and times. Caller frees. */
static char *end_state(void)
{
    auto_sb struct sb text = SB_INIT(END_BYTES);
    auto_free char *profile = cluster_profile(&c, "p");
    auto_free char *accepted = cluster_condition(&c, &resource_gpuprofiles, "p", "Accepted");
    auto_free char *config = cluster_condition(&c, &resource_migconfigs, "mine", "Ready");
    add_node(&text, "n1");
    add_node(&text, "n2");
    sb_addf(&text, "%s, %s, %s\n", profile, accepted, config);
    return sb_take(&text);
}

static char *undisturbed(void)
{
    cluster_start(&c, /* plan= */ NULL);
    tell_story();
    char *end = end_state();
    cluster_stop(&c);
    return end;
}

/* Tells the story with this fault; false when the fault was never reached. */
static bool disturbed(const struct kc_fault_plan *plan, const char *expected)
{
    cluster_start(&c, plan);
    tell_story();
    bool fired = c.died || kc_fault_fired(c.own);
    auto_free char *end = end_state();
    cr_assert_str_eq(end, expected, "%s at write %d", kc_fault_name(plan->fault), plan->at);
    int before = cluster_writes(&c);
    cluster_settle(&c);
    cr_assert_eq(cluster_writes(&c), before, "writes go on after the end");
    cluster_stop(&c);
    return fired;
}

static void torture(enum kc_fault fault)
{
    auto_free char *expected = undisturbed();
    int at = 1;
    while (disturbed(&(struct kc_fault_plan){.fault = fault, .at = at}, expected))
        at++;
    cr_assert_gt(at, 10, "the story is too short to tell anything");
}

Test(reconcilers, any_write_may_conflict)
{
    torture(KC_FAULT_CONFLICT);
}

Test(reconcilers, the_answer_to_any_write_may_be_lost)
{
    torture(KC_FAULT_TIMEOUT_AFTER_COMMIT);
}

Test(reconcilers, any_write_may_be_throttled)
{
    torture(KC_FAULT_THROTTLED);
}

Test(reconcilers, the_connection_may_break_at_any_write)
{
    torture(KC_FAULT_RESET);
}

Test(reconcilers, any_write_may_be_refused_for_a_while)
{
    torture(KC_FAULT_REFUSED);
}

Test(reconcilers, the_process_may_die_before_any_write)
{
    torture(KC_FAULT_CRASH_BEFORE);
}

Test(reconcilers, the_process_may_die_after_any_write)
{
    torture(KC_FAULT_CRASH_AFTER);
}
