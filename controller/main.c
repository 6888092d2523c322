/* SPDX-License-Identifier: Apache-2.0 */
#include <jansson.h>
#include <malloc.h>
#include <stdio.h>
#include <string.h>

#include "base/duration.h"
#include "base/log.h"
#include "base/log_options.h"
#include "base/num.h"
#include "base/options.h"
#include "base/rng.h"
#include "base/xalloc.h"

#include "controller/leadership.h"
#include "controller/manager.h"
#include "controller/policy_check.h"
#include "kubeclient/config_source.h"
#include "kubeclient/http.h"
#include "reconcilers/reconcilers.h"
#include "service/http_child.h"
#include "service/http_server.h"
#include "service/listen_socket.h"
#include "service/liveness.h"
#include "service/metrics.h"
#include "service/metrics_access.h"
#include "service/stop_signals.h"
#include "service/write_metrics.h"

enum { EXIT_OK, EXIT_FAILED, EXIT_USAGE };

enum { MAX_WORKERS = 16, HOSTNAME_BYTES = 256 };

/* A Lease counts whole seconds, and config/admission/controller-lease.yaml refuses more than
 * 300. */
enum { MIN_LEASE_MS = 1000, MAX_LEASE_MS = 300 * 1000, MIN_RETRY_MS = 50 };

/* The threads share this many heaps: one for each thread would leave idle memory in all of them. */
enum { MALLOC_ARENAS = 2 };

struct flags {
    const char *kubeconfig, *namespace, *lease_name, *identity, *pod_name;
    const char *lease_duration, *renew_deadline, *retry_period;
    const char *health_addr, *metrics_addr, *workers, *koordinator, *hami, *gpushare;
    struct metrics_access access;
    struct log_options log;
    bool leader_elect, version, help;
};

/* The parsed values of flags that are texts. */
struct numbers {
    int64_t workers, lease_ms, renew_deadline_ms, retry_ms;
    bool koordinator, hami, gpushare, token;
};

/* Everything of one process. The manager frees what was handed to it; the rest is freed in reverse
 * order. */
struct process {
    struct stop_signals signals;
    struct scope *life;
    struct kc_config config;
    struct kc *kc, *fence, *observed, *writer; /* fence and observed NULL: no election */
    struct leadership *leadership;             /* NULL: no election */
    struct policy_check *policies;             /* NULL: no election */
    char *identity;
    struct metrics *metrics;
    struct metric_series *leading, *refused;
    struct reconcilers *reconcilers;
    struct manager *manager;
    struct heartbeats *beats;
    struct access_gate *gate;               /* NULL: metrics are public */
    struct http_route health[2], scrape[1]; /* routes of http */
    struct http_server *http;
};

static void process_done(struct process *p)
{
    (void)http_server_free(p->http);
    (void)access_gate_free(p->gate);
    (void)manager_free(p->manager);
    (void)heartbeats_free(p->beats);
    (void)reconcilers_free(p->reconcilers);
    (void)policy_check_free(p->policies);
    (void)metrics_free(p->metrics);
    free(p->identity);
    (void)kc_free(p->writer);
    (void)kc_free(p->observed);
    (void)leadership_free(p->leadership);
    (void)kc_free(p->fence);
    (void)kc_free(p->kc);
    kc_config_done(&p->config);
    (void)scope_free(p->life);
    stop_signals_done(&p->signals);
}
AUTO_DEFINE(process, struct process, process_done)
#define auto_process AUTO(process)

/* --- Pages of the servers --- */

static bool is_refused(const struct process *p)
{
    return p->leadership && leadership_is_refused(p->leadership);
}

static int get_readyz(void *arg, struct sb *body)
{
    const struct process *p = arg;
    const char *not_ready = !manager_is_ready(p->manager) ? "the caches are not synced yet\n"
                            : is_refused(p)
                                ? "the API server refuses this leader's writes (see the log)\n"
                                : NULL;
    sb_add(body, not_ready ? not_ready : "ok\n");
    return not_ready ? 503 : 200;
}

static void collect_leading(void *arg)
{
    const struct process *p = arg;
    metric_set(p->leading, manager_is_leading(p->manager));
    metric_set(p->refused, is_refused(p));
}

static int guard_metrics(struct process *p, struct err *e)
{
    TRY(metrics_gate_new(p->kc, p->metrics, &p->gate, e));
    manager_add_service(p->manager, "access", access_gate_run, p->gate);
    return 0;
}

