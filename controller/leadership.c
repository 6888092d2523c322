/* SPDX-License-Identifier: Apache-2.0 */
#include "controller/leadership.h"

#include <assert.h>
#include <pthread.h>
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

/* So many names that this replica replaced by its own, each within CONTEST_MS of the one before,
 * are those of a rival. */
enum { CONTESTS = 3, CONTEST_MS = 2 * LEADERSHIP_CONTEST_MS };

/* The API server begins what the policy refuses with its name, which an overlay may give a prefix
 * (config/admission/controller-leader.yaml). */
static const char policy_name[] = "cleave-controller-leader";

struct leadership {
    struct leadership_opts o;
    struct rng rng;
    int refused_fd; /* readable after a refusal */
    /* These two are used by the thread of leadership_run alone. */
    unsigned contests;
    int64_t contest_mono_ms; /* of the last one; valid with contests */
    pthread_mutex_t mu;
    /* guarded by mu: writers' threads note how writes end */
    int64_t since_mono_ms; /* of the first refusal after a success or a claim; or NEVER */
    int64_t last_mono_ms;  /* of the last one */
    bool refused;
};

struct leadership *leadership_new(const struct leadership_opts *o)
{
    assert(o->kc && o->name && o->identity && o->clk);
    struct leadership *l = xmalloc(sizeof(*l));
    *l = (struct leadership){.o = *o, .refused_fd = xfd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK))};
    rng_init(&l->rng, o->seed);
    l->since_mono_ms = l->last_mono_ms = NEVER;
    (void)pthread_mutex_init(&l->mu, NULL);
    return l;
}

struct leadership *leadership_free(struct leadership *l)
{
    if (!l)
        return NULL;
    (void)close(l->refused_fd);
    (void)pthread_mutex_destroy(&l->mu);
    free(l);
    return NULL;
}

