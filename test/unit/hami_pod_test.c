/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <string.h>

#include "base/auto.h"
#include "base/jx.h"
#include "base/sb.h"
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

static void expect_numa_then_binpack_and_weights_3_1_0(const struct hami_wish *w)
{
    cr_assert_eq(w->cards.n_policies, 2);
    cr_expect_eq(w->cards.policies[0], FRACTION_NUMA);
    cr_expect_eq(w->cards.policies[1], FRACTION_BINPACK);
    cr_expect_eq(w->cards.weights.memory, 3);
    cr_expect_eq(w->cards.weights.shares, 1);
    cr_expect_eq(w->cards.weights.percent, 0);
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
    expect_numa_then_binpack_and_weights_3_1_0(&w);
}

static const struct {
    const char *annotation, *error; /* a part of it */
} odd[] = {
    {"\"hami.io/gpu-scheduler-policy\": \"binpak\"",
     "annotation hami.io/gpu-scheduler-policy: \"binpak\" is none of binpack, spread, numa"},
    {"\"hami.io/gpu-scheduler-policy\": \"numa, best\"", "\"best\" is none of binpack"},
    {"\"hami.io/gpu-scheduler-policy\": \"num a\"", "\"num a\" is none of binpack"},
    {"\"hami.io/gpu-scheduler-policy\": \" , \"", "\" , \" is none of binpack"},
    {"\"hami.io/node-scheduler-policy\": \"topology\"", "is none of binpack, spread"},
    {"\"nvidia.com/vgpu-mode\": \"hami\"", "is none of hami-core, mig, mps"},
    {"\"nvidia.com/numa-bind\": \"yes\"", "is none of true, false"},
    {"\"hami.io/device-scoring-weights\": \"slot=1,core=1\"", "which has all three"},
    {"\"hami.io/device-scoring-weights\": \"slot=1,core=1,memory\"", "the form slot=1"},
    {"\"hami.io/device-scoring-weights\": \"slot=1,core=1,memory=-1\"", "the form slot=1"},
    {"\"hami.io/device-scoring-weights\": \"slot=1,core=1,disk=1\"", "the form slot=1"},
    {"\"hami.io/device-scoring-weights\": \"slot=1,core=1,memory=1=1\"", "the form slot=1"},
    {"\"hami.io/device-scoring-weights\": \"slot=1,core=1,memory=1 1\"", "the form slot=1"},
    {"\"hami.io/device-scoring-weights\": \"slot=1,core=1,memory= \"", "the form slot=1"},
    {"\"hami.io/device-scoring-weights\": \"slot=1,,core=1,memory=1\"", "the form slot=1"},
    {"\"hami.io/device-scoring-weights\": \" \"", "the form slot=1"},
    {"\"hami.io/device-scoring-weights\": \"slot=1,core=1,memory=1001\"", "up to 1000"},
    {"\"hami.io/device-scoring-weights\": \"slot=1,core=1,memory=1,slot=9\"", "has each once"},
    {"\"nvidia.com/use-gputype\": \",\"",
     "annotation nvidia.com/use-gputype: \",\" is none of the form one,two"},
    {"\"nvidia.com/nouse-gpuuuid\": \" , ,\"", "is none of the form one,two"},
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

Test(hami_pod, blanks_do_not_count_nor_do_policies_that_are_left_out)
{
    auto_json json_t *pod =
        pod_with("\"hami.io/gpu-scheduler-policy\": \", numa,, \\tbinpack\\n ,\", "
                 "\"hami.io/device-scoring-weights\": \" memory = 3, slot =\\t1,core= 0 \"");
    struct hami_wish w;
    cr_assert_eq(hami_wish_of(pod, &w, NULL), 0);
    expect_numa_then_binpack_and_weights_3_1_0(&w);
}

Test(hami_pod, a_list_is_bounded)
{
    static const char *const keys[] = {HAMI_USE_MODEL, HAMI_NO_MODEL, HAMI_USE_UUID, HAMI_NO_UUID};
    auto_free char *list = xcalloc(1, HAMI_MAX_LIST_BYTES + 2);
    memset(list, 'x', HAMI_MAX_LIST_BYTES);
    for (size_t i = 0; i < ARRAY_LEN(keys); i++) {
        struct hami_wish w;
        auto_err struct err e = {0};
        list[HAMI_MAX_LIST_BYTES] = '\0';
        auto_free char *most = xasprintf("\"%s\": \"%s\"", keys[i], list);
        auto_json json_t *pod = pod_with(most);
        cr_expect_eq(hami_wish_of(pod, &w, NULL), 0);
        list[HAMI_MAX_LIST_BYTES] = 'x';
        auto_free char *more = xasprintf("\"%s\": \"%s\"", keys[i], list);
        auto_json json_t *refused = pod_with(more);
        cr_expect_eq(hami_wish_of(refused, &w, &e), -ERR_INVALID);
        cr_expect(strstr(err_msg(&e), "has 4097 bytes; at most 4096 are allowed"), "%s",
                  err_msg(&e));
    }
}

/* As strconv.ParseBool. */
Test(hami_pod, numa_bind_is_read_as_go_does)
{
    static const char *const words[] = {"1", "t", "T", "TRUE",  "true",  "True",
                                        "0", "f", "F", "FALSE", "false", "False"};
    for (size_t i = 0; i < ARRAY_LEN(words); i++) {
        struct hami_wish w;
        auto_free char *text = xasprintf("\"" HAMI_NUMA_BIND "\": \"%s\"", words[i]);
        auto_json json_t *pod = pod_with(text);
        cr_assert_eq(hami_wish_of(pod, &w, NULL), 0, "%s", words[i]);
        cr_expect_eq(w.cards.one_numa, i < 6, "%s", words[i]);
    }
}

Test(hami_pod, a_list_of_blanks_is_none)
{
    struct hami_wish w;
    auto_json json_t *pod = pod_with("\"nvidia.com/use-gputype\": \" \"");
    cr_assert_eq(hami_wish_of(pod, &w, NULL), 0);
    cr_expect_null(w.cards.use_models);
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

/* HAMi up to v2.8 has no entries for init containers. */
Test(hami_pod, as_many_entries_as_apps_are_the_apps)
{
    auto_json json_t *pod = pod_with("");
    AUTO(allocation) struct allocation a;
    cr_assert_eq(hami_allocated_parse(pod, "GPU-1,NVIDIA,3000,30:;;GPU-2,NVIDIA,5000,0:;", &a,
                                      NULL),
                 0);
    cr_expect_null(allocation_of(&a, "first"));
    cr_expect_null(allocation_of(&a, "log"));
    cr_assert(allocation_of(&a, "main"));
    cr_expect_str_eq(allocation_of(&a, "main")->shares[0].uuid, "GPU-1");
    cr_assert(allocation_of(&a, "side"));
    cr_expect_str_eq(allocation_of(&a, "side")->shares[0].uuid, "GPU-2");
}

static const struct {
    const char *text;
    int kind;
    const char *error; /* a part of it */
} cut[] = {
    {"", ERR_NOT_FOUND, "names no device"},
    {";;;;", ERR_NOT_FOUND, "names no device"},
    {";;;", ERR_NOT_FOUND, "names no device"},
    {";;;;;", ERR_INVALID, "has 5 entries, and the pod 4 containers"},
    {";GPU-1,NVIDIA,3000,30:;", ERR_INVALID, "has 2 entries, and the pod 4 containers"},
    {"GPU-1,NVIDIA,3000,30:", ERR_INVALID, "is cut off"},
    {";;;;GPU-1,NVIDIA,3000,30:", ERR_INVALID, "is cut off"},
    {";GPU-1,NVIDIA,3000,30;;;", ERR_INVALID, "is cut off after \"GPU-1"},
    {";GPU-1,NVIDIA,3000:;;;", ERR_INVALID, "is not uuid,"},
    {";GPU-1,NVIDIA,3000,30,1:;;;", ERR_INVALID, "is not uuid,"},
    {";GPU-1,DCU,3000,30:;;;", ERR_INVALID, "is not uuid,"},
    {";,NVIDIA,3000,30:;;;", ERR_INVALID, "is not uuid,"},
    {";GPU-1,NVIDIA,0,30:;;;", ERR_INVALID, "is not uuid,"},
    {";GPU-1,NVIDIA,3000,101:;;;", ERR_INVALID, "is not uuid,"},
    {";GPU-1,NVIDIA,1,0:GPU-1,NVIDIA,2,0:;;;", ERR_INVALID, "has two shares of card GPU-1"},
    {";GPU 1,NVIDIA,1,0:;;;", ERR_INVALID, "has other characters than"},
    {";0123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890"
     "123456,NVIDIA,1,0:;;;",
     ERR_INVALID, ".c[0].s[0].u"},
};

Test(hami_pod, what_is_cut_off_or_of_another_shape_is_no_record)
{
    for (size_t i = 0; i < ARRAY_LEN(cut); i++) {
        auto_json json_t *pod = pod_with("");
        AUTO(allocation) struct allocation a;
        auto_err struct err e = {0};
        cr_expect_eq(hami_allocated_parse(pod, cut[i].text, &a, &e), -cut[i].kind, "%s: %s",
                     cut[i].text, err_msg(&e));
        cr_expect(strstr(err_msg(&e), cut[i].error), "%s: %s", cut[i].text, err_msg(&e));
    }
}

Test(hami_pod, a_record_has_at_most_as_many_containers_as_ours)
{
    enum { N = ALLOCATION_MAX_CONTAINERS + 1 };
    auto_sb struct sb text = SB_INIT(1 << 16);
    auto_json json_t *containers = json_array();
    for (unsigned i = 0; i < N; i++) {
        auto_free char *name = xasprintf("c%u", i);
        (void)json_array_append_new(containers, json_pack("{s:s}", "name", name));
        sb_add(&text, "GPU-1,NVIDIA,1,0:;");
    }
    auto_json json_t *pod = json_pack("{s:{s:O}}", "spec", "containers", containers);
    AUTO(allocation) struct allocation a;
    cr_expect_eq(hami_allocated_parse(pod, sb_str(&text), &a, NULL), -ERR_INVALID);
}
