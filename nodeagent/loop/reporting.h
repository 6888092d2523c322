/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "nodeagent/loop/agent_events.h"
#include "nodeagent/loop/agent_metrics.h"
#include "nodeagent/loop/readings.h"
#include "nodeagent/loop/recovery.h"
#include "nodeagent/loop/share_watch.h"
#include "nodeagent/loop/spec_source.h"
#include "nodeagent/loop/status_writer.h"
#include "nodeagent/report/koord_infos.h"
#include "nodeagent/slots/late_binding.h"
#include "nodeagent/telemetry/sampler.h"

/*
 * What the loop says of its node: one node_state, one offer of it, and from
 * these the kubelet's list, the status, koordlet's file and the gauges. It remembers for each card
 * which offer was published with which number, because a change waits for that to be acknowledged.
 * The loop's thread only, but for reporting_is_ready.
 */
struct reporting;

/* All borrowed. */
struct reporting_deps {
    const struct clock *clk;
    struct status_writer *status_writer;
    struct kubelet_link *kubelet;    /* NULL: there is none, and the controller publishes */
    bool serves_kubelet;             /* else it is only observed */
    struct koord_infos *koordinator; /* NULL: no file for koordlet */
    struct late_binding *slots;      /* NULL: no slices are made for pods */
    bool writes_slot_files;          /* CDI files of slots are written */
    struct agent_metrics *metrics;   /* NULL: none */
    struct sampler *telemetry;       /* NULL: off */
    const char *version;
    const struct agent_events *events;
    uint64_t seed; /* tells the statuses of this agent from those of the one before */
    const struct plugin_config *config; /* NULL: none */
    const struct sharing_means *means;
    bool koordinator_shares;

    /* What the loop knows. */
    const struct cards *cards;
    const struct host_facts *host;
    const struct host_setup *setup;
    const struct spec_source *spec_source;
    struct card_tracks *tracks;
    const struct jobs *jobs;
    struct recovery *recovery;
    const struct readings *readings;
    const struct share_watch *share_watch;
};

struct reporting *reporting_new(const struct reporting_deps *d);

/* Publishes within this time: the earliest of all such calls counts. */
void reporting_within(struct reporting *r, int64_t lag_ms);
/* When reporting_publish is due; INT64_MAX: not at all. */
int64_t reporting_due_mono_ms(const struct reporting *r);
/* Shows the kubelet the offer, and puts the status for the status writer. Until the Device was seen
 * nothing is published; nor, where a status was published before, until the first reading has
 * ended: the node must not lose its resources because an agent starts. */
void reporting_publish(struct reporting *r);
/* Shows the kubelet the offer now. Until the first recovery the kubelet keeps the offer of the
 * agent before. A card that can no longer be read keeps its devices, because the kubelet is
 * answered from memory. */
void reporting_serve(struct reporting *r);
/* True once the kubelet was shown an offer. */
bool reporting_has_served(const struct reporting *r);
/* The number of the newest status that the Node's resources follow: where the controller publishes
 * them, it repeats the text of status.withdrawal in spec.withdrawn once it has written the Node. A
 * status keeps such a text until this has told the change, or the end of an interrupted one, that
 * waits for it. 0: none. */
int64_t reporting_confirmed(struct reporting *r);
/* Takes over the Device's status once, so that its conditions and drains continue in the first one
 * of this agent. Does nothing after the first status. */
void reporting_adopt(struct reporting *r);
/* True once a status was published with the hardware read, or with why it could not be. Any
 * thread. */
bool reporting_is_ready(const struct reporting *r);

/* NULL allowed; returns NULL. */
struct reporting *reporting_free(struct reporting *r);