bool leadership_is_refused(struct leadership *l)
{
    HOLD(&l->mu);
    return l->refused;
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

/* The version keeps an earlier leader's claim, which may arrive late, from undoing a later one.
 * leader NULL: there is one that cannot be read; what it says beside the holder goes, too. */
static int change(struct leadership *l, struct scope *s, const json_t *leader, struct err *e)
{
    const struct kc_target t = target_of(l);
    auto_json json_t *meta = leader ? json_pack("{s:s*}", "resourceVersion",
                                                JX_STR_AT(leader, "metadata", "resourceVersion"))
                                    : json_pack("{s:[{}]}", "managedFields");
    auto_json json_t *body =
        json_pack("{s:O, s:{s:s}}", "metadata", meta, "spec", "holder", l->o.identity);
    const struct kc_write w = {.body = body, .how = KC_MERGE};
    TRY(kc_patch(l->o.kc, s, &t, &w, /* ret_obj= */ NULL, e));
    log_info("Claimed the lead", kv("leader", l->o.name), kv("before", holder_of(leader)));
    return 0;
}

/* *ret_ours: the object names this replica; *ret_leader (may be NULL then) is it. */
static int claim_once(struct leadership *l, struct scope *s, bool *ret_ours, json_t **ret_leader,
                      struct err *e)
{
    const struct kc_target t = target_of(l);
    auto_err struct err mine = {0};
    *ret_ours = false;
    int rc = kc_get(l->o.kc, s, &t, ret_leader, &mine);
    if (rc == -ERR_NOT_FOUND)
        return create(l, s, e);
    if (rc == -ERR_PROTOCOL || rc == -ERR_TOO_LARGE)
        return change(l, s, /* leader= */ NULL, e);
    if (rc < 0)
        return err_move(e, &mine);
    *ret_ours = names_us(l, *ret_leader);
    return *ret_ours ? 0 : change(l, s, *ret_leader, e);
}

/* Nobody can change this by waiting for a second. */
static bool is_impossible(const struct err *e)
{
    return e->kind == ERR_NOT_FOUND || e->kind == ERR_FORBIDDEN || e->kind == ERR_INVALID;
}

int leadership_claim(void *arg, struct scope *s, struct err *e)
{
    struct leadership *l = arg;
    struct backoff backoff = {.base_ms = 100, .cap_ms = 5000, .factor = 2, .jitter_pct = 20};
    int64_t end = clock_mono_ms(l->o.clk) + LEADERSHIP_CLAIM_MS;
    for (;;) {
        auto_err struct err mine = {0};
        auto_json json_t *leader = NULL;
        bool ours;
        if (claim_once(l, s, &ours, &leader, &mine) == 0)
            return 0;
        TRY(scope_check(s, e));
        log_warn("Could not claim the lead", kv("leader", l->o.name), kv_err(&mine));
        if (is_impossible(&mine) || clock_mono_ms(l->o.clk) >= end)
            return 0;
        (void)scope_wait_ms(s, backoff_next_ms(&backoff, l->o.clk, &l->rng));
    }
}

/* --- Refusals --- */

/* Refusals are counted anew. */
static void forget_refusals(struct leadership *l)
{
    HOLD(&l->mu);
    l->since_mono_ms = NEVER;
    if (l->refused)
        log_info("The API server takes this leader's writes again", kv("leader", l->o.name));
    l->refused = false;
}

static void note_refusal(struct leadership *l)
{
    HOLD(&l->mu);
    l->last_mono_ms = clock_mono_ms(l->o.clk);
    if (l->since_mono_ms == NEVER)
        l->since_mono_ms = l->last_mono_ms;
    (void)eventfd_write(l->refused_fd, 1);
}

static void note_write(void *arg, const struct kc_target *t, int rc, const struct err *e)
{
    (void)t;
    if (rc == 0)
        forget_refusals(arg);
    else if (rc == -ERR_FORBIDDEN && strstr(err_msg(e), policy_name))
        note_refusal(arg);
}

struct kc *leadership_kc_new(struct leadership *l, struct kc *inner)
{
    return kc_observed_new(inner, note_write, l);
}

/* leader: as read; it outlives the result. */
static struct event_about about_leader(const struct leadership *l, const json_t *leader)
{
    return (struct event_about){
        .resource = &resource_leaders,
        .name = l->o.name,
        .uid = JX_STR_AT(leader, "metadata", "uid"),
        .resource_version = JX_STR_AT(leader, "metadata", "resourceVersion"),
    };
}

/* leader: as read; NULL: it could not be read. */
static void report(struct leadership *l, const json_t *leader, const char *why)
{
    const struct event_about about = about_leader(l, leader);
    log_error("The API server refuses this leader's writes", kv("leader", l->o.name),
              kv("holder", l->o.identity), kv("error", why));
    if (!leader)
        return; /* an Event is about an object */
    recorder_event_about(l->o.recorder, &about, /* warning= */ true, "LeaderRefused",
                         "the API server refuses the writes of %s: %s", l->o.identity, why);
}

static bool is_refused_for_long(struct leadership *l)
{
    HOLD(&l->mu);
    return l->since_mono_ms != NEVER && l->last_mono_ms - l->since_mono_ms >= LEADERSHIP_SETTLE_MS;
}

/* True when this is news. */
static bool mark_refused(struct leadership *l)
{
    HOLD(&l->mu);
    bool is_news = !l->refused && l->since_mono_ms != NEVER;
    l->refused |= is_news;
    return is_news;
}

static bool has_refusals(struct leadership *l)
{
    HOLD(&l->mu);
    return l->since_mono_ms != NEVER;
}

/* The Leader as it was read had another name, which is replaced. A replica of the same installation
 * would need the Lease to have written it. */
static void note_contest(struct leadership *l, const json_t *leader)
{
    const struct event_about about = about_leader(l, leader);
    int64_t now = clock_mono_ms(l->o.clk);
    bool goes_on = l->contests && now - l->contest_mono_ms <= CONTEST_MS;
    l->contests = goes_on ? l->contests + 1 : 1;
    l->contest_mono_ms = now;
    if (l->contests != CONTESTS || !leader)
        return;
    log_error("Another installation of Cleave leads, too", kv("leader", l->o.name),
              kv("holder", l->o.identity), kv("rival", holder_of(leader)));
    recorder_event_about(l->o.recorder, &about, /* warning= */ true, "LeaderContested",
                         "%s and %s both lead: two installations of Cleave are in this cluster; "
                         "remove one (kubectl get deployments -A -l "
                         "app.kubernetes.io/part-of=cleave shows them)",
                         l->o.identity, holder_of(leader));
}

/* True while a rival is left its name. */
static bool pauses(const struct leadership *l)
{
    return l->contests >= CONTESTS &&
           clock_mono_ms(l->o.clk) - l->contest_mono_ms < LEADERSHIP_CONTEST_MS;
}

void leadership_step(struct leadership *l, struct scope *s)
{
    static const char old_copy[] =
        "the Leader names it, and the policy cleave-controller-leader is judged by an old copy; "
        "delete the policy's binding and apply it again, or restart the API servers";
    auto_json json_t *leader = NULL;
    auto_err struct err e = {0};
    bool ours = false;
    eventfd_t n;
    (void)eventfd_read(l->refused_fd, &n);
    if (!has_refusals(l))
        return; /* a later write was taken */
    if (pauses(l)) {
        if (is_refused_for_long(l))
            (void)mark_refused(l);
        return;
    }
    int rc = claim_once(l, s, &ours, &leader, &e);
    if (rc == 0 && !ours) {
        note_contest(l, leader);
        forget_refusals(l); /* it was claimed just now */
    } else if (is_refused_for_long(l) && mark_refused(l)) {
        report(l, leader, ours ? old_copy : err_msg(&e));
    } else if (rc < 0) {
        log_warn("Could not claim the lead", kv("leader", l->o.name), kv_err(&e));
    }
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
