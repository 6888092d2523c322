/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <string.h>

#include "base/auto.h"
#include "base/jx.h"
#include "base/xalloc.h"

#include "scheduler/pod_defaults.h"

#define SIZED(more) "{\"resources\": {\"limits\": {\"nvidia.com/gpumem\": \"3000\"" more "}}}"
#define TO_US       "{\"op\":\"add\",\"path\":\"/spec/schedulerName\",\"value\":\"cleave-scheduler\"}"
#define ONE(where, kind)                                                                           \
    "{\"op\":\"add\",\"path\":\"/spec/" where "/resources/" kind                                   \
    "/nvidia.com~1gpu\",\"value\":\"1\"}"

static const struct pod_defaults_words ours_alone;
static const struct pod_defaults_words gpushares = {.gpushare = true};
static const struct pod_defaults_words koordinators = {.koordinator = true};

/* The patch of a pod with these members as text; "": none, or what is wrong. Caller frees. */
static char *patch_of(const char *members, struct pod_defaults_words words)
{
    auto_err struct err e = {0};
    auto_free char *text = xasprintf("{%s}", members);
    auto_json json_t *pod = json_loads(text, 0, NULL);
    auto_json json_t *patch = NULL;
    cr_assert(pod, "%s", text);
    if (pod_defaults_patch(pod, words, &patch, &e) < 0)
        return xstrdup(err_msg(&e));
    return patch ? json_dumps(patch, JSON_COMPACT) : xstrdup("");
}

static void expect_patch(const char *members, const char *patch)
{
    auto_free char *got = patch_of(members, ours_alone);
    cr_expect_str_eq(got, patch, "%s: %s", members, got);
}

static void expect_gpushare(const char *limits, const char *patch)
{
    auto_free char *members = xasprintf("\"spec\": {\"schedulerName\": \"mine\", \"containers\": "
                                        "[{\"resources\": {\"limits\": {%s}}}]}",
                                        limits);
    auto_free char *got = patch_of(members, gpushares);
    cr_expect_str_eq(got, patch, "%s: %s", limits, got);
    auto_free char *off = patch_of(members, ours_alone);
    auto_free char *ours = patch_of(members, strstr(limits, "nvidia") ? gpushares : ours_alone);
    cr_expect_str_eq(off, ours, "where gpushare's pods are not ours: %s", off);
}

Test(pod_defaults, gpushares_gib_are_one_share_of_so_many)
{
#define GIB(mib)                                                                                   \
    "[" ONE("containers/0",                                                                        \
            "limits") ",{\"op\":\"add\",\"path\":\"/spec/containers/0/resources/limits/"           \
                      "nvidia.com~1gpumem\",\"value\":\"" mib "\"}]"
    expect_gpushare("\"aliyun.com/gpu-mem\": \"3\"", GIB("3072"));
    expect_gpushare("\"aliyun.com/gpu-mem\": 2", GIB("2048"));
    expect_gpushare("\"aliyun.com/gpu-mem\": \"16383\"", GIB("16776192"));
}

Test(pod_defaults, words_of_gpushare_that_do_not_count_change_nothing)
{
    static const char *const limits[] = {"0", "-1", "\"none\"", "\"16384\"", "[]"};
    for (size_t i = 0; i < ARRAY_LEN(limits); i++) {
        auto_free char *text = xasprintf("\"aliyun.com/gpu-mem\": %s", limits[i]);
        expect_gpushare(text, "");
    }
    expect_gpushare("\"aliyun.com/gpu-mem\": 2, \"nvidia.com/gpu\": 1", "");
    expect_gpushare("\"aliyun.com/gpu-mem\": 2, \"nvidia.com/gpucores\": 30",
                    "[" ONE("containers/0", "limits") "]");
}

Test(pod_defaults, a_size_alone_is_one_share_for_the_scheduler_that_knows_cards)
{
    expect_patch("\"spec\": {\"containers\": [" SIZED("") "]}",
                 "[" TO_US "," ONE("containers/0", "limits") "]");
    expect_patch("\"spec\": {\"schedulerName\": \"default-scheduler\", \"nodeName\": \"\", "
                 "\"containers\": [{}, " SIZED("") "]}",
                 "[" TO_US "," ONE("containers/1", "limits") "]");
}

