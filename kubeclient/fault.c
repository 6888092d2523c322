/* SPDX-License-Identifier: Apache-2.0 */
#include "kubeclient/fault.h"

#include <pthread.h>

#include "base/xalloc.h"

#include "kubeclient/status.h"

enum verb { GET, LIST, CREATE, UPDATE, PATCH, REMOVE, WATCH };

#define BIT(verb) (1U << (verb))
#define WRITES    (BIT(CREATE) | BIT(UPDATE) | BIT(PATCH) | BIT(REMOVE))
#define READS     (BIT(GET) | BIT(LIST) | BIT(WATCH))

static const struct {
    const char *name;
    unsigned verbs; /* the verbs that it can happen to */
} faults[] = {
    [KC_FAULT_NONE] = {"none", 0},
    [KC_FAULT_CONFLICT] = {"conflict", BIT(UPDATE) | BIT(PATCH) | BIT(REMOVE)},
    [KC_FAULT_TIMEOUT_AFTER_COMMIT] = {"timeout-after-commit", WRITES},
    [KC_FAULT_THROTTLED] = {"throttled", READS | WRITES},
    [KC_FAULT_RESET] = {"reset", READS | WRITES},
    [KC_FAULT_UNAVAILABLE] = {"unavailable", READS | WRITES},
    [KC_FAULT_EXPIRED] = {"expired", BIT(LIST) | BIT(WATCH)},
    [KC_FAULT_REFUSED] = {"refused", WRITES},
    [KC_FAULT_CRASH_BEFORE] = {"crash-before", WRITES},
    [KC_FAULT_CRASH_AFTER] = {"crash-after", WRITES},
};

struct kc_faulty {
    struct kc base;
    struct kc *inner;
    struct kc_fault_plan plan;
    pthread_mutex_t mu;
    int calls;  /* guarded by mu */
    bool fired; /* guarded by mu */
};

static struct kc_faulty *faulty_of(struct kc *c)
{
    return (struct kc_faulty *)c;
}

static bool is_crash(enum kc_fault fault)
{
    return fault == KC_FAULT_CRASH_BEFORE || fault == KC_FAULT_CRASH_AFTER;
}

/* Whether the fault happens before the call, after it, or not. */
enum moment { NEVER, BEFORE, AFTER };

static enum moment moment_of(struct kc_faulty *f, enum verb verb)
{
    HOLD(&f->mu);
    enum kc_fault fault = f->plan.fault;
    if (is_crash(fault) && f->fired)
        return BEFORE; /* a crashed process reads nothing either */
    if (!(faults[fault].verbs & BIT(verb)))
        return NEVER;
    int nth = ++f->calls;
    int times = f->plan.times ? f->plan.times : 1;
    if (nth < f->plan.at || (nth >= f->plan.at + times && !is_crash(fault)))
        return NEVER;
    f->fired = true;
    bool late = fault == KC_FAULT_TIMEOUT_AFTER_COMMIT || fault == KC_FAULT_CRASH_AFTER ||
                (fault == KC_FAULT_RESET && verb == WATCH);
    return late ? AFTER : BEFORE;
}

static int answer(struct err *e, int code, const char *reason)
{
    auto_json json_t *status = kc_status_new(code, reason, "a fault that was planned", NULL);
    return kc_status_to_err(status, code, e);
}

static int happen(enum kc_fault fault, struct err *e)
{
    int rc;
    switch (fault) {
    case KC_FAULT_CONFLICT:
        return answer(e, 409, "Conflict");
    case KC_FAULT_TIMEOUT_AFTER_COMMIT:
        return err_set(e, ERR_TIMEOUT, "planned: the answer was lost");
    case KC_FAULT_THROTTLED:
        rc = answer(e, 429, "TooManyRequests");
        if (e)
            e->retry_after_ms = 1000;
        return rc;
    case KC_FAULT_RESET:
        return err_set(e, ERR_UNAVAILABLE, "planned: connection reset");
    case KC_FAULT_UNAVAILABLE:
        return answer(e, 503, "ServiceUnavailable");
    case KC_FAULT_EXPIRED:
        return answer(e, 410, "Expired");
    case KC_FAULT_REFUSED:
        return answer(e, 400, "BadRequest");
    case KC_FAULT_CRASH_BEFORE:
    case KC_FAULT_CRASH_AFTER:
        return err_set(e, ERR_CANCELED, "planned: the process is dead");
    case KC_FAULT_NONE:
        break;
    }
    return 0;
}

/* Runs `call`, whose result goes to `got`, with the fault around it; ret_obj may be NULL. */
#define WITH_FAULT(f, verb, got, ret_obj, e, call)                                                 \
    do {                                                                                           \
        enum moment when_ = moment_of(f, verb);                                                    \
        if (when_ == BEFORE)                                                                       \
            return happen((f)->plan.fault, e);                                                     \
        TRY(call);                                                                                 \
        if (when_ == AFTER)                                                                        \
            return happen((f)->plan.fault, e);                                                     \
        if (ret_obj)                                                                               \
            *(ret_obj) = TAKE(got);                                                                \
        return 0;                                                                                  \
    } while (0)

