/* SPDX-License-Identifier: Apache-2.0 */
#include <jansson.h>
#include <malloc.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/log_options.h"
#include "base/options.h"
#include "base/rng.h"
#include "base/xalloc.h"

#include "api/share_request.h"
#include "controller/manager.h"
#include "interop/gpushare.h"
#include "kubeclient/config_source.h"
#include "kubeclient/http.h"
#include "scheduler/certificate_command.h"
#include "scheduler/expiry.h"
#include "scheduler/extender.h"
#include "scheduler/node_cards.h"
#include "scheduler/node_words.h"
#include "scheduler/quota.h"
#include "scheduler/scrape.h"
#include "scheduler/webhook.h"
#include "service/http_child.h"
#include "service/http_server.h"
#include "service/listen_socket.h"
#include "service/liveness.h"
#include "service/metrics_access.h"
#include "service/stop_signals.h"

enum { EXIT_OK, EXIT_FAILED, EXIT_USAGE };

/* The threads share this many heaps: one for each thread would leave idle memory in all of them. */
enum { MALLOC_ARENAS = 2 };

/* Timeout of a request to the API server. All are small, and while one that wakes refused pods has no
 * answer, they wait. */
enum { REQUEST_MS = 15000 };

/* Pods that have ended hold nothing. */
#define UNFINISHED "status.phase!=Succeeded,status.phase!=Failed"

struct flags {
    const char *kubeconfig, *listen, *health_addr, *metrics_addr, *hami_metrics, *webhook_addr,
        *gpushare_pods, *koordinator_shares;
    struct metrics_access access;
    struct log_options log;
    enum hami_names hami;
    struct tls_files webhook_tls, extender_tls;
    struct pod_defaults_words words;
    bool token, version, help;
};

/* Everything of the process. The manager frees what was handed to it; the rest is freed in reverse
 * order. */
struct process {
    struct stop_signals signals;
    struct scope *life;
    struct kc_config config;
    struct kc *kc;
    struct metrics *metrics;
    struct wake *wake;
    struct view *view;
    struct expiry *expiry;
    struct binder *binder;
    struct extender *extender;
    struct webhook *webhook;
    struct manager *manager;
    struct heartbeats *beats;
    struct access_gate *gate; /* NULL: metrics are public */
    struct scrape page;
    struct http_route questions[EXTENDER_ROUTES], health[2], scrape[1], reviews[1]; /* of http */
    struct http_server *http;
};

static void process_done(struct process *p)
{
    (void)http_server_free(p->http);
    (void)access_gate_free(p->gate);
    (void)manager_free(p->manager);
    (void)heartbeats_free(p->beats);
    (void)webhook_free(p->webhook);
    (void)extender_free(p->extender);
    (void)binder_free(p->binder);
    (void)expiry_free(p->expiry);
    (void)view_free(p->view);
    (void)wake_free(p->wake);
    (void)metrics_free(p->metrics);
    (void)kc_free(p->kc);
    kc_config_done(&p->config);
    stop_signals_done(&p->signals);
    (void)scope_free(p->life);
}
AUTO_DEFINE(process, struct process, process_done)
#define auto_process AUTO(process)

/* The server's listeners. */
enum { EXTENDER, HEALTH, METRICS, WEBHOOK, LISTENERS };

/* --- Pages --- */

static bool is_ready(const void *arg)
{
    const struct process *p = arg;
    return manager_is_ready(p->manager);
}

/* The Service of the webhook goes by the pod's readiness: a replica that cannot answer an API server is
 * not asked. */
static int get_readyz(void *arg, struct sb *body)
{
    const struct process *p = arg;
    const char *why = !is_ready(p) ? "the caches are not synced yet"
                      : http_server_awaits_tls(p->http, WEBHOOK)
                          ? "the webhook's certificate is not there yet"
                          : NULL;
    sb_addf(body, "%s\n", why ? why : "ok");
    return why ? 503 : 200;
}

static int guard_metrics(struct process *p, struct err *e)
{
    TRY(metrics_gate_new(p->kc, p->metrics, &p->gate, e));
    manager_add_service(p->manager, "access", access_gate_run, p->gate);
    return 0;
}

