/* SPDX-License-Identifier: Apache-2.0 */
#include "reconcilers/node_ledger.h"

#include <assert.h>
#include <string.h>

#include "base/xalloc.h"

#include "reconcilers/device_spec.h"
#include "reconcilers/node_resources.h"

/* Adds to standing_of: a source is up to date only when its resources are published too. */
static void standing_on(const struct node_view *v, const struct resolve_outcome *o,
                        struct standing *ret)
{
    standing_of(v, o, ret);
    if (ret->phase == PHASE_UP_TO_DATE && !node_resources_published(v))
        standing_set(ret, PHASE_CHANGING, "Progressing", "a change is under way");
}

/* --- Profiles --- */

/* A budget that cannot be read lets no change begin; the profile's status reports why. */
static struct rollout_budget budget_of(struct context *ctx, const struct object *profile)
{
    assert(profile); /* outcomes of profiles come from the view's profiles */
    const struct profile_record *p = object_payload(profile);
    struct rollout_budget b = {.paused = p->spec.paused};
    size_t matched = rollout_matched(ctx->rollout, object_name(profile));
    if (gpuprofile_max_unavailable(p->spec.rollout.max_unavailable, matched ? matched : 1, &b.max,
                                   NULL) < 0)
        b.max = 0;
    return b;
}

static void report_standing(struct context *ctx, const struct object *profile, const char *node,
                            const struct standing *s, enum phase was)
{
    if (s->phase == was)
        return;
    if (s->phase == PHASE_FAILED)
        recorder_event(ctx->recorder, profile, /* warning= */ true, "NodeFailed", "%s: %s: %s",
                       node, s->reason, s->message);
    else if (s->phase == PHASE_UP_TO_DATE && was != PHASES)
        recorder_event(ctx->recorder, profile, /* warning= */ false, "NodeUpdated",
                       "%s is as wanted", node);
}

/* Gives and takes back the profile's ticket. True when the node has to wait. */
static bool settle_ticket(struct context *ctx, const struct node_view *v, const char *node,
                          const char *name, const struct rollout_budget *budget)
{
    bool needs = device_spec_needs_ticket(v, name);
    bool waits = needs && !rollout_ask(ctx->rollout, name, node, budget);
    if (!needs && standing_is_settled(v, name) && node_resources_published(v))
        rollout_settle(ctx->rollout, name, node);
    else if (!needs)
        rollout_stop_waiting(ctx->rollout, name, node);
    rollout_wake(ctx->rollout, name, budget, ctx->node_queue);
    return waits;
}

/* Enters one profile on the node. True when it has to wait. */
static bool keep_profile(struct context *ctx, const struct node_view *v, const char *node,
                         const struct resolve_outcome *o, struct standing *ret)
{
    const char *name = o->source.name;
    const struct object *profile = node_view_profile_object(v, name);
    const struct rollout_budget budget = budget_of(ctx, profile);
    bool waits = settle_ticket(ctx, v, node, name, &budget);
    standing_on(v, o, ret);
    if (waits && ret->phase == PHASE_CHANGING)
        standing_set(ret, PHASE_WAITING, budget.paused ? "Paused" : "Waiting",
                     budget.paused ? "spec.paused is true"
                                   : "other nodes are in change (rollout.maxUnavailable)");
    enum phase was;
    if (rollout_note(ctx->rollout, name, rollout_edition_of(profile), node, ret, &was)) {
        report_standing(ctx, profile, node, ret, was);
        wq_add(ctx->profile_queue, &(struct object_key){.name = name});
    }
    return waits;
}

/* --- Configurations --- */

/* True when a outranks b as the one standing for several sources: failures first, then changes
 * under way. */
static bool outranks(const struct standing *a, const struct standing *b)
{
    static const int rank[PHASES] = {[PHASE_FAILED] = 4,
                                     [PHASE_CHANGING] = 3,
                                     [PHASE_WAITING] = 2,
                                     [PHASE_UP_TO_DATE] = 1,
                                     [PHASE_OVERRIDDEN] = 0};
    assert(a->phase < PHASES && (!b || b->phase < PHASES));
    return !b || rank[a->phase] > rank[b->phase];
}