static int faulty_get(struct kc *c, struct scope *s, const struct kc_target *t, json_t **ret_obj,
                      struct err *e)
{
    struct kc_faulty *f = faulty_of(c);
    auto_json json_t *got = NULL;
    WITH_FAULT(f, GET, got, ret_obj, e, kc_get(f->inner, s, t, &got, e));
}

static int faulty_list(struct kc *c, struct scope *s, const struct kc_target *t,
                       const struct kc_list_opts *o, kc_item_fn *fn, void *arg, char **ret_version,
                       struct err *e)
{
    struct kc_faulty *f = faulty_of(c);
    auto_free char *got = NULL;
    WITH_FAULT(f, LIST, got, ret_version, e, kc_list_each(f->inner, s, t, o, fn, arg, &got, e));
}

static int faulty_create(struct kc *c, struct scope *s, const struct kc_target *t,
                         const struct kc_write *w, json_t **ret_obj, struct err *e)
{
    struct kc_faulty *f = faulty_of(c);
    auto_json json_t *got = NULL;
    WITH_FAULT(f, CREATE, got, ret_obj, e, kc_create(f->inner, s, t, w, &got, e));
}

static int faulty_update(struct kc *c, struct scope *s, const struct kc_target *t,
                         const struct kc_write *w, json_t **ret_obj, struct err *e)
{
    struct kc_faulty *f = faulty_of(c);
    auto_json json_t *got = NULL;
    WITH_FAULT(f, UPDATE, got, ret_obj, e, kc_update(f->inner, s, t, w, &got, e));
}

static int faulty_patch(struct kc *c, struct scope *s, const struct kc_target *t,
                        const struct kc_write *w, json_t **ret_obj, struct err *e)
{
    struct kc_faulty *f = faulty_of(c);
    auto_json json_t *got = NULL;
    WITH_FAULT(f, PATCH, got, ret_obj, e, kc_patch(f->inner, s, t, w, &got, e));
}

static int faulty_remove(struct kc *c, struct scope *s, const struct kc_target *t,
                         const struct kc_remove_opts *o, struct err *e)
{
    struct kc_faulty *f = faulty_of(c);
    enum moment when = moment_of(f, REMOVE);
    if (when == BEFORE)
        return happen(f->plan.fault, e);
    TRY(kc_remove_with(f->inner, s, t, o, e));
    return when == AFTER ? happen(f->plan.fault, e) : 0;
}

/* A stream that breaks after its first event. */
struct breaking {
    kc_change_fn *fn;
    void *arg;
};

static int deliver_and_break(void *arg, enum kc_change change, const json_t *obj, struct err *e)
{
    const struct breaking *b = arg;
    TRY(b->fn(b->arg, change, obj, e));
    return happen(KC_FAULT_RESET, e);
}

static int faulty_watch(struct kc *c, struct scope *s, const struct kc_target *t,
                        const struct kc_watch_opts *o, kc_change_fn *fn, void *arg, struct err *e)
{
    struct kc_faulty *f = faulty_of(c);
    enum moment when = moment_of(f, WATCH);
    if (when == BEFORE)
        return happen(f->plan.fault, e);
    struct breaking b = {.fn = fn, .arg = arg};
    return when == AFTER ? kc_watch(f->inner, s, t, o, deliver_and_break, &b, e)
                         : kc_watch(f->inner, s, t, o, fn, arg, e);
}

static struct kc *faulty_free(struct kc *c)
{
    struct kc_faulty *f = faulty_of(c);
    (void)pthread_mutex_destroy(&f->mu);
    free(f);
    return NULL;
}

static const struct kc_ops faulty_ops = {
    .get = faulty_get,
    .list = faulty_list,
    .create = faulty_create,
    .update = faulty_update,
    .patch = faulty_patch,
    .remove = faulty_remove,
    .watch = faulty_watch,
    .free = faulty_free,
};

struct kc *kc_fault_new(struct kc *inner, const struct kc_fault_plan *plan)
{
    struct kc_faulty *f = xmalloc(sizeof(*f));
    f->base.ops = &faulty_ops;
    f->inner = inner;
    f->plan = *plan;
    (void)pthread_mutex_init(&f->mu, NULL);
    return &f->base;
}

bool kc_fault_fired(struct kc *c)
{
    struct kc_faulty *f = faulty_of(c);
    HOLD(&f->mu);
    return f->fired;
}

int kc_fault_calls(struct kc *c)
{
    struct kc_faulty *f = faulty_of(c);
    HOLD(&f->mu);
    return f->calls;
}

const char *kc_fault_name(enum kc_fault fault)
{
    return faults[fault].name;
}
