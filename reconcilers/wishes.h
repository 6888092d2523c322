/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/auto.h"
#include "base/clock.h"

#include "reconcilers/node_view.h"
#include "service/metrics.h"

/*
 * The time that the nodes' hardware takes to become what was ordered: the histogram
 * cleave_controller_wish_seconds. It runs from an order (Device.spec) that changes the hardware to
 * the status that shows the change done. An order that replaces one under way goes on with its
 * time. Only the leader orders, so only the leader measures, and nothing of changes that another
 * process ordered. Some 100 bytes for each node in change. Any thread; one mutex.
 */
struct wishes;

/* Registers the histogram with m, which is borrowed; NULL: nothing is measured. */
struct wishes *wishes_new(struct metrics *m);
/* Begins the time of a node whose spec was ordered; v: the node as it was before. */
void wishes_ordered(struct wishes *w, const struct clock *clk, const struct node_view *v,
                    const char *node, const struct device_spec *spec);
/* Ends the time of a node whose order is done. A node without a Device has no order. */
void wishes_note(struct wishes *w, const struct clock *clk, const struct node_view *v,
                 const char *node);
/* NULL allowed; returns NULL. */
struct wishes *wishes_free(struct wishes *w);
AUTO_DEFINE_PTR(wishes, struct wishes, wishes_free)
#define auto_wishes AUTO_PTR(wishes)
