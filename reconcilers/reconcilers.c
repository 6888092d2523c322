/* SPDX-License-Identifier: Apache-2.0 */
#include "reconcilers/reconcilers.h"

#include <assert.h>

#include "base/xalloc.h"

#include "reconcilers/breach.h"
#include "reconcilers/capacity.h"
#include "reconcilers/eviction.h"
#include "reconcilers/gauges.h"
#include "reconcilers/gpuprofile.h"
#include "reconcilers/koordinator.h"
#include "reconcilers/migconfig.h"
#include "reconcilers/node.h"
#include "reconcilers/node_cards.h"
#include "reconcilers/node_unlock.h"
#include "reconcilers/retired.h"

typedef struct controller *constructor(struct context *ctx);

/* The party that a controller serves. */
enum party { ALL, KOORDINATOR, HAMI };

static const struct {
    constructor *make;
    enum party party;
} constructors[] = {
    {node_controller_new, ALL},         {gpuprofile_controller_new, ALL},
    {migconfig_controller_new, ALL},    {eviction_controller_new, ALL},
    {retired_controller_new, ALL},      {koordinator_controller_new, KOORDINATOR},
    {node_unlock_controller_new, HAMI}, {node_cards_controller_new, HAMI},
    {breach_controller_new, ALL},
};

enum { CONTROLLERS = ARRAY_LEN(constructors), INFORMERS = 4, MANY_NODES = 200 };

/* Built by one thread; afterwards other threads use only what the context shares. */
struct reconcilers {
    struct context ctx;
    struct controller *controllers[CONTROLLERS]; /* NULL once handed over, or not wanted */
    struct informer *informers[INFORMERS];       /* likewise */
    struct gauges *gauges;                       /* NULL: no metrics */
    struct capacity *capacity;                   /* likewise */
};

static struct informer *watch(const struct reconcilers_opts *o, const struct object_type *type,
                              uint64_t number)
{
    return informer_new(o->reader, &(struct informer_opts){.type = type,
                                                           .clk = o->clk,
                                                           .seed = o->seed + number});
}

static void open_caches(struct context *ctx, const struct reconcilers_opts *o)
{
    ctx->nodes = watch(o, &records_node_type, 0);
    ctx->devices = watch(o, &records_device_type, 1);
    ctx->profiles = watch(o, &records_profile_type, 2);
    ctx->configs = watch(o, &records_config_type, 3);
    if (o->koordinator)
        ctx->koordinator = koordinator_link_new(o->reader, o->clk, o->seed + 4);
    ctx->caches = (struct caches){
        .nodes = informer_store(ctx->nodes),
        .devices = informer_store(ctx->devices),
        .profiles = informer_store(ctx->profiles),
        .configs = informer_store(ctx->configs),
        .koordinator = ctx->koordinator,
        .gpushare = o->gpushare,
    };
    node_view_add_indexes(&ctx->caches);
}

static void open_notes(struct context *ctx, struct metrics *metrics)
{
    ctx->rollout = rollout_new();
    ctx->config_ledger = rollout_new();
    ctx->node_writes = expectations_new();
    ctx->spec_writes = expectations_new();
    ctx->profile_writes = expectations_new();
    ctx->config_writes = expectations_new();
    ctx->koordinator_writes = expectations_new();
    ctx->retired_since = strmap_new();
    ctx->breaches = breach_ledger_new();
    ctx->label_told = told_new();
    ctx->silence_told = told_new();
    ctx->silence = silence_new();
    ctx->serving = serving_new();
    ctx->wishes = wishes_new(metrics);
}

static bool is_wanted(enum party party, const struct reconcilers_opts *o)
{
    return party == ALL || (party == KOORDINATOR && o->koordinator) || (party == HAMI && o->hami);
}

