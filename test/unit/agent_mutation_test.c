/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/jx.h"
#include "base/log.h"
#include "base/num.h"
#include "base/xalloc.h"
#include "base/yaml.h"

#include "gpu_fake_support.h"
#include "kubeclient/fake/fake.h"
#include "mutation_support.h"
#include "nodeagent/loop/agent.h"
#include "nodeagent/loop/own_device.h"
#include "service/resources.h"

/*
 * Each field of its own Device reaches the agent mutated. All partitions are in use: not one is
 * touched, and once the field is right again the agent says the same as before.
 */

enum { SETTLED_MS = 10000, RESYNC_MS = 30000, PATIENCE_MS = 20000, TICK_MS = 20, WHILE_MS = 100 };
enum { STRIDE = 23, MANY = 100000, HEALED_MS = 120000, STEP_MS = 1000 };

static struct fake_hw hw;
static char dir[64];
static struct clock *clk;
static struct scope *scope;
static struct kc *server, *mutator;
static struct worker *worker;
static struct informer *inf;
static struct status_writer *pub;
static struct agent *agent;
static unsigned touched;

static const struct kc_target device = {.res = &resource_devices, .name = "n1"};

/* A list is mutated in its first two entries: the cards of one kind come first, then the others. */
#define SPEC                                                                                       \
    "{source: {kind: GPUProfile, name: p, generation: 3}, migStrategy: mixed,"                     \
    " rollout: {drain: evict, timeoutSeconds: 60}, failurePolicy: rollback, devices: ["
#define CUT                                                                                        \
    "{uuid: GPU-00000000-fake, mode: mig, failurePolicy: hold,"                                    \
    " rollout: {drain: refuseIfInUse, timeoutSeconds: 60},"                                        \
    " mig: {profiles: [{profile: 3g.40gb, count: 1}, {profile: 1g.10gb, count: 1}]}},"             \
    "{uuid: GPU-00000001-fake, mode: native, sharing: {timeSlicing: {replicas: 4}}}"
#define SLICED                                                                                     \
    "{uuid: GPU-00000002-fake, mode: sgpu, sgpu: {qosPolicy: fixed-share,"                         \
    " timesliceMilliseconds: 10, slices: ["                                                        \
    "  {alias: small, memoryMiB: 1024, computePercent: 10, count: 2},"                             \
    "  {alias: large, memoryMiB: 32768, computePercent: 50}]}},"                                   \
    "{uuid: GPU-00000003-fake, mode: sgpu, sgpu: {qosPolicy: burst-share}}"

/* A slice with a process in it. */
static void add_slice(struct fake_card *c, const char *alias, unsigned mib, unsigned percent)
{
    unsigned id = fake_slice(c, alias, (struct sgpu_quota){mib, percent}, /* foreign= */ false);
    fake_attach(c, (struct fake_process){.pid = 20 + id, .start = (int)id, .ci_start = -1});
}

static struct fake_card *add_sliced(int qos)
{
    struct fake_card *c = fake_add(&hw, FAKE_C500);
    c->card.mode = c->card.pending_mode = GPU_SGPU;
    c->card.sgpu.qos = qos;
    return c;
}

static void add_cards(void)
{
    static const unsigned whole_3g[] = {3, 0};
    static const unsigned whole_1g[] = {1, 0};
    struct fake_card *c = fake_add(&hw, FAKE_H100);
    c->card.mode = c->card.pending_mode = GPU_MIG;
    fake_put(c, "3g.40gb", 0, whole_3g);
    fake_put(c, "1g.10gb", 4, whole_1g);
    fake_attach(c, (struct fake_process){.pid = 9, .start = 0, .ci_start = -1});
    fake_attach(c, (struct fake_process){.pid = 10, .start = 4, .ci_start = -1});
    fake_attach(fake_add(&hw, FAKE_H100),
                (struct fake_process){.pid = 11, .start = -1, .ci_start = -1});
    c = add_sliced(API_FIXED_SHARE);
    add_slice(c, "small-0", 1024, 10);
    add_slice(c, "small-1", 1024, 10);
    add_slice(c, "large", 32768, 50);
    add_slice(add_sliced(API_BURST_SHARE), "slot.3", 2048, 20);
}

