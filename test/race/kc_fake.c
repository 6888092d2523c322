/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <pthread.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/jx.h"

#include "kubeclient/fake/fake.h"

/* Writers patch one object at a time each while watchers read the same documents: every watcher
 * sees every write, and nothing is touched by two threads unguarded. */

#define WRITERS  4
#define WATCHERS 3
#define WRITES   200

static const struct kc_resource maps = {"", "v1", "configmaps", "ConfigMap", true};

struct shared {
    struct kc *kc;
    struct scope *s;
};

struct writer {
    struct shared *shared;
    pthread_t thread;
    char name[16];
};

struct watcher {
    struct shared *shared;
    pthread_t thread;
    int seen;
};

static void *write_all(void *arg)
{
    struct writer *w = arg;
    struct kc_target t = {.res = &maps, .ns = "ns", .name = w->name};
    for (int i = 0; i < WRITES; i++) {
        auto_json json_t *body =
            json_pack("{s:s,s:s,s:{s:s},s:{s:o}}", "apiVersion", "v1", "kind", "ConfigMap",
                      "metadata", "name", w->name, "data", "k", json_sprintf("%d", i));
        struct kc_write apply = {.body = body, .how = KC_APPLY, .manager = w->name};
        auto_json json_t *obj = NULL;
        int rc = kc_patch(w->shared->kc, w->shared->s, &t, &apply, &obj, NULL);
        assert(rc == 0);
        (void)rc;
    }
    return NULL;
}

static int count(void *arg, enum kc_change change, const json_t *obj, struct err *e)
{
    struct watcher *w = arg;
    auto_free char *text = jx_dump(obj);
    if (change != KC_BOOKMARK && ++w->seen == WRITERS * WRITES)
        return err_set(e, ERR_TERMINAL, "all of them");
    return 0;
}

static void *watch_all(void *arg)
{
    struct watcher *w = arg;
    struct kc_target t = {.res = &maps};
    struct kc_watch_opts o = {.resource_version = "1"};
    int rc = kc_watch(w->shared->kc, w->shared->s, &t, &o, count, w, NULL);
    assert(rc == -(int)ERR_TERMINAL);
    (void)rc;
    return NULL;
}

int main(void)
{
    struct shared shared = {.kc = kc_fake_new(clock_real()), .s = scope_new(NULL, 60000)};
    struct writer writers[WRITERS];
    struct watcher watchers[WATCHERS];
    for (int i = 0; i < WATCHERS; i++) {
        watchers[i] = (struct watcher){.shared = &shared};
        (void)pthread_create(&watchers[i].thread, NULL, watch_all, &watchers[i]);
    }
    for (int i = 0; i < WRITERS; i++) {
        writers[i] = (struct writer){.shared = &shared};
        (void)snprintf(writers[i].name, sizeof(writers[i].name), "writer-%d", i);
        (void)pthread_create(&writers[i].thread, NULL, write_all, &writers[i]);
    }
    for (int i = 0; i < WRITERS; i++)
        (void)pthread_join(writers[i].thread, NULL);
    for (int i = 0; i < WATCHERS; i++)
        (void)pthread_join(watchers[i].thread, NULL);
    (void)kc_free(shared.kc);
    (void)scope_free(shared.s);
    return 0;
}
