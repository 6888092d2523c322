/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "nodeagent/kubelet/device_plugin.h"

/*
 * The device plugin's messages as bytes. Pure. Received bytes are bounded by the transport and may
 * be anything: ERR_INVALID where they are not the message.
 */
struct plugin_bytes {
    uint8_t *data; /* owned */
    size_t len;
};

struct plugin_bytes plugin_encode_register(const char *endpoint, const char *resource);
struct plugin_bytes plugin_encode_options(void);
struct plugin_bytes plugin_encode_list(const struct plugin_resource *r);

/* Called for each container of an Allocate or GetPreferredAllocation, in order. */
typedef int plugin_allocate_fn(void *arg, const char *const *ids, size_t n, struct entry *ret,
                               struct err *e);
typedef int plugin_prefer_fn(void *arg, const struct plugin_preference *p, const char **ret_ids,
                             struct err *e);

/* Decodes the request, calls fn for each container, encodes the answer. Returns an error of fn. */
int plugin_answer_allocate(const uint8_t *request, size_t len, plugin_allocate_fn *fn, void *arg,
                           struct plugin_bytes *ret, struct err *e) MUST_CHECK;
int plugin_answer_prefer(const uint8_t *request, size_t len, plugin_prefer_fn *fn, void *arg,
                         struct plugin_bytes *ret, struct err *e) MUST_CHECK;
