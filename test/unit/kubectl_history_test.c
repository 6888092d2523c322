/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <string.h>

#include "base/jx.h"
#include "base/sb.h"
#include "base/xalloc.h"

#include "kubectl/history.h"
#include "kubectl_support.h"
#include "service/resources.h"

TestSuite(history, .init = desk_set_up, .fini = desk_tear_down);

#define EVENT(by, kind, name, at, more)                                                            \
    "{reportingController: " by ", reportingInstance: i, action: a, regarding: {kind: " kind       \
    ", name: " name "}, eventTime: '" at ".000000Z', type: Normal, " more "}"
#define OURS "gpu.cleave.dev/agent"

static void stand(const char *node, const char *conditions)
{
    auto_free char *yaml = xasprintf("{status: {conditions: [%s]}}", conditions);
    desk_patch(&resource_devices, node, "status", yaml);
}

static void expect_told(int code, const char *out, const char *err)
{
    auto_desk_answer struct desk_answer a = desk_history(OUTPUT_TEXT, "n1");
    cr_expect_eq(a.code, code, "%d", a.code);
    cr_expect_str_eq(a.out, out, "got:\n%s", a.out);
    cr_expect_str_eq(a.err, err, "got:\n%s", a.err);
}

#define READY_AT_TEN                                                                               \
    "{type: Ready, status: 'True', reason: Applied, message: as wanted, observedGeneration: 1, "   \
    "lastTransitionTime: '2027-01-15T10:00:00Z'}"

Test(history, conditions_and_events_are_told_the_newest_first)
{
    desk_node("n1", 1);
    stand("n1", READY_AT_TEN);
    desk_event("a", EVENT(OURS, "Node", "n1", "2027-01-15T09:59:00",
                          "reason: Repartitioned, note: GPU 0 is cut"));
    desk_event("b", EVENT(OURS, "Device", "n1", "2027-01-15T08:00:00",
                          "reason: EvictionBlocked, note: \"by\\e[2J\", series: {count: 3, "
                          "lastObservedTime: '2027-01-15T11:00:00.000000Z'}"));
    expect_told(COMMAND_OK,
                "2027-01-15T11:00:00Z  Device  Event: EvictionBlocked, 3 times\n"
                "    by\xEF\xBF\xBD[2J\n"
                "2027-01-15T10:00:00Z  Device  Ready is True: Applied\n"
                "    as wanted\n"
                "2027-01-15T09:59:00Z  Node  Event: Repartitioned\n"
                "    GPU 0 is cut\n",
                "");
}

Test(history, sentences_are_broken_where_the_width_of_the_screen_is_known)
{
    desk_node("n1", 1);
    desk_columns(30);
    stand("n1", "{type: Ready, status: 'True', reason: Applied, message: each card is as it was "
                "wanted, observedGeneration: 1, lastTransitionTime: '2027-01-15T10:00:00Z'}");
    expect_told(COMMAND_OK,
                "2027-01-15T10:00:00Z  Device  Ready is True: Applied\n"
                "    each card is as it was\n"
                "    wanted\n",
                "");
}

Test(history, events_of_others_and_of_other_objects_are_not_ours_to_tell)
{
    desk_node("n1", 1);
    stand("n1", READY_AT_TEN);
    desk_event("a", EVENT("kubelet", "Node", "n1", "2027-01-15T11:00:00", "reason: Rebooted"));
    desk_event("b", EVENT(OURS, "Node", "n2", "2027-01-15T11:00:00", "reason: Repartitioned"));
    desk_event("c", EVENT(OURS, "Pod", "n1", "2027-01-15T11:00:00", "reason: Evicted"));
    expect_told(COMMAND_OK,
                "2027-01-15T10:00:00Z  Device  Ready is True: Applied\n"
                "    as wanted\n",
                "");
}

Test(history, what_may_not_be_read_is_said)
{
    desk_node("n1", 1);
    stand("n1", READY_AT_TEN);
    desk_forbid("events");
    expect_told(
        COMMAND_OK,
        "2027-01-15T10:00:00Z  Device  Ready is True: Applied\n"
        "    as wanted\n",
        "Warning: Events in the namespace default cannot be read (events is forbidden: "
        "User \"eve\" cannot list): what Cleave's programs said of the node is not shown\n");
}