static int serve_http(struct process *p, const struct flags *f, bool token, struct err *e)
{
    p->health[0] = (struct http_route){"/healthz", liveness_page, .arg = p->beats};
    p->health[1] = (struct http_route){"/readyz", get_readyz, .arg = p};
    p->scrape[0] = (struct http_route){"/metrics", metrics_page, .arg = p->metrics};
    if (token)
        TRY(guard_metrics(p, e));
    const struct http_listener listeners[] = {
        {.addr = f->health_addr, .routes = p->health, .n_routes = ARRAY_LEN(p->health)},
        {.addr = f->metrics_addr,
         .routes = p->scrape,
         .n_routes = ARRAY_LEN(p->scrape),
         .gate = p->gate,
         .tls = f->access.tls},
    };
    TRY(http_server_new(listeners, ARRAY_LEN(listeners), p->metrics, &p->http, e));
    manager_add_service(p->manager, "http", http_server_run, p->http);
    return 0;
}

/* --- The parts --- */

static char *unique_identity(const struct flags *f, struct rng *rng)
{
    char host[HOSTNAME_BYTES] = "";
    if (f->identity && *f->identity)
        return xstrdup(f->identity);
    if (gethostname(host, sizeof(host) - 1) != 0)
        host[0] = '\0';
    return xasprintf("%s_%08llx", f->pod_name ? f->pod_name : host,
                     (unsigned long long)(rng_next(rng) & UINT32_MAX));
}

static const char *namespace_of(const struct flags *f, const struct kc_config *config)
{
    if (f->namespace)
        return f->namespace;
    return config->ns && *config->ns ? config->ns : "cleave-system";
}

static void elect(struct process *p, const struct flags *f, const struct numbers *n, uint64_t seed)
{
    const struct elector_opts o = {.ns = namespace_of(f, &p->config),
                                   .name = f->lease_name,
                                   .identity = p->identity,
                                   .lease_ms = n->lease_ms,
                                   .renew_deadline_ms = n->renew_deadline_ms,
                                   .retry_ms = n->retry_ms,
                                   .clk = clock_real(),
                                   .seed = seed};
    struct elector *elector = elector_new(p->kc, &o);
    p->fence = elector_fence_new(elector, p->kc);
    manager_set_elector(p->manager, elector);
}

/* A hook of the manager: this process leads now. */
static int begin_to_lead(void *arg, struct scope *s, struct err *e)
{
    struct process *p = arg;
    TRY(leadership_claim(p->leadership, s, e));
    policy_check_start(p->policies);
    return 0;
}

static void check_policies(struct process *p, const struct flags *f, struct recorder *recorder)
{
    const struct policy_check_opts o = {.kc = p->fence,
                                        .recorder = recorder,
                                        .metrics = p->metrics,
                                        .ns = namespace_of(f, &p->config),
                                        .leader = f->lease_name,
                                        .identity = p->identity,
                                        .clk = clock_real()};
    p->policies = policy_check_new(&o);
    manager_add_service(p->manager, "policies", policy_check_run, p->policies);
}

static void add_leadership(struct process *p, const struct flags *f, struct recorder *recorder,
                           uint64_t seed)
{
    const struct leadership_opts o = {.kc = p->fence,
                                      .recorder = recorder,
                                      .name = f->lease_name,
                                      .identity = p->identity,
                                      .clk = clock_real(),
                                      .seed = seed};
    p->leadership = leadership_new(&o);
    p->observed = leadership_kc_new(p->leadership, p->fence);
    manager_set_on_lead(p->manager, begin_to_lead, p);
    manager_add_service(p->manager, "leadership", leadership_run, p->leadership);
}

static void reconcile(struct process *p, const struct flags *f, const struct numbers *n,
                      struct rng *rng)
{
    const struct recorder_opts r = {.controller = "gpu.cleave.dev/controller",
                                    .instance = p->identity,
                                    .clk = clock_real(),
                                    .seed = rng_next(rng)};
    struct recorder *recorder = recorder_new(p->fence ? p->fence : p->kc, &r);
    if (p->fence) {
        add_leadership(p, f, recorder, rng_next(rng));
        check_policies(p, f, recorder);
    }
    p->writer = write_metrics_new(p->observed ? p->observed : p->kc, p->metrics);
    const struct reconcilers_opts o = {.reader = p->kc,
                                       .writer = p->writer,
                                       .clk = clock_real(),
                                       .recorder = recorder,
                                       .metrics = p->metrics,
                                       .koordinator = n->koordinator,
                                       .hami = n->hami,
                                       .gpushare = n->gpushare,
                                       .workers = (int)n->workers,
                                       .seed = rng_next(rng)};
    p->reconcilers = reconcilers_new(&o);
    manager_set_recorder(p->manager, recorder);
    reconcilers_hand_over(p->reconcilers, p->manager);
}

