/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <string.h>

#include "base/auto.h"
#include "base/rfc3339.h"
#include "base/xalloc.h"
#include "base/yaml.h"

#include "interop/node_lock.h"

TestSuite(node_lock);

/* --- Parsing --- */

static struct node_lock parsed(const char *value)
{
    auto_err struct err e = {0};
    struct node_lock lock;
    cr_assert_eq(node_lock_parse(value, &lock, &e), 0, "%s: %s", value, err_msg(&e));
    return lock;
}

static int64_t ms(const char *time)
{
    int64_t ret;
    cr_assert_eq(rfc3339_parse(time, &ret, NULL), 0);
    return ret;
}

Test(node_lock, what_schedulers_write_is_understood)
{
    struct node_lock lock = parsed("2026-11-21T22:30:00+08:00,team-a,train-0.worker");
    cr_expect_eq(lock.since_ms, ms("2026-11-21T14:30:00Z"));
    cr_expect_str_eq(lock.ns, "team-a");
    cr_expect_str_eq(lock.pod, "train-0.worker");
}

Test(node_lock, the_old_form_names_no_pod)
{
    struct node_lock lock = parsed("2026-11-21T14:30:00Z");
    cr_expect_eq(lock.since_ms, ms("2026-11-21T14:30:00Z"));
    cr_expect_str_empty(lock.ns);
    cr_expect_str_empty(lock.pod);
}

#define LONG63                                                                                     \
    "abcdefghijabcdefghijabcdefghijabcdefghijabcdefghijabcdefghijabc" /* the longest namespace */
#define LONG252 LONG63 LONG63 LONG63 LONG63

Test(node_lock, the_longest_names_are_taken)
{
    struct node_lock lock = parsed("2026-11-21T14:30:00Z," LONG63 "," LONG252 "d");
    cr_expect_str_eq(lock.ns, LONG63);
    cr_expect_str_eq(lock.pod, LONG252 "d");
}

Test(node_lock, what_is_no_lock_is_refused)
{
    static const char *const values[] = {
        "",
        ",",
        ",,",
        "now,default,a",
        "2026-11-21T14:30:00Z,",
        "2026-11-21T14:30:00Z,default",
        "2026-11-21T14:30:00Z,default,",
        "2026-11-21T14:30:00Z,,a",
        "2026-11-21T14:30:00Z,default,a,b",
        "2026-11-21T14:30:00Z,default,a=b",
        "2026-11-21T14:30:00Z,default,../a",
        "2026-11-21T14:30:00Z,Default,a",
        "2026-11-21T14:30:00Z, default,a",
        "2026-13-21T14:30:00Z,default,a",
        "1763735400,default,a",
        "2026-11-21T14:30:00Z," LONG63 "d,a",
        "2026-11-21T14:30:00Z,default," LONG252 "de",
        "2026-11-21T14:30:00Z,default,a\xff",
        LONG252 LONG252,
    };
    for (size_t i = 0; i < ARRAY_LEN(values); i++) {
        auto_err struct err e = {0};
        struct node_lock lock;
        cr_expect_eq(node_lock_parse(values[i], &lock, &e), -(int)ERR_INVALID, "%s", values[i]);
    }
}

/* --- Whose is it? --- */

#define SINCE_MS INT64_C(1800000000000)

struct verdict_case {
    const char *pod; /* the containers; NULL: there is no pod */
    int64_t age_ms;
    enum node_lock_verdict verdict;
    bool nvidia_is_ours;
};

#define ASKS(list) "spec: {containers: [{resources: {limits: {" list "}}}]}"

