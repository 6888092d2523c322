/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <string.h>

#include "base/file.h"
#include "base/jx.h"
#include "base/rfc3339.h"
#include "base/xalloc.h"
#include "base/yaml.h"

#include "kubectl/checkup.h"
#include "kubectl/remedy.h"
#include "kubectl_support.h"
#include "service/resources.h"

/* --- The rules, of objects as they stand at noon --- */

static struct checkup up;
#define NOW "2027-01-15T12:00:00Z"

static void open_checkup(void)
{
    int64_t now = 0;
    cr_assert_eq(rfc3339_parse(NOW, &now, NULL), 0);
    checkup_init(&up, now);
}

static void close_checkup(void)
{
    checkup_done(&up);
}

TestSuite(checkup, .init = open_checkup, .fini = close_checkup);

static json_t *load(const char *yaml)
{
    auto_err struct err e = {0};
    json_t *obj = NULL;
    cr_assert_eq(yaml_load(yaml, strlen(yaml), &obj, &e), 0, "%s", err_msg(&e));
    return obj;
}

static void see(void (*fn)(struct checkup *c, const json_t *obj), const char *yaml)
{
    auto_json json_t *obj = load(yaml);
    fn(&up, obj);
}

static void see_profile(const char *yaml)
{
    auto_json json_t *obj = load(yaml);
    checkup_wish(&up, "GPUProfile", obj);
}

/* "Error Device n1 NVIDIA GPU 0 XidError; …", as sorted. */
static void expect_found(const char *words)
{
    auto_sb struct sb b = SB_INIT(4096);
    complaints_sort(&up.found);
    for (size_t i = 0; i < up.found.n; i++) {
        const struct complaint *c = &up.found.items[i];
        sb_addf(&b, "%s%s %s %s%s%s %s", i ? "; " : "",
                c->severity == SEVERITY_ERROR ? "Error" : "Warning", c->kind,
                c->name ? c->name : "-", c->part ? " " : "", c->part ? c->part : "", c->reason);
    }
    cr_expect_str_eq(sb_str(&b), words, "got: %s", sb_str(&b));
}

#define DEVICE(conditions)                                                                         \
    "{metadata: {name: n1}, status: {conditions: [" conditions "], devices: ["
#define CARD(healthy, conditions)                                                                  \
    "{uuid: GPU-0, index: 0, vendor: nvidia, model: A100, mode: native, numaNode: 0, memoryMiB: "  \
    "1, healthy: " healthy ", migCapable: true, inUse: false, conditions: [" conditions "]}"
#define END "]}}"
#define CONDITION(type, status, reason, at)                                                        \
    "{type: " type ", status: '" status "', reason: " reason                                       \
    ", message: m, lastTransitionTime: '" at "', observedGeneration: 1}"
#define LONG_AGO "2027-01-15T11:00:00Z"
#define JUST_NOW "2027-01-15T11:59:00Z"
#define READY    CONDITION("Ready", "True", "Applied", LONG_AGO)

Test(checkup, a_device_that_is_as_wanted_has_nothing)
{
    see(checkup_device,
        DEVICE(READY) CARD("true", CONDITION("Applied", "True", "Applied", NOW)) END);
    expect_found("");
}

Test(checkup, a_node_without_driver_says_so_once)
{
    see(checkup_device,
        DEVICE(CONDITION("Ready", "False", "DriverNotLoaded",
                         NOW) "," CONDITION("DriverReady", "False", "DriverNotLoaded", NOW)) END);
    expect_found("Error Device n1 DriverNotLoaded");
}

Test(checkup, work_that_goes_on_by_itself_is_stuck_only_after_ten_minutes)
{
    see(checkup_device, DEVICE(CONDITION("Ready", "False", "InUse", JUST_NOW)) END);
    expect_found("");
    see(checkup_device, DEVICE(CONDITION("Ready", "False", "InUse", LONG_AGO)) END);
    expect_found("Warning Device n1 InUse");
}

Test(checkup, what_was_rolled_back_is_said_at_once_and_of_its_card)
{
    see(checkup_device, DEVICE(CONDITION("Ready", "False", "RolledBack", NOW))
                            CARD("true", CONDITION("Applied", "False", "RolledBack", NOW)) END);
    expect_found("Error Device n1 NVIDIA GPU 0 RolledBack");
}

