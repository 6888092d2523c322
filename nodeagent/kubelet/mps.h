/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/auto.h"
#include "base/reactor.h"

#include "nodeagent/kubelet/entry.h"

/*
 * Sharing by MPS: control daemons, each for one or several devices (a partition needs one of its
 * own: a server serves one GPU context space; NVIDIA's MPS documentation, "MPS on MIG"). A daemon
 * that gets other devices is started anew, so devices that change apart from each other have
 * daemons of their own. Replicas of a device get an equal part of its memory and of its threads, as
 * NVIDIA's plugin sets them (k8s-device-plugin cmd/mps-control-daemon/mps/daemon.go).
 *
 * What this module does not do: the compute mode EXCLUSIVE_PROCESS, which keeps others off a shared
 * card, is the vendor layer's to set; mps_wants_exclusive says when.
 *
 * A daemon is the agent's child: it ends with the agent, and with it the contexts of its clients.
 *
 * Clients have the pipe folder and write into it, and the root of a container is root here: it can
 * talk to the daemon, take its sockets' place for the other clients, and change everybody's limits.
 * Sharing by MPS is for those who trust each other. What the agent and the next daemon rely on is
 * kept from them: each start has a pipe folder that is new, limits are told to a daemon before a
 * device of it is given to anybody, whether it runs is known of the child and not by a file.
 */

/* MPS serves at most 48 clients a device from Volta on (cmd/mps-control-daemon/mps/device.go). */
#define MPS_MAX_REPLICAS 48

struct mps_device {
    const char *uuid; /* GPU-…, MIG-…: what CUDA_VISIBLE_DEVICES takes */
    uint64_t memory_mib;
};

/* What one daemon serves. Borrowed strings. */
struct mps_unit {
    const char *name; /* becomes a folder: a resource ("nvidia.com/gpu"), or a CDI name */
    const struct mps_device *devices;
    size_t n_devices;
    unsigned replicas; /* of each device */
};

/* Copied. */
struct mps_options {
    const char *root;         /* of pipes and logs, as seen from here and in containers */
    const char *host_root;    /* the same on the host; NULL: as root */
    const char *host_shm;     /* on the host, what is /dev/shm here; NULL: "/dev/shm" */
    const char *program;      /* NULL: "/usr/bin/nvidia-cuda-mps-control" */
    const char *library_path; /* LD_LIBRARY_PATH of the daemons; NULL: none */
};

/* The daemons, by name. One thread, in callbacks of the reactor. */
struct mps;

/* A unit became ready, is not ready any more, or is gone. */
typedef void mps_fn(void *arg);

/* Borrows r. fn is called from the reactor and from mps_set; it may not change the units. */
struct mps *mps_new(struct reactor *r, const struct mps_options *o, mps_fn *fn, void *arg);

/* From now on there are these units: what is new is started, what is no more is ended, what serves
 * other devices or replicas than before (a partition made again has a new uuid) is started anew.
 * Does not wait. A unit that cannot be is left out and told of, the others are set: ERR_INVALID
 * (replicas, a name that is no path or makes a socket's path too long). */
int mps_set(struct mps *m, const struct mps_unit *units, size_t n, struct err *e) MUST_CHECK;

/* Has the unit's daemon taken its limits? Its devices are to be unhealthy otherwise. */
bool mps_is_ready(const struct mps *m, const char *name);
/* Is no process of that name left? A partition cannot be destroyed before. */
bool mps_is_gone(const struct mps *m, const char *name);
/* Why the unit is not ready; "" when it is, or is only starting. Borrowed until the next event. */
const char *mps_problem(const struct mps *m, const char *name);

/* Adds to an answer what a client needs: the pipe folder and /dev/shm, and the variable that names
 * the former. ERR_UNAVAILABLE: the unit is not ready; without its daemon a client would run
 * unlimited. */
int mps_entry(const struct mps *m, const char *name, struct entry *en, struct err *e) MUST_CHECK;

/* Ends all daemons, waiting for two seconds at most each. Returns NULL. */
struct mps *mps_free(struct mps *m);
AUTO_DEFINE_PTR(mps, struct mps, mps_free)
#define auto_mps AUTO_PTR(mps)

/* The limits, pure. */

/* Equal parts: of threads in percent (at least 1), of memory in MiB. replicas > 0. */
unsigned mps_thread_pct(unsigned replicas);
uint64_t mps_memory_mib(uint64_t total_mib, unsigned replicas);
/* The commands that set them, a line each; devices count from 0 as CUDA_VISIBLE_DEVICES lists
 * them. Caller frees. */
char *mps_commands(const struct mps_unit *u);
/* Should the devices be in compute mode EXCLUSIVE_PROCESS? Whole cards; MIG devices have no such
 * mode. */
bool mps_wants_exclusive(const struct mps_device *d);