Test(pod_defaults, each_size_counts)
{
    static const char *const sizes[] = {"nvidia.com/gpumem", "nvidia.com/gpumem-percentage",
                                        "nvidia.com/gpucores"};
    for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
        auto_free char *members =
            xasprintf("\"spec\": {\"schedulerName\": \"mine\", \"containers\": [{\"resources\": "
                      "{\"limits\": {\"%s\": 30}}}]}",
                      sizes[i]);
        expect_patch(members, "[" ONE("containers/0", "limits") "]");
    }
}

Test(pod_defaults, requests_get_the_share_where_there_are_some)
{
    expect_patch(
        "\"spec\": {\"containers\": [{\"resources\": {\"limits\": {\"nvidia.com/gpucores\": \"30\"}, "
        "\"requests\": {\"nvidia.com/gpucores\": \"30\"}}}]}",
        "[" TO_US "," ONE("containers/0", "limits") "," ONE("containers/0", "requests") "]");
    expect_patch(
        "\"spec\": {\"containers\": [{\"resources\": {\"limits\": {\"nvidia.com/gpucores\": \"30\", "
        "\"nvidia.com/gpu\": 2}, \"requests\": {\"cpu\": 1, \"nvidia.com/gpu\": 2}}}]}",
        "[" TO_US "]");
}

Test(pod_defaults, init_containers_get_theirs_after_the_others)
{
    expect_patch("\"spec\": {\"initContainers\": [" SIZED("") "], \"containers\": [" SIZED("") "]}",
                 "[" TO_US
                 "," ONE("containers/0", "limits") "," ONE("initContainers/0", "limits") "]");
    expect_patch("\"spec\": {\"nodeName\": \"n\", \"initContainers\": [{}, " SIZED(
                     "") "], \"containers\": [{}]}",
                 "[" ONE("initContainers/1", "limits") "]");
}

Test(pod_defaults, whoever_names_scheduler_or_node_keeps_it)
{
    expect_patch("\"spec\": {\"schedulerName\": \"hami-scheduler\", \"containers\": [" SIZED(
                     ", \"nvidia.com/gpu\": 1") "]}",
                 "");
    expect_patch("\"spec\": {\"nodeName\": \"n\", \"containers\": [" SIZED(
                     ", \"nvidia.com/gpu\": 1") "]}",
                 "");
    expect_patch("\"spec\": {\"containers\": [" SIZED(", \"nvidia.com/gpu\": 1") "]}",
                 "[" TO_US "]");
}

Test(pod_defaults, whole_cards_are_for_the_scheduler_that_knows_them)
{
    expect_patch(
        "\"spec\": {\"containers\": [{}, {\"resources\": {\"limits\": {\"nvidia.com/gpu\": "
        "\"1\"}}}]}",
        "[" TO_US "]");
}

/* The patch of a pod that names its scheduler, with these limits and `more` members. */
static void expect_clamped(const char *more, const char *limits, const char *patch)
{
    auto_free char *members =
        xasprintf("%s \"spec\": {\"schedulerName\": \"mine\", \"containers\": [{\"name\": \"m\", "
                  "\"resources\": {\"limits\": {\"nvidia.com/gpu\": 1, %s}}}]}",
                  more, limits);
    expect_patch(members, patch);
}

#define AT_LIMITS "\"path\":\"/spec/containers/0/resources/limits/nvidia.com~1"
#define NOTE(text)                                                                                 \
    "{\"op\":\"add\",\"path\":\"/metadata/annotations\",\"value\":{\"gpu.cleave.dev/"              \
    "clamped\":\"container m: nvidia.com/" text "\"}}"

