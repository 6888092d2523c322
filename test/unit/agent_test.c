/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/file.h"
#include "base/jx.h"
#include "base/log.h"
#include "base/rng.h"
#include "base/xalloc.h"
#include "base/yaml.h"

#include "folder_support.h"
#include "gpu_fake_support.h"
#include "kubeclient/fake/fake.h"
#include "nodeagent/change/journal.h"
#include "nodeagent/loop/agent.h"
#include "nodeagent/loop/agent_liveness.h"
#include "nodeagent/loop/own_device.h"
#include "service/resources.h"

/*
 * The agent between cards in memory and a model of the API server. Informer, loop and status writer
 * are stepped by the test's thread and the clock is the test's; only the worker is a thread, as it
 * is in production.
 */

/* --- A library that can be unplugged, fail and hang, in front of the fake's cards --- */

struct gate {
    struct gpu gpu; /* first */
    struct gpu *inner;
    pthread_mutex_t mu;    /* the fake's cards are for one thread; a call that hangs is outside */
    atomic_bool unplugged; /* no driver */
    atomic_bool blind;     /* the first card cannot be read */
    atomic_bool refusing;  /* no instance can be made or removed */
    atomic_bool exhausted; /* none can be made */
    atomic_int failing;    /* so many creations of a whole card's instance fail */
    atomic_int hanging;    /* so many gi_create calls hang until let go */
    const char *hanging_card; /* only creations on this one hang; NULL: on any */
    atomic_int hanging_reads;
    atomic_bool failing_reads;
    atomic_int reads;          /* of everything, so far */
    atomic_int card_reads;     /* of one card, so far */
    atomic_int unplugged_at;   /* the driver goes before that one; 0: never */
    atomic_int failing_resets; /* so many are refused, as for a client that no list shows */
    atomic_int resets;         /* so far */
    atomic_int creates;        /* gi_create calls so far */
    struct kc *server;         /* what is on offer there is held against the cards (S6) */
    struct scope *scope;
    struct fake_hw *hw;
    atomic_int overpromised; /* calls that took away what was on offer */
    json_t *node;            /* status.resources as the Node has them; guarded by mu */
    const struct clock *clk;
    int ends[2]; /* the hanging call says so on one side and is let go from the other */
};

static struct gate *gate_of(struct gpu *g)
{
    return (struct gate *)g;
}

/* What a back end tells of a card that it cannot read. */
static void forget_card(struct gpu_card *c)
{
    struct gpu_card known = {.vendor = "nvidia", .healthy = false, .unread = true, .mig = c->mig};
    memcpy(known.uuid, c->uuid, sizeof(c->uuid));
    memcpy(known.model, c->model, sizeof(c->model));
    (void)snprintf(known.unhealthy_reason, sizeof(known.unhealthy_reason), "ReadFailed");
    gpu_card_done(c);
    *c = known;
}

static void hang(struct gate *gate)
{
    char c;
    struct gpu_activity *mine = gpu_activity_mine();
    atomic_store(&mine->since_mono_ms, clock_mono_ms(gate->clk));
    atomic_store(&mine->call, "nvmlDeviceCreateGpuInstance");
    cr_expect_eq(write(gate->ends[1], "h", 1), 1);
    while (read(gate->ends[1], &c, 1) < 0)
        continue;
    atomic_store(&mine->call, NULL);
}

static bool take_one(atomic_int *n)
{
    return atomic_load(n) > 0 && atomic_fetch_sub(n, 1) > 0;
}

static int gate_read(struct gpu *g, struct gpu_inventory *ret, struct err *e)
{
    atomic_fetch_add(&gate_of(g)->reads, 1);
    if (take_one(&gate_of(g)->hanging_reads))
        hang(gate_of(g));
    if (atomic_load(&gate_of(g)->failing_reads))
        return err_set(e, ERR_UNAVAILABLE, "no count of the cards");
    if (atomic_load(&gate_of(g)->unplugged))
        return err_set(e, ERR_NOT_FOUND, "the driver is not loaded");
    struct gpu *in = gate_of(g)->inner;
    HOLD(&gate_of(g)->mu);
    TRY(in->ops->read(in, ret, e));
    if (atomic_load(&gate_of(g)->blind))
        forget_card(&ret->cards[0]);
    return 0;
}

static int gate_read_card(struct gpu *g, const char *uuid, struct gpu_card *ret, struct err *e)
{
    if (atomic_fetch_add(&gate_of(g)->card_reads, 1) + 1 == atomic_load(&gate_of(g)->unplugged_at))
        atomic_store(&gate_of(g)->unplugged, true);
    if (atomic_load(&gate_of(g)->unplugged))
        return err_set(e, ERR_UNAVAILABLE, "the driver is gone");
    struct gpu *in = gate_of(g)->inner;
    HOLD(&gate_of(g)->mu);
    return in->ops->read_card(in, uuid, ret, e);
}

static const struct kc_target device = {.res = &resource_devices, .name = "n1"};

/* How many of a resource the spec's one card would have. */
static json_int_t kept_by_order(const json_t *obj, const char *name)
{
    const json_t *want = json_array_get(JX_AT(obj, "spec", "devices"), 0);
    if (!want)
        return INT64_MAX;
    size_t i;
    json_t *p;
    json_array_foreach(JX_AT(want, "mig", "profiles"), i, p) {
        auto_free char *offered = xasprintf("nvidia.com/mig-%s", JX_STR_AT(p, "profile"));
        if (strcmp(offered, name) == 0)
            return json_integer_value(JX_AT(p, "count"));
    }
    return 0;
}

/* The sum of resources, less what an order that the agent has not answered takes away (the
 * controller withdraws that before it orders). */
static json_int_t sum_of(const json_t *resources, const json_t *obj)
{
    bool behind = json_integer_value(JX_AT(obj, "metadata", "generation")) >
                  json_integer_value(JX_AT(obj, "status", "observedGeneration"));
    json_int_t sum = 0;
    size_t i;
    json_t *r;
    json_array_foreach(resources, i, r) {
        json_int_t count = json_integer_value(JX_AT(r, "count"));
        json_int_t kept = behind ? kept_by_order(obj, JX_STR_AT(r, "name")) : count;
        sum += kept < count ? kept : count;
    }
    return sum;
}

/* The offer of the Node, as it was written from a status. */
static json_int_t offered_by(const struct gate *gate)
{
    auto_json json_t *obj = NULL;
    if (kc_get(gate->server, gate->scope, &device, &obj, NULL) < 0)
        return 0;
    return sum_of(gate->node, obj);
}

static unsigned stands_on(const struct fake_card *c)
{
    return c->card.mode == GPU_NATIVE ? 1 : c->card.n_partitions;
}

/* Before a call that takes something of a card away: nobody may be told to have it. */
static void check_offer(struct gate *gate, const char *uuid, bool whole)
{
    unsigned left = 0;
    for (unsigned i = 0; i < gate->hw->n_cards; i++) {
        const struct fake_card *c = &gate->hw->cards[i];
        bool goes = strcmp(c->card.uuid, uuid) == 0 && whole == (c->card.mode == GPU_NATIVE);
        left += stands_on(c) - (goes && stands_on(c) ? 1 : 0);
    }
    if (!gate->hw->dead && offered_by(gate) > left)
        atomic_fetch_add(&gate->overpromised, 1);
}

static int gate_mode_set(struct gpu *g, const char *uuid, enum gpu_mode mode,
                         enum gpu_mode_result *ret, struct err *e)
{
    struct gpu *in = gate_of(g)->inner;
    HOLD(&gate_of(g)->mu);
    check_offer(gate_of(g), uuid, /* whole= */ true);
    return in->ops->mode_set(in, uuid, mode, ret, e);
}

static int gate_reset(struct gpu *g, const char *uuid, struct err *e)
{
    struct gpu *in = gate_of(g)->inner;
    HOLD(&gate_of(g)->mu);
    check_offer(gate_of(g), uuid, /* whole= */ true);
    atomic_fetch_add(&gate_of(g)->resets, 1);
    if (take_one(&gate_of(g)->failing_resets))
        return err_set(e, ERR_UNAVAILABLE, "a client holds the card");
    return in->ops->reset(in, uuid, e);
}

static int gate_gi_create(struct gpu *g, const char *uuid, unsigned profile_id, unsigned start,
                          unsigned size, unsigned *ret_gi_id, struct err *e)
{
    struct gate *gate = gate_of(g);
    atomic_fetch_add(&gate->creates, 1);
    if ((!gate->hanging_card || strcmp(gate->hanging_card, uuid) == 0) && take_one(&gate->hanging))
        hang(gate);
    if (atomic_load(&gate->refusing) || atomic_load(&gate->exhausted) ||
        (size == 8 && take_one(&gate->failing)))
        return err_set(e, ERR_UNAVAILABLE, "injected");
    HOLD(&gate->mu);
    return gate->inner->ops->gi_create(gate->inner, uuid, profile_id, start, size, ret_gi_id, e);
}

static int gate_gi_destroy(struct gpu *g, const char *uuid, unsigned gi_id, struct err *e)
{
    struct gpu *in = gate_of(g)->inner;
    HOLD(&gate_of(g)->mu);
    return in->ops->gi_destroy(in, uuid, gi_id, e);
}

static int gate_ci_create(struct gpu *g, const char *uuid, unsigned gi_id, unsigned slices,
                          int start, unsigned *ret_ci_id, struct err *e)
{
    struct gpu *in = gate_of(g)->inner;
    HOLD(&gate_of(g)->mu);
    return in->ops->ci_create(in, uuid, gi_id, slices, start, ret_ci_id, e);
}

static int gate_ci_destroy(struct gpu *g, const char *uuid, unsigned gi_id, unsigned ci_id,
                           struct err *e)
{
    struct gpu *in = gate_of(g)->inner;
    HOLD(&gate_of(g)->mu);
    check_offer(gate_of(g), uuid, /* whole= */ false);
    if (atomic_load(&gate_of(g)->refusing))
        return err_set(e, ERR_UNAVAILABLE, "injected");
    return in->ops->ci_destroy(in, uuid, gi_id, ci_id, e);
}

static int gate_exclusive_set(struct gpu *g, const char *uuid, bool on, struct err *e)
{
    struct gpu *in = gate_of(g)->inner;
    HOLD(&gate_of(g)->mu);
    return in->ops->exclusive_set(in, uuid, on, e);
}

/* The gate itself lives in the bench. */
static struct gpu *gate_free(struct gpu *g)
{
    return gpu_free(gate_of(g)->inner);
}

