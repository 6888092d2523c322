/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The agent as it runs: informer, status writer, loop and the worker's threads, in front of a model
 * of the API server and cards in memory that are changed side by side. The spec changes again and
 * again; each one must come back as a status that says Ready for it. Then everything is stopped in
 * the middle of a change.
 */
#include "nodeagent/loop/agent.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/jx.h"
#include "base/log.h"

#include "../unit/gpu_fake_support.c"
#include "kubeclient/fake/fake.h"
#include "nodeagent/loop/own_device.h"
#include "service/resources.h"

enum { CARDS = 3, CHANGES = 60, PATIENCE_S = 60 };

static const struct kc_target device = {.res = &resource_devices, .name = "n1"};

static pthread_mutex_t mu = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t written = PTHREAD_COND_INITIALIZER;
static unsigned writes; /* guarded by mu */

static int on_call(void *arg, const struct kc_call *call, struct err *e)
{
    (void)arg;
    (void)e;
    if (!call->after || (call->verb != KC_UPDATE && call->verb != KC_CREATE))
        return 0;
    HOLD(&mu);
    writes++;
    (void)pthread_cond_signal(&written);
    return 0;
}

/* Waits until there are more writes than `seen`; how many there are then. */
static unsigned wait_for_write(unsigned seen)
{
    struct timespec end;
    (void)clock_gettime(CLOCK_REALTIME, &end);
    end.tv_sec += PATIENCE_S;
    HOLD(&mu);
    while (writes == seen)
        if (pthread_cond_timedwait(&written, &mu, &end) == ETIMEDOUT)
            assert(!"no status came");
    return writes;
}

static unsigned writes_so_far(void)
{
    HOLD(&mu);
    return writes;
}

/* --- Threads --- */

struct part {
    int (*run)(void *self, struct scope *s, struct err *e);
    void *self;
    struct scope *scope;
    pthread_t thread;
};

static int run_informer(void *self, struct scope *s, struct err *e)
{
    return informer_run(self, s, e);
}

static int run_status_writer(void *self, struct scope *s, struct err *e)
{
    return status_writer_run(self, s, e);
}

static int run_agent(void *self, struct scope *s, struct err *e)
{
    return agent_run(self, s, e);
}

static void *part_main(void *arg)
{
    struct part *p = arg;
    auto_err struct err e = {0};
    int rc = p->run(p->self, p->scope, &e);
    assert(rc == -ERR_CANCELED);
    return NULL;
}

/* --- What is asked of it --- */

static json_t *want(unsigned card, const char *profile)
{
    json_t *w =
        json_pack("{s:o, s:s, s:{s:[{s:s, s:i}]}}", "uuid", json_sprintf("GPU-%08u-fake", card),
                  "mode", "mig", "mig", "profiles", "profile", profile, "count", 1);
    assert(w);
    return w;
}

static void set_spec(struct kc *server, struct scope *s, int i)
{
    static const char *const kinds[] = {"7g.80gb", "3g.40gb", "1g.10gb"};
    auto_json json_t *wants = json_array();
    for (unsigned card = 0; card < CARDS; card++)
        (void)json_array_append_new(wants, want(card, kinds[((unsigned)i + card) % 3]));
    auto_json json_t *body = json_pack("{s:{s:O}}", "spec", "devices", wants);
    const struct kc_write w = {.body = body, .how = KC_MERGE};
    int rc = kc_patch(server, s, &device, &w, NULL, NULL);
    assert(rc == 0);
}

static bool is_ready(const json_t *obj)
{
    size_t i;
    const json_t *c;
    const json_t *conditions = JX_AT(obj, "status", "conditions");
    if (!json_equal(JX_AT(obj, "metadata", "generation"),
                    JX_AT(obj, "status", "observedGeneration")))
        return false;
    json_array_foreach(conditions, i, c) {
        if (strcmp(JX_STR_AT(c, "type"), "Ready") == 0)
            return strcmp(JX_STR_AT(c, "status"), "True") == 0;
    }
    return false;
}

static void wait_until_ready(struct kc *server, struct scope *s)
{
    for (;;) {
        unsigned seen = writes_so_far();
        auto_json json_t *obj = NULL;
        if (kc_get(server, s, &device, &obj, NULL) == 0 && is_ready(obj))
            return;
        (void)wait_for_write(seen);
    }
}

int main(void)
{
    char dir[] = "/tmp/agent_race.XXXXXX";
    static struct fake_hw hw;
    log_setup(LOG_ERROR, LOG_LOGFMT, 2);
    if (!mkdtemp(dir))
        return 1;
    for (unsigned i = 0; i < CARDS; i++)
        (void)fake_add(&hw, FAKE_H100);
    struct scope *s = scope_new(NULL, -1);
    struct kc *server = kc_fake_new(clock_real());
    kc_fake_hook(server, on_call, NULL);
    struct worker *worker = NULL;
    int rc =
        worker_new(gpu_fake_open(&hw), &(struct worker_options){.max_threads = 4}, &worker, NULL);
    assert(rc == 0);
    struct informer *inf = informer_new(server, &(struct informer_opts){.type = &own_device_type,
                                                                        .name = "n1",
                                                                        .clk = clock_real()});
    struct status_writer *pub = status_writer_new(
        &(struct status_writer_deps){server, inf, "n1", clock_real(), /* seed= */ 1});
    struct agent *agent = agent_new(&(struct agent_deps){.worker = worker,
                                                         .devices = inf,
                                                         .status_writer = pub,
                                                         .clk = clock_real(),
                                                         .node = "n1",
                                                         .state_dir = dir,
                                                         .proc_root = "/nonexistent",
                                                         .version = "v1"});
    struct part parts[] = {
        {.run = run_informer, .self = inf},
        {.run = run_status_writer, .self = pub},
        {.run = run_agent, .self = agent},
    };
    for (size_t i = 0; i < ARRAY_LEN(parts); i++) {
        parts[i].scope = s;
        rc = pthread_create(&parts[i].thread, NULL, part_main, &parts[i]);
        assert(rc == 0);
    }
    wait_until_ready(server, s);
    for (int i = 0; i < CHANGES; i++) {
        set_spec(server, s, i);
        wait_until_ready(server, s);
        assert(agent_is_ready(agent));
    }
    set_spec(server, s, CHANGES);
    scope_cancel(s);
    for (size_t i = 0; i < ARRAY_LEN(parts); i++)
        (void)pthread_join(parts[i].thread, NULL);
    bool abandoned = true;
    (void)worker_free(worker, PATIENCE_S * 1000, &abandoned);
    assert(!abandoned && hw.violations == 0);
    (void)agent_free(agent);
    (void)status_writer_free(pub);
    (void)informer_free(inf);
    (void)kc_free(server);
    (void)scope_free(s);
    char command[64];
    (void)snprintf(command, sizeof(command), "rm -rf %s", dir);
    return system(command);
}
