/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/auto.h"
#include "base/reactor.h"

#include "nodeagent/container/entry.h"

/*
 * Sharing by MPS: control daemons, each for one or several devices. A partition needs a daemon of
 * its own, since a server serves one GPU context space (NVIDIA's MPS documentation, "MPS on MIG").
 * A daemon whose devices change is restarted, so devices that change independently have separate
 * daemons. Replicas of a device get an equal part of its memory and threads, as NVIDIA's plugin
 * sets them (k8s-device-plugin cmd/mps-control-daemon/mps/daemon.go).
 *
 * This module does not set compute mode EXCLUSIVE_PROCESS, which keeps other processes off a shared
 * card; loop/exclusive.h does, when loop/exclusive_wish.h says so.
 *
 * A daemon is the agent's child: it ends with the agent, and with it the contexts of its clients.
 *
 * Trust: clients have the pipe folder and can write into it, and root in a container is root here.
 * A client can talk to the daemon, replace its sockets for the other clients, and change
 * everybody's limits. So sharing by MPS is for clients that trust each other. What the agent and
 * the next daemon rely on is out of their reach:
 *  - each start has a new pipe folder;
 *  - a daemon gets its limits before a device of it is granted;
 *  - the child process shows whether the daemon runs, not a file.
 */

/* MPS serves at most 48 clients per device from Volta on (cmd/mps-control-daemon/mps/device.go). */
#define MPS_MAX_REPLICAS 48

struct mps_device {
    const char *uuid; /* GPU-…, MIG-…: a value of CUDA_VISIBLE_DEVICES */
    uint64_t memory_mib;
};

/* The devices of one daemon. Borrowed strings. */
struct mps_unit {
    const char *name; /* becomes a folder: a resource ("nvidia.com/gpu"), or a CDI name */
    const struct mps_device *devices;
    size_t n_devices;
    unsigned replicas; /* of each device */
};

/* Copied. */
struct mps_options {
    const char *root;         /* holds pipes and logs, as the agent and containers see it */
    const char *host_root;    /* the same on the host; NULL: root */
    const char *host_shm;     /* the host's folder that is /dev/shm here; NULL: "/dev/shm" */
    const char *program;      /* NULL: "/usr/bin/nvidia-cuda-mps-control" */
    const char *library_path; /* LD_LIBRARY_PATH of the daemons; NULL: none */
};

/* The daemons, by name. One thread, in callbacks of the reactor. */
struct mps;

/* Called when a unit became ready, stopped being ready, or is gone. */
typedef void mps_fn(void *arg);

/* Borrows r. fn is called from the reactor and from mps_set; it may not change the units. */
struct mps *mps_new(struct reactor *r, const struct mps_options *o, mps_fn *fn, void *arg);

/* Sets the units: starts new ones, ends missing ones, and restarts one whose devices or replicas
 * changed (a partition made again has a new uuid). Does not wait. An impossible unit is left out
 * and reported, the others are set: ERR_INVALID (replicas; a name that is no path or makes a
 * socket's path too long). */
int mps_set(struct mps *m, const struct mps_unit *units, size_t n, struct err *e) MUST_CHECK;

/* True once the unit's daemon has taken its limits. Until then its devices must be unhealthy. */
bool mps_is_ready(const struct mps *m, const char *name);
/* True when no process of the unit is left. A partition cannot be destroyed before. */
bool mps_is_gone(const struct mps *m, const char *name);
/* Why the unit is not ready; "" when it is, or is still starting. Borrowed until the next event. */
const char *mps_problem(const struct mps *m, const char *name);

/* Adds to an answer what a client needs: the pipe folder, /dev/shm, and the variable that names the
 * pipe folder. ERR_UNAVAILABLE: the unit is not ready; without its daemon a client would run
 * without limits. */
int mps_entry(const struct mps *m, const char *name, struct entry *en, struct err *e) MUST_CHECK;

/* Adds to an answer a client's own part, in its environment: percent of the threads (0: no part), and
 * MiB of memory on the daemon's only device. A client can take less, and one that leaves the
 * variables out has what the daemon allows all of them. */
void mps_add_part(struct entry *en, unsigned percent, uint64_t memory_mib);

/* Ends all daemons; waits at most two seconds for each. Returns NULL. */
struct mps *mps_free(struct mps *m);
AUTO_DEFINE_PTR(mps, struct mps, mps_free)
#define auto_mps AUTO_PTR(mps)

/* The limits. Pure. */

/* Equal parts: of threads in percent (at least 1), of memory in MiB. replicas > 0. */
unsigned mps_thread_pct(unsigned replicas);
uint64_t mps_memory_mib(uint64_t total_mib, unsigned replicas);
/* The commands that set the limits, one per line; devices are numbered from 0 in the order of
 * CUDA_VISIBLE_DEVICES. Caller frees. */
char *mps_commands(const struct mps_unit *u);