static const struct gpu_ops gate_ops = {
    .read = gate_read,
    .read_card = gate_read_card,
    .mode_set = gate_mode_set,
    .reset = gate_reset,
    .gi_create = gate_gi_create,
    .gi_destroy = gate_gi_destroy,
    .ci_create = gate_ci_create,
    .ci_destroy = gate_ci_destroy,
    .exclusive_set = gate_exclusive_set,
    .free = gate_free,
};

/* --- The bench --- */

enum { CHAOS_SEEDS = 6 };
enum { CALL_DEADLINE_MS = 5000, RESYNC_MS = 30000, PATIENCE_MS = 20000, TICK_MS = 20 };
enum { FINE_MS = 2000, LONG_TICK_MS = 200 };

struct bench {
    struct fake_hw hw;
    struct gate gate;
    char *dir;
    struct clock *clk;
    struct scope *scope;
    struct kc *server;
    struct worker *worker;
    struct informer *inf;
    struct status_writer *pub;
    struct koord_infos *koordinator; /* NULL: none */
    int resource_publisher;          /* enum api_publisher */
    struct vendor_limit limit;       /* no vendor: there is none */
    struct heartbeats *beats;        /* the loop's, LOOP_MS; of each start one */
    struct agent *agent;
    json_t *seen;    /* the Device as the controller last read it */
    bool away;       /* the controller is */
    const char *sys; /* the node's /sys; NULL: it cannot be read */
};

#define LOOP_MS 120000

/* Opens everything on the hardware of b->hw, as a process that starts. */
static void bench_start(struct bench *b)
{
    b->gate.gpu = (struct gpu){.ops = &gate_ops};
    b->gate.inner = gpu_fake_open(&b->hw);
    b->gate.clk = b->clk;
    b->gate.server = b->server;
    b->gate.scope = b->scope;
    b->gate.hw = &b->hw;
    const struct worker_options w = {.max_threads = 4,
                                     .call_deadline_ms = CALL_DEADLINE_MS,
                                     .clock = b->clk};
    struct gpu *one = &b->gate.gpu;
    cr_assert_eq(worker_new(gpu_all_new(&one, 1), &w, &b->worker, NULL), 0);
    const struct informer_opts i = {.type = &own_device_type, .name = "n1", .clk = b->clk};
    b->inf = informer_new(b->server, &i);
    const struct status_writer_deps p = {b->server, b->inf, "n1", b->clk, 1};
    b->pub = status_writer_new(&p);
    const struct agent_deps d = {
        .worker = b->worker,
        .limits = &b->limit,
        .n_limits = b->limit.vendor ? 1 : 0,
        .devices = b->inf,
        .status_writer = b->pub,
        .clk = b->clk,
        .beat = heartbeat_add(b->beats, "loop", LOOP_MS),
        .node = "n1",
        .state_dir = b->dir,
        .proc_root = "/nonexistent",
        .sys_root = b->sys ? b->sys : "/nonexistent",
        .version = "v1",
        .resource_publisher = b->resource_publisher,
        .koordinator = b->koordinator,
        .resync_ms = RESYNC_MS,
        .seed = 7,
    };
    b->agent = agent_new(&d);
}

static void bench_init(struct bench *b)
{
    log_setup(LOG_ERROR, LOG_LOGFMT, open("/dev/null", O_WRONLY | O_CLOEXEC));
    *b = (struct bench){.clk = clock_fake_new(1767323045000), .scope = scope_new(NULL, -1)};
    b->dir = folder_make();
    (void)pthread_mutex_init(&b->gate.mu, NULL);
    cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, b->gate.ends), 0);
    b->server = kc_fake_new(b->clk);
    b->beats = heartbeats_new(b->clk);
    kc_fake_watch_drains(b->server, true);
}

static void bench_stop(struct bench *b)
{
    bool abandoned = true;
    b->worker = worker_free(b->worker, PATIENCE_MS, &abandoned);
    cr_expect_not(abandoned);
    b->agent = agent_free(b->agent);
    b->koordinator = koord_infos_free(b->koordinator);
    b->pub = status_writer_free(b->pub);
    b->inf = informer_free(b->inf);
}

static void bench_done(struct bench *b)
{
    bench_stop(b);
    cr_expect_eq(b->hw.violations, 0, "something in use was touched");
    cr_expect_eq(atomic_load(&b->gate.overpromised), 0, "what was on offer was taken away");
    (void)kc_free(b->server);
    (void)heartbeats_free(b->beats);
    (void)clock_free(b->clk);
    (void)scope_free(b->scope);
    json_decref(b->seen);
    json_decref(b->gate.node);
    (void)close(b->gate.ends[0]);
    (void)close(b->gate.ends[1]);
    folder_remove(b->dir);
    free(b->dir);
}

/* The controller, a round late: writes into the Node what the status of the round before offers,
 * and confirms that, until nothing waits for it. */
static void control(struct bench *b)
{
    auto_json json_t *seen = TAKE(b->seen);
    if (b->away || kc_get(b->server, b->scope, &device, &b->seen, NULL) < 0 || !seen)
        return;
    {
        HOLD(&b->gate.mu);
        json_decref(b->gate.node);
        b->gate.node = json_incref(json_object_get(json_object_get(seen, "status"), "resources"));
    }
    const char *wanted = JX_STR_AT(seen, "status", "withdrawal");
    const char *now = JX_STR_AT(b->seen, "spec", "withdrawn");
    if (!wanted == !now && (!wanted || strcmp(now, wanted) == 0))
        return;
    auto_json json_t *patch = json_pack("{s:{s:s?}}", "spec", "withdrawn", wanted);
    const struct kc_write w = {.body = patch, .how = KC_MERGE};
    cr_assert_eq(kc_patch(b->server, b->scope, &device, &w, NULL, NULL), 0);
}

/* One round of everything; waits for the worker unless its call hangs. */
static void round_of(struct bench *b, bool wait)
{
    auto_err struct err e = {0};
    bool done;
    (void)!informer_step(b->inf, b->scope, NULL, &e);
    agent_step(b->agent, b->scope, 0);
    while (wait && worker_pending(b->worker) > 0)
        agent_step(b->agent, b->scope, PATIENCE_MS);
    err_clear(&e);
    (void)!status_writer_step(b->pub, b->scope, &done, &e);
    control(b);
}

static void stride(struct bench *b, int64_t ms, int64_t tick)
{
    for (int64_t t = 0; t < ms; t += tick) {
        round_of(b, true);
        clock_fake_advance(b->clk, tick);
    }
    round_of(b, true);
}

/* Short ticks for as long as the agent answers what was done to it; after them only its timers of
 * seconds are due, and ticks are long. */
static void pass(struct bench *b, int64_t ms)
{
    stride(b, ms < FINE_MS ? ms : FINE_MS, TICK_MS);
    if (ms > FINE_MS)
        stride(b, ms - FINE_MS, LONG_TICK_MS);
}

/* Short ticks while a call hangs, for which no round waits. */
static void pass_hanging(struct bench *b, int64_t ms)
{
    for (int64_t t = 0; t < ms; t += TICK_MS) {
        round_of(b, false);
        clock_fake_advance(b->clk, TICK_MS);
    }
    round_of(b, false);
}

static void wait_for_hang(struct bench *b)
{
    char c;
    for (int i = 0; i < 4; i++)
        round_of(b, false);
    cr_assert_eq(read(b->gate.ends[0], &c, 1), 1);
}

static void let_go(struct bench *b)
{
    cr_assert_eq(write(b->gate.ends[0], "g", 1), 1);
}

static void set_spec(struct bench *b, const char *spec)
{
    auto_json json_t *body = NULL;
    cr_assert_eq(yaml_load(spec, strlen(spec), &body, NULL), 0, "%s", spec);
    auto_json json_t *patch = json_pack("{s:O}", "spec", body);
    const struct kc_write w = {.body = patch, .how = KC_MERGE};
    cr_assert_eq(kc_patch(b->server, b->scope, &device, &w, NULL, NULL), 0);
}

/* Starts on cards that are as they should be, sees its Device made, and gets a spec. */
static void bench_run(struct bench *b, const char *spec)
{
    bench_start(b);
    pass(b, 200);
    if (spec)
        set_spec(b, spec);
}

#define WANT(profiles)                                                                             \
    "{devices: [{uuid: GPU-00000000-fake, mode: mig, mig: {profiles: [" profiles "]}}]}"
#define TWO_3G "{profile: 3g.40gb, count: 2}"
#define ONE_7G "{profile: 7g.80gb, count: 1}"

/* "Ready Applied 2" : the node's word, its reason and the generation that it speaks of. */
static void expect_status(struct bench *b, const char *expected, const char *when)
{
    auto_json json_t *obj = NULL;
    cr_assert_eq(kc_get(b->server, b->scope, &device, &obj, NULL), 0);
    const char *state = "no status";
    const char *reason = "";
    size_t i;
    json_t *c;
    json_array_foreach(JX_AT(obj, "status", "conditions"), i, c) {
        const char *type = JX_STR_AT(c, "type");
        bool of_kstatus = strcmp(type, "Ready") == 0 || strcmp(type, "Reconciling") == 0 ||
                          strcmp(type, "Stalled") == 0;
        if (!of_kstatus || strcmp(JX_STR_AT(c, "status"), "True") != 0)
            continue;
        state = JX_STR_AT(c, "type");
        reason = JX_STR_AT(c, "reason");
    }
    json_int_t behind = json_integer_value(JX_AT(obj, "metadata", "generation")) -
                        json_integer_value(JX_AT(obj, "status", "observedGeneration"));
    auto_free char *have = xasprintf("%s %s%s", state, reason, behind ? ", behind" : "");
    cr_assert_str_eq(have, expected, "%s: %s, not %s", when, have, expected);
}

/* "3g.40gb@0 3g.40gb@4" */
static void expect_card(struct bench *b, const char *expected)
{
    const struct gpu_card *c = &b->hw.cards[0].card;
    char have[256] = "";
    size_t len = 0;
    for (unsigned start = 0; start < 8; start++)
        for (unsigned i = 0; i < c->state.n; i++)
            if (c->state.items[i].start == start)
                len += (size_t)snprintf(have + len, sizeof(have) - len, "%s%s@%u", len ? " " : "",
                                        c->mig.profiles[c->state.items[i].profile].name, start);
    cr_assert_str_eq(have, expected, "%s, not %s", have, expected);
}

static void add_cut_card(struct bench *b)
{
    struct gpu_card *c = &fake_add(&b->hw, FAKE_H100)->card;
    c->mode = c->pending_mode = GPU_MIG;
}

static const unsigned whole_1g[] = {1, 0};

/* --- What it does --- */

