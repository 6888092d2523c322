/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/reactor.h"

#include "nodeagent/kubelet/checkpoint.h"
#include "nodeagent/kubelet/device_plugin.h"
#include "nodeagent/offer/device_table.h"
#include "nodeagent/offer/holders.h"

/*
 * Watches who holds the node's devices: asks the kubelet's PodResources, soon after a grant, each
 * ten seconds while pods hold something (the enum in the .c file), and at each reading of the node
 * (holders_watch_check); and adds what the kubelet's checkpoint still has. Also asks after each
 * registration whether the kubelet knows the plugin's resources. The same list shows which pods of
 * other programs are here (report/neighbours.h). The loop's thread only; never
 * blocks.
 */
struct holders_watch;
struct neighbours;

enum holders_news {
    HOLDERS_LISTED,     /* a list that was asked for has come */
    HOLDERS_CHANGED,    /* the holders changed, or became known or unknown */
    HOLDERS_NEIGHBOURS, /* the neighbours changed */
};
typedef void holders_watch_fn(void *arg, enum holders_news news);

/* All borrowed. */
struct holders_watch_deps {
    struct reactor *reactor;
    const struct clock *clk;
    const char *kubelet_dir;          /* copied */
    struct device_plugin *plugin;     /* NULL: another plugin serves the kubelet */
    const struct device_table *table; /* translates the other plugin's ids; as it is at each list */
    holders_watch_fn *fn;
    void *arg;
};

/* Asks at once. */
struct holders_watch *holders_watch_new(const struct holders_watch_deps *d);
/* Asks the kubelet for the holders; the answer comes as HOLDERS_LISTED. */
void holders_watch_ask(struct holders_watch *w);
/* To be called once in a while: the same, where the kubelet's list may have changed. A kubelet that
 * this agent serves gives devices to pods only after grants of this agent. */
void holders_watch_check(struct holders_watch *w);
/* Records a grant, and asks soon who got it. */
void holders_watch_grant(struct holders_watch *w, const char *const *ids, size_t n);
/* The plugin's registrations changed: asks after a while whether the kubelet has taken them in. */
void holders_watch_verify(struct holders_watch *w);
/* The programs of others that the newest list shows. Borrowed likewise. */
const struct neighbours *holders_watch_neighbours(const struct holders_watch *w);
/* What the kubelet's checkpoint had when it was last read; NULL: it was not yet. Borrowed likewise. */
const struct checkpoint *holders_watch_checkpoint(const struct holders_watch *w);
/* The holders. Borrowed until the next dispatch of the reactor. */
const struct holders *holders_watch_get(const struct holders_watch *w);
/* NULL allowed; returns NULL. Before the reactor is freed. */
struct holders_watch *holders_watch_free(struct holders_watch *w);
