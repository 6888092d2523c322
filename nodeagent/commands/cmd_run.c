/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/rng.h"
#include "base/sb.h"
#include "base/xalloc.h"

#include "kubeclient/config_source.h"
#include "kubeclient/http.h"
#include "nodeagent/commands/cmd.h"
#include "nodeagent/commands/host.h"
#include "nodeagent/commands/limiter_install.h"
#include "nodeagent/commands/run_flags.h"
#include "nodeagent/commands/runtime_install.h"
#include "nodeagent/commands/telemetry.h"
#include "nodeagent/loop/agent.h"
#include "nodeagent/loop/agent_liveness.h"
#include "nodeagent/loop/own_device.h"
#include "nodeagent/slots/share_folder.h"
#include "nodeagent/vendor/vendors.h"
#include "service/http_server.h"

/*
 * `cleave-agent run`: the parts of the node's process and their threads. The main thread waits for
 * signals; the first thread that ends, ends the others.
 */

enum {
    MAX_THREADS = 9, /* all that serve_until_signal starts */
    WORKER_GRACE_MS = 5000,
    TELEMETRY_GRACE_MS = 2000,
};

/* Timeout of a request to the API server. All are small, and nothing is published until one has
 * ended. */
enum { REQUEST_MS = 15000 };

enum { MAX_FLAGS_BYTES = 8000 };

/* Liveness limits, above the longest healthy duration: a request with the work around it; a round
 * of the loop, which writes small files and waits for nothing. */
enum { WRITE_HANG_MS = 2 * 60 * 1000, LOOP_HANG_MS = 2 * 60 * 1000 };

struct part {
    const char *name;
    int (*run)(void *arg, struct scope *s, struct err *e);
    void *arg;
    struct scope *scope; /* borrowed */
    pthread_t thread;
    int rc;
    struct err err;
};

/* All parts of the process, freed in the reverse order of their making. */
struct process {
    struct plugin_config config;
    struct kc *kc;
    struct informer *devices;
    struct gpu_watch *watch;
    struct health_watch *health;
    struct worker *worker;
    struct vendor_limit limits[GPU_MAX_VENDORS];
    size_t n_limits;
    struct status_writer *status_writer;
    struct recorder *recorder;
    struct metrics *metrics;
    struct telemetry telemetry;
    struct kubelet_link *kubelet;
    struct pod_reader *pods;
    struct cdi_slots *cdi_slots;
    struct late_binding *slots;
    struct share_folders *share_folders;
    char *limiter;                   /* NULL: not installed */
    struct koord_infos *koordinator; /* NULL: off */
    struct agent *agent;
    struct access_gate *gate; /* NULL: metrics are open to everybody */
    struct http_server *http;
    struct heartbeats *beats;
    struct agent_liveness liveness; /* the loop's and the status writer's */
    struct handover_locks *locks;
    struct part parts[MAX_THREADS];
    size_t n_parts;
};

static int run_informer(void *arg, struct scope *s, struct err *e)
{
    return informer_run(arg, s, e);
}

static int run_status_writer(void *arg, struct scope *s, struct err *e)
{
    return status_writer_run(arg, s, e);
}

static int run_recorder(void *arg, struct scope *s, struct err *e)
{
    return recorder_run(arg, s, e);
}

static int run_pods(void *arg, struct scope *s, struct err *e)
{
    return pod_reader_run(arg, s, e);
}

/* Nobody needs to know yet what they say. */
static void pass_over(void *arg, unsigned slot, const struct ucred *from,
                      const struct share_message *m)
{
    (void)arg;
    char name[SLOT_WORD_BYTES];
    log_debug("Heard of a container", kv("slot", slot_name(slot, name)), kv_int("pid", from->pid),
              kv_int("word", m->word));
}

static int run_shares(void *arg, struct scope *s, struct err *e)
{
    return share_folders_run(arg, s, pass_over, /* arg= */ NULL, e);
}

static int trim_shares(void *arg, struct scope *s, struct err *e)
{
    return share_folders_trim(arg, s, e);
}

static int run_agent(void *arg, struct scope *s, struct err *e)
{
    return agent_run(arg, s, e);
}

