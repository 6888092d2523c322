/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/auto.h"

#include "nodeagent/audit/process_id.h"

/*
 * Judges whether the container of a limited share keeps to it, by what the driver reports of its
 * processes. What the container says of itself (usage) counts for two things: which of its processes
 * the limiter is in, and how much their contexts take besides. Neither can make it appear to use
 * less than it does; what is let pass for contexts is bounded. Pure.
 *
 * One reading alone is no verdict: memory that was just freed is still shown, and a process that
 * ends has left usage before it has left the card.
 */

/* A process of a share's container on the share's card. */
struct audit_process {
    struct process_id id;
    char name[64];
    uint64_t bytes;     /* that the driver reports; 0: it reports none */
    bool is_limited;    /* usage has it */
    uint64_t own_bytes; /* limited: what it says to have taken besides its contexts */
    uint64_t contexts;  /* limited: how many it says to have; 0: it does not say */
};

/* A share with a limit, as a reading shows it. Borrows the processes. */
struct audit_share {
    uint64_t limit_bytes;
    uint64_t context_bytes; /* what its terms say that a context takes */
    bool is_driven;         /* the driver holds it as well: nobody needs the limiter */
    bool ends;              /* what exceeds it is ended (onExceed: kill) */
    const struct audit_process *processes;
    size_t n;
};

/* What is remembered of a process. */
struct audit_seen {
    unsigned pid;
    uint64_t started;
    bool is_limited;
    int64_t since_mono_ms; /* that it is, or is not, at each reading */
    bool was_there;        /* the reading before showed it, too ... */
    bool is_steady;        /* ... with the same amounts */
    uint64_t bytes, own_bytes;
    bool is_unlimited; /* it has been without the limiter for long enough */
};

/* What the readings until now showed of one share. {0}: there was none. Owned: share_audit_done. */
struct share_audit {
    uint64_t used_bytes;
    uint64_t let_bytes;     /* the limit, and what is let pass for contexts */
    uint64_t context_bytes; /* what the terms are to say that a context takes */
    size_t n_processes;
    size_t n_unlimited;            /* processes without the limiter */
    bool is_over;                  /* it uses more than it is let */
    bool exceeds;                  /* the newest reading showed more, as all have ... */
    int64_t exceeds_since_mono_ms; /* ... since then, or since processes were to be ended */
    struct audit_seen *seen; /* n_processes of them, in the order of the newest reading; owned */
};
void share_audit_done(struct share_audit *a);
AUTO_DEFINE(share_audit, struct share_audit, share_audit_done)
#define auto_share_audit AUTO(share_audit)

/* The differences that a reading made. Owned: audit_news_done. */
struct audit_news {
    bool is_over_now, is_within_again;
    bool is_unlimited_now, is_limited_again;
    size_t *ends; /* of the processes, those that are to be ended, by their index */
    size_t n_ends;
};
void audit_news_done(struct audit_news *n);
AUTO_DEFINE(audit_news, struct audit_news, audit_news_done)
#define auto_audit_news AUTO(audit_news)

/* Takes a reading that began at now_mono_ms. */
void share_audit_judge(struct share_audit *a, const struct audit_share *s, int64_t now_mono_ms,
                       struct audit_news *ret);
