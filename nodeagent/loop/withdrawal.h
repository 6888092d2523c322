/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "nodeagent/loop/reporting.h"

/*
 * The withdrawal of a card's devices before a change: what the change destroys leaves the offer
 * first, and the change waits until nobody counts on it any more.
 *  - Where the agent serves the kubelet: in the three steps of kubelet_link.h, the seal last.
 *  - Where another's device plugin does: the same, but a seal binds nobody, only the list counts.
 *  - Where there is no kubelet link, the controller publishes what the status offers: until it has
 *    confirmed that the Node follows a status that no longer offers it (reporting_confirmed),
 *    unless it withdrew that from the Node before it ordered the change.
 *
 * Which devices of which card are sealed is known here and in the kubelet link only. The loop's
 * thread only; never blocks.
 */
struct withdrawal {
    /* Borrowed. */
    const struct clock *clk;
    struct kubelet_link *kubelet; /* NULL: the controller publishes */
    const struct status_writer *status_writer;
    struct reporting *reporting;
};

/* True once nothing that the change in j->wish removes is still advertised; starts the withdrawal
 * otherwise. A change that removes nothing does not wait. Sets j->offered: the most that anyone may
 * still assume is available on the card, with true. */
bool withdrawal_advance(const struct withdrawal *w, struct card_track *t,
                        const struct gpu_card *card, const struct device_want *want,
                        struct agent_job *j);
/* The card waits for its withdrawal, for a bounded time. False: that time is over, and the attempt
 * has ended with the result `NotWithdrawn`, which is logged. */
bool withdrawal_await(const struct withdrawal *w, struct card_track *t,
                      const struct device_want *want, const struct card_track_clock *clock);

/* The number of the newest status that has done its work: on what it and those before it do not
 * offer, nobody counts any more. With a kubelet link that is the newest that the API server has
 * acknowledged, without one the newest that the controller has confirmed. 0: none. */
int64_t withdrawal_acked(const struct withdrawal *w);

/* Seals the devices of a card that its recovery may destroy. */
void withdrawal_seal_recovery(const struct withdrawal *w, const char *uuid,
                              const struct id_list *ids);
/* Seals slots until their CDI files exist, so that no other pod is granted them meanwhile. */
void withdrawal_seal_slots(const struct withdrawal *w, const struct slot_binding *b);
/* The job has ended: takes off the seal that was set for it. */
void withdrawal_unseal_job(const struct withdrawal *w, const struct agent_job *j);
/* Takes the seals off the cards whose attempt was given up or is no longer wanted. Every other card
 * keeps its seal until its own job ended: without it an MPS daemon that was ended for the change
 * would be started again. */
void withdrawal_unseal_idle(const struct withdrawal *w, const struct cards *cards,
                            const struct card_tracks *tracks, const struct jobs *jobs);