Test(checkup, ill_cards_are_errors_and_those_that_only_wait_for_a_reset_warnings)
{
    see(checkup_device,
        DEVICE(READY) CARD("false", CONDITION("Healthy", "False", "XidError", NOW)) END);
    expect_found("Error Device n1 NVIDIA GPU 0 XidError");
    see(checkup_device,
        DEVICE(READY) CARD("true", CONDITION("Healthy", "False", "RowRemapPending", NOW)) END);
    expect_found(
        "Error Device n1 NVIDIA GPU 0 XidError; Warning Device n1 NVIDIA GPU 0 RowRemapPending");
}

/* As the agent writes them after an Xid, of a card that is to be cut. */
Test(checkup, an_ill_card_has_one_finding)
{
    see(checkup_device,
        DEVICE(CONDITION("Ready", "False", "Unhealthy", NOW))
            CARD("false", CONDITION("Healthy", "False", "GPULost",
                                    NOW) "," CONDITION("Applied", "False", "Unhealthy", NOW)) END);
    expect_found("Error Device n1 NVIDIA GPU 0 GPULost");
    cr_expect(*remedy_of("GPULost")->words && *remedy_of("XidError")->words &&
              *remedy_of("Unhealthy")->words && *remedy_of("ReadFailed")->words);
}

Test(checkup, what_else_keeps_an_ill_card_from_its_layout_is_told)
{
    see(checkup_device,
        DEVICE(CONDITION("Ready", "False", "RolledBack", NOW))
            CARD("false", CONDITION("Healthy", "False", "XidError",
                                    NOW) ",{type: Applied, status: 'False', reason: RolledBack, "
                                         "message: other, lastTransitionTime: '" NOW
                                         "', observedGeneration: 1}") END);
    expect_found("Error Device n1 NVIDIA GPU 0 RolledBack; Error Device n1 NVIDIA GPU 0 XidError");
}

#define ILL_PART(uuid)                                                                             \
    "{uuid: " uuid ", profile: 1g.10gb, unhealthy: {reason: XidError, message: m}}"

Test(checkup, an_event_that_several_partitions_have_is_told_once)
{
    see(checkup_device,
        DEVICE(
            READY) "{uuid: GPU-0, index: 0, vendor: nvidia, model: A100, mode: mig, numaNode: 0, "
                   "memoryMiB: 1, healthy: true, migCapable: true, inUse: false, partitions: "
                   "[" ILL_PART("a") "," ILL_PART("b") "]}" END);
    expect_found("Error Device n1 NVIDIA GPU 0 XidError");
}

Test(checkup, conditions_that_are_bad_when_true_are_told)
{
    see(checkup_device,
        DEVICE(READY "," CONDITION("Neighbours", "True", "DevicePlugin",
                                   NOW) "," CONDITION("PersistenceMode", "False", "Disabled",
                                                      NOW) "," CONDITION("GrantsOutdated", "True",
                                                                         "DeviceFilesChanged", NOW))
            END);
    expect_found("Warning Device n1 DeviceFilesChanged; Warning Device n1 DevicePlugin; Warning "
                 "Device n1 Disabled");
}

Test(checkup, an_agent_that_went_silent_or_never_spoke_is_told)
{
    see(checkup_device, DEVICE(CONDITION("Ready", "Unknown", "AgentNotServing", NOW)) END);
    see(checkup_device, "{metadata: {name: n2}, status: {}}");
    expect_found("Error Device n1 AgentNotServing; Warning Device n2 NotReported");
}

#define ORDERED(at)                                                                                \
    "{metadata: {name: n1, generation: 2, managedFields: [{manager: x, time: '" at                 \
    "'}, {manager: y, subresource: status, time: '" NOW                                            \
    "'}]}, status: {observedGeneration: 1, conditions: [" READY "]}}"

Test(checkup, an_order_that_no_agent_takes_is_told_after_two_minutes)
{
    see(checkup_device, ORDERED(JUST_NOW));
    expect_found("");
    see(checkup_device, ORDERED(LONG_AGO));
    expect_found("Error Device n1 AgentNotResponding");
}

