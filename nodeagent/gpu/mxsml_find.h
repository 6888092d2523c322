/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "nodeagent/gpu/mxsml.h"

/*
 * Finds out which of the library's devices are cards. Without virtual functions the cards are 0, 1,
 * 2, …. A card with virtual functions has another number, and its functions appear among the
 * devices; they are not cards here. In a virtual machine that was given a function, no physical
 * function is visible: there the functions are the cards.
 *
 * Card indices are the library's while no card has functions. While one has, they follow the bus
 * addresses, so that the other cards keep their indices.
 */

/* A card and its current number in the library. */
struct mxsml_place {
    unsigned dev;
    struct mxsml_info info;
    struct gpu_card *known; /* borrowed; NULL: the card could not be identified, `why` says why */
    struct err why;
};

struct mxsml_places {
    unsigned n;
    struct mxsml_place items[GPU_MAX_CARDS]; /* by index */
};

/* Finds the cards. Initialises the library again where functions came or went since the last time.
 * A card that does not answer is still listed. Caller frees with mxsml_places_done, also on
 * failure. ERR_NOT_FOUND: no library, or no card; ERR_UNAVAILABLE: the counts contradict each
 * other; ERR_TOO_LARGE. */
int mxsml_find(struct mxsml *m, struct mxsml_places *ret, struct err *e) MUST_CHECK;
/* The same, and points *ret_at (borrowed from *ret) to the card with this uuid. ERR_NOT_FOUND: no
 * card has it; ERR_UNAVAILABLE: no card that answers has it. */
int mxsml_find_one(struct mxsml *m, const char *uuid, struct mxsml_places *ret,
                   const struct mxsml_place **ret_at, struct err *e) MUST_CHECK;
void mxsml_places_done(struct mxsml_places *p);
AUTO_DEFINE(mxsml_places, struct mxsml_places, mxsml_places_done)
#define auto_mxsml_places AUTO(mxsml_places)

/* The card last seen at a number; NULL: none. Borrowed. */
const struct gpu_card *mxsml_last_at(const struct mxsml *m, unsigned dev);

/* The virtual functions of a card. ERR_PROTOCOL: the list is impossible. */
int mxsml_list_vfs(struct mxsml *m, unsigned dev, struct mxsml_ids *ret, struct err *e) MUST_CHECK;

/* True when, for a card ever seen, the kernel's number of virtual functions changed since the last
 * call. */
bool mxsml_vfs_have_changed(struct mxsml *m);
