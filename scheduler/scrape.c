/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler/scrape.h"

#include "service/http_channel.h"

/* Ours are a few kilobytes, whatever the cluster's size. */
enum { OUR_BYTES = 256 << 10, HAMI_BYTES = HTTP_MAX_BODY_BYTES - OUR_BYTES };

struct scrape scrape_of(struct metrics *m, struct view *v, enum hami_names names,
                        extender_ready_fn *is_ready, const void *arg)
{
    struct scrape s = {.metrics = m, .view = v, .names = names, .is_ready = is_ready, .arg = arg};
    if (names != HAMI_NONE)
        s.left_out = METRIC_WITH(
            metrics_gauge(m, "cleave_scheduler_hami_metrics_left_out",
                          "1 while HAMi's metrics are not on this page: the caches are not "
                          "synced, or the page would be too long.",
                          /* labels= */ NULL));
    return s;
}

/* False: they are left out. */
static bool write_hami(const struct scrape *s, struct sb *out)
{
    auto_view_snapshot struct view_snapshot all = {0};
    if (!s->is_ready(s->arg))
        return false;
    view_snapshot_take(s->view, &all);
    hami_metrics_write(&all, s->names, out);
    return !out->overflow;
}

int scrape_page(void *arg, struct sb *body)
{
    const struct scrape *s = arg;
    auto_sb struct sb hami = SB_INIT(HAMI_BYTES);
    bool has_hami = s->left_out && write_hami(s, &hami);
    if (s->left_out)
        metric_set(s->left_out, !has_hami);
    metrics_write(s->metrics, body);
    if (has_hami)
        sb_add_mem(body, hami.data, hami.len);
    return 200;
}
