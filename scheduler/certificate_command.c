/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler/certificate_command.h"

#include <stdio.h>

#include "base/duration.h"
#include "base/log.h"
#include "base/log_options.h"
#include "base/options.h"
#include "base/rng.h"
#include "base/xalloc.h"

#include "controller/manager.h"
#include "kubeclient/config_source.h"
#include "kubeclient/http.h"
#include "scheduler/certificate.h"
#include "scheduler/certificate_keeper.h"
#include "scheduler/certificate_plan.h"
#include "service/http_server.h"
#include "service/listen_socket.h"
#include "service/liveness.h"
#include "service/stop_signals.h"

enum { EXIT_OK, EXIT_FAILED, EXIT_USAGE };

/* Shorter ones would be renewed all the time, and of longer ones a stolen key would be good for years. */
#define MIN_VALID_MS (INT64_C(10) * 1000)

struct flags {
    const char *kubeconfig, *ns, *secret, *configuration, *host, *valid, *health_addr;
    struct log_options log;
    int64_t valid_ms;
    bool help;
};

/* Everything of the process. The manager frees what was handed to it; the rest is freed in reverse
 * order. */
struct process {
    struct stop_signals signals;
    struct scope *life;
    struct kc_config config;
    struct kc *kc;
    char *host;
    struct certificate_keeper *keeper;
    struct manager *manager;
    struct heartbeats *beats;
    struct http_route health[2]; /* routes of http */
    struct http_server *http;
};

static void process_done(struct process *p)
{
    (void)http_server_free(p->http);
    (void)manager_free(p->manager);
    (void)heartbeats_free(p->beats);
    (void)certificate_keeper_free(p->keeper);
    free(p->host);
    (void)kc_free(p->kc);
    kc_config_done(&p->config);
    stop_signals_done(&p->signals);
    (void)scope_free(p->life);
}
AUTO_DEFINE(process, struct process, process_done)
#define auto_process AUTO(process)

static int get_readyz(void *arg, struct sb *body)
{
    const struct process *p = arg;
    sb_addf(body, "%s\n", certificate_keeper_says(p->keeper));
    return certificate_keeper_is_well(p->keeper) ? 200 : 503;
}

/* --- The parts --- */

static int serve_health(struct process *p, const struct flags *f, struct err *e)
{
    p->health[0] = (struct http_route){.path = "/healthz", .get = liveness_page, .arg = p->beats};
    p->health[1] = (struct http_route){.path = "/readyz", .get = get_readyz, .arg = p};
    const struct http_listener l = {.addr = f->health_addr,
                                    .routes = p->health,
                                    .n_routes = ARRAY_LEN(p->health)};
    TRY(http_server_new(&l, 1, /* metrics= */ NULL, &p->http, e));
    manager_add_service(p->manager, "http", http_server_run, p->http);
    return 0;
}

static void watch(struct process *p, const struct object_type *type, const char *ns,
                  const char *name, struct rng *rng)
{
    const struct informer_opts o = {.type = type,
                                    .ns = ns,
                                    .name = name,
                                    .clk = clock_real(),
                                    .seed = rng_next(rng)};
    struct informer *inf = informer_new(p->kc, &o);
    certificate_keeper_follow(p->keeper, inf);
    manager_add_informer(p->manager, inf);
}

static const char *namespace_of(const struct flags *f, const struct kc_config *config)
{
    return f->ns ? f->ns : config->ns ? config->ns : "cleave-system";
}

static void make_keeper(struct process *p, const struct flags *f)
{
    struct rng rng;
    rng_init_random(&rng);
    const struct certificate_keeper_opts o = {.kc = p->kc,
                                              .ns = namespace_of(f, &p->config),
                                              .secret = f->secret,
                                              .configuration = f->configuration,
                                              .host = p->host,
                                              .valid_ms = f->valid_ms,
                                              .clk = clock_real(),
                                              .seed = rng_next(&rng)};
    p->keeper = certificate_keeper_new(&o);
    watch(p, &certificate_secret_type, o.ns, f->secret, &rng);
    watch(p, &certificate_configuration_type, /* ns= */ NULL, f->configuration, &rng);
    manager_add_controller(p->manager, certificate_keeper_workers(p->keeper));
}

/* The Service's name in the namespace, where none is given. */
static int take_host(struct process *p, const struct flags *f, struct err *e)
{
    p->host = f->host ? xstrdup(f->host)
                      : xasprintf("cleave-webhook.%s.svc", namespace_of(f, &p->config));
    if (!certificate_host_is_sound(p->host))
        return err_set(e, ERR_INVALID, "--host is \"%s\", neither a name nor an address", p->host);
    return 0;
}

