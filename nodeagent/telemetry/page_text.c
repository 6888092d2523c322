/* SPDX-License-Identifier: Apache-2.0 */
#include "nodeagent/telemetry/page_text.h"

#include <inttypes.h>
#include <stdint.h>

#include "service/metrics.h"

enum { MAX_VALUE_BYTES = 512 };

/* The longest whole number that a double has exactly. */
#define MAX_WHOLE 9e15

void page_text_head(struct sb *out, const char *name, const char *help, bool is_counter)
{
    sb_addf(out, "# HELP %s ", name);
    for (const char *s = help; *s; s++)
        sb_addf(out, *s == '\\' ? "\\%c" : "%c", *s);
    sb_addf(out, "\n# TYPE %s %s\n", name, is_counter ? "counter" : "gauge");
}

void page_text_label(struct sb *out, const char *name, const char *value)
{
    auto_sb struct sb clean = SB_INIT(3 * (size_t)MAX_VALUE_BYTES);
    sb_add_utf8(&clean, value, MAX_VALUE_BYTES);
    sb_addf(out, ",%s=\"", name);
    metrics_add_label_value(out, sb_str(&clean));
    sb_add_char(out, '"');
}

void page_text_card(struct sb *out, const char *name, unsigned index, const char *uuid)
{
    sb_addf(out, "%s{gpu=\"%u\"", name, index);
    page_text_label(out, "UUID", uuid);
    sb_add_char(out, '}');
}

void page_text_value(struct sb *out, double value)
{
    if (value < MAX_WHOLE && value == (double)(int64_t)value)
        sb_addf(out, " %" PRId64 "\n", (int64_t)value);
    else
        sb_addf(out, " %.12g\n", value);
}