Test(agent, a_spec_that_arrives_becomes_the_card_and_is_told)
{
    struct bench b;
    bench_init(&b);
    fake_add(&b.hw, FAKE_H100);
    bench_run(&b, NULL);
    expect_status(&b, "Ready Applied", "at the start");
    cr_expect(agent_is_ready(b.agent));
    set_spec(&b, WANT(TWO_3G));
    pass(&b, 200);
    expect_card(&b, "3g.40gb@0 3g.40gb@4");
    expect_status(&b, "Ready Applied", "after the change");
    bench_done(&b);
}

Test(agent, an_ampere_card_is_reset_for_its_mode)
{
    struct bench b;
    bench_init(&b);
    fake_add(&b.hw, FAKE_A100);
    bench_run(&b, WANT(TWO_3G));
    pass(&b, 200);
    expect_card(&b, "3g.40gb@0 3g.40gb@4");
    bench_done(&b);
}

Test(agent, a_card_nobody_speaks_of_is_left_alone)
{
    struct bench b;
    bench_init(&b);
    add_cut_card(&b);
    fake_put(&b.hw.cards[0], "1g.10gb", 3, whole_1g);
    bench_run(&b, "{devices: []}");
    pass(&b, RESYNC_MS * 2);
    cr_expect_eq(b.hw.cards[0].mutations, 0);
    expect_status(&b, "Ready Applied", "nothing is wanted");
    bench_done(&b);
}

Test(agent, a_card_in_use_waits_and_is_cut_once_it_is_free)
{
    struct bench b;
    bench_init(&b);
    add_cut_card(&b);
    fake_put(&b.hw.cards[0], "1g.10gb", 3, whole_1g);
    fake_attach(&b.hw.cards[0], (struct fake_process){.pid = 9, .start = 3, .ci_start = -1});
    bench_run(&b, WANT(ONE_7G));
    pass(&b, 5000);
    cr_expect_eq(b.hw.cards[0].mutations, 0);
    expect_status(&b, "Reconciling InUse", "while it is used");
    b.hw.cards[0].users[0].pid = 0;
    pass(&b, 1200);
    expect_card(&b, "7g.80gb@0");
    expect_status(&b, "Ready Applied", "once it is free");
    bench_done(&b);
}

/* Hold leaves the mode pending. Whoever the lists show is waited for without a try; whoever they do
 * not show can only be found gone by trying, more and more rarely. */
Test(agent, a_reset_that_is_refused_waits_for_users_and_is_tried_again)
{
    struct bench b;
    bench_init(&b);
    fake_add(&b.hw, FAKE_A100);
    atomic_store(&b.gate.failing_resets, 2);
    bench_run(&b, "{devices: [{uuid: GPU-00000000-fake, mode: mig, failurePolicy: hold,"
                  " mig: {profiles: [" TWO_3G "]}}]}");
    pass(&b, 500);
    expect_status(&b, "Stalled ResetRequired", "somebody holds it");
    fake_attach(&b.hw.cards[0], (struct fake_process){.pid = 9, .start = -1, .ci_start = -1});
    pass(&b, 10000);
    expect_status(&b, "Reconciling InUse", "somebody is seen to hold it");
    int resets = atomic_load(&b.gate.resets);
    pass(&b, 60000);
    cr_expect_eq(atomic_load(&b.gate.resets), resets, "no try while it is used");
    b.hw.cards[0].users[0].pid = 0;
    pass(&b, 1500);
    cr_expect_eq(atomic_load(&b.gate.resets), resets + 1, "a try at once when it is free");
    pass(&b, 20000);
    expect_card(&b, "3g.40gb@0 3g.40gb@4");
    expect_status(&b, "Ready Applied", "in the end");
    bench_done(&b);
}

#define WANT_EVICT                                                                                 \
    "{devices: [{uuid: GPU-00000000-fake, mode: mig, mig: {profiles: [" ONE_7G "]},"               \
    " rollout: {drain: evict, timeoutSeconds: 60}}]}"

static char *drain_of(struct bench *b)
{
    auto_json json_t *obj = NULL;
    cr_assert_eq(kc_get(b->server, b->scope, &device, &obj, NULL), 0);
    const json_t *card = json_array_get(JX_AT(obj, "status", "devices"), 0);
    return jx_dump(JX_AT(card, "drain"));
}

Test(agent, a_restart_gives_a_drain_no_more_time)
{
    struct bench b;
    bench_init(&b);
    add_cut_card(&b);
    fake_put(&b.hw.cards[0], "1g.10gb", 3, whole_1g);
    fake_attach(&b.hw.cards[0], (struct fake_process){.pid = 9, .start = 3, .ci_start = -1});
    bench_run(&b, WANT_EVICT);
    pass(&b, 20000);
    expect_status(&b, "Reconciling Draining", "while it is drained");
    auto_free char *before = drain_of(&b);
    cr_assert(strstr(before, "deadline"), "%s", before);
    bench_stop(&b);
    bench_start(&b);
    pass(&b, 20000);
    expect_status(&b, "Reconciling Draining", "after the restart");
    auto_free char *after = drain_of(&b);
    cr_expect_str_eq(after, before);
    pass(&b, 25000);
    expect_status(&b, "Stalled DrainTimeout", "the time is over");
    bench_stop(&b);
    bench_start(&b);
    pass(&b, 2000);
    expect_status(&b, "Stalled DrainTimeout", "and stays so");
    b.hw.cards[0].users[0].pid = 0;
    pass(&b, 2000);
    expect_card(&b, "7g.80gb@0");
    bench_done(&b);
}

