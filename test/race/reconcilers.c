/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The controller as it runs: informers, and several workers of each controller, all in threads, in
 * front of a model of the API server. Agents answer each order at once. A profile is edited again
 * and again while its nodes are labelled and unlabelled, and somebody scrapes; in the end it must be
 * Ready on all of them, and no ticket may be left over.
 */
#include "reconcilers/reconcilers.h"

#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/log.h"
#include "base/xalloc.h"

#include "api/kinds.h"
#include "kubeclient/fake/fake.h"
#include "service/conditions.h"
#include "service/resources.h"

enum { NODES = 24, EDITS = 11, BUDGET = 3, WORKERS = 4, PATIENCE_S = 120 };

static struct kc *server;
static struct scope *life;
static pthread_mutex_t mu = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t written = PTHREAD_COND_INITIALIZER;
static unsigned statuses; /* guarded by mu: writes of a profile's status */

static json_t *get(const struct kc_resource *res, const char *name)
{
    json_t *obj = NULL;
    const struct kc_target t = {.res = res, .name = name};
    int rc = kc_get(server, life, &t, &obj, /* e= */ NULL);
    assert(rc == 0);
    return obj;
}

static void patch(const struct kc_resource *res, const char *name, const char *subresource,
                  json_t *body_take)
{
    auto_json json_t *body = body_take;
    const struct kc_target t = {.res = res, .name = name, .subresource = subresource};
    const struct kc_write w = {.body = body, .how = KC_MERGE, .manager = "test"};
    int rc = kc_patch(server, life, &t, &w, /* ret_obj= */ NULL, /* e= */ NULL);
    assert(rc == 0);
}

static void create(const struct kc_resource *res, json_t *body_take)
{
    auto_json json_t *body = body_take;
    const struct kc_target t = {.res = res};
    const struct kc_write w = {.body = body};
    int rc = kc_create(server, life, &t, &w, /* ret_obj= */ NULL, /* e= */ NULL);
    assert(rc == 0);
}

/* --- Agents --- */

static json_t *models(void)
{
    return json_pack("[{s:s, s:i, s:[{s:s, s:i, s:i, s:i, s:i, s:[i]}]}]", "name", "M",
                     "migMemorySlices", 8, "migProfiles", "name", "1g.10gb", "id", 19, "slices", 1,
                     "maxCount", 7, "size", 1, "starts", 0);
}

/* The one card is as the spec says: MIG mode on or off, without partitions. */
static void report(const char *node)
{
    auto_json json_t *device = get(&resource_devices, node);
    const json_t *want = json_array_get(JX_AT(device, "spec", "devices"), 0);
    const char *mode = want ? JX_STR_AT(want, "mode") : "native";
    json_t *card =
        json_pack("{s:s, s:i, s:s, s:s, s:b, s:b, s:s}", "uuid", node, "index", 0, "vendor",
                  "nvidia", "model", "M", "healthy", 1, "migCapable", 1, "mode", mode);
    if (want)
        (void)json_object_set_new(card, "conditions",
                                  json_pack("[{s:s, s:s, s:s, s:s, s:s}]", "type", "Applied",
                                            "status", "True", "reason", "Applied", "message", "",
                                            "lastTransitionTime", "2027-01-01T00:00:00Z"));
    patch(&resource_devices, node, "status",
          json_pack("{s:{s:O, s:o, s:[o]}}", "status", "observedGeneration",
                    JX_AT(device, "metadata", "generation"), "models", models(), "devices", card));
}

static int on_call(void *arg, const struct kc_call *call, struct err *e)
{
    (void)arg;
    (void)e;
    if (!call->after || call->verb != KC_PATCH)
        return 0;
    if (call->target->res == &resource_devices && !call->target->subresource)
        report(call->target->name);
    if (call->target->res != &resource_gpuprofiles || !call->target->subresource)
        return 0;
    HOLD(&mu);
    statuses++;
    (void)pthread_cond_signal(&written);
    return 0;
}

/* --- The story --- */

static void add_node(int i)
{
    auto_free char *name = xasprintf("n%02d", i);
    create(&resource_nodes, json_pack("{s:s, s:s, s:{s:s, s:{s:s}}}", "apiVersion", "v1", "kind",
                                      "Node", "metadata", "name", name, "labels", "pool", "a"));
    create(&resource_devices,
           json_pack("{s:s, s:s, s:{s:s}, s:{}}", "apiVersion", API_GROUP_VERSION, "kind", "Device",
                     "metadata", "name", name, "spec"));
    report(name);
}

