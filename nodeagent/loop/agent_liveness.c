/* SPDX-License-Identifier: Apache-2.0 */
#include "nodeagent/loop/agent_liveness.h"

#include "service/liveness.h"

/* Between two calls of one job. */
#define QUIET_MS 300000

int agent_liveness_page(void *arg, struct sb *body)
{
    const struct agent_liveness *l = arg;
    const char *call = NULL;
    int64_t since_ms;
    int status = liveness_page(l->beats, body);
    int64_t quiet_ms = worker_quiet_ms(l->worker);
    if (quiet_ms > QUIET_MS) {
        sb_addf(body, "a job for the hardware hangs: no call into a vendor's library for %lld s\n",
                (long long)quiet_ms / 1000);
        status = 500;
    }
    if (worker_stuck(l->worker, &call, &since_ms))
        sb_addf(body, "%s, a call into the vendor's library, has not returned for %lld s\n", call,
                (long long)(clock_mono_ms(l->clk) - since_ms) / 1000);
    return status;
}
