/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <string.h>

#include "base/rng.h"
#include "base/sb.h"
#include "base/xalloc.h"

#include "cluster_support.h"
#include "kubectl/cluster_plan.h"
#include "service/resources.h"

/* What `plan` foretells is what the controller and the agents then do: for random profiles, on a
 * cluster in memory. */

enum { CASES = 100, NODES = 3, MAX_ROUNDS = 12, TEXT_BYTES = 4096 };

static const char *const names[NODES] = {"n0", "n1", "n2"};

/* --- Random profiles, some of which cannot be --- */

static void add_layout(struct rng *r, struct sb *b)
{
    static const char *const kinds[] = {"1g.10gb", "1g.20gb", "2g.20gb", "3g.40gb", "7g.80gb"};
    size_t first = rng_below(r, ARRAY_LEN(kinds));
    size_t second = rng_below(r, ARRAY_LEN(kinds));
    sb_addf(b, "mode: mig, mig: {profiles: {%s: %u", kinds[first], (unsigned)rng_below(r, 4) + 1);
    if (second != first)
        sb_addf(b, ", %s: %u", kinds[second], (unsigned)rng_below(r, 3));
    sb_add(b, "}}");
}

static void add_entry(struct rng *r, const char *selector, struct sb *b)
{
    sb_addf(b, "  - {selector: {%s}, ", selector);
    if (rng_below(r, 4) == 0)
        sb_addf(b, "mode: native, sharing: {timeSlicing: {replicas: %u}}",
                (unsigned)rng_below(r, 3) + 2);
    else
        add_layout(r, b);
    sb_add(b, "}\n");
}

/* Some select cards that no node has, or only some nodes have. */
static const char *random_cards(struct rng *r)
{
    static const char *const odd[] = {"indices: [9]", "indices: [1]", "model: \"*A100*\"",
                                      "vendor: metax", "uuids: [GPU-none]"};
    return rng_below(r, 4) ? "" : odd[rng_below(r, ARRAY_LEN(odd))];
}

static char *random_profile(struct rng *r, const char *name)
{
    static const char *const pools[] = {"{}", "{matchLabels: {pool: a}}",
                                        "{matchLabels: {pool: b}}"};
    auto_sb struct sb b = SB_INIT(TEXT_BYTES);
    sb_addf(&b,
            "apiVersion: gpu.cleave.dev/v1alpha1\nkind: GPUProfile\nmetadata: {name: %s}\n"
            "spec:\n  priority: %u\n  nodeSelector: %s\n  rollout: {maxUnavailable: %u}\n"
            "  devices:\n",
            name, (unsigned)rng_below(r, 2), pools[rng_below(r, 8) ? rng_below(r, 2) : 2],
            (unsigned)rng_below(r, NODES) + 1);
    if (rng_below(r, 2))
        add_entry(r, "indices: [0]", &b);
    add_entry(r, random_cards(r), &b);
    return sb_take(&b);
}

/* --- Both sides in words --- */