Test(agent, a_wish_that_cannot_be_leaves_the_hardware_alone)
{
    static const struct {
        const char *spec, *status;
    } cases[] = {
        {WANT("{profile: 9g.10gb, count: 1}"), "Stalled UnknownProfile"},
        {WANT("{profile: nonsense, count: 1}"), "Stalled Invalid"},
        {WANT("{profile: 7g.80gb, count: 2}"), "Stalled Infeasible"},
        {"{devices: [{uuid: GPU-none, mode: native}]}", "Stalled DeviceNotFound"},
        {"{devices: [{uuid: 5}]}", "Stalled Invalid"},
        {"{devices: 5}", "Stalled Invalid"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct bench b;
        bench_init(&b);
        add_cut_card(&b);
        fake_put(&b.hw.cards[0], "1g.10gb", 3, whole_1g);
        bench_run(&b, cases[i].spec);
        pass(&b, RESYNC_MS + 1000);
        cr_expect_eq(b.hw.cards[0].mutations, 0, "%s", cases[i].spec);
        expect_status(&b, cases[i].status, cases[i].spec);
        set_spec(&b, "{devices: null}");
        set_spec(&b, WANT(ONE_7G));
        pass(&b, 200);
        expect_card(&b, "7g.80gb@0");
        expect_status(&b, "Ready Applied", "a good wish after a bad one");
        bench_done(&b);
    }
}

#define WANT_SHARED(how)                                                                           \
    "{devices: [{uuid: GPU-00000000-fake, mode: mig, mig: {profiles: [" ONE_7G "]},"               \
    " sharing: {" how ": {replicas: 4}}}]}"

/* Whole or not at all: neither is the card cut for it. */
Test(agent, mps_that_nobody_would_serve_leaves_the_hardware_alone)
{
    struct bench b;
    bench_init(&b);
    b.resource_publisher = API_PUBLISHER_CONTROLLER;
    add_cut_card(&b);
    fake_put(&b.hw.cards[0], "1g.10gb", 3, whole_1g);
    bench_run(&b, WANT_SHARED("mps"));
    pass(&b, RESYNC_MS + 1000);
    cr_expect_eq(b.hw.cards[0].mutations, 0);
    expect_status(&b, "Stalled MPSUnsupported", "nobody runs its daemons");
    set_spec(&b, WANT_SHARED("timeSlicing"));
    pass(&b, 200);
    expect_card(&b, "7g.80gb@0");
    expect_status(&b, "Ready Applied", "time slicing needs nobody");
    set_spec(&b, WANT_SHARED("mps"));
    pass(&b, 200);
    expect_status(&b, "Stalled MPSUnsupported", "told at once, though the card need not change");
    bench_done(&b);
}

Test(agent, a_card_that_fails_is_tried_again_with_growing_pauses)
{
    struct bench b;
    bench_init(&b);
    add_cut_card(&b);
    fake_put(&b.hw.cards[0], "1g.10gb", 3, whole_1g);
    bench_run(&b, NULL);
    atomic_store(&b.gate.failing, 3);
    set_spec(&b, WANT(ONE_7G));
    pass(&b, 1000);
    expect_status(&b, "Stalled RolledBack", "after the first failure");
    expect_card(&b, "1g.10gb@3");
    int after_one = atomic_load(&b.gate.creates);
    pass(&b, 2000);
    cr_expect_gt(atomic_load(&b.gate.creates), after_one);
    int after_two = atomic_load(&b.gate.creates);
    pass(&b, 2000);
    cr_expect_eq(atomic_load(&b.gate.creates), after_two, "the second pause is longer");
    pass(&b, 30000);
    expect_card(&b, "7g.80gb@0");
    expect_status(&b, "Ready Applied", "after the last failure");
    bench_done(&b);
}

Test(agent, a_driver_that_comes_late_or_goes_is_told_and_taken_up_again)
{
    struct bench b;
    bench_init(&b);
    add_cut_card(&b);
    atomic_store(&b.gate.unplugged, true);
    bench_run(&b, NULL);
    expect_status(&b, "Stalled DriverNotLoaded", "without a driver");
    set_spec(&b, WANT(ONE_7G));
    pass(&b, 5000);
    expect_status(&b, "Stalled DriverNotLoaded", "a spec without a driver");
    atomic_store(&b.gate.unplugged, false);
    pass(&b, 10000);
    expect_status(&b, "Ready Applied", "the driver came");
    atomic_store(&b.gate.unplugged, true);
    pass(&b, RESYNC_MS + 1000);
    expect_status(&b, "Stalled DriverNotLoaded", "the driver went");
    atomic_store(&b.gate.unplugged, false);
    pass(&b, 10000);
    expect_status(&b, "Ready Applied", "the driver came back");
    bench_done(&b);
}

Test(agent, what_happens_during_a_reading_causes_no_second_one)
{
    struct bench b;
    bench_init(&b);
    add_cut_card(&b);
    bench_run(&b, WANT(TWO_3G));
    pass(&b, 200);
    atomic_store(&b.gate.hanging_reads, 1);
    pass_hanging(&b, RESYNC_MS);
    wait_for_hang(&b);
    int reads = atomic_load(&b.gate.reads);
    pass_hanging(&b, 1000);
    let_go(&b);
    pass(&b, 1000);
    cr_expect_eq(atomic_load(&b.gate.reads), reads);
    bench_done(&b);
}

Test(agent, a_spec_that_changes_while_a_card_is_cut_is_followed)
{
    struct bench b;
    bench_init(&b);
    add_cut_card(&b);
    bench_run(&b, NULL);
    atomic_store(&b.gate.hanging, 1);
    set_spec(&b, WANT(ONE_7G));
    wait_for_hang(&b);
    set_spec(&b, WANT(TWO_3G));
    pass_hanging(&b, 200);
    expect_status(&b, "Reconciling Progressing", "the old change is still under way");
    let_go(&b);
    pass(&b, 200);
    expect_card(&b, "3g.40gb@0 3g.40gb@4");
    expect_status(&b, "Ready Applied", "the last word holds");
    bench_done(&b);
}

Test(agent, what_somebody_else_changes_is_healed)
{
    struct bench b;
    bench_init(&b);
    add_cut_card(&b);
    bench_run(&b, WANT(TWO_3G));
    pass(&b, 200);
    struct gpu_card *c = &b.hw.cards[0].card;
    c->state.n = c->n_partitions = 0;
    pass(&b, RESYNC_MS + 200);
    expect_card(&b, "3g.40gb@0 3g.40gb@4");
    bench_done(&b);
}

/* An instance without compute instances is no partition, but it is not what was asked for. */
Test(agent, a_bare_instance_that_somebody_else_made_is_removed)
{
    struct bench b;
    bench_init(&b);
    add_cut_card(&b);
    bench_run(&b, WANT("{profile: 3g.40gb, count: 1}"));
    pass(&b, 200);
    expect_card(&b, "3g.40gb@4");
    fake_put(&b.hw.cards[0], "1g.10gb", 1, (const unsigned[]){0});
    pass(&b, RESYNC_MS + 200);
    expect_card(&b, "3g.40gb@4");
    bench_done(&b);
}

/* Fails the second creation of two, and gives the first instance a user before it can go again. */
static void block_both_ways(struct bench *b)
{
    b->hw.calls = 0;
    b->hw.fail_at = b->hw.attach_at = 5;
    b->hw.attach = (struct fake_process){.pid = 9, .start = 0, .ci_start = -1};
}

/* An agent whose card is half-way between two layouts, with the journal of its change. */
static void bench_block(struct bench *b)
{
    bench_init(b);
    add_cut_card(b);
    bench_run(b, NULL);
    block_both_ways(b);
    set_spec(b, WANT(TWO_3G));
    pass(b, 200);
}

Test(agent, a_change_blocked_both_ways_goes_on_by_itself)
{
    struct bench b;
    bench_block(&b);
    expect_card(&b, "3g.40gb@0");
    pass(&b, 10000);
    expect_card(&b, "3g.40gb@0 3g.40gb@4");
    expect_status(&b, "Ready Applied", "the fault is over");
    bench_done(&b);
}

Test(agent, a_change_that_nobody_wants_any_more_is_ended_all_the_same)
{
    struct bench b;
    bench_block(&b);
    set_spec(&b, "{devices: []}");
    pass(&b, 200);
    b.hw.cards[0].users[0] = (struct fake_process){0};
    pass(&b, 2 * RESYNC_MS);
    char **left = NULL;
    size_t n = 1;
    cr_expect_eq(journal_list(b.dir, &left, &n, NULL), 0);
    cr_expect_eq(n, 0, "the journal stays");
    bench_done(&b);
}

/* The offer of the status. */
static json_int_t offered(struct bench *b)
{
    auto_json json_t *obj = NULL;
    if (kc_get(b->server, b->scope, &device, &obj, NULL) < 0)
        return 0;
    return sum_of(JX_AT(obj, "status", "resources"), obj);
}

/* What a failed change left stands and is on offer, as the card is wanted. The rest of the change
 * can be taken back by then, and no reading does so: bench_done counts what was offered. */
Test(agent, a_recovery_destroys_nothing_that_is_on_offer)
{
    struct bench b;
    bench_block(&b);
    atomic_store(&b.gate.exhausted, true);
    b.hw.cards[0].users[0] = (struct fake_process){0};
    pass(&b, 3 * RESYNC_MS);
    cr_expect_eq(offered(&b), 1);
    expect_card(&b, "3g.40gb@0");
    atomic_store(&b.gate.exhausted, false);
    pass(&b, 300000);
    expect_card(&b, "3g.40gb@0 3g.40gb@4");
    expect_status(&b, "Ready Applied", "the fault is over");
    bench_done(&b);
}

Test(agent, a_card_that_cannot_be_read_is_not_told_to_be_whole_and_free)
{
    struct bench b;
    bench_init(&b);
    add_cut_card(&b);
    fake_put(&b.hw.cards[0], "1g.10gb", 3, whole_1g);
    fake_attach(&b.hw.cards[0], (struct fake_process){.pid = 9, .start = 3, .ci_start = -1});
    bench_run(&b, NULL);
    atomic_store(&b.gate.blind, true);
    pass(&b, RESYNC_MS + 200);
    auto_json json_t *obj = NULL;
    cr_assert_eq(kc_get(b.server, b.scope, &device, &obj, NULL), 0);
    const json_t *card = json_array_get(JX_AT(obj, "status", "devices"), 0);
    cr_expect_not(json_is_true(JX_AT(card, "healthy")));
    cr_expect_str_eq(JX_STR_AT(card, "mode"), "mig");
    const json_t *partition = json_array_get(JX_AT(card, "partitions"), 0);
    cr_assert(partition, "the partition is gone from the status");
    cr_expect(json_is_true(JX_AT(partition, "inUse")));
    bench_done(&b);
}

/* The same through a restart: what the status said last is all that is known. */
Test(agent, a_card_that_cannot_be_read_after_a_start_is_told_as_it_was_said_last)
{
    struct bench b;
    bench_init(&b);
    add_cut_card(&b);
    fake_put(&b.hw.cards[0], "1g.10gb", 3, whole_1g);
    bench_run(&b, WANT("{profile: 1g.10gb, count: 1}"));
    pass(&b, 200);
    bench_stop(&b);
    atomic_store(&b.gate.blind, true);
    bench_start(&b);
    pass(&b, 10000);
    auto_json json_t *obj = NULL;
    cr_assert_eq(kc_get(b.server, b.scope, &device, &obj, NULL), 0);
    const json_t *card = json_array_get(JX_AT(obj, "status", "devices"), 0);
    cr_expect_not(json_is_true(JX_AT(card, "healthy")));
    cr_expect_str_eq(JX_STR_AT(card, "mode"), "mig");
    cr_expect_eq(json_array_size(JX_AT(card, "partitions")), 1);
    cr_expect_gt(json_array_size(
                     JX_AT(json_array_get(JX_AT(obj, "status", "models"), 0), "migProfiles")),
                 0);
    cr_expect_eq(offered(&b), 0, "an ill card offers nothing");
    expect_status(&b, "Stalled ReadFailed", "while it cannot be read");
    atomic_store(&b.gate.blind, false);
    pass(&b, RESYNC_MS + 200);
    expect_status(&b, "Ready Applied", "once it can");
    cr_expect_eq(b.hw.cards[0].mutations, 0);
    bench_done(&b);
}

static void store_status(struct bench *b, const char *status)
{
    const struct kc_target target = {.res = &resource_devices,
                                     .name = "n1",
                                     .subresource = "status"};
    auto_json json_t *patch = NULL;
    cr_assert_eq(yaml_load(status, strlen(status), &patch, NULL), 0, "%s", status);
    const struct kc_write w = {.body = patch, .how = KC_MERGE};
    cr_assert_eq(kc_patch(b->server, b->scope, &target, &w, NULL, NULL), 0);
}

/* A status that ends the agent would end it at each start; whoever may write statuses may have
 * written one. */
Test(agent, a_status_that_no_agent_wrote_is_not_gone_on_with)
{
    struct bench b;
    bench_init(&b);
    add_cut_card(&b);
    fake_put(&b.hw.cards[0], "1g.10gb", 3, whole_1g);
    bench_run(&b, NULL);
    bench_stop(&b);
    store_status(&b, "status: {devices: [{uuid: GPU-00000000-fake, vendor: nvidia, mode: mig,"
                     " inUseBy: [{name: x}], partitions: [{uuid: MIG-0, inUseBy: [{name: y}]}]}]}");
    atomic_store(&b.gate.blind, true);
    bench_start(&b);
    pass(&b, 2000);
    auto_json json_t *obj = NULL;
    cr_assert_eq(kc_get(b.server, b.scope, &device, &obj, NULL), 0);
    cr_expect_eq(json_array_size(JX_AT(obj, "status", "devices")), 0);
    atomic_store(&b.gate.blind, false);
    pass(&b, RESYNC_MS + 200);
    expect_status(&b, "Ready Applied", "once it can be read");
    bench_done(&b);
}

Test(agent, a_card_that_was_never_read_is_not_told_to_be_whole)
{
    struct bench b;
    bench_init(&b);
    add_cut_card(&b);
    fake_put(&b.hw.cards[0], "1g.10gb", 3, whole_1g);
    atomic_store(&b.gate.blind, true);
    bench_run(&b, WANT(ONE_7G));
    pass(&b, 10000);
    auto_json json_t *obj = NULL;
    cr_assert_eq(kc_get(b.server, b.scope, &device, &obj, NULL), 0);
    cr_expect_eq(json_array_size(JX_AT(obj, "status", "devices")), 0);
    cr_expect_eq(offered(&b), 0);
    cr_expect_eq(b.hw.cards[0].mutations, 0, "what it holds is not known");
    expect_status(&b, "Stalled ReadFailed", "while it cannot be read");
    atomic_store(&b.gate.blind, false);
    pass(&b, RESYNC_MS + 200);
    expect_card(&b, "7g.80gb@0");
    bench_done(&b);
}

static void expect_kept(struct bench *b, const char *status)
{
    auto_json json_t *obj = NULL;
    cr_assert_eq(kc_get(b->server, b->scope, &device, &obj, NULL), 0);
    const json_t *card = json_array_get(JX_AT(obj, "status", "devices"), 0);
    cr_expect_eq(json_array_size(JX_AT(card, "partitions")), 1);
    cr_expect_eq(json_integer_value(JX_AT(obj, "status", "summary", "gpus")), 1);
    cr_expect_eq(offered(b), 1);
    expect_status(b, status, "before anything was read");
}

static void put_below(const char *folder, const char *name, const char *text)
{
    auto_free char *path = xasprintf("%s/%s", folder, name);
    cr_assert_eq(file_make_dirs(folder, 0700, NULL), 0);
    cr_assert_eq(file_replace(path, text, strlen(text), 0600, NULL), 0);
}

static void put_pci_card(const char *sys)
{
    auto_free char *card = xasprintf("%s/bus/pci/devices/0000:3b:00.0", sys);
    put_below(card, "class", "0x030200\n");
    put_below(card, "vendor", "0x10de\n");
}

Test(agent, a_node_without_cards_is_ready_and_a_card_that_comes_is_found)
{
    struct bench b;
    bench_init(&b);
    add_cut_card(&b);
    auto_free char *sys = xasprintf("%s/sys", b.dir);
    auto_free char *bus = xasprintf("%s/bus/pci/devices", sys);
    cr_assert_eq(file_make_dirs(bus, 0700, NULL), 0);
    b.sys = sys;
    atomic_store(&b.gate.unplugged, true);
    bench_run(&b, NULL);
    expect_status(&b, "Ready NoCards", "no driver is needed");
    put_pci_card(sys);
    pass(&b, RESYNC_MS + 1000);
    expect_status(&b, "Stalled DriverNotLoaded", "a card came");
    atomic_store(&b.gate.unplugged, false);
    pass(&b, 60000);
    expect_status(&b, "Ready Applied", "its driver came");
    bench_done(&b);
}

/* A library that hangs or fails when the agent starts takes nothing back that was said before. */
Test(agent, cards_known_before_a_start_are_kept_until_they_can_be_read)
{
    struct bench b;
    bench_init(&b);
    add_cut_card(&b);
    fake_put(&b.hw.cards[0], "1g.10gb", 3, whole_1g);
    bench_run(&b, NULL);
    bench_stop(&b);
    atomic_store(&b.gate.hanging_reads, 1);
    bench_start(&b);
    wait_for_hang(&b);
    pass_hanging(&b, CALL_DEADLINE_MS + 200);
    expect_kept(&b, "Stalled NVMLTimeout");
    let_go(&b);
    pass(&b, 400);
    expect_kept(&b, "Ready Applied");
    bench_stop(&b);
    atomic_store(&b.gate.unplugged, true);
    bench_start(&b);
    pass(&b, 2000);
    expect_kept(&b, "Stalled DriverNotLoaded");
    bench_done(&b);
}

Test(agent, a_card_that_was_ill_is_cut_once_it_is_well)
{
    struct bench b;
    bench_init(&b);
    add_cut_card(&b);
    b.hw.cards[0].card.healthy = false;
    bench_run(&b, WANT(ONE_7G));
    pass(&b, 1000);
    expect_status(&b, "Stalled Unhealthy", "while it is ill");
    b.hw.cards[0].card.healthy = true;
    pass(&b, RESYNC_MS + 200);
    expect_card(&b, "7g.80gb@0");
    expect_status(&b, "Ready Applied", "once it is well");
    bench_done(&b);
}

Test(agent, a_call_that_hangs_is_told_in_time_and_the_loop_goes_on)
{
    struct bench b;
    bench_init(&b);
    add_cut_card(&b);
    bench_run(&b, NULL);
    atomic_store(&b.gate.hanging, 1);
    set_spec(&b, WANT(ONE_7G));
    wait_for_hang(&b);
    pass_hanging(&b, CALL_DEADLINE_MS - 100);
    expect_status(&b, "Reconciling Progressing", "within the deadline");
    pass_hanging(&b, 200);
    expect_status(&b, "Stalled NVMLTimeout", "past the deadline");
    set_spec(&b, WANT(TWO_3G));
    pass_hanging(&b, 200);
    expect_status(&b, "Stalled NVMLTimeout", "a new spec is seen meanwhile");
    let_go(&b);
    pass(&b, 400);
    expect_card(&b, "3g.40gb@0 3g.40gb@4");
    expect_status(&b, "Ready Applied", "the call came back");
    bench_done(&b);
}

#define BOTH(profile)                                                                              \
    "{devices: [{uuid: GPU-00000000-fake, mode: mig, mig: {profiles: [" profile "]}}, "            \
    "{uuid: GPU-00000001-fake, mode: mig, mig: {profiles: [" profile "]}}]}"

/* Two cards get an order; returns when a call for each of them is in the driver, and hangs. */
static void change_both(struct bench *b)
{
    char both[2];
    bench_init(b);
    add_cut_card(b);
    add_cut_card(b);
    bench_run(b, NULL);
    atomic_store(&b->gate.hanging, 2);
    set_spec(b, BOTH(ONE_7G));
    for (int i = 0; i < 4; i++)
        round_of(b, false);
    cr_assert_eq(recv(b->gate.ends[0], both, 2, MSG_WAITALL), 2, "both are in the driver at once");
}

Test(agent, cards_are_changed_side_by_side)
{
    struct bench b;
    change_both(&b);
    let_go(&b);
    let_go(&b);
    pass(&b, 400);
    expect_card(&b, "7g.80gb@0");
    expect_status(&b, "Ready Applied", "after both changes");
    bench_done(&b);
}

Test(agent, cards_that_end_one_shortly_after_the_other_are_one_write)
{
    struct bench b;
    change_both(&b);
    size_t writes = kc_fake_writes(b.server);
    let_go(&b);
    while (worker_pending(b.worker) > 1)
        agent_step(b.agent, b.scope, PATIENCE_MS);
    round_of(&b, false);
    cr_expect_eq(kc_fake_writes(b.server), writes, "the other card is still in work");
    let_go(&b);
    pass(&b, 400);
    expect_status(&b, "Ready Applied", "after both changes");
    cr_expect_eq(kc_fake_writes(b.server), writes + 1);
    bench_done(&b);
}

/* Two cards want a change, in a driver of which no call comes back, and whose limit is one card. */
static void bench_at_limit(struct bench *b)
{
    char first;
    bench_init(b);
    b->limit = (struct vendor_limit){"nvidia", 1};
    add_cut_card(b);
    add_cut_card(b);
    bench_run(b, NULL);
    atomic_store(&b->gate.hanging, 2);
    set_spec(b, BOTH(ONE_7G));
    for (int i = 0; i < 4; i++)
        round_of(b, false);
    cr_assert_eq(recv(b->gate.ends[0], &first, 1, MSG_WAITALL), 1);
}

/* Rounds until another call hangs. */
static void await_hang(struct bench *b)
{
    char c;
    for (int i = 0; i < 1000; i++) {
        round_of(b, false);
        if (recv(b->gate.ends[0], &c, 1, MSG_DONTWAIT) == 1)
            return;
        agent_step(b->agent, b->scope, TICK_MS);
        clock_fake_advance(b->clk, 1);
    }
    cr_assert_fail("no other call was made");
}

Test(agent, no_more_cards_of_a_vendor_are_changed_at_once_than_its_limit)
{
    struct bench b;
    char second;
    bench_at_limit(&b);
    for (int i = 0; i < 4; i++)
        round_of(&b, false);
    cr_expect_eq(recv(b.gate.ends[0], &second, 1, MSG_DONTWAIT), -1, "two at once");
    let_go(&b);
    await_hang(&b);
    let_go(&b);
    pass(&b, 400);
    expect_status(&b, "Ready Applied", "after both changes");
    bench_done(&b);
}

Test(agent, a_call_that_hangs_does_not_count_against_the_limit)
{
    struct bench b;
    bench_at_limit(&b);
    clock_fake_advance(b.clk, 2 * CALL_DEADLINE_MS);
    await_hang(&b);
    let_go(&b);
    let_go(&b);
    pass(&b, 400);
    expect_status(&b, "Ready Applied", "after both changes");
    bench_done(&b);
}

/* Rounds, while something hangs, until the card has so many instances. */
static void await_instances(struct bench *b, unsigned card, unsigned n)
{
    for (int i = 0; i < 1000; i++) {
        {
            HOLD(&b->gate.mu);
            if (b->hw.cards[card].card.state.n == n)
                return;
        }
        round_of(b, false);
        agent_step(b->agent, b->scope, TICK_MS);
        clock_fake_advance(b->clk, 1);
    }
    cr_assert_fail("card %u does not have %u instances", card, n);
}

/* Rounds, while something hangs, until the node was read so often. */
static void await_reads(struct bench *b, int n)
{
    for (int i = 0; i < 1000 && atomic_load(&b->gate.reads) < n; i++) {
        round_of(b, false);
        agent_step(b->agent, b->scope, TICK_MS);
        clock_fake_advance(b->clk, 1000);
    }
    cr_assert_geq(atomic_load(&b->gate.reads), n);
}

Test(agent, a_call_that_hangs_holds_up_its_own_card_only)
{
    struct bench b;
    bench_init(&b);
    add_cut_card(&b);
    add_cut_card(&b);
    bench_run(&b, NULL);
    atomic_store(&b.gate.hanging, 1);
    b.gate.hanging_card = "GPU-00000000-fake";
    set_spec(&b, BOTH(TWO_3G));
    wait_for_hang(&b);
    await_instances(&b, 1, 2);
    set_spec(&b, BOTH(ONE_7G));
    await_instances(&b, 1, 1);
    await_reads(&b, atomic_load(&b.gate.reads) + 2);
    cr_expect_eq(b.hw.cards[0].card.state.n, 0);
    let_go(&b);
    pass(&b, 1000);
    expect_card(&b, "7g.80gb@0");
    expect_status(&b, "Ready Applied", "the call came back");
    bench_done(&b);
}

Test(agent, a_reading_that_hangs_is_overtaken_and_holds_up_no_card)
{
    struct bench b;
    bench_init(&b);
    add_cut_card(&b);
    bench_run(&b, WANT(TWO_3G));
    pass(&b, 200);
    atomic_store(&b.gate.hanging_reads, 1);
    pass_hanging(&b, RESYNC_MS);
    wait_for_hang(&b);
    set_spec(&b, WANT(ONE_7G));
    await_instances(&b, 0, 1);
    await_reads(&b, atomic_load(&b.gate.reads) + 2);
    expect_status(&b, "Stalled NVMLTimeout", "meanwhile");
    let_go(&b); /* what it read is older than what is known */
    pass(&b, 400);
    expect_card(&b, "7g.80gb@0");
    expect_status(&b, "Ready Applied", "the call came back");
    bench_done(&b);
}

/* A change whose first step hangs is let go while the driver cannot list its cards. */
static void change_beside_failing_reads(struct bench *b, const char *spec)
{
    bench_init(b);
    add_cut_card(b);
    bench_run(b, WANT(TWO_3G));
    pass(b, 200);
    atomic_store(&b->gate.hanging, 1);
    set_spec(b, spec);
    wait_for_hang(b);
    atomic_store(&b->gate.failing_reads, true);
    pass_hanging(b, RESYNC_MS);
    await_reads(b, atomic_load(&b->gate.reads) + 1);
    let_go(b);
    pass(b, 400);
    atomic_store(&b->gate.failing_reads, false);
    expect_card(b, "7g.80gb@0");
    pass(b, RESYNC_MS);
    expect_status(b, "Ready Applied", "the driver lists its cards again");
    bench_done(b);
}

Test(agent, a_reading_that_fails_does_not_undo_the_change_beside_it)
{
    struct bench b;
    change_beside_failing_reads(&b, WANT(ONE_7G));
}

Test(agent, a_reading_that_fails_does_not_have_the_change_beside_it_held)
{
    struct bench b;
    change_beside_failing_reads(&b,
                                "{failurePolicy: hold, devices: [{uuid: GPU-00000000-fake, mode: "
                                "mig, mig: {profiles: [" ONE_7G "]}}]}");
}

/* Its next reading comes soon, and the change with it. */
Test(agent, a_card_that_one_reading_could_not_read_is_changed_after_the_next)
{
    struct bench b;
    bench_init(&b);
    add_cut_card(&b);
    bench_run(&b, WANT(TWO_3G));
    pass(&b, 200);
    atomic_store(&b.gate.blind, true);
    pass(&b, RESYNC_MS);
    atomic_store(&b.gate.blind, false);
    set_spec(&b, WANT(ONE_7G));
    pass(&b, 3000);
    expect_card(&b, "7g.80gb@0");
    expect_status(&b, "Ready Applied", "the card can be read again");
    bench_done(&b);
}

Test(agent, what_is_being_cut_away_is_not_offered)
{
    struct bench b;
    bench_init(&b);
    add_cut_card(&b);
    fake_put(&b.hw.cards[0], "1g.10gb", 3, whole_1g);
    bench_run(&b, NULL);
    cr_expect_eq(offered(&b), 1);
    atomic_store(&b.gate.hanging, 1);
    set_spec(&b, WANT(ONE_7G));
    wait_for_hang(&b);
    pass_hanging(&b, 200);
    cr_expect_eq(offered(&b), 0, "it is gone from the card");
    let_go(&b);
    pass(&b, 400);
    cr_expect_eq(offered(&b), 1);
    bench_done(&b);
}

/* From one 1g to a 7g; the driver goes before the at-th reading of the card. Returns how many there
 * were. */
static int cut_until_unplugged(struct bench *b, int at)
{
    bench_init(b);
    add_cut_card(b);
    fake_put(&b->hw.cards[0], "1g.10gb", 3, whole_1g);
    bench_run(b, NULL);
    atomic_store(&b->gate.card_reads, 0);
    atomic_store(&b->gate.unplugged_at, at);
    set_spec(b, WANT(ONE_7G));
    pass(b, 400);
    return atomic_load(&b->gate.card_reads);
}

Test(agent, a_card_that_cannot_be_read_after_its_change_offers_nothing_until_it_is)
{
    struct bench b;
    int last = cut_until_unplugged(&b, 0);
    cr_expect_eq(offered(&b), 1);
    bench_done(&b);
    (void)cut_until_unplugged(&b, last);
    expect_card(&b, "7g.80gb@0");
    cr_expect_eq(offered(&b), 0, "what it offered is gone from the card");
    atomic_store(&b.gate.unplugged, false);
    pass(&b, RESYNC_MS);
    expect_status(&b, "Ready Applied", "when the driver is back");
    cr_expect_eq(offered(&b), 1);
    bench_done(&b);
}

/* Rounds in which no write reaches the API server. */
static void pass_unheard(struct bench *b, int64_t ms)
{
    auto_err struct err e = {0};
    for (int64_t t = 0; t < ms; t += TICK_MS) {
        err_clear(&e);
        (void)!informer_step(b->inf, b->scope, NULL, &e);
        agent_step(b->agent, b->scope, 0);
        while (worker_pending(b->worker) > 0)
            agent_step(b->agent, b->scope, PATIENCE_MS);
        clock_fake_advance(b->clk, TICK_MS);
    }
}

/* An order that came while no agent watched: what the Node offers meanwhile is not known. */
static void order_in_absence(struct bench *b, const char *spec)
{
    bench_run(b, NULL);
    bench_stop(b);
    set_spec(b, spec);
    bench_start(b);
}

Test(agent, an_order_is_carried_out_at_once)
{
    struct bench b;
    bench_init(&b);
    add_cut_card(&b);
    fake_put(&b.hw.cards[0], "1g.10gb", 3, whole_1g);
    bench_run(&b, NULL);
    set_spec(&b, WANT(ONE_7G));
    size_t writes = kc_fake_writes(b.server);
    pass_unheard(&b, 100);
    expect_card(&b, "7g.80gb@0");
    pass(&b, 200);
    cr_expect_eq(kc_fake_writes(b.server), writes + 1, "one write tells the end");
    bench_done(&b);
}

/* 1g at slot 0, where 4g has to begin: the order leaves one 1g on offer, and it must move. */
Test(agent, a_partition_that_has_to_move_is_withdrawn_first)
{
    struct bench b;
    bench_init(&b);
    add_cut_card(&b);
    fake_put(&b.hw.cards[0], "1g.10gb", 0, whole_1g);
    bench_run(&b, NULL);
    set_spec(&b, WANT("{profile: 1g.10gb, count: 1}, {profile: 4g.40gb, count: 1}"));
    pass_unheard(&b, 1000);
    cr_expect_eq(b.hw.cards[0].mutations, 0, "the Node still offers it");
    pass(&b, 400);
    expect_status(&b, "Ready Applied", "once it could be told");
    bench_done(&b);
}

Test(agent, nothing_is_taken_away_before_its_withdrawal_is_acknowledged)
{
    struct bench b;
    bench_init(&b);
    add_cut_card(&b);
    fake_put(&b.hw.cards[0], "1g.10gb", 3, whole_1g);
    order_in_absence(&b, WANT(ONE_7G));
    pass_unheard(&b, 5000);
    cr_expect_eq(b.hw.cards[0].mutations, 0, "the API server still offers it");
    pass(&b, 200);
    expect_card(&b, "7g.80gb@0");
    expect_status(&b, "Ready Applied", "once it could be told");
    bench_done(&b);
}

Test(agent, a_withdrawal_that_is_never_acknowledged_is_given_up_and_tried_again)
{
    struct bench b;
    bench_init(&b);
    add_cut_card(&b);
    fake_put(&b.hw.cards[0], "1g.10gb", 3, whole_1g);
    order_in_absence(&b, WANT(ONE_7G));
    pass_unheard(&b, 31000);
    round_of(&b, true);
    cr_expect_eq(b.hw.cards[0].mutations, 0);
    expect_status(&b, "Stalled NotWithdrawn", "the bound is over");
    cr_expect_eq(offered(&b), 1, "it is offered again meanwhile");
    pass(&b, 5000);
    expect_card(&b, "7g.80gb@0");
    expect_status(&b, "Ready Applied", "once it could be told");
    bench_done(&b);
}

/* The API server has the status, but nobody writes the Node; and a confirmation that an earlier
 * agent was given is not this one's. */
Test(agent, a_withdrawal_that_no_controller_confirms_is_given_up_and_tried_again)
{
    struct bench b;
    bench_init(&b);
    add_cut_card(&b);
    fake_put(&b.hw.cards[0], "1g.10gb", 3, whole_1g);
    order_in_absence(&b, WANT(ONE_7G));
    b.away = true;
    set_spec(&b, "withdrawn: 00000000000000aa-9");
    pass(&b, 31000);
    cr_expect_eq(b.hw.cards[0].mutations, 0);
    expect_status(&b, "Stalled NotWithdrawn", "the bound is over");
    b.away = false;
    pass(&b, 10000);
    expect_card(&b, "7g.80gb@0");
    expect_status(&b, "Ready Applied", "once it is confirmed");
    bench_done(&b);
}

Test(agent, a_change_that_takes_nothing_away_waits_for_nobody)
{
    struct bench b;
    bench_init(&b);
    add_cut_card(&b);
    fake_put(&b.hw.cards[0], "1g.10gb", 3, whole_1g);
    bench_run(&b, NULL);
    size_t writes = kc_fake_writes(b.server);
    set_spec(&b, WANT("{profile: 1g.10gb, count: 1}, {profile: 3g.40gb, count: 1}"));
    writes++;
    pass_unheard(&b, 100);
    expect_card(&b, "1g.10gb@3 3g.40gb@4");
    pass(&b, 200);
    cr_expect_eq(kc_fake_writes(b.server), writes + 1, "one write tells the end");
    bench_done(&b);
}

Test(agent, a_change_that_takes_away_what_is_offered_costs_five_writes)
{
    struct bench b;
    bench_init(&b);
    add_cut_card(&b);
    fake_put(&b.hw.cards[0], "1g.10gb", 3, whole_1g);
    order_in_absence(&b, WANT(ONE_7G));
    size_t writes = kc_fake_writes(b.server);
    pass(&b, 500);
    expect_card(&b, "7g.80gb@0");
    cr_expect_eq(kc_fake_writes(b.server), writes + 5,
                 "the withdrawal, its confirmation, the end, and that both are over");
    bench_done(&b);
}

/* In use at the last reading: nothing was withdrawn for it, and yet the next look finds it free. */
Test(agent, a_card_that_becomes_free_is_withdrawn_before_it_is_cut)
{
    struct bench b;
    bench_init(&b);
    add_cut_card(&b);
    fake_put(&b.hw.cards[0], "1g.10gb", 3, whole_1g);
    fake_attach(&b.hw.cards[0], (struct fake_process){.pid = 9, .start = 3, .ci_start = -1});
    bench_run(&b, WANT(ONE_7G));
    pass(&b, 2000);
    cr_expect_eq(offered(&b), 1);
    b.hw.cards[0].users[0].pid = 0;
    pass_unheard(&b, 3000);
    cr_expect_eq(b.hw.cards[0].mutations, 0);
    pass(&b, 200);
    expect_card(&b, "7g.80gb@0");
    bench_done(&b);
}

Test(agent, a_change_that_is_no_longer_wanted_keeps_the_node_from_ready_until_it_is_over)
{
    struct bench b;
    bench_init(&b);
    add_cut_card(&b);
    fake_put(&b.hw.cards[0], "1g.10gb", 3, whole_1g);
    bench_run(&b, NULL);
    atomic_store(&b.gate.hanging, 1);
    set_spec(&b, WANT(ONE_7G));
    wait_for_hang(&b);
    set_spec(&b, "{devices: []}");
    pass_hanging(&b, 200);
    expect_status(&b, "Reconciling Progressing", "the change is still under way");
    cr_expect_eq(offered(&b), 0, "what it took away is not offered again");
    let_go(&b);
    pass(&b, 400);
    expect_status(&b, "Ready Applied", "the change is over");
    cr_expect_eq(offered(&b), 1);
    bench_done(&b);
}

/* An agent that was taken back to an older release while a card was being cut. */
Test(agent, a_change_on_record_by_another_version_waits_for_a_person_who_is_told)
{
    static const char newer[] = "{\"version\":2}";
    struct bench b;
    bench_init(&b);
    add_cut_card(&b);
    fake_put(&b.hw.cards[0], "1g.10gb", 3, whole_1g);
    auto_free char *path = xasprintf("%s/%s.json", b.dir, b.hw.cards[0].card.uuid);
    cr_assert_eq(file_write_atomic(path, newer, strlen(newer), 0600, NULL), 0);
    bench_run(&b, NULL);
    pass(&b, 2000);
    expect_status(&b, "Stalled OtherVersion", "nobody wants the card to be anything");
    cr_expect_eq(offered(&b), 0);
    set_spec(&b, WANT(ONE_7G));
    pass(&b, 2000);
    expect_status(&b, "Stalled OtherVersion", "it is to be something");
    cr_expect_eq(b.hw.cards[0].mutations, 0);
    cr_expect_eq(access(path, F_OK), 0);
    cr_assert_eq(unlink(path), 0);
    pass(&b, 120000);
    expect_card(&b, "7g.80gb@0");
    expect_status(&b, "Ready Applied", "it was settled");
    bench_done(&b);
}

/* What the Device says of a card, "OtherVersion", ""; and whether it names `hint` there. */
static void expect_applied(struct bench *b, size_t i, const char *reason, const char *hint)
{
    auto_json json_t *obj = NULL;
    cr_assert_eq(kc_get(b->server, b->scope, &device, &obj, NULL), 0);
    const json_t *card = json_array_get(JX_AT(obj, "status", "devices"), i);
    const char *have = "";
    const char *message = "";
    size_t k;
    json_t *c;
    json_array_foreach(JX_AT(card, "conditions"), k, c) {
        if (strcmp(JX_STR_AT(c, "type"), "Applied") != 0)
            continue;
        have = JX_STR_AT(c, "reason");
        message = JX_STR_AT(c, "message");
    }
    cr_expect_str_eq(have, reason, "card %zu: %s, not %s", i, have, reason);
    cr_expect_not_null(strstr(message, hint), "card %zu: %s lacks %s", i, message, hint);
}

/* How many interrupted changes there are, each of its own card. */
static size_t journals_in(const char *dir)
{
    char **uuids = NULL;
    size_t n = 0;
    cr_assert_eq(journal_list(dir, &uuids, &n, NULL), 0);
    for (size_t i = 0; i < n; i++)
        free(uuids[i]);
    free(uuids);
    return n;
}

/* A downgrade does not choose a card: the folder may list them in any order. */
Test(agent, each_card_with_a_journal_of_another_version_is_held_and_named)
{
    static const char newer[] = "{\"version\":2}";
    struct bench b;
    bench_init(&b);
    for (size_t i = 0; i < 3; i++) {
        add_cut_card(&b);
        fake_put(&b.hw.cards[i], "1g.10gb", 3, whole_1g);
    }
    for (size_t i = 0; i < 2; i++) {
        auto_free char *path = xasprintf("%s/%s.json", b.dir, b.hw.cards[i].card.uuid);
        cr_assert_eq(file_write_atomic(path, newer, strlen(newer), 0600, NULL), 0);
    }
    bench_run(&b, NULL);
    pass(&b, RESYNC_MS * 2);
    expect_status(&b, "Stalled OtherVersion", "nobody wants the cards to be anything");
    cr_expect_eq(offered(&b), 1, "%lld offered, not the third card's alone",
                 (long long)offered(&b));
    for (size_t i = 0; i < 2; i++) {
        expect_applied(&b, i, "OtherVersion", b.hw.cards[i].card.uuid);
        cr_expect_eq(b.hw.cards[i].mutations, 0);
    }
    expect_applied(&b, 2, "", "");
    auto_free char *path = xasprintf("%s/%s.json", b.dir, b.hw.cards[0].card.uuid);
    cr_assert_eq(unlink(path), 0);
    pass(&b, RESYNC_MS * 2);
    expect_status(&b, "Stalled OtherVersion", "one of two was settled");
    cr_expect_eq(offered(&b), 2);
    expect_applied(&b, 0, "", "");
    expect_applied(&b, 1, "OtherVersion", "run the release");
    bench_done(&b);
}

static void break_off_card(struct fake_hw *hw, size_t card, const char *dir, unsigned kill_at)
{
    hw->calls = 0;
    hw->kill_at = kill_at;
    auto_gpu struct gpu *g = gpu_fake_open(hw);
    const struct txn_deps deps = {.gpu = g, .state_dir = dir, .boot_id = ""};
    struct card_wish wish = {.mode = GPU_MIG,
                             .wants = {1, {{fake_profile(&hw->cards[card], "7g.80gb"), 0, 1}}}};
    struct txn_result r;
    txn_apply(&deps, hw->cards[card].card.uuid, &wish, TXN_ROLLBACK, &r);
    fake_heal(hw);
}

static void break_off(struct fake_hw *hw, const char *dir, unsigned kill_at)
{
    break_off_card(hw, 0, dir, kill_at);
}

/* Each is tried again, and only once nothing of either is on offer. */
Test(agent, changes_of_two_cards_that_cannot_be_ended_are_withheld_until_they_are)
{
    struct bench b;
    bench_init(&b);
    for (size_t i = 0; i < 3; i++) {
        add_cut_card(&b);
        fake_put(&b.hw.cards[i], "1g.10gb", 3, whole_1g);
        fake_put(&b.hw.cards[i], "1g.10gb", 4, whole_1g);
    }
    for (size_t i = 0; i < 2; i++) {
        break_off_card(&b.hw, i, b.dir, /* kill_at= */ 5);
        cr_assert_eq(b.hw.cards[i].card.state.n, 1, "one of two is gone, the other stands");
    }
    atomic_store(&b.gate.refusing, true);
    bench_start(&b);
    pass_unheard(&b, 1000);
    int tries = atomic_load(&b.gate.creates);
    cr_assert_gt(tries, 0);
    pass_unheard(&b, RESYNC_MS * 3);
    cr_expect_eq(atomic_load(&b.gate.creates), tries, "nobody was told");
    pass(&b, RESYNC_MS * 2);
    expect_status(&b, "Reconciling Progressing", "neither could be ended");
    cr_expect_eq(offered(&b), 2, "%lld offered, not the third card's alone",
                 (long long)offered(&b));
    for (size_t i = 0; i < 2; i++)
        expect_applied(&b, i, "Progressing", "injected");
    cr_expect_gt(atomic_load(&b.gate.creates), tries, "they are tried again");
    cr_expect_eq(journals_in(b.dir), 2);
    atomic_store(&b.gate.refusing, false);
    pass(&b, RESYNC_MS * 2);
    expect_status(&b, "Ready Applied", "both were ended");
    cr_expect_eq(journals_in(b.dir), 0);
    for (size_t i = 0; i < 2; i++)
        expect_applied(&b, i, "", "");
    bench_done(&b);
}

Test(agent, a_change_that_a_crash_interrupted_is_ended_at_the_start)
{
    for (unsigned kill_at = 2; kill_at < 8; kill_at++) {
        struct bench b;
        bench_init(&b);
        add_cut_card(&b);
        fake_put(&b.hw.cards[0], "1g.10gb", 3, whole_1g);
        break_off(&b.hw, b.dir, kill_at);
        bench_run(&b, NULL);
        char **left = NULL;
        size_t n = 1;
        cr_expect_eq(journal_list(b.dir, &left, &n, NULL), 0);
        cr_expect_eq(n, 0, "killed at %u: the journal stays", kill_at);
        const struct mig_state *st = &b.hw.cards[0].card.state;
        cr_expect_eq(st->n, 1, "killed at %u", kill_at);
        cr_expect_eq(st->items[0].n_cis, 1, "killed at %u", kill_at);
        expect_status(&b, "Ready Applied", "after the recovery");
        bench_done(&b);
    }
}

/* A disk that fails, say. */
static void hide_records(struct bench *b, bool hidden)
{
    auto_free char *aside = xasprintf("%s.aside", b->dir);
    if (hidden) {
        cr_assert_eq(rename(b->dir, aside), 0);
        cr_assert_eq(file_write_atomic(b->dir, "", 0, 0600, NULL), 0);
        return;
    }
    cr_assert_eq(unlink(b->dir), 0);
    cr_assert_eq(rename(aside, b->dir), 0);
}

Test(agent, without_the_list_of_interrupted_changes_no_card_is_touched_or_offered)
{
    struct bench b;
    bench_init(&b);
    add_cut_card(&b);
    fake_put(&b.hw.cards[0], "1g.10gb", 3, whole_1g);
    break_off(&b.hw, b.dir, /* kill_at= */ 4);
    unsigned mutations = b.hw.cards[0].mutations;
    hide_records(&b, true);
    bench_run(&b, NULL);
    expect_status(&b, "Stalled JournalUnreadable", "a start");
    set_spec(&b, WANT(TWO_3G));
    pass(&b, RESYNC_MS * 2);
    expect_status(&b, "Stalled JournalUnreadable", "it is tried again");
    cr_expect_eq(b.hw.cards[0].mutations, mutations);
    cr_expect_eq(offered(&b), 0);
    hide_records(&b, false);
    pass(&b, 120000);
    expect_card(&b, "3g.40gb@0 3g.40gb@4");
    expect_status(&b, "Ready Applied", "the list could be read");
    cr_expect_eq(journals_in(b.dir), 0);
    bench_done(&b);
}

Test(agent, a_card_is_read_on_while_interrupted_changes_cannot_be_listed)
{
    struct bench b;
    bench_block(&b);
    set_spec(&b, "{devices: []}");
    pass(&b, 200);
    hide_records(&b, true);
    int reads = atomic_load(&b.gate.reads);
    unsigned mutations = b.hw.cards[0].mutations;
    pass(&b, RESYNC_MS * 2);
    cr_expect_gt(atomic_load(&b.gate.reads), reads);
    expect_status(&b, "Stalled JournalUnreadable", "the list went");
    cr_expect_eq(b.hw.cards[0].mutations, mutations);
    cr_expect_eq(offered(&b), 0, "what the change left");
    hide_records(&b, false);
    b.hw.cards[0].users[0] = (struct fake_process){0};
    pass(&b, RESYNC_MS * 3);
    expect_status(&b, "Ready Applied", "the change was ended");
    cr_expect_eq(journals_in(b.dir), 0);
    bench_done(&b);
}

/* How often the log has a line with all three. */
static unsigned count_lines(int log, const char *level, const char *message, const char *word)
{
    char text[65536];
    unsigned n = 0;
    ssize_t got = pread(log, text, sizeof(text) - 1, 0);
    cr_assert_geq(got, 0);
    text[got] = '\0';
    char *rest = NULL;
    for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest))
        n += strstr(line, level) && strstr(line, message) && strstr(line, word);
    return n;
}