Test(history, a_node_of_which_only_events_are_left_is_told_by_them)
{
    desk_event("a", EVENT(OURS, "Node", "n1", "2027-01-15T11:00:00", "reason: Repartitioned"));
    auto_desk_answer struct desk_answer a = desk_history(OUTPUT_TEXT, "n1");
    cr_expect_eq(a.code, COMMAND_OK);
    cr_expect_str_eq(a.out, "2027-01-15T11:00:00Z  Node  Event: Repartitioned\n");
    cr_expect_not_null(strstr(a.err, "Warning: the Device cannot be read"));
}

Test(history, a_name_that_nothing_has_is_an_error)
{
    expect_told(COMMAND_FAILED, "",
                "error: there is no Node, no Device and no Event of the name n1\n");
    auto_desk_answer struct desk_answer a = desk_history(OUTPUT_TEXT, "");
    cr_expect_eq(a.code, COMMAND_FAILED);
    cr_expect_str_eq(a.err, "error: the name of the node is empty\n");
}

Test(history, a_node_that_nothing_tells_of_yet_is_no_error)
{
    desk_create(&resource_nodes, "{apiVersion: v1, kind: Node, metadata: {name: n1}}");
    auto_desk_answer struct desk_answer a = desk_history(OUTPUT_TEXT, "n1");
    cr_expect_eq(a.code, COMMAND_OK);
    cr_expect(strstr(a.err, "There are no conditions and no Events of this node.\n"), "%s", a.err);
}

Test(history, where_not_all_may_be_read_nothing_found_is_no_answer)
{
    desk_forbid("events");
    auto_desk_answer struct desk_answer a = desk_history(OUTPUT_TEXT, "n1");
    cr_expect_eq(a.code, COMMAND_FAILED);
    cr_expect(strstr(a.err,
                     "Nothing is known of this node: not all that tells of it can be read.\n"),
              "%s", a.err);
    cr_expect_not(strstr(a.err, "There are no"));
}

Test(history, programs_get_a_document)
{
    desk_node("n1", 1);
    stand("n1", READY_AT_TEN);
    auto_desk_answer struct desk_answer a = desk_history(OUTPUT_JSON, "n1");
    auto_json json_t *doc = json_loads(a.out, 0, NULL);
    const json_t *entry = json_array_get(JX_AT(doc, "entries"), 0);
    cr_expect_str_eq(JX_STR_AT(doc, "kind"), "History");
    cr_expect_str_eq(JX_STR_AT(entry, "at"), "2027-01-15T10:00:00Z");
    cr_expect_str_eq(JX_STR_AT(entry, "what"), "Ready is True");
    cr_expect(json_is_false(JX_AT(entry, "bad")));
}

/* The entries of the document of node n1; a new reference. */
static json_t *entries(void)
{
    auto_desk_answer struct desk_answer a = desk_history(OUTPUT_JSON, "n1");
    auto_json json_t *doc = json_loads(a.out, 0, NULL);
    return json_incref(json_object_get(doc, "entries"));
}

Test(history, an_entry_stays_in_the_document_wherever_its_message_is_cut)
{
    auto_sb struct sb note = SB_INIT(4096);
    sb_add(&note, "x");
    while (note.len < 2090)
        sb_add(&note, "\xC3\xA4"); /* each second byte begins a letter */
    auto_free char *odd = xasprintf(EVENT(OURS, "Node", "n1", "2027-01-15T11:00:00",
                                          "reason: Repartitioned, note: \"%s\""),
                                    sb_str(&note));
    auto_free char *even = xasprintf(EVENT(OURS, "Node", "n1", "2027-01-15T11:00:00",
                                           "reason: Repartitioned, note: \"%s\""),
                                     sb_str(&note) + 1);
    desk_event("a", odd);
    desk_event("b", even);
    auto_json json_t *list = entries();
    cr_expect_eq(json_array_size(list), 2);
    cr_expect_eq(strlen(JX_STR_AT(json_array_get(list, 0), "message")), 2047);
}

#define TEXT(s) ((char[]){s})

