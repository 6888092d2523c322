/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

#include "api/device.h"

/*
 * The lock that schedulers which share cards take on a Node before they bind a pod to it: the
 * annotation hami.io/mutex.lock (HAMi pkg/util/nodelock/nodelock.go; Koordinator
 * pkg/scheduler/plugins/deviceshare/device_plugin_adapter.go). While it stands, no other such pod
 * is bound there: a device plugin that is not told whom it is asked for then has one pod to choose
 * from, and removes the lock when it has answered. Cleave learns from the kubelet which pod got
 * which slot, needs no lock, and removes one that was taken for its own cards as soon as it is
 * seen. Pure.
 *
 * HAMi has this one lock for the cards of nearly all vendors. A lock whose pod asks for another
 * vendor's cards as well is still waited for by that vendor's plugin, and is left to it; unless it
 * is Cleave who offers that vendor's cards on the node too (the Device lists a resource of that
 * domain): then no other plugin answers the kubelet there, and nobody else would remove the lock.
 */
#define NODE_LOCK_ANNOTATION "hami.io/mutex.lock"
#define NODE_LOCK_POINTER    "hami.io~1mutex.lock" /* the same in a JSON pointer */
#define NODE_LOCK_MAX_BYTES  400 /* a time, a namespace, a pod's name, and room to spare */
/* From then on the schedulers take a lock for forgotten (NodeLockTimeout). */
#define NODE_LOCK_FORGOTTEN_MS (5 * 60 * 1000)

struct node_lock {
    int64_t since_ms; /* wall clock of the scheduler */
    char ns[64], pod[254];
};

/* "<RFC 3339>,<namespace>,<pod>". Old schedulers wrote the time alone: then no pod is named, ns and
 * pod are "". ERR_INVALID. *ret is overwritten. */
int node_lock_parse(const char *value, struct node_lock *ret, struct err *e) MUST_CHECK;

enum node_lock_verdict {
    NODE_LOCK_LEAVE,   /* for good: it is another plugin's */
    NODE_LOCK_RELEASE, /* now */
    NODE_LOCK_WAIT,    /* its pod is not there: the schedulers break it, or it is looked at again
                          when it is NODE_LOCK_FORGOTTEN_MS old */
};

/* Whose is it? pod is the object of that name (NULL: there is none); offered: what the node's
 * Device lists. */
enum node_lock_verdict node_lock_judge(const struct node_lock *lock, const json_t *pod,
                                       const struct device_resource *offered, size_t n_offered,
                                       int64_t now_ms);
