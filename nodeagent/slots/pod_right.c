/* SPDX-License-Identifier: Apache-2.0 */
#include "nodeagent/slots/pod_right.h"

#include <string.h>

#include "base/log.h"

enum { AGAIN_MS = 1000 };

const char pod_right_missing[] =
    "this node's agent may not read pods, which say how large their slices or shares "
    "are: install config/slots and label the Node gpu.cleave.dev.node-restriction.kubernetes.io/slots=true";

/* A name that no pod has: an agent that may read pods gets "not found" for it. */
static const char nobody[] = "_";

static void put_off_question(struct pod_right *r)
{
    r->due_mono_ms = clock_mono_ms(r->clk) + backoff_next_ms(&r->backoff, r->clk, r->rng);
}

/* Other failures than these two show nothing. */
void pod_right_note(struct pod_right *r, const struct pod_answer *a)
{
    bool asked = strcmp(a->name, nobody) == 0;
    if (!a->pod && a->err.kind == ERR_FORBIDDEN) {
        if (!r->forbidden)
            log_warn("Could not read pods: no slots are offered", kv("error", pod_right_missing));
        r->forbidden = true;
        if (asked || r->due_mono_ms == INT64_MAX)
            put_off_question(r);
    } else if (a->pod || a->err.kind == ERR_NOT_FOUND) {
        if (r->forbidden)
            log_info("Pods can be read: slices are offered");
        r->forbidden = false;
        r->due_mono_ms = INT64_MAX;
        backoff_reset(&r->backoff);
    } else if (asked) {
        put_off_question(r);
    }
}

void pod_right_ask(struct pod_right *r, bool needed)
{
    int64_t now = clock_mono_ms(r->clk);
    bool due = needed && (!r->asked || r->due_mono_ms <= now);
    r->asked = needed;
    if (!needed)
        r->due_mono_ms = INT64_MAX;
    if (!due)
        return;
    r->due_mono_ms = pod_reader_ask(r->pods, "default", nobody) ? INT64_MAX : now + AGAIN_MS;
}
