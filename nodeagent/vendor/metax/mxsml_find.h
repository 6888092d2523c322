/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "nodeagent/vendor/metax/mxsml.h"

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
    struct mxsml_known *known; /* borrowed; NULL: it could not be identified, `why` says why */
    bool busy;                 /* another thread has it in hand: info is as last reported */
    struct err why;
};

struct mxsml_places {
    unsigned n;
    struct mxsml_place items[GPU_MAX_CARDS]; /* by index */
};

/* Finds the cards, inside the gate; leaves it and enters again where functions came or went since
 * the library was initialised. A card that does not answer is still listed. mine: the card in hand,
 * NULL: none; cards of other threads are not asked. Caller frees with mxsml_places_done, also on
 * failure. ERR_NOT_FOUND: no library, or no card; ERR_UNAVAILABLE: the counts contradict each
 * other; ERR_TOO_LARGE. */
int mxsml_find(struct mxsml *m, struct lib_pass *p, const struct mxsml_known *mine,
               struct mxsml_places *ret, struct err *e) MUST_CHECK;
void mxsml_places_done(struct mxsml_places *p);
AUTO_DEFINE(mxsml_places, struct mxsml_places, mxsml_places_done)
#define auto_mxsml_places AUTO(mxsml_places)

/* The card last seen at a number; NULL: none. Borrowed. */
const struct mxsml_known *mxsml_last_at(struct mxsml *m, unsigned dev);

/* The card of a uuid; NULL: none was seen. Borrowed. holds.mu is held. */
struct mxsml_known *mxsml_known_of(const struct mxsml *m, const char *uuid);

/* The virtual functions of a card. ERR_PROTOCOL: the list is impossible. */
int mxsml_list_vfs(struct mxsml *m, unsigned dev, struct mxsml_ids *ret, struct err *e) MUST_CHECK;

/* True when, for a card ever seen, the kernel's number of virtual functions changed since the last
 * call. */
bool mxsml_vfs_have_changed(struct mxsml *m);
