/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <string.h>

#include "base/auto.h"
#include "base/jx.h"
#include "base/xalloc.h"

#include "interop/hami_pod.h"

static json_t *pod_with(const char *annotations)
{
    json_t *pod = NULL;
    auto_free char *text =
        xasprintf("{\"metadata\": {\"annotations\": {%s}}, \"spec\": {\"initContainers\": "
                  "[{\"name\": \"first\"}], \"containers\": [{\"name\": \"main\"}, {\"name\": "
                  "\"log\"}, {\"name\": \"side\"}]}}",
                  annotations);
    cr_assert_eq(jx_parse(text, strlen(text), 1 << 16, &pod, NULL), 0, "%s", annotations);
    return pod;
}

/* --- Wishes --- */

Test(hami_pod, without_annotations_nothing_is_wished)
{
    auto_json json_t *pod = pod_with("");
    struct hami_wish w;
    cr_assert_eq(hami_wish_of(pod, &w, NULL), 0);
    cr_expect_null(w.cards.use_models);
    cr_expect_eq(w.cards.n_policies, 0);
    cr_expect_eq(w.nodes, HAMI_NODE_UNSET);
    cr_expect_eq(w.mode, HAMI_MODE_UNSET);
    cr_expect_not(w.cards.one_numa);
}

Test(hami_pod, each_wish_is_read)
{
    auto_json json_t *pod =
        pod_with("\"nvidia.com/use-gputype\": \"A100,V100\", \"nvidia.com/nouse-gpuuuid\": "
                 "\"GPU-1\", \"nvidia.com/numa-bind\": \"true\", \"nvidia.com/vgpu-mode\": "
                 "\"hami-core\", \"hami.io/node-scheduler-policy\": \"spread\", "
                 "\"hami.io/gpu-scheduler-policy\": \"numa,binpack,numa\", "
                 "\"hami.io/device-scoring-weights\": \"memory=3,slot=1,core=0\"");
    struct hami_wish w;
    cr_assert_eq(hami_wish_of(pod, &w, NULL), 0);
    cr_expect_str_eq(w.cards.use_models, "A100,V100");
    cr_expect_str_eq(w.cards.no_uuids, "GPU-1");
    cr_expect(w.cards.one_numa);
    cr_expect_eq(w.mode, HAMI_MODE_CORE);
    cr_expect_eq(w.nodes, HAMI_NODE_SPREAD);
    cr_assert_eq(w.cards.n_policies, 2);
    cr_expect_eq(w.cards.policies[0], FRACTION_NUMA);
    cr_expect_eq(w.cards.policies[1], FRACTION_BINPACK);
    cr_expect_eq(w.cards.weights.memory, 3);
    cr_expect_eq(w.cards.weights.shares, 1);
    cr_expect_eq(w.cards.weights.percent, 0);
}

static const struct {
    const char *annotation, *error; /* a part of it */
} odd[] = {
    {"\"hami.io/gpu-scheduler-policy\": \"binpak\"",
     "annotation hami.io/gpu-scheduler-policy: \"binpak\" is none of binpack, spread, numa"},
    {"\"hami.io/gpu-scheduler-policy\": \"numa,,spread\"", "\"\" is none of"},
    {"\"hami.io/node-scheduler-policy\": \"topology\"", "is none of binpack, spread"},
    {"\"nvidia.com/vgpu-mode\": \"hami\"", "is none of hami-core, mig, mps"},
    {"\"nvidia.com/numa-bind\": \"yes\"", "is none of true, false"},
    {"\"hami.io/device-scoring-weights\": \"slot=1,core=1\"", "which has all three"},
    {"\"hami.io/device-scoring-weights\": \"slot=1,core=1,memory\"", "the form slot=1"},
    {"\"hami.io/device-scoring-weights\": \"slot=1,core=1,memory=-1\"", "the form slot=1"},
    {"\"hami.io/device-scoring-weights\": \"slot=1,core=1,disk=1\"", "the form slot=1"},
};

Test(hami_pod, a_wish_that_cannot_be_meant_is_refused_with_what_is_allowed)
{
    for (size_t i = 0; i < ARRAY_LEN(odd); i++) {
        auto_json json_t *pod = pod_with(odd[i].annotation);
        auto_err struct err e = {0};
        struct hami_wish w;
        cr_assert_eq(hami_wish_of(pod, &w, &e), -ERR_INVALID, "%s", odd[i].annotation);
        cr_expect(strstr(err_msg(&e), odd[i].error), "%s", err_msg(&e));
    }
}

/* --- What was given --- */

#define GIVEN ";GPU-1,NVIDIA,3000,30:GPU-2,NVIDIA,3000,30:;;GPU-1,NVIDIA,5000,0:;"

Test(hami_pod, what_was_given_is_written_as_it_is_read)
{
    auto_json json_t *pod = pod_with("");
    AUTO(allocation) struct allocation a;
    cr_assert_eq(hami_allocated_parse(pod, GIVEN, &a, NULL), 0);
    cr_expect_eq(a.n_containers, 2);
    const struct allocation_container *side = allocation_of(&a, "side");
    cr_assert(side);
    cr_expect_eq(side->shares[0].memory_mib, 5000);
    auto_free char *text = hami_allocated_text(pod, &a);
    cr_expect_str_eq(text, GIVEN);
    auto_free char *record = NULL;
    AUTO(allocation) struct allocation same = {0};
    cr_assert_eq(allocation_format(&a, &record, NULL), 0);
    cr_assert_eq(allocation_parse(record, &same, NULL), 0, "%s", record);
    cr_expect_eq(same.n_containers, 2);
}

static const struct {
    const char *text;
    int kind;
} cut[] = {
    {"", ERR_NOT_FOUND},
    {";;;;", ERR_NOT_FOUND},
    {";;;;;", ERR_INVALID},
    {";GPU-1,NVIDIA,3000,30", ERR_INVALID},
    {";GPU-1,NVIDIA,3000,30:", ERR_INVALID},
    {";GPU-1,NVIDIA,3000,30;", ERR_INVALID},
    {";GPU-1,NVIDIA,3000:;", ERR_INVALID},
    {";GPU-1,NVIDIA,3000,30,1:;", ERR_INVALID},
    {";GPU-1,DCU,3000,30:;", ERR_INVALID},
    {";,NVIDIA,3000,30:;", ERR_INVALID},
    {";GPU-1,NVIDIA,0,30:;", ERR_INVALID},
    {";GPU-1,NVIDIA,3000,101:;", ERR_INVALID},
};

Test(hami_pod, what_is_cut_off_or_of_another_shape_is_no_record)
{
    for (size_t i = 0; i < ARRAY_LEN(cut); i++) {
        auto_json json_t *pod = pod_with("");
        AUTO(allocation) struct allocation a;
        auto_err struct err e = {0};
        cr_expect_eq(hami_allocated_parse(pod, cut[i].text, &a, &e), -cut[i].kind, "%s: %s",
                     cut[i].text, err_msg(&e));
    }
}