Test(agent, the_log_warns_once_of_a_change_that_cannot_be_ended)
{
    struct bench b;
    bench_init(&b);
    auto_fd int log = memfd_create("log", MFD_CLOEXEC);
    cr_assert_geq(log, 0);
    log_setup(LOG_INFO, LOG_LOGFMT, log);
    add_cut_card(&b);
    fake_put(&b.hw.cards[0], "1g.10gb", 3, whole_1g);
    fake_put(&b.hw.cards[0], "1g.10gb", 4, whole_1g);
    break_off(&b.hw, b.dir, /* kill_at= */ 5);
    atomic_store(&b.gate.refusing, true);
    bench_run(&b, NULL);
    pass(&b, RESYNC_MS * 3);
    cr_expect_eq(count_lines(log, "level=warn", "Could not end an interrupted change",
                             "next=\"tried again at the next reading\""),
                 1);
    cr_expect_eq(count_lines(log, "", "Recovered", ""), 0, "it was not");
    atomic_store(&b.gate.refusing, false);
    pass(&b, RESYNC_MS * 2);
    cr_expect_eq(count_lines(log, "level=info", "Recovered an interrupted change", "taken back"),
                 1);
    bench_done(&b);
}

Test(agent, an_agent_that_starts_anew_changes_and_writes_nothing_that_is_right)
{
    struct bench b;
    bench_init(&b);
    add_cut_card(&b);
    bench_run(&b, WANT(TWO_3G));
    pass(&b, 500);
    bench_stop(&b);
    unsigned mutations = b.hw.cards[0].mutations;
    size_t writes = kc_fake_writes(b.server);
    bench_start(&b);
    pass(&b, 2000);
    cr_expect_eq(b.hw.cards[0].mutations, mutations);
    expect_status(&b, "Ready Applied", "after the restart");
    cr_expect_eq(kc_fake_writes(b.server), writes, "%zu writes", kc_fake_writes(b.server) - writes);
    bench_done(&b);
}

