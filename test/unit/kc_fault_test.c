/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>

#include "base/jx.h"

#include "kubeclient/fake/fake.h"
#include "kubeclient/fault.h"

static const struct kc_resource maps = {"", "v1", "configmaps", "ConfigMap", true};
static const struct kc_target one = {.res = &maps, .ns = "ns", .name = "a"};
static const struct kc_target all = {.res = &maps, .ns = "ns"};

struct rig {
    struct kc *fake, *kc;
    struct scope *s;
};

static struct rig rig_new(enum kc_fault fault, int at)
{
    struct rig r = {.fake = kc_fake_new(clock_real()), .s = scope_new(NULL, 120000)};
    kc_fake_watch_drains(r.fake, true);
    r.kc = kc_fault_new(r.fake, &(struct kc_fault_plan){.fault = fault, .at = at});
    return r;
}

static void rig_done(struct rig *r)
{
    (void)kc_free(r->kc);
    (void)kc_free(r->fake);
    (void)scope_free(r->s);
}
#define auto_rig __attribute__((cleanup(rig_done)))

static int create(struct rig *r, struct err *e)
{
    auto_json json_t *body = json_pack("{s:s,s:s,s:{s:s}}", "apiVersion", "v1", "kind", "ConfigMap",
                                       "metadata", "name", "a");
    auto_json json_t *obj = NULL;
    return kc_create(r->kc, r->s, &one, &(struct kc_write){.body = body}, &obj, e);
}

static int label(struct rig *r, struct err *e)
{
    auto_json json_t *body = json_pack("{s:{s:{s:s}}}", "metadata", "labels", "a", "b");
    struct kc_write w = {.body = body, .how = KC_MERGE};
    return kc_patch(r->kc, r->s, &one, &w, NULL, e);
}

static int ignore(void *arg, enum kc_change change, const json_t *obj, struct err *e)
{
    (void)change;
    (void)obj;
    (void)e;
    ++*(int *)arg;
    return 0;
}

Test(kc_fault, only_the_chosen_call_is_spoilt)
{
    auto_rig struct rig r = rig_new(KC_FAULT_UNAVAILABLE, 2);
    auto_err struct err e = {0};
    cr_expect_eq(create(&r, &e), 0);
    cr_expect_not(kc_fault_fired(r.kc));
    cr_expect_eq(label(&r, &e), -ERR_UNAVAILABLE);
    cr_expect_eq(e.http_status, 503);
    cr_expect(kc_fault_fired(r.kc));
    cr_expect_eq(label(&r, &e), 0);
    cr_expect_eq(kc_fault_calls(r.kc), 3);
}

Test(kc_fault, each_fault_has_its_error_and_its_effect)
{
    static const struct {
        enum kc_fault fault;
        enum err_kind kind;
        size_t writes; /* of the create that is spoilt */
    } rows[] = {
        {KC_FAULT_TIMEOUT_AFTER_COMMIT, ERR_TIMEOUT, 1},
        {KC_FAULT_THROTTLED, ERR_THROTTLED, 0},
        {KC_FAULT_RESET, ERR_UNAVAILABLE, 0},
        {KC_FAULT_UNAVAILABLE, ERR_UNAVAILABLE, 0},
        {KC_FAULT_REFUSED, ERR_INVALID, 0},
        {KC_FAULT_CRASH_BEFORE, ERR_CANCELED, 0},
        {KC_FAULT_CRASH_AFTER, ERR_CANCELED, 1},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        auto_rig struct rig r = rig_new(rows[i].fault, 1);
        auto_err struct err e = {0};
        cr_expect_eq(create(&r, &e), -(int)rows[i].kind, "%s", kc_fault_name(rows[i].fault));
        cr_expect_eq(kc_fake_writes(r.fake), rows[i].writes, "%s", kc_fault_name(rows[i].fault));
    }
}

Test(kc_fault, conflict_happens_to_changes_alone)
{
    auto_rig struct rig r = rig_new(KC_FAULT_CONFLICT, 1);
    auto_err struct err e = {0};
    cr_expect_eq(create(&r, &e), 0);
    cr_expect_eq(kc_get(r.kc, r.s, &one, NULL, &e), 0);
    cr_expect_eq(kc_fault_calls(r.kc), 0);
    cr_expect_eq(label(&r, &e), -ERR_CONFLICT);
    cr_expect_eq(kc_fake_writes(r.fake), 1);
}

Test(kc_fault, expired_happens_to_list_and_watch)
{
    auto_rig struct rig r = rig_new(KC_FAULT_EXPIRED, 1);
    auto_err struct err e = {0};
    auto_json json_t *list = NULL;
    int count = 0;
    cr_expect_eq(create(&r, &e), 0);
    cr_expect_eq(kc_list(r.kc, r.s, &all, NULL, &list, &e), -ERR_EXPIRED);
    struct kc_watch_opts o = {.resource_version = NULL};
    cr_expect_eq(kc_watch(r.kc, r.s, &all, &o, ignore, &count, &e), 0);
}

Test(kc_fault, reset_watch_has_delivered_its_first_event)
{
    auto_rig struct rig r = rig_new(KC_FAULT_RESET, 2);
    auto_err struct err e = {0};
    int count = 0;
    cr_expect_eq(create(&r, &e), 0);
    struct kc_watch_opts o = {.send_initial_events = true};
    cr_expect_eq(kc_watch(r.kc, r.s, &all, &o, ignore, &count, &e), -ERR_UNAVAILABLE);
    cr_expect_eq(count, 1);
}

Test(kc_fault, dead_process_does_nothing_more)
{
    auto_rig struct rig r = rig_new(KC_FAULT_CRASH_AFTER, 1);
    auto_err struct err e = {0};
    cr_expect_eq(create(&r, &e), -ERR_CANCELED);
    cr_expect_eq(label(&r, &e), -ERR_CANCELED);
    cr_expect_eq(kc_get(r.kc, r.s, &one, NULL, &e), -ERR_CANCELED);
    cr_expect_eq(kc_fake_writes(r.fake), 1);
}