Test(history, drains_breaches_and_the_cards_conditions_are_part_of_it)
{
    struct condition ill =
        {TEXT("Healthy"), TEXT("XidError"), TEXT("Xid 48"), CONDITION_FALSE, 1, 3000};
    struct device_partition share = {.has_breach = true,
                                     .breach = {2000, TEXT("ShareOverLimit"), TEXT("too much")}};
    struct device_card card = {.vendor = TEXT("nvidia"),
                               .index = 1,
                               .has_drain = true,
                               .drain = {.since_ms = 1000},
                               .partitions = &share,
                               .n_partitions = 1,
                               .conditions = {&ill, 1}};
    const struct device_status st = {.devices = &card, .n_devices = 1};
    auto_history struct history h = {0};
    auto_sb struct sb b = SB_INIT(4096);
    history_add_device(&h, &st);
    history_end(&h);
    history_text(&h, &(struct screen){.columns = 80}, &b);
    cr_expect_str_eq(sb_str(&b),
                     "1970-01-01T00:00:03Z  NVIDIA GPU 1  Healthy is False: XidError\n"
                     "    Xid 48\n"
                     "1970-01-01T00:00:02Z  NVIDIA GPU 1  breach of a share: ShareOverLimit\n"
                     "    too much\n"
                     "1970-01-01T00:00:01Z  NVIDIA GPU 1  must become free: Draining\n");
}

Test(history, what_cards_have_alike_is_one_entry)
{
    const struct condition like =
        {TEXT("Applied"), TEXT("Applied"), TEXT("as wanted"), CONDITION_TRUE, 1, 3000};
    struct condition applied[] = {like, like, like};
    struct device_card cards[] = {{.vendor = TEXT("nvidia"), .conditions = {&applied[0], 1}},
                                  {.vendor = TEXT("nvidia"), .conditions = {&applied[1], 1}},
                                  {.vendor = TEXT("nvidia"), .conditions = {&applied[2], 1}}};
    applied[1].last_transition_ms = 2000;
    cards[1].index = 1;
    cards[2].index = 2;
    const struct device_status st = {.devices = cards, .n_devices = 3};
    auto_history struct history h = {0};
    auto_sb struct sb b = SB_INIT(4096);
    history_add_device(&h, &st);
    history_end(&h);
    history_text(&h, &(struct screen){.columns = 80}, &b);
    cr_expect_str_eq(sb_str(&b), "1970-01-01T00:00:03Z  NVIDIA GPU 0, 2  Applied is True: Applied\n"
                                 "    as wanted\n"
                                 "1970-01-01T00:00:02Z  NVIDIA GPU 1  Applied is True: Applied\n"
                                 "    as wanted\n");
}

Test(history, a_vendor_whom_nobody_knows_does_not_command_the_terminal)
{
    struct device_card card = {.vendor = TEXT("\x1b[2J"), .has_drain = true};
    const struct device_status st = {.devices = &card, .n_devices = 1};
    auto_history struct history h = {0};
    auto_sb struct sb b = SB_INIT(4096);
    history_add_device(&h, &st);
    history_text(&h, &(struct screen){.columns = 80}, &b);
    cr_expect_str_eq(sb_str(&b), "1970-01-01T00:00:00Z  \xEF\xBF\xBD[2J GPU 0  must become free: "
                                 "Draining\n");
}

Test(history, of_many_events_the_newest_stay_and_the_others_are_counted)
{
    auto_history struct history h = {0};
    auto_json json_t *event = json_pack("{s:s, s:{s:s, s:s}, s:s, s:s}", "reportingController",
                                        OURS, "regarding", "kind", "Node", "name", "n1", "reason",
                                        "Old", "eventTime", "2027-01-15T09:00:00.000000Z");
    for (size_t i = 0; i < 5000; i++)
        history_add_event(&h, "n1", event);
    (void)json_object_set_new(event, "eventTime", json_string("2027-01-15T10:00:00.000000Z"));
    (void)json_object_set_new(event, "reason", json_string("New"));
    history_add_event(&h, "n1", event);
    history_end(&h);
    cr_expect_eq(h.n, HISTORY_MAX);
    cr_expect_eq(h.dropped, 5001 - HISTORY_MAX);
    cr_expect_str_eq(h.items[0].reason, "New");
}
