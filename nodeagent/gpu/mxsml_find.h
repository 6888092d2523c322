/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "nodeagent/gpu/mxsml.h"

/*
 * Which of the library's devices are cards. Without virtual functions they are 0, 1, 2, …; a card
 * that has some goes by another number, and its functions stand among the cards: those are no cards
 * here. Where the machine is one to which a function was given through (no physical function is
 * seen), functions are all that there is, and so are its cards.
 *
 * Cards are counted as the library counts them while no card has functions, and by bus address
 * while one has, so that the others keep their numbers.
 */

/* A card where the library has it now. */
struct mxsml_place {
    unsigned dev;
    struct mxsml_info info;
    struct gpu_card *known; /* borrowed; NULL: it could not be told who it is, `why` says it */
    struct err why;
};

struct mxsml_places {
    unsigned n;
    struct mxsml_place items[GPU_MAX_CARDS]; /* by index */
};

/* Finds the cards, and looks at the hardware again where functions came or went since it was done
 * last. ERR_NOT_FOUND: no library, or no card; ERR_UNAVAILABLE: counts that cannot be;
 * ERR_TOO_LARGE. One that does not answer is among them. Caller frees with mxsml_places_done, also
 * on failure. */
int mxsml_find(struct mxsml *m, struct mxsml_places *ret, struct err *e) MUST_CHECK;
/* The same for whoever means the card of this uuid. ERR_NOT_FOUND: it is none of the cards;
 * ERR_UNAVAILABLE: none of those that answer. *ret_at is borrowed from *ret. */
int mxsml_find_one(struct mxsml *m, const char *uuid, struct mxsml_places *ret,
                   const struct mxsml_place **ret_at, struct err *e) MUST_CHECK;
void mxsml_places_done(struct mxsml_places *p);
AUTO_DEFINE(mxsml_places, struct mxsml_places, mxsml_places_done)
#define auto_mxsml_places AUTO(mxsml_places)

/* Who was at a number last; NULL: nobody. Borrowed. */
const struct gpu_card *mxsml_last_at(const struct mxsml *m, unsigned dev);

/* The virtual functions of a card. ERR_PROTOCOL: a list that makes no sense. */
int mxsml_list_vfs(struct mxsml *m, unsigned dev, struct mxsml_ids *ret, struct err *e) MUST_CHECK;

/* Has the kernel another number of virtual functions of any card that was ever seen than when this
 * was asked last? */
bool mxsml_vfs_have_changed(struct mxsml *m);
