/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "nodeagent/gpu/gpu.h"

/*
 * The parts of a card, whatever cut it: partitions, slices with quotas, or virtual functions. Pure
 * values that borrow from the card.
 */
struct card_part {
    /* Exactly one of the three is set. */
    const struct gpu_partition *mig;
    const struct sgpu_slice *slice;
    const struct gpu_vf *vf;
    const struct gpu_slice *device; /* the slice's device, for a slice */
};

/* The kind of a virtual function. */
#define CARD_PART_VF "vf"

/* The number of parts that exist. */
unsigned card_parts(const struct gpu_card *card);
/* The part at i, below card_parts: partitions in the order of card.partitions, slices in that of
 * card.sgpu, functions in that of card.vfs. */
struct card_part card_part_at(const struct gpu_card *card, unsigned i);

/* The kind of a part: "1g.10gb", the alias of a slice without its number, or "vf". False: the kind
 * is not known, or the slice was not ordered by kind. buf holds MIG_NAME_BYTES. */
bool card_part_kind(const struct gpu_card *card, const struct card_part *p, char *buf);
/* The kind for the status: as above, "sgpu" for a slice that was made for a pod, else "unknown".
 * buf holds MIG_NAME_BYTES. */
void card_part_name(const struct gpu_card *card, const struct card_part *p, char *buf);
/* True when this process or pod uses the part. */
bool card_part_is_used_by(const struct card_part *p, const struct gpu_process *by);
/* True when the part may be offered: it is not ill and not foreign. */
bool card_part_is_good(const struct card_part *p);
