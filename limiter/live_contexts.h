/* SPDX-License-Identifier: Apache-2.0 */
/* The contexts of this process that are not ended. A handle of one that is must not be used any
 * more. */
#pragma once

#include "limiter/cuda_abi.h"

void live_contexts_add(CUcontext context, int card);
/* Before the context ends, or may. */
void live_contexts_remove(CUcontext context);

/* The only one that there is; NULL: there are more, or none. */
CUcontext live_contexts_only(void);

enum { LIVE_CONTEXTS_UNKNOWN = -2 };
/* The card of a context. */
int live_contexts_card(CUcontext context);

/* Those of a card. None is removed meanwhile; fn may not come back here. */
void live_contexts_each(int card, void (*fn)(CUcontext context, void *arg), void *arg);