struct reconcilers *reconcilers_new(const struct reconcilers_opts *opts)
{
    assert(opts->reader && opts->writer && opts->clk && opts->workers >= 1);
    struct reconcilers *r = xmalloc(sizeof(*r));
    struct context *ctx = &r->ctx;
    *ctx = (struct context){.kc = opts->writer,
                            .clk = opts->clk,
                            .recorder = opts->recorder,
                            .workers = opts->workers,
                            .many_nodes = opts->many_nodes ? opts->many_nodes : MANY_NODES};
    open_caches(ctx, opts);
    open_notes(ctx, opts->metrics);
    struct informer *const informers[INFORMERS] = {ctx->nodes, ctx->devices, ctx->profiles,
                                                   ctx->configs};
    for (size_t i = 0; i < INFORMERS; i++)
        r->informers[i] = informers[i];
    if (opts->metrics) {
        r->gauges = gauges_new(opts->metrics, &ctx->caches);
        r->capacity = capacity_new(opts->metrics, &ctx->caches, ctx->clk);
    }
    for (size_t i = 0; i < CONTROLLERS; i++) {
        if (!is_wanted(constructors[i].party, opts))
            continue;
        r->controllers[i] = constructors[i].make(ctx);
        if (opts->metrics)
            controller_register_metrics(r->controllers[i], opts->metrics);
    }
    assert(ctx->node_queue && ctx->profile_queue && ctx->config_queue);
    return r;
}

void reconcilers_hand_over(struct reconcilers *r, struct manager *m)
{
    assert(r->informers[0]); /* once */
    for (size_t i = 0; i < INFORMERS; i++)
        manager_add_informer(m, TAKE(r->informers[i]));
    for (size_t i = 0; i < CONTROLLERS; i++)
        if (r->controllers[i])
            manager_add_controller(m, TAKE(r->controllers[i]));
    if (!r->ctx.koordinator)
        return;
    manager_add_service(m, "koord-kinds", koordinator_link_run_kinds, r->ctx.koordinator);
    manager_add_service(m, "koord-devices", koordinator_link_run_devices, r->ctx.koordinator);
}

void reconcilers_set_beats(struct reconcilers *r, struct heartbeats *set)
{
    if (r->ctx.koordinator)
        koordinator_link_set_beats(r->ctx.koordinator, set);
}

static int step_controllers(struct reconcilers *r, struct scope *s)
{
    int n = 0;
    for (size_t i = 0; i < CONTROLLERS; i++)
        while (r->controllers[i] && controller_step(r->controllers[i], s))
            n++;
    return n;
}

int reconcilers_step(struct reconcilers *r, struct scope *s)
{
    assert(r->informers[0]); /* not handed over */
    for (size_t i = 0; i < INFORMERS; i++)
        (void)!informer_step(r->informers[i], s, /* ret_wait_ms= */ NULL, /* e= */ NULL);
    if (r->ctx.koordinator)
        koordinator_link_step(r->ctx.koordinator, s);
    return step_controllers(r, s);
}

const struct context *reconcilers_context(const struct reconcilers *r)
{
    return &r->ctx;
}

struct reconcilers *reconcilers_free(struct reconcilers *r)
{
    if (!r)
        return NULL;
    struct context *ctx = &r->ctx;
    (void)gauges_free(r->gauges);
    (void)capacity_free(r->capacity);
    for (size_t i = 0; i < CONTROLLERS; i++)
        (void)controller_free(r->controllers[i]);
    for (size_t i = 0; i < INFORMERS; i++)
        (void)informer_free(r->informers[i]);
    (void)koordinator_link_free(ctx->koordinator);
    (void)rollout_free(ctx->rollout);
    (void)rollout_free(ctx->config_ledger);
    (void)expectations_free(ctx->node_writes);
    (void)expectations_free(ctx->spec_writes);
    (void)expectations_free(ctx->profile_writes);
    (void)expectations_free(ctx->config_writes);
    (void)expectations_free(ctx->koordinator_writes);
    (void)strmap_free(ctx->retired_since);
    (void)breach_ledger_free(ctx->breaches);
    (void)told_free(ctx->label_told);
    (void)told_free(ctx->silence_told);
    (void)silence_free(ctx->silence);
    (void)serving_free(ctx->serving);
    (void)wishes_free(ctx->wishes);
    free(r);
    return NULL;
}
