/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "nodeagent/change/card_view.h"
#include "nodeagent/loop/agent_job.h"
#include "nodeagent/offer/share.h"

/*
 * Which cards are wanted in the compute mode EXCLUSIVE_PROCESS (exclusive.h sets it on the worker's
 * thread, with the next reading). Pure but for the memory of the last reading. One thread.
 */
struct exclusive_wish {
    uint64_t last; /* bit per index: the cards wanted so when a reading was last asked for */
};

/* True when the card is whole, is to stay so, and is shared by MPS. want NULL: the spec does not
 * list it. */
bool exclusive_is_wanted(const struct share_rules *rules, const struct device_want *want,
                         const struct gpu_card *card);
/* Lists the cards that want it in a READ job. Only once the Device and the cards are known: before
 * that a starting agent must not take the mode back. */
void exclusive_wish_list(const struct share_rules *rules, const struct device_spec *spec,
                         const struct card_view *cards, size_t n, struct agent_job *j);
/* True when those cards differ from those of the call before; the first compares with none. */
bool exclusive_wish_changed(struct exclusive_wish *w, const struct share_rules *rules,
                            const struct device_spec *spec, const struct card_view *cards,
                            size_t n);
