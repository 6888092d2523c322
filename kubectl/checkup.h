/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "kubectl/complaints.h"

/*
 * The cluster's readiness, looked through object by object. Pure. First the Nodes, then the
 * Devices; the others in any order; at last checkup_end.
 */
struct checkup {
    int64_t now_ms; /* wall clock */
    struct complaints found;
    /* Which kinds were read to their end; has_leases: of both programs. */
    bool has_nodes, has_devices, has_leases;
    json_t *nodes;    /* a set of names; true: it has cards, and no Device was seen of it */
    json_t *versions; /* of agents: how many nodes have each */
    size_t n_nodes, n_devices, n_profiles;
    size_t n_leaders, n_left; /* Leases that are kept, and that nobody renews */
    struct {
        size_t n_ready, n_leaders; /* Deployments with a ready replica; Leases that are kept */
        int64_t renewed_ms;        /* when somebody led last; 0: not known */
    } scheduler;
};

/* An answer that the agent or the controller owes within seconds is missed after so long; the
 * controller waits as long (reconcilers/silence.h). */
enum { CHECKUP_SILENT_MS = 120000 };

/* The name of the controller's Lease; and of the scheduler's, and of its Deployment. */
#define CHECKUP_LEASE     "cleave-controller"
#define CHECKUP_SCHEDULER "cleave-scheduler"

void checkup_init(struct checkup *c, int64_t now_ms);
/* The cluster does not know this kind. */
void checkup_lacks(struct checkup *c, const char *plural);
void checkup_node(struct checkup *c, const json_t *node);
void checkup_device(struct checkup *c, const json_t *device);
/* kind: GPUProfile or MIGConfig. */
void checkup_wish(struct checkup *c, const char *kind, const json_t *obj);
/* A Lease of the controller's name. */
void checkup_lease(struct checkup *c, const json_t *lease);
/* A Deployment of the scheduler's name, and a Lease. Without the Deployment it is not installed, and
 * nothing is found. */
void checkup_scheduler(struct checkup *c, const json_t *deployment);
void checkup_scheduler_lease(struct checkup *c, const json_t *lease);
/* Adds the findings that only all objects together tell, and sorts all. */
void checkup_end(struct checkup *c);
void checkup_done(struct checkup *c);
AUTO_DEFINE(checkup, struct checkup, checkup_done)
#define auto_checkup AUTO(checkup)
