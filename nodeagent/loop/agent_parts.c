/* SPDX-License-Identifier: Apache-2.0 */
#include "nodeagent/loop/agent_parts.h"

#include <assert.h>

#include "base/xalloc.h"

enum { RESYNC_MS = 30000 };

static struct sharing_means sharing_means_of(const struct agent_deps *d)
{
    return (struct sharing_means){.publisher = d->resource_publisher,
                                  .enforcement = {.library = d->limiter && d->share_folders,
                                                  .mps = d->resource_publisher ==
                                                         API_PUBLISHER_KUBELET}};
}

static void init_reporting(struct agent *a)
{
    const struct agent_deps *d = &a->d;
    a->reporting = reporting_new(&(const struct reporting_deps){
        .clk = d->clk,
        .status_writer = d->status_writer,
        .kubelet = d->kubelet,
        .serves_kubelet = serves_kubelet(a),
        .koordinator = d->koordinator,
        .slots = d->slots,
        .writes_slot_files = d->cdi_slots,
        .metrics = a->metrics,
        .telemetry = d->telemetry,
        .version = d->version,
        .events = &a->events,
        .seed = d->seed,
        .config = d->config,
        .means = &a->means,
        .koordinator_shares = d->koordinator_shares,
        .cards = &a->cards,
        .host = &a->read_jobs.host,
        .setup = &a->read_jobs.setup,
        .spec_source = a->spec_source,
        .tracks = &a->tracks,
        .jobs = &a->jobs,
        .recovery = &a->recovery,
        .readings = &a->read_jobs.readings,
        .share_watch = &a->share_watch,
    });
}

static void init_share_watch(struct agent *a)
{
    a->share_watch = (struct share_watch){
        .folders = a->d.share_folders,
        .proc_root = a->d.proc_root,
        .cards = &a->cards,
        .spec_source = a->spec_source,
        .kubelet = a->d.kubelet,
        .events = &a->events,
        .metrics = a->share_metrics,
    };
}

static void init_read_jobs(struct agent *a)
{
    int64_t resync_ms = a->d.resync_ms ? a->d.resync_ms : RESYNC_MS;
    a->read_jobs = (struct read_jobs){
        .clk = a->d.clk,
        .config = a->d.config,
        .means = &a->means,
        .spec_source = a->spec_source,
        .cards = &a->cards,
        .jobs = &a->jobs,
        .recovery = &a->recovery,
        .withdrawal = &a->withdrawal,
        .card_jobs = &a->card_jobs,
        .slot_jobs = &a->slot_jobs,
    };
    readings_init(&a->read_jobs.readings, a->d.clk, &a->rng, resync_ms);
}

static void init_slot_jobs(struct agent *a)
{
    a->slot_jobs = (struct slot_jobs){
        .clk = a->d.clk,
        .slots = a->d.slots,
        .kubelet = a->d.kubelet,
        .cdi_slots = a->d.cdi_slots,
        .config = a->d.config,
        .means = &a->means,
        .cards = &a->cards,
        .spec_source = a->spec_source,
        .tracks = &a->tracks,
        .jobs = &a->jobs,
        .unended = &a->recovery.unended,
        .cgroups = a->cgroups,
    };
}

static void init_card_jobs(struct agent *a)
{
    a->withdrawal = (struct withdrawal){a->d.clk, a->d.kubelet, a->d.status_writer, a->reporting};
    a->card_jobs = (struct card_jobs){
        .clk = a->d.clk,
        .rng = &a->rng,
        .kubelet = a->d.kubelet,
        .means = &a->means,
        .cards = &a->cards,
        .tracks = &a->tracks,
        .spec_source = a->spec_source,
        .recovery = &a->recovery,
        .reporting = a->reporting,
        .withdrawal = &a->withdrawal,
        .events = &a->events,
        .metrics = a->metrics,
    };
}

static void init_turn(struct agent *a)
{
    a->turn.locks = a->d.locks;
    a->turn.clk = a->d.clk;
    a->turn.node = a->d.node;
    a->turn.kubelet = a->d.kubelet;
    a->turn.serves_kubelet = serves_kubelet(a);
    a->turn.status_writer = a->d.status_writer;
    a->turn.reporting = a->reporting;
    a->turn.metrics = a->metrics;
    a->turn.read_jobs = &a->read_jobs;
    turn_begin(&a->turn);
}

struct agent *agent_parts_new(const struct agent_deps *d, worker_done_fn *done,
                              kubelet_link_fn *news)
{
    assert(d->worker && d->devices && d->status_writer && d->clk && d->node && d->state_dir);
    assert(!d->slots || (d->kubelet && d->pods));
    struct agent *a = xmalloc(sizeof(*a));
    a->d = *d;
    a->env = (struct agent_job_env){.state_dir = d->state_dir,
                                    .proc_root = d->proc_root,
                                    .driver = serves_kubelet(a) ? &a->d.driver : NULL,
                                    .clk = d->clk,
                                    .sys_root = d->sys_root,
                                    .host_root = d->driver.dev_root,
                                    .slots = d->cdi_slots,
                                    .share_folders = d->share_folders,
                                    .limiter = d->limiter,
                                    .cgroup_root = d->slots ? d->cgroup_root : NULL};
    a->means = sharing_means_of(d);
    if (a->env.cgroup_root)
        a->cgroups = cgroup_watch_new(a->env.cgroup_root);
    rng_init(&a->rng, d->seed);
    a->cards.health = d->health;
    a->cards.kubelet = d->kubelet;
    a->cards.serves_kubelet = serves_kubelet(a);
    a->jobs.worker = d->worker;
    a->jobs.limits = d->limits;
    a->jobs.n_limits = d->n_limits;
    a->jobs.cards = &a->cards;
    a->jobs.done = done;
    a->spec_source = spec_source_new(d->devices, d->state_dir, d->clk);
    a->events = (struct agent_events){d->recorder, d->clk, d->node};
    a->metrics = agent_metrics_new(d->metrics, d->kubelet, serves_kubelet(a));
    if (serves_kubelet(a))
        a->share_metrics = share_metrics_new(d->metrics);
    init_reporting(a);
    init_card_jobs(a);
    init_slot_jobs(a);
    init_read_jobs(a);
    init_share_watch(a);
    if (d->kubelet)
        kubelet_link_on_change(d->kubelet, news, a);
    init_turn(a);
    return a;
}

struct agent *agent_parts_free(struct agent *a)
{
    if (!a)
        return NULL;
    a->reporting = reporting_free(a->reporting);
    a->metrics = agent_metrics_free(a->metrics);
    a->share_metrics = share_metrics_free(a->share_metrics);
    a->spec_source = spec_source_free(a->spec_source);
    cards_done(&a->cards);
    card_tracks_done(&a->tracks);
    readings_done(&a->read_jobs.readings);
    share_watch_done(&a->share_watch);
    exclusive_wish_done(&a->read_jobs.exclusive);
    limit_sweep_done(&a->read_jobs.limit_sweep);
    a->cgroups = cgroup_watch_free(a->cgroups);
    recovery_done(&a->recovery);
    jobs_done(&a->jobs);
    turn_done(&a->turn);
    free(a);
    return NULL;
}
