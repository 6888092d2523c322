/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/auto.h"
#include "base/clock.h"

#include "reconcilers/node_view.h"
#include "service/metrics.h"

/*
 * How long the nodes' hardware takes to become what was ordered: the histogram
 * cleave_controller_wish_seconds. Counted from the order (Device.spec) for which the hardware has
 * to change to the status that shows it done. An order that replaces one under way goes on with its
 * time. Only the leader orders, so only it counts; of changes that another process ordered nothing
 * is measured. Some 100 bytes for each node in change. Any thread; one mutex.
 */
struct wishes;

/* Registers the histogram with m, which is borrowed; NULL: nothing is measured. */
struct wishes *wishes_new(struct metrics *m);
/* The spec has been ordered; v: the node as it was before. */
void wishes_ordered(struct wishes *w, const struct clock *clk, const struct node_view *v,
                    const char *node, const struct device_spec *spec);
/* Looks whether the node's order is done. A node without a Device has none. */
void wishes_note(struct wishes *w, const struct clock *clk, const struct node_view *v,
                 const char *node);
/* NULL allowed; returns NULL. */
struct wishes *wishes_free(struct wishes *w);
AUTO_DEFINE_PTR(wishes, struct wishes, wishes_free)
#define auto_wishes AUTO_PTR(wishes)