static int by_text(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static char *sorted(char **words, size_t n)
{
    auto_sb struct sb b = SB_INIT(TEXT_BYTES);
    if (n)
        qsort(words, n, sizeof(*words), by_text);
    for (size_t i = 0; i < n; i++) {
        sb_addf(&b, "%s ", words[i]);
        free(words[i]);
    }
    free(words);
    return sb_take(&b);
}

static void add_kinds(const struct plan_parts *from, char ***words, size_t *n)
{
    for (size_t i = 0; i < from->n; i++)
        if (strchr(from->items[i], '@'))
            *XPUSH(*words, *n) = xstrndup(from->items[i], strcspn(from->items[i], "@"));
}

static bool is_planned(const struct cluster_plan *p, const char *node)
{
    for (size_t i = 0; i < p->n_nodes; i++)
        if (strcmp(p->nodes[i].name, node) == 0)
            return true;
    return false;
}

/* The kinds of the partitions that the node will have. A node that is not in the plan stays as it
 * is. */
static char *foretold(const struct cluster_plan *p, const char *node, const char *before)
{
    if (!is_planned(p, node))
        return xstrdup(before);
    char **words = NULL;
    size_t n = 0;
    for (size_t i = 0; i < p->n_nodes; i++)
        for (size_t k = 0; strcmp(p->nodes[i].name, node) == 0 && k < p->nodes[i].n_cards; k++) {
            add_kinds(&p->nodes[i].cards[k].stays, &words, &n);
            add_kinds(&p->nodes[i].cards[k].comes, &words, &n);
        }
    return sorted(words, n);
}

static char *came_true(struct cluster *c, const char *node)
{
    char **words = NULL;
    size_t n = 0;
    auto_json json_t *obj = cluster_get(c, &resource_devices, node);
    auto_device_status struct device_status st = {0};
    cr_assert_eq(device_status_decode(obj, &st, NULL), 0);
    for (size_t i = 0; i < st.n_devices; i++)
        for (size_t k = 0; k < st.devices[i].n_partitions; k++)
            *XPUSH(words, n) = xstrdup(st.devices[i].partitions[k].profile);
    return sorted(words, n);
}

/* The reasons that some of the random profiles are to meet. */
static struct {
    const char *reason;
    bool met;
} reasons[] = {{.reason = "NoNodes"},
               {.reason = "DeviceNotFound"},
               {.reason = "Infeasible"},
               {.reason = "Conflict"},
               {.reason = "Overridden"}};

static void note_reason(const char *reason)
{
    for (size_t i = 0; i < ARRAY_LEN(reasons); i++)
        reasons[i].met |= strcmp(reasons[i].reason, reason) == 0;
}

/* What the controller says of a profile that it rejects, or that stalls. Caller frees. */
static char *objection(struct cluster *c)
{
    static const char no[] = "False ";
    static const char yes[] = "True ";
    auto_free char *accepted = cluster_condition(c, &resource_gpuprofiles, "p", "Accepted");
    auto_free char *stalled = cluster_condition(c, &resource_gpuprofiles, "p", "Stalled");
    if (strncmp(accepted, no, strlen(no)) == 0)
        return xstrdup(accepted + strlen(no));
    return xstrdup(strncmp(stalled, yes, strlen(yes)) == 0 ? stalled + strlen(yes) : "");
}

/* The profile as a whole is objected to for the reason that was foretold; where it is not, some of
 * its nodes may be. One that others override is no fault of its own. */
static void expect_objection(struct cluster *c, const struct cluster_plan *p, const char *yaml)
{
    const struct profile_verdict *v = &p->queues[0].verdict;
    auto_free char *is = objection(c);
    note_reason(is);
    bool refused = *is && strcmp(is, "Overridden") != 0;
    cr_expect_eq(refused, cluster_plan_refuses(p), "%s: foretold was otherwise:\n%s", is, yaml);
    if (v->reason)
        cr_expect_str_eq(is, v->reason, "%s, foretold was %s:\n%s", is, v->reason, yaml);
}

/* --- One case --- */

static void foretell(struct cluster *c, const char *yaml, struct cluster_plan *ret)
{
    auto_err struct err e = {0};
    auto_plan_file struct plan_file file = {0};
    cr_assert_eq(plan_file_parse("case", yaml, strlen(yaml), &file, &e), 0, "%s:\n%s", err_msg(&e),
                 yaml);
    cr_assert_eq(cluster_plan_make(c->api, c->scope, &file, ret, &e), 0, "%s", err_msg(&e));
}

/* The nodes before the file is applied. */
struct picture {
    char *parts[NODES], *orders[NODES];
};

static void look(struct cluster *c, struct picture *ret)
{
    for (size_t i = 0; i < NODES; i++) {
        ret->parts[i] = came_true(c, names[i]);
        ret->orders[i] = cluster_spec(c, names[i]);
    }
}

static void picture_done(struct picture *p)
{
    for (size_t i = 0; i < NODES; i++) {
        free(p->parts[i]);
        free(p->orders[i]);
    }
}

static bool has_new_orders(struct cluster *c, const struct picture *before, const char *node)
{
    auto_free char *spec = cluster_spec(c, node);
    for (size_t i = 0; i < NODES; i++)
        if (strcmp(names[i], node) == 0)
            return strcmp(spec, before->orders[i]) != 0;
    return false;
}

/* Nodes whose hardware changes are ordered first as the queue says; the others at once. */
static void expect_order(struct cluster *c, const struct picture *before,
                         const struct plan_queue *q, const char *yaml)
{
    for (size_t i = 0; i < q->n_waiting; i++)
        cr_expect_eq(has_new_orders(c, before, q->waiting[i]), i < q->at_once,
                     "%s, of %zu at once:\n%s", q->waiting[i], q->at_once, yaml);
}

static void run_out(struct cluster *c)
{
    for (int round = 0; round < MAX_ROUNDS; round++) {
        int before = cluster_writes(c);
        for (size_t i = 0; i < NODES; i++)
            cluster_agent(c, names[i]);
        cluster_settle(c);
        if (cluster_writes(c) == before)
            return;
    }
    cr_assert_fail("the controller never came to rest");
}

/* In some clusters another profile was there before. */
static void begin(struct cluster *c, struct rng *r)
{
    cluster_start(c, /* plan= */ NULL);
    for (size_t i = NODES; i-- > 0;)
        cluster_add_node(c, names[i], 1 + rng_below(r, 2));
    cluster_settle(c);
    if (rng_below(r, 3))
        return;
    auto_free char *rival = random_profile(r, "rival");
    cluster_apply(c, rival);
    cluster_settle(c);
    run_out(c);
}

static void check(uint64_t seed)
{
    struct cluster c;
    struct rng r;
    rng_init(&r, seed);
    auto_free char *yaml = random_profile(&r, "p");
    begin(&c, &r);
    auto_cluster_plan struct cluster_plan p = {0};
    struct picture before;
    look(&c, &before);
    foretell(&c, yaml, &p);
    cluster_apply(&c, yaml);
    cluster_settle(&c);
    cr_assert_eq(p.n_queues, 1);
    expect_order(&c, &before, &p.queues[0], yaml);
    run_out(&c);
    for (size_t i = 0; i < NODES; i++) {
        auto_free char *will = foretold(&p, names[i], before.parts[i]);
        auto_free char *is = came_true(&c, names[i]);
        cr_expect_str_eq(is, will, "%s has %s, foretold was %s:\n%s", names[i], is, will, yaml);
    }
    expect_objection(&c, &p, yaml);
    auto_cluster_plan struct cluster_plan after = {0};
    foretell(&c, yaml, &after);
    cr_expect_eq(after.queues[0].n_waiting, 0, "something is left to do:\n%s", yaml);
    picture_done(&before);
    cluster_stop(&c);
}

Test(forecast, comes_true_for_random_profiles)
{
    for (uint64_t seed = 1; seed <= CASES; seed++)
        check(seed);
    for (size_t i = 0; i < ARRAY_LEN(reasons); i++)
        cr_expect(reasons[i].met, "no profile met %s", reasons[i].reason);
}
