/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <poll.h>
#include <pthread.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/heartbeat.h"
#include "base/log.h"
#include "base/xalloc.h"

#include "kubeclient/fake/fake.h"
#include "reconcilers/koordinator_link.h"
#include "service/resources.h"

/* The two threads of a controller, on a fake server that holds its watches open. */

enum { PATIENCE_MS = 20000 };

static struct scope *life;
static struct kc *api;
static struct koordinator_link *koordinator;
static pthread_t threads[2];
static struct clock *beats_clock; /* far ahead of what the threads do */
static struct heartbeats *beats;
static int changed; /* an eventfd: something in one of the caches did */

static void *run_kinds(void *arg)
{
    (void)!koordinator_link_run_kinds(arg, life, /* e= */ NULL);
    return NULL;
}

static void *run_devices(void *arg)
{
    (void)!koordinator_link_run_devices(arg, life, /* e= */ NULL);
    return NULL;
}

static void on_change(void *arg, const struct object *before, const struct object *after,
                      bool stale)
{
    (void)arg;
    (void)before;
    (void)after;
    (void)stale;
    (void)eventfd_write(changed, 1);
}

static void setup(void)
{
    log_setup(LOG_ERROR, LOG_LOGFMT, -1);
    life = scope_new(NULL, -1);
    api = kc_fake_new(clock_real());
    changed = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    koordinator = koordinator_link_new(api, clock_real(), 1);
    informer_add_handler(koordinator_link_kinds(koordinator), on_change, NULL);
    informer_add_handler(koordinator_link_devices(koordinator), on_change, NULL);
    beats_clock = clock_fake_new(0);
    beats = heartbeats_new(beats_clock);
    koordinator_link_set_beats(koordinator, beats);
    cr_assert_eq(pthread_create(&threads[0], NULL, run_kinds, koordinator), 0);
    cr_assert_eq(pthread_create(&threads[1], NULL, run_devices, koordinator), 0);
    cr_assert_eq(informer_wait_synced(koordinator_link_kinds(koordinator), life, NULL), 0);
}

static void teardown(void)
{
    scope_cancel(life);
    for (size_t i = 0; i < ARRAY_LEN(threads); i++)
        cr_assert_eq(pthread_join(threads[i], NULL), 0);
    koordinator = koordinator_link_free(koordinator);
    api = kc_free(api);
    life = scope_free(life);
    beats = heartbeats_free(beats);
    beats_clock = clock_free(beats_clock);
    (void)close(changed);
}

TestSuite(koordinator_link, .init = setup, .fini = teardown);

static void wait_use(enum koordinator_use use)
{
    struct pollfd p = {.fd = changed, .events = POLLIN};
    eventfd_t n;
    while (koordinator_link_use(koordinator) != use) {
        cr_assert_eq(poll(&p, 1, PATIENCE_MS), 1, "use is %d",
                     (int)koordinator_link_use(koordinator));
        (void)eventfd_read(changed, &n);
    }
}

static void wait_devices(size_t count)
{
    struct pollfd p = {.fd = changed, .events = POLLIN};
    struct store *st = informer_store(koordinator_link_devices(koordinator));
    eventfd_t n;
    while (store_count(st) != count) {
        cr_assert_eq(poll(&p, 1, PATIENCE_MS), 1, "%zu Devices", store_count(st));
        (void)eventfd_read(changed, &n);
    }
}

static void create(const struct kc_resource *res, json_t *body_take)
{
    auto_json json_t *body = body_take;
    const struct kc_target t = {.res = res};
    const struct kc_write w = {.body = body};
    cr_assert_eq(kc_create(api, life, &t, &w, NULL, NULL), 0);
}

static void create_device(const char *name)
{
    create(&resource_koordinator_devices,
           json_pack("{s:s, s:s, s:{s:s}}", "apiVersion", KOORDINATOR_GROUP "/v1alpha1", "kind",
                     "Device", "metadata", "name", name));
}

static void establish(const char *status)
{
    auto_json json_t *body = json_pack("{s:{s:[{s:s, s:s}]}}", "status", "conditions", "type",
                                       "Established", "status", status);
    const struct kc_target t = {.res = &resource_crds,
                                .name = KOORDINATOR_CRD,
                                .subresource = "status"};
    const struct kc_write w = {.body = body, .how = KC_MERGE};
    cr_assert_eq(kc_patch(api, life, &t, &w, NULL, NULL), 0);
}