Test(checkup, profiles_that_cannot_be_are_told_and_those_that_are_meant_so_warned_of)
{
    see_profile("{metadata: {name: a}, status: {conditions: [" CONDITION("Ready", "False",
                                                                         "Infeasible", NOW) "]}}");
    see_profile("{metadata: {name: b}, status: {conditions: [" CONDITION("Ready", "False", "Paused",
                                                                         NOW) "]}}");
    see_profile("{metadata: {name: c}, status: {conditions: [" READY "]}}");
    see_profile("{metadata: {name: d, generation: 1}}");
    expect_found("Error GPUProfile a Infeasible; Error GPUProfile d NotSeen; Warning GPUProfile b "
                 "Paused");
}

#define NODE(name, more)                                                                           \
    "{metadata: {name: " name ", labels: {" more "}}, status: {conditions: [{type: Ready, "        \
    "status: 'True'}]}}"

Test(checkup, a_node_with_cards_and_no_device_is_told_and_a_device_without_node)
{
    up.has_nodes = up.has_devices = true;
    see(checkup_node, NODE("n1", "feature.node.kubernetes.io/pci-0302_10de.present: 'true'"));
    see(checkup_node, NODE("n2", "feature.node.kubernetes.io/pci-15b3.present: 'true'"));
    see(checkup_node, "{metadata: {name: n3}, status: {capacity: {nvidia.com/gpu: '2'}}}");
    see(checkup_device, "{metadata: {name: n9}, status: {conditions: [" READY "]}}");
    checkup_end(&up);
    expect_found("Error Node n3 NodeNotReady; Warning Node n1 NoDevice; Warning Node n3 NoDevice; "
                 "Warning Device n9 NoNode");
}

Test(checkup, where_devices_cannot_be_read_no_node_is_said_to_lack_one)
{
    up.has_nodes = true;
    see(checkup_node, NODE("n1", "feature.node.kubernetes.io/pci-10de.present: 'true'"));
    checkup_end(&up);
    expect_found("");
}

#define LEASE_IN(ns, at)                                                                           \
    "{metadata: {namespace: " ns "}, spec: {holderIdentity: a, leaseDurationSeconds: 15, "         \
    "renewTime: '" at "'}}"
#define LEASE(at) LEASE_IN("ns", at)

Test(checkup, a_controller_that_leads_is_asked_for)
{
    up.has_leases = true;
    checkup_end(&up);
    expect_found("Error Cluster - NoController");
}

Test(checkup, a_lease_that_nobody_renews_is_told)
{
    up.has_leases = true;
    see(checkup_lease, LEASE(LONG_AGO));
    checkup_end(&up);
    expect_found("Error Cluster - NotLeading");
}

/* Where they are, since whoever may write Leases in a namespace can make one of this name. */
Test(checkup, two_controllers_that_lead_are_told_with_their_namespaces)
{
    up.has_leases = true;
    see(checkup_lease, LEASE_IN("cleave-system", NOW));
    see(checkup_lease, LEASE_IN("team-x", JUST_NOW));
    checkup_end(&up);
    expect_found("Error Cluster - SeveralControllers");
    cr_expect_str_eq(up.found.items[0].seen,
                     "Leases cleave-controller are kept in 2 namespaces: cleave-system, team-x");
}

Test(checkup, of_leases_in_thousands_of_namespaces_some_are_named)
{
    up.has_leases = true;
    for (unsigned i = 0; i < 1000; i++)
        see(checkup_lease, LEASE_IN("team-x", NOW));
    checkup_end(&up);
    cr_expect_lt(strlen(up.found.items[0].seen), 600);
    cr_expect(strstr(up.found.items[0].seen, "in 1000 namespaces: team-x, team-x"));
}

#define SCHEDULER(replicas, ready)                                                                 \
    "{metadata: {namespace: ns}, spec: {replicas: " replicas "}, status: {readyReplicas: " ready   \
    ", conditions: [" CONDITION("Available", "False", "MinimumReplicasUnavailable",                \
                                LONG_AGO) "]}}"

/* Where a controller leads, so that nothing is found of it. */
static void end_with_controller(void)
{
    up.has_leases = true;
    see(checkup_lease, LEASE(NOW));
    checkup_end(&up);
}

Test(checkup, of_a_scheduler_that_is_not_installed_nothing_is_said)
{
    end_with_controller();
    expect_found("");
}

