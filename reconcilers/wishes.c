/* SPDX-License-Identifier: Apache-2.0 */
#include "reconcilers/wishes.h"

#include <pthread.h>

#include "base/strmap.h"
#include "base/xalloc.h"

struct wishes {
    struct metric_series *time; /* NULL: nothing is measured */
    pthread_mutex_t mu;
    struct strmap *since; /* guarded by mu: node → monotonic ms, owned */
};

struct wishes *wishes_new(struct metrics *m)
{
    /* A layout takes seconds, a drain minutes, a person hours. */
    static const double bounds[] = {1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1200, 3600, 21600};
    struct wishes *w = xmalloc(sizeof(*w));
    (void)pthread_mutex_init(&w->mu, NULL);
    w->since = strmap_new();
    if (m)
        w->time = METRIC_WITH(
            metrics_histogram(m, "cleave_controller_wish_seconds",
                              "Time from an order that changes hardware to the status that shows "
                              "it done.",
                              NULL, bounds, ARRAY_LEN(bounds)));
    return w;
}

/* Cards that are gone are waited for by nobody. */
static bool is_done(const struct device_record *d, const struct device_spec *spec)
{
    for (size_t i = 0; i < spec->n_devices; i++) {
        struct resolve_card view;
        const struct card_record *card = records_card(d, spec->devices[i].uuid);
        if (!card)
            continue;
        records_card_view(card, &view);
        if (!resolve_card_matches(&view, &spec->devices[i]))
            return false;
    }
    return true;
}

void wishes_ordered(struct wishes *w, const struct clock *clk, const struct node_view *v,
                    const char *node, const struct device_spec *spec)
{
    if (is_done(v->device, spec))
        return;
    HOLD(&w->mu);
    if (strmap_get(w->since, node))
        return;
    int64_t *since = xmalloc(sizeof(*since));
    *since = clock_mono_ms(clk);
    (void)strmap_put(w->since, node, since);
}

void wishes_note(struct wishes *w, const struct clock *clk, const struct node_view *v,
                 const char *node)
{
    const struct device_record *d = v->device;
    if (d && (d->observed_generation != v->generation || !is_done(d, &d->spec)))
        return;
    HOLD(&w->mu);
    auto_free int64_t *since = strmap_remove(w->since, node);
    if (since && d && w->time)
        metric_observe(w->time, (double)(clock_mono_ms(clk) - *since) / 1000);
}

struct wishes *wishes_free(struct wishes *w)
{
    if (!w)
        return NULL;
    size_t pos = 0;
    void *since;
    while (strmap_next(w->since, &pos, &(const char *){NULL}, &since))
        free(since);
    (void)strmap_free(w->since);
    (void)pthread_mutex_destroy(&w->mu);
    free(w);
    return NULL;
}
