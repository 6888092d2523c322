/* SPDX-License-Identifier: Apache-2.0 */
/* Events, as nodes of graphs record them and wait for them. Guarded by the contexts' lock. */
#pragma once

#include "sim/cuda_queue.h"

/* Is it an event that a stream can record, or wait for? INVALID_HANDLE. */
CUresult event_check(CUevent handle, const struct stream *s, bool records);

/* An item of such an event that records it; NULL: there is no memory. */
struct work_item *event_record_item(CUevent handle);

/* The same to wait for what was recorded last; true and NULL: nothing was. */
bool event_wait_item(CUevent handle, struct work_item **ret);
