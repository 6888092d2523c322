/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/err.h"

#include "nodeagent/card_offer.h"
#include "nodeagent/card_plan.h"
#include "nodeagent/gpu/gpu.h"

/*
 * Changes one card, whole or not at all. The order is: plan, look at the consumers once more,
 * journal, steps, read back, compare, close the journal. An error at any step puts the exact
 * old placements back (or holds, by policy); a kill at any point leaves a journal from which
 * txn_recover ends in the old layout or the target. Cards other than the one named are never
 * touched, and nothing in use is ever destroyed.
 *
 * All functions run on the thread that owns deps.gpu and block for as long as the hardware takes.
 */

enum txn_outcome {
    TXN_APPLIED,         /* the card shows the wish, read back and compared */
    TXN_NOTHING_TO_DO,   /* it did so before */
    TXN_IN_USE,          /* something uses what would have to go; nothing was changed */
    TXN_ROLLED_BACK,     /* a step failed; the old layout stands again, read back and compared */
    TXN_HELD,            /* a step failed and the policy is hold */
    TXN_NOT_WITHDRAWN,   /* something on offer would have to go; nothing was changed */
    TXN_INFEASIBLE,      /* the wish cannot stand on this card; nothing was changed */
    TXN_RESET_REQUIRED,  /* hold policy: the mode is pending and the card could not be reset */
    TXN_REBOOT_REQUIRED, /* the mode is pending and only a reboot of the machine makes it current;
                            what had to go before is gone */
    TXN_FAILED,          /* nothing was changed, or the journal stays and the next run goes on */
};

enum txn_policy { TXN_ROLLBACK, TXN_HOLD };

struct txn_result {
    enum txn_outcome outcome;
    char reason[32]; /* CamelCase, for a condition: Applied, InUse, RolledBack, JournalCorrupt … */
    char message[512];  /* for a person; names the call that failed and what to do */
    bool other_version; /* of FAILED: the journal is another release's, and waits for a person */
    bool changed;       /* the hardware was touched, so readers should look again */
    unsigned steps;     /* that were done, rollback not counted */
};

struct txn_deps {
    struct gpu *gpu;
    const char *state_dir; /* of the journals */
    const char *boot_id;   /* of the running kernel (gpu_inventory.boot_id) */
    /* Adds to a fresh reading the users that the driver cannot see (gpu_card_set_holders); NULL:
     * there are none. Called on the thread of the transaction. */
    void (*observe)(void *arg, struct gpu_card *card);
    void *arg;
    /* What others were told that they may have of the card: never destroyed, NOT_WITHDRAWN instead.
     * NULL: nobody was told anything. */
    const struct card_offer *offered;
};

/* Makes the card `uuid` match the wish. A journal left behind is recovered first; where that does
 * not work out, or a hold left it, the wish is planned from what stands, and the layout to go back
 * to stays the last one that stood whole. A damaged journal is FAILED, JournalCorrupt, once: it is
 * set aside. One of another version is FAILED with other_version, until it is gone: the card is not
 * touched, and the journal stays for the release that wrote it. All that can happen is told by
 * *ret; there is no other error. */
void txn_apply(const struct txn_deps *d, const char *uuid, const struct card_wish *wish,
               enum txn_policy policy, struct txn_result *ret);

/* Ends a change that a crash interrupted: forward to the target where possible, else back. After a
 * reboot the instances are gone with it, so the journal is dropped, as it is when somebody made
 * virtual functions of the card since. NOTHING_TO_DO without a
 * journal; HELD when the journal says so: nothing is touched. FAILED when both ways are blocked: by
 * what is in use, by what is on offer (d->offered), or by the hardware. */
void txn_recover(const struct txn_deps *d, const char *uuid, struct txn_result *ret);

/* "Applied", "InUse", … Static. */
const char *txn_outcome_name(enum txn_outcome o);
