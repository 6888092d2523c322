/* SPDX-License-Identifier: Apache-2.0 */
#include "controller/policy_check.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/jx.h"
#include "base/log.h"
#include "base/rfc3339.h"
#include "base/sb.h"
#include "base/xalloc.h"

#include "service/resources.h"

#define NEVER INT64_MIN

/* The name of what the requests would make or change. */
#define PROBE "cleave-policy-check"

enum { CALL_MS = 10000, NAMES_BYTES = 512 };

enum {
    CLAIM,
    LEASE,
    EVENT,
    EVICTION,
    NODE,
    NODE_STATUS,
    DEVICE,
    DEVICE_STATUS,
    KOORDINATOR,
    POLICIES
};

/* The API server begins a refusal with the policy's name, which an overlay may give a prefix and a
 * suffix. */
static const char *const policies[POLICIES] = {
    [CLAIM] = "cleave-controller-claim",
    [LEASE] = "cleave-controller-lease",
    [EVENT] = "cleave-controller-event",
    [EVICTION] = "cleave-controller-eviction",
    [NODE] = "cleave-controller-node",
    [NODE_STATUS] = "cleave-controller-node-status",
    [DEVICE] = "cleave-controller-device",
    [DEVICE_STATUS] = "cleave-controller-device-status",
    [KOORDINATOR] = "cleave-controller-koordinator",
};

struct policy_check {
    struct policy_check_opts o;
    struct metric *gauge;
    int start_fd;                   /* readable once this process leads */
    int64_t open_mono_ms[POLICIES]; /* since when its request passes; NEVER: it does not */
    bool is_reported[POLICIES];     /* as not in force */
};

struct policy_check *policy_check_new(const struct policy_check_opts *o)
{
    assert(o->kc && o->metrics && o->ns && o->leader && o->identity && o->clk);
    struct policy_check *p = xmalloc(sizeof(*p));
    *p = (struct policy_check){.o = *o, .start_fd = xfd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK))};
    for (size_t i = 0; i < POLICIES; i++)
        p->open_mono_ms[i] = NEVER;
    p->gauge = metrics_gauge(o->metrics, "cleave_controller_policy_in_force",
                             "1 when the API server holds this process to the admission policy, "
                             "0 when it does not; absent while it is not known.",
                             METRIC_LABELS("policy"));
    return p;
}

struct policy_check *policy_check_free(struct policy_check *p)
{
    if (!p)
        return NULL;
    (void)close(p->start_fd);
    free(p);
    return NULL;
}

/* --- The requests --- */

static const struct kc_resource events = {"events.k8s.io", "v1", "events", "Event", true};

static int create(struct policy_check *p, struct scope *s, const struct kc_target *t,
                  json_t *body_take, struct err *e)
{
    auto_json json_t *body = body_take;
    return kc_create(p->o.kc, s, t, &(struct kc_write){.body = body, .dry_run = true},
                     /* ret_obj= */ NULL, e);
}

static int patch(struct policy_check *p, struct scope *s, const struct kc_target *t,
                 json_t *body_take, struct err *e)
{
    auto_json json_t *body = body_take;
    const struct kc_write w = {.body = body, .how = KC_MERGE, .dry_run = true};
    return kc_patch(p->o.kc, s, t, &w, /* ret_obj= */ NULL, e);
}

/* Another replica's name, which this one may not write. */
static int try_claim(struct policy_check *p, struct scope *s, struct err *e)
{
    const struct kc_target t = {.res = &resource_leaders, .name = p->o.leader};
    return patch(p, s, &t, json_pack("{s:{s:s}}", "spec", "holder", PROBE), e);
}

static int try_lease(struct policy_check *p, struct scope *s, struct err *e)
{
    const struct kc_target t = {.res = &resource_leases, .ns = p->o.ns};
    return create(p, s, &t,
                  json_pack("{s:s, s:s, s:{s:s, s:s}, s:{s:s}}", "apiVersion",
                            "coordination.k8s.io/v1", "kind", "Lease", "metadata", "name", PROBE,
                            "namespace", p->o.ns, "spec", "holderIdentity", PROBE),
                  e);
}