static void measure(struct process *p, const char *lease_name)
{
    struct metric *gauge =
        metrics_gauge(p->metrics, "leader_election_master_status",
                      "1 while this process leads and acts, else 0.", METRIC_LABELS("name"));
    p->leading = METRIC_WITH(gauge, lease_name);
    struct metric *refused =
        metrics_gauge(p->metrics, "cleave_controller_leader_refused",
                      "1 when the API server has refused this leader's writes for 30 seconds, "
                      "until it takes one, else 0.",
                      /* labels= */ NULL);
    p->refused = METRIC_WITH(refused);
    metrics_on_collect(p->metrics, collect_leading, p);
}

static int assemble(struct process *p, const struct flags *f, const struct numbers *n,
                    struct err *e)
{
    struct rng rng;
    rng_init_random(&rng);
    TRY(kc_config_discover(f->kubeconfig, environ, &p->config, e));
    TRY(kc_http_new(&p->config, /* o= */ NULL, &p->kc, e));
    p->identity = unique_identity(f, &rng);
    TRY(options_check_utf8("--identity (or the host's name)", p->identity, e));
    TRY(options_check_utf8("--lease-name", f->lease_name, e));
    TRY(options_check_utf8("--namespace", namespace_of(f, &p->config), e));
    p->metrics = metrics_new();
    p->manager = manager_new(/* opts= */ NULL);
    if (f->leader_elect)
        elect(p, f, n, rng_next(&rng));
    reconcile(p, f, n, &rng);
    measure(p, f->lease_name);
    p->beats = heartbeats_new(clock_real());
    manager_set_beats(p->manager, p->beats);
    reconcilers_set_beats(p->reconcilers, p->beats);
    manager_add_service(p->manager, "signals", stop_signals_wait, &p->signals);
    return serve_http(p, f, n->token, e);
}

static int run(const struct flags *f, const struct numbers *n, struct err *e)
{
    auto_process struct process p = {.signals = {.fd = -1}};
    p.life = scope_new(NULL, -1);
    TRY(stop_signals_open(p.life, &p.signals, e));
    TRY(assemble(&p, f, n, e));
    log_info("Started cleave-controller", kv("version", CLEAVE_VERSION),
             kv("server", p.config.server), kv("identity", p.identity));
    return manager_run(p.manager, p.life, e);
}

/* --- Flags --- */

/* The slack between the durations keeps two leaders from acting at once: see
 * kubeclient/elector.h. */
static int read_election(const struct flags *f, struct numbers *ret, struct err *e)
{
    if (duration_parse(f->lease_duration, MIN_LEASE_MS, MAX_LEASE_MS, &ret->lease_ms, e) < 0)
        return err_wrap(e, "--leader-elect-lease-duration");
    if (duration_parse(f->renew_deadline, 1, ret->lease_ms - 1, &ret->renew_deadline_ms, e) < 0)
        return err_wrap(e, "--leader-elect-renew-deadline, less than the lease's duration");
    if (duration_parse(f->retry_period, MIN_RETRY_MS, ret->renew_deadline_ms - 1, &ret->retry_ms,
                       e) < 0)
        return err_wrap(e, "--leader-elect-retry-period, less than the renew deadline");
    return 0;
}

