/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <string.h>

#include "base/xalloc.h"
#include "base/yaml.h"

#include "nodeagent/slots/share_wish.h"

/* A pod of an init container and a container main; each %s is a list of resources, or of
 * annotations. */
static json_t *pod_of(const char *annotations, const char *resources)
{
    json_t *pod = NULL;
    auto_err struct err e = {0};
    auto_free char *text = xasprintf(
        "metadata: {name: a, annotations: {%s}}\n"
        "spec: {initContainers: [{name: init, resources: {limits: {nvidia.com/gpu: 1}}}],\n"
        "       containers: [{name: main, resources: {limits: {%s}}}]}\n",
        annotations, resources);
    cr_assert_eq(yaml_load(text, strlen(text), &pod, &e), 0, "%s", err_msg(&e));
    return pod;
}

static int wish_of(const char *annotations, const char *resources, size_t n_slots,
                   struct share_wish *ret, struct err *e)
{
    auto_json json_t *pod = pod_of(annotations, resources);
    return share_wish_of(pod, "main", SLOT_POOL_SHARE, n_slots, ret, e);
}

static void expect_refused(const char *annotations, const char *resources, size_t n_slots,
                           const char *text)
{
    auto_share_wish struct share_wish w = {0};
    auto_err struct err e = {0};
    cr_expect_eq(wish_of(annotations, resources, n_slots, &w, &e), -ERR_INVALID);
    cr_expect(strstr(err_msg(&e), text), "%s", err_msg(&e));
}

#define RECORD(shares)                                                                             \
    "gpu.cleave.dev/allocation: '{\"v\":1,\"c\":[{\"n\":\"main\",\"s\":[" shares "]}]}'"
#define PART "nvidia.com/gpu: 1, nvidia.com/gpumem: 3000, nvidia.com/gpucores: 30"

Test(share_wish, without_sizes_a_share_is_a_whole_card)
{
    auto_share_wish struct share_wish w = {0};
    cr_assert_eq(wish_of("", "nvidia.com/gpu: 2", 2, &w, NULL), 0);
    cr_expect(w.ask.count == 2 && !w.ask.memory_mib && w.ask.memory_percent == 100);
    cr_expect(w.ask.compute == 100 && !w.given);
}

Test(share_wish, resources_say_how_much_and_annotations_which_cards)
{
    auto_share_wish struct share_wish w = {0};
    cr_assert_eq(wish_of("nvidia.com/use-gputype: A100, hami.io/gpu-scheduler-policy: binpack",
                         PART, 1, &w, NULL),
                 0);
    cr_expect(w.ask.memory_mib == 3000 && w.ask.compute == 30);
    cr_expect_str_eq(w.cards.use_models, "A100");
    cr_expect(w.cards.n_policies == 1 && w.cards.policies[0] == FRACTION_BINPACK);
}

Test(share_wish, the_schedulers_record_names_cards_and_sizes)
{
    auto_share_wish struct share_wish w = {0};
    cr_assert_eq(wish_of(RECORD("{\"u\":\"GPU-1\",\"m\":2000,\"c\":20}"), PART, 1, &w, NULL), 0);
    cr_assert(w.given);
    cr_expect_str_eq(w.given[0].card, "GPU-1");
    cr_expect(w.given[0].memory_mib == 2000 && w.given[0].percent == 20);
}

Test(share_wish, a_record_gives_no_more_than_the_container_asks_for)
{
    expect_refused(RECORD("{\"u\":\"GPU-1\",\"m\":3001,\"c\":30}"), PART, 1,
                   "gives 3001 MiB of memory, and the container asks for 3000");
    expect_refused(RECORD("{\"u\":\"GPU-1\",\"m\":3000,\"c\":31}"), PART, 1,
                   "gives 31 % of compute, and the container asks for 30");
    expect_refused(RECORD("{\"u\":\"GPU-1\",\"m\":3000},{\"u\":\"GPU-2\",\"m\":3000}"), PART, 1,
                   "2 shares, and it asks for 1");
    expect_refused(RECORD("{\"u\":\"GPU-1\",\"m\":9},{\"u\":\"GPU-1\",\"m\":9}"),
                   "nvidia.com/gpu: 2, nvidia.com/gpumem: 9", 2, "GPU-1");
}

