/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "nodeagent/card_memo.h"
#include "nodeagent/card_view.h"
#include "nodeagent/device_slots.h"
#include "nodeagent/health.h"
#include "nodeagent/holders.h"
#include "nodeagent/host_facts.h"
#include "nodeagent/kubelet/device_plugin.h"
#include "nodeagent/unended.h"

/*
 * All that the agent knows of its node at one moment. The offer, the kubelet's list and the status
 * are pure functions of it. Borrows everything.
 */
struct container_nodes;
struct plugin_config;

/* CDI names of devices that are on offer and cannot be given all the same. */
struct withheld {
    const char *const *names;
    size_t n;
};

struct node_state {
    const struct gpu_inventory
        *inventory; /* vendor, versions, boot id; its cards are not looked at. NULL: not read yet */
    const struct card_view *cards; /* by index */
    size_t n_cards;
    const struct host_facts *host; /* what the kernel says of the machine; NULL: not read yet */
    const struct device_spec *spec;
    const char *spec_error;        /* the spec cannot be read; NULL: it can */
    int64_t generation;            /* of the spec */
    bool spec_seen;                /* the Device was read at least once */
    const struct card_memo *memos; /* one for each card of the spec, any order */
    size_t n_memos;
    const char *busy;                     /* the card that is being changed; NULL: none is */
    const struct card_offer *busy_offer;  /* what stays of that card until the change is over */
    const struct unended *unended;        /* changes that are still to be ended; NULL: none */
    const char *read_reason, *read_error; /* the last reading failed; NULL: it did not */
    const char *stuck_call;               /* a vendor call is past its deadline; NULL: none */
    const struct health *health;          /* why instances are ill; NULL: none is */
    const char *agent_version;
    const struct plugin_config *config;  /* what holds where the spec does not; NULL: nothing */
    int publisher;                       /* enum api_publisher of the resources */
    const struct holders *holders;       /* the pods that were given devices; NULL: nobody gives */
    enum plugin_state plugin_state;      /* how serving the kubelet goes */
    const char *plugin_text;             /* NULL: we do not */
    struct withheld withheld;            /* known once the offer is served */
    const struct container_nodes *nodes; /* device files that containers get; NULL: not asked for */
    const struct device_slots *sick;     /* slots that cannot be handed out anew; NULL: none */
    const char *pods_forbidden;          /* why no slice can be made for a pod; NULL: they can */
};

/* What the spec wants of the card of this uuid; NULL: nothing. */
const struct device_want *node_state_want(const struct node_state *s, const char *uuid);
/* What is remembered of attempts at it; NULL: nothing. */
const struct card_memo *node_state_memo(const struct node_state *s, const char *uuid);
