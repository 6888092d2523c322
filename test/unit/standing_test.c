/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <string.h>

#include "base/sb.h"
#include "base/xalloc.h"
#include "base/yaml.h"

#include "golden_support.h"
#include "reconcilers/device_spec.h"
#include "reconcilers/node_labels.h"
#include "reconcilers/standing.h"

/*
 * One card, one profile p or one label, and everything that the Device may say about it: what
 * counts in the profile's status, what the label's state becomes, and whether a ticket is needed.
 */

static const struct {
    const char *name, *spec, *status;
} devices[] = {
    {"not reported", "{}", "{}"},
    {"nothing ordered", "{}", "observedGeneration: 2, devices: [CARD]"},
    {"ordered, not seen", "ORDER", "observedGeneration: 1, devices: [CARD]"},
    {"seen, in change", "ORDER", "observedGeneration: 2, devices: [CARD SAYS Progressing]"},
    {"in use", "ORDER", "observedGeneration: 2, devices: [CARD SAYS InUse]"},
    {"draining", "ORDER", "observedGeneration: 2, devices: [CARD SAYS Draining]"},
    {"drain timed out", "ORDER", "observedGeneration: 2, devices: [CARD SAYS DrainTimeout]"},
    {"rolled back", "ORDER", "observedGeneration: 2, devices: [CARD SAYS RolledBack]"},
    {"reboot required", "ORDER", "observedGeneration: 2, devices: [CARD SAYS RebootRequired]"},
    {"a reason of tomorrow", "ORDER", "observedGeneration: 2, devices: [CARD SAYS Eclipsed]"},
    {"done", "ORDER", "observedGeneration: 2, devices: [CUT]"},
    {"done, told otherwise since", "OTHER", "observedGeneration: 2, devices: [CUT]"},
    {"driver gone", "ORDER",
     "observedGeneration: 2, conditions: [{type: Stalled, status: 'True', reason: DriverNotLoaded,"
     " message: no driver, lastTransitionTime: '2027-01-01T00:00:00Z'}]"},
    {"hangs, another is held", "ORDER",
     "observedGeneration: 2, devices: [CUT, {uuid: GPU-2, index: 1, vendor: nvidia, model: M, "
     "migCapable: true, healthy: true, mode: native, conditions: [{type: Applied, status: 'False', "
     "reason: OtherVersion, message: m, lastTransitionTime: '2027-01-01T00:00:00Z'}]}],"
     " conditions: [{type: Stalled, status: 'True', reason: NVMLTimeout, message: it hangs, "
     "lastTransitionTime: '2027-01-01T00:00:00Z'}]"},
    {"garbage", "ORDER", "devices: 7"},
};

/* Words in capitals stand for more. */
static void expand(struct sb *out, const char *text, const char *source)
{
    static const char card[] = "uuid: GPU-1, index: 0, vendor: nvidia, model: M, migCapable: true, "
                               "healthy: true";
    while (*text) {
        if (strncmp(text, "CARD SAYS ", 10) == 0) {
            size_t len = strcspn(text + 10, "]");
            sb_addf(out,
                    "{%s, mode: native, conditions: [{type: Applied, status: 'False', reason: "
                    "%.*s, message: m, lastTransitionTime: '2027-01-01T00:00:00Z'}]}",
                    card, (int)len, text + 10);
            text += 10 + len;
        } else if (strncmp(text, "CARD", 4) == 0) {
            sb_addf(out, "{%s, mode: native}", card);
            text += 4;
        } else if (strncmp(text, "CUT", 3) == 0) {
            sb_addf(out,
                    "{%s, mode: mig, partitions: [{uuid: M1, profile: 1g.10gb, giID: 1}], "
                    "conditions: [{type: Applied, status: 'True', reason: Applied, message: m, "
                    "lastTransitionTime: '2027-01-01T00:00:00Z'}]}",
                    card);
            text += 3;
        } else if (strncmp(text, "ORDER", 5) == 0 || strncmp(text, "OTHER", 5) == 0) {
            sb_addf(out,
                    "{devices: [{uuid: GPU-1, mode: mig, source: {%s}, rollout: {drain: "
                    "refuseIfInUse, timeoutSeconds: 600}, mig: {profiles: [{profile: 1g.10gb, "
                    "count: %d}]}}]}",
                    source, text[1] == 'R' ? 1 : 2);
            text += 5;
        } else {
            sb_add_char(out, *text++);
        }
    }
}

