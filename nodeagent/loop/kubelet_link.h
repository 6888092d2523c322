/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/auto.h"
#include "base/reactor.h"

#include "nodeagent/cdi/cdi.h"
#include "nodeagent/cdi/cdi_slot.h"
#include "nodeagent/cdi/driver_view.h"
#include "nodeagent/container/cri_runtime.h"
#include "nodeagent/container/mps.h"
#include "nodeagent/kubelet/device_plugin.h"
#include "nodeagent/offer/device_table.h"
#include "nodeagent/offer/holders.h"
#include "nodeagent/offer/mps_cards.h"
#include "nodeagent/offer/outdated_grants.h"

/*
 * The link between the agent's loop and the kubelet. The loop sets the offer; the kubelet grants it
 * to pods; the kubelet's PodResources and its checkpoint say which pod holds what. Allocate,
 * ListAndWatch and GetPreferredAllocation (kubelet/device_plugin.h) are answered here from memory,
 * on the loop's thread.
 *
 * A part that a change is about to destroy is withdrawn in three steps:
 *  1. it is shown as unhealthy, so that the kubelet grants it no more;
 *  2. a PodResources list that was asked for after that shows that no pod holds it;
 *  3. it is sealed: a grant that was still on its way is refused from then on.
 *
 * A grant before the seal wins, and the change waits.
 *
 * Where another device plugin serves the kubelet, the link only observes the holders. It then
 * cannot seal anything.
 *
 * A card or partition that is shared by MPS has a control daemon of its own, so that a change of
 * one does not end the clients of another. It is shown as unhealthy while its daemon is not ready.
 */
struct kubelet_link;
struct neighbours; /* report/neighbours.h */

struct kubelet_link_options {
    const struct clock *clk;
    bool observe;            /* serve nothing, only observe; entry, cdi and mps are then unused */
    const char *kubelet_dir; /* holds device-plugins/ and pod-resources/: /var/lib/kubelet */
    struct entry_options entry;
    struct cdi_options cdi;        /* used where entry's ways include CDI */
    const struct cdi_slots *slots; /* borrowed; the CDI file of a slot is removed when the slot is
                                      granted anew. NULL: no slots */
    bool pack_shared;              /* place replicas on as few cards as possible; else on as many */
    struct mps_options mps;        /* root NULL: nothing can be shared by MPS */
    uint64_t seed;
};

enum kubelet_news {
    KUBELET_STATE,   /* the answer of kubelet_link_state changed, or the neighbours did */
    KUBELET_LISTED,  /* a list that was asked for has come */
    KUBELET_HOLDERS, /* the holders changed, or became known or unknown */
};
typedef void kubelet_link_fn(void *arg, enum kubelet_news news);

/* Borrows clk, copies the rest. Waits for a kubelet that is not there. ERR_SYSTEM. */
int kubelet_link_new(const struct kubelet_link_options *o, struct kubelet_link **ret,
                     struct err *e) MUST_CHECK;
/* Calls fn from kubelet_link_dispatch and kubelet_link_offer after changes. */
void kubelet_link_on_change(struct kubelet_link *k, kubelet_link_fn *fn, void *arg);
/* Readable when kubelet_link_dispatch has something to do. */
int kubelet_link_fd(const struct kubelet_link *k);
void kubelet_link_dispatch(struct kubelet_link *k);

/* Sets the offer. Copies what differs from the one before. */
void kubelet_link_offer(struct kubelet_link *k, const struct device_table *table);
/* How the cards are connected, by card index. Copies. */
void kubelet_link_set_topology(struct kubelet_link *k, const struct gpu_topology *t,
                               const int *numa_nodes);
/* The scores of that topology. Borrowed. */
const struct card_scores *kubelet_link_scores(const struct kubelet_link *k);
/* The drivers' device files and libraries for containers; borrowed until the next call. */
void kubelet_link_set_driver(struct kubelet_link *k, const struct driver_view *driver);
/* The container runtime decides what an answer has beside CDI names. Until one was found, answers name
 * the devices in all other ways as well. A runtime that is not found any more is being started again,
 * and what was known of it holds. */
void kubelet_link_set_runtime(struct kubelet_link *k, const struct cri_runtime *r);
/* Asks the kubelet for the holders. The answer comes as KUBELET_LISTED, with holders'
 * asked_mono_ms. */