Test(checkup, the_lease_of_a_scheduler_that_was_removed_is_no_scheduler)
{
    see(checkup_scheduler_lease, LEASE(LONG_AGO));
    end_with_controller();
    expect_found("");
}

Test(checkup, a_scheduler_of_which_a_replica_is_ready_and_one_leads_is_well)
{
    see(checkup_scheduler, SCHEDULER("2", "1"));
    see(checkup_scheduler_lease, LEASE(JUST_NOW));
    end_with_controller();
    expect_found("");
}

Test(checkup, a_scheduler_without_ready_replicas_is_told_with_the_time)
{
    int64_t since = 0;
    see(checkup_scheduler, SCHEDULER("2", "0"));
    see(checkup_scheduler_lease, LEASE(LONG_AGO));
    end_with_controller();
    expect_found("Error Cluster - SchedulerNotReady");
    cr_assert_eq(rfc3339_parse(LONG_AGO, &since, NULL), 0);
    cr_expect_eq(up.found.items[0].since_ms, since);
    cr_expect_str_eq(up.found.items[0].seen, "of 2 replicas of Deployment ns/cleave-scheduler none "
                                             "is ready: its pods are not placed");
}

Test(checkup, a_scheduler_that_no_status_tells_of_yet_is_not_ready)
{
    see(checkup_scheduler, "{metadata: {namespace: ns}, spec: {replicas: 2}}");
    expect_found("Error Cluster - SchedulerNotReady");
}

Test(checkup, a_scheduler_that_was_taken_to_no_replicas_is_warned_of)
{
    see(checkup_scheduler, SCHEDULER("0", "0"));
    expect_found("Warning Cluster - SchedulerNotReady");
}

Test(checkup, a_scheduler_whose_replicas_are_ready_and_whose_lease_nobody_keeps_is_told)
{
    see(checkup_scheduler, SCHEDULER("2", "2"));
    see(checkup_scheduler_lease, LEASE(LONG_AGO));
    end_with_controller();
    expect_found("Error Cluster - SchedulerNotLeading");
}

Test(checkup, where_leases_cannot_be_read_no_scheduler_is_said_not_to_lead)
{
    see(checkup_scheduler, SCHEDULER("2", "2"));
    checkup_end(&up);
    expect_found("");
}

Test(checkup, agents_of_two_versions_are_told)
{
    see(checkup_device,
        "{metadata: {name: n1}, status: {agentVersion: '1', conditions: [" READY "]}}");
    see(checkup_device,
        "{metadata: {name: n2}, status: {agentVersion: '1', conditions: [" READY "]}}");
    checkup_end(&up);
    expect_found("");
    see(checkup_device,
        "{metadata: {name: n3}, status: {agentVersion: '2', conditions: [" READY "]}}");
    checkup_end(&up);
    expect_found("Warning Cluster - MixedVersions");
    cr_expect_str_eq(up.found.items[0].seen,
                     "agents of several versions run: 1 on 2 nodes, 2 on 1 node");
}

Test(checkup, a_device_that_cannot_be_read_is_told)
{
    see(checkup_device, "{metadata: {name: n1}, status: {devices: 7}}");
    expect_found("Error Device n1 Unreadable");
}

Test(complaints, a_list_has_an_end_and_counts_on)
{
    auto_complaints struct complaints l = {0};
    for (size_t i = 0; i < COMPLAINTS_MAX + 3; i++)
        complaints_add(&l, &(struct complaint){.kind = "Node", .reason = "NoDevice"});
    cr_expect_eq(l.n, COMPLAINTS_MAX);
    cr_expect_eq(l.more, 3);
}

/* --- Remedies --- */

static char *page(const char *path)
{
    auto_err struct err e = {0};
    char *text = NULL;
    size_t n = 0;
    cr_assert_eq(file_read(path, 1 << 20, &text, &n, &e), 0, "%s", err_msg(&e));
    return text;
}

