/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/auto.h"
#include "base/err.h"

#include "nodeagent/gpu/gpu_event.h"
#include "nodeagent/gpu/vitals.h"

/*
 * What Xids mean for the cards and instances that they are of, and when such an illness is over.
 * Pure: events and readings go in with their times, verdicts come out. What a reading says by
 * itself is vitals.h's; this is what has to be remembered between readings. One thread.
 *
 * An Xid makes ill what it names: one GPU instance, or the card where no instance is named or the
 * fault is in a part that all instances share. The driver is the arbiter of when it is over, since
 * it alone knows whether the hardware recovered. An illness ends when
 *  - the instance is gone, or was made again (none of its MIG UUIDs is left), or
 *  - the card shows that it was reset (vitals_show_reset), or was lost and can be read again, or
 *  - settle_ms after the last such Xid a reading tells that the driver asks for no recovery; a card
 *    that fell off the bus needs only to be read, and
 *  - of an Xid that the table does not know, on a driver that names no recovery action (before
 *    570), hold_ms after the last one: nothing else would ever end it.
 * A reading counts by when it began.
 *
 * Source of the table: NVIDIA's Xid catalogue, docs.nvidia.com/deploy/xid-errors, "Analyzing Xid
 * Errors with the Xid Catalog", its immediate actions. What NVIDIA's device plugin ignores (13, 31,
 * 43, 45, 68, 109; k8s-device-plugin internal/rm/health.go) is ignored here too: 109 would be a
 * reset by the catalogue, and the driver asks for it when one is needed.
 */

enum xid_effect {
    XID_IGNORED, /* the program's own fault, or for information */
    XID_LOOK,    /* a reading tells what it means: a recovery action, a remapping */
    XID_SUSPECT, /* not in the table: ill where it happened */
    XID_RESET,   /* ill until a reset, where it happened */
    XID_REBOOT,  /* ill until the machine or the card's bus comes up again */
};

/* What an Xid does by the table alone. */
enum xid_effect xid_effect(uint64_t xid);
/* Is what it reports a fault of something that all instances of a card share? */
bool xid_concerns_card(uint64_t xid);
/* A few words for people; "" for an Xid that the table does not know. Static. */
const char *xid_words(uint64_t xid);

/* Overrides of the table, a bit for each Xid below XID_MAX. */
enum { XID_MAX = 1024 };
struct health_options {
    bool no_xids;                /* Xids make nobody ill */
    uint8_t ignore[XID_MAX / 8]; /* these do not */
    uint8_t heed[XID_MAX / 8];   /* these do, whatever else is said */
    int64_t settle_ms, hold_ms;  /* 0: a minute; ten minutes */
};

/* The environment of NVIDIA's device plugin: DP_DISABLE_HEALTHCHECKS ("all", "xids", or Xids
 * separated by commas; adds to those that are ignored anyway) and DP_ENABLE_HEALTHCHECKS (Xids;
 * wins over both). NULL and "" say nothing. ERR_INVALID names a word that is neither; what else is
 * said is taken all the same. */
int health_options_parse(const char *disable, const char *enable, struct health_options *ret,
                         struct err *e);

struct health;
/* Options are copied; NULL: none. Caller frees. */
struct health *health_new(const struct health_options *o);
struct health *health_free(struct health *h); /* NULL allowed; returns NULL */
AUTO_DEFINE_PTR(health, struct health, health_free)
#define auto_health AUTO_PTR(health)

/* Takes an Xid that happened at now_mono_ms. card is how the card was read last, NULL when there is
 * none such (then only a reading can tell more). Returns what it did: XID_IGNORED when nothing. */
enum xid_effect health_xid(struct health *h, const struct gpu_card *card,
                           const struct gpu_event *ev, int64_t now_mono_ms);

/* Takes a reading of a card that began at began_mono_ms: ends what is over. A card that was not
 * read (card->unread) ends nothing. */
void health_reading(struct health *h, const struct gpu_card *card, int64_t began_mono_ms);
/* Forgets the cards that are not among these. */
void health_keep(struct health *h, const char *const *uuids, size_t n);

/* Marks in the card what is ill by what is remembered; takes back nothing that the reading said. */
void health_apply(const struct health *h, struct gpu_card *card);

/* Why an instance is ill, as a condition's reason (static) and a message; false: it is not, or only
 * with its whole card. The message is borrowed until h is given something new. */
bool health_instance(const struct health *h, const char *uuid, unsigned gi_id,
                     const char **ret_reason, const char **ret_message);
/* The same of a card as a whole. */
bool health_card(const struct health *h, const char *uuid, const char **ret_reason,
                 const char **ret_message);
