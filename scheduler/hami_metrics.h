/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/err.h"
#include "base/sb.h"

#include "scheduler/view_snapshot.h"

/*
 * HAMi's scheduler metrics (cmd/scheduler/metrics.go, v2.10), told of what a view has, so that
 * dashboards and alerts of people who had HAMi go on. All of its families but those of MIG instances
 * and of its own build. docs/metrics.md has the differences. Pure.
 */

/* HAMi renamed all of them, and has the earlier names with --legacy-metrics. */
enum hami_names { HAMI_NONE, HAMI_CURRENT, HAMI_LEGACY, HAMI_BOTH };

/* "none", "current", "legacy", "both". ERR_INVALID. */
int hami_names_parse(const char *text, enum hami_names *ret, struct err *e) MUST_CHECK;

/* Appends the families in Prometheus' text format. What does not fit is dropped, and out overflows. */
void hami_metrics_write(const struct view_snapshot *s, enum hami_names names, struct sb *out);
