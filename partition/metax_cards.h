/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "partition/sgpu.h"

/*
 * The annotation of a Node by which HAMi's scheduler knows cards of MetaX: what MetaX's device
 * plugin writes there (HAMi pkg/device/metax/protocol.go, MetaxSDeviceInfo), a list of
 *     {uuid, bdf, model, totalDevCount, totalCompute, totalVRam, availableDevCount,
 *      availableCompute, availableVRam, numa, healthy, qosPolicy, linkZone}
 * with memory in MiB and compute in percent. HAMi reads what is absent as zero, so all are written.
 * It counts from the totals down by the pods that it has bound itself: what slices of others take
 * is therefore left out of the totals. Cards that are joined by links have the same linkZone, above
 * 0. Pure.
 */
#define METAX_CARDS_ANNOTATION "metax-tech.com/node-gpu-devices"
#define METAX_CARDS_MAX_BYTES  (64 << 10) /* 1 KiB for each */
#define METAX_CARDS_MAX        64         /* of a node; others are left out */

/* Borrows everything. */
struct metax_card {
    const char *uuid, *pci_bus_id, *model; /* NULL: not told */
    unsigned index;                        /* among the vendor's */
    int64_t numa_node;                     /* negative: none */
    int64_t memory_mib;
    uint64_t linked;                 /* bits: indexes of the cards that links join it to */
    const struct sgpu_state *slices; /* NULL: none are told */
    bool shown;                      /* its slices are made for pods */
    bool healthy;                    /* a pod may have one now */
};

/* The text for all of the vendor's cards of a node, those that are not shown for their links
 * alone; NULL: none is shown. Caller frees. */
char *metax_cards_text(const struct metax_card *cards, size_t n);
