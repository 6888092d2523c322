/* SPDX-License-Identifier: Apache-2.0 */
#include "service/write_metrics.h"

#include "base/xalloc.h"

#include "kubeclient/observed.h"

static void count_write(void *arg, const struct kc_target *t, int rc, const struct err *e)
{
    (void)e;
    auto_free char *resource = xasprintf("%s%s%s", t->res->plural, t->subresource ? "/" : "",
                                         t->subresource ? t->subresource : "");
    const char *result = rc == 0 ? "Success" : err_kind_name((enum err_kind) - rc);
    metric_add(METRIC_WITH((struct metric *)arg, resource, result), 1);
}

struct kc *write_metrics_new(struct kc *inner, struct metrics *m)
{
    struct metric *writes = metrics_counter(m, "cleave_controller_writes_total",
                                            "Writes to the API server, except leases and Events.",
                                            METRIC_LABELS("resource", "result"));
    return kc_observed_new(inner, count_write, writes);
}