static int serve_http(struct process *p, const struct flags *f, struct err *e)
{
    extender_routes(p->extender, p->questions);
    p->health[0] = (struct http_route){.path = "/healthz", .get = liveness_page, .arg = p->beats};
    p->health[1] = (struct http_route){.path = "/readyz", .get = get_readyz, .arg = p};
    p->page = scrape_of(p->metrics, p->view, f->hami, is_ready, p);
    p->scrape[0] = (struct http_route){.path = "/metrics", .get = scrape_page, .arg = &p->page};
    p->reviews[0] = webhook_route(p->webhook);
    if (f->token)
        TRY(guard_metrics(p, e));
    const struct http_listener listeners[LISTENERS] = {
        [EXTENDER] = {.addr = f->listen,
                      .routes = p->questions,
                      .n_routes = ARRAY_LEN(p->questions),
                      .tls = f->extender_tls},
        [HEALTH] = {.addr = f->health_addr, .routes = p->health, .n_routes = ARRAY_LEN(p->health)},
        [METRICS] = {.addr = f->metrics_addr,
                     .routes = p->scrape,
                     .n_routes = ARRAY_LEN(p->scrape),
                     .gate = p->gate,
                     .tls = f->access.tls},
        [WEBHOOK] = {.addr = f->webhook_addr,
                     .routes = p->reviews,
                     .n_routes = ARRAY_LEN(p->reviews),
                     .tls = f->webhook_tls,
                     .awaits_tls = true},
    };
    TRY(http_server_new(listeners, ARRAY_LEN(listeners), p->metrics, &p->http, e));
    manager_add_service(p->manager, "http", http_server_run, p->http);
    return 0;
}

/* --- The parts --- */

static struct informer *watch(struct process *p, const struct object_type *type, const char *fields,
                              struct rng *rng)
{
    const struct informer_opts o = {.type = type,
                                    .fields = fields,
                                    .clk = clock_real(),
                                    .seed = rng_next(rng)};
    return informer_new(p->kc, &o);
}

static void make_parts(struct process *p, const struct flags *f)
{
    struct rng rng;
    rng_init_random(&rng);
    p->wake = wake_new(p->kc, clock_real(), p->metrics);
    p->view = view_new(clock_real(), wake_grown, p->wake);
    struct informer *devices = watch(p, &node_cards_type, /* fields= */ NULL, &rng);
    struct informer *nodes = watch(p, &node_words_type, /* fields= */ NULL, &rng);
    struct informer *pods = watch(p, &pod_shares_type, UNFINISHED, &rng);
    struct informer *quotas = watch(p, &quota_type, /* fields= */ NULL, &rng);
    view_follow(p->view, &(struct view_caches){devices, nodes, pods, quotas});
    const struct binder_opts o = {.kc = p->kc,
                                  .view = p->view,
                                  .metrics = p->metrics,
                                  .clk = clock_real()};
    p->binder = binder_new(&o);
    const struct extender_opts x = {.view = p->view,
                                    .binder = p->binder,
                                    .wake = p->wake,
                                    .metrics = p->metrics,
                                    .is_ready = is_ready,
                                    .arg = p};
    p->extender = extender_new(&x);
    p->webhook = webhook_new(p->metrics, f->words);
    p->expiry = expiry_new(p->view, clock_real());
    manager_add_informer(p->manager, devices);
    manager_add_informer(p->manager, nodes);
    manager_add_informer(p->manager, pods);
    manager_add_informer(p->manager, quotas);
    manager_add_controller(p->manager, binder_workers(p->binder));
    manager_add_controller(p->manager, wake_workers(p->wake));
    manager_add_controller(p->manager, expiry_workers(p->expiry));
}

