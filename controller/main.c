/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <getopt.h>
#include <jansson.h>
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>

#include "base/log.h"
#include "base/num.h"
#include "base/rng.h"
#include "base/xalloc.h"

#include "controller/http_server.h"
#include "controller/manager.h"
#include "controller/metrics.h"
#include "kubeclient/http.h"
#include "reconcilers/reconcilers.h"

enum { EXIT_OK, EXIT_FAILED, EXIT_USAGE };

enum { MAX_WORKERS = 16, HOSTNAME_BYTES = 256 };

/* Threads share this many heaps: with one for each of the twenty, memory would lie idle in all. */
enum { MALLOC_ARENAS = 2 };

struct flags {
    const char *kubeconfig, *namespace, *lease_name, *identity;
    const char *health_addr, *metrics_addr;
    bool leader_elect;
    int64_t workers;
    enum log_level level;
    enum log_format format;
};

static const char usage[] =
    "usage: cleave-controller [FLAGS]\n"
    "\n"
    "Resolves GPUProfiles, MIGConfigs and node labels into each node's Device, paces the rollout,\n"
    "evicts where the profile says so, and writes the nodes' labels and resources.\n"
    "\n"
    "  --kubeconfig=PATH    the API server; otherwise $KUBECONFIG, the pod's own, ~/.kube/config\n"
    "  --leader-elect       act only while holding the Lease; for more than one replica\n"
    "  --namespace=NAME     of the Lease (the kubeconfig's or pod's own, else cleave-system)\n"
    "  --lease-name=NAME    (cleave-controller)\n"
    "  --identity=NAME      of this replica ($POD_NAME or the host, with a random part)\n"
    "  --health-addr=ADDR   /healthz and /readyz, as :8081; empty: off (empty)\n"
    "  --metrics-addr=ADDR  /metrics, as :8080; empty: off (empty)\n"
    "  --workers=N          threads of each controller, 1 to 16 (2)\n"
    "  --log-level=LEVEL    debug, info, warn, error (info)\n"
    "  --log-format=FORMAT  logfmt, json (logfmt)\n"
    "  --version, --help\n";

/* --- Flags --- */

enum {
    OPT_KUBECONFIG = 1,
    OPT_LEADER_ELECT,
    OPT_NAMESPACE,
    OPT_LEASE_NAME,
    OPT_IDENTITY,
    OPT_HEALTH_ADDR,
    OPT_METRICS_ADDR,
    OPT_WORKERS,
    OPT_LOG_LEVEL,
    OPT_LOG_FORMAT,
    OPT_VERSION,
    OPT_HELP,
};

static const struct option options[] = {
    {"kubeconfig", required_argument, NULL, OPT_KUBECONFIG},
    {"leader-elect", no_argument, NULL, OPT_LEADER_ELECT},
    {"namespace", required_argument, NULL, OPT_NAMESPACE},
    {"lease-name", required_argument, NULL, OPT_LEASE_NAME},
    {"identity", required_argument, NULL, OPT_IDENTITY},
    {"health-addr", required_argument, NULL, OPT_HEALTH_ADDR},
    {"metrics-addr", required_argument, NULL, OPT_METRICS_ADDR},
    {"workers", required_argument, NULL, OPT_WORKERS},
    {"log-level", required_argument, NULL, OPT_LOG_LEVEL},
    {"log-format", required_argument, NULL, OPT_LOG_FORMAT},
    {"version", no_argument, NULL, OPT_VERSION},
    {"help", no_argument, NULL, OPT_HELP},
    {0},
};

