/* SPDX-License-Identifier: Apache-2.0 */
#include "base/heartbeat.h"

#include <assert.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/xalloc.h"

enum { NAME_BYTES = 32 };

/* A value that no clock returns: the activity is not busy. */
#define IDLE INT64_MIN

struct heartbeat {
    const struct clock *clk;
    char name[NAME_BYTES];
    int64_t bound_ms;
    _Atomic int64_t busy_since_mono_ms;
};

struct heartbeats {
    const struct clock *clk;
    struct heartbeat **beats;
    size_t n;
};

struct heartbeats *heartbeats_new(const struct clock *clk)
{
    struct heartbeats *set = xmalloc(sizeof(*set));
    set->clk = clk;
    return set;
}

struct heartbeat *heartbeat_add(struct heartbeats *set, const char *name, int64_t bound_ms)
{
    assert(bound_ms > 0);
    struct heartbeat *b = xmalloc(sizeof(*b));
    *XPUSH(set->beats, set->n) = b;
    b->clk = set->clk;
    b->bound_ms = bound_ms;
    atomic_init(&b->busy_since_mono_ms, IDLE);
    (void)snprintf(b->name, sizeof(b->name), "%s", name);
    return b;
}

void heartbeat_busy_from(struct heartbeat *b, int64_t mono_ms)
{
    if (b)
        atomic_store(&b->busy_since_mono_ms, mono_ms);
}

void heartbeat_busy(struct heartbeat *b)
{
    if (b)
        heartbeat_busy_from(b, clock_mono_ms(b->clk));
}

void heartbeat_idle(struct heartbeat *b)
{
    if (b)
        atomic_store(&b->busy_since_mono_ms, IDLE);
}

/* How long the present unit of work has taken; 0 while it waits. */
static int64_t busy_ms(const struct heartbeat *b)
{
    int64_t since = atomic_load(&b->busy_since_mono_ms);
    return since == IDLE ? 0 : clock_mono_ms(b->clk) - since;
}

bool heartbeat_is_stale(const struct heartbeat *b)
{
    return b && busy_ms(b) > b->bound_ms;
}

bool heartbeats_check(const struct heartbeats *set, struct sb *out)
{
    bool well = true;
    for (size_t i = 0; i < set->n; i++) {
        const struct heartbeat *b = set->beats[i];
        int64_t ms = busy_ms(b);
        if (ms <= b->bound_ms)
            continue;
        well = false;
        if (out)
            sb_addf(out, "%s hangs: no progress for %" PRId64 " s (limit %" PRId64 " s)\n", b->name,
                    ms / 1000, b->bound_ms / 1000);
    }
    return well;
}

struct heartbeats *heartbeats_free(struct heartbeats *set)
{
    if (!set)
        return NULL;
    for (size_t i = 0; i < set->n; i++)
        free(set->beats[i]);
    free(set->beats);
    free(set);
    return NULL;
}
