/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <string.h>

#include "base/jx.h"
#include "base/sb.h"
#include "base/xalloc.h"
#include "base/yaml.h"

#include "nodeagent/slots/slot_wish.h"

/* "GPU-1 1024MiB 10% fixed-share", or the error. */
static char *wish_in(const char *annotations, const char *containers, const char *container,
                     unsigned nth)
{
    auto_json json_t *pod = NULL;
    auto_err struct err e = {0};
    auto_free char *text = xasprintf("metadata: {annotations: %s}\n"
                                     "spec: {initContainers: [{name: init}], containers: [%s]}",
                                     annotations, containers);
    cr_assert_eq(yaml_load(text, strlen(text), &pod, &e), 0, "%s", err_msg(&e));
    struct slot_wish w;
    if (slot_wish_of(pod, container, nth, &w, &e) < 0)
        return xasprintf("%s: %s", err_kind_name(e.kind), err_msg(&e));
    return xasprintf("%s %uMiB/%u%% %u%% %s", *w.card ? w.card : "any", w.memory_mib,
                     w.memory_percent, w.compute_percent,
                     w.qos < 0 ? "-" : api_qos_policy_names[w.qos]);
}

static void expect(const char *annotations, const char *limits, const char *expected)
{
    auto_free char *containers =
        xasprintf("{name: other}, {name: main, resources: {limits: %s}}", limits);
    auto_free char *text = wish_in(annotations, containers, "main", 0);
    cr_expect_str_eq(text, expected);
}

#define ONE "metax-tech.com/sgpu: '1'"

Test(slot_wish, more_memory_than_a_number_holds_is_refused)
{
    expect("{}", "{" ONE ", koordinator.sh/gpu-memory: 9223372036854775807}",
           "Invalid: a slice takes from 1 to 16777216 MiB of memory, not 8796093022208");
    expect("{}", "{" ONE ", metax-tech.com/vmemory: 9223372036854775807}",
           "Invalid: a slice takes from 1 to 16777216 MiB of memory, not 8796093022208");
    expect("{}", "{" ONE ", koordinator.sh/gpu-memory: 16Ei}",
           "Invalid: .koordinator.sh/gpu-memory: 16Ei is more than 9223372036854775807");
}

Test(slot_wish, without_any_word_a_slot_is_a_whole_cards_worth)
{
    expect("{}", "{" ONE "}", "any 0MiB/100% 100% -");
}

Test(slot_wish, the_containers_requests_say_how_much_in_the_words_of_both_schedulers)
{
    expect("{metax-tech.com/sgpu-qos-policy: fixed-share}",
           "{" ONE ", koordinator.sh/gpu-core: '10', koordinator.sh/gpu-memory: 1Gi}",
           "any 1024MiB/100% 10% fixed-share");
    expect("{}", "{" ONE ", koordinator.sh/gpu-core: 10, koordinator.sh/gpu-memory-ratio: '25'}",
           "any 0MiB/25% 10% -");
    expect("{}",
           "{metax-tech.com/sgpu: '2', koordinator.sh/gpu-core: '50', "
           "koordinator.sh/gpu-memory: 4Gi}",
           "any 2048MiB/100% 25% -");
    expect("{}", "{" ONE ", metax-tech.com/vcore: '30', metax-tech.com/vmemory: '4'}",
           "any 4096MiB/100% 30% -");
    expect("{}", "{" ONE ", metax-tech.com/vmemory: 1000Mi}", "any 1024MiB/100% 100% -");
}

Test(slot_wish, a_scheduler_that_chose_a_card_decides)
{
    expect("{metax-tech.com/gpu-devices-allocated: "
           "'[[{\"uuid\":\"GPU-1\",\"compute\":10,\"vRam\":1024}]]'}",
           "{" ONE ", koordinator.sh/gpu-core: '90'}", "GPU-1 1024MiB/100% 10% -");
    expect(
        "{scheduling.koordinator.sh/device-allocated: "
        "'{\"gpu\":[{\"minor\":0,\"id\":\"GPU-1\",\"resources\":{\"koordinator.sh/gpu-core\":"
        "\"20\",\"koordinator.sh/gpu-memory\":\"2Gi\",\"koordinator.sh/gpu-memory-ratio\":\"3\"}}"
        "]}'}",
        "{" ONE "}", "GPU-1 2048MiB/100% 20% -");
}