Test(share_wish, a_record_of_other_containers_gives_this_one_nothing)
{
    expect_refused("gpu.cleave.dev/allocation: "
                   "'{\"v\":1,\"c\":[{\"n\":\"other\",\"s\":[{\"u\":\"GPU-1\",\"m\":1}]}]}'",
                   PART, 1, "does not mention container main");
    auto_share_wish struct share_wish w = {0};
    cr_expect_lt(wish_of("gpu.cleave.dev/allocation: '{'", PART, 1, &w, NULL), 0);
}

Test(share_wish, what_cannot_be_meant_is_refused)
{
    expect_refused("", PART, 2, "asks for 1 shares and was granted 2");
    expect_refused("", "nvidia.com/gpu: 1, nvidia.com/gpumem: 3Gi", 1, "counts MiB");
    expect_refused("nvidia.com/vgpu-mode: mig", PART, 1, "nvidia.com/vgpu-mode");
    expect_refused("hami.io/gpu-scheduler-policy: best", PART, 1, "best");
}

Test(share_wish, each_container_asks_for_itself)
{
    auto_json json_t *pod = pod_of("", PART);
    auto_share_wish struct share_wish w = {0};
    cr_assert_eq(share_wish_of(pod, "init", SLOT_POOL_SHARE, 1, &w, NULL), 0);
    cr_expect_eq(w.ask.memory_percent, 100);
    cr_expect_eq(share_wish_of(pod, "none", SLOT_POOL_SHARE, 1, &w, NULL), -ERR_NOT_FOUND);
}

/* --- Koordinator's scheduler --- */

#define CHOSEN(cards) "scheduling.koordinator.sh/device-allocated: '{\"gpu\":[" cards "]}'"
#define CARD_1        "{\"minor\":0,\"id\":\"GPU-1\"}"
#define CARD_2        "{\"minor\":1,\"id\":\"GPU-2\"}"
#define KOORD                                                                                      \
    "gpu.cleave.dev/share: 1, koordinator.sh/gpu-core: 30, koordinator.sh/gpu-memory: 3000Mi"

static int koordinators_wish_of(const char *annotations, const char *resources, size_t n_slots,
                                struct share_wish *ret, struct err *e)
{
    auto_json json_t *pod = pod_of(annotations, resources);
    return share_wish_of(pod, "main", SLOT_POOL_KOORDINATOR, n_slots, ret, e);
}

Test(share_wish, its_words_say_how_much_and_its_annotation_which_cards)
{
    auto_share_wish struct share_wish w = {0};
    cr_assert_eq(koordinators_wish_of(CHOSEN(CARD_1), KOORD, 1, &w, NULL), 0);
    cr_expect(w.ask.memory_mib == 3000 && w.ask.compute == 30);
    cr_assert(w.given);
    cr_expect_str_eq(w.given[0].card, "GPU-1");
    cr_expect_eq(w.given[0].memory_mib, 0, "as much as the container asks for");
    cr_expect_str_eq(w.said_by, "scheduling.koordinator.sh/device-allocated");
}

Test(share_wish, without_its_annotation_the_pods_own_wishes_count)
{
    auto_share_wish struct share_wish w = {0};
    cr_assert_eq(koordinators_wish_of("nvidia.com/use-gputype: A100", KOORD, 1, &w, NULL), 0);
    cr_expect_not(w.given);
    cr_expect_str_eq(w.cards.use_models, "A100");
}

Test(share_wish, its_annotation_chooses_the_cards_of_pods_in_other_words_too)
{
    auto_share_wish struct share_wish w = {0};
    cr_assert_eq(wish_of(CHOSEN(CARD_1 "," CARD_2), "nvidia.com/gpu: 2", 2, &w, NULL), 0);
    cr_assert(w.given);
    cr_expect_str_eq(w.given[0].card, "GPU-1");
    cr_expect_str_eq(w.given[1].card, "GPU-2");
}