Test(pod_defaults, values_that_count_as_less_are_written_as_that)
{
    expect_clamped("", "\"nvidia.com/gpucores\": \"150\"",
                   "[{\"op\":\"add\"," AT_LIMITS
                   "gpucores\",\"value\":\"100\"}," NOTE("gpucores counts as 100, not 150") "]");
    expect_clamped("", "\"nvidia.com/gpumem-percentage\": \"1k\"",
                   "[{\"op\":\"add\"," AT_LIMITS "gpumem-percentage\",\"value\":\"100\"}," NOTE(
                       "gpumem-percentage counts as 100, not 1000") "]");
    expect_clamped("", "\"nvidia.com/gpumem\": 1, \"nvidia.com/gpumem-percentage\": 150",
                   "[{\"op\":\"remove\"," AT_LIMITS "gpumem-percentage\"}," NOTE(
                       "gpumem-percentage does not count beside nvidia.com/gpumem") "]");
    expect_clamped("", "\"nvidia.com/gpucores\": 100, \"nvidia.com/gpumem-percentage\": 100", "");
    expect_clamped("", "\"nvidia.com/gpumem\": 0, \"nvidia.com/gpumem-percentage\": 50", "");
    expect_clamped("", "\"nvidia.com/gpucores\": \"x\"", "");
}

Test(pod_defaults, what_was_clamped_stands_beside_the_pods_annotations)
{
    expect_clamped("\"metadata\": {\"annotations\": {}},", "\"nvidia.com/gpucores\": 101",
                   "[{\"op\":\"add\"," AT_LIMITS "gpucores\",\"value\":\"100\"},"
                   "{\"op\":\"add\",\"path\":\"/metadata/annotations/gpu.cleave.dev~1clamped\","
                   "\"value\":\"container m: nvidia.com/gpucores counts as 100, not 101\"}]");
}

Test(pod_defaults, a_note_of_more_than_a_pod_may_have_names_nothing)
{
    auto_json json_t *patch = NULL;
    auto_json json_t *pod = json_pack("{s:{s:[]}}", "spec", "containers");
    json_t *containers = json_object_get(json_object_get(pod, "spec"), "containers");
    for (int i = 0; i < POD_DEFAULTS_MAX_CONTAINERS; i++)
        (void)json_array_append_new(containers, json_pack("{s:{s:{s:i}}}", "resources", "limits",
                                                          "nvidia.com/gpucores", INT32_MAX));
    cr_assert_eq(pod_defaults_patch(pod, ours_alone, &patch, NULL), 0);
    const json_t *last = json_array_get(patch, json_array_size(patch) - 1);
    const char *note = JX_STR_AT(last, "value", "gpu.cleave.dev/clamped");
    cr_expect_str_eq(note ? note : "none", "more than can be listed here");
}

Test(pod_defaults, other_pods_stay_as_they_are)
{
    expect_patch("\"spec\": {\"containers\": []}", "");
    expect_patch(
        "\"spec\": {\"containers\": [{\"resources\": {\"limits\": {\"nvidia.com/gpu\": 0}}}]}", "");
    expect_patch(
        "\"spec\": {\"containers\": [{\"resources\": {\"requests\": {\"nvidia.com/gpumem\": 1}}}]}",
        "");
    expect_patch(
        "\"metadata\": {\"labels\": {\"hami.io/webhook\": \"ignore\"}}, \"spec\": {\"containers\": [" SIZED(
            "") "]}",
        "");
    expect_patch(
        "\"metadata\": {\"labels\": {\"hami.io/webhook\": \"on\"}}, \"spec\": {\"containers\": [" SIZED(
            "") "]}",
        "[" TO_US "," ONE("containers/0", "limits") "]");
}

Test(pod_defaults, null_is_as_good_as_nothing)
{
    expect_patch(
        "\"metadata\": null, \"spec\": {\"initContainers\": null, \"containers\": [{\"resources\": null}, "
        "{\"resources\": {\"limits\": {\"nvidia.com/gpumem\": 1}, \"requests\": null}}]}",
        "[" TO_US "," ONE("containers/1", "limits") "]");
}

Test(pod_defaults, what_has_not_the_shape_of_a_pod_is_refused_by_name)
{
    expect_patch("", "the pod has no spec");
    expect_patch("\"spec\": []", "the pod has no spec");
    expect_patch("\"spec\": {\"containers\": {}}", "spec.containers of the pod is no list");
    expect_patch("\"spec\": {\"containers\": [{}, 1]}",
                 "spec.containers[1] of the pod is no object");
    expect_patch("\"spec\": {\"initContainers\": [{\"resources\": []}]}",
                 "spec.initContainers[0].resources of the pod is no object");
    expect_patch("\"spec\": {\"containers\": [{\"resources\": {\"limits\": \"x\"}}]}",
                 "spec.containers[0].resources.limits of the pod is no object");
}

