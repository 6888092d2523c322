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
 * The meaning of an Xid for the health of a card or an instance, and when such an illness is over.
 * Pure: events and readings go in with their times, illnesses come out. This module remembers
 * between readings; what a single reading shows by itself is in vitals.h. One thread.
 *
 * An Xid makes ill what it names: one GPU instance; or the card, where it names no instance or
 * reports a fault in something that all instances share. The driver decides when the illness is
 * over, since it alone knows whether the hardware recovered. An illness ends when
 *  - the instance is gone, or was made again (none of its MIG UUIDs is left), or
 *  - the card shows that it was reset (vitals_show_reset), or was lost and can be read again, or
 *  - settle_ms after the last such Xid a reading shows that the driver asks for no recovery; a card
 *    that fell off the bus only needs to be read, or
 *  - hold_ms after the last one, for an Xid that is not in the table and a driver that names no
 *    recovery action (before 570): nothing else would ever end it.
 *
 * The time of a reading is the time at which it began.
 *
 * Source of the table: NVIDIA's Xid catalogue, docs.nvidia.com/deploy/xid-errors, "Analyzing Xid
 * Errors with the Xid Catalog", its immediate actions. Of the Xids that NVIDIA's device plugin
 * ignores (k8s-device-plugin internal/rm/health.go), 13, 31, 43, 45 and 68 are ignored here too.
 * Xid 109 calls for a reading: by the catalogue it would need a reset, and the driver asks for one
 * itself when it is needed.
 */

enum xid_effect {
    XID_IGNORED, /* an error of the program, or for information */
    XID_LOOK,    /* a reading decides: a recovery action, a remapping */
    XID_SUSPECT, /* not in the table: its card or instance is ill */
    XID_RESET,   /* its card or instance is ill until a reset */
    XID_REBOOT,  /* ill until the machine or the card's bus comes up again */
};

/* The effect of an Xid by the table alone. */
enum xid_effect xid_effect(uint64_t xid);
/* True when the Xid reports a fault of something that all instances of a card share. */
bool xid_concerns_card(uint64_t xid);
/* A few words for a person; "" for an Xid that is not in the table. Static. */
const char *xid_words(uint64_t xid);

/* Overrides of the table, a bit for each Xid below XID_MAX. */
enum { XID_MAX = 1024 };
struct health_options {
    bool no_xids;                /* no Xid makes anything ill */
    uint8_t ignore[XID_MAX / 8]; /* these Xids make nothing ill */
    uint8_t heed[XID_MAX / 8];   /* these Xids make ill in spite of no_xids and ignore */
    int64_t settle_ms, hold_ms;  /* 0: one minute; ten minutes */
};

/* Parses the environment of NVIDIA's device plugin: DP_DISABLE_HEALTHCHECKS ("all", "xids", or Xids
 * separated by commas, added to those ignored by default) and DP_ENABLE_HEALTHCHECKS (Xids; wins
 * over both). NULL and "" mean not set. ERR_INVALID names a word that is neither; the rest is
 * applied all the same. */
int health_options_parse(const char *disable, const char *enable, struct health_options *ret,
                         struct err *e);

struct health;
/* Options are copied; NULL: none. Caller frees. */
struct health *health_new(const struct health_options *o);
struct health *health_free(struct health *h); /* NULL allowed; returns NULL */
AUTO_DEFINE_PTR(health, struct health, health_free)
#define auto_health AUTO_PTR(health)

/* Takes an Xid that happened at now_mono_ms. card is the card's last reading; NULL: it was never
 * read, then the Xid only calls for a reading. Returns the effect, XID_IGNORED when there was
 * none. */
enum xid_effect health_xid(struct health *h, const struct gpu_card *card,
                           const struct gpu_event *ev, int64_t now_mono_ms);

/* The newest Xid of the card, a harmless one, too; 0: none since it is known. */
uint64_t health_last_xid(const struct health *h, const char *uuid);

/* Takes a reading of a card that began at began_mono_ms, and ends the illnesses that are over. A
 * card that could not be read (card->unread) ends none. */
void health_reading(struct health *h, const struct gpu_card *card, int64_t began_mono_ms);
/* Forgets all cards but these. */
void health_keep(struct health *h, const char *const *uuids, size_t n);

/* Marks the remembered illnesses in the card. It never clears a mark of the reading itself. */
void health_apply(const struct health *h, struct gpu_card *card);

/* Why an instance is ill by itself: a condition's reason (static) and a message. False: it is not
 * ill, or only together with its card. The message is borrowed until the next change of h. */
bool health_instance(const struct health *h, const char *uuid, unsigned gi_id,
                     const char **ret_reason, const char **ret_message);
/* The same for a card as a whole. */
bool health_card(const struct health *h, const char *uuid, const char **ret_reason,
                 const char **ret_message);
