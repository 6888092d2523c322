/* SPDX-License-Identifier: Apache-2.0 */
#include "nodeagent/loop/agent_events.h"

#include <string.h>

#include "base/log.h"
#include "base/xalloc.h"

#include "partition/vendor.h"
#include "service/resources.h"

void agent_event(const struct agent_events *ev, bool warning, const char *reason,
                 const char *message)
{
    const struct event_about node = {.resource = &resource_nodes,
                                     .name = ev->node,
                                     .uid = ev->node};
    recorder_event_about(ev->recorder, &node, warning, reason, "%s", message);
}

void agent_events_result(const struct agent_events *ev, const struct card_view *v,
                         const struct txn_result *was, const struct card_memo *memo,
                         const struct device_want *want)
{
    const struct txn_result *now = &memo->result;
    if (was->outcome == now->outcome && strcmp(was->message, now->message) == 0 && !now->changed)
        return;
    bool good = now->outcome == TXN_APPLIED || now->outcome == TXN_NOTHING_TO_DO;
    log_info("Applied a layout", kv("gpu", v->card.uuid),
             kv("outcome", txn_outcome_name(now->outcome)), kv("message", now->message),
             kv_int("steps", now->steps));
    if (good && !now->changed)
        return;
    auto_free char *layout = card_layout_words(&v->card);
    auto_free char *state = xasprintf("now %s", layout);
    auto_free char *text = xasprintf("%s GPU %u: %s", vendor_title(v->card.vendor), v->card.index,
                                     good && !v->outdated ? state : now->message);
    const char *reason = card_memo_reason(want, memo, clock_wall_ms(ev->clk));
    agent_event(ev, !good, good ? "Repartitioned" : reason, text);
}

void agent_events_unbound(const struct agent_events *ev, struct late_binding *slots)
{
    struct unbound u;
    while (late_binding_news(slots, &u)) {
        auto_free char *text =
            xasprintf("pod %s/%s%s%s: %s", u.ns, u.pod, u.container ? ", container " : "",
                      u.container ? u.container : "", u.why);
        agent_event(ev, /* warning= */ true, u.of_shares ? "ShareNotMade" : "SliceNotMade", text);
    }
}
