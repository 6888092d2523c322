/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/sb.h"

#include "controller/controller.h"
#include "kubeclient/client.h"

/*
 * Keeps the webhook's certificate: reads the Secret and the configuration, asks
 * scheduler/certificate_plan.h for the next write, and does it, with the version that it has read. So
 * several keepers do no harm, and one that ends between two writes is followed by another. It begins
 * anew at each change of the two objects, and when time has made something due. Its writes are ever
 * rarer while they follow each other: another program may undo them.
 */
struct certificate_keeper;

/* kc, clk and the strings are borrowed. */
struct certificate_keeper_opts {
    struct kc *kc;
    const char *ns, *secret;   /* the Secret */
    const char *configuration; /* the MutatingWebhookConfiguration */
    const char *host;          /* by which API servers reach the webhook; sound (certificate.h) */
    int64_t valid_ms;          /* of a certificate */
    const struct clock *clk;
    uint64_t seed; /* of the jitter on delays */
};

struct certificate_keeper *certificate_keeper_new(const struct certificate_keeper_opts *o);

/* The two objects, for informers: identity alone, so that no key stays in memory. */
extern const struct object_type certificate_secret_type, certificate_configuration_type;
/* Works at each change that the informer sees. Call it before the informer runs, and before
 * certificate_keeper_workers. */
void certificate_keeper_follow(struct certificate_keeper *k, struct informer *inf);
/* The workers, for the manager to run and free, before k is freed. */
struct controller *certificate_keeper_workers(struct certificate_keeper *k);

/* True when API servers trust what is served, and the last look and write worked. Any thread. */
bool certificate_keeper_is_well(const struct certificate_keeper *k);
/* Why not, or that it is so. Static. Any thread. */
const char *certificate_keeper_says(const struct certificate_keeper *k);

/* NULL allowed; returns NULL. */
struct certificate_keeper *certificate_keeper_free(struct certificate_keeper *k);
AUTO_DEFINE_PTR(certificate_keeper, struct certificate_keeper, certificate_keeper_free)
#define auto_certificate_keeper AUTO_PTR(certificate_keeper)
