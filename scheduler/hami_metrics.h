/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/sb.h"

#include "interop/hami_names.h"
#include "scheduler/view_snapshot.h"

/*
 * HAMi's scheduler metrics (cmd/scheduler/metrics.go, v2.10), told of what a view has, so that
 * dashboards and alerts of people who had HAMi go on. All of its families but those of MIG instances
 * and of its own build. docs/metrics.md has the differences. Pure.
 */

/* Appends the families in Prometheus' text format. What does not fit is dropped, and out overflows. */
void hami_metrics_write(const struct view_snapshot *s, enum hami_names names, struct sb *out);
