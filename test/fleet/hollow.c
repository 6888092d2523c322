/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Many agents in one process, for tests of the whole at the size of a large cluster:
 *
 *     hollow SERVER CA FOLDER CARDS RESYNC_SECONDS < NODES
 *
 * NODES has a line "name token" for each node. Each has the agent's own loop, informer, status
 * writer, recorder and worker in threads of its own, connections and credentials of its own, a
 * journal below FOLDER/name, and CARDS cards that exist in memory alone. Says "running N" once all
 * of them run; ends on SIGTERM with the line "nodes N violations V", which is to be read as: cards
 * of nodes, and attempts to destroy what was in use.
 */
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/log.h"
#include "base/num.h"
#include "base/xalloc.h"

#include "kubeclient/http.h"
#include "nodeagent/loop/agent.h"
#include "nodeagent/loop/own_device.h"
#include "test/unit/gpu_fake_support.h"

enum { PARTS = 4, STACK_BYTES = 256 << 10, LINE_BYTES = 16 << 10, GRACE_MS = 10000 };

struct part {
    int (*run)(void *self, struct scope *s, struct err *e);
    void *self;
    struct scope *scope; /* borrowed */
    pthread_t thread;
};

/* One node; used by the thread that starts and ends all of them. */
struct node {
    char *name, *state_dir;
    struct fake_hw hw;
    struct kc *kc;
    struct worker *worker;
    struct informer *devices;
    struct status_writer *status_writer;
    struct recorder *recorder;
    struct agent *agent;
    struct part parts[PARTS];
    struct node *next;
};

struct options {
    const char *server, *ca, *folder;
    int64_t cards, resync_s;
};

static int run_informer(void *self, struct scope *s, struct err *e)
{
    return informer_run(self, s, e);
}

static int run_status_writer(void *self, struct scope *s, struct err *e)
{
    return status_writer_run(self, s, e);
}

static int run_recorder(void *self, struct scope *s, struct err *e)
{
    return recorder_run(self, s, e);
}

static int run_agent(void *self, struct scope *s, struct err *e)
{
    return agent_run(self, s, e);
}

static void *part_main(void *arg)
{
    struct part *p = arg;
    auto_err struct err e = {0};
    if (p->run(p->self, p->scope, &e) < 0 && e.kind != ERR_CANCELED) {
        log_error("A part of an agent failed", kv_err(&e));
        abort();
    }
    return NULL;
}

/* --- One node --- */

/* Its cards; UUIDs are unique in the cluster. */
static void add_cards(struct node *n, int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        struct gpu_card *c = &fake_add(&n->hw, FAKE_H100)->card;
        (void)snprintf(c->uuid, sizeof(c->uuid), "GPU-%s-%d", n->name, (int)i);
    }
}

static int connect_node(struct node *n, const struct options *o, const char *token, struct err *e)
{
    auto_kc_config struct kc_config config = {.server = xstrdup(o->server),
                                              .ca_file = xstrdup(o->ca),
                                              .token = xstrdup(token)};
    const struct kc_http_opts http = {.user_agent = "cleave-agent/hollow"};
    return kc_http_new(&config, &http, &n->kc, e);
}

static void make_parts(struct node *n, const struct options *o, uint64_t seed)
{
    const struct informer_opts i = {.type = &own_device_type,
                                    .name = n->name,
                                    .clk = clock_real(),
                                    .seed = seed};
    const struct recorder_opts r = {"gpu.cleave.dev/agent", n->name, clock_real(), seed + 1};
    n->devices = informer_new(n->kc, &i);
    n->recorder = recorder_new(n->kc, &r);
    n->status_writer = status_writer_new(
        &(struct status_writer_deps){n->kc, n->devices, n->name, clock_real(), seed + 2});
    n->agent = agent_new(&(struct agent_deps){.worker = n->worker,
                                              .devices = n->devices,
                                              .status_writer = n->status_writer,
                                              .recorder = n->recorder,
                                              .clk = clock_real(),
                                              .node = n->name,
                                              .state_dir = n->state_dir,
                                              .proc_root = "/nonexistent",
                                              .version = CLEAVE_VERSION,
                                              .resource_publisher = API_PUBLISHER_CONTROLLER,
                                              .resync_ms = o->resync_s * 1000,
                                              .seed = seed + 3});
}

