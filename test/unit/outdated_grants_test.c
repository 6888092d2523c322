/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "base/auto.h"
#include "base/xalloc.h"

#include "api/device.h"
#include "nodeagent/offer/outdated_grants.h"
#include "nodeagent/report/outdated_report.h"
#include "nodeagent/vendor/nvidia/container_nvidia.h"
#include "nodeagent/vendor/nvidia/nvidia_nodes.h"
#include "service/conditions.h"

/* A node whose card 1 has one partition; a pod, ml/train, was granted it. */

static char resource[] = "nvidia.com/mig-1g.10gb", card_uuid[] = "GPU-1", cdi_name[] = "GPU-1-0";
static char id[] = "GPU-1/1g.10gb@0", uid[] = "0b7c", container[] = "main";
static char ns[] = "ml", pod[] = "train", no_root[] = "";

static struct nvidia_nodes_cap caps[] = {{1, 7, -1, 201}, {1, 7, 0, 202}};
static struct nvidia_nodes own = {.nvidia_major = 195,
                                  .ctl = true,
                                  .cards = {[1] = true},
                                  .caps = caps,
                                  .n_caps = ARRAY_LEN(caps),
                                  .host_dev_root = no_root};
static const struct device_nodes nodes = {.own = {{&container_nvidia, &own}}};

static struct table_device device = {.id = "GPU-1/1g.10gb@0",
                                     .entry = {.vendor = "nvidia",
                                               .cdi_name = cdi_name,
                                               .card_uuid = card_uuid,
                                               .minor = 1,
                                               .mig = true,
                                               .gi_id = 7}};
static struct table_resource resources[] = {{resource, false, &device, 1}};
static const struct device_table table = {.resources = resources, .n_resources = 1};
static struct holder listed[] = {{.id = id, .ns = ns, .pod = pod, .container = container}};
static const struct holders holders = {.listed = listed, .n_listed = 1, .known = true};

static bool marks_count;

/* The condition's message about what is out of date; "": nothing is. Caller frees. */
static char *message(const struct checkpoint *c, const struct holders *h)
{
    AUTO(outdated_grants) struct outdated_grants found;
    const struct outdated_facts facts = {&table, &nodes, c, h, marks_count};
    outdated_grants_find(&facts, &found);
    const struct node_state s = {.outdated = &found, .generation = 3};
    struct device_status status = {0};
    outdated_report_build(&s, 1000, &status);
    char *text = xstrdup(status.conditions.count ? status.conditions.items[0].message : "");
    device_status_done(&status);
    return text;
}

/* The same when the pod was granted these files. */
static char *outdated(const struct holders *h, const char *first, const char *second)
{
    char *files[] = {(char *)(uintptr_t)first, (char *)(uintptr_t)second};
    struct checkpoint_device devices[] = {
        {.resource = resource, .id = id, .container = container, .uid = uid}};
    struct checkpoint_grant grants[] = {
        {.n = 1, .files = files, .n_files = (size_t)(first != NULL) + (second != NULL)}};
    const struct checkpoint c = {.devices = devices, .n = 1, .grants = grants, .n_grants = 1};
    return message(&c, h);
}

static void expect(const char *first, const char *second, const char *words)
{
    auto_free char *text = outdated(&holders, first, second);
    cr_expect_str_eq(text, words, "%s", text);
}

Test(outdated_grants, what_a_device_has_now_is_not_outdated)
{
    expect("/dev/nvidiactl", "/dev/nvidia-caps/nvidia-cap202", "");
    expect("/dev/nvidia1", "/dev/nvidia-caps/nvidia-cap201", "");
}

Test(outdated_grants, answers_that_name_no_files_never_are)
{
    expect(NULL, NULL, "");
}

Test(outdated_grants, a_file_that_is_not_the_devices_any_more_is_told_with_its_pod)
{
    expect("/dev/nvidia1", "/dev/nvidia-caps/nvidia-cap211",
           "1 container would not have its device after a restart, since the device's files are "
           "not those that it had when the pod came: ml/train (container main, GPU-1/1g.10gb@0); "
           "delete the pods, so that they are made anew");
    const struct holders nobody = {.known = true};
    auto_free char *text = outdated(&nobody, "/dev/nvidia0", NULL);
    cr_expect(strstr(text, "pod 0b7c (container main"), "%s", text);
}

