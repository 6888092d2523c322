/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "base/rng.h"
#include "base/xalloc.h"

#include "golden_support.h"
#include "scheduler/hami_metrics.h"

TestSuite(hami_metrics);

/* --- A cluster --- */

static char a[] = "a", b[] = "b", gpu_0[] = "GPU-0", gpu_1[] = "GPU-1", gpu_2[] = "GPU-2";
static char h100[] = "NVIDIA H100 80GB HBM3", t4[] = "Tesla T4";
static char team[] = "team", other[] = "other", train[] = "train", serve[] = "serve";

static struct snapshot_card cards[] = {
    {a, gpu_0, h100, 0, 2, {163118, 100, 10}, {13000, 30, 2}},
    {a, gpu_1, h100, 1, 0, {81559, 200, 10}, {0, 0, 0}},
    {b, gpu_2, t4, 0, 1, {15360, 100, 1}, {15360, 100, 1}},
};
static struct snapshot_share shares[] = {
    {team, train, a, gpu_0, 0, 3000, 30},
    {team, train, a, gpu_0, 2, 10000, 0},
    {other, serve, b, gpu_2, 0, 15360, 100},
};
static struct snapshot_quota quotas[] = {
    {team, {20000, -1}, {13000, 30}},
    {other, {0, 400}, {15360, 100}},
};
static const struct view_snapshot cluster = {
    cards, ARRAY_LEN(cards), shares, ARRAY_LEN(shares), quotas, ARRAY_LEN(quotas),
};

static char *page(const struct view_snapshot *s, enum hami_names names)
{
    struct sb out = SB_INIT(1 << 20);
    hami_metrics_write(s, names, &out);
    cr_assert_not(out.overflow);
    return sb_take(&out);
}

Test(hami_metrics, a_cluster_is_told_in_the_names_of_both_generations)
{
    auto_free char *text = page(&cluster, HAMI_BOTH);
    golden_check("hami_metrics/both.txt", text);
}

Test(hami_metrics, one_generation_is_the_half_and_none_is_nothing)
{
    auto_free char *current = page(&cluster, HAMI_CURRENT);
    auto_free char *legacy = page(&cluster, HAMI_LEGACY);
    auto_free char *both = page(&cluster, HAMI_BOTH);
    auto_free char *none = page(&cluster, HAMI_NONE);
    cr_expect_not(strstr(current, "GPUDeviceMemoryLimit"));
    cr_expect_not(strstr(legacy, "hami_"));
    cr_expect_eq(strlen(both), strlen(current) + strlen(legacy));
    cr_expect_str_empty(none);
}

Test(hami_metrics, without_cards_there_are_the_families_and_no_samples)
{
    auto_free char *text = page(&(struct view_snapshot){0}, HAMI_BOTH);
    cr_expect_not(strchr(text, '{'));
    cr_expect(strstr(text, "# TYPE QuotaUsed gauge\n"));
}

Test(hami_metrics, a_card_without_memory_is_not_divided_by)
{
    struct snapshot_card none = {a, gpu_0, h100, 0, 0, {0}, {0}};
    auto_free char *text = page(&(struct view_snapshot){.cards = &none, .n_cards = 1}, HAMI_BOTH);
    cr_expect(strstr(text,
                     "nodeGPUMemoryPercentage{zone=\"vGPU\",nodeid=\"a\",deviceuuid=\"GPU-0\","
                     "deviceidx=\"0\"} 0\n"),
              "%s", text);
}

Test(hami_metrics, what_does_not_fit_overflows_and_ends)
{
    struct sb out = SB_INIT(5000);
    hami_metrics_write(&cluster, HAMI_BOTH, &out);
    cr_expect(out.overflow);
    cr_expect_leq(out.len, 5000);
    sb_done(&out);
}

