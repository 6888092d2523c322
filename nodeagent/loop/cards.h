/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "nodeagent/change/card_view.h"
#include "nodeagent/health/health_watch.h"
#include "nodeagent/loop/agent_job.h"
#include "nodeagent/loop/kubelet_link.h"
#include "nodeagent/offer/shares.h"

/*
 * The node's cards as they are known now: each as it was read last, with its illness and its
 * holders marked on it. Whatever replaces a card here marks it again, so nobody ever sees a card
 * without its illness. The loop's thread only.
 */
struct cards {
    /* Set before the first use, borrowed. */
    struct health_watch *health;  /* NULL: health comes from readings alone */
    struct kubelet_link *kubelet; /* NULL: there is none, so nothing has a holder */
    bool serves_kubelet;          /* else the kubelet is only observed */

    /* To be read by anybody; changed by the functions here only. */
    bool read;               /* once all were read */
    struct card_view *items; /* owned; in the order of the newest reading */
    size_t n;
    struct gpu_inventory inventory; /* its cards array stays empty; the cards are in `items` */
    struct driver_view *driver;     /* owned; NULL: not read yet */
    struct shares shares;           /* on the cards, those included that are being made */
};

/* The card with this uuid, or NULL. Borrowed until the next reading of all. */
struct card_view *cards_find(const struct cards *c, const char *uuid);
/* True when some card was never read, or could not be read by the last reading of all. */
bool cards_has_unread(const struct cards *c);

/* Takes over a reading of all cards out of a READ job that succeeded. A card that could not be read
 * must not appear as an idle whole card: it keeps its last reading, with its new illness; one whose
 * view is marked `busy` just keeps its last reading. Hands the cards' connections and the driver's
 * files to the kubelet link. */
void cards_take_all(struct cards *c, struct agent_job *j);
/* Takes over one card that a job read back: *v is replaced by j->view. */
void cards_take_one(struct cards *c, struct card_view *v, struct agent_job *j);
/* Takes the driver's reports and marks the cards that they concern. */
struct health_news cards_take_reports(struct cards *c);
/* The holders changed, or slices were made or removed: marks the holders of all cards anew. */
void cards_mark_holders(struct cards *c);

/* Takes over the shares that an agent before made (those of a listing). Those that are known here
 * stay as they are. */
void cards_add_shares(struct cards *c, const struct shares *found);
/* The shares of a binding that begins. */
void cards_put_shares(struct cards *c, const struct slot_binding *b);
/* The slot was released. */
void cards_drop_share(struct cards *c, unsigned slot);

/* The slots whose slice or share exists on some card. */
struct device_slots cards_slots_made(const struct cards *c);
/* Adds the slots whose slice or share is on this card. */
void cards_add_slots_on(const struct cards *c, const struct gpu_card *card,
                        struct device_slots *ret);
/* The uuid of the card that has the slice or share of this slot; "": none shows it. Borrowed as
 * cards_find. */
const char *cards_uuid_of_slot(const struct cards *c, unsigned slot);
/* The device files that containers get; NULL: not known yet. Borrowed until the next reading. */
const struct device_nodes *cards_device_nodes(const struct cards *c);
/* The illness of the card that only an Xid reported, so that a transaction's own reading cannot
 * show it. NULL: none. Borrowed. */
const char *cards_remembered_illness(const struct cards *c, const char *uuid);

void cards_done(struct cards *c);
