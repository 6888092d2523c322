/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler/certificate_keeper.h"

#include <assert.h>
#include <stdatomic.h>
#include <string.h>

#include "base/backoff.h"
#include "base/log.h"
#include "base/xalloc.h"

#include "scheduler/certificate_objects.h"

#define MANAGER_CERTIFICATE "cleave-webhook-certificate"

/* API servers whose clocks are behind find a new certificate valid. */
#define BACKDATED_MS (3600 * 1000)

static const struct kc_resource secret_resource = {"", "v1", "secrets", "Secret",
                                                   /* namespaced= */ true};
static const struct kc_resource configuration_resource = {"admissionregistration.k8s.io", "v1",
                                                          "mutatingwebhookconfigurations",
                                                          "MutatingWebhookConfiguration",
                                                          /* namespaced= */ false};

const struct object_type certificate_secret_type = {&secret_resource, NULL, NULL};
const struct object_type certificate_configuration_type = {&configuration_resource, NULL, NULL};

/* The plan's standings, and two more. */
enum { FAILED = CERTIFICATE_NO_CONFIGURATION + 1, UNSEEN, N_STANDINGS };
static const char *const standing_words[N_STANDINGS] = {
    [CERTIFICATE_GOOD] = "ok",
    [CERTIFICATE_WORKING] = "the webhook's certificate is being made",
    [CERTIFICATE_NO_SECRET] = "the Secret is missing: apply config/scheduler-webhook",
    [CERTIFICATE_NO_CONFIGURATION] =
        "the MutatingWebhookConfiguration is missing, or has no webhooks: apply config/scheduler-webhook",
    [FAILED] = "the last look or write failed; the log of the program says why",
    [UNSEEN] = "the Secret and the MutatingWebhookConfiguration were not looked at yet",
};

/* standing: any thread. The rest belongs to the worker, once it runs. */
struct certificate_keeper {
    struct certificate_keeper_opts o;
    struct controller *workers; /* NULL once handed over */
    atomic_int standing;
    char *bundle;           /* that the configuration was seen with */
    int64_t bundle_boot_ms; /* since when */
    struct backoff backoff;
    struct rng rng;
    int64_t write_boot_ms; /* no write before */
};

/* --- What is there --- */

/* The two objects, as they were read; NULL: there is none. */
struct objects {
    json_t *secret, *configuration;
};

static void objects_done(struct objects *o)
{
    json_decref(o->secret);
    json_decref(o->configuration);
}
AUTO_DEFINE(objects, struct objects, objects_done)
#define auto_objects AUTO(objects)

static struct kc_target secret_of(const struct certificate_keeper *k)
{
    return (struct kc_target){.res = &secret_resource, .ns = k->o.ns, .name = k->o.secret};
}

static struct kc_target configuration_of(const struct certificate_keeper *k)
{
    return (struct kc_target){.res = &configuration_resource, .name = k->o.configuration};
}

static int find(const struct certificate_keeper *k, struct scope *s, const struct kc_target *t,
                json_t **ret, struct err *e)
{
    int rc = kc_get(k->o.kc, s, t, ret, e);
    if (rc != -ERR_NOT_FOUND)
        return rc;
    err_clear(e);
    return 0;
}

/* For how long the configuration has been seen with this bundle. */
static int64_t settled_ms(struct certificate_keeper *k, const char *bundle)
{
    int64_t now = clock_boot_ms(k->o.clk);
    if (!k->bundle || !bundle || strcmp(k->bundle, bundle) != 0) {
        xstr_set(&k->bundle, bundle);
        k->bundle_boot_ms = now;
    }
    return now - k->bundle_boot_ms;
}

static int look(struct certificate_keeper *k, struct scope *s, struct objects *o,
                struct certificate_seen *ret, struct err *e)
{
    const struct kc_target secret = secret_of(k);
    const struct kc_target configuration = configuration_of(k);
    TRY(find(k, s, &secret, &o->secret, e));
    TRY(find(k, s, &configuration, &o->configuration, e));
    certificate_view(o->secret, o->configuration, k->o.host, ret);
    ret->settled_ms = settled_ms(k, ret->bundle);
    return 0;
}

/* --- Writes --- */

static int make(const struct certificate_keeper *k, json_t *secret, struct err *e)
{
    int64_t now = clock_wall_ms(k->o.clk);
    auto_tls_pair struct tls_pair made = {0};
    TRY(certificate_make(k->o.host, now - BACKDATED_MS, now + k->o.valid_ms, &made, e));
    certificate_put_next(secret, &made);
    return 0;
}

static int write_back(const struct certificate_keeper *k, struct scope *s,
                      const struct kc_target *t, const json_t *body, const char *what,
                      struct err *e)
{
    const struct kc_write w = {.body = body, .manager = MANAGER_CERTIFICATE};
    TRY(kc_update(k->o.kc, s, t, &w, /* ret_obj= */ NULL, e));
    log_info(what, kv("kind", t->res->kind), kv("name", t->name));
    return 0;
}