static void note_config(struct context *ctx, const struct node_view *v, const char *node,
                        const struct object *config, const struct standing *standings)
{
    const struct standing *worst = NULL;
    for (size_t i = 0; i < v->result.n_outcomes; i++)
        if (node_view_brings(v, &v->result.outcomes[i].source, config) &&
            outranks(&standings[i], worst))
            worst = &standings[i];
    enum phase was;
    if (worst && rollout_note(ctx->config_ledger, object_name(config), rollout_edition_of(config),
                              node, worst, &was))
        wq_add(ctx->config_queue, &(struct object_key){.name = object_name(config)});
}

static bool still_used(const char *name, const void *arg)
{
    const struct node_view *v = arg;
    for (size_t i = 0; i < v->configs.count; i++) {
        if (strcmp(object_name(v->configs.items[i]), name) != 0)
            continue;
        for (size_t k = 0; k < v->result.n_outcomes; k++)
            if (node_view_brings(v, &v->result.outcomes[k].source, v->configs.items[i]))
                return true;
    }
    return false;
}

static void keep_configs(struct context *ctx, const struct node_view *v, const char *node,
                         const struct standing *standings)
{
    rollout_forget_node(ctx->config_ledger, node, still_used, v, ctx->config_queue);
    for (size_t i = 0; i < v->configs.count; i++)
        note_config(ctx, v, node, v->configs.items[i], standings);
}

/* --- The node --- */

static bool still_matches(const char *profile, const void *arg)
{
    return node_view_profile(arg, profile) != NULL;
}

static void standings_free(struct standing *list, size_t n)
{
    for (size_t i = 0; i < n; i++)
        standing_done(&list[i]);
    free(list);
}

size_t node_ledger_keep(struct context *ctx, const struct node_view *v, const char *node,
                        const char **waiting)
{
    size_t n = v->result.n_outcomes;
    struct standing *standings = xcalloc(n, sizeof(*standings));
    size_t n_waiting = 0;
    rollout_forget_node(ctx->rollout, node, still_matches, v, ctx->profile_queue);
    for (size_t i = 0; i < n; i++) {
        const struct resolve_outcome *o = &v->result.outcomes[i];
        if (o->source.kind == API_SOURCE_NODE_LABEL)
            standing_on(v, o, &standings[i]);
        else if (keep_profile(ctx, v, node, o, &standings[i]))
            waiting[n_waiting++] = o->source.name;
    }
    assert(n_waiting <= n);
    keep_configs(ctx, v, node, standings);
    standings_free(standings, n);
    return n_waiting;
}

void node_ledger_forget(struct context *ctx, const char *node)
{
    rollout_forget_node(ctx->rollout, node, /* keep= */ NULL, /* arg= */ NULL, ctx->profile_queue);
    rollout_forget_node(ctx->config_ledger, node, /* keep= */ NULL, /* arg= */ NULL,
                        ctx->config_queue);
}

/* --- After a start --- */

static void build_node(struct context *ctx, const char *node)
{
    auto_node_view struct node_view v = {0};
    node_view_read(&ctx->caches, node, &v);
    size_t n = v.result.n_outcomes;
    struct standing *standings = xcalloc(n, sizeof(*standings));
    for (size_t i = 0; i < n; i++) {
        const struct resolve_outcome *o = &v.result.outcomes[i];
        enum phase was;
        standing_on(&v, o, &standings[i]);
        if (o->source.kind != API_SOURCE_PROFILE)
            continue;
        if (!standing_is_settled(&v, o->source.name))
            rollout_force_ticket(ctx->rollout, o->source.name, node);
        (void)rollout_note(ctx->rollout, o->source.name,
                           rollout_edition_of(node_view_profile_object(&v, o->source.name)), node,
                           &standings[i], &was);
    }
    keep_configs(ctx, &v, node, standings);
    standings_free(standings, n);
}

void node_ledger_build(struct rollout *r, void *arg)
{
    (void)r;
    struct context *ctx = arg;
    auto_object_list struct object_list devices = {0};
    store_list(ctx->caches.devices, &devices);
    for (size_t i = 0; i < devices.count; i++)
        build_node(ctx, object_name(devices.items[i]));
}
