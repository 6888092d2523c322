/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "partition/sgpu.h"

/*
 * The annotation of a Node from which HAMi's scheduler learns MetaX's cards, as MetaX's device
 * plugin writes it (HAMi pkg/device/metax/protocol.go, MetaxSDeviceInfo): a list of
 *    {uuid, bdf, model, totalDevCount, totalCompute, totalVRam, availableDevCount,
 *     availableCompute, availableVRam, numa, healthy, qosPolicy, linkZone}
 * with memory in MiB and compute in percent. HAMi reads an absent field as zero, so all are
 * written. HAMi subtracts from the totals what the pods that it has bound take; the totals
 * therefore exclude what foreign slices take. Cards that are joined by links have the same
 * linkZone, above 0. Pure.
 */
#define METAX_CARDS_ANNOTATION "metax-tech.com/node-gpu-devices"
#define METAX_CARDS_MAX_BYTES  (64 << 10) /* 1 KiB for each */
#define METAX_CARDS_MAX        64         /* cards of a node; further ones are left out */

/* Borrows everything. */
struct metax_card {
    const char *uuid, *pci_bus_id, *model; /* NULL: unknown */
    unsigned index;                        /* among the cards of its vendor */
    int64_t numa_node;                     /* negative: none */
    int64_t memory_mib;
    uint64_t linked;                 /* bit set: indexes of the cards that links join it to */
    const struct sgpu_state *slices; /* NULL: unknown */
    bool shown;                      /* its slices are made for pods */
    bool healthy;                    /* a pod may get a slice now */
};

/* The text for all of the vendor's cards of a node; cards that are not shown count for their links
 * only. NULL: no card is shown. Caller frees. */
char *metax_cards_text(const struct metax_card *cards, size_t n);
