/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/backoff.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/rng.h"

#include "nodeagent/offer/holders.h"
#include "nodeagent/offer/shares.h"
#include "nodeagent/slots/pod_reader.h"

/*
 * The pods that HAMi's device plugin gave cards to before this agent served the kubelet, and that
 * run on. The kubelet keeps HAMi's identifiers for them, which do not tell the card: HAMi's
 * scheduler chooses one, and the kubelet any identifier (HAMi#1741). The annotation that HAMi's
 * scheduler wrote tells, so each such pod is read once. Its shares stand until the kubelet no longer
 * lists it; nothing is written for them, and nothing of the pod changes.
 *
 * Until all are known, each may be on any card. The annotation is believed of these pods alone:
 * a pod cannot choose its identifiers at the kubelet. State on the loop's thread.
 */
struct adopted_pod {
    char *ns, *name;
    char *uid; /* KNOWN */
    enum { ADOPTED_NEW, ADOPTED_ASKED, ADOPTED_KNOWN } state;
    struct adopted_share *shares; /* KNOWN; ns and pod borrow the above */
    size_t n_shares;
    char *trouble; /* why it is not known; NULL: none */
    bool news;     /* the trouble was not reported yet */
    struct backoff backoff;
    int64_t due_mono_ms; /* NEW: when it is read; 0: now */
};

struct adopted {
    struct adopted_pod *items; /* owned */
    size_t n;
    /* The uids of pods with such an identifier that the kubelet does not name, as where an init
     * container had it. Owned. */
    char **uids;
    size_t n_uids;
    bool changed; /* since adopted_shares */
};

/* Takes the holders after they changed. */
void adopted_follow(struct adopted *a, const struct holders *h);
/* Asks for the pods that are due. */
void adopted_ask(struct adopted *a, struct pod_reader *pods, const struct clock *clk);
/* Takes the reader's answer, if it is about one of them. node: this node's name. */
void adopted_take(struct adopted *a, const struct pod_answer *answer, const char *node,
                  const struct clock *clk, struct rng *rng);
/* Puts the shares of the known pods into ret->adopted, and into ret->is_adopting whether some pod is
 * not known. False: nothing changed since the last call, and *ret is untouched. */
bool adopted_shares(struct adopted *a, struct shares *ret);
/* When adopted_ask has something to do; INT64_MAX: never. */
int64_t adopted_due_mono_ms(const struct adopted *a);
/* The next pod whose trouble was not reported; NULL: none. Borrowed. */
const struct adopted_pod *adopted_news(struct adopted *a);
void adopted_done(struct adopted *a);
