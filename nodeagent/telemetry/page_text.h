/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>

#include "base/sb.h"

/* The parts of a page of telemetry in Prometheus' text format. Pure. */

/* Appends HELP and TYPE of a metric. */
void page_text_head(struct sb *out, const char *name, const char *help, bool is_counter);
/* Appends a label, with a comma before it. What is not UTF-8 in the value is replaced. */
void page_text_label(struct sb *out, const char *name, const char *value);
/* Appends the name and labels of a series about a card's values: its index and UUID. */
void page_text_card(struct sb *out, const char *name, unsigned index, const char *uuid);
/* Appends a series' value, and ends its line. */
void page_text_value(struct sb *out, double value);