Test(hami_metrics, the_flag_has_these_words)
{
    static const char *const words[] = {"none", "current", "legacy", "both"};
    auto_err struct err e = {0};
    enum hami_names names;
    for (size_t i = 0; i < ARRAY_LEN(words); i++) {
        cr_expect_eq(hami_names_parse(words[i], &names, &e), 0);
        cr_expect_eq(names, i);
    }
    cr_expect_eq(hami_names_parse("true", &names, &e), -ERR_INVALID);
    cr_expect_str_eq(err_msg(&e),
                     "--hami-metrics is \"true\", none of none, current, legacy, both");
}

/* --- Names from outside --- */

/* A word of any characters but NUL, those that mean something more often than not. */
static void strange(struct rng *r, char *to, size_t room)
{
    static const char meant[] = "\"\\\n{},= #";
    size_t len = rng_below(r, room);
    for (size_t i = 0; i < len; i++)
        to[i] = rng_below(r, 2) ? meant[rng_below(r, sizeof(meant) - 1)]
                                : (char)(1 + rng_below(r, 255));
    to[len] = '\0';
}

/* Reads a quoted value as Prometheus does, and returns what comes behind it; NULL: it is none. */
static const char *unquote(const char *text, char *ret)
{
    for (text++; *text && *text != '"'; text++) {
        if (*text == '\n')
            return NULL;
        bool is_escaped = *text == '\\';
        text += is_escaped;
        *ret++ = is_escaped && *text == 'n' ? '\n' : *text;
    }
    *ret = '\0';
    return *text ? text + 1 : NULL;
}

/* Reads the labels of the first sample of a family; values[i] is the value of names[i]. */
static void expect_labels(const char *text, const char *family, const char *const *names,
                          const char *const *values)
{
    char value[100];
    auto_free char *start = xasprintf("\n%s{", family);
    const char *at = strstr(text, start);
    cr_assert(at, "%s in %s", family, text);
    at += strlen(start);
    for (size_t i = 0; names[i]; i++) {
        size_t len = strlen(names[i]);
        cr_assert(strncmp(at, names[i], len) == 0 && at[len] == '=', "%s at %s", names[i], at);
        at = unquote(at + len + 1, value);
        cr_assert(at, "%s in %s", names[i], text);
        cr_expect_str_eq(value, values[i]);
        at += *at == ',';
    }
    cr_expect(strncmp(at, "} ", 2) == 0, "%s", at);
}

Test(hami_metrics, names_of_any_characters_are_read_back_as_they_are)
{
    enum { ROUNDS = 2000, ROOM = 40 };
    struct rng r;
    rng_init(&r, 1);
    for (int i = 0; i < ROUNDS; i++) {
        char node[ROOM], uuid[ROOM], model[ROOM] = "NVIDIA", ns[ROOM], pod[ROOM];
        strange(&r, node, sizeof(node));
        strange(&r, uuid, sizeof(uuid));
        strange(&r, model + strlen(model), sizeof(model) - strlen(model));
        strange(&r, ns, sizeof(ns));
        strange(&r, pod, sizeof(pod));
        struct snapshot_card card = {node, uuid, model, 3, 0, {1, 1, 1}, {0}};
        struct snapshot_share share = {ns, pod, node, uuid, 7, 1, 1};
        struct snapshot_quota quota = {ns, {5, -1}, {1, 1}};
        const struct view_snapshot s = {&card, 1, &share, 1, &quota, 1};
        auto_free char *text = page(&s, HAMI_BOTH);
        expect_labels(text, "hami_gpu_shared_count",
                      (const char *const[]){"zone", "node", "device_uuid", "device_index",
                                            "device_type", NULL},
                      (const char *const[]){"vGPU", node, uuid, "3", model});
        expect_labels(text, "vGPUCoreAllocated",
                      (const char *const[]){"zone", "podnamespace", "nodename", "podname",
                                            "containeridx", "deviceuuid", NULL},
                      (const char *const[]){"vGPU", ns, node, pod, "7", uuid});
        expect_labels(text, "QuotaUsed",
                      (const char *const[]){"zone", "quotanamespace", "quotaName", "limit", NULL},
                      (const char *const[]){"vGPU", ns, "nvidia.com/gpumem", "5"});
    }
}
