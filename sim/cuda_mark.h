/* SPDX-License-Identifier: Apache-2.0 */
/* Marks in streams: how far one is, for who waits for it. Guarded by the contexts' lock. */
#pragma once

#include "sim/cuda_queue.h"

/* One record of an event, say: who waits for it does not wait for later ones. */
struct mark {
    unsigned int refs;
    bool done;
    int64_t at_ns;
};

/* A new one, with one reference; NULL: there is no memory. */
struct mark *mark_new(void);
void mark_unref(struct mark *m);

/* Items that make a mark done, and that wait for it; each has a reference. NULL: there is no memory. */
struct work_item *mark_record_item(struct mark *m);
struct work_item *mark_wait_item(struct mark *m);
