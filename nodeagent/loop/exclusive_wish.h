/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "nodeagent/change/card_view.h"
#include "nodeagent/loop/jobs.h"
#include "nodeagent/offer/mps_cards.h"

/*
 * Which cards are wanted in the compute mode EXCLUSIVE_PROCESS, and which one the worker has to
 * look at next (exclusive.h sets the mode, in a COMPUTE_MODE job). Pure but for the memory of the
 * last look. One thread.
 */
struct exclusive_wish {
    struct exclusive_look {
        char uuid[GPU_UUID_BYTES];
        bool wanted;
        bool again; /* a reading came since, so a failed attempt is repeated */
    } * looks;      /* owned; each card once */
    size_t n;
};

/* True when the card is whole, is to stay so, and is shared by MPS: in replicas, or in shares all of
 * which are clients. want NULL: the spec does not list it. */
bool exclusive_is_wanted(const struct share_facts *facts, const struct device_want *want,
                         const struct gpu_card *card);
/* The card whose mode is to be looked at next; NULL: none. That is a card
 *  - that was not looked at yet, since an earlier agent may have set its mode;
 *  - whose want has changed;
 *  - or that a new reading shows in another mode than is wanted.
 * Cards in a job's hands are left out. To be called once the Device and the cards are known: before
 * that a starting agent must not take the mode back. Sets *ret_wanted
 * and remembers the look. Borrows from cards. */
const struct card_view *exclusive_wish_next(struct exclusive_wish *w,
                                            const struct share_facts *facts,
                                            const struct device_spec *spec,
                                            const struct cards *cards, const struct jobs *jobs,
                                            bool *ret_wanted);
/* All cards were read again. */
void exclusive_wish_read(struct exclusive_wish *w);
void exclusive_wish_done(struct exclusive_wish *w);
