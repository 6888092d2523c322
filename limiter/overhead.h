/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a context takes of a card besides its allocations: as much as the terms say, which the agent
 * measures, and which may change while contexts stand.
 */
#pragma once

#include <stdbool.h>

/* A context more, or one less. False: there is no room for one. card -1: it is not counted. */
bool overhead_take(int card);
void overhead_give_back(int card);

/* Brings what was taken to what the terms say now. */
void overhead_follow(int card);
