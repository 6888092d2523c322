/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/auto.h"

/*
 * The holders: the pods that hold devices. Three sources: the kubelet's PodResources list, its
 * checkpoint, and the grants since, which neither of them shows yet. Pure state; one thread; times
 * are given (monotonic).
 *
 * A grant counts as a holder until a list shows its pod. It also ends with the first list that was
 * asked for HOLDERS_GRANT_MS after the grant and does not show the pod: by then the kubelet has
 * given the device up, or never started the container.
 */
struct holder {
    char *id;       /* the device's, with the replica's suffix */
    char *ns, *pod; /* NULL: known by its uid only */
    char *uid;      /* NULL: known by its name only */
    char *container;
    char *resource; /* the resource of the grant; "": granted by another plugin under an id of its
                       own; NULL: not known */
};

struct holders {
    struct holder *listed; /* by id */
    size_t n_listed;
    struct grant {
        char *id;
        int64_t mono_ms;
    } * grants;
    size_t n_grants;
    bool known;            /* a list was read since the start, and the newest one succeeded */
    int64_t asked_mono_ms; /* when the newest list was asked for */
};

enum { HOLDERS_GRANT_MS = 10000 };

/* Records a grant of these devices to the kubelet. */
void holders_grant(struct holders *h, const char *const *ids, size_t n, int64_t now_mono_ms);
/* Takes over a list (freed by holders_done) that was asked for at asked_mono_ms. True: the holders
 * differ from those before, or only a grant ended: a pod that was made anew under its name may have
 * got a device that the list had shown for that name before. */
bool holders_list(struct holders *h, struct holder *listed, size_t n, int64_t asked_mono_ms);
/* Adds to *list the holders of the previous list that *list lacks. A kubelet that has just started
 * may list too few pods. */
void holders_keep(const struct holders *h, struct holder **list, size_t *n);
/* The list could not be read: the holders stay, but `known` becomes false. */
void holders_unknown(struct holders *h);

/* True when a pod holds the device or one of its replicas. id: without the replica's suffix. */
bool holders_has(const struct holders *h, const char *id);
/* True when a pod holds the same hardware in a way that the kubelet does not count when it grants
 * `id` (with shared: its replicas) of this resource:
 *  - under another resource name;
 *  - as a replica while the device is not shared now, or the reverse;
 *  - as a part of the card, or as the card around the part.
 * A grant would give the same hardware twice. */
bool holders_has_conflict(const struct holders *h, const char *resource, const char *id,
                          bool shared);
/* True when a pod holds the card with this uuid, or a part of it. */
bool holders_has_card(const struct holders *h, const char *uuid);
/* The i-th listed holder of the device; NULL: no more. Borrowed. */
const struct holder *holders_get(const struct holders *h, const char *id, size_t i);
/* True while a grant is not shown by any list yet. */
bool holders_await(const struct holders *h);
/* True when it is known that no pod holds a device, and no grant waits to be shown. */
bool holders_none(const struct holders *h);

/* A copy for another thread. Free with holders_done. */
struct holders holders_copy(const struct holders *h);

void holder_done(struct holder *h);
void holders_done(struct holders *h);
AUTO_DEFINE(holders, struct holders, holders_done)
#define auto_holders AUTO(holders)