Test(slot_wish, each_container_has_its_own_list_and_each_slot_its_device)
{
    static const char two[] =
        "{metax-tech.com/gpu-devices-allocated: '[[{\"uuid\":\"A\"},{\"uuid\":\"B\",\"compute\":5}],"
        "[{\"uuid\":\"C\"}]]'}";
    static const struct {
        const char *container;
        unsigned nth;
        const char *expected;
    } cases[] = {
        {"main", 1, "B 0MiB/100% 5% -"},
        {"second", 0, "C 0MiB/100% 100% -"},
        {"second", 1,
         "NotFound: annotation metax-tech.com/gpu-devices-allocated has no device 1 for "
         "container 1"},
        {"other", 0, "NotFound: the pod has no container other that asks for metax-tech.com/sgpu"},
        {"none", 0, "NotFound: the pod has no container none that asks for metax-tech.com/sgpu"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        auto_free char *text =
            wish_in(two,
                    "{name: other}, {name: main, resources: {limits: {metax-tech.com/sgpu: '2'}}}, "
                    "{name: second, resources: {limits: {" ONE "}}}",
                    cases[i].container, cases[i].nth);
        cr_expect_str_eq(text, cases[i].expected);
    }
}

#define ASKS(name, core, memory)                                                                   \
    "{name: " name ", resources: {limits: {" ONE ", koordinator.sh/gpu-core: '" core               \
    "', koordinator.sh/gpu-memory: " memory "}}}"

Test(slot_wish, containers_that_ask_for_none_may_have_empty_lists)
{
    static const char *const lists[] = {
        "[[{\"uuid\":\"A\",\"compute\":5}],[{\"uuid\":\"B\",\"compute\":5}]]",
        "[[],[],[{\"uuid\":\"A\",\"compute\":5}],[],[{\"uuid\":\"B\",\"compute\":5}]]",
        "[[{\"uuid\":\"A\",\"compute\":5}],[{\"uuid\":\"\"}],[{\"uuid\":\"B\",\"compute\":5}]]",
    };
    static const char containers[] =
        "{name: other}, " ASKS("main", "50", "4Gi") ", {name: more}, " ASKS("second", "20", "2Gi");
    for (size_t i = 0; i < ARRAY_LEN(lists); i++) {
        auto_free char *annotations =
            xasprintf("{metax-tech.com/gpu-devices-allocated: '%s'}", lists[i]);
        auto_free char *first = wish_in(annotations, containers, "main", 0);
        auto_free char *second = wish_in(annotations, containers, "second", 0);
        cr_expect_str_eq(first, "A 4096MiB/100% 5% -", "%s: %s", lists[i], first);
        cr_expect_str_eq(second, "B 2048MiB/100% 5% -", "%s: %s", lists[i], second);
    }
}

/* What Koordinator writes for a pod of two containers with a slot each, in both its annotations. */
static void expect_two(const char *allocated, const char *koordinator, const char *first,
                       const char *second)
{
    static const char containers[] = ASKS("main", "50", "4Gi") ", " ASKS("second", "20", "2Gi");
    auto_free char *own =
        xasprintf("{scheduling.koordinator.sh/device-allocated: '%s'}", koordinator);
    auto_free char *adapted = xasprintf("{metax-tech.com/gpu-devices-allocated: '%s', "
                                        "scheduling.koordinator.sh/device-allocated: '%s'}",
                                        allocated, koordinator);
    const char *const annotations[] = {own, adapted};
    for (size_t i = 0; i < ARRAY_LEN(annotations); i++) {
        auto_free char *main = wish_in(annotations[i], containers, "main", 0);
        auto_free char *other = wish_in(annotations[i], containers, "second", 0);
        cr_expect_str_eq(main, first, "%s: %s", annotations[i], main);
        cr_expect_str_eq(other, second, "%s: %s", annotations[i], other);
    }
}

#define GPU(id, core, memory)                                                                      \
    "{\"minor\":0,\"id\":\"" id "\",\"resources\":{\"koordinator.sh/gpu-core\":\"" core            \
    "\",\"koordinator.sh/gpu-memory\":\"" memory "\"}}"

Test(slot_wish, a_list_for_the_whole_pod_gives_its_devices_to_the_slots_in_turn)
{
    expect_two("[[{\"uuid\":\"A\",\"compute\":35,\"vRam\":3072},"
               "{\"uuid\":\"B\",\"compute\":35,\"vRam\":3072}]]",
               "{\"gpu\":[" GPU("A", "35", "3Gi") "," GPU("B", "35", "3Gi") "]}",
               "A 3072MiB/100% 35% -", "B 3072MiB/100% 35% -");
}

Test(slot_wish, one_device_for_the_whole_pod_is_shared_as_its_containers_ask)
{
    expect_two("[[{\"uuid\":\"A\",\"compute\":70,\"vRam\":6144}]]",
               "{\"gpu\":[" GPU("A", "70", "6Gi") "]}", "A 4096MiB/100% 50% -",
               "A 2048MiB/100% 20% -");
}

Test(slot_wish, what_cannot_be_understood_is_refused_and_never_taken_for_something_else)
{
    static const struct {
        const char *annotations, *limits, *expected;
    } cases[] = {
        {"{metax-tech.com/sgpu-qos-policy: besteffort}", "{" ONE "}",
         "Invalid: annotation metax-tech.com/sgpu-qos-policy: \"besteffort\" is none of "
         "best-effort, fixed-share, burst-share"},
        {"{metax-tech.com/gpu-devices-allocated: '[['}", "{" ONE "}",
         "Invalid: annotation metax-tech.com/gpu-devices-allocated: JSON line 1, column 2: ']' "
         "expected near end of file"},
        {"{metax-tech.com/gpu-devices-allocated: '{}'}", "{" ONE "}",
         "Invalid: annotation metax-tech.com/gpu-devices-allocated must be a list"},
        {"{metax-tech.com/gpu-devices-allocated: '[]'}", "{" ONE "}",
         "NotFound: annotation metax-tech.com/gpu-devices-allocated has no device 0 for container "
         "0"},
        {"{metax-tech.com/gpu-devices-allocated: '[[{\"uuid\":\"A\",\"compute\":\"10\"}]]'}",
         "{" ONE "}",
         "Invalid: annotation metax-tech.com/gpu-devices-allocated: a device needs uuid, and "
         "numbers in compute and vRam"},
        {"{metax-tech.com/gpu-devices-allocated: '[[{\"uuid\":\"A\",\"compute\":101}]]'}",
         "{" ONE "}", "Invalid: a slice takes from 0 to 100 % of compute, not 101"},
        {"{metax-tech.com/gpu-devices-allocated: '[[{\"uuid\":\"A\",\"vRam\":-1}]]'}", "{" ONE "}",
         "Invalid: a slice takes from 1 to 16777216 MiB of memory, not -1"},
        {"{scheduling.koordinator.sh/device-allocated: '{\"rdma\":[]}'}", "{" ONE "}",
         "NotFound: annotation scheduling.koordinator.sh/device-allocated has no gpu 0"},
        {"{}", "{" ONE ", koordinator.sh/gpu-core: ten}",
         "Invalid: .koordinator.sh/gpu-core: \"ten\" is not a quantity"},
        {"{}", "{" ONE ", koordinator.sh/gpu-memory: '0'}",
         "Invalid: a slice takes from 1 to 16777216 MiB of memory, not 0"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++)
        expect(cases[i].annotations, cases[i].limits, cases[i].expected);
}

static unsigned mib_of(const struct slot_wish *w)
{
    struct sgpu_quota q;
    auto_err struct err e = {0};
    cr_assert_eq(slot_quota(w, 65536, &q, &e), 0, "%s", err_msg(&e));
    return q.memory_mib;
}

Test(slot_wish, a_share_of_a_cards_memory_is_rounded_down_to_the_step)
{
    cr_expect_eq(mib_of(&(struct slot_wish){.memory_percent = 100}), 65536);
    cr_expect_eq(mib_of(&(struct slot_wish){.memory_percent = 33}), 21504);
    cr_expect_eq(mib_of(&(struct slot_wish){.memory_mib = 1024, .memory_percent = 33}), 1024);
}

/* ---- an annotation is anybody's ---- */

/* "1024MiB 1%" on a card of 64 GiB, or the error. */
static void expect_given(const char *annotations, const char *containers, const char *container,
                         unsigned nth, const char *expected)
{
    auto_json json_t *pod = NULL;
    auto_err struct err e = {0};
    auto_free char *text =
        xasprintf("metadata: {annotations: %s}\nspec: {containers: [%s]}", annotations, containers);
    cr_assert_eq(yaml_load(text, strlen(text), &pod, &e), 0, "%s", err_msg(&e));
    struct slot_wish w;
    struct sgpu_quota q;
    auto_free char *got = NULL;
    if (slot_wish_of(pod, container, nth, &w, &e) < 0 || slot_quota(&w, 65536, &q, &e) < 0)
        got = xstrdup(err_msg(&e));
    else
        got = xasprintf("%uMiB %u%%", q.memory_mib, q.compute_percent);
    cr_expect_str_eq(got, expected, "%s: %s", annotations, got);
}

#define ALLOCATED(list) "{metax-tech.com/gpu-devices-allocated: '" list "'}"
#define OWN(device)     "{scheduling.koordinator.sh/device-allocated: '{\"gpu\":[" device "]}'}"
#define WHOLE           "[[{\"uuid\":\"GPU-victim\",\"compute\":100,\"vRam\":65536}]]"
#define LITTLE                                                                                     \
    "{name: main, resources: {limits: {" ONE                                                       \
    ", metax-tech.com/vcore: '1', metax-tech.com/vmemory: '1'}}}"
#define REMEDY ": let the scheduler write the annotation, or request more"

Test(slot_wish, an_annotation_gives_no_more_than_the_container_requests)
{
    static const char shares[] =
        "{name: main, resources: {limits: {" ONE
        ", koordinator.sh/gpu-core: '10', koordinator.sh/gpu-memory-ratio: '33'}}}";
    static const char short_form[] =
        "{name: main, resources: {limits: {" ONE ", koordinator.sh/gpu: '10'}}}";
    expect_given("{}", LITTLE, "main", 0, "1024MiB 1%");
    expect_given(ALLOCATED(WHOLE), LITTLE, "main", 0,
                 "annotation metax-tech.com/gpu-devices-allocated gives 100 % of compute, the "
                 "container requests 1 %" REMEDY);
    expect_given(ALLOCATED("[[{\"uuid\":\"A\",\"compute\":1,\"vRam\":65536}]]"), LITTLE, "main", 0,
                 "annotation metax-tech.com/gpu-devices-allocated gives 65536 MiB of memory, the "
                 "container requests 1024 MiB" REMEDY);
    expect_given(OWN(GPU("A", "100", "64Gi")), LITTLE, "main", 0,
                 "annotation scheduling.koordinator.sh/device-allocated gives 100 % of compute, "
                 "the container requests 1 %" REMEDY);
    expect_given(OWN(GPU("A", "1", "64Gi")), LITTLE, "main", 0,
                 "annotation scheduling.koordinator.sh/device-allocated gives 65536 MiB of memory, "
                 "the container requests 1024 MiB" REMEDY);
    expect_given(OWN("{\"id\":\"A\",\"resources\":{\"koordinator.sh/gpu-core\":\"1\","
                     "\"koordinator.sh/gpu-memory-ratio\":\"100\"}}"),
                 LITTLE, "main", 0,
                 "annotation scheduling.koordinator.sh/device-allocated gives 65536 MiB of memory, "
                 "the container requests 1024 MiB" REMEDY);
    expect_given(OWN(GPU("A", "10", "22Gi")), shares, "main", 0,
                 "annotation scheduling.koordinator.sh/device-allocated gives 22528 MiB of memory, "
                 "the container requests 21632 MiB" REMEDY);
    expect_given(OWN(GPU("A", "11", "1Gi")), short_form, "main", 0,
                 "annotation scheduling.koordinator.sh/device-allocated gives 11 % of compute, the "
                 "container requests 10 %" REMEDY);
}

/* Schedulers count in bytes where the container said a share, and leave out what is the default. */
Test(slot_wish, what_schedulers_round_or_leave_out_is_no_more_than_requested)
{
    static const char shares[] =
        "{name: main, resources: {limits: {" ONE
        ", koordinator.sh/gpu-core: '10', koordinator.sh/gpu-memory-ratio: '33'}}}";
    static const char odd[] = "{name: main, resources: {limits: {" ONE
                              ", metax-tech.com/vcore: '10', metax-tech.com/vmemory: 1000Mi}}}";
    expect_given(OWN(GPU("A", "10", "22677200895")), shares, "main", 0, "21632MiB 10%");
    expect_given(ALLOCATED("[[{\"uuid\":\"A\",\"compute\":10,\"vRam\":1000}]]"), odd, "main", 0,
                 "1024MiB 10%");
    expect_given(ALLOCATED("[[{\"uuid\":\"A\",\"compute\":10}]]"), odd, "main", 0, "1024MiB 10%");
    expect_given(ALLOCATED("[[{\"uuid\":\"A\"}]]"), odd, "main", 0, "1024MiB 10%");
    expect_given(ALLOCATED("[[{\"uuid\":\"A\",\"compute\":5,\"vRam\":128}]]"), odd, "main", 0,
                 "128MiB 5%");
    expect_given(ALLOCATED(WHOLE), "{name: main, resources: {limits: {" ONE "}}}", "main", 0,
                 "65536MiB 100%");
}

/* An even part of what a pod requests is for pods whose devices are all alike. */
Test(slot_wish, a_pods_devices_give_together_no_more_than_the_pod_requests)
{
    static const char two[] = ASKS("main", "50", "4Gi") ", " ASKS("second", "20", "2Gi");
    expect_given(OWN(GPU("A", "35", "3Gi") "," GPU("B", "35", "3Gi")), two, "second", 0,
                 "3072MiB 35%");
    expect_given(OWN(GPU("A", "50", "4Gi") "," GPU("B", "20", "2Gi")), two, "second", 0,
                 "2048MiB 20%");
    expect_given(OWN(GPU("A", "50", "4Gi") "," GPU("B", "35", "3Gi")), two, "second", 0,
                 "annotation scheduling.koordinator.sh/device-allocated gives 35 % of compute, the "
                 "container requests 20 %" REMEDY);
    expect_given(OWN(GPU("A", "36", "3Gi") "," GPU("B", "36", "3Gi")), two, "second", 0,
                 "annotation scheduling.koordinator.sh/device-allocated gives 36 % of compute, the "
                 "container requests 35 %" REMEDY);
}