/* Whole cards, then cut ones, and so on. */
static json_t *spec_of(int edit)
{
    json_t *entry = edit % 2 ? json_pack("{s:s, s:{s:{}}}", "mode", "mig", "mig", "profiles")
                             : json_pack("{s:s}", "mode", "native");
    return json_pack("{s:{s:{s:{s:s}}, s:[o], s:{s:i}}}", "spec", "nodeSelector", "matchLabels",
                     "pool", "a", "devices", entry, "rollout", "maxUnavailable", BUDGET);
}

static void add_profile(void)
{
    json_t *body = spec_of(0);
    auto_json json_t *identity = json_pack("{s:s, s:s, s:{s:s}}", "apiVersion", API_GROUP_VERSION,
                                           "kind", "GPUProfile", "metadata", "name", "p");
    (void)json_object_update(body, identity);
    create(&resource_gpuprofiles, body);
}

static void shuffle(int edit)
{
    for (int i = edit % 3; i < NODES; i += 3) {
        auto_free char *name = xasprintf("n%02d", i);
        patch(&resource_nodes, name, NULL,
              json_pack("{s:{s:{s:o}}}", "metadata", "labels", LABEL_MIG_CONFIG,
                        edit % 2 ? json_null() : json_string("all-disabled")));
    }
}

static bool is_ready(void)
{
    auto_json json_t *p = get(&resource_gpuprofiles, "p");
    auto_conditions struct conditions list = {0};
    conditions_from_json(JX_AT(p, "status", "conditions"), &list);
    return json_equal(JX_AT(p, "metadata", "generation"),
                      JX_AT(p, "status", "observedGeneration")) &&
           condition_is_true(&list, "Ready") &&
           json_integer_value(JX_AT(p, "status", "nodes", "upToDate")) == NODES;
}

static void wait_until_ready(void)
{
    struct timespec end;
    (void)clock_gettime(CLOCK_REALTIME, &end);
    end.tv_sec += PATIENCE_S;
    while (!is_ready()) {
        HOLD(&mu);
        unsigned seen = statuses;
        struct timespec soon;
        (void)clock_gettime(CLOCK_REALTIME, &soon);
        assert(soon.tv_sec < end.tv_sec && "the profile never became ready");
        soon.tv_sec++;
        while (statuses == seen && pthread_cond_timedwait(&written, &mu, &soon) == 0)
            continue;
    }
}

static void *run_manager(void *arg)
{
    auto_err struct err e = {0};
    int rc = manager_run(arg, life, &e);
    assert(rc == 0);
    return NULL;
}

static void scrape(struct metrics *m)
{
    auto_sb struct sb page = SB_INIT(1000000);
    metrics_write(m, &page);
    assert(strstr(sb_str(&page), "cleave_controller_wish_seconds_count"));
}

int main(void)
{
    log_setup(LOG_ERROR, LOG_LOGFMT, 2);
    life = scope_new(NULL, -1);
    server = kc_fake_new(clock_real());
    kc_fake_list_key(server, "devices", "spec.devices", "uuid");
    kc_fake_hook(server, on_call, NULL);
    for (int i = 0; i < NODES; i++)
        add_node(i);
    add_profile();
    struct manager *manager = manager_new(/* opts= */ NULL);
    struct metrics *metrics = metrics_new();
    struct reconcilers *all = reconcilers_new(&(struct reconcilers_opts){.reader = server,
                                                                         .writer = server,
                                                                         .clk = clock_real(),
                                                                         .metrics = metrics,
                                                                         .workers = WORKERS});
    reconcilers_hand_over(all, manager);
    pthread_t thread;
    int rc = pthread_create(&thread, NULL, run_manager, manager);
    assert(rc == 0);
    for (int edit = 1; edit <= EDITS; edit++) {
        shuffle(edit);
        patch(&resource_gpuprofiles, "p", NULL, spec_of(edit));
        scrape(metrics);
    }
    for (int i = 0; i < NODES; i++) {
        auto_free char *name = xasprintf("n%02d", i);
        patch(&resource_nodes, name, NULL,
              json_pack("{s:{s:{s:n}}}", "metadata", "labels", LABEL_MIG_CONFIG));
    }
    wait_until_ready();
    assert(rollout_tickets(reconcilers_context(all)->rollout, "p") == 0);
    scope_cancel(life);
    (void)pthread_join(thread, NULL);
    (void)manager_free(manager);
    (void)reconcilers_free(all);
    (void)metrics_free(metrics);
    (void)kc_free(server);
    (void)scope_free(life);
    return 0;
}