static int set_flag(struct flags *f, int option, struct err *e)
{
    switch (option) {
    case OPT_KUBECONFIG:
        f->kubeconfig = optarg;
        return 0;
    case OPT_LEADER_ELECT:
        f->leader_elect = true;
        return 0;
    case OPT_NAMESPACE:
        f->namespace = optarg;
        return 0;
    case OPT_LEASE_NAME:
        f->lease_name = optarg;
        return 0;
    case OPT_IDENTITY:
        f->identity = optarg;
        return 0;
    case OPT_HEALTH_ADDR:
        f->health_addr = optarg;
        return 0;
    case OPT_METRICS_ADDR:
        f->metrics_addr = optarg;
        return 0;
    case OPT_WORKERS:
        return num_parse(optarg, 1, MAX_WORKERS, &f->workers, e);
    case OPT_LOG_LEVEL:
        return log_level_parse(optarg, &f->level, e);
    case OPT_LOG_FORMAT:
        return log_format_parse(optarg, &f->format, e);
    default:
        return err_set(e, ERR_INVALID, "see --help");
    }
}

/* -1: go on; otherwise the exit code. */
static int parse_flags(int argc, char **argv, struct flags *f)
{
    int option;
    while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
        auto_err struct err e = {0};
        if (option == OPT_HELP || option == OPT_VERSION) {
            (void)fputs(option == OPT_HELP ? usage : "cleave-controller " CLEAVE_VERSION "\n",
                        stdout);
            return EXIT_OK;
        }
        if (set_flag(f, option, &e) < 0) {
            (void)fprintf(stderr, "cleave-controller: %s\n", err_msg(&e));
            return EXIT_USAGE;
        }
    }
    if (optind == argc)
        return -1;
    (void)fprintf(stderr, "cleave-controller: %s: there are flags only; see --help\n",
                  argv[optind]);
    return EXIT_USAGE;
}

/* --- What the servers answer --- */

static int get_healthz(void *arg, struct sb *body)
{
    (void)arg;
    sb_add(body, "ok\n");
    return 200;
}

static int get_readyz(void *arg, struct sb *body)
{
    bool ready = manager_is_ready(arg);
    sb_add(body, ready ? "ok\n" : "caches are not synced\n");
    return ready ? 200 : 503;
}

static int get_metrics(void *arg, struct sb *body)
{
    metrics_write(arg, body);
    return 200;
}

/* --- Signals --- */

struct signals {
    int fd;
    struct scope *life;
};

static int block_signals(int *ret_fd, struct err *e)
{
    sigset_t set;
    (void)sigemptyset(&set);
    (void)sigaddset(&set, SIGTERM);
    (void)sigaddset(&set, SIGINT);
    int rc = pthread_sigmask(SIG_BLOCK, &set, NULL);
    if (rc != 0)
        return err_set_errno(e, rc, "blocking signals");
    *ret_fd = signalfd(-1, &set, SFD_CLOEXEC);
    return *ret_fd < 0 ? err_set_errno(e, errno, "signalfd") : 0;
}

/* A service of the manager: the first signal ends everything, a second one the process. */
static int wait_signals(void *arg, struct scope *s, struct err *e)
{
    const struct signals *w = arg;
    struct signalfd_siginfo info;
    TRY(scope_wait_readable(s, w->fd, e));
    if (read(w->fd, &info, sizeof(info)) == (ssize_t)sizeof(info))
        log_info("Got signal", kv("signal", strsignal((int)info.ssi_signo)));
    scope_cancel(w->life);
    (void)scope_wait_ms(s, -1);
    return scope_check(s, e);
}

/* --- The process --- */

static char *unique_identity(const struct flags *f, struct rng *rng)
{
    if (f->identity)
        return xstrdup(f->identity);
    char host[HOSTNAME_BYTES] = "";
    const char *pod = getenv("POD_NAME");
    if (gethostname(host, sizeof(host) - 1) != 0 || !*host)
        (void)snprintf(host, sizeof(host), "cleave-controller");
    return xasprintf("%s_%08llx", pod && *pod ? pod : host,
                     (unsigned long long)(rng_next(rng) & UINT32_MAX));
}

static const char *namespace_of(const struct flags *f, const struct kc_config *config)
{
    if (f->namespace)
        return f->namespace;
    return config->ns && *config->ns ? config->ns : "cleave-system";
}

struct leader_gauge {
    const struct manager *manager;
    struct metric_series *series;
};