Test(remedy, each_reason_is_one_that_the_pages_know_and_none_stands_twice)
{
    auto_free char *api = page("docs/api.md");
    auto_free char *kubectl = page("docs/kubectl.md");
    for (const struct remedy *r = remedies; r->reason; r++) {
        auto_free char *word = xasprintf("`%s`", r->reason);
        cr_expect(strstr(api, word) || strstr(kubectl, word), "%s", r->reason);
        cr_expect(!r[1].reason || strcmp(r->reason, r[1].reason) < 0, "%s", r->reason);
        cr_expect_eq(remedy_of(r->reason), r);
    }
}

/* "## Why a pod waits": "why-a-pod-waits". */
static bool has_heading(const char *text, const char *anchor)
{
    for (const char *line = strstr(text, "\n#"); line; line = strstr(line + 1, "\n#")) {
        const char *at = line + 1 + strspn(line + 1, "# ");
        const char *want = anchor;
        for (; *want && *at && *at != '\n'; at++) {
            char c = *at == ' ' ? '-' : (char)(*at | ' ');
            if (c == *want)
                want++;
            else if (strchr("?,`", *at) == NULL)
                break;
        }
        if (!*want && strcspn(at, "\n") <= 1)
            return true;
    }
    return false;
}

Test(remedy, each_page_is_there_with_its_heading)
{
    for (const struct remedy *r = remedies; r->reason; r++) {
        const char *hash = strchr(r->page, '#');
        auto_free char *path = xstrndup(r->page, hash ? (size_t)(hash - r->page) : strlen(r->page));
        auto_free char *text = page(path);
        cr_expect(!hash || has_heading(text, hash + 1), "%s: %s", r->reason, r->page);
    }
}

Test(remedy, a_reason_of_a_later_release_leads_to_the_page_of_all)
{
    cr_expect_str_eq(remedy_of("SomethingNew")->page, "docs/api.md#reasons");
    cr_expect_str_eq(remedy_of(NULL)->words, "");
}

/* --- The command --- */

TestSuite(doctor, .init = desk_set_up, .fini = desk_tear_down);

static void expect_told(int code, const char *out, const char *err)
{
    auto_desk_answer struct desk_answer a = desk_doctor(OUTPUT_TEXT);
    cr_expect_eq(a.code, code, "%d", a.code);
    cr_expect_str_eq(a.out, out, "got:\n%s", a.out);
    cr_expect_str_eq(a.err, err, "got:\n%s", a.err);
}

Test(doctor, a_cluster_in_which_all_is_well_has_no_findings)
{
    desk_node("n1", 2);
    desk_lease();
    expect_told(COMMAND_OK, "0 errors, 0 warnings; 1 node, 1 Device and 0 GPUProfiles looked at\n",
                "");
}

Test(doctor, what_is_found_comes_with_its_remedy_and_page)
{
    desk_node("n1", 1);
    desk_lease();
    desk_patch(&resource_devices, "n1", "status",
               "{status: {conditions: [{type: Ready, status: 'False', reason: DriverNotLoaded, "
               "message: \"no driver\\e[2J\", lastTransitionTime: '2027-01-15T12:00:00Z', "
               "observedGeneration: 1}]}}");
    expect_told(COMMAND_CHANGES,
                "Error  Device n1: DriverNotLoaded, since 2027-01-15T12:00:00Z\n"
                "  seen  no driver\xEF\xBF\xBD[2J\n"
                "  do    install the driver on the node, or load it\n"
                "  read  docs/api.md#is-the-node-ready\n"
                "\n"
                "1 error, 0 warnings; 1 node, 1 Device and 0 GPUProfiles looked at\n",
                "");
}

Test(doctor, sentences_are_broken_where_the_width_of_the_screen_is_known)
{
    desk_node("n1", 1);
    desk_lease();
    desk_columns(40);
    desk_patch(&resource_devices, "n1", "status",
               "{status: {conditions: [{type: Ready, status: 'False', reason: DriverNotLoaded, "
               "message: a card is on the PCI bus and has no driver, lastTransitionTime: "
               "'2027-01-15T12:00:00Z', observedGeneration: 1}]}}");
    auto_desk_answer struct desk_answer a = desk_doctor(OUTPUT_TEXT);
    cr_expect_not_null(strstr(a.out, "  seen  a card is on the PCI bus and has\n"
                                     "        no driver\n"
                                     "  do    install the driver on the node,\n"
                                     "        or load it\n"),
                       "got:\n%s", a.out);
}

