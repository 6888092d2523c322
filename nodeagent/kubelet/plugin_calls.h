/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "nodeagent/kubelet/grpc_server.h"
#include "nodeagent/kubelet/plugin_messages.h"

/*
 * The calls of the device plugin API that have one answer, for one resource. Answered at once, on
 * the reactor's thread.
 */

/* The callbacks. They answer from memory, on the reactor's thread, because the kubelet admits one
 * pod at a time and waits. The error's text becomes the pod's. */
struct plugin_ops {
    int (*allocate)(void *arg, const char *resource, const char *const *ids, size_t n,
                    struct entry *ret, struct err *e);
    /* Fills ret_ids with p->size pointers out of p->available. */
    int (*prefer)(void *arg, const char *resource, const struct plugin_preference *p,
                  const char **ret_ids, struct err *e);
    /* Called when the results of device_plugin_trouble and device_plugin_contested may have changed,
     * or a device_plugin_verify may find something else. */
    void (*changed)(void *arg);
};

/* Registrations that succeeded, and answers to Allocate, since the start. */
struct plugin_stats {
    int64_t registrations, allocations, refused;
};

/* All borrowed. */
struct plugin_calls {
    const char *resource;
    const struct plugin_ops *ops;
    void *arg; /* the callbacks' */
    struct plugin_stats *stats;
};

/* Handlers (grpc_handler_fn); arg is a struct plugin_calls. */
void plugin_calls_options(void *arg, struct grpc_call *call, const uint8_t *request, size_t len);
void plugin_calls_allocate(void *arg, struct grpc_call *call, const uint8_t *request, size_t len);
void plugin_calls_prefer(void *arg, struct grpc_call *call, const uint8_t *request, size_t len);
void plugin_calls_pre_start(void *arg, struct grpc_call *call, const uint8_t *request, size_t len);