Test(agent, when_nothing_happens_nothing_is_written_or_touched)
{
    struct bench b;
    bench_init(&b);
    add_cut_card(&b);
    bench_run(&b, WANT(TWO_3G));
    pass(&b, 1000);
    size_t writes = kc_fake_writes(b.server);
    unsigned mutations = b.hw.cards[0].mutations;
    pass(&b, RESYNC_MS * 4);
    cr_expect_eq(kc_fake_writes(b.server), writes);
    cr_expect_eq(b.hw.cards[0].mutations, mutations);
    bench_done(&b);
}

Test(agent, a_device_that_is_deleted_comes_back_and_leaves_the_cards_alone)
{
    struct bench b;
    bench_init(&b);
    add_cut_card(&b);
    bench_run(&b, WANT(TWO_3G));
    pass(&b, 500);
    unsigned mutations = b.hw.cards[0].mutations;
    cr_assert_eq(kc_remove(b.server, b.scope, &device, /* if_uid= */ NULL, NULL), 0);
    pass(&b, 1000);
    expect_status(&b, "Ready Applied", "the new Device");
    cr_expect_eq(b.hw.cards[0].mutations, mutations);
    bench_done(&b);
}

Test(agent, one_card_that_waits_does_not_hold_up_another)
{
    struct bench b;
    bench_init(&b);
    add_cut_card(&b);
    add_cut_card(&b);
    fake_put(&b.hw.cards[0], "1g.10gb", 3, whole_1g);
    fake_attach(&b.hw.cards[0], (struct fake_process){.pid = 9, .start = 3, .ci_start = -1});
    bench_run(&b, "{devices: [{uuid: GPU-00000000-fake, mode: mig, mig: {profiles: [" ONE_7G "]}},"
                  " {uuid: GPU-00000001-fake, mode: mig, mig: {profiles: [" ONE_7G "]}}]}");
    pass(&b, 500);
    cr_expect_eq(b.hw.cards[0].mutations, 0);
    cr_expect_eq(b.hw.cards[1].card.state.n, 1);
    expect_status(&b, "Reconciling InUse", "one is done, one waits");
    bench_done(&b);
}