static int get_ready(void *arg, struct sb *body)
{
    bool ready = agent_is_ready(arg);
    if (agent_phase(arg) == HANDOVER_STANDBY)
        sb_add(body, "standby: another process has this node's cards\n");
    sb_add(body, ready ? "ok\n" : "the hardware or the Device has not been read yet\n");
    return ready ? 200 : 503;
}

/* The agent's own root where it was set, else the configuration's where that was set. */
static const char *root_of(const char *ours, bool said, const char *theirs)
{
    return ours ? ours : said ? theirs : NULL;
}

static struct driver_where driver_where(const struct run_flags *f, const struct plugin_config *c)
{
    return (struct driver_where){
        .proc_root = f->host.proc_root,
        .sys_root = f->host.sys_root,
        .dev_root = f->dev_root,
        .host_dev_root =
            root_of(f->host_dev_root, c->said.dev_root || c->said.driver_root, c->dev_root),
        .plain_dev_root = f->host_dev_root, /* the configuration concerns NVIDIA only */
        .driver_root =
            root_of(f->driver_root, c->said.container_driver_root, c->container_driver_root),
        .host_driver_root = root_of(f->host_driver_root, c->said.driver_root, c->driver_root),
    };
}

/* Takes over the limits of all vendors. Returns the jobs that may run at once: as many as cards are
 * changed side by side, among which are those for slots, and a reading. */
static size_t take_limits(struct process *p)
{
    size_t n = 1;
    for (; vendor_backends[p->n_limits]; p->n_limits++) {
        assert(p->n_limits < GPU_MAX_VENDORS);
        const struct vendor_backend *b = vendor_backends[p->n_limits];
        const struct vendor_limit l = {b->name, b->cards_at_once ? b->cards_at_once : 1};
        p->limits[p->n_limits] = l;
        n += l.cards_at_once;
    }
    return n;
}

static int open_hardware(struct process *p, const struct run_flags *f, struct err *e)
{
    TRY(handover_locks_new(f->host.state_dir, &p->locks, e));
    p->watch = gpu_watch_new(&(struct gpu_watch_options){.library = host_events_library(&f->host)});
    auto_gpu struct gpu *gpu = NULL;
    TRY(host_gpus(&f->host, p->watch, &gpu, e));
    const struct worker_options w = {.max_threads = take_limits(p),
                                     .call_deadline_ms = f->call_deadline_ms,
                                     .park_ms = f->resync_ms};
    TRY(worker_new(gpu, &w, &p->worker, e));
    struct gpu *const workers = TAKE(gpu);
    return telemetry_open(f, workers, &p->telemetry, e);
}

static int connect_cluster(struct process *p, const struct run_flags *f, uint64_t seed,
                           struct err *e)
{
    auto_kc_config struct kc_config config = {0};
    TRY(kc_config_discover(f->kubeconfig, environ, &config, e));
    const struct kc_http_opts o = {.user_agent = "cleave-agent/" CLEAVE_VERSION,
                                   .request_timeout_ms = REQUEST_MS,
                                   .max_list_bytes = 64 << 20};
    TRY(kc_http_new(&config, &o, &p->kc, e));
    const struct informer_opts i = {.type = &own_device_type,
                                    .name = f->node,
                                    .clk = clock_real(),
                                    .seed = seed};
    p->devices = informer_new(p->kc, &i);
    const struct recorder_opts r = {"gpu.cleave.dev/agent", f->node, clock_real(), seed + 1};
    p->recorder = recorder_new(p->kc, &r);
    informer_set_beat(p->devices, heartbeat_add(p->beats, "informer of devices", INFORMER_CALL_MS));
    const struct status_writer_deps d = {p->kc, p->devices, f->node, clock_real(), seed + 2};
    p->status_writer = status_writer_new(&d);
    status_writer_set_beat(p->status_writer,
                           heartbeat_add(p->beats, "status-writer", WRITE_HANG_MS));
    return 0;
}

static void make_health(struct process *p, const struct run_flags *f)
{
    auto_err struct err bad = {0};
    struct health_watch_deps d = {.watch = p->watch,
                                  .recorder = p->recorder,
                                  .metrics = p->metrics,
                                  .clk = clock_real(),
                                  .node = f->node};
    d.options.settle_ms = f->settle_ms;
    if (health_options_parse(f->disable_checks, f->enable_checks, &d.options, &bad) < 0)
        log_warn("Could not understand all of the health checks' settings", kv_err(&bad));
    p->health = health_watch_new(&d);
}

