/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

#include "nodeagent/container/entry.h"

/*
 * The device plugin's messages as bytes. Pure. Received bytes are bounded by the transport and may
 * be anything: ERR_INVALID where they are not the message.
 */

struct plugin_device {
    const char *id;
    bool healthy;
    int numa; /* -1: none */
};

struct plugin_resource {
    const char *name; /* "nvidia.com/gpu" */
    const struct plugin_device *devices;
    size_t n_devices;
};

/* A container's question in GetPreferredAllocation. */
struct plugin_preference {
    const char *const *available;
    size_t n_available;
    const char *const *must_include;
    size_t n_must_include;
    size_t size;
};

struct plugin_bytes {
    uint8_t *data; /* owned */
    size_t len;
};

/* Devices of a resource that the kubelet would grant. A resource has many of these: a kubelet names
 * each device apart. */
struct plugin_granted {
    const char *resource;
    char *const *ids;
    size_t n_ids;
};

struct plugin_bytes plugin_encode_register(const char *endpoint, const char *resource);
struct plugin_bytes plugin_encode_options(void);
struct plugin_bytes plugin_encode_list(const struct plugin_resource *r);

enum plugin_look {
    PLUGIN_LOOK_NOTHING, /* the kubelet would grant no device of the resource */
    PLUGIN_LOOK_LISTED,
    PLUGIN_LOOK_STRANGE, /* one that the list lacks is among them */
};
/* Compares a resource's encoded list with what the kubelet would grant of it. A list that is too long
 * to be looked through (8 MiB unpacked) lacks nothing. */
enum plugin_look plugin_list_look(const struct plugin_bytes *list, const char *resource,
                                  const struct plugin_granted *all, size_t n);

/* Called for each container of an Allocate or GetPreferredAllocation, in order. */
typedef int plugin_allocate_fn(void *arg, const char *const *ids, size_t n, struct entry *ret,
                               struct err *e);
typedef int plugin_prefer_fn(void *arg, const struct plugin_preference *p, const char **ret_ids,
                             struct err *e);

/* Decodes the request, calls fn for each container, encodes the answer. Returns an error of fn. */
int plugin_answer_allocate(const uint8_t *request, size_t len, plugin_allocate_fn *fn, void *arg,
                           struct plugin_bytes *ret, struct err *e) MUST_CHECK;
/* The host's paths of the device files in an answer to one container, as the kubelet keeps it in its
 * checkpoint: base64 of a ContainerAllocateResponse. *ret_marked: a mount of it is a mark
 * (container/grant_mark.h). ERR_INVALID: it is not that; ERR_TOO_LARGE: more than 1,024 of them.
 * Caller frees the n strings and the array. */
int plugin_answer_files(const char *base64, char ***ret, size_t *ret_n, bool *ret_marked,
                        struct err *e) MUST_CHECK;
int plugin_answer_prefer(const uint8_t *request, size_t len, plugin_prefer_fn *fn, void *arg,
                         struct plugin_bytes *ret, struct err *e) MUST_CHECK;
