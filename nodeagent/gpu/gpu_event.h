/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>

#include "nodeagent/gpu/gpu.h"

/*
 * An event that the driver reported of one card, as a plain value. It also travels through a pipe
 * between two processes of this program; it has at most PIPE_BUF bytes, so it arrives in one piece.
 */
enum gpu_event_kind {
    GPU_EVENT_WATCHED,   /* the driver's events of this card are awaited from now on */
    GPU_EVENT_UNWATCHED, /* they cannot be awaited: code is the driver's error */
    GPU_EVENT_XID,       /* code is the Xid */
    GPU_EVENT_OTHER,     /* the card must be read again: memory errors, a recovery action… */
};

/* The code of a card that cannot be watched because it is lost; every vendor's events use it. */
enum { GPU_EVENT_CODE_LOST = 15 };

struct gpu_event {
    enum gpu_event_kind kind;
    int gi_id, ci_id; /* -1: the whole card, or not reported */
    uint64_t code;
    char uuid[GPU_UUID_BYTES]; /* "": a card that could not be identified */
};