Test(outdated_grants, files_below_the_drivers_root_are_compared_there)
{
    char root[] = "/run/nvidia/driver";
    own.host_dev_root = root;
    expect("/run/nvidia/driver/dev/nvidia1", NULL, "");
    auto_free char *text = outdated(&holders, "/dev/nvidia1", NULL);
    cr_expect(strstr(text, "ml/train"), "%s", text);
    own.host_dev_root = no_root;
}

static void expect_told(const char *first)
{
    auto_free char *text = outdated(&holders, first, NULL);
    cr_expect(strstr(text, "ml/train"), "%s", text);
}

Test(outdated_grants, devices_that_are_not_there_are_passed_over)
{
    (void)snprintf(device.id, sizeof(device.id), "%s", "GPU-1/1g.10gb@1");
    expect("/dev/nvidia0", NULL, "");
}

Test(outdated_grants, devices_whose_files_are_not_known_are_passed_over)
{
    own.n_caps = 0;
    expect("/dev/nvidia0", NULL, "");
}

Test(outdated_grants, whole_cards_are_passed_over_while_the_drivers_numbers_are_not_known)
{
    device.entry.mig = false;
    own = (struct nvidia_nodes){.host_dev_root = no_root}; /* /proc/devices could not be read */
    expect("/dev/nvidiactl", "/dev/nvidia1", "");
    own.nvidia_major = 195;
    expect_told("/dev/nvidiactl");
}

Test(outdated_grants, a_card_whose_file_is_gone_is_told)
{
    own.cards[1] = false;
    expect_told("/dev/nvidia1");
    expect_told("/dev/nvidiactl");
}

Test(outdated_grants, a_device_is_known_under_another_resource_too)
{
    char shared[] = "nvidia.com/mig-1g.10gb.shared";
    resources[0].name = shared;
    expect_told("/dev/nvidia0");
}

Test(outdated_grants, marked_ones_are_passed_over_where_cleave_runtime_starts_all_containers)
{
    char file[] = "/dev/nvidia0";
    char *files[] = {file};
    struct checkpoint_device devices[] = {{.id = id, .container = container, .uid = uid}};
    struct checkpoint_grant grants[] = {{.n = 1, .files = files, .n_files = 1, .is_marked = true}};
    const struct checkpoint c = {.devices = devices, .n = 1, .grants = grants, .n_grants = 1};
    auto_free char *elsewhere = message(&c, &holders);
    cr_expect(strstr(elsewhere, "ml/train"), "%s", elsewhere);
    marks_count = true;
    auto_free char *there = message(&c, &holders);
    cr_expect_str_empty(there, "%s", there);
    grants[0].is_marked = false;
    auto_free char *older = message(&c, &holders);
    cr_expect(strstr(older, "ml/train"), "an answer from before cleave-runtime was set up: %s",
              older);
}

/* What becomes of the last status's condition. */
static bool stays(const struct node_state *s)
{
    struct device_status status = {0};
    (void)condition_set(&status.conditions, OUTDATED_CONDITION, CONDITION_TRUE,
                        "DeviceFilesChanged", "old", 3, 1000);
    outdated_report_build(s, 2000, &status);
    bool is_there = condition_is_true(&status.conditions, OUTDATED_CONDITION);
    device_status_done(&status);
    return is_there;
}

Test(outdated_grants, what_is_not_known_yet_is_left_as_it_was)
{
    const struct outdated_grants none = {0};
    cr_expect(stays(&(struct node_state){.holders = &holders}));
    cr_expect_not(stays(&(struct node_state){.holders = &holders, .outdated = &none}));
    cr_expect_not(stays(&(struct node_state){.holders = NULL}), "an agent without a kubelet");
}

/* --- Who is named --- */

static char old_file[] = "/dev/nvidia0";
static char *old_files[] = {old_file};