static void round_of(void)
{
    auto_err struct err e = {0};
    bool done;
    (void)!informer_step(inf, scope, NULL, &e);
    agent_step(agent, scope, 0);
    while (worker_pending(worker) > 0)
        agent_step(agent, scope, PATIENCE_MS);
    err_clear(&e);
    (void)!status_writer_step(pub, scope, &done, &e);
}

static void pass(int64_t ms, int64_t tick_ms)
{
    for (int64_t t = 0; t <= ms; t += tick_ms) {
        round_of();
        clock_fake_advance(clk, tick_ms);
    }
}

static void start(void)
{
    const struct worker_options w = {.call_deadline_ms = 5000, .clock = clk};
    cr_assert_eq(worker_new(gpu_fake_open(&hw), &w, &worker, NULL), 0);
    inf = informer_new(mutator,
                       &(struct informer_opts){.type = &own_device_type, .name = "n1", .clk = clk});
    pub = status_writer_new(&(struct status_writer_deps){mutator, inf, "n1", clk, 1});
    agent = agent_new(&(struct agent_deps){
        .worker = worker,
        .devices = inf,
        .status_writer = pub,
        .clk = clk,
        .node = "n1",
        .state_dir = dir,
        .proc_root = "/nonexistent",
        .version = "v1",
        .resync_ms = RESYNC_MS,
        .seed = 7,
    });
}

static void patch(json_t *body_take)
{
    auto_json json_t *body = body_take;
    const struct kc_write w = {.body = body, .how = KC_MERGE};
    cr_assert_eq(kc_patch(server, scope, &device, &w, NULL, NULL), 0);
}

static void touch(void)
{
    auto_free char *text = xasprintf("%u", ++touched);
    patch(json_pack("{s:{s:{s:s}}}", "metadata", "annotations", "touched", text));
}

static json_t *read_device(void)
{
    json_t *obj = NULL;
    cr_assert_eq(kc_get(server, scope, &device, &obj, NULL), 0);
    return obj;
}

/* What the agent says and what there is, without times. Caller frees. */
static char *state(void)
{
    auto_json json_t *obj = read_device();
    json_t *status = json_object_get(obj, "status");
    auto_free char *devices = jx_dump(json_object_get(status, "devices"));
    for (char *t = devices; (t = strstr(t, "lastTransitionTime\":\""));)
        memset(t, 'x', strlen("lastTransitionTime\":\"2026-01-02T03:04:05Z"));
    auto_free char *resources = jx_dump(json_object_get(status, "resources"));
    auto_free char *models = jx_dump(json_object_get(status, "models"));
    bool seen = json_integer_value(JX_AT(obj, "metadata", "generation")) ==
                json_integer_value(json_object_get(status, "observedGeneration"));
    return xasprintf("%s\n%s\n%s\n%s", devices, resources, models, seen ? "seen" : "behind");
}

static void setup(void)
{
    log_setup(LOG_ERROR, LOG_LOGFMT, open("/dev/null", O_WRONLY | O_CLOEXEC));
    clk = clock_fake_new(1767323045000);
    scope = scope_new(NULL, -1);
    (void)snprintf(dir, sizeof(dir), "/tmp/agent_mutation.XXXXXX");
    cr_assert_not_null(mkdtemp(dir));
    server = kc_fake_new(clk);
    kc_fake_watch_drains(server, true);
    mutator = mutator_new(server);
    add_cards();
    start();
    pass(200, TICK_MS);
}

static void want(const char *spec)
{
    auto_json json_t *body = NULL;
    cr_assert_eq(yaml_load(spec, strlen(spec), &body, NULL), 0);
    patch(json_pack("{s:O}", "spec", body));
    pass(SETTLED_MS, STEP_MS);
}

static void teardown(void)
{
    bool abandoned = true;
    worker = worker_free(worker, PATIENCE_MS, &abandoned);
    cr_expect_not(abandoned);
    agent = agent_free(agent);
    pub = status_writer_free(pub);
    inf = informer_free(inf);
    mutator = kc_free(mutator);
    server = kc_free(server);
    (void)scope_free(scope);
    (void)clock_free(clk);
    auto_free char *command = xasprintf("rm -rf %s", dir);
    cr_expect_eq(system(command), 0);
}