static void install(void)
{
    create(&resource_crds,
           json_pack("{s:s, s:s, s:{s:s}}", "apiVersion", "apiextensions.k8s.io/v1", "kind",
                     "CustomResourceDefinition", "metadata", "name", KOORDINATOR_CRD));
    establish("True");
}

static void uninstall(void)
{
    const struct kc_target t = {.res = &resource_crds, .name = KOORDINATOR_CRD};
    cr_assert_eq(kc_remove(api, life, &t, /* if_uid= */ NULL, NULL), 0);
}

Test(koordinator_link, without_the_kind_nobody_asks_for_its_objects)
{
    cr_expect_eq(koordinator_link_use(koordinator), KOORDINATOR_ABSENT);
    cr_expect_not(koordinator_link_has_synced(koordinator));
    cr_expect_eq(koordinator_link_use(NULL), KOORDINATOR_OFF);
}

Test(koordinator_link, its_objects_are_followed_while_the_kind_is_there)
{
    create_device("n1");
    install();
    wait_use(KOORDINATOR_THERE);
    wait_devices(1);
    cr_assert_eq(informer_wait_synced(koordinator_link_devices(koordinator), life, NULL), 0);
    cr_expect(koordinator_link_has_synced(koordinator));
    create_device("n2");
    wait_devices(2);
}

Test(koordinator_link, the_kind_may_go_and_come_again)
{
    create_device("n1");
    install();
    wait_devices(1);
    uninstall();
    wait_use(KOORDINATOR_ABSENT);
    create_device("n2");
    install();
    wait_use(KOORDINATOR_THERE);
    wait_devices(2);
}

/* Are the watches that are open longer than they may be on the page of health? */
static bool is_hung(const char *name)
{
    auto_sb struct sb page = SB_INIT(1000);
    auto_free char *words = xasprintf("%s hangs", name);
    (void)heartbeats_check(beats, &page);
    return strstr(sb_str(&page), words);
}

static void wait_hung(const char *name)
{
    for (int i = 0; !is_hung(name); i++) {
        cr_assert_lt(i, PATIENCE_MS, "%s does not say what it is at", name);
        clock_fake_advance(beats_clock, INFORMER_CALL_MS + 1);
        (void)scope_wait_ms(life, 1);
    }
}

Test(koordinator_link, its_threads_have_heartbeats_while_they_follow)
{
    wait_hung("koord-kinds");
    cr_expect_not(is_hung("koord-devices"), "it has nothing to do");
    install();
    wait_devices(0);
    wait_hung("koord-devices");
    uninstall();
    wait_use(KOORDINATOR_ABSENT);
    for (int i = 0; is_hung("koord-devices"); i++) {
        cr_assert_lt(i, PATIENCE_MS, "it waits no more");
        (void)scope_wait_ms(life, 1);
    }
}

Test(koordinator_link, a_kind_that_is_established_no_more_is_absent)
{
    install();
    wait_use(KOORDINATOR_THERE);
    establish("False");
    wait_use(KOORDINATOR_ABSENT);
}

/* --- Without threads --- */

static void ask(void *arg, const struct object *before, const struct object *after, bool stale)
{
    (void)before;
    (void)after;
    (void)stale;
    *(enum koordinator_use *)arg = koordinator_link_use(koordinator);
}

/* Whoever is told is told once: a worker that found it unknown then would not look again. */
Test(koordinator_kind, is_known_to_those_who_are_told_of_it)
{
    enum koordinator_use told = KOORDINATOR_OFF;
    log_setup(LOG_ERROR, LOG_LOGFMT, -1);
    life = scope_new(NULL, -1);
    api = kc_fake_new(clock_real());
    kc_fake_watch_drains(api, true);
    koordinator = koordinator_link_new(api, clock_real(), 1);
    informer_add_handler(koordinator_link_kinds(koordinator), ask, &told);
    install();
    cr_expect_eq(koordinator_link_use(koordinator), KOORDINATOR_UNKNOWN);
    koordinator_link_step(koordinator, life);
    cr_expect_eq(told, KOORDINATOR_THERE, "it is %d", (int)told);
    koordinator = koordinator_link_free(koordinator);
    api = kc_free(api);
    life = scope_free(life);
}
