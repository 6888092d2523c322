/* SPDX-License-Identifier: Apache-2.0 */
#include "nodeagent/loop/readings.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/log.h"
#include "base/xalloc.h"

void readings_init(struct readings *r, const struct clock *clk, struct rng *rng, int64_t resync_ms)
{
    assert(resync_ms > 0);
    *r = (struct readings){
        .clk = clk,
        .rng = rng,
        .resync_ms = resync_ms,
        .due = true,
        .backoff = {.base_ms = 1000, .cap_ms = 60000, .factor = 2, .jitter_pct = 20},
    };
}

void readings_tick(struct readings *r)
{
    r->due |= clock_mono_ms(r->clk) >= r->next_mono_ms;
}

void readings_begin(struct readings *r)
{
    r->due = false;
}

void readings_succeeded(struct readings *r, int64_t now_mono_ms, bool complete)
{
    free(TAKE(r->error));
    r->next_mono_ms = now_mono_ms + r->resync_ms;
    r->regular = complete;
    if (complete) {
        backoff_reset(&r->backoff);
        return;
    }
    int64_t pause_ms = backoff_next_ms(&r->backoff, r->clk, r->rng);
    if (pause_ms < r->resync_ms)
        r->next_mono_ms = now_mono_ms + pause_ms;
}

void readings_failed(struct readings *r, const char *reason, const struct err *why)
{
    assert(reason && why->kind);
    if (!r->error || strcmp(r->error, err_msg(why)) != 0)
        log_warn("Could not read the node", kv_err(why));
    xstr_set(&r->error, err_msg(why));
    r->reason = reason;
    r->regular = false;
    r->next_mono_ms = clock_mono_ms(r->clk) + backoff_next_ms(&r->backoff, r->clk, r->rng);
}

void readings_done(struct readings *r)
{
    free(r->error);
}
