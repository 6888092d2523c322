/* SPDX-License-Identifier: Apache-2.0 */
#include "nodeagent/offer/card_memo.h"

#include <string.h>

#include "nodeagent/mode/card_mode.h"

bool card_memo_drain_is_over(const struct card_memo *m, int64_t now_ms)
{
    return m->drain_deadline_ms && now_ms >= m->drain_deadline_ms;
}

bool card_memo_drains(const struct device_want *want, const struct card_memo *m, int64_t now_ms)
{
    return want && want->has_rollout && want->rollout.drain == API_DRAIN_EVICT &&
           !card_memo_drain_is_over(m, now_ms);
}

static const char *in_use_reason(const struct device_want *want, const struct card_memo *m,
                                 int64_t now_ms)
{
    if (!want || !want->has_rollout || want->rollout.drain != API_DRAIN_EVICT)
        return "InUse";
    return card_memo_drains(want, m, now_ms) ? "Draining" : "DrainTimeout";
}

static const char *unsupported_reason(const struct device_want *want)
{
    const char *reason = want ? card_mode_of((enum gpu_mode)want->mode)->unsupported : NULL;
    return reason ? reason : "Unsupported";
}

const char *card_memo_reason(const struct device_want *want, const struct card_memo *m,
                             int64_t now_ms)
{
    switch (m->result.outcome) {
    case TXN_APPLIED:
    case TXN_NOTHING_TO_DO:
        return "Applied";
    case TXN_IN_USE:
        return in_use_reason(want, m, now_ms);
    case TXN_ROLLED_BACK:
        return "RolledBack";
    case TXN_HELD:
        return "Held";
    case TXN_NOT_WITHDRAWN:
        return "NotWithdrawn";
    case TXN_INFEASIBLE:
        return strcmp(m->result.reason, "NotCapable") == 0 ? unsupported_reason(want)
               : *m->result.reason                         ? m->result.reason
                                                           : "Infeasible";
    case TXN_RESET_REQUIRED:
        return "ResetRequired";
    case TXN_REBOOT_REQUIRED:
        return "RebootRequired";
    case TXN_FAILED:
        return m->result.other_version ? "OtherVersion" : "ApplyFailed";
    }
    return "ApplyFailed";
}
