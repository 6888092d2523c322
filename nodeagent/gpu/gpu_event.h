/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>

#include "nodeagent/gpu/gpu.h"

/*
 * Something that the driver reported of one card, as a plain value: it also travels through a pipe
 * between two processes of the same program, at most PIPE_BUF bytes and so in one piece.
 */
enum gpu_event_kind {
    GPU_EVENT_WATCHED,   /* events of this card are waited for from now on */
    GPU_EVENT_UNWATCHED, /* they cannot be: code is NVML's return code */
    GPU_EVENT_XID,       /* code is the Xid */
    GPU_EVENT_OTHER,     /* the card is to be read again: memory errors, a recovery action… */
};

struct gpu_event {
    enum gpu_event_kind kind;
    int gi_id, ci_id; /* -1: the whole card, or not told */
    uint64_t code;
    char uuid[GPU_UUID_BYTES]; /* "": a card that could not be named */
};
