/* SPDX-License-Identifier: Apache-2.0 */
#include "nodeagent/telemetry/freshness.h"

#include "nodeagent/telemetry/page_text.h"

#define MS_OF_S 1000.0

static bool is_stale(const struct freshness *f, int64_t limit_ms, int64_t now_mono_ms)
{
    return f->failed || !f->is_read || now_mono_ms - f->read_mono_ms > limit_ms;
}

void freshness_write(const struct freshness *list, size_t n, int64_t limit_ms, int64_t now_mono_ms,
                     struct sb *out)
{
    static const char stale[] = "cleave_agent_telemetry_stale";
    static const char age[] = "cleave_agent_telemetry_age_seconds";
    if (n == 0)
        return;
    page_text_head(out, stale, "1 while the values of this card are older than they should be.",
                   /* is_counter= */ false);
    for (size_t i = 0; i < n; i++) {
        page_text_card(out, stale, list[i].index, list[i].uuid);
        sb_addf(out, " %d\n", is_stale(&list[i], limit_ms, now_mono_ms));
    }
    page_text_head(out, age, "Age of the values of this card.", /* is_counter= */ false);
    for (size_t i = 0; i < n; i++) {
        if (!list[i].is_read)
            continue;
        page_text_card(out, age, list[i].index, list[i].uuid);
        sb_addf(out, " %.3f\n", (double)(now_mono_ms - list[i].read_mono_ms) / MS_OF_S);
    }
}
