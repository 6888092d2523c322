/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/err.h"

#include "nodeagent/change/card_offer.h"
#include "nodeagent/change/card_plan.h"
#include "nodeagent/gpu/gpu.h"

/*
 * Changes one card as a whole, or not at all. The order: read, plan, write the journal, look at the
 * users once more, take the steps, read back, compare, close the journal. A new user that the last
 * look finds ends the change before its first step.
 *  - An error at any step puts the exact old placements back (or holds, by policy).
 *  - A kill at any point leaves a journal, from which txn_recover ends in the old layout or the
 *    target.
 *  - Other cards are never touched. Nothing in use is ever destroyed.
 *
 * All functions run on a worker's thread that has the card in hand (gpu.h), and block for as long
 * as the hardware takes. card_plan.h plans and card_run.h takes the steps, there and back; the
 * journal keeps the layout to go back to (journal.h).
 */

enum txn_outcome {
    TXN_APPLIED,        /* the card matches the wish, read back and compared */
    TXN_NOTHING_TO_DO,  /* it matched before */
    TXN_IN_USE,         /* something that would have to go is in use; nothing was changed */
    TXN_ROLLED_BACK,    /* a step failed; the old layout is back, read back and compared */
    TXN_HELD,           /* a step failed, and the policy is to hold */
    TXN_NOT_WITHDRAWN,  /* something that would have to go is still on offer; nothing was changed */
    TXN_INFEASIBLE,     /* the wish cannot be carried out on this card; nothing was changed */
    TXN_RESET_REQUIRED, /* policy hold: the mode is pending, and the card could not be reset */
    TXN_REBOOT_REQUIRED, /* the mode is pending until the machine reboots; what had to go before it
                            is gone */
    TXN_FAILED,          /* nothing was changed, or the journal stays and the next run continues */
};

enum txn_policy { TXN_ROLLBACK, TXN_HOLD };

struct txn_result {
    enum txn_outcome outcome;
    char reason[32]; /* CamelCase, for a condition: Applied, InUse, RolledBack, JournalCorrupt … */
    char message[512];  /* for a person; names the call that failed and what to do */
    bool other_version; /* FAILED only: the journal is another release's; a person must act */
    bool changed;       /* the hardware was touched, so it must be read again */
    /* The end of an interrupted change that was found and ended first, for a person; static. NULL:
     * there was none, or it was dropped (a reboot, virtual functions), or its journal stays. */
    const char *recovered;
    unsigned steps; /* steps done, without those of a rollback */
};

struct txn_deps {
    struct gpu *gpu;
    const char *state_dir; /* holds the journals */
    const char *boot_id;   /* the running kernel's (gpu_inventory.boot_id) */
    /* Adds to a fresh reading the users that the driver cannot see (gpu_card_set_holders); NULL:
     * none. Called on the transaction's thread. */
    void (*observe)(void *arg, struct gpu_card *card);
    void *arg;
    /* The offer that the node still makes of the card. It is never destroyed; the outcome is
     * NOT_WITHDRAWN instead. NULL: nothing is advertised. */
    const struct card_offer *offered;
};

/* Makes the card `uuid` match the wish.
 *
 * A journal left behind is recovered first. Where recovery fails, or the policy held the change,
 * the wish is planned from the present layout; the layout to roll back to stays the last complete
 * one.
 *  - A damaged journal is set aside: FAILED with JournalCorrupt, once.
 *  - A journal of another version stays for the release that wrote it: FAILED with other_version,
 *    and the card is not touched, until the journal is gone.
 *
 * Every failure is in *ret; there is no other error. */
void txn_apply(const struct txn_deps *d, const char *uuid, const struct card_wish *wish,
               enum txn_policy policy, struct txn_result *ret);

/* Ends an interrupted change. It goes on in the direction that the journal names, forward to the
 * target or back; where that way is blocked, it takes the other.
 *
 * The journal is dropped after a reboot, since the instances are gone with it, and when virtual
 * functions were made on the card meanwhile.
 *  - APPLIED: the target stands. ROLLED_BACK: the old layout stands.
 *  - NOTHING_TO_DO: there is no journal, or it was dropped.
 *  - HELD: the journal says so; nothing is touched.
 *  - FAILED: both ways are blocked, by something in use, by what is on offer (d->offered), or by
 *    the hardware; or the journal cannot be used. */
void txn_recover(const struct txn_deps *d, const char *uuid, struct txn_result *ret);

/* "Applied", "InUse", … Static. */
const char *txn_outcome_name(enum txn_outcome o);