/* --- From any state, once faults stop, all comes to rest where it should (L1) --- */

#define CARD(n, profiles)                                                                          \
    "{uuid: GPU-0000000" #n "-fake, mode: mig, mig: {profiles: [" profiles "]}}"
#define NATIVE(n) "{uuid: GPU-0000000" #n "-fake, mode: native}"

static const char *const chaos_specs[] = {
    "{devices: []}",
    "{devices: [" CARD(0, ONE_7G) "]}",
    "{devices: [" CARD(0, TWO_3G) "," CARD(1, "{profile: 1g.10gb, count: 7}") "]}",
    "{devices: [" CARD(0, "{profile: 1g.10gb, count: 2}, {profile: 2g.20gb, count: 1}") "," NATIVE(
        1) "]}",
    "{devices: [" NATIVE(0) "," CARD(1, "{profile: 3g.40gb, count: 1}") "]}",
    "{devices: [" CARD(1, "{profile: 2c.3g.40gb, count: 1}, {profile: 1c.3g.40gb, count: 1}") "]}",
};

static void use_something(struct bench *b, struct rng *rng)
{
    struct fake_card *c = &b->hw.cards[rng_below(rng, 2)];
    struct fake_process p = {.pid = 9, .start = -1, .ci_start = -1};
    if (c->card.state.n)
        p.start = (int)c->card.state.items[rng_below(rng, c->card.state.n)].start;
    if (!c->users[0].pid)
        c->users[0] = p;
}

