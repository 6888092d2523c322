/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/auto.h"
#include "base/reactor.h"

#include "nodeagent/kubelet/plugin_messages.h"

/*
 * A client of the kubelet's PodResources API v1, which lists the devices of each container. It asks
 * on request, one question at a time and at most 50 a second (the kubelet answers 100, bursts of
 * 10). In a reactor, on its thread.
 */
struct pod_resources;

/* A device that a container holds. Borrowed for the call of the callback. */
struct pod_device {
    const char *resource, *id, *ns, *pod, *container;
};

/* A container of a pod of this node. Borrowed for the call of the callback. */
struct pod_container {
    const char *ns, *pod, *container;
};

/* Takes the containers of all pods, with devices or without, before the list of devices that the
 * same answer has. */
typedef void pod_resources_pods_fn(void *arg, const struct pod_container *list, size_t n);

/* Takes the devices that the kubelet would grant; borrowed for the call. */
typedef void pod_resources_granted_fn(void *arg, const struct plugin_granted *all, size_t n);

/* Takes a whole list that was asked for at asked_mono_ms (err NULL), or why there is none. */
typedef void pod_resources_fn(void *arg, const struct pod_device *list, size_t n,
                              int64_t asked_mono_ms, const struct err *err);

struct pod_resources_options {
    struct reactor *reactor;
    const struct clock *clk; /* the reactor's */
    const char *path;        /* the kubelet's socket; copied */
    pod_resources_fn *fn;
    pod_resources_granted_fn *granted_fn;
    pod_resources_pods_fn *pods_fn; /* NULL: nobody asks for them */
    void *arg;
};

struct pod_resources *pod_resources_new(const struct pod_resources_options *o);
/* Asks now, or as soon as the question in flight is answered and the rate allows. */
void pod_resources_ask(struct pod_resources *p);
/* When the kubelet's socket was first seen to be a new one; INT64_MIN: never. */
int64_t pod_resources_renewed_mono_ms(const struct pod_resources *p);
/* Asks which devices the kubelet would grant (GetAllocatableResources). A kubelet that cannot
 * answer gives no callback. */
void pod_resources_ask_granted(struct pod_resources *p);
/* NULL allowed; returns NULL. */
struct pod_resources *pod_resources_free(struct pod_resources *p);
AUTO_DEFINE_PTR(pod_resources, struct pod_resources, pod_resources_free)
#define auto_pod_resources AUTO_PTR(pod_resources)
