/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "nodeagent/change/card_view.h"
#include "nodeagent/change/unended.h"
#include "nodeagent/health/health.h"
#include "nodeagent/kubelet/device_plugin.h"
#include "nodeagent/offer/card_memo.h"
#include "nodeagent/offer/device_slots.h"
#include "nodeagent/offer/holders.h"
#include "nodeagent/offer/host_facts.h"
#include "nodeagent/offer/host_setup.h"
#include "nodeagent/offer/share_breach.h"
#include "nodeagent/offer/sharing.h"

/*
 * Everything that the agent knows of its node at one moment. The offer, the kubelet's list and the
 * status are pure functions of it. Borrows everything.
 */
struct device_nodes;
struct plugin_config;
struct neighbours; /* report/neighbours.h */
struct outdated_grants;

/* CDI names of devices that are on offer but cannot be given to a container. */
struct unready {
    const char *const *names;
    size_t n;
};

/* A card in the hands of a job. */
struct busy_card {
    char uuid[GPU_UUID_BYTES];
    const void *job;         /* its address only */
    bool changes;            /* its layout; false: slices of slots, or a compute mode */
    struct card_offer offer; /* with changes: what it still offers until the job is over */
};

struct node_state {
    const struct gpu_inventory
        *inventory; /* vendor, versions, boot id; its cards are not used. NULL: not read yet */
    const struct card_view *cards; /* in the order of the inventory */
    size_t n_cards;
    const struct host_facts *host;  /* the kernel's facts about the machine; NULL: not read yet */
    const struct host_setup *setup; /* what is installed on it; NULL: not read yet */
    const struct device_spec *spec;
    const char *spec_error; /* why the spec cannot be read; NULL: it can */
    int64_t generation;     /* the spec's */
    const char *withdrawal; /* what the controller is to confirm (reporting.h); NULL: nothing */
    bool spec_seen;         /* the Device was read at least once */
    const struct card_memo *memos; /* one for each card of the spec, in any order */
    size_t n_memos;
    const struct busy_card *busy; /* n_busy of them, each card once */
    size_t n_busy;
    const struct unended *unended;        /* interrupted changes that are not recovered yet; NULL:
                                             none */
    const char *read_reason, *read_error; /* why the last reading failed; NULL: it did not */
    const char *stuck_call;               /* a vendor call is past its deadline; NULL: none */
    const struct health *health;          /* the illnesses of instances; NULL: none */
    const char *agent_version;
    const struct plugin_config *config; /* applies where the spec says nothing; NULL: none */
    struct sharing_means means;
    bool koordinator_shares;                /* shares are offered for Koordinator's words, too */
    const struct holders *holders;          /* the pods that hold devices; NULL: the agent does not
                                            know, since it has no kubelet */
    enum plugin_state plugin_state;         /* whether the kubelet is being served */
    const char *plugin_text;                /* NULL: the agent does not serve the kubelet */
    struct unready unready;                 /* valid once the offer is served */
    const struct device_nodes *nodes;       /* device files that containers get; NULL: not used */
    const struct device_slots *sick;        /* slots that cannot be granted anew; NULL: none */
    const struct shares *shares;            /* on the cards; NULL: none */
    struct share_breaches breaches;         /* of these shares */
    const char *node;                       /* its name; NULL: not known */
    const struct neighbours *neighbours;    /* other programs beside the agent; NULL: not known */
    const struct outdated_grants *outdated; /* NULL: not known yet, or there is no kubelet */
    const char *contested;      /* a resource that another program registers, too; NULL: none */
    const char *pods_forbidden; /* why the agent may not read pods, so that no slice can be
                                            made for one; NULL: it may */
};

/* The want of the card with this uuid; NULL: the spec does not list it. */
const struct device_want *node_state_want(const struct node_state *s, const char *uuid);
/* The memo of the attempts at this card; NULL: there is none. */
const struct card_memo *node_state_memo(const struct node_state *s, const char *uuid);