Test(share_wish, a_record_of_cleave_schedulers_is_not_for_its_words)
{
    auto_share_wish struct share_wish w = {0};
    cr_assert_eq(koordinators_wish_of(RECORD("{\"u\":\"GPU-1\",\"m\":2000,\"c\":20}"), KOORD, 1, &w,
                                      NULL),
                 0);
    cr_expect_not(w.given);
}

Test(share_wish, one_card_is_not_given_to_a_container_twice)
{
    auto_share_wish struct share_wish w = {0};
    auto_err struct err e = {0};
    cr_expect_eq(koordinators_wish_of(CHOSEN(CARD_1),
                                      "gpu.cleave.dev/share: 2, koordinator.sh/gpu: 200", 2, &w,
                                      &e),
                 -ERR_INVALID);
    cr_expect(strstr(err_msg(&e), "GPU-1, which is none, or given twice"), "%s", err_msg(&e));
}

Test(share_wish, a_container_asks_in_one_kind_of_words)
{
    auto_share_wish struct share_wish w = {0};
    auto_err struct err e = {0};
    expect_refused("", PART ", gpu.cleave.dev/share: 1", 1,
                   "asks for nvidia.com/gpu and for gpu.cleave.dev/share: write one of them");
    cr_expect_eq(koordinators_wish_of("", KOORD ", nvidia.com/gpu: 1", 1, &w, &e), -ERR_INVALID);
}

/* --- Whether the container wants a limit --- */

static void wish_with(const char *env, struct share_wish *ret)
{
    auto_free char *text = xasprintf(
        "spec: {containers: [{name: main, resources: {limits: {" PART "}}, env: [%s]},\n"
        "                    {name: other, env: [{name: CUDA_DISABLE_CONTROL, value: 'true'}]}]}\n",
        env);
    auto_json json_t *pod = NULL;
    auto_err struct err e = {0};
    cr_assert_eq(yaml_load(text, strlen(text), &pod, &e), 0, "%s", err_msg(&e));
    cr_assert_eq(share_wish_of(pod, "main", SLOT_POOL_SHARE, 1, ret, &e), 0, "%s", err_msg(&e));
}

static bool is_unlimited(const char *env)
{
    auto_share_wish struct share_wish w = {0};
    wish_with(env, &w);
    return w.is_unlimited;
}

static bool is_capped(const char *env)
{
    auto_share_wish struct share_wish w = {0};
    wish_with(env, &w);
    return w.is_capped;
}

Test(share_wish, a_container_says_in_hamis_words_that_it_wants_no_limit)
{
    cr_expect_not(is_unlimited(""));
    cr_expect(is_unlimited("{name: A, value: b}, {name: CUDA_DISABLE_CONTROL, value: 'true'}"));
    cr_expect(is_unlimited("{name: CUDA_DISABLE_CONTROL, value: '1'}"));
    cr_expect_not(is_unlimited("{name: CUDA_DISABLE_CONTROL, value: 'false'}"));
    cr_expect_not(is_unlimited("{name: CUDA_DISABLE_CONTROL, value: 'yes'}"),
                  "to Go it is no truth");
    cr_expect_not(is_unlimited("{name: CUDA_DISABLE_CONTROL, valueFrom: {fieldRef: {}}}"));
    cr_expect_not(is_unlimited("3, {name: 4, value: 'true'}"));
}

Test(share_wish, a_container_says_in_hamis_words_that_it_wants_no_more_compute_than_it_asks_for)
{
    cr_expect_not(is_capped(""));
    cr_expect(is_capped("{name: GPU_CORE_UTILIZATION_POLICY, value: force}"));
    cr_expect(is_capped("{name: GPU_CORE_UTILIZATION_POLICY, value: FORCE}"));
    cr_expect_not(is_capped("{name: GPU_CORE_UTILIZATION_POLICY, value: default}"));
    cr_expect_not(is_capped("{name: GPU_CORE_UTILIZATION_POLICY, value: disable}"));
    cr_expect_not(is_capped("{name: GPU_CORE_UTILIZATION_POLICY, valueFrom: {fieldRef: {}}}"));
    cr_expect_not(is_capped("{name: GPU_CORE_UTILIZATION_POLICY, value: force},"
                            "{name: GPU_CORE_UTILIZATION_POLICY, value: default}"),
                  "the last one holds");
}
