/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/auto.h"
#include "base/reactor.h"

/*
 * Client of the kubelet's PodResources API v1: which container holds which device. Asks when told
 * to, one question at a time and never more than 50 a second (the kubelet answers 100, bursts of
 * 10). In a reactor, on its thread.
 */
struct pod_resources;

/* A device that a container holds. Borrowed for the call of the function that is given it. */
struct pod_device {
    const char *resource, *id, *ns, *pod, *container;
};

/* The names of the resources that the kubelet has devices of; borrowed for the call. */
typedef void pod_resources_names_fn(void *arg, const char *const *names, size_t n);

/* The whole of a list that was asked for then; err NULL. Otherwise the list could not be had. */
typedef void pod_resources_fn(void *arg, const struct pod_device *list, size_t n,
                              int64_t asked_mono_ms, const struct err *err);

struct pod_resources_options {
    struct reactor *reactor;
    const struct clock *clk; /* the reactor's */
    const char *path;        /* of the kubelet's socket; copied */
    pod_resources_fn *fn;
    pod_resources_names_fn *names_fn;
    void *arg;
};

struct pod_resources *pod_resources_new(const struct pod_resources_options *o);
/* Asks now, or as soon as the question in flight is answered and the rate allows. */
void pod_resources_ask(struct pod_resources *p);
/* When the kubelet's socket was first seen to be another than before; INT64_MIN: never. */
int64_t pod_resources_renewed_mono_ms(const struct pod_resources *p);
/* Asks what the kubelet would grant (GetAllocatableResources). Where it cannot say, nothing
 * follows.
 */
void pod_resources_ask_names(struct pod_resources *p);
/* NULL allowed; returns NULL. */
struct pod_resources *pod_resources_free(struct pod_resources *p);
AUTO_DEFINE_PTR(pod_resources, struct pod_resources, pod_resources_free)
#define auto_pod_resources AUTO_PTR(pod_resources)