/* Another component's name as the one that reports. */
static int try_event(struct policy_check *p, struct scope *s, struct err *e)
{
    char now[RFC3339_BYTES];
    const struct kc_target t = {.res = &events, .ns = "default"};
    (void)rfc3339_format_micro(clock_wall_ms(p->o.clk), now);
    return create(p, s, &t,
                  json_pack("{s:s, s:s, s:{s:s, s:s}, s:s, s:s, s:s, s:s, s:s, s:s, s:s, "
                            "s:{s:s, s:s, s:s}}",
                            "apiVersion", "events.k8s.io/v1", "kind", "Event", "metadata", "name",
                            PROBE, "namespace", "default", "eventTime", now, "reportingController",
                            "gpu.cleave.dev/policy-check", "reportingInstance", p->o.identity,
                            "action", "Check", "reason", "Check", "note", "a dry run", "type",
                            "Normal", "regarding", "apiVersion", "gpu.cleave.dev/v1alpha1", "kind",
                            "Leader", "name", p->o.leader),
                  e);
}

/* An eviction without a uid. There is no such pod; the policy is asked before the pod is looked
 * for. */
static int try_eviction(struct policy_check *p, struct scope *s, struct err *e)
{
    const struct kc_target t = {.res = &resource_pods,
                                .ns = p->o.ns,
                                .name = PROBE,
                                .subresource = "eviction"};
    int rc = create(p, s, &t,
                    json_pack("{s:s, s:s, s:{s:s, s:s}}", "apiVersion", "policy/v1", "kind",
                              "Eviction", "metadata", "name", PROBE, "namespace", p->o.ns),
                    e);
    if (rc != -ERR_NOT_FOUND)
        return rc;
    err_clear(e);
    return 0; /* it was let pass */
}

static int try_label(struct policy_check *p, struct scope *s, const struct kc_resource *res,
                     const char *subresource, const char *name, struct err *e)
{
    const struct kc_target t = {.res = res, .name = name, .subresource = subresource};
    if (!name)
        return err_set(e, ERR_NOT_FOUND, "there is no %s", res->kind);
    return patch(p, s, &t,
                 json_pack("{s:{s:{s:s}}}", "metadata", "labels", "gpu.cleave.dev/policy-check",
                           "true"),
                 e);
}

/* A part of the status that is the agent's. A label would not do: the server drops all but the
 * status before it asks the policies. */
static int try_status(struct policy_check *p, struct scope *s, const char *device, struct err *e)
{
    const struct kc_target t = {.res = &resource_devices, .name = device, .subresource = "status"};
    if (!device)
        return err_set(e, ERR_NOT_FOUND, "there is no Device");
    return patch(p, s, &t, json_pack("{s:{s:{s:s}}}", "status", "summary", "layout", PROBE), e);
}

static int try_koordinator(struct policy_check *p, struct scope *s, struct err *e)
{
    const struct kc_target t = {.res = &resource_koordinator_devices};
    auto_free char *version = xasprintf("%s/%s", t.res->group, t.res->version);
    return create(p, s, &t,
                  json_pack("{s:s, s:s, s:{s:s, s:{s:s}}}", "apiVersion", version, "kind",
                            t.res->kind, "metadata", "name", PROBE, "labels",
                            "gpu.cleave.dev/policy-check", "true"),
                  e);
}

/* Names of a Node and a Device, of whichever; owned, NULL: there is none. */
struct subjects {
    char *node, *device;
};

static void subjects_done(struct subjects *x)
{
    free(x->node);
    free(x->device);
}
AUTO_DEFINE(subjects, struct subjects, subjects_done)

static int take_name(void *arg, const json_t *obj, struct err *e)
{
    char **ret = arg;
    xstr_set(ret, JX_STR_AT(obj, "metadata", "name"));
    return err_set(e, ERR_CANCELED, "one is enough");
}

/* The caches could tell too, but only as a whole list. */
static char *first_name(struct policy_check *p, struct scope *s, const struct kc_resource *res)
{
    auto_free char *name = NULL;
    const struct kc_target t = {.res = res};
    const struct kc_list_opts o = {.page_size = 1};
    (void)!kc_list_each(p->o.kc, s, &t, &o, take_name, &name, /* ret_version= */ NULL,
                        /* e= */ NULL);
    return TAKE(name);
}