static int open_kubelet(struct process *p, const struct run_flags *f, bool observe, uint64_t seed,
                        struct err *e)
{
    const struct plugin_config *c = &p->config;
    const struct kubelet_link_options o = {
        .clk = clock_real(),
        .observe = observe,
        .kubelet_dir = f->kubelet_dir,
        .entry = {.ways = c->said.ways ? c->ways : ENTRY_CDI_CRI,
                  .by_index = c->by_index,
                  .pass_device_nodes = c->pass_device_specs,
                  .gds = c->gds,
                  .mofed = c->mofed,
                  .gdrcopy = c->gdrcopy,
                  .annotation_prefix = c->cdi_annotation_prefix},
        .cdi = {.folder = f->cdi_dir, .hook = f->cdi_hook},
        .slots = p->cdi_slots,
        .pack_shared = c->packed,
        .mps = {.root = *c->mps_root ? c->mps_root : RUN_MPS_ROOT, .program = f->mps_control},
        .seed = seed,
    };
    return kubelet_link_new(&o, &p->kubelet, e);
}

/* Opens the folders of limited shares, and installs the limiter. Without one of them no share is
 * limited, and those that an agent before limited are still released. The root of the folders is not
 * made: in a container's own file system nobody would find it. */
static void open_limits(struct process *p, const struct run_flags *f)
{
    auto_err struct err e = {0};
    if (access(f->share_folder, F_OK) < 0) {
        log_info("Shares of cards are not limited: their folder does not exist",
                 kv("folder", f->share_folder));
        return;
    }
    if (limiter_install(f->limiter_folder, f->library_folder, &p->limiter, &e) < 0)
        log_error("Could not install the limiter of shares", kv("folder", f->library_folder),
                  kv_err(&e));
    err_clear(&e);
    if (share_folders_new(f->share_folder, &p->share_folders, &e) < 0)
        log_error("Could not open the folder of shares", kv("folder", f->share_folder), kv_err(&e));
    else if (p->limiter)
        log_info("Installed the limiter of shares", kv("folder", p->limiter));
}

/* Opens late binding, where the kubelet grants slots. */
static void open_slots(struct process *p, const struct run_flags *f, uint64_t seed)
{
    const struct cdi_options o = {.folder = f->cdi_dir, .hook = f->cdi_hook};
    p->cdi_slots = cdi_slots_new(&o);
    p->pods = pod_reader_new(p->kc);
    pod_reader_set_beat(p->pods, heartbeat_add(p->beats, "reader of pods", WRITE_HANG_MS));
    const struct late_binding_deps d = {p->pods, clock_real(), f->node, seed};
    p->slots = late_binding_new(&d);
    open_limits(p, f);
}

static int make_agent(struct process *p, const struct run_flags *f, uint64_t seed, struct err *e)
{
    if (f->resource_publisher == API_PUBLISHER_KUBELET)
        open_slots(p, f, seed + 5);
    if (f->resource_publisher != API_PUBLISHER_CONTROLLER)
        TRY(open_kubelet(p, f, f->resource_publisher == API_PUBLISHER_OTHER, seed + 4, e));
    if (f->device_infos && *f->device_infos)
        p->koordinator = koord_infos_new(f->device_infos);
    p->metrics = metrics_new();
    make_health(p, f);
    const struct agent_deps d = {
        .worker = p->worker,
        .limits = p->limits,
        .n_limits = p->n_limits,
        .devices = p->devices,
        .status_writer = p->status_writer,
        .recorder = p->recorder,
        .metrics = p->metrics,
        .telemetry = p->telemetry.sampler,
        .beat = heartbeat_add(p->beats, "loop", LOOP_HANG_MS),
        .health = p->health,
        .clk = clock_real(),
        .node = f->node,
        .state_dir = f->host.state_dir,
        .proc_root = f->host.proc_root,
        .sys_root = f->host.sys_root,
        .version = CLEAVE_VERSION,
        .resource_publisher = f->resource_publisher,
        .koordinator_shares = f->koordinator_shares,
        .kubelet = p->kubelet,
        .slots = p->slots,
        .pods = p->pods,
        .cdi_slots = p->cdi_slots,
        .share_folders = p->share_folders,
        .limiter = p->limiter,
        .cgroup_root = *f->cgroup_root ? f->cgroup_root : NULL,
        .koordinator = p->koordinator,
        .driver = driver_where(f, &p->config),
        .config = &p->config,
        .locks = p->locks,
        .resync_ms = f->resync_ms,
        .seed = seed + 3,
    };
    p->agent = agent_new(&d);
    return 0;
}