Test(pod_defaults, more_containers_than_an_api_server_stores_are_refused)
{
    auto_err struct err e = {0};
    auto_json json_t *patch = NULL;
    auto_json json_t *pod = json_pack("{s:{s:[]}}", "spec", "containers");
    json_t *containers = json_object_get(json_object_get(pod, "spec"), "containers");
    for (int i = 0; i < POD_DEFAULTS_MAX_CONTAINERS; i++)
        (void)json_array_append_new(containers, json_object());
    cr_expect_eq(pod_defaults_patch(pod, ours_alone, &patch, &e), 0, "%s", err_msg(&e));
    (void)json_array_append_new(containers, json_object());
    cr_expect_eq(pod_defaults_patch(pod, ours_alone, &patch, &e), -ERR_TOO_LARGE);
    cr_expect(strstr(err_msg(&e), "spec.containers of the pod has more than 2048"));
}

/* A container's limits, and how many slots it gets; "": none. */
static void expect_slots(const char *limits, const char *n)
{
    auto_free char *members = xasprintf("\"spec\": {\"schedulerName\": \"mine\", \"containers\": "
                                        "[{\"resources\": {\"limits\": {%s}}}]}",
                                        limits);
    auto_free char *want =
        *n ? xasprintf("[{\"op\":\"add\",\"path\":\"/spec/containers/0/resources/"
                       "limits/gpu.cleave.dev~1share\",\"value\":\"%s\"}]",
                       n)
           : xstrdup("");
    auto_free char *got = patch_of(members, koordinators);
    cr_expect_str_eq(got, want, "%s: %s", limits, got);
    auto_free char *off = patch_of(members, gpushares);
    cr_expect_str_eq(off, "", "where its pods are not ours: %s", off);
}

Test(pod_defaults, a_pod_in_koordinators_words_gets_a_slot_for_each_card)
{
    expect_slots("\"koordinator.sh/gpu\": \"50\"", "1");
    expect_slots("\"koordinator.sh/gpu\": 400", "4");
    expect_slots("\"koordinator.sh/gpu-core\": \"30\", \"koordinator.sh/gpu-memory\": \"8Gi\"",
                 "1");
    expect_slots("\"koordinator.sh/gpu-memory\": \"8Gi\"", "1");
    expect_slots("\"koordinator.sh/gpu.shared\": 2, \"koordinator.sh/gpu-memory-ratio\": 100", "2");
    expect_slots("\"koordinator.sh/gpu-core\": 100, \"koordinator.sh/gpu-memory-ratio\": 200", "2");
    expect_slots("\"koordinator.sh/gpu-core\": 200, \"koordinator.sh/gpu-memory\": \"8Gi\"", "1");
}

Test(pod_defaults, words_of_koordinators_that_are_not_of_nvidias_cards_change_nothing)
{
    expect_slots("\"koordinator.sh/gpu.shared\": 1", "");
    expect_slots("\"koordinator.sh/gpu\": 50, \"metax-tech.com/sgpu\": 1", "");
    expect_slots("\"koordinator.sh/gpu\": 50, \"nvidia.com/gpu\": 1", "");
    expect_slots("\"koordinator.sh/gpu\": 50, \"gpu.cleave.dev/share\": 1", "");
    expect_slots("\"koordinator.sh/gpu-memory\": 50, \"koordinator.sh/huawei-npu-core\": 1", "");
    expect_slots("\"koordinator.sh/gpu\": 50, \"cambricon.com/mlu.smlu.vcore\": 1", "");
    expect_slots("\"koordinator.sh/gpu\": 0", "");
    expect_slots("\"koordinator.sh/gpu-core\": 50", "");
    expect_slots("\"koordinator.sh/gpu\": \"many\"", "");
    expect_slots("\"koordinator.sh/gpu\": 102500", "");
}
