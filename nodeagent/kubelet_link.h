/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/auto.h"
#include "base/reactor.h"

#include "nodeagent/device_table.h"
#include "nodeagent/driver_view.h"
#include "nodeagent/holders.h"
#include "nodeagent/kubelet/cdi.h"
#include "nodeagent/kubelet/cdi_slot.h"
#include "nodeagent/kubelet/device_plugin.h"
#include "nodeagent/kubelet/mps.h"

/*
 * What the agent's loop and the kubelet have to do with each other: the loop says what is on offer,
 * the kubelet grants it to pods, and its PodResources and its checkpoint say which pod holds what.
 * Everything is answered from memory, on the loop's thread.
 *
 * What a change is about to destroy is taken back in three steps: it is shown unhealthy, so that it
 * is not granted any more; a list that was asked for after that shows that no pod holds it; and it
 * is sealed, from when on a grant that was under way all the same is refused. A grant before the
 * seal wins, and the change waits.
 *
 * Where another's device plugin serves the kubelet, the link only observes who holds what; the seal
 * is then nobody's.
 *
 * A card or partition that is shared by MPS has a control daemon of its own, so that a change of
 * one takes nothing from the clients of another. While its daemon is not ready it is shown
 * unhealthy.
 */
struct kubelet_link;

struct kubelet_link_options {
    const struct clock *clk;
    bool observe;            /* serve nothing; entry, cdi and mps are not looked at */
    const char *kubelet_dir; /* /var/lib/kubelet: holds device-plugins/ and pod-resources/ */
    struct entry_options entry;
    struct cdi_options cdi;        /* used where entry's ways have CDI */
    const struct cdi_slots *slots; /* borrowed; what a slot means is forgotten when it is granted
                                      anew. NULL: there are none */
    bool pack_shared;              /* replicas on as few cards as possible, not on as many */
    struct mps_options mps;        /* root NULL: nothing can be shared by MPS */
    uint64_t seed;
};

enum kubelet_news {
    KUBELET_STATE,   /* of kubelet_link_state */
    KUBELET_LISTED,  /* a question about the holders was answered */
    KUBELET_HOLDERS, /* who holds what has changed, or is known (again) or not */
};
typedef void kubelet_link_fn(void *arg, enum kubelet_news news);

/* Borrows clk, copies the rest. A kubelet that is not there is waited for. ERR_SYSTEM. */
int kubelet_link_new(const struct kubelet_link_options *o, struct kubelet_link **ret,
                     struct err *e) MUST_CHECK;
/* Calls fn from kubelet_link_dispatch and kubelet_link_offer after changes. */
void kubelet_link_on_change(struct kubelet_link *k, kubelet_link_fn *fn, void *arg);
/* Readable when kubelet_link_dispatch has something to do. */
int kubelet_link_fd(const struct kubelet_link *k);
void kubelet_link_dispatch(struct kubelet_link *k);

/* What is on offer from now on. Copies what differs from the offer before. */
void kubelet_link_offer(struct kubelet_link *k, const struct device_table *table);
/* How the cards are joined, by place. Copies. */
void kubelet_link_set_topology(struct kubelet_link *k, const struct gpu_topology *t,
                               const int *numa_nodes);
/* What containers need beside the devices; borrowed until the next call. */
void kubelet_link_set_driver(struct kubelet_link *k, const struct driver_view *driver);
/* Asks who holds what. The answer is KUBELET_LISTED, and holders' asked_mono_ms. */
void kubelet_link_ask(struct kubelet_link *k);
/* Once in a while: asks, and looks whether the kubelet is still the same. */
void kubelet_link_check(struct kubelet_link *k);
/* Who holds what. Borrowed until the next dispatch. */
const struct holders *kubelet_link_holders(const struct kubelet_link *k);

/* Devices of this card with these ids are granted no more until the seal is taken off; one seal at
 * a time. ids are copied. */
void kubelet_link_seal(struct kubelet_link *k, const char *const *ids, size_t n);
void kubelet_link_unseal(struct kubelet_link *k);

/* Is no MPS daemon of what is sealed left? News come as KUBELET_LISTED. A daemon keeps a partition
 * from being destroyed; the seal ends it. */
bool kubelet_link_is_released(const struct kubelet_link *k);

/* For a condition: what of serving the kubelet does not work. Text borrowed until the next call of
 * anything here; NULL: it is only observed. */
enum plugin_state kubelet_link_state(const struct kubelet_link *k, const char **ret_text);
/* CDI names of devices of the offer that cannot be given: they are not in the CDI file, or their
 * MPS daemon does not run. The caller frees the array; the names are borrowed until the next call
 * of anything here. */
const char **kubelet_link_withheld(const struct kubelet_link *k, size_t *ret_n);
/* Counts since the start. */
struct plugin_stats kubelet_link_stats(const struct kubelet_link *k);

/* NULL allowed; returns NULL. */
struct kubelet_link *kubelet_link_free(struct kubelet_link *k);
AUTO_DEFINE_PTR(kubelet_link, struct kubelet_link, kubelet_link_free)
#define auto_kubelet_link AUTO_PTR(kubelet_link)