static void *part_main(void *arg)
{
    struct part *p = arg;
    p->rc = p->run(p->arg, p->scope, &p->err);
    /* A part that ends by itself ends the process, because a half-working agent is useless. */
    if (!scope_is_canceled(p->scope))
        (void)kill(getpid(), SIGTERM);
    return NULL;
}

static void start_part(struct process *p, struct scope *s, const char *name,
                       int (*run)(void *, struct scope *, struct err *), void *arg)
{
    assert(p->n_parts < MAX_THREADS);
    struct part *part = &p->parts[p->n_parts];
    *part = (struct part){.name = name, .run = run, .arg = arg, .scope = s};
    if (pthread_create(&part->thread, NULL, part_main, part) != 0) {
        log_error("Could not start a thread", kv("thread", name));
        abort();
    }
    (void)pthread_setname_np(part->thread, name);
    p->n_parts++;
}

static int join_parts(struct process *p)
{
    int failed = 0;
    for (size_t i = 0; i < p->n_parts; i++) {
        struct part *part = &p->parts[i];
        (void)pthread_join(part->thread, NULL);
        if (part->rc < 0 && part->err.kind != ERR_CANCELED) {
            log_error("A part of the agent failed", kv("thread", part->name), kv_err(&part->err));
            failed = 1;
        }
        err_clear(&part->err);
    }
    return failed;
}

static int serve_until_signal(struct process *p, const sigset_t *signals)
{
    auto_scope struct scope *s = scope_new(NULL, -1);
    start_part(p, s, "devices", run_informer, p->devices);
    start_part(p, s, "status-writer", run_status_writer, p->status_writer);
    start_part(p, s, "recorder", run_recorder, p->recorder);
    if (p->pods)
        start_part(p, s, "pods", run_pods, p->pods);
    if (p->share_folders)
        start_part(p, s, "shares", run_shares, p->share_folders);
    if (p->share_folders)
        start_part(p, s, "usage", trim_shares, p->share_folders);
    if (p->gate)
        start_part(p, s, "access", access_gate_run, p->gate);
    start_part(p, s, "http", http_server_run, p->http);
    start_part(p, s, "agent", run_agent, p->agent);
    int signal = 0;
    (void)sigwait(signals, &signal);
    log_info("Stopping", kv("signal", signal == SIGINT ? "SIGINT" : "SIGTERM"));
    agent_ask_end(p->agent);
    (void)sigwait(signals, &signal); /* the agent's thread has ended, or somebody is in a hurry */
    scope_cancel(s);
    return join_parts(p);
}

/* Frees the process. True when the worker had to be left behind inside the vendor's library. */
static bool process_done(struct process *p)
{
    bool abandoned = false;
    p->telemetry.sampler = sampler_free(p->telemetry.sampler, TELEMETRY_GRACE_MS, &abandoned);
    if (abandoned)
        return true;
    p->worker = worker_free(p->worker, WORKER_GRACE_MS, &abandoned);
    if (abandoned)
        return true; /* if its call returns after all, its job needs the rest, and the lock */
    p->http = http_server_free(p->http);
    counter_list_done(&p->telemetry.counters);
    p->gate = access_gate_free(p->gate);
    p->agent = agent_free(p->agent);
    p->koordinator = koord_infos_free(p->koordinator);
    p->health = health_watch_free(p->health);
    p->watch = gpu_watch_free(p->watch);
    p->kubelet = kubelet_link_free(p->kubelet);
    p->slots = late_binding_free(p->slots);
    p->pods = pod_reader_free(p->pods);
    p->cdi_slots = cdi_slots_free(p->cdi_slots);
    p->share_folders = share_folders_free(p->share_folders);
    free(TAKE(p->limiter));
    p->status_writer = status_writer_free(p->status_writer);
    p->recorder = recorder_free(p->recorder);
    p->devices = informer_free(p->devices);
    p->metrics = metrics_free(p->metrics);
    p->beats = heartbeats_free(p->beats);
    p->kc = kc_free(p->kc);
    plugin_config_done(&p->config);
    p->locks = handover_locks_free(p->locks);
    return false;
}