static int read_flags(struct flags *f, int argc, char **argv, struct numbers *ret, struct err *e)
{
    const struct option_def defs[] = {
        {.name = "kubeconfig",
         .value = "PATH",
         .text = &f->kubeconfig,
         .help = "API server; else $KUBECONFIG, the pod's own, ~/.kube/config"},
        {.name = "leader-elect",
         .on = &f->leader_elect,
         .help = "act only while holding the Lease: for more than one replica"},
        {.name = "leader-elect-lease-duration",
         .value = "DURATION",
         .text = &f->lease_duration,
         .help = "how long other replicas wait for a leader that stopped renewing"},
        {.name = "leader-elect-renew-deadline",
         .value = "DURATION",
         .text = &f->renew_deadline,
         .help = "how long a leader acts after a renewal; two thirds of the lease, or less"},
        {.name = "leader-elect-retry-period",
         .value = "DURATION",
         .text = &f->retry_period,
         .help = "time between two tries to renew or acquire the Lease"},
        {.name = "namespace",
         .value = "NAME",
         .text = &f->namespace,
         .help = "namespace of the Lease; else the kubeconfig's, the pod's, cleave-system"},
        {.name = "lease-name",
         .value = "NAME",
         .text = &f->lease_name,
         .help = "name of the Lease"},
        {.name = "identity",
         .value = "NAME",
         .text = &f->identity,
         .help = "name of this replica; else the pod's name and a random part"},
        {.name = "pod-name",
         .env = "POD_NAME",
         .value = "NAME",
         .text = &f->pod_name,
         .help = "name of the pod it runs in; else the host's name"},
        {.name = "health-addr",
         .value = "ADDR",
         .text = &f->health_addr,
         .help = "where to serve /healthz and /readyz (\":8081\"); \"\": nowhere"},
        {.name = "metrics-addr",
         .value = "ADDR",
         .text = &f->metrics_addr,
         .help = "where to serve /metrics (\":8080\"); \"\": nowhere"},
        METRICS_ACCESS_OPTIONS(&f->access),
        {.name = "workers",
         .value = "N",
         .text = &f->workers,
         .help = "threads of each controller, 1 to 16"},
        {.name = "koordinator",
         .value = "auto|off",
         .text = &f->koordinator,
         .help = "auto: keep Koordinator's Device and resources where it is installed"},
        {.name = "hami",
         .value = "on|off",
         .text = &f->hami,
         .help = "on: publish MetaX cards to HAMi's scheduler, and release its lock of Nodes"},
        {.name = "gpushare",
         .value = "on|off",
         .text = &f->gpushare,
         .help = "on: nodes whose cards are shared offer gpushare's resources, aliyun.com/gpu-mem "
                 "and gpu-count"},
        LOG_OPTIONS(&f->log),
        {.name = "version", .on = &f->version, .help = "print the version"},
        {.name = "help", .letter = 'h', .on = &f->help, .help = "print this"},
        {0},
    };
    size_t n;
    TRY(options_parse(defs, argc, argv, /* operands= */ NULL, /* max= */ 0, &n, e));
    TRY(options_number("workers", f->workers, 1, MAX_WORKERS, &ret->workers, e));
    TRY(read_election(f, ret, e));
    TRY(options_switch("koordinator", f->koordinator, "auto", &ret->koordinator, e));
    TRY(options_switch("hami", f->hami, "on", &ret->hami, e));
    TRY(options_switch("gpushare", f->gpushare, "on", &ret->gpushare, e));
    TRY(listen_socket_check_addr("health-addr", f->health_addr, e));
    TRY(listen_socket_check_addr("metrics-addr", f->metrics_addr, e));
    TRY(metrics_access_check(&f->access, &ret->token, e));
    TRY(log_options_apply(&f->log, e));
    if (f->help)
        options_help("cleave-controller [FLAGS]",
                     "Resolves GPUProfiles, MIGConfigs and node labels into each node's Device, "
                     "paces the\nrollout, evicts where a profile says so, and writes the nodes' "
                     "labels and resources.",
                     defs);
    return 0;
}

int main(int argc, char **argv)
{
    auto_err struct err e = {0};
    struct flags f = {.lease_name = "cleave-controller",
                      .lease_duration = "15s",
                      .renew_deadline = "10s",
                      .retry_period = "2s",
                      .health_addr = "",
                      .metrics_addr = "",
                      .access = METRICS_ACCESS_DEFAULT,
                      .workers = "2",
                      .koordinator = "auto",
                      .hami = "on",
                      .gpushare = "off",
                      .log = LOG_OPTIONS_DEFAULT};
    struct numbers n;
    (void)mallopt(M_ARENA_MAX, MALLOC_ARENAS);
    json_set_alloc_funcs(xmalloc, free);
    if (argc > 1 && strcmp(argv[1], HTTP_CHILD_VERB) == 0)
        return http_child_main(argc - 1, argv + 1);
    if (read_flags(&f, argc, argv, &n, &e) < 0) {
        (void)fprintf(stderr, "cleave-controller: %s\n", err_msg(&e));
        return EXIT_USAGE;
    }
    if (f.version)
        (void)puts("cleave-controller " CLEAVE_VERSION);
    if (f.help || f.version)
        return EXIT_OK;
    if (run(&f, &n, &e) < 0) {
        log_error("Stopped", kv_err(&e));
        return EXIT_FAILED;
    }
    log_info("Stopped cleave-controller");
    return EXIT_OK;
}
