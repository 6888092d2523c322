/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a file of memory tells of itself to who gets its descriptor (cuda_store.h).
 *
 * Whoever has the descriptor can write there: what is read is looked at before it is believed.
 */
#pragma once

#include "sim/cuda_chunk.h"

enum head_kind { HEAD_PHYSICAL = 1, HEAD_POOL };

struct head {
    char magic[16];
    uint32_t kind; /* enum head_kind */
    uint32_t unused;
    char uuid[48]; /* of the device; "": it is the host's memory */
    uint64_t bytes;
    struct shared_name name;
    CUmemAllocationProp prop; /* where the device is the exporter's ordinal */
};

/* Writes it, but for the name; the device may be NULL. */
void head_write(const struct store_file *f, const struct head *head,
                const struct cuda_device *device);

/* A copy of a file's head; false when it is none of that kind, or the file is not as long. */
bool head_read(const struct store_file *f, enum head_kind kind, struct head *ret);

/* The ordinal here of the device that it names: CU_DEVICE_CPU for the host's memory,
 * CU_DEVICE_INVALID for a device that this process does not see. */
CUdevice head_device(const struct head *head);

/* The name in the file, which those that hold the memory change by cuda_hold. */
struct shared_name *head_name(const struct store_file *f);
