/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/cuda_mark.h"

#include <stdlib.h>

struct mark_item {
    struct work_item item;
    struct mark *mark;
};

struct mark *mark_new(void)
{
    struct mark *m = calloc(1, sizeof(*m));
    if (m != NULL)
        m->refs = 1;
    return m;
}

void mark_unref(struct mark *m)
{
    if (m != NULL && --m->refs == 0)
        free(m);
}

static void set_done(struct mark *m, int64_t at_ns)
{
    if (!m->done)
        m->at_ns = at_ns;
    m->done = true;
}

/* NOLINTNEXTLINE(readability-non-const-parameter): work_item's. */
static CUresult perform_record(struct work_item *item, int64_t *at_ns)
{
    set_done(((struct mark_item *)item)->mark, *at_ns);
    return CUDA_SUCCESS;
}

/* Nobody waits for a record that will not come. */
static void end_record(struct work_item *item)
{
    struct mark *m = ((struct mark_item *)item)->mark;
    set_done(m, 0);
    mark_unref(m);
}

static bool is_recorded(const struct work_item *item)
{
    return ((const struct mark_item *)item)->mark->done;
}

static CUresult perform_wait(struct work_item *item, int64_t *at_ns)
{
    const struct mark *m = ((const struct mark_item *)item)->mark;
    if (m->at_ns > *at_ns)
        *at_ns = m->at_ns;
    return CUDA_SUCCESS;
}

static void end_wait(struct work_item *item)
{
    mark_unref(((struct mark_item *)item)->mark);
}

static struct work_item *new_item(struct mark *m, const struct work_item *as)
{
    struct mark_item *i = malloc(sizeof(*i));
    if (i == NULL)
        return NULL;
    *i = (struct mark_item){.item = *as, .mark = m};
    m->refs++;
    return &i->item;
}

struct work_item *mark_record_item(struct mark *m)
{
    static const struct work_item as = {.kind = WORK_INSTANT,
                                        .tells_others = true,
                                        .perform = perform_record,
                                        .end = end_record};
    return new_item(m, &as);
}

struct work_item *mark_wait_item(struct mark *m)
{
    static const struct work_item as = {.kind = WORK_INSTANT,
                                        .is_ready = is_recorded,
                                        .perform = perform_wait,
                                        .end = end_wait};
    return new_item(m, &as);
}
