/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "nodeagent/device_slots.h"
#include "nodeagent/holders.h"
#include "nodeagent/pod_reader.h"
#include "nodeagent/slot_bind.h"
#include "nodeagent/slot_place.h"

/*
 * From a slot that was granted to the slice that it means. The kubelet grants a slot without a word
 * about its pod, its list names the pod a moment later, the pod says what it asks for: then the
 * slice is made, and the runtime finds it by the slot's name. A slot that nobody holds any more is
 * released. State and decisions for the loop's thread; what takes time is done by the reader and
 * in the worker's jobs.
 */
struct late_binding;

struct late_binding_deps {
    struct pod_reader *pods;
    const struct clock *clk;
    const char *node; /* pods of others are nothing to us */
    uint64_t seed;
};

/* Borrows what deps name. */
struct late_binding *late_binding_new(const struct late_binding_deps *d);

/* Who holds what has changed, or is known again. */
void late_binding_follow(struct late_binding *l, const struct holders *h);
/* Slots of which something is on record or on disk; what nobody holds of them is released. */
void late_binding_found(struct late_binding *l, const unsigned *slots, size_t n);
/* Takes what the reader has to say. True: late_binding_forbidden says something else now. */
bool late_binding_take(struct late_binding *l);
/* May the agent read pods? Where that is needed, since there are cards whose slices are made for
 * pods, the API server is asked once, and from time to time while the answer is no. Never blocks.
 */
void late_binding_ask_right(struct late_binding *l, bool needed);
/* Why no slice can be made for any pod, and what to do: the API server refuses to show pods. NULL:
 * it does not, or it is not known. Static. */
const char *late_binding_forbidden(const struct late_binding *l);
/* Something changed: what had no room is tried again at once. */
void late_binding_stir(struct late_binding *l);

/* The next slots to be bound, with places chosen on these cards; the binding is the caller's
 * (slot_binding_done), who calls late_binding_bound when it has been tried. Where there is no place
 * and a slice of one of its slots is in `made`, that is either its own or an earlier pod's, which
 * only its record tells: it is then to be tried as it is (unplaced), once each time its pod was
 * read. False: none is due. */
bool late_binding_next(struct late_binding *l, const struct slot_card *cards, size_t n,
                       const struct device_slots *made, struct slot_binding *ret);
/* All cards were read again, and show slices of these slots: one that was bound and is not among
 * them has lost its slice to somebody else's hands. True: the next of those, which is bound anew.
 * Its old meaning may be another slice by now. */
bool late_binding_lost(struct late_binding *l, const struct device_slots *made, unsigned *ret);
/* What containers are told of slices has changed: all that is bound is told anew. */
void late_binding_again(struct late_binding *l);
/* It was tried: err NULL, or why it failed, to be tried again later. */
void late_binding_bound(struct late_binding *l, const struct slot_binding *b,
                        const struct err *err);

/* The next slot to be released, of those found and those in `made`: nobody holds it. One that was
 * released and is in `made` all the same, since its card could not be read, comes again after a
 * while. False: none is due. */
bool late_binding_release(struct late_binding *l, const struct holders *h,
                          const struct device_slots *made, unsigned *ret);
/* It was tried: err NULL, or why it failed. */
void late_binding_released(struct late_binding *l, unsigned slot, const struct err *err);

/* The slots whose release failed, or after which the slice shows all the same: who was given one of
 * them now would wait for what an earlier pod left. */
void late_binding_sick(const struct late_binding *l, const struct device_slots *made,
                       struct device_slots *ret);

/* When something is due without news; INT64_MAX: nothing is. */
int64_t late_binding_due_mono_ms(const struct late_binding *l);

/* A container whose slots could not be bound so far. */
struct unbound {
    const char *ns, *pod, *uid, *container; /* uid NULL: not known */
    const char *why;
};
/* The next of which that was not said yet, with this reason. False: none. Borrowed until the next
 * call of anything here. */
bool late_binding_news(struct late_binding *l, struct unbound *ret);

/* NULL allowed; returns NULL. */
struct late_binding *late_binding_free(struct late_binding *l);
AUTO_DEFINE_PTR(late_binding, struct late_binding, late_binding_free)
#define auto_late_binding AUTO_PTR(late_binding)
