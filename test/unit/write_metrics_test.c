/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <string.h>

#include "base/clock.h"
#include "base/jx.h"
#include "base/xalloc.h"

#include "kubeclient/fake/fake.h"
#include "service/resources.h"
#include "service/write_metrics.h"

static struct clock *clk;
static struct scope *s;
static struct kc *api, *kc;
static struct metrics *m;

static void setup(void)
{
    clk = clock_fake_new(0);
    s = scope_new(NULL, -1);
    api = kc_fake_new(clk);
    m = metrics_new();
    kc = write_metrics_new(api, m);
}

static void teardown(void)
{
    (void)kc_free(kc);
    (void)metrics_free(m);
    (void)kc_free(api);
    (void)scope_free(s);
    (void)clock_free(clk);
}

TestSuite(write_metrics, .init = setup, .fini = teardown);

static int64_t count(const char *resource, const char *result)
{
    struct metric *family = metrics_counter(m, "cleave_controller_writes_total", "",
                                            METRIC_LABELS("resource", "result"));
    return metric_value(METRIC_WITH(family, resource, result));
}

static int create_pod(void)
{
    auto_json json_t *pod = json_pack("{s:s, s:s, s:{s:s}}", "apiVersion", "v1", "kind", "Pod",
                                      "metadata", "name", "p");
    const struct kc_target t = {.res = &resource_pods, .ns = "default"};
    return kc_create(kc, s, &t, &(struct kc_write){.body = pod}, NULL, /* e= */ NULL);
}

static const struct kc_target pod = {.res = &resource_pods, .ns = "default", .name = "p"};

Test(write_metrics, writes_are_counted_by_resource_and_result)
{
    auto_json json_t *status = json_pack("{s:{s:s}}", "status", "phase", "Running");
    const struct kc_write w = {.body = status, .how = KC_MERGE};
    struct kc_target t = pod;
    t.subresource = "status";
    cr_assert_eq(create_pod(), 0);
    cr_assert_eq(create_pod(), -(int)ERR_EXISTS, "what the inner client says comes back");
    cr_assert_eq(kc_patch(kc, s, &t, &w, NULL, NULL), 0);
    cr_assert_eq(kc_remove(kc, s, &pod, "another uid", NULL), -(int)ERR_CONFLICT);
    cr_assert_eq(kc_evict(kc, s, &pod, /* if_uid= */ NULL, NULL), 0);
    cr_assert_eq(kc_remove(kc, s, &pod, /* if_uid= */ NULL, NULL), -(int)ERR_NOT_FOUND);
    cr_expect_eq(count("pods", "Success"), 1);
    cr_expect_eq(count("pods", "AlreadyExists"), 1);
    cr_expect_eq(count("pods", "Conflict"), 1);
    cr_expect_eq(count("pods", "NotFound"), 1);
    cr_expect_eq(count("pods/status", "Success"), 1);
    cr_expect_eq(count("pods/eviction", "Success"), 1);
}

static int on_item(void *arg, const json_t *obj, struct err *e)
{
    (void)obj;
    (void)e;
    ++*(int *)arg;
    return 0;
}

Test(write_metrics, reads_pass_and_are_not_counted)
{
    auto_json json_t *seen = NULL;
    int n = 0;
    cr_assert_eq(create_pod(), 0);
    cr_assert_eq(kc_get(kc, s, &pod, &seen, NULL), 0);
    cr_expect_str_eq(JX_STR_AT(seen, "metadata", "name"), "p");
    cr_assert_eq(kc_list_each(kc, s, &(struct kc_target){.res = &resource_pods}, NULL, on_item, &n,
                              NULL, NULL),
                 0);
    cr_expect_eq(n, 1);
    cr_expect_eq(count("pods", "Success"), 1);
}
