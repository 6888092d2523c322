/* SPDX-License-Identifier: Apache-2.0 */
#include "controller/leadership.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/backoff.h"
#include "base/jx.h"
#include "base/log.h"
#include "base/xalloc.h"

#include "kubeclient/observed.h"
#include "service/resources.h"

#define NEVER INT64_MIN

enum { LOOK_MS = 1000 };

/* What the policy says of a writer that the Leader does not name
 * (config/admission/controller-leader.yaml, messageExpression). */
static const char policy_words[] = " does not lead: ";

/* Writers' threads note refusals in the atomics; the rest is the thread's that claims and looks. */
struct leadership {
    struct leadership_opts o;
    struct rng rng;
    int refused_fd;                /* readable after a refusal */
    _Atomic int64_t since_mono_ms; /* of the first refusal after a success or a claim; or NEVER */
    _Atomic int64_t last_mono_ms;  /* of the last one */
    atomic_bool refused;
};

struct leadership *leadership_new(const struct leadership_opts *o)
{
    assert(o->kc && o->name && o->identity && o->clk);
    struct leadership *l = xmalloc(sizeof(*l));
    *l = (struct leadership){.o = *o, .refused_fd = xfd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK))};
    rng_init(&l->rng, o->seed);
    atomic_init(&l->since_mono_ms, NEVER);
    atomic_init(&l->last_mono_ms, NEVER);
    return l;
}

struct leadership *leadership_free(struct leadership *l)
{
    if (!l)
        return NULL;
    (void)close(l->refused_fd);
    free(l);
    return NULL;
}

bool leadership_is_refused(const struct leadership *l)
{
    return atomic_load(&l->refused);
}

/* --- The object --- */

static struct kc_target target_of(const struct leadership *l)
{
    return (struct kc_target){.res = &resource_leaders, .name = l->o.name};
}

static const char *holder_of(const json_t *leader)
{
    const char *holder = JX_STR_AT(leader, "spec", "holder");
    return holder ? holder : "";
}

static bool names_us(const struct leadership *l, const json_t *leader)
{
    return strcmp(holder_of(leader), l->o.identity) == 0;
}

static int create(struct leadership *l, struct scope *s, struct err *e)
{
    const struct kc_target t = {.res = &resource_leaders};
    auto_free char *version = xasprintf("%s/%s", t.res->group, t.res->version);
    auto_json json_t *body =
        json_pack("{s:s, s:s, s:{s:s}, s:{s:s}}", "apiVersion", version, "kind", t.res->kind,
                  "metadata", "name", l->o.name, "spec", "holder", l->o.identity);
    return kc_create(l->o.kc, s, &t, &(struct kc_write){.body = body}, /* ret_obj= */ NULL, e);
}

/* The version keeps an earlier leader's claim, which may arrive late, from undoing a later one. */
static int change(struct leadership *l, struct scope *s, const json_t *leader, struct err *e)
{
    const struct kc_target t = target_of(l);
    const char *version = JX_STR_AT(leader, "metadata", "resourceVersion");
    auto_json json_t *body = json_pack("{s:{s:s*}, s:{s:s}}", "metadata", "resourceVersion",
                                       version, "spec", "holder", l->o.identity);
    const struct kc_write w = {.body = body, .how = KC_MERGE};
    TRY(kc_patch(l->o.kc, s, &t, &w, /* ret_obj= */ NULL, e));
    log_info("Claimed the lead", kv("leader", l->o.name), kv("before", holder_of(leader)));
    return 0;
}

/* *ret_leader NULL: there is none. */
static int look_up(struct leadership *l, struct scope *s, json_t **ret_leader, struct err *e)
{
    const struct kc_target t = target_of(l);
    auto_err struct err mine = {0};
    *ret_leader = NULL;
    int rc = kc_get(l->o.kc, s, &t, ret_leader, &mine);
    return rc < 0 && rc != -ERR_NOT_FOUND ? err_move(e, &mine) : 0;
}

static int claim_once(struct leadership *l, struct scope *s, struct err *e)
{
    auto_json json_t *leader = NULL;
    TRY(look_up(l, s, &leader, e));
    if (!leader)
        return create(l, s, e);
    return names_us(l, leader) ? 0 : change(l, s, leader, e);
}