static int assemble(struct process *p, const struct flags *f, struct err *e)
{
    const struct kc_http_opts o = {.user_agent = "cleave-scheduler/" CLEAVE_VERSION,
                                   .request_timeout_ms = REQUEST_MS};
    TRY(kc_config_discover(f->kubeconfig, environ, &p->config, e));
    TRY(kc_http_new(&p->config, &o, &p->kc, e));
    p->metrics = metrics_new();
    p->manager = manager_new(/* opts= */ NULL);
    make_parts(p, f);
    p->beats = heartbeats_new(clock_real());
    manager_set_beats(p->manager, p->beats);
    manager_add_service(p->manager, "signals", stop_signals_wait, &p->signals);
    return serve_http(p, f, e);
}

static int run(const struct flags *f, struct err *e)
{
    auto_process struct process p = {.signals = {.fd = -1}};
    p.life = scope_new(NULL, -1);
    TRY(stop_signals_open(p.life, &p.signals, e));
    TRY(assemble(&p, f, e));
    log_info("Started cleave-scheduler", kv("version", CLEAVE_VERSION),
             kv("server", p.config.server), kv("listen", f->listen));
    return manager_run(p.manager, p.life, e);
}

/* --- Flags --- */

static int check_webhook(const struct flags *f, struct err *e)
{
    bool on = f->webhook_addr && *f->webhook_addr;
    TRY(listen_socket_check_addr("webhook-addr", f->webhook_addr, e));
    if (on != !!f->webhook_tls.cert || on != !!f->webhook_tls.key)
        return err_set(e, ERR_INVALID,
                       "--webhook-addr, --webhook-tls-cert and --webhook-tls-key go together: API "
                       "servers ask over TLS alone");
    return 0;
}

/* The extender's port lets whoever reaches it have pods bound. */
static int check_listen(const struct flags *f, struct err *e)
{
    const struct tls_files *tls = &f->extender_tls;
    TRY(listen_socket_check_addr("listen", f->listen, e));
    if (!tls->cert != !tls->key || !tls->cert != !tls->client_ca)
        return err_set(e, ERR_INVALID,
                       "--tls-cert, --tls-key and --client-ca go together: without the last, TLS "
                       "would tell visitors who is asked, and nobody who asks");
    if (*f->listen && !tls->cert && !listen_socket_is_loopback(f->listen))
        return err_set(e, ERR_INVALID,
                       "--listen is %s, which others than this machine reach, and may then have "
                       "pods bound: take a loopback address, or --tls-cert, --tls-key and "
                       "--client-ca",
                       f->listen);
    return 0;
}

static int check_flags(struct flags *f, struct err *e)
{
    TRY(check_listen(f, e));
    TRY(listen_socket_check_addr("health-addr", f->health_addr, e));
    TRY(listen_socket_check_addr("metrics-addr", f->metrics_addr, e));
    TRY(check_webhook(f, e));
    TRY(options_switch("gpushare", f->gpushare_pods, "on", &f->words.gpushare, e));
    TRY(options_switch("koordinator-shares", f->koordinator_shares, "on", &f->words.koordinator,
                       e));
    TRY(metrics_access_check(&f->access, &f->token, e));
    TRY(hami_names_parse(f->hami_metrics, &f->hami, e));
    TRY(log_options_apply(&f->log, e));
    return 0;
}

