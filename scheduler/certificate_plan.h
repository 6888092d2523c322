/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/auto.h"

#include "scheduler/certificate.h"

/*
 * The life of the webhook's certificate, as one decision: the next write that a Secret and a
 * MutatingWebhookConfiguration need (docs/adr/0046-the-webhooks-certificate.md). Pure.
 *
 * The Secret has the pair that is served (tls.crt, tls.key), while it is renewed the one that will be
 * (next.crt, next.key), and certificates that were served before (old.crt). The configuration has a
 * bundle, caBundle: what API servers trust. The bundle follows from the Secret: all of these
 * certificates that are valid. A pair is made, then announced in the bundle, then promoted:
 *
 *   in the Secret          in the bundle
 *   current                current
 *   current, next          current            make
 *   current, next          current, next      announce
 *   next is current, old   current, old       promote; the same two certificates
 *
 * so that what is served is in the bundle at any time. Whatever else is found leads back to the first
 * line, one write after the other.
 */

enum {
    /* Besides those that a Secret is renewed with in its time: one is there, and two for a moment. */
    CERTIFICATE_MAX_OLD = 4,
    /* So long API servers are given to hear of a bundle, at most. */
    CERTIFICATE_SETTLE_MS = 30 * 1000,
    /* Clocks of those who made certificates may be off by this. */
    CERTIFICATE_SLACK_MS = 3600 * 1000,
    /* Clocks may step: times are looked at again after this, at the latest. */
    CERTIFICATE_RECHECK_MS = 3600 * 1000,
};

/* The longest validity. Whoever had the Secret for a moment may have left certificates that end later:
 * as old ones they are not trusted. */
#define CERTIFICATE_MAX_VALID_MS (INT64_C(366) * 24 * 3600 * 1000)

/* The longest time between two writes that follow each other. */
int64_t certificate_write_gap_ms(int64_t valid_ms);
/* How long a certificate of this validity has left when it is due to be renewed. */
int64_t certificate_due_ms(int64_t valid_ms);

/* The Secret and the configuration as they are. A certificate without pem: none, or one that cannot be
 * served, because it is for another host, signs others, or has a foreign key beside it. */
struct certificate_seen {
    bool has_secret, has_configuration;
    struct certificate current, next, old[CERTIFICATE_MAX_OLD];
    size_t n_old;
    /* The bundle that all webhooks of the configuration have; NULL: they have none, or several. */
    char *bundle;
    int64_t settled_ms; /* for so long the configuration has been seen with this bundle */
};

void certificate_seen_done(struct certificate_seen *s);
AUTO_DEFINE(certificate_seen, struct certificate_seen, certificate_seen_done)
#define auto_certificate_seen AUTO(certificate_seen)

enum certificate_step {
    CERTIFICATE_REST,
    CERTIFICATE_MAKE,     /* a new pair becomes the Secret's next */
    CERTIFICATE_ANNOUNCE, /* the configuration gets the bundle */
    CERTIFICATE_PROMOTE, /* the Secret's next becomes its current, and the bundle's others its old */
};

enum certificate_standing {
    CERTIFICATE_GOOD, /* API servers trust what is served */
    CERTIFICATE_WORKING,
    CERTIFICATE_NO_SECRET,
    CERTIFICATE_NO_CONFIGURATION,
};

struct certificate_todo {
    enum certificate_step step;
    enum certificate_standing standing; /* before the step */
    char *bundle; /* what the configuration is to have: PEM, the latest end first; "": nothing */
    char *old;    /* CERTIFICATE_PROMOTE: the Secret's old.crt from then on; "": none */
    int64_t recheck_ms; /* CERTIFICATE_REST: after this, unless something changes before */
};

void certificate_todo_done(struct certificate_todo *t);
AUTO_DEFINE(certificate_todo, struct certificate_todo, certificate_todo_done)
#define auto_certificate_todo AUTO(certificate_todo)

/* valid_ms: of a new certificate. *ret is overwritten; free it with certificate_todo_done. */
void certificate_plan(const struct certificate_seen *seen, int64_t now_ms, int64_t valid_ms,
                      struct certificate_todo *ret);