static const struct verdict_case verdicts[] = {
    /* ours */
    {ASKS("metax-tech.com/sgpu: '1'"), 0, NODE_LOCK_RELEASE, false},
    {ASKS("metax-tech.com/gpu: '2'"), 0, NODE_LOCK_RELEASE, false},
    {ASKS("metax-tech.com/sgpu: 1"), 0, NODE_LOCK_RELEASE, false},
    {ASKS("metax-tech.com/sgpu: '1', metax-tech.com/vcore: '10', metax-tech.com/vmemory: '4', cpu: "
          "'1', rdma/hca: '1', koordinator.sh/gpu-core: '10', cambricon.com/vmlu: '1'"),
     0, NODE_LOCK_RELEASE, false},
    {"spec: {containers: [{resources: {requests: {metax-tech.com/sgpu: '1'}}}]}", 0,
     NODE_LOCK_RELEASE, false},
    {"spec: {containers: [{}, {resources: {limits: {metax-tech.com/sgpu: '1'}}}]}", 0,
     NODE_LOCK_RELEASE, false},
    {"spec: {initContainers: [{resources: {limits: {metax-tech.com/sgpu: '1'}}}], containers: "
     "[{}]}",
     0, NODE_LOCK_RELEASE, false},
    {ASKS("metax-tech.com/sgpu: '1', nvidia.com/gpu: '0'"), 0, NODE_LOCK_RELEASE, false},
    {ASKS("koordinator.sh/gpu-core: '10', koordinator.sh/gpu-memory: '1Gi'"), 0, NODE_LOCK_RELEASE,
     false},
    /* another's */
    {ASKS("koordinator.sh/gpu-core: '10', nvidia.com/gpu: '1'"), 0, NODE_LOCK_LEAVE, false},
    {ASKS("kubernetes.io/batch-cpu: '10', koordinator.sh/rdma: '1'"), 0, NODE_LOCK_LEAVE, false},
    {"spec: {}", 0, NODE_LOCK_LEAVE, false},
    {"{}", 0, NODE_LOCK_LEAVE, false},
    {"spec: {containers: x}", 0, NODE_LOCK_LEAVE, false},
    {"spec: {containers: [x, {resources: {limits: [x]}}]}", 0, NODE_LOCK_LEAVE, false},
    {ASKS("cpu: '1'"), 0, NODE_LOCK_LEAVE, false},
    {ASKS("metax-tech.com/sgpu: '0'"), 0, NODE_LOCK_LEAVE, false},
    {ASKS("metax-tech.com/sgpu-small: '1'"), 0, NODE_LOCK_LEAVE, false},
    {ASKS("nvidia.com/gpu: '1'"), 0, NODE_LOCK_LEAVE, false},
    {ASKS("nvidia.com/gpu: '1'"), 2 * NODE_LOCK_FORGOTTEN_MS, NODE_LOCK_LEAVE, false},
    {ASKS("metax-tech.com/sgpu: '1', nvidia.com/gpu: '1'"), 0, NODE_LOCK_LEAVE, false},
    {ASKS("metax-tech.com/sgpu: '1', huawei.com/Ascend910B: '1'"), 0, NODE_LOCK_LEAVE, false},
    {"spec: {initContainers: [{resources: {limits: {hygon.com/dcunum: '1'}}}], containers: "
     "[{resources: {limits: {metax-tech.com/sgpu: '1'}}}]}",
     0, NODE_LOCK_LEAVE, false},
    {ASKS("metax-tech.com/sgpu: '1', nvidia.com/gpu: 'what'"), 0, NODE_LOCK_LEAVE, false},
    /* NVIDIA's cards are ours here too */
    {ASKS("metax-tech.com/sgpu: '1', nvidia.com/gpu: '1', nvidia.com/gpumem: '1000'"), 0,
     NODE_LOCK_RELEASE, true},
    {ASKS("metax-tech.com/sgpu: '1', amd.com/gpu: '1'"), 0, NODE_LOCK_LEAVE, true},
    {ASKS("nvidia.com/gpu: '1'"), 0, NODE_LOCK_LEAVE, true},
    /* nobody's */
    {NULL, 0, NODE_LOCK_WAIT, false},
    {NULL, -1000, NODE_LOCK_WAIT, false},
    {NULL, NODE_LOCK_FORGOTTEN_MS, NODE_LOCK_WAIT, false},
    {NULL, NODE_LOCK_FORGOTTEN_MS + 1, NODE_LOCK_RELEASE, false},
};

static enum node_lock_verdict judge(const struct verdict_case *t)
{
    const struct node_lock lock = {.since_ms = SINCE_MS, .ns = "default", .pod = "a"};
    const struct device_resource offered[] = {
        {.name = (char *)(uintptr_t) "metax-tech.com/sgpu", .publisher = API_PUBLISHER_KUBELET},
        {.name = (char *)(uintptr_t) "nvidia.com/gpu",
         .publisher = t->nvidia_is_ours ? API_PUBLISHER_KUBELET : API_PUBLISHER_OTHER},
    };
    auto_json json_t *pod = NULL;
    if (t->pod)
        cr_assert_eq(yaml_load(t->pod, strlen(t->pod), &pod, NULL), 0, "%s", t->pod);
    return node_lock_judge(&lock, pod, offered, ARRAY_LEN(offered), SINCE_MS + t->age_ms);
}

Test(node_lock, it_is_released_when_its_pod_asks_for_our_cards_alone)
{
    for (size_t i = 0; i < ARRAY_LEN(verdicts); i++)
        cr_expect_eq(judge(&verdicts[i]), verdicts[i].verdict, "case %zu: %s", i,
                     verdicts[i].pod ? verdicts[i].pod : "no pod");
}