static int assemble(struct process *p, const struct flags *f, char *const environment[],
                    struct err *e)
{
    const struct kc_http_opts o = {.user_agent = "cleave-webhook-certificate/" CLEAVE_VERSION};
    TRY(kc_config_discover(f->kubeconfig, environment, &p->config, e));
    TRY(options_check_utf8("--namespace", namespace_of(f, &p->config), e));
    TRY(take_host(p, f, e));
    TRY(kc_http_new(&p->config, &o, &p->kc, e));
    p->manager = manager_new(/* opts= */ NULL);
    make_keeper(p, f);
    p->beats = heartbeats_new(clock_real());
    manager_set_beats(p->manager, p->beats);
    manager_add_service(p->manager, "signals", stop_signals_wait, &p->signals);
    return serve_health(p, f, e);
}

static int run(const struct flags *f, char *const environment[], struct err *e)
{
    auto_process struct process p = {.signals = {.fd = -1}};
    p.life = scope_new(NULL, -1);
    TRY(stop_signals_open(p.life, &p.signals, e));
    TRY(assemble(&p, f, environment, e));
    log_info("Started cleave-scheduler " CERTIFICATE_VERB, kv("version", CLEAVE_VERSION),
             kv("server", p.config.server), kv("host", p.host));
    return manager_run(p.manager, p.life, e);
}

/* --- Flags --- */

static int check_flags(struct flags *f, struct err *e)
{
    TRY(listen_socket_check_addr("health-addr", f->health_addr, e));
    if (duration_parse(f->valid, MIN_VALID_MS, CERTIFICATE_MAX_VALID_MS, &f->valid_ms, e) < 0)
        return err_wrap(e, "--valid-for");
    TRY(options_check_utf8("--secret", f->secret, e));
    TRY(options_check_utf8("--configuration", f->configuration, e));
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
        {.name = "namespace",
         .value = "NAME",
         .text = &f->ns,
         .help = "of the Secret and the Service; else the kubeconfig's, the pod's, cleave-system"},
        {.name = "secret",
         .value = "NAME",
         .text = &f->secret,
         .help = "where the certificate and its key are kept"},
        {.name = "configuration",
         .value = "NAME",
         .text = &f->configuration,
         .help = "the MutatingWebhookConfiguration whose webhooks are to trust it"},
        {.name = "host",
         .value = "HOST",
         .text = &f->host,
         .help = "name or address by which API servers reach the webhook; else "
                 "cleave-webhook.NAMESPACE.svc"},
        {.name = "valid-for",
         .value = "DURATION",
         .text = &f->valid,
         .help = "of a certificate, which is renewed with a third left"},
        {.name = "health-addr",
         .value = "ADDR",
         .text = &f->health_addr,
         .help = "where to serve /healthz and /readyz (\":8083\"); \"\": nowhere"},
        LOG_OPTIONS(&f->log),
        {.name = "help", .letter = 'h', .on = &f->help, .help = "print this"},
        {0},
    };
    size_t n;
    TRY(options_parse(defs, argc, argv, /* operands= */ NULL, /* max= */ 0, &n, e));
    TRY(check_flags(f, e));
    if (f->help)
        options_help("cleave-scheduler " CERTIFICATE_VERB " [FLAGS]",
                     "Keeps the certificate of the webhook: makes and renews it in a Secret, and "
                     "has API\nservers trust it.",
                     defs);
    return 0;
}

int certificate_command_main(int argc, char **argv, char *const environment[])
{
    auto_err struct err e = {0};
    struct flags f = {.secret = "cleave-webhook-certificate",
                      .configuration = "cleave-pod-defaults",
                      .valid = "2160h",
                      .health_addr = "",
                      .log = LOG_OPTIONS_DEFAULT};
    if (read_flags(&f, argc, argv, &e) < 0) {
        (void)fprintf(stderr, "cleave-scheduler " CERTIFICATE_VERB ": %s\n", err_msg(&e));
        return EXIT_USAGE;
    }
    if (f.help)
        return EXIT_OK;
    if (run(&f, environment, &e) < 0) {
        log_error("Stopped", kv_err(&e));
        return EXIT_FAILED;
    }
    log_info("Stopped cleave-scheduler " CERTIFICATE_VERB);
    return EXIT_OK;
}