static struct object *make(const struct object_type *type, const char *yaml)
{
    auto_err struct err e = {0};
    auto_json json_t *json = NULL;
    struct object *o = NULL;
    cr_assert_eq(yaml_load(yaml, strlen(yaml), &json, &e), 0, "%s in %s", err_msg(&e), yaml);
    cr_assert_eq(object_new(type, json, &o, &e), 0, "%s", err_msg(&e));
    return o;
}

static struct object *make_device(size_t i, const char *source)
{
    static const char models[] =
        "models: [{name: M, migMemorySlices: 8, migProfiles: [{name: 1g.10gb, "
        "id: 19, slices: 1, maxCount: 7, size: 1, starts: [0, 1]}]}]";
    auto_sb struct sb yaml = SB_INIT(8192);
    sb_add(&yaml, "metadata: {name: n1, uid: d1, generation: 2}\nspec: ");
    expand(&yaml, devices[i].spec, source);
    if (strcmp(devices[i].status, "{}") == 0) {
        sb_add(&yaml, "\n");
    } else {
        sb_add(&yaml, "\nstatus: {");
        expand(&yaml, devices[i].status, source);
        sb_addf(&yaml, ", %s}\n", models);
    }
    return make(&records_device_type, sb_str(&yaml));
}

static void look(struct node_view *v, size_t i, const char *labels, const char *source)
{
    auto_sb struct sb node = SB_INIT(1024);
    sb_addf(&node, "metadata: {name: n1, uid: u1, labels: {%s}}\n", labels);
    v->node_object = make(&records_node_type, sb_str(&node));
    v->device_object = make_device(i, source);
    v->node = object_payload(v->node_object);
    v->device = object_payload(v->device_object);
    v->generation = object_generation(v->device_object);
}

static const char *const phases[] = {"up to date", "changing", "waiting", "failed", "overridden"};

/* Shows the node with devices[i] beside profile p, which wants one partition. */
static void look_with_profile(struct node_view *v, size_t i, const char *partition)
{
    auto_sb struct sb yaml = SB_INIT(1024);
    look(v, i, "pool: a", "kind: GPUProfile, name: p");
    sb_addf(&yaml,
            "metadata: {name: p, generation: 5}\nspec: {nodeSelector: {}, devices: [{mode: mig, "
            "mig: {profiles: {%s: 1}}}]}\n",
            partition);
    *XPUSH(v->profiles.items, v->profiles.count) = make(&records_profile_type, sb_str(&yaml));
    node_view_resolve(v);
}

static void add_profile_line(struct sb *out, size_t i)
{
    auto_node_view struct node_view v = {0};
    auto_standing struct standing s = {0};
    look_with_profile(&v, i, "1g.10gb");
    standing_of(&v, node_view_profile(&v, "p"), &s);
    sb_addf(out, "%-27s %s%s%s%s%s%s\n", devices[i].name, phases[s.phase], s.reason ? ", " : "",
            s.reason ? s.reason : "", s.message ? ": " : "", s.message ? s.message : "",
            s.refused ? " (refused)" : "");
    sb_addf(out, "%27s settled %d, needs a ticket %d\n", "", standing_is_settled(&v, "p"),
            device_spec_needs_ticket(&v, "p"));
}

static void add_label_line(struct sb *out, size_t i)
{
    auto_node_view struct node_view v = {0};
    auto_label_state struct label_state s = {0};
    look(&v, i, "nvidia.com/mig.config: c", "kind: NodeLabel, name: c");
    *XPUSH(v.configs.items, v.configs.count) =
        make(&records_config_type, "metadata: {name: c}\nspec: {devices: [{migEnabled: true, "
                                   "migDevices: {1g.10gb: 1}}]}\n");
    node_view_resolve(&v);
    node_labels_state(&v, &s);
    sb_addf(out, "%27s label: %s\n", "", s.value ? s.value : "none");
}

