/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A whole process started and stopped again and again, while probes and scrapes go on: canceled at
 * every stage of its start, it always ends, with every thread joined and the lease released.
 */
#include "controller/manager.h"

#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>

#include "base/log.h"

#include "../unit/kc_mini_support.c"
#include "service/metrics.h"

#define ROUNDS 30

static const struct kc_resource nodes = {.group = "",
                                         .version = "v1",
                                         .plural = "nodes",
                                         .kind = "Node"};
static const struct object_type node_type = {.resource = &nodes};

struct process {
    struct kc *kc, *fenced;
    struct manager *manager;
    struct metrics *metrics;
    struct recorder *recorder;
    struct informer *informer;
    atomic_int reconciled;
};

static int reconcile(void *self, struct scope *s, const struct object_key *k,
                     struct reconcile_result *r, struct err *e)
{
    (void)s;
    (void)e;
    struct process *p = self;
    auto_object struct object *o = store_get(informer_store(p->informer), k);
    if (o)
        recorder_event(p->recorder, o, /* warning= */ false, "Seen", "seen");
    atomic_fetch_add(&p->reconciled, 1);
    r->requeue_after_ms = 1;
    return 0;
}

static int probe(void *arg, struct scope *s, struct err *e)
{
    struct process *p = arg;
    while (scope_wait_ms(s, 1)) {
        auto_sb struct sb text = SB_INIT(1 << 20);
        metrics_write(p->metrics, &text);
        (void)manager_is_ready(p->manager);
        (void)manager_is_leading(p->manager);
        (void)informer_stats(p->informer);
        (void)recorder_stats(p->recorder);
    }
    return scope_check(s, e);
}

static void setup(struct process *p)
{
    p->metrics = metrics_new();
    p->manager = manager_new(NULL);
    p->informer =
        informer_new(p->kc, &(struct informer_opts){.type = &node_type, .clk = clock_real()});
    p->recorder = recorder_new(p->kc, &(struct recorder_opts){.controller = "c",
                                                              .instance = "i",
                                                              .clk = clock_real()});
    struct controller *c = controller_new("race", reconcile, p, 3, clock_real());
    controller_watch(c, p->informer, NULL, NULL);
    controller_register_metrics(c, p->metrics);
    manager_add_informer(p->manager, p->informer);
    manager_add_controller(p->manager, c);
    manager_set_recorder(p->manager, p->recorder);
    manager_set_elector(p->manager,
                        elector_new(p->kc, &(struct elector_opts){.ns = "ns",
                                                                  .name = "lease",
                                                                  .identity = "me",
                                                                  .clk = clock_real()}));
    manager_add_service(p->manager, "probe", probe, p);
}

static void *stop_after(void *arg)
{
    struct scope *s = arg;
    (void)scope_wait_ms(s, 3);
    scope_cancel(s);
    return NULL;
}

static void run_once(struct kc *kc, int round)
{
    struct process p = {.kc = kc};
    setup(&p);
    auto_err struct err e = {0};
    auto_scope struct scope *s = scope_new(NULL, round % 3 ? -1 : round);
    pthread_t stopper;
    (void)pthread_create(&stopper, NULL, stop_after, s);
    int rc = manager_run(p.manager, s, &e);
    assert(rc == 0);
    (void)pthread_join(stopper, NULL);
    (void)manager_free(p.manager);
    (void)metrics_free(p.metrics);
    auto_json json_t *lease = kc_mini_object(kc, "lease");
    const char *holder = JX_STR_AT(lease, "spec", "holderIdentity");
    assert(!holder || !*holder);
}

int main(void)
{
    log_setup(LOG_ERROR, LOG_LOGFMT, 2);
    struct kc *kc = kc_mini_new();
    auto_json json_t *node = json_pack("{s:{s:s,s:s}}", "metadata", "name", "n1", "uid", "u");
    kc_mini_put(kc, node);
    for (int i = 0; i < ROUNDS; i++)
        run_once(kc, i);
    (void)kc_free(kc);
    return 0;
}