Test(doctor, what_may_not_be_read_is_said_and_then_nothing_found_is_no_answer)
{
    desk_node("n1", 1);
    desk_lease();
    desk_forbid("nodes");
    expect_told(COMMAND_FAILED,
                "0 errors, 0 warnings; 1 Device and 0 GPUProfiles looked at: whether all the rest "
                "is well is not known\n",
                "Warning: nodes cannot be read (nodes is forbidden: User \"eve\" cannot list): "
                "nodes that lack a Device are not seen\n");
}

Test(doctor, where_nothing_may_be_read_there_are_no_numbers)
{
    desk_forbid("*");
    auto_desk_answer struct desk_answer a = desk_doctor(OUTPUT_TEXT);
    cr_expect_eq(a.code, COMMAND_FAILED);
    cr_expect_str_eq(a.out, "no node, Device or GPUProfile could be looked at: whether all is "
                            "well is not known\n");
}

Test(doctor, a_definition_that_is_missing_is_a_finding)
{
    desk_node("n1", 1);
    desk_lease();
    desk_lack("gpuprofiles");
    expect_told(COMMAND_CHANGES,
                "Error  Cluster, gpuprofiles: NotInstalled\n"
                "  seen  the API server does not know gpuprofiles.gpu.cleave.dev\n"
                "  do    apply the resource definitions of crds/\n"
                "  read  docs/operations.md#installing\n"
                "\n"
                "1 error, 0 warnings; 1 node and 1 Device looked at\n",
                "");
}

#define DEPLOYMENT(name)                                                                           \
    "{apiVersion: apps/v1, kind: Deployment, metadata: {name: " name ", namespace: cleave-system}"

Test(doctor, a_scheduler_that_is_not_ready_is_found_and_another_deployment_is_not)
{
    desk_node("n1", 1);
    desk_lease();
    desk_create(&resource_deployments, DEPLOYMENT("cleave-scheduler") ", spec: {replicas: 2}}");
    desk_create(&resource_deployments, DEPLOYMENT("other") "}");
    expect_told(COMMAND_CHANGES,
                "Error  Cluster: SchedulerNotReady\n"
                "  seen  of 2 replicas of Deployment cleave-system/cleave-scheduler none is ready: "
                "its pods are not placed\n"
                "  do    look at the scheduler's pods, or scale it up: kubectl get pods -A -o wide "
                "-l app.kubernetes.io/name=cleave\n"
                "  read  docs/kubectl.md#what-is-not-right\n"
                "\n"
                "1 error, 0 warnings; 1 node, 1 Device and 0 GPUProfiles looked at\n",
                "");
}

Test(doctor, without_the_right_to_read_deployments_a_warning_says_what_is_not_known)
{
    desk_node("n1", 1);
    desk_lease();
    desk_forbid("deployments");
    expect_told(
        COMMAND_FAILED,
        "0 errors, 0 warnings; 1 node, 1 Device and 0 GPUProfiles looked at: whether all the rest "
        "is well is not known\n",
        "Warning: deployments cannot be read (deployments is forbidden: User \"eve\" cannot "
        "list): whether the scheduler is ready is not known\n");
}

Test(doctor, programs_get_a_document)
{
    desk_node("n1", 1);
    desk_forbid("migconfigs");
    auto_desk_answer struct desk_answer a = desk_doctor(OUTPUT_JSON);
    auto_json json_t *doc = json_loads(a.out, 0, NULL);
    const json_t *found = json_array_get(JX_AT(doc, "findings"), 0);
    cr_expect_eq(a.code, COMMAND_CHANGES);
    cr_expect_str_eq(JX_STR_AT(doc, "kind"), "Checkup");
    cr_expect_eq(json_array_size(JX_AT(doc, "notRead")), 1);
    cr_expect_eq(json_array_size(JX_AT(doc, "findings")), 1);
    cr_expect_str_eq(JX_STR_AT(found, "severity"), "Error");
    cr_expect_str_eq(JX_STR_AT(found, "kind"), "Cluster");
    cr_expect_str_eq(JX_STR_AT(found, "reason"), "NoController");
    cr_expect_not_null(JX_STR_AT(found, "remedy"));
    cr_expect_str_eq(JX_STR_AT(found, "page"), "docs/kubectl.md#what-is-not-right");
}
