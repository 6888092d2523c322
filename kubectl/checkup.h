/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/sb.h"

#include "kubectl/complaints.h"

/*
 * The checks of a cluster, object by object: first the Nodes, then the Devices; the others in any
 * order; at last checkup_end. Pure.
 */
struct checkup {
    int64_t now_ms; /* wall clock */
    struct complaints found;
    /* The kinds that were read to their end; has_leases: the Leases of both programs. */
    bool has_nodes, has_devices, has_profiles, has_leases;
    json_t *nodes;    /* a set of names; true: it has cards, and no Device was seen of it */
    json_t *versions; /* of agents: how many nodes have each */
    size_t n_nodes, n_devices, n_profiles;
    size_t n_leaders, n_left; /* Leases that a controller renews, and those that none does */
    struct sb leaders; /* the namespaces of those that one renews, as far as one line names them */
    struct {
        size_t n_ready, n_leaders; /* Deployments with a ready replica; Leases that are kept */
        int64_t renewed_ms;        /* when somebody led last; 0: not known */
    } scheduler;
};

/* The name of the controller's Lease; and of the scheduler's, and of its Deployment. */
#define CHECKUP_LEASE     "cleave-controller"
#define CHECKUP_SCHEDULER "cleave-scheduler"

void checkup_init(struct checkup *c, int64_t now_ms);
/* Notes that the API server does not know this kind. */
void checkup_lacks(struct checkup *c, const char *plural);
/* Look at one object. kind: GPUProfile or MIGConfig; lease: one of the controller's name. */
void checkup_node(struct checkup *c, const json_t *node);
void checkup_device(struct checkup *c, const json_t *device);
void checkup_wish(struct checkup *c, const char *kind, const json_t *obj);
void checkup_lease(struct checkup *c, const json_t *lease);
/* A Deployment of the scheduler's name, and a Lease. Without the Deployment it is not installed,
 * and nothing is found. */
void checkup_scheduler(struct checkup *c, const json_t *deployment);
void checkup_scheduler_lease(struct checkup *c, const json_t *lease);
/* Adds the findings that only all objects together tell, and sorts all. */
void checkup_end(struct checkup *c);
void checkup_done(struct checkup *c);
AUTO_DEFINE(checkup, struct checkup, checkup_done)
#define auto_checkup AUTO(checkup)