TestSuite(agent_mutation, .init = setup, .fini = teardown);

static bool has_slice(unsigned card, unsigned id, const char *alias)
{
    const struct sgpu_state *s = &hw.cards[card].card.sgpu;
    for (unsigned i = 0; i < s->n; i++)
        if (s->items[i].id == id)
            return strcmp(s->items[i].alias, alias) == 0;
    return false;
}

static bool slices_stand(void)
{
    return has_slice(2, 0, "small-0") && has_slice(2, 1, "small-1") && has_slice(2, 2, "large") &&
           has_slice(3, 0, "slot.3") && hw.cards[2].card.sgpu.qos == API_FIXED_SHARE &&
           hw.cards[2].card.sgpu.timeslice_ms == 10 && hw.cards[3].card.sgpu.qos == API_BURST_SHARE;
}

static bool all_stand(void)
{
    const struct gpu_card *c = &hw.cards[0].card;
    unsigned held = 0;
    for (unsigned i = 0; i < c->state.n; i++)
        held += c->state.items[i].start == 0 || c->state.items[i].start == 4;
    return held == 2 && hw.violations == 0 && hw.cards[1].mutations == 0 &&
           hw.cards[1].card.mode == GPU_NATIVE && slices_stand();
}

static size_t stride(void)
{
    const char *text = getenv("MUTATION_STRIDE");
    int64_t n;
    return text && num_parse(text, 1, MANY, &n, NULL) == 0 ? (size_t)n : STRIDE;
}

/* Until it was read, and a while. */
static void let_it_read(const char *what)
{
    int64_t waited = 0;
    for (; mutator_reads(mutator) == 0 && waited < HEALED_MS; waited += STEP_MS)
        pass(STEP_MS, STEP_MS);
    cr_expect_lt(waited, HEALED_MS, "%s: it was never read", what);
    pass(WHILE_MS, TICK_MS);
    pass(2 * STEP_MS, STEP_MS);
}

static void heal(const char *before, const char *what)
{
    mutator_order(mutator, &resource_devices, "n1", MUTATION_NONE);
    if (mutation_is_of_identity(what))
        kc_fake_compact(server);
    touch();
    let_it_read(what);
    auto_free char *now = NULL;
    for (int64_t t = 0; t < HEALED_MS; t += STEP_MS) {
        pass(STEP_MS, STEP_MS);
        free(now);
        now = state();
        if (strcmp(now, before) == 0)
            return;
    }
    cr_expect_str_eq(now, before, "%s is left behind:\n%s\nnot:\n%s", what, now, before);
}

static void mutate_all(void)
{
    auto_free char *before = state();
    auto_json json_t *donor = read_device();
    const json_t *cards = JX_AT(donor, "spec", "devices");
    auto_json json_t *first = json_incref(json_array_get(cards, 0));
    (void)json_array_remove((json_t *)(uintptr_t)cards, 0);
    (void)json_array_append((json_t *)(uintptr_t)cards, first);
    const json_t *const donors[MUTATION_DONORS] = {donor};
    mutator_donors(mutator, donors);
    cr_assert(strstr(before, "seen") && !strstr(before, "Progressing"), "%s", before);
    cr_assert(all_stand());
    size_t n = 0;
    for (; n < MANY; n += stride()) {
        auto_free char *what = NULL;
        auto_json json_t *obj = read_device();
        auto_json json_t *other = mutation_of(obj, donors, n, &what);
        if (!other)
            break;
        mutator_order(mutator, &resource_devices, "n1", n);
        touch();
        let_it_read(what);
        cr_expect(all_stand(), "%s: something in use was touched", what);
        heal(before, what);
        cr_expect(all_stand(), "%s: something in use was touched", what);
    }
    cr_log_info("Device n1: up to %zu mutations", n);
}

Test(agent_mutation, of_the_own_device_touches_no_partition_in_use)
{
    want(SPEC CUT ", " SLICED "]}");
    mutate_all();
}

Test(agent_mutation, of_the_own_device_touches_no_slice_in_use)
{
    want(SPEC SLICED ", " CUT "]}");
    mutate_all();
}