static void collect_leader(void *arg)
{
    const struct leader_gauge *g = arg;
    metric_set(g->series, manager_is_leading(g->manager));
}

static int run(const struct flags *f, struct err *e)
{
    auto_fd int signal_fd = -1;
    TRY(block_signals(&signal_fd, e));
    auto_scope struct scope *life = scope_new(NULL, -1);
    struct rng rng;
    rng_init_random(&rng);

    auto_kc_config struct kc_config config = {0};
    TRY(kc_config_discover(f->kubeconfig, environ, &config, e));
    auto_kc struct kc *kc = NULL;
    TRY(kc_http_new(&config, /* o= */ NULL, &kc, e));

    const struct clock *clk = clock_real();
    auto_metrics struct metrics *metrics = metrics_new();
    auto_free char *identity = unique_identity(f, &rng);
    auto_kc struct kc *fence = NULL;
    auto_reconcilers struct reconcilers *reconcilers = NULL;
    auto_manager struct manager *manager = manager_new(/* opts= */ NULL);

    if (f->leader_elect) {
        struct elector *elector =
            elector_new(kc, &(struct elector_opts){.ns = namespace_of(f, &config),
                                                   .name = f->lease_name,
                                                   .identity = identity,
                                                   .clk = clk,
                                                   .seed = rng_next(&rng)});
        fence = elector_fence_new(elector, kc);
        manager_set_elector(manager, elector);
    }
    struct recorder *recorder =
        recorder_new(kc, &(struct recorder_opts){.controller = "gpu.cleave.dev/controller",
                                                 .instance = identity,
                                                 .clk = clk,
                                                 .seed = rng_next(&rng)});
    manager_set_recorder(manager, recorder);
    reconcilers = reconcilers_new(&(struct reconcilers_opts){.reader = kc,
                                                             .writer = fence ? fence : kc,
                                                             .clk = clk,
                                                             .recorder = recorder,
                                                             .metrics = metrics,
                                                             .workers = (int)f->workers,
                                                             .seed = rng_next(&rng)});
    reconcilers_hand_over(reconcilers, manager);

    const struct http_route health[] = {{"/healthz", get_healthz, NULL},
                                        {"/readyz", get_readyz, manager}};
    const struct http_route scrape[] = {{"/metrics", get_metrics, metrics}};
    const struct http_listener listeners[] = {{f->health_addr, health, ARRAY_LEN(health)},
                                              {f->metrics_addr, scrape, ARRAY_LEN(scrape)}};
    auto_http_server struct http_server *server = NULL;
    TRY(http_server_new(listeners, ARRAY_LEN(listeners), &server, e));
    manager_add_service(manager, "http", http_server_run, server);
    struct signals signals = {.fd = signal_fd, .life = life};
    manager_add_service(manager, "signals", wait_signals, &signals);
    struct leader_gauge gauge = {manager,
                                 METRIC_WITH(metrics_gauge(metrics, "leader_election_master_status",
                                                           "Does this process act?",
                                                           METRIC_LABELS("name")),
                                             f->lease_name)};
    metrics_on_collect(metrics, collect_leader, &gauge);

    log_info("Started cleave-controller", kv("version", CLEAVE_VERSION),
             kv("server", config.server), kv("identity", identity));
    return manager_run(manager, life, e);
}

int main(int argc, char **argv)
{
    struct flags f = {.lease_name = "cleave-controller",
                      .workers = 2,
                      .level = LOG_INFO,
                      .format = LOG_LOGFMT};
    int rc = parse_flags(argc, argv, &f);
    if (rc >= 0)
        return rc;
    (void)mallopt(M_ARENA_MAX, MALLOC_ARENAS);
    json_set_alloc_funcs(xmalloc, free);
    log_setup(f.level, f.format, STDERR_FILENO);

    auto_err struct err e = {0};
    if (run(&f, &e) < 0) {
        log_error("Stopped", kv_err(&e));
        return EXIT_FAILED;
    }
    log_info("Stopped cleave-controller");
    return EXIT_OK;
}
