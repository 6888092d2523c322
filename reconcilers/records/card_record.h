/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "api/device.h"
#include "partition/resolve.h"
#include "reconcilers/records/card_use.h"
#include "reconcilers/records/condition_record.h"

/* What the reconcilers keep of one card of a Device's status. */

/* A pod that a card waits for: known by uid (from its process) or by namespace and name (from the
 * kubelet). Unknown parts are NULL. */
struct drain_pod {
    char *uid, *ns, *name;
    int64_t since_ms; /* wall clock: no grant of what it holds since; 0: unknown */
};

/* A share that its container goes beyond. */
struct breach_record {
    int64_t since_ms; /* wall clock */
    char *ns, *pod, *container, *reason, *message;
};

struct card_record {
    char *uuid, *vendor, *model, *pci_bus_id;
    uint32_t pci_device_id, pci_subsystem_id;
    unsigned index;
    bool mig_capable, healthy;
    int mode;
    bool pending;              /* a mode change takes effect at the next reset */
    int64_t memory_mib, minor; /* minor -1: unknown */
    int numa_node;
    char *pcie_root;                  /* NULL: unknown */
    uint64_t linked;                  /* bit set: indexes of the cards linked to it */
    char *ill_reason, *ill_message;   /* NULL while healthy, or when not reported */
    int64_t ill_since_ms;             /* wall clock; 0 in the same cases */
    struct sgpu_state *sgpu;          /* owned; NULL: no sGPU */
    struct profile_count *partitions; /* the existing ones, by profile */
    size_t n_partitions;
    struct card_use use;
    struct condition_record applied;
    bool draining;
    int64_t drain_deadline_ms; /* wall clock; 0: none */
    struct drain_pod *drain_pods;
    size_t n_drain_pods;
    struct breach_record *breaches;
    size_t n_breaches;
};

/* Makes the record of a card. t: its model's MIG table, or NULL. It owns all of its texts
 * (card_record_done). */
void card_record_read(const struct device_card *c, const struct mig_table *t,
                      struct card_record *ret);
/* Replaces the parts that many cards have in common by shared ones. */
void card_record_share(struct card_record *r);
/* Releases the shared parts; the rest is the record's own, for card_record_done. */
void card_record_unshare(struct card_record *r);
void card_record_done(struct card_record *r);

/* The card in the resolver's shape, without its MIG table. Borrows everything. */
void records_card_view(const struct card_record *card, struct resolve_card *ret);
