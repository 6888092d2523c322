/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "nodeagent/container/container_vendor.h"

/*
 * How MetaX's devices get into a container: /dev/mxcd, /dev/mxnd and /dev/mxgd; the DRI nodes of
 * each card; and for a slice a variable:
 *
 *   METAX_SGPUS=sgpu=0000:05:00.0#3;compute=10;vram=1024;alias=train
 *
 * A virtual function has DRI nodes of its own, below its own bus address, and is given like a card.
 * The card's own nodes stay with the host, and no variable for a function is known. Libraries are
 * not mounted, because MetaX's images bring MACA. No variable is known that would make MetaX's
 * container runtime add device files.
 *
 * Source: MetaX's documentation of sGPU; for the variable a third party (GPUStack), which states
 * that it has not tried it on a card. How several slices are written is not documented anywhere;
 * joining the entries by ',' is a guess that was not tried on a card.
 */
extern const struct container_vendor container_metax;

/* Which of its files that belong to no card exist: its own ones in struct device_nodes. */
struct metax_files {
    bool mxcd, mxnd, mxgd;
};
