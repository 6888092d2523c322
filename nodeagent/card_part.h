/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "nodeagent/gpu/gpu.h"

/*
 * The parts of a card that stand and that containers can be given, whatever it was cut with: MIG
 * devices, slices with quotas, or virtual functions. Pure values that borrow from the card.
 */
struct card_part {
    /* One of three. */
    const struct gpu_partition *mig;
    const struct sgpu_slice *slice;
    const struct gpu_vf *vf;
    const struct gpu_slice *device; /* of the slice */
};

/* The kind of virtual functions. */
#define CARD_PART_VF "vf"

/* How many parts stand. */
unsigned card_parts(const struct gpu_card *card);
/* The i-th below that: MIG devices in the order of card.partitions, slices in that of card.sgpu,
 * functions in that of card.vfs. */
struct card_part card_part_at(const struct gpu_card *card, unsigned i);

/* What kind of part it is, "1g.10gb", the alias of a slice without its number, or "vf". False: the
 * kind is not known, or the slice is none that was asked for by a kind. buf holds MIG_NAME_BYTES.
 */
bool card_part_kind(const struct gpu_card *card, const struct card_part *p, char *buf);
/* The kind for the status: as above, "sgpu" for a slice that was made for a pod, else "unknown".
 * buf holds MIG_NAME_BYTES. */
void card_part_name(const struct gpu_card *card, const struct card_part *p, char *buf);
/* Is the part used by this process, or pod? */
bool card_part_is_used_by(const struct card_part *p, const struct gpu_process *by);
/* Is it one that others may be given, not ill and not somebody else's? */
bool card_part_is_good(const struct card_part *p);
