/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/auto.h"

/*
 * Which pods hold which devices, as the kubelet tells it: what its PodResources list and its
 * checkpoint say, and what it was granted since, which neither shows yet. Pure state; one thread;
 * the time is given (monotonic).
 *
 * A grant holds its device until a list shows the pod, or until one that was asked for GRANT_MS
 * after it does not: the kubelet has given the device up, or never started the container.
 */
struct holder {
    char *id;       /* of the device, with its replica */
    char *ns, *pod; /* NULL: known by its uid alone */
    char *uid;      /* NULL: known by its name */
    char *container;
    char *resource; /* under which it was given; "": under another id of another plugin; NULL: not
                       known */
};

struct holders {
    struct holder *listed;
    size_t n_listed;
    struct grant {
        char *id;
        int64_t mono_ms;
    } * grants;
    size_t n_grants;
    bool known;            /* a list was read since the start, and lists still succeed */
    int64_t asked_mono_ms; /* when the newest list was asked for */
};

enum { HOLDERS_GRANT_MS = 10000 };

/* The kubelet was told that it may have these. */
void holders_grant(struct holders *h, const char *const *ids, size_t n, int64_t now_mono_ms);
/* Takes a list over (freed by holders_done) that was asked for then. True: it differs from the one
 * before in who holds what, or a grant ended with it: a pod that is made anew by its name may be
 * granted what the list has shown for that name all along. */
bool holders_list(struct holders *h, struct holder *listed, size_t n, int64_t asked_mono_ms);
/* Adds to a list what the one before has and it does not: that of a kubelet which has just started
 * may lack pods. */
void holders_keep(const struct holders *h, struct holder **list, size_t *n);
/* The list could not be read: who holds what is as it was, but no longer known for sure. */
void holders_unknown(struct holders *h);

/* Does anybody hold the device, or one of its replicas? id without replica. */
bool holders_has(const struct holders *h, const char *id);
/* Does anybody hold it in a way in which the kubelet does not count it when it grants `id` (with
 * shared: its replicas) of this resource: under another name, shared where it is not now or the
 * other way round, or as a part of the card or the card around it? It would be given twice. */
bool holders_has_otherwise(const struct holders *h, const char *resource, const char *id,
                           bool shared);
/* Does anybody hold the card of this uuid, or a part of it? */
bool holders_has_card(const struct holders *h, const char *uuid);
/* The i-th that the list has for it; NULL: no more. Borrowed. */
const struct holder *holders_get(const struct holders *h, const char *id, size_t i);
/* Grants that no list has shown yet. */
bool holders_await(const struct holders *h);

/* A copy for another thread. Free with holders_done. */
struct holders holders_copy(const struct holders *h);

void holder_done(struct holder *h);
void holders_done(struct holders *h);
AUTO_DEFINE(holders, struct holders, holders_done)
#define auto_holders AUTO(holders)