void kubelet_link_ask(struct kubelet_link *k);
/* To be called once in a while: asks for the holders where they may have changed, and notices a
 * restarted kubelet. */
void kubelet_link_check(struct kubelet_link *k);
/* The holders. Borrowed until the next dispatch. */
const struct holders *kubelet_link_holders(const struct kubelet_link *k);

/* What the kubelet has on record, as it was last read; NULL: it was not yet. Borrowed likewise. Where
 * the kubelet is only observed, it is read at the start alone. */
const struct checkpoint *kubelet_link_checkpoint(const struct kubelet_link *k);
/* Other programs on this node, as the kubelet's newest list shows them. Borrowed likewise. */
const struct neighbours *kubelet_link_neighbours(const struct kubelet_link *k);
/* The containers whose grant names files that are not their device's any more; none where the kubelet
 * is only observed. NULL: not known until the offer was set, and the driver and the kubelet's
 * checkpoint were read. Borrowed until the next call, which compares everything anew. */
const struct outdated_grants *kubelet_link_outdated(struct kubelet_link *k);
/* As device_plugin_contested; NULL also where the kubelet is only observed. */
const char *kubelet_link_contested(const struct kubelet_link *k);

/* Seals the devices with these ids for an owner (a card's UUID, or a name that is none), in place
 * of those sealed for it before: they are not granted until kubelet_link_unseal. Seals of other
 * owners stay, because several cards are withdrawn at the same time. Strings are copied. */
void kubelet_link_seal(struct kubelet_link *k, const char *owner, const char *const *ids, size_t n);
/* No effect without a seal of this owner. */
void kubelet_link_unseal(struct kubelet_link *k, const char *owner);

/* True once no MPS daemon of a device sealed for this owner is left. The seal ends the daemon,
 * because it would keep a partition from being destroyed. Its end is reported as KUBELET_LISTED,
 * since the same jobs wait for both. */
bool kubelet_link_has_no_daemon(const struct kubelet_link *k, const char *owner);

/* Sets the cards whose shares are clients of an MPS daemon: each has one from then on, and the others
 * have none. Copies. */
void kubelet_link_set_mps_cards(struct kubelet_link *k, const struct mps_cards *cards);
/* Adds what a client of such a card's daemon gets. ERR_UNAVAILABLE: the daemon is not ready, or there
 * is none; when it becomes ready that is a KUBELET_STATE. */
int kubelet_link_enter_mps(const struct kubelet_link *k, const char *card, struct entry *ret,
                           struct err *e) MUST_CHECK;

/* Whether serving the kubelet works, and for a condition what does not. The text is borrowed until
 * the next call of any function here; NULL: the kubelet is only observed. */
enum plugin_state kubelet_link_state(const struct kubelet_link *k, const char **ret_text);
/* CDI names of offered devices that cannot be given: they are missing in the CDI file, or their MPS
 * daemon does not run. The caller frees the array; the names are borrowed until the next call of
 * any function here. */
const char **kubelet_link_unready(const struct kubelet_link *k, size_t *ret_n);
/* Counts since the start. */
struct plugin_stats kubelet_link_stats(const struct kubelet_link *k);

/* The hand-over from the agent before (waits, renew) and to the next one (freeze, part).
 *
 * waits: starts no MPS daemon until it is called with false, because the agent before has its own
 * on the same devices; they count as not ready meanwhile. */
void kubelet_link_wait_with_mps(struct kubelet_link *k, bool waits);
/* The agent before is gone: registers again (device_plugin_renew), and asks for the holders. */
void kubelet_link_renew(struct kubelet_link *k);
/* From now on grants are answered from what was last offered, and nothing else is done: no list, no
 * registration, no CDI file. */
void kubelet_link_freeze(struct kubelet_link *k);
/* Has the kubelet forget the connections (plugin_parting.h), once, after the freeze. The end is a
 * KUBELET_STATE. */
void kubelet_link_part(struct kubelet_link *k);
bool kubelet_link_has_parted(const struct kubelet_link *k);

/* NULL allowed; returns NULL. */
struct kubelet_link *kubelet_link_free(struct kubelet_link *k);
AUTO_DEFINE_PTR(kubelet_link, struct kubelet_link, kubelet_link_free)
#define auto_kubelet_link AUTO_PTR(kubelet_link)