static int node_start(struct node *n, const struct options *o, const char *token, uint64_t seed,
                      struct scope *s, struct err *e)
{
    n->state_dir = xasprintf("%s/%s", o->folder, n->name);
    TRY(file_make_dirs(n->state_dir, 0700, e));
    add_cards(n, o->cards);
    TRY(connect_node(n, o, token, e));
    TRY(worker_new(gpu_fake_open(&n->hw), &(struct worker_options){0}, &n->worker, e));
    make_parts(n, o, seed);
    const struct part parts[PARTS] = {{.run = run_informer, .self = n->devices},
                                      {.run = run_status_writer, .self = n->status_writer},
                                      {.run = run_recorder, .self = n->recorder},
                                      {.run = run_agent, .self = n->agent}};
    memcpy(n->parts, parts, sizeof(parts));
    for (size_t i = 0; i < PARTS; i++) {
        n->parts[i].scope = s;
        if (pthread_create(&n->parts[i].thread, NULL, part_main, &n->parts[i]) != 0)
            abort(); /* nothing to be tested on a machine this small */
    }
    return 0;
}

/* After its scope has ended. */
static void node_end(struct node *n)
{
    for (size_t i = 0; i < PARTS; i++)
        (void)pthread_join(n->parts[i].thread, NULL);
    (void)worker_free(n->worker, GRACE_MS, /* ret_abandoned= */ NULL);
    (void)agent_free(n->agent);
    (void)status_writer_free(n->status_writer);
    (void)recorder_free(n->recorder);
    (void)informer_free(n->devices);
    (void)kc_free(n->kc);
    free(n->state_dir);
    free(n->name);
    free(n);
}

/* --- All of them --- */

static int start_all(const struct options *o, struct scope *s, struct node **ret, size_t *ret_n,
                     struct err *e)
{
    char line[LINE_BYTES];
    for (*ret_n = 0; fgets(line, sizeof(line), stdin); ++*ret_n) {
        char *token = strchr(line, ' ');
        if (!token)
            return err_set(e, ERR_INVALID, "a line without a token");
        *token++ = '\0';
        token[strcspn(token, "\n")] = '\0';
        struct node *n = xcalloc(1, sizeof(*n));
        n->name = xstrdup(line);
        TRY(node_start(n, o, token, /* seed= */ *ret_n * 8, s, e));
        n->next = *ret;
        *ret = n;
    }
    return 0;
}

static void end_all(struct node *first)
{
    size_t count = 0;
    unsigned violations = 0;
    for (struct node *n = first, *next; n; n = next) {
        next = n->next;
        violations += n->hw.violations;
        count++;
        node_end(n);
    }
    (void)printf("nodes %zu violations %u\n", count, violations);
}

static int parse_options(int argc, char **argv, struct options *ret, struct err *e)
{
    if (argc != 6)
        return err_set(e, ERR_INVALID, "usage: hollow SERVER CA FOLDER CARDS RESYNC < NODES");
    *ret = (struct options){.server = argv[1], .ca = argv[2], .folder = argv[3]};
    TRY(num_parse(argv[4], 1, FAKE_MAX_CARDS, &ret->cards, e));
    return num_parse(argv[5], 1, 86400, &ret->resync_s, e);
}

/* Thousands of threads, each of which needs little. */
static void save_memory(void)
{
    pthread_attr_t attr;
    (void)mallopt(M_ARENA_MAX, 4);
    (void)pthread_attr_init(&attr);
    (void)pthread_attr_setstacksize(&attr, STACK_BYTES);
    (void)pthread_setattr_default_np(&attr);
    (void)pthread_attr_destroy(&attr);
}

int main(int argc, char **argv)
{
    auto_err struct err e = {0};
    struct options o;
    struct node *nodes = NULL;
    size_t count = 0;
    sigset_t signals;
    (void)sigemptyset(&signals);
    (void)sigaddset(&signals, SIGTERM);
    (void)pthread_sigmask(SIG_BLOCK, &signals, NULL);
    json_set_alloc_funcs(xmalloc, free);
    log_setup(LOG_ERROR, LOG_LOGFMT, 2);
    save_memory();
    struct scope *s = scope_new(NULL, -1);
    if (parse_options(argc, argv, &o, &e) < 0 || start_all(&o, s, &nodes, &count, &e) < 0) {
        (void)fprintf(stderr, "hollow: %s\n", err_msg(&e));
        return 1;
    }
    (void)printf("running %zu\n", count);
    (void)fflush(stdout);
    int signal = 0;
    (void)sigwait(&signals, &signal);
    scope_cancel(s);
    end_all(nodes);
    (void)scope_free(s);
    return 0;
}
