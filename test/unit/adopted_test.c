/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <string.h>

#include "base/sb.h"
#include "base/xalloc.h"
#include "base/yaml.h"

#include "api/mig_limits.h"
#include "kubeclient/fake/fake.h"
#include "nodeagent/offer/share_card.h"
#include "nodeagent/slots/adopted.h"
#include "service/resources.h"

#define A "GPU-00000000-0000-0000-0000-00000000000a"
#define B "GPU-00000000-0000-0000-0000-00000000000b"

static struct clock *clk;
static struct kc *kc;
static struct scope *scope;
static struct pod_reader *pods;
static struct rng rng;
static struct adopted adopted;
static struct shares shares;
static struct holders holders;

static void set_up(void)
{
    clk = clock_fake_new(1000000);
    kc = kc_fake_new(clk);
    scope = scope_new(NULL, -1);
    pods = pod_reader_new(kc);
    rng_init(&rng, 1);
}

static void tear_down(void)
{
    adopted_done(&adopted);
    shares_done(&shares);
    holders_done(&holders);
    pods = pod_reader_free(pods);
    scope = scope_free(scope);
    kc = kc_free(kc);
    clk = clock_free(clk);
}

TestSuite(adopted, .init = set_up, .fini = tear_down);

/* A pod of two containers on a node. */
static void make(const char *name, const char *node, const char *annotations)
{
    auto_json json_t *pod = NULL;
    auto_err struct err e = {0};
    auto_free char *text = xasprintf("apiVersion: v1\nkind: Pod\n"
                                     "metadata: {name: %s, namespace: ns, annotations: {%s}}\n"
                                     "spec: {nodeName: %s, containers: [{name: x}, {name: y}]}",
                                     name, annotations, node);
    cr_assert_eq(yaml_load(text, strlen(text), &pod, &e), 0, "%s", err_msg(&e));
    const struct kc_target target = {.res = &resource_pods, .ns = "ns"};
    cr_assert_eq(kc_create(kc, scope, &target, &(struct kc_write){.body = pod}, NULL, &e), 0, "%s",
                 err_msg(&e));
}

/* With HAMi's annotation (NULL: none). */
static void make_pod(const char *name, const char *node, const char *annotation)
{
    auto_free char *annotations =
        annotation ? xasprintf("hami.io/vgpu-devices-allocated: '%s'", annotation) : xstrdup("");
    make(name, node, annotations);
}

static void make_annotated(const char *name, const char *annotations)
{
    make(name, "n1", annotations);
}

struct given {
    const char *id, *pod; /* pod NULL: the kubelet does not name it */
    const char *uid;
};

/* Takes the kubelet's list, reads what is due, and looks at what stands then. */
static void look(const struct given *given, size_t n)
{
    struct holder *listed = NULL;
    size_t count = 0;
    for (size_t i = 0; i < n; i++)
        *XPUSH(listed, count) = (struct holder){.id = xstrdup(given[i].id),
                                                .ns = xstrdup(given[i].pod ? "ns" : NULL),
                                                .pod = xstrdup(given[i].pod),
                                                .uid = xstrdup(given[i].uid),
                                                .container = xstrdup("x")};
    (void)holders_list(&holders, listed, count, clock_mono_ms(clk) + 1);
    adopted_follow(&adopted, &holders);
    (void)adopted_shares(&adopted, &shares);
}

static void read_pods(void)
{
    struct pod_answer answer;
    adopted_ask(&adopted, pods, clk);
    while (pod_reader_step(pods, scope)) {
    }
    while (pod_reader_take(pods, &answer)) {
        adopted_take(&adopted, &answer, "n1", clk, &rng);
        pod_answer_done(&answer);
    }
    (void)adopted_shares(&adopted, &shares);
}

static void expect_on(const char *card, unsigned memory_mib, unsigned percent, unsigned n)
{
    struct fraction_size sum = shares_on(&shares, card);
    cr_expect_eq(sum.memory_mib, memory_mib, "%s has %u MiB", card, sum.memory_mib);
    cr_expect_eq(sum.percent, percent);
    cr_expect_eq(sum.shares, n);
}