/* Nobody can change this by waiting for a second. */
static bool is_impossible(const struct err *e)
{
    return e->kind == ERR_NOT_FOUND || e->kind == ERR_FORBIDDEN || e->kind == ERR_INVALID;
}

int leadership_claim(struct leadership *l, struct scope *s, struct err *e)
{
    struct backoff backoff = {.base_ms = 100, .cap_ms = 5000, .factor = 2, .jitter_pct = 20};
    for (;;) {
        auto_err struct err mine = {0};
        if (claim_once(l, s, &mine) == 0)
            return 0;
        TRY(scope_check(s, e));
        log_warn("Could not claim the lead", kv("leader", l->o.name), kv_err(&mine));
        if (is_impossible(&mine))
            return 0;
        (void)scope_wait_ms(s, backoff_next_ms(&backoff, l->o.clk, &l->rng));
    }
}

/* --- Refusals --- */

static void note_success(struct leadership *l)
{
    if (atomic_load(&l->since_mono_ms) == NEVER)
        return;
    atomic_store(&l->since_mono_ms, NEVER);
    if (atomic_exchange(&l->refused, false))
        log_info("The API server takes this leader's writes again", kv("leader", l->o.name));
}

static void note_refusal(struct leadership *l)
{
    int64_t never = NEVER;
    int64_t now = clock_mono_ms(l->o.clk);
    (void)atomic_compare_exchange_strong(&l->since_mono_ms, &never, now);
    atomic_store(&l->last_mono_ms, now);
    (void)eventfd_write(l->refused_fd, 1);
}

static void note_write(void *arg, const struct kc_target *t, int rc, const struct err *e)
{
    (void)t;
    if (rc == 0)
        note_success(arg);
    else if (rc == -ERR_FORBIDDEN && strstr(err_msg(e), policy_words))
        note_refusal(arg);
}

struct kc *leadership_kc_new(struct leadership *l, struct kc *inner)
{
    return kc_observed_new(inner, note_write, l);
}

static void report(struct leadership *l, const json_t *leader)
{
    const struct event_about about = {
        .resource = &resource_leaders,
        .name = l->o.name,
        .uid = JX_STR_AT(leader, "metadata", "uid"),
        .resource_version = JX_STR_AT(leader, "metadata", "resourceVersion"),
    };
    log_error("The API server refuses this leader's writes, by an old copy of the Leader",
              kv("leader", l->o.name), kv("holder", l->o.identity));
    recorder_event_about(l->o.recorder, &about, /* warning= */ true, "LeaderRefused",
                         "the API server refuses the writes of %s although Leader %s names it; "
                         "delete the ValidatingAdmissionPolicyBinding cleave-controller-leader and "
                         "apply it again, or restart the API servers",
                         l->o.identity, l->o.name);
}

/* The object names this replica. */
static void judge_refusals(struct leadership *l, const json_t *leader)
{
    int64_t since = atomic_load(&l->since_mono_ms);
    if (since == NEVER || atomic_load(&l->last_mono_ms) - since < LEADERSHIP_SETTLE_MS)
        return;
    if (!atomic_exchange(&l->refused, true))
        report(l, leader);
}

void leadership_step(struct leadership *l, struct scope *s)
{
    auto_json json_t *leader = NULL;
    auto_err struct err e = {0};
    eventfd_t n;
    (void)eventfd_read(l->refused_fd, &n);
    if (atomic_load(&l->since_mono_ms) == NEVER)
        return; /* a later write was taken */
    int rc = look_up(l, s, &leader, &e);
    if (rc == 0 && leader && names_us(l, leader)) {
        judge_refusals(l, leader);
        return;
    }
    if (rc == 0)
        rc = leader ? change(l, s, leader, &e) : create(l, s, &e);
    if (rc == 0)
        atomic_store(&l->since_mono_ms, NEVER); /* counted anew from the next refusal */
    else
        log_warn("Could not claim the lead", kv("leader", l->o.name), kv_err(&e));
}

int leadership_run(void *arg, struct scope *s, struct err *e)
{
    struct leadership *l = arg;
    for (;;) {
        TRY(scope_wait_readable(s, l->refused_fd, e));
        leadership_step(l, s);
        (void)scope_wait_ms(s, LOOK_MS);
    }
}