static int read_flags(struct flags *f, int argc, char **argv, struct err *e)
{
    const struct option_def defs[] = {
        {.name = "kubeconfig",
         .value = "PATH",
         .text = &f->kubeconfig,
         .help = "API server; else $KUBECONFIG, the pod's own, ~/.kube/config"},
        {.name = "listen",
         .value = "ADDR",
         .text = &f->listen,
         .help =
             "where kube-scheduler asks: POST /filter, /bind and /preempt. Whoever may ask may have pods "
             "bound: a loopback address, or with the three flags that follow"},
        {.name = "tls-cert",
         .value = "PATH",
         .text = &f->extender_tls.cert,
         .help = "certificate for --listen over TLS, PEM; read again when it changes"},
        {.name = "tls-key",
         .value = "PATH",
         .text = &f->extender_tls.key,
         .help = "the certificate's private key, PEM"},
        {.name = "client-ca",
         .value = "PATH",
         .text = &f->extender_tls.client_ca,
         .help = "authorities, PEM: whoever has a certificate of theirs may ask"},
        {.name = "health-addr",
         .value = "ADDR",
         .text = &f->health_addr,
         .help = "where to serve /healthz and /readyz (\":8083\"); \"\": nowhere"},
        {.name = "metrics-addr",
         .value = "ADDR",
         .text = &f->metrics_addr,
         .help = "where to serve /metrics (\":8082\"); \"\": nowhere"},
        METRICS_ACCESS_OPTIONS(&f->access),
        {.name = "hami-metrics",
         .value = "none|current|legacy|both",
         .text = &f->hami_metrics,
         .help = "cards and shares on /metrics in HAMi's metrics too, for dashboards that have "
                 "them: under today's names, those of its --legacy-metrics, or both"},
        {.name = "webhook-addr",
         .value = "ADDR",
         .text = &f->webhook_addr,
         .help = "where API servers ask what new pods lack: POST " WEBHOOK_PATH
                 " over TLS (\":8443\"); \"\": nowhere"},
        {.name = "gpushare",
         .value = "on|off",
         .text = &f->gpushare_pods,
         .help =
             "on: at --webhook-addr, pods that ask for " GPUSHARE_MEMORY " get shares of cards"},
        {.name = "koordinator-shares",
         .value = "on|off",
         .text = &f->koordinator_shares,
         .help =
             "on: at --webhook-addr, pods that ask for cards in Koordinator's words alone get " SHARE_SLOT
             " beside them"},
        {.name = "webhook-tls-cert",
         .value = "PATH",
         .text = &f->webhook_tls.cert,
         .help =
             "its certificate, PEM; awaited where it is missing, and read again when it changes"},
        {.name = "webhook-tls-key",
         .value = "PATH",
         .text = &f->webhook_tls.key,
         .help = "the certificate's private key, PEM"},
        LOG_OPTIONS(&f->log),
        {.name = "version", .on = &f->version, .help = "print the version"},
        {.name = "help", .letter = 'h', .on = &f->help, .help = "print this"},
        {0},
    };
    size_t n;
    TRY(options_parse(defs, argc, argv, /* operands= */ NULL, /* max= */ 0, &n, e));
    TRY(check_flags(f, e));
    if (f->help)
        options_help(
            "cleave-scheduler [FLAGS] | cleave-scheduler " CERTIFICATE_VERB " [FLAGS]",
            "Chooses nodes and cards for pods that ask for shares of cards: an extender that "
            "runs\nbeside a kube-scheduler, and binds what it chose with a record of it.",
            defs);
    return 0;
}

int main(int argc, char **argv)
{
    auto_err struct err e = {0};
    struct flags f = {.listen = "127.0.0.1:8888",
                      .health_addr = "",
                      .metrics_addr = "",
                      .webhook_addr = "",
                      .gpushare_pods = "off",
                      .koordinator_shares = "off",
                      .access = METRICS_ACCESS_DEFAULT,
                      .hami_metrics = "none",
                      .log = LOG_OPTIONS_DEFAULT};
    (void)mallopt(M_ARENA_MAX, MALLOC_ARENAS);
    json_set_alloc_funcs(xmalloc, free);
    if (argc > 1 && strcmp(argv[1], HTTP_CHILD_VERB) == 0)
        return http_child_main(argc - 1, argv + 1);
    if (argc > 1 && strcmp(argv[1], CERTIFICATE_VERB) == 0)
        return certificate_command_main(argc - 1, argv + 1, environ);
    if (read_flags(&f, argc, argv, &e) < 0) {
        (void)fprintf(stderr, "cleave-scheduler: %s\n", err_msg(&e));
        return EXIT_USAGE;
    }
    if (f.version)
        (void)puts("cleave-scheduler " CLEAVE_VERSION);
    if (f.help || f.version)
        return EXIT_OK;
    if (run(&f, &e) < 0) {
        log_error("Stopped", kv_err(&e));
        return EXIT_FAILED;
    }
    log_info("Stopped cleave-scheduler");
    return EXIT_OK;
}
