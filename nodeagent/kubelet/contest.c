/* SPDX-License-Identifier: Apache-2.0 */
#include "nodeagent/kubelet/contest.h"

enum { CALM_MS = 900000, LOSSES = 3, STRANGE_LOOKS = 2 };

void contest_init(struct contest *c)
{
    *c = (struct contest){
        .pause = {.base_ms = 50, .cap_ms = 60000, .reset_after_ms = CALM_MS, .factor = 4}};
}

int64_t contest_lose(struct contest *c, const struct clock *clk, struct rng *rng)
{
    int64_t now = clock_mono_ms(clk);
    if (c->n_lost && now - c->lost_mono_ms > CALM_MS) {
        backoff_reset(&c->pause);
        c->n_lost = 0;
    }
    c->n_lost++;
    c->lost_mono_ms = now;
    return c->n_lost < LOSSES ? 0 : backoff_next_ms(&c->pause, clk, rng);
}

bool contest_look(struct contest *c, bool strange)
{
    c->n_strange = !strange ? 0 : c->n_strange < STRANGE_LOOKS ? c->n_strange + 1 : STRANGE_LOOKS;
    return strange && c->n_strange < STRANGE_LOOKS;
}

bool contest_is_on(const struct contest *c, const struct clock *clk)
{
    if (c->n_strange >= STRANGE_LOOKS)
        return true;
    return c->n_lost >= LOSSES && clock_mono_ms(clk) - c->lost_mono_ms <= CALM_MS;
}
