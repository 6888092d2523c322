/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "nodeagent/offer/device_slots.h"
#include "nodeagent/offer/holders.h"
#include "nodeagent/slots/pod_reader.h"
#include "nodeagent/slots/share_place.h"
#include "nodeagent/slots/slot_bind.h"
#include "nodeagent/slots/slot_place.h"

/*
 * From the grant of a slot to what the slot stands for: a slice, or a share of a card. The kubelet
 * grants a slot without naming its pod. Its PodResources list names the pod a moment later, and the
 * pod's spec says what it asks for. Then the slice or the share is made, and the container runtime
 * finds it by the slot's name. A slot without a holder is released. What is said of slices below
 * holds for shares too.
 *
 * This module holds state and decisions, on the loop's thread. The reader and the worker's jobs do
 * what takes time.
 */
struct late_binding;

struct late_binding_deps {
    struct pod_reader *pods;
    const struct clock *clk;
    const char *node; /* pods of other nodes are ignored */
    uint64_t seed;
};

/* Borrows the members of deps. */
struct late_binding *late_binding_new(const struct late_binding_deps *d);

/* Takes the holders after they changed, or became known again. */
void late_binding_follow(struct late_binding *l, const struct holders *h);
/* Takes the slots that have a record, a CDI file or a slice; those without a holder are
 * released. */
void late_binding_found(struct late_binding *l, const unsigned *slots, size_t n);
/* Takes the reader's answers. True: the answer of late_binding_forbidden changed. */
bool late_binding_take(struct late_binding *l);
/* Follows the pods that are adopted (adopted.h) among the holders (NULL: they are as before), and puts
 * what stands of them into *ret. They count at every time, also while the slots are another agent's.
 * False: *ret is as after the last call. */
bool late_binding_adopt(struct late_binding *l, const struct holders *h, struct shares *ret);
/* Checks whether the agent may read pods. needed: some card makes slices for pods. The API server
 * is then asked once, and again from time to time while it refuses. Never blocks. */
void late_binding_ask_right(struct late_binding *l, bool needed);
/* Why no slice can be made for any pod, with the remedy: the API server refuses to show pods. NULL:
 * it does not refuse, or the answer is not known yet. Static. */
const char *late_binding_forbidden(const struct late_binding *l);
/* Something changed on the cards: slots that found no room are tried again at once. When their pods
 * are read again stays as it was. */
void late_binding_retry_now(struct late_binding *l);

/* The caller's answers about the jobs that run now. */
struct slot_gate {
    /* True when what the kubelet makes for the pod is there, as far as the binding needs it. Until
     * then it is asked about at each later call. A pod that waits for long is reported with *ret_why.
     * NULL: nothing is needed. */
    bool (*is_ready)(void *arg, const struct slot_binding *b, struct err *ret_why);
    /* True when such a job may begin: nothing that it touches is in another job's hands, or due for
     * an attempt. One that may not is asked about at each later call. *ret_why is set where a call
     * that does not return is in the way: the pod is reported with it. */
    bool (*may_bind)(void *arg, const struct slot_binding *b, struct err *ret_why);
    bool (*may_release)(void *arg, unsigned slot);
    void *arg;
    /* A job or an attempt that will end may bring room for slices, or for shares. A pod that finds
     * none waits for it, and is not reported. */
    bool slices_may_come, shares_may_come;
};

/* The cards on which something can be made for slots, by pool. */
struct slot_rooms {
    const struct slot_card *cards; /* for slices; n_cards of them, borrowed */
    size_t n_cards;
    struct share_places shares;
};

/* The next slots to bind, all of one pool, with cards chosen among these. The binding is the caller's
 * (slot_binding_done), who reports the result with late_binding_bound. Call late_binding_release
 * first in each round.
 *
 * A container without room is returned too, with `unplaced` set, where a slice exists under one of
 * its slots (`made`). The slice is its own, or was left by an earlier pod, and removing it may make
 * the room; only the record tells which. Such a container is returned once each time its pod was
 * read. False: none is due, or none may begin. */
bool late_binding_next(struct late_binding *l, const struct slot_rooms *rooms,
                       const struct device_slots *made, const struct slot_gate *gate,
                       struct slot_binding *ret);
/* Takes a reading of all cards, which shows slices of the slots in `made`. A bound slot that is
 * missing there lost its slice to another program. True: *ret is the next such slot; it is bound
 * anew, since its old CDI file may name another slice by now. */
bool late_binding_lost(struct late_binding *l, const struct device_slots *made, unsigned *ret);
/* What was made for bound slots is made anew: of all (only NULL: the content of CDI files changed, by
 * a new driver), or of the containers that have some of these slots. */
void late_binding_again(struct late_binding *l, const struct device_slots *only);
/* Reports the result of a binding. err NULL: it worked; else it is tried again later. */
void late_binding_bound(struct late_binding *l, const struct slot_binding *b,
                        const struct err *err);

/* The next slot to release, among those found and those in `made`: it has no holder. A released
 * slot that is still in `made`, because its card could not be read, is returned again after a
 * while. False: none is due, or none may begin. */
bool late_binding_release(struct late_binding *l, const struct holders *h,
                          const struct device_slots *made, const struct slot_gate *gate,
                          unsigned *ret);
/* Reports the result of a release. err NULL: it worked. */
void late_binding_released(struct late_binding *l, unsigned slot, const struct err *err);

/* The slots whose release failed, or whose slice still shows after it. A container that was granted
 * one of them would have to wait until the earlier pod's slice is gone. */
void late_binding_sick(const struct late_binding *l, const struct device_slots *made,
                       struct device_slots *ret);

/* When something is due by itself; INT64_MAX: nothing. What was due already at the last call of
 * late_binding_release does not count: the gate (slot_gate.h) held it back, and the end of a job or
 * an attempt is the next occasion. */
int64_t late_binding_due_mono_ms(const struct late_binding *l);

/* A container whose slots could not be bound yet, or a pod that could not be adopted. */
struct unbound {
    bool of_shares; /* else of slices */
    const char *ns, *pod;
    const char *uid;       /* NULL: not known */
    const char *container; /* NULL: all of the pod's */
    const char *why;
};
/* The next such container that was not reported yet with this reason. False: none. Borrowed until
 * the next call of any function here. */
bool late_binding_news(struct late_binding *l, struct unbound *ret);

/* NULL allowed; returns NULL. */
struct late_binding *late_binding_free(struct late_binding *l);
AUTO_DEFINE_PTR(late_binding, struct late_binding, late_binding_free)
#define auto_late_binding AUTO_PTR(late_binding)