Test(standing, follows_from_what_the_device_says)
{
    auto_sb struct sb text = SB_INIT(16384);
    for (size_t i = 0; i < ARRAY_LEN(devices); i++) {
        add_profile_line(&text, i);
        add_label_line(&text, i);
    }
    golden_check("reconcilers/standings.txt", sb_str(&text));
}

static size_t device_named(const char *name)
{
    size_t i = 0;
    while (strcmp(devices[i].name, name) != 0)
        i++;
    return i;
}

Test(standing, a_partition_of_another_size_is_told_where_all_is_as_wanted)
{
    auto_node_view struct node_view done = {0};
    auto_node_view struct node_view changing = {0};
    auto_standing struct standing s = {0};
    auto_standing struct standing of_changing = {0};
    look_with_profile(&done, device_named("done"), "1g.11gb");
    standing_of(&done, node_view_profile(&done, "p"), &s);
    cr_expect_eq(s.phase, PHASE_UP_TO_DATE);
    cr_assert_not_null(s.message);
    cr_expect_str_eq(s.reason, "ProfileRounded");
    cr_expect_str_eq(s.message,
                     "GPU 0 (M): 1g.11gb is rounded to 1g.10gb, the nearest profile of this card");
    look_with_profile(&changing, device_named("seen, in change"), "1g.11gb");
    standing_of(&changing, node_view_profile(&changing, "p"), &of_changing);
    cr_expect_str_eq(of_changing.reason, "Progressing");
}

Test(standing, wishes_are_compared_as_maps)
{
    char a[] = "1g.10gb";
    char b[] = "2g.20gb";
    char uuid[] = "GPU-1";
    struct profile_count there[] = {{a, 2}, {b, 1}};
    struct profile_count here[] = {{b, 1}, {a, 2}};
    struct device_want x = {.uuid = uuid, .mode = API_MODE_MIG, .has_mig = true};
    struct device_want y = x;
    x.mig.profiles = there;
    y.mig.profiles = here;
    x.mig.n_profiles = y.mig.n_profiles = 2;
    cr_expect(standing_same_want(&x, &y));
    here[1].count = 3;
    cr_expect_not(standing_same_want(&x, &y));
}

Test(standing, means_and_terms_of_sharing_tell_two_wishes_apart)
{
    char uuid[] = "GPU-1";
    const struct device_want slices = {.uuid = uuid,
                                       .has_sharing = true,
                                       .sharing = {.has_time_slicing = true,
                                                   .time_slicing = {.replicas = 4}}};
    struct device_want mps = {.uuid = uuid,
                              .has_sharing = true,
                              .sharing = {.has_mps = true, .mps = {.replicas = 4}}};
    const struct device_want same = mps;
    const struct device_want whole = {.uuid = uuid};
    cr_expect_not(standing_same_want(&slices, &mps));
    cr_expect_not(standing_same_want(&whole, &mps));
    cr_expect(standing_same_want(&mps, &same));
    mps.sharing.mps.replicas = 5;
    cr_expect_not(standing_same_want(&mps, &same));
}

Test(standing, shares_are_told_from_replicas_and_from_other_shares)
{
    char uuid[] = "GPU-1";
    const struct device_want slices = {.uuid = uuid,
                                       .has_sharing = true,
                                       .sharing = {.has_time_slicing = true,
                                                   .time_slicing = {.replicas = 10}}};
    const struct device_want shares = {.uuid = uuid,
                                       .has_sharing = true,
                                       .sharing = {.has_fractional = true,
                                                   .fractional = {.max_shares = 10,
                                                                  .memory_percent = 100,
                                                                  .compute_percent = 100}}};
    const struct device_fractional others[] =
        {{.max_shares = 11, .memory_percent = 100, .compute_percent = 100},
         {.max_shares = 10, .memory_percent = 101, .compute_percent = 100},
         {.max_shares = 10, .memory_percent = 100, .compute_percent = 101}};
    const struct device_want whole = {.uuid = uuid};
    struct device_want other = shares;
    cr_expect(standing_same_want(&shares, &other));
    cr_expect_not(standing_same_want(&shares, &slices));
    cr_expect_not(standing_same_want(&slices, &shares));
    cr_expect_not(standing_same_want(&shares, &whole));
    cr_expect_not(standing_same_want(&whole, &shares));
    for (size_t i = 0; i < ARRAY_LEN(others); i++) {
        other.sharing.fractional = others[i];
        cr_expect_not(standing_same_want(&shares, &other), "%zu", i);
    }
}

