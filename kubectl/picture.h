/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <jansson.h>

#include "api/device.h"
#include "partition/mig.h"

/* A picture of one card, as its Device shows it: parts side by side, in the order of their places.
 * Pure. */

enum part_state {
    PART_FREE,  /* it stands, and nobody has it */
    PART_USED,  /* a pod or a process has it */
    PART_ILL,   /* it must not be used */
    PART_UNCUT, /* room for parts that do not stand yet */
};

struct picture_part {
    char *name;      /* "1g.10gb"; "" for room */
    uint64_t weight; /* of the card: memory slices, or memory */
    enum part_state state;
    const struct device_partition *from; /* borrowed; NULL: the whole card, or room */
    int64_t replicas;                    /* of a part that containers share; 0: it is not shared */
    size_t free;                         /* how many containers can still have it */
};

struct picture {
    struct picture_part *parts;
    size_t n;
    char *room; /* what is free, in words: "1x 1g.10gb; room for 2g.20gb"; "" for nothing */
};

/* Makes the picture. table: of the card's model; NULL: no MIG. Borrows from the card. *ret is
 * overwritten. */
void picture_make(const struct device_card *card, const struct mig_table *table,
                  struct picture *ret);
void picture_done(struct picture *p);
AUTO_DEFINE(picture, struct picture, picture_done)
#define auto_picture AUTO(picture)

/* The users of a part. *ret_n: how many. Borrowed. */
const struct device_consumer *picture_users(const struct device_card *card,
                                            const struct picture_part *p, size_t *ret_n);