/* The message when each of these devices was granted on its own, with an old file. Caller frees. */
static char *all_outdated(struct checkpoint_device *devices, size_t n, const struct holders *h)
{
    struct checkpoint_grant grants[8];
    assert(n <= ARRAY_LEN(grants));
    for (size_t i = 0; i < n; i++)
        grants[i] = (struct checkpoint_grant){.first = i, .n = 1, .files = old_files, .n_files = 1};
    const struct checkpoint c = {.devices = devices, .n = n, .grants = grants, .n_grants = n};
    return message(&c, h);
}

static char first_id[] = "GPU-1/1g.10gb@0::0", second_id[] = "GPU-1/1g.10gb@0::1";
static char other_pod[] = "other", other_uid[] = "f00d", init[] = "init";

Test(outdated_grants, of_a_shared_device_the_pod_with_that_very_replica_is_named)
{
    struct holder all[] = {{.id = first_id, .ns = ns, .pod = other_pod, .container = container},
                           {.id = second_id, .ns = ns, .pod = pod, .container = container}};
    const struct holders both = {.listed = all, .n_listed = 2, .known = true};
    struct checkpoint_device devices[] = {{.id = second_id, .container = container, .uid = uid}};
    auto_free char *text = all_outdated(devices, 1, &both);
    cr_expect(strstr(text, ": ml/train (container main, GPU-1/1g.10gb@0);"), "%s", text);
    const struct holders first = {.listed = all, .n_listed = 1, .known = true};
    auto_free char *unnamed = all_outdated(devices, 1, &first);
    cr_expect(strstr(unnamed, ": pod 0b7c (container main,"), "%s", unnamed);
}

Test(outdated_grants, another_container_with_the_device_is_not_taken_for_it)
{
    struct checkpoint_device devices[] = {{.id = id, .container = init, .uid = uid}};
    auto_free char *text = all_outdated(devices, 1, &holders);
    cr_expect(strstr(text, ": pod 0b7c (container init,"), "%s", text);
}

Test(outdated_grants, the_order_of_the_checkpoint_changes_nothing)
{
    struct checkpoint_device one[] = {
        {.id = id, .container = container, .uid = uid},
        {.id = id, .container = init, .uid = other_uid},
        {.id = second_id, .container = init, .uid = other_uid},
        {.id = id, .container = init, .uid = uid},
    };
    struct checkpoint_device other[] = {one[3], one[1], one[0], one[2]};
    auto_free char *first = all_outdated(one, 4, &holders);
    auto_free char *second = all_outdated(other, 4, &holders);
    cr_expect_str_eq(first, second);
    const char *unnamed = strstr(first, "pod 0b7c");
    cr_expect(unnamed && unnamed < strstr(first, "ml/train"), "%s", first);
}

Test(outdated_grants, a_grant_without_a_container_is_told_without)
{
    struct checkpoint_device devices[] = {{.id = id, .uid = uid}};
    auto_free char *text = all_outdated(devices, 1, &holders);
    cr_expect(strstr(text, ": pod 0b7c (GPU-1/1g.10gb@0);"), "%s", text);
}

Test(outdated_grants, names_of_any_length_leave_the_remedy_in_the_text)
{
    auto_free char *much = xasprintf("%09000d", 0);
    struct holder all[] = {{.id = id, .ns = much, .pod = much, .container = much}};
    const struct holders long_ones = {.listed = all, .n_listed = 1, .known = true};
    struct checkpoint_device d = {.id = id, .container = much, .uid = much};
    struct checkpoint_device devices[] = {d, d, d, d, d};
    auto_free char *text = all_outdated(devices, 5, &long_ones);
    cr_expect(strstr(text, "GPU-1/1g.10gb@0), and 1 more; delete the pods"), "%s", text);
    const struct holders nobody = {.known = true};
    auto_free char *unnamed = all_outdated(devices, 5, &nobody);
    cr_expect(strstr(unnamed, "GPU-1/1g.10gb@0), and 1 more; delete the pods"), "%s", unnamed);
}