/* Any word that differs has the Device written anew. */
Test(standing, shares_that_are_to_be_kept_in_another_way_differ)
{
    char uuid[] = "GPU-1";
    const struct device_fractional kinds[] = {
        {.max_shares = 10},
        {.has_enforcement = true},
        {.has_enforcement = true, .enforcement = {.has_memory = true, .memory = API_MEMORY_AUTO}},
        {.has_enforcement = true, .enforcement = {.has_memory = true, .memory = API_MEMORY_NONE}},
        {.has_enforcement = true,
         .enforcement = {.has_compute = true, .compute = API_COMPUTE_AUTO}},
        {.has_enforcement = true,
         .enforcement = {.has_compute = true, .compute = API_COMPUTE_NONE}},
        {.has_qos_policy = true, .qos_policy = API_BEST_EFFORT},
        {.has_qos_policy = true, .qos_policy = API_FIXED_SHARE},
        {.has_on_exceed = true, .on_exceed = API_EXCEED_REPORT},
        {.has_on_exceed = true, .on_exceed = API_EXCEED_KILL},
        {.allow_disable = true},
    };
    for (size_t i = 0; i < ARRAY_LEN(kinds); i++)
        for (size_t k = 0; k < ARRAY_LEN(kinds); k++) {
            struct device_want a = {.uuid = uuid, .has_sharing = true};
            a.sharing = (struct device_sharing){.has_fractional = true, .fractional = kinds[i]};
            struct device_want b = a;
            b.sharing.fractional = kinds[k];
            a.sharing.fractional.max_shares = b.sharing.fractional.max_shares = 10;
            cr_expect_eq(standing_same_want(&a, &b), i == k, "%zu, %zu", i, k);
        }
}

Test(standing, wants_with_other_slices_differ)
{
    struct device_slice_want two[] =
        {{.alias = (char *)(uintptr_t) "a", .memory_mib = 1024, .compute_percent = 10},
         {.alias = (char *)(uintptr_t) "b", .memory_mib = 2048, .compute_percent = 20}};
    struct device_slice_want turned[] = {two[1], two[0]};
    struct device_slice_want other[] = {two[0], two[1]};
    const struct device_want x = {.uuid = (char *)(uintptr_t) "G",
                                  .mode = API_MODE_SGPU,
                                  .has_sgpu = true,
                                  .sgpu = {.has_qos_policy = true,
                                           .qos_policy = API_FIXED_SHARE,
                                           .timeslice_ms = 10,
                                           .slices = two,
                                           .n_slices = 2}};
    struct device_want y = x;
    y.sgpu.slices = turned;
    cr_expect(standing_same_want(&x, &y));
    y.sgpu.slices = other;
    cr_expect(standing_same_want(&x, &y));
    other[1].memory_mib++;
    cr_expect_not(standing_same_want(&x, &y));
    other[1] = two[1];
    other[1].compute_percent++;
    cr_expect_not(standing_same_want(&x, &y));
    other[1] = two[1];
    other[1].count = 2;
    cr_expect_not(standing_same_want(&x, &y));
    other[1] = two[1];
    other[1].alias = (char *)(uintptr_t) "c";
    cr_expect_not(standing_same_want(&x, &y));
    y = x;
    y.sgpu.n_slices = 1;
    cr_expect_not(standing_same_want(&x, &y));
    y = x;
    y.sgpu.qos_policy = API_BURST_SHARE;
    cr_expect_not(standing_same_want(&x, &y));
    y = x;
    y.sgpu.has_qos_policy = false;
    cr_expect_not(standing_same_want(&x, &y));
    y = x;
    y.sgpu.timeslice_ms = 20;
    cr_expect_not(standing_same_want(&x, &y));
}
