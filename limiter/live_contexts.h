/* SPDX-License-Identifier: Apache-2.0 */
/* The contexts of this process that are not ended. A handle of one that is must not be used any
 * more. */
#pragma once

#include <stdbool.h>

#include "limiter/cuda_abi.h"

void live_contexts_add(CUcontext context, int card);
/* Before the context ends, or may. */
void live_contexts_remove(CUcontext context);

/* The only one that there is; NULL: there are more, or none. */
CUcontext live_contexts_only(void);

enum { LIVE_CONTEXTS_UNKNOWN = -2 };
/* The card of a context. */
int live_contexts_card(CUcontext context);

/* True where fn is true of all of a card; it is asked until it is not. None is removed meanwhile, and fn
 * may not come back here. */
bool live_contexts_all(int card, bool (*fn)(CUcontext context, void *arg), void *arg);