static int try_policy(struct policy_check *p, struct scope *s, size_t i, const struct subjects *x,
                      struct err *e)
{
    switch (i) {
    case CLAIM:
        return try_claim(p, s, e);
    case LEASE:
        return try_lease(p, s, e);
    case EVENT:
        return try_event(p, s, e);
    case EVICTION:
        return try_eviction(p, s, e);
    case NODE:
        return try_label(p, s, &resource_nodes, /* subresource= */ NULL, x->node, e);
    case NODE_STATUS:
        return try_label(p, s, &resource_nodes, "status", x->node, e);
    case DEVICE:
        return try_label(p, s, &resource_devices, /* subresource= */ NULL, x->device, e);
    case DEVICE_STATUS:
        return try_status(p, s, x->device, e);
    default:
        return try_koordinator(p, s, e);
    }
}

/* --- The verdicts --- */

/* An answer that is neither (no such kind, no right, no connection, another policy) changes
 * nothing. */
static void judge(struct policy_check *p, size_t i, int rc, const struct err *e)
{
    bool refused = rc == -ERR_FORBIDDEN && strstr(err_msg(e), policies[i]);
    if (rc != 0 && !refused)
        return;
    metric_set(METRIC_WITH(p->gauge, policies[i]), refused);
    if (refused)
        p->open_mono_ms[i] = NEVER;
    else if (p->open_mono_ms[i] == NEVER)
        p->open_mono_ms[i] = clock_mono_ms(p->o.clk);
}

static void check_all(struct policy_check *p, struct scope *s)
{
    auto_scope struct scope *call = scope_new(s, CALL_MS);
    AUTO(subjects)
    struct subjects x = {
        .node = first_name(p, call, &resource_nodes),
        .device = first_name(p, call, &resource_devices),
    };
    for (size_t i = 0; i < POLICIES; i++) {
        auto_err struct err e = {0};
        judge(p, i, try_policy(p, call, i, &x, &e), &e);
    }
}

static bool is_open_for_long(const struct policy_check *p, size_t i)
{
    return p->open_mono_ms[i] != NEVER &&
           clock_mono_ms(p->o.clk) - p->open_mono_ms[i] >= POLICY_CHECK_SETTLE_MS;
}

static void report(struct policy_check *p, struct scope *s, const char *names)
{
    const struct kc_target t = {.res = &resource_leaders, .name = p->o.leader};
    auto_json json_t *leader = NULL;
    log_error("Admission policies are not in force", kv("policies", names));
    if (kc_get(p->o.kc, s, &t, &leader, /* e= */ NULL) < 0)
        return; /* an Event is about an object */
    const struct event_about about = {
        .resource = &resource_leaders,
        .name = p->o.leader,
        .uid = JX_STR_AT(leader, "metadata", "uid"),
        .resource_version = JX_STR_AT(leader, "metadata", "resourceVersion"),
    };
    recorder_event_about(
        p->o.recorder, &about, /* warning= */ true, "PolicyNotInForce",
        "the API server does not hold cleave-controller to %s: its token may write "
        "more than it needs; apply config/admission again, and let the name of its "
        "ServiceAccount be or contain cleave-controller",
        names);
}

/* Reports all that are open when there is one that was not reported. */
static void report_news(struct policy_check *p, struct scope *s)
{
    auto_sb struct sb names = SB_INIT(NAMES_BYTES);
    bool is_news = false;
    for (size_t i = 0; i < POLICIES; i++) {
        bool open = is_open_for_long(p, i);
        is_news |= open && !p->is_reported[i];
        if (p->is_reported[i] && p->open_mono_ms[i] == NEVER)
            log_info("The admission policy is in force again", kv("policy", policies[i]));
        p->is_reported[i] = open;
        if (open)
            sb_addf(&names, "%s%s", names.len ? ", " : "", policies[i]);
    }
    if (is_news)
        report(p, s, sb_str(&names));
}

int64_t policy_check_step(struct policy_check *p, struct scope *s)
{
    check_all(p, s);
    report_news(p, s);
    for (size_t i = 0; i < POLICIES; i++)
        if (p->open_mono_ms[i] != NEVER)
            return POLICY_CHECK_RETRY_MS;
    return POLICY_CHECK_PERIOD_MS;
}

void policy_check_start(struct policy_check *p)
{
    (void)eventfd_write(p->start_fd, 1);
}

int policy_check_run(void *arg, struct scope *s, struct err *e)
{
    struct policy_check *p = arg;
    TRY(scope_wait_readable(s, p->start_fd, e));
    for (;;) {
        TRY(scope_check(s, e));
        (void)scope_wait_ms(s, policy_check_step(p, s));
    }
}