static void calm(struct bench *b)
{
    fake_heal(&b->hw);
    atomic_store(&b->gate.unplugged, false);
    atomic_store(&b->gate.blind, false);
    for (int i = 0; i < 2; i++)
        b->hw.cards[i].users[0] = (struct fake_process){0};
}

static void disturb(struct bench *b, struct rng *rng)
{
    unsigned at = b->hw.calls + 1 + (unsigned)rng_below(rng, 25);
    switch (rng_below(rng, 9)) {
    case 0:
    case 1:
        set_spec(b, chaos_specs[rng_below(rng, ARRAY_LEN(chaos_specs))]);
        break;
    case 2:
        use_something(b, rng);
        break;
    case 3:
        b->hw.fail_at = at;
        b->hw.fail_count = 1 + (unsigned)rng_below(rng, 6);
        break;
    case 4:
        b->hw.fail_after_at = at;
        b->hw.fail_count = 1;
        break;
    case 5:
        b->hw.kill_at = at;
        stride(b, 200, TICK_MS);
        bench_stop(b);
        fake_heal(&b->hw);
        bench_start(b);
        break;
    case 6:
        atomic_store(&b->gate.unplugged, rng_below(rng, 2));
        break;
    case 7:
        atomic_store(&b->gate.blind, rng_below(rng, 2));
        break;
    default:
        calm(b);
    }
    stride(b, (int64_t)rng_below(rng, 4000), 100);
}

static void check_rest(struct bench *b, uint64_t seed)
{
    char **left = NULL;
    size_t n = 1;
    cr_expect_eq(journal_list(b->dir, &left, &n, NULL), 0);
    cr_assert_eq(n, 0, "seed %llu: a journal stays", (unsigned long long)seed);
    size_t writes = kc_fake_writes(b->server);
    unsigned mutations = b->hw.cards[0].mutations + b->hw.cards[1].mutations;
    stride(b, INT64_C(4) * RESYNC_MS, 1000);
    cr_assert_eq(kc_fake_writes(b->server), writes, "seed %llu", (unsigned long long)seed);
    cr_assert_eq(b->hw.cards[0].mutations + b->hw.cards[1].mutations, mutations, "seed %llu",
                 (unsigned long long)seed);
}

Test(agent, whatever_happened_it_comes_to_rest_as_wanted)
{
    for (uint64_t seed = 1; seed <= CHAOS_SEEDS; seed++) {
        struct bench b;
        struct rng rng;
        bench_init(&b);
        rng_init(&rng, seed);
        (void)fake_add(&b.hw, FAKE_A100);
        add_cut_card(&b);
        bench_start(&b);
        stride(&b, 200, TICK_MS);
        for (int i = 0; i < 15; i++)
            disturb(&b, &rng);
        calm(&b);
        set_spec(&b, chaos_specs[1 + rng_below(&rng, ARRAY_LEN(chaos_specs) - 1)]);
        stride(&b, 700000, 1000);
        char when[64];
        (void)snprintf(when, sizeof(when), "seed %llu", (unsigned long long)seed);
        expect_status(&b, "Ready Applied", when);
        check_rest(&b, seed);
        bench_done(&b);
    }
}

/* --- koordlet --- */

/* What koordlet reads; NULL: no file. Caller frees. */
static char *told_koordlet(const struct bench *b)
{
    auto_free char *path = xasprintf("%s/infos/%s", b->dir, KOORD_INFOS_FILE);
    char *text = NULL;
    return file_read(path, 1 << 16, &text, NULL, NULL) < 0 ? NULL : text;
}

Test(agent, koordlet_is_told_of_the_cards_while_they_are_whole)
{
    struct bench b;
    bench_init(&b);
    auto_free char *folder = xasprintf("%s/infos", b.dir);
    b.koordinator = koord_infos_new(folder);
    fake_add(&b.hw, FAKE_H100)->card.memory_mib = 81559;
    bench_run(&b, NULL);
    auto_free char *whole = told_koordlet(&b);
    cr_expect(whole && strstr(whole, "\"healthy\":true"), "%s", whole ? whole : "nothing");
    set_spec(&b, WANT(TWO_3G));
    pass(&b, 200);
    expect_card(&b, "3g.40gb@0 3g.40gb@4");
    auto_free char *cut = told_koordlet(&b);
    cr_expect_null(cut);
    bench_done(&b);
}

/* The step ends before it waits again: whatever holds the loop up there, or in it, shows. */
Test(agent, a_loop_that_does_not_come_back_is_on_the_page_of_health)
{
    struct bench b;
    auto_sb struct sb page = SB_INIT(1000);
    bench_init(&b);
    bench_start(&b);
    struct agent_liveness l = {b.beats, b.worker, b.clk};
    round_of(&b, /* wait= */ true);
    clock_fake_advance(b.clk, LOOP_MS);
    cr_expect_eq(agent_liveness_page(&l, &page), 200, "%s", sb_str(&page));
    clock_fake_advance(b.clk, 1000);
    cr_expect_eq(agent_liveness_page(&l, &page), 500);
    cr_expect_not_null(strstr(sb_str(&page), "loop hangs: no progress for 121 s"));
    agent_step(b.agent, b.scope, 0);
    cr_expect(heartbeats_check(b.beats, NULL));
    bench_done(&b);
}
