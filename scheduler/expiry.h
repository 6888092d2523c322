/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "controller/controller.h"
#include "scheduler/view.h"

/* Ends assumptions whose time is over, so that pods which were refused meanwhile are tried again. */
struct expiry;

/* Hears of the view's assumptions from now on; both are borrowed, and outlive its workers. */
struct expiry *expiry_new(struct view *v, const struct clock *clk);
/* The workers, for the manager to run and free, before x is freed. */
struct controller *expiry_workers(struct expiry *x);
/* NULL allowed; returns NULL. */
struct expiry *expiry_free(struct expiry *x);
AUTO_DEFINE_PTR(expiry, struct expiry, expiry_free)
#define auto_expiry AUTO_PTR(expiry)
