/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Three replicas over one lease, started together and stopped one after the other: at no moment do
 * two of them hold themselves for the leader, and the last one gets its turn.
 */
#include "kubeclient/elector.h"

#include <assert.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include "base/log.h"

#include "../unit/kc_mini_support.c"

#define REPLICAS 3

struct replica {
    struct elector *elector;
    struct scope *scope;
    pthread_t thread;
};

static struct replica replicas[REPLICAS];
static atomic_bool done;

static void *run(void *arg)
{
    const struct replica *r = arg;
    auto_err struct err e = {0};
    int rc = elector_run(r->elector, r->scope, &e);
    assert(rc == -ERR_CANCELED);
    return NULL;
}

/* Nobody who leads now and still leads after another was seen leading: no replica here leads twice.
 */
static void check_pair(const struct elector *a, const struct elector *b)
{
    bool before = elector_is_leader(a);
    bool other = elector_is_leader(b);
    assert(!(before && other && elector_is_leader(a)));
}

static void *watch_over(void *arg)
{
    (void)arg;
    while (!atomic_load(&done)) {
        for (int i = 0; i < REPLICAS; i++)
            check_pair(replicas[i].elector, replicas[(i + 1) % REPLICAS].elector);
        (void)sched_yield();
    }
    return NULL;
}

static int leader(void)
{
    for (int i = 0; i < REPLICAS; i++)
        if (elector_is_leader(replicas[i].elector))
            return i;
    return -1;
}

int main(void)
{
    static const char *const names[REPLICAS] = {"a", "b", "c"};
    log_setup(LOG_ERROR, LOG_LOGFMT, 2);
    struct kc *kc = kc_mini_new();
    for (int i = 0; i < REPLICAS; i++) {
        replicas[i].scope = scope_new(NULL, -1);
        replicas[i].elector = elector_new(kc, &(struct elector_opts){.ns = "ns",
                                                                     .name = "lease",
                                                                     .identity = names[i],
                                                                     .lease_ms = 30000,
                                                                     .renew_deadline_ms = 20000,
                                                                     .retry_ms = 2,
                                                                     .clk = clock_real(),
                                                                     .seed = (uint64_t)i});
    }
    pthread_t watcher;
    (void)pthread_create(&watcher, NULL, watch_over, NULL);
    for (int i = 0; i < REPLICAS; i++)
        (void)pthread_create(&replicas[i].thread, NULL, run, &replicas[i]);
    for (int turn = 0; turn < REPLICAS; turn++) {
        auto_scope struct scope *nap = scope_new(NULL, 60000);
        while (leader() < 0)
            assert(scope_wait_ms(nap, 1));
        int i = leader();
        scope_cancel(replicas[i].scope);
        (void)pthread_join(replicas[i].thread, NULL);
    }
    atomic_store(&done, true);
    (void)pthread_join(watcher, NULL);
    for (int i = 0; i < REPLICAS; i++) {
        (void)elector_free(replicas[i].elector);
        (void)scope_free(replicas[i].scope);
    }
    (void)kc_free(kc);
    return 0;
}
