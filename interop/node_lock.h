/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

#include "api/device.h"

/*
 * The node lock of schedulers that share cards: the annotation hami.io/mutex.lock, taken on a Node
 * before a pod is bound to it (HAMi pkg/util/nodelock/nodelock.go; Koordinator
 * pkg/scheduler/plugins/deviceshare/device_plugin_adapter.go). While a Node has it, no other such
 * pod is bound there. A device plugin that does not learn for which pod it is asked then has one
 * pod to choose from, and removes the lock after its answer. Cleave learns from the kubelet which
 * pod got which slot. It needs no lock, and removes one that was taken for its own cards as soon as
 * it is seen. Pure.
 *
 * HAMi has this one lock for the cards of nearly all vendors. When the lock's pod also asks for
 * another vendor's cards, that vendor's plugin still waits for the lock, so it is left to that
 * plugin. The exception is a node where Cleave offers that vendor's cards too (the Device lists a
 * resource of that domain): then no other plugin answers the kubelet, and nobody else would remove
 * the lock.
 */
#define NODE_LOCK_ANNOTATION "hami.io/mutex.lock"
#define NODE_LOCK_POINTER    "hami.io~1mutex.lock" /* the same in a JSON pointer */
#define NODE_LOCK_MAX_BYTES  400 /* a time, a namespace, a pod's name, and some room */
/* Age from which the schedulers ignore a lock (NodeLockTimeout). */
#define NODE_LOCK_FORGOTTEN_MS (5 * 60 * 1000)

struct node_lock {
    int64_t since_ms; /* wall clock of the scheduler */
    char ns[64], pod[254];
};

/* Parses "<RFC 3339>,<namespace>,<pod>". Old schedulers wrote the time alone: then ns and pod are
 * "". ERR_INVALID. *ret is overwritten. */
int node_lock_parse(const char *value, struct node_lock *ret, struct err *e) MUST_CHECK;

enum node_lock_verdict {
    NODE_LOCK_LEAVE,   /* for good: another plugin removes it */
    NODE_LOCK_RELEASE, /* remove it now */
    /* Its pod does not exist: the schedulers break the lock, or it is judged again when it is
     * NODE_LOCK_FORGOTTEN_MS old. */
    NODE_LOCK_WAIT,
};

/* Decides who removes the lock. pod is the object that the lock names (NULL: it does not exist);
 * offered: the resources of the node's Device. */
enum node_lock_verdict node_lock_judge(const struct node_lock *lock, const json_t *pod,
                                       const struct device_resource *offered, size_t n_offered,
                                       int64_t now_ms);
