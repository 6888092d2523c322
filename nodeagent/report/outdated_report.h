/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>

#include "nodeagent/offer/node_state.h"

/* The condition that names containers whose grant is out of date (offer/outdated_grants.h). It is
 * there only while one is, and decides over no other: what runs has its device. */
#define OUTDATED_CONDITION "GrantsOutdated"

/* Sets the condition in ret->conditions, or removes it; leaves it as it is while it is not known, so
 * that a restart of the agent is no change. Pure. */
void outdated_report_build(const struct node_state *s, int64_t now_ms, struct device_status *ret);