static int act(const struct certificate_keeper *k, struct scope *s, const struct objects *o,
               const struct certificate_todo *todo, struct err *e)
{
    const struct kc_target secret = secret_of(k);
    const struct kc_target configuration = configuration_of(k);
    switch (todo->step) {
    case CERTIFICATE_REST:
        return 0;
    case CERTIFICATE_MAKE:
        TRY(make(k, o->secret, e));
        return write_back(k, s, &secret, o->secret, "Made a certificate", e);
    case CERTIFICATE_ANNOUNCE:
        certificate_announce(o->configuration, todo->bundle);
        return write_back(k, s, &configuration, o->configuration,
                          "Wrote the bundle of certificates that API servers trust", e);
    case CERTIFICATE_PROMOTE:
        certificate_promote(o->secret, todo->old);
        return write_back(k, s, &secret, o->secret, "Promoted the next certificate", e);
    }
    return 0;
}

/* --- The worker --- */

static void note_standing(struct certificate_keeper *k, int standing)
{
    int before = atomic_exchange(&k->standing, standing);
    if (before == standing)
        return;
    if (standing == CERTIFICATE_GOOD)
        log_info("API servers trust the webhook's certificate");
    else if (standing != FAILED) /* the error itself is logged */
        log_warn("The webhook cannot be asked", kv("why", standing_words[standing]));
}

static int keep(struct certificate_keeper *k, struct scope *s, struct reconcile_result *r,
                struct err *e)
{
    auto_objects struct objects o = {0};
    auto_certificate_seen struct certificate_seen seen = {0};
    auto_certificate_todo struct certificate_todo todo = {0};
    TRY(look(k, s, &o, &seen, e));
    certificate_plan(&seen, clock_wall_ms(k->o.clk), k->o.valid_ms, &todo);
    TRY(act(k, s, &o, &todo, e));
    note_standing(k, (int)todo.standing);
    r->requeue_after_ms = todo.recheck_ms;
    if (todo.step == CERTIFICATE_REST)
        return 0;
    r->requeue_after_ms = backoff_next_ms(&k->backoff, k->o.clk, &k->rng);
    k->write_boot_ms = clock_boot_ms(k->o.clk) + r->requeue_after_ms;
    return 0;
}

/* The reconciler. */
static int work(void *self, struct scope *s, const struct object_key *key,
                struct reconcile_result *r, struct err *e)
{
    struct certificate_keeper *k = self;
    int64_t early_ms = k->write_boot_ms - clock_boot_ms(k->o.clk);
    (void)key;
    if (early_ms > 0) {
        r->requeue_after_ms = early_ms;
        return 0;
    }
    int rc = keep(k, s, r, e);
    if (rc < 0 && rc != -ERR_CONFLICT) /* after a conflict it looks again */
        note_standing(k, FAILED);
    return rc;
}

static void enqueue(struct wq *queue)
{
    wq_add(queue, &(struct object_key){.name = MANAGER_CERTIFICATE});
}

static void on_change(void *self, const struct object *obj, struct wq *out)
{
    (void)self;
    (void)obj;
    enqueue(out);
}

/* --- Life --- */

struct certificate_keeper *certificate_keeper_new(const struct certificate_keeper_opts *o)
{
    struct certificate_keeper *k = xmalloc(sizeof(*k));
    *k = (struct certificate_keeper){.o = *o,
                                     .standing = UNSEEN,
                                     .backoff = {.base_ms = 50,
                                                 .cap_ms = certificate_write_gap_ms(o->valid_ms),
                                                 .factor = 2,
                                                 .jitter_pct = 20,
                                                 .reset_after_ms = INT64_C(5) * 60 * 1000}};
    rng_init(&k->rng, o->seed);
    k->workers = controller_new("webhook-certificate", work, k, /* workers= */ 1, o->clk);
    enqueue(controller_queue(k->workers)); /* where neither object is there, no change tells */
    return k;
}

void certificate_keeper_follow(struct certificate_keeper *k, struct informer *inf)
{
    controller_watch(k->workers, inf, /* keep= */ NULL, on_change);
}

struct controller *certificate_keeper_workers(struct certificate_keeper *k)
{
    assert(k->workers);
    return TAKE(k->workers);
}

bool certificate_keeper_is_well(const struct certificate_keeper *k)
{
    return atomic_load(&k->standing) == CERTIFICATE_GOOD;
}

const char *certificate_keeper_says(const struct certificate_keeper *k)
{
    return standing_words[atomic_load(&k->standing)];
}

struct certificate_keeper *certificate_keeper_free(struct certificate_keeper *k)
{
    if (!k)
        return NULL;
    (void)controller_free(k->workers);
    free(k->bundle);
    free(k);
    return NULL;
}
