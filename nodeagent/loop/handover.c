/* SPDX-License-Identifier: Apache-2.0 */
#include "nodeagent/loop/handover.h"

#include <assert.h>

enum handover_phase handover_first(bool has_cards, bool is_alone)
{
    return has_cards && is_alone ? HANDOVER_WORKING : HANDOVER_STANDBY;
}

int64_t handover_due_mono_ms(enum handover_phase phase, int64_t since_mono_ms)
{
    if (phase == HANDOVER_SETTLING)
        return since_mono_ms + HANDOVER_SETTLING_MS;
    if (phase == HANDOVER_ENDING)
        return since_mono_ms + HANDOVER_ENDING_MS;
    return phase == HANDOVER_RELEASED ? since_mono_ms + HANDOVER_RELEASED_MS : INT64_MAX;
}

/* An agent for which no standby waits ends at once. */
static enum handover_phase asked(const struct handover_facts *f)
{
    return f->is_alone && f->is_awaited ? HANDOVER_ENDING : HANDOVER_OVER;
}

enum handover_phase handover_next(const struct handover_facts *f)
{
    bool is_due = f->now_mono_ms >= handover_due_mono_ms(f->phase, f->since_mono_ms);
    assert(!f->is_alone || f->has_cards || f->phase > HANDOVER_ENDING);
    switch (f->phase) {
    case HANDOVER_STANDBY:
        if (f->is_asked)
            return HANDOVER_OVER;
        return f->has_cards ? HANDOVER_TAKING : f->phase;
    case HANDOVER_TAKING:
        if (f->is_asked)
            return HANDOVER_OVER;
        return f->is_alone ? HANDOVER_SETTLING : f->phase;
    case HANDOVER_SETTLING:
        if (f->is_asked)
            return asked(f);
        return is_due ? HANDOVER_WORKING : f->phase;
    case HANDOVER_WORKING:
        return f->is_asked ? asked(f) : f->phase;
    case HANDOVER_ENDING:
        if (!f->has_jobs)
            return HANDOVER_RELEASED;
        return is_due ? HANDOVER_OVER : f->phase;
    case HANDOVER_RELEASED:
        if (f->is_succeeded) /* else the kubelet is to notice that nobody serves it */
            return f->is_served ? HANDOVER_PARTING : HANDOVER_OVER;
        return is_due ? HANDOVER_OVER : f->phase;
    case HANDOVER_PARTING:
        return f->has_parted ? HANDOVER_OVER : f->phase;
    case HANDOVER_OVER:
        break;
    }
    return f->phase;
}

bool handover_reads(enum handover_phase phase)
{
    return phase <= HANDOVER_WORKING;
}

bool handover_publishes(enum handover_phase phase)
{
    return phase >= HANDOVER_TAKING && phase <= HANDOVER_ENDING;
}

bool handover_recovers(enum handover_phase phase)
{
    return phase == HANDOVER_SETTLING || phase == HANDOVER_WORKING;
}

bool handover_changes(enum handover_phase phase)
{
    return phase == HANDOVER_WORKING;
}

bool handover_is_frozen(enum handover_phase phase)
{
    return phase >= HANDOVER_RELEASED;
}