Test(adopted, the_annotation_tells_the_card_and_not_the_identifier)
{
    make_pod("p", "n1", A ",NVIDIA,3000,30:;" B ",NVIDIA,5000,0:;");
    look((const struct given[]){{B "-3", "p", NULL}, {B "-4", "p", NULL}}, 2);
    read_pods();
    expect_on(A, 3000, 30, 1);
    expect_on(B, 5000, 0, 1);
    cr_expect_not(shares.is_adopting);
    cr_expect_str_eq(shares.adopted[0].pod, "p");
}

Test(adopted, until_a_pod_was_read_nothing_is_placed_on_any_card)
{
    const struct gpu_card card = {.vendor = "nvidia", .uuid = "GPU-x", .memory_mib = 1000};
    const struct sharing_rules rules = {.means.publisher = API_PUBLISHER_KUBELET};
    const struct share_facts facts = {&rules, &shares, &holders};
    struct share_card c;
    make_pod("p", "n1", A ",NVIDIA,3000,30:;;");
    look((const struct given[]){{A "-0", "p", NULL}}, 1);
    cr_expect(shares.is_adopting && shares_are_in_doubt(&shares));
    cr_assert(share_card_of(&facts, &card, NULL, &c));
    cr_expect_eq(share_card_room(&c), 0);
    read_pods();
    cr_assert(share_card_of(&facts, &card, NULL, &c));
    cr_expect_eq(share_card_room(&c), 1);
}

Test(adopted, a_pod_counts_until_the_kubelet_no_longer_lists_it)
{
    make_pod("p", "n1", A ",NVIDIA,3000,30:;;");
    make_pod("q", "n1", A ",NVIDIA,1000,10:;;");
    look((const struct given[]){{A "-0", "p", NULL}, {A "-1", "q", NULL}}, 2);
    read_pods();
    expect_on(A, 4000, 40, 2);
    look((const struct given[]){{A "-1", "q", NULL}}, 1);
    expect_on(A, 1000, 10, 1);
    cr_expect_not(shares.is_adopting, "the other was known, and stays so");
    look(NULL, 0);
    expect_on(A, 0, 0, 0);
}

Test(adopted, a_pod_that_cannot_be_read_is_told_once_and_tried_again)
{
    look((const struct given[]){{A "-0", "p", NULL}}, 1);
    read_pods();
    const struct adopted_pod *p = adopted_news(&adopted);
    cr_assert_not_null(p);
    cr_expect(strstr(p->trouble, "Until that is known, or the pod has ended"), "%s", p->trouble);
    cr_expect(shares.is_adopting);
    cr_expect_null(adopted_news(&adopted));
    cr_expect_gt(adopted_due_mono_ms(&adopted), clock_mono_ms(clk));
    make_pod("p", "n1", A ",NVIDIA,3000,30:;;");
    clock_fake_advance(clk, 20000);
    read_pods();
    expect_on(A, 3000, 30, 1);
    cr_expect_not(shares.is_adopting);
    cr_expect_eq(adopted_due_mono_ms(&adopted), INT64_MAX);
}

static const char *trouble_of(const char *name)
{
    look((const struct given[]){{A "-0", name, NULL}}, 1);
    read_pods();
    cr_expect(shares.is_adopting);
    const struct adopted_pod *p = adopted_news(&adopted);
    return p ? p->trouble : "";
}

Test(adopted, what_is_wrong_with_a_pod_is_said)
{
    make_pod("elsewhere", "n2", A ",NVIDIA,3000,30:;;");
    cr_expect(strstr(trouble_of("elsewhere"), "not on this node"));
    make_pod("bare", "n1", NULL);
    cr_expect(strstr(trouble_of("bare"), "it has no annotation hami.io/vgpu-devices-allocated"));
    make_pod("cut", "n1", A ",NVIDIA,3000");
    cr_expect(strstr(trouble_of("cut"), "is cut off"));
}

