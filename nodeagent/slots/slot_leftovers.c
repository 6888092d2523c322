/* SPDX-License-Identifier: Apache-2.0 */
#include "nodeagent/slots/slot_leftovers.h"

#include <assert.h>
#include <stdlib.h>

#include "base/log.h"
#include "base/xalloc.h"

#include "nodeagent/container/slot_pool.h"

enum { AGAIN_MS = 1000 };

void slot_leftovers_add(struct slot_leftovers *l, unsigned slot)
{
    assert(slot < SLOT_MAX);
    for (size_t i = 0; i < l->n; i++)
        if (l->items[i].slot == slot)
            return;
    *XPUSH(l->items, l->n) = (struct slot_leftover){.slot = slot, .backoff = l->retry};
    assert(l->n <= SLOT_MAX); /* each slot once */
}

void slot_leftovers_drop(struct slot_leftovers *l, unsigned slot)
{
    for (size_t i = l->n; i-- > 0;)
        if (l->items[i].slot == slot && !l->items[i].runs)
            l->items[i] = l->items[--l->n];
}

void slot_leftovers_put_off(struct slot_leftovers *l)
{
    int64_t now = clock_mono_ms(l->clk);
    for (size_t i = 0; i < l->n; i++)
        if (l->items[i].due_mono_ms <= now)
            l->items[i].due_mono_ms = now + AGAIN_MS;
}

bool slot_leftovers_next(struct slot_leftovers *l, const struct slot_questions *q,
                         const struct device_slots *made, unsigned *ret)
{
    int64_t now = clock_mono_ms(l->clk);
    for (size_t i = l->n; i-- > 0;)
        if (l->items[i].done && !device_slots_has(made, l->items[i].slot))
            l->items[i] = l->items[--l->n];
    for (unsigned slot = 0; slot < SLOT_MAX; slot++)
        if (device_slots_has(made, slot) && !q->is_held(q->arg, slot))
            slot_leftovers_add(l, slot);
    for (size_t i = 0; i < l->n; i++) {
        assert(!l->items[i].runs || !l->items[i].done);
        struct slot_leftover *o = &l->items[i];
        if (o->runs || o->due_mono_ms > now)
            continue;
        if (q->is_held(q->arg, o->slot)) {
            o->due_mono_ms = now + AGAIN_MS; /* a grant that leads to nothing ends by itself */
            continue;
        }
        if (!q->may_begin(q->arg, o->slot))
            continue;
        o->runs = true;
        o->done = false;
        *ret = o->slot;
        return true;
    }
    return false;
}

void slot_leftovers_released(struct slot_leftovers *l, unsigned slot, const struct err *err)
{
    char name[SLOT_WORD_BYTES];
    for (size_t i = 0; i < l->n; i++) {
        struct slot_leftover *o = &l->items[i];
        if (o->slot != slot)
            continue;
        assert(o->runs);
        o->runs = false;
        o->failed = err;
        o->done = !err;
        o->due_mono_ms = clock_mono_ms(l->clk) + backoff_next_ms(&o->backoff, l->clk, l->rng);
        if (err)
            log_warn("Could not release a slot", kv("slot", slot_name(slot, name)), kv_err(err));
        return;
    }
    assert(false && "what is released stays in the list meanwhile");
}

void slot_leftovers_sick(const struct slot_leftovers *l, const struct device_slots *made,
                         struct device_slots *ret)
{
    for (size_t i = 0; i < l->n; i++) {
        const struct slot_leftover *o = &l->items[i];
        if (o->failed || (o->done && device_slots_has(made, o->slot)))
            device_slots_put(ret, o->slot);
    }
}

int64_t slot_leftovers_due_mono_ms(const struct slot_leftovers *l, int64_t after_mono_ms)
{
    int64_t due = INT64_MAX;
    for (size_t i = 0; i < l->n; i++) {
        const struct slot_leftover *o = &l->items[i];
        if (!o->runs && o->due_mono_ms > after_mono_ms && o->due_mono_ms < due)
            due = o->due_mono_ms;
    }
    return due;
}

void slot_leftovers_done(struct slot_leftovers *l)
{
    free(l->items);
    l->items = NULL;
    l->n = 0;
}