static int open_http(struct process *p, const struct run_flags *f, struct err *e)
{
    const struct http_route health[] = {{"/healthz", agent_liveness_page, .arg = &p->liveness},
                                        {"/readyz", get_ready, .arg = p->agent}};
    const struct http_route metrics[] = {{"/metrics", metrics_page, .arg = p->metrics},
                                         {TELEMETRY_PATH, sampler_page,
                                          .arg = p->telemetry.sampler}};
    static struct http_route routes[4]; /* borrowed by the server for its life */
    memcpy(routes, health, sizeof(health));
    memcpy(&routes[2], metrics, sizeof(metrics));
    bool token = false;
    TRY(metrics_access_check(&f->access, &token, e));
    if (token)
        TRY(metrics_gate_new(p->kc, p->metrics, &p->gate, e));
    const struct http_listener listeners[] = {{.addr = f->health, .routes = routes, .n_routes = 2},
                                              {.addr = f->metrics,
                                               .routes = &routes[2],
                                               .n_routes = p->telemetry.sampler ? 2 : 1,
                                               .gate = p->gate,
                                               .tls = f->access.tls}};
    return http_server_new(listeners, ARRAY_LEN(listeners), p->metrics, &p->http, e);
}

static int set_up(struct process *p, const struct run_flags *f, struct err *e)
{
    struct rng rng;
    rng_init_random(&rng);
    uint64_t seed = rng_next(&rng);
    p->beats = heartbeats_new(clock_real());
    TRY(open_hardware(p, f, e));
    TRY(connect_cluster(p, f, seed, e));
    TRY(make_agent(p, f, seed, e));
    p->liveness = (struct agent_liveness){p->beats, p->worker, clock_real()};
    return open_http(p, f, e);
}

/* The command line as it was given; it has paths, and no secrets. */
static void log_start(const char *node, int argc, char **argv)
{
    auto_sb struct sb flags = SB_INIT(MAX_FLAGS_BYTES);
    for (int i = 1; i < argc; i++)
        sb_addf(&flags, "%s%s", i > 1 ? " " : "", argv[i]);
    log_info("Started cleave-agent", kv("version", CLEAVE_VERSION), kv("node", node),
             kv("flags", sb_str(&flags)));
}

/* A node works without it, where its container runtime does CDI. */
static void install(const char *folder)
{
    auto_err struct err e = {0};
    auto_free char *program = NULL;
    if (runtime_beside_us("cleave-runtime", &program, &e) < 0 ||
        runtime_install(program, folder, &e) < 0)
        log_error("Could not install cleave-runtime", kv("folder", folder), kv_err(&e));
    else
        log_info("Installed cleave-runtime", kv("folder", folder));
}

/* Returns the exit status. */
static int run_process(const struct run_flags *f, int argc, char **argv)
{
    auto_err struct err e = {0};
    sigset_t signals;
    (void)sigemptyset(&signals);
    (void)sigaddset(&signals, SIGINT);
    (void)sigaddset(&signals, SIGTERM);
    (void)pthread_sigmask(SIG_BLOCK, &signals, NULL);
    (void)signal(SIGPIPE, SIG_IGN);

    struct process p = {0};
    int rc = 1;
    if (run_flags_load_config(f, &p.config, &e) < 0 ||
        telemetry_load(f, &p.telemetry.counters, &e) < 0) {
        log_error("Could not start", kv_err(&e));
        rc = 2; /* as for the other flags: another start would end the same way */
    } else if (set_up(&p, f, &e) < 0) {
        log_error("Could not start", kv_err(&e));
    } else {
        log_start(f->node, argc, argv);
        if (f->install_runtime)
            install(f->install_runtime);
        rc = serve_until_signal(&p, &signals);
    }
    if (process_done(&p)) {
        log_error("Left a hanging library call behind");
        _exit(1);
    }
    return rc;
}

int cmd_run(int argc, char **argv)
{
    auto_err struct err e = {0};
    struct run_flags f;
    enum run_flags_what what;
    if (run_flags_parse(argc, argv, &f, &what, &e) < 0) {
        (void)fprintf(stderr, "cleave-agent run: %s\n", err_msg(&e));
        return 2;
    }
    return what == RUN_FLAGS_HELP ? 0 : run_process(&f, argc, argv);
}