Test(adopted, neither_mig_partitions_nor_a_pod_made_anew_are_taken_for_shares)
{
    make_pod("mig", "n1", A "[1-0],NVIDIA,3000,30:;;");
    cr_expect(strstr(trouble_of("mig"), "names a MIG partition"));
    make_pod("half", "n1", A ",NVIDIA,3000,30:;" B "[1-0],NVIDIA,3000,30:;");
    cr_expect(strstr(trouble_of("half"), "names a MIG partition"));
    cr_expect_eq(adopted.items[0].n_shares, 0, "a pod is known as a whole or not");
    make_annotated("anew", "gpu.cleave.dev/allocation: x, hami.io/vgpu-devices-allocated: '" A
                           ",NVIDIA,3000,30:;;'");
    cr_expect(strstr(trouble_of("anew"), "was made anew"));
    make_annotated("cut", "hami.io/vgpu-mig-allocations: '[]'");
    cr_expect(strstr(trouble_of("cut"), "says that it has MIG partitions"));
}

Test(adopted, mad_sizes_and_numbers_are_bounded)
{
    auto_sb struct sb many = SB_INIT(8192);
    make_pod("large", "n1", A ",NVIDIA,2147483647,100:;;");
    look((const struct given[]){{A "-0", "large", NULL}}, 1);
    read_pods();
    cr_expect_eq(shares_on(&shares, A).memory_mib, MIG_MAX_MEMORY_MIB);
    for (int c = 0; c < 2; c++) {
        for (int i = 0; i < 64 + c; i++)
            sb_addf(&many, "GPU-1,NVIDIA,1,0:");
        sb_add_char(&many, ';');
    }
    auto_free char *text = sb_take(&many);
    make_pod("many", "n1", text);
    cr_expect(strstr(trouble_of("many"), "more than"));
}

Test(adopted, a_pod_without_a_name_may_be_on_any_card)
{
    look((const struct given[]){{A "-0", NULL, "u"}}, 1);
    read_pods();
    cr_expect(shares.is_adopting);
}

static char *uid_of(const char *name)
{
    auto_json json_t *pod = NULL;
    const struct kc_target target = {.res = &resource_pods, .ns = "ns", .name = name};
    cr_assert_eq(kc_get(kc, scope, &target, &pod, NULL), 0);
    return xstrdup(json_string_value(json_object_get(json_object_get(pod, "metadata"), "uid")));
}

Test(adopted, what_a_known_pod_s_init_container_had_is_its_own)
{
    make_pod("p", "n1", A ",NVIDIA,3000,30:;;");
    auto_free char *uid = uid_of("p");
    look((const struct given[]){{A "-0", "p", NULL}, {A "-1", NULL, uid}}, 2);
    cr_expect(shares.is_adopting);
    read_pods();
    cr_expect_not(shares.is_adopting);
    look((const struct given[]){{A "-0", "p", NULL}, {A "-1", NULL, "other"}}, 2);
    cr_expect(shares.is_adopting);
}

Test(adopted, only_hami_s_identifiers_are_adopted)
{
    make_pod("p", "n1", A ",NVIDIA,3000,30:;;");
    look((const struct given[]){{A, "p", NULL},
                                {A "::1", "p", NULL},
                                {A "/1g.10gb@4", "p", NULL},
                                {"share@3", "p", NULL},
                                {A "-", "p", NULL},
                                {A "-3x", "p", NULL},
                                {"GPU-1-3", "p", NULL}},
         7);
    cr_expect_eq(adopted.n, 0);
    cr_expect_not(shares.is_adopting);
}

Test(adopted, a_copy_has_them_too)
{
    make_pod("p", "n1", A ",NVIDIA,3000,30:;;");
    look((const struct given[]){{A "-0", "p", NULL}}, 1);
    read_pods();
    auto_shares struct shares copy = shares_copy(&shares);
    shares_adopt(&shares, NULL, 0, true);
    expect_on(A, 0, 0, 0);
    cr_expect_eq(shares_on(&copy, A).memory_mib, 3000);
    cr_expect(!copy.is_adopting && shares.is_adopting);
}
