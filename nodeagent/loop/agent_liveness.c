/* SPDX-License-Identifier: Apache-2.0 */
#include "nodeagent/loop/agent_liveness.h"

#include "service/liveness.h"

int agent_liveness_page(void *arg, struct sb *body)
{
    const struct agent_liveness *l = arg;
    const char *call = NULL;
    int64_t since_ms;
    int status = liveness_page(l->beats, body);
    if (worker_stuck(l->worker, &call, &since_ms))
        sb_addf(body, "%s, a call into the vendor's library, has not returned for %lld s\n", call,
                (long long)(clock_mono_ms(l->clk) - since_ms) / 1000);
    return status;
}
