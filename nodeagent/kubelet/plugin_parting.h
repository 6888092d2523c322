/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/auto.h"
#include "base/reactor.h"

/*
 * The last thing that a plugin does when another one has taken over its resources: it has the
 * kubelet forget which connection each resource has, so that the end of this plugin's streams
 * undoes nothing.
 *
 * Kubelets from 1.25 to 1.35 keep one connection for a resource, the newest. At the end of any
 * stream of the resource, an older one's too, they close that connection and count all devices of
 * the resource as ill (runClient in pkg/kubelet/cm/devicemanager/plugin/v1beta1/handler.go,
 * kubernetes#127803). A registration that fails leaves no connection on record (connectClient, the
 * same file): devices, streams and Allocate stay as they are, and the end of a stream is passed
 * over. So each resource is registered once more, at a socket that refuses the kubelet's first
 * question. Later kubelets know whose stream ended; there the failed registration has no effect.
 *
 * Until the successor registers again (device_plugin_renew) such a kubelet would not notice its
 * end.
 */
struct plugin_parting;

/* Begins. names are copied; dir holds kubelet.sock. Calls fn from the reactor once the kubelet has
 * answered for every resource, or after PLUGIN_PARTING_MS. A socket that cannot be made is logged,
 * and fn then called at once from the reactor. Borrows r. */
#define PLUGIN_PARTING_MS 3000
typedef void plugin_parting_fn(void *arg);
struct plugin_parting *plugin_parting_new(struct reactor *r, const char *dir,
                                          const char *const *names, size_t n, plugin_parting_fn *fn,
                                          void *arg);
/* Not from fn. NULL allowed; returns NULL. */
struct plugin_parting *plugin_parting_free(struct plugin_parting *p);
AUTO_DEFINE_PTR(plugin_parting, struct plugin_parting, plugin_parting_free)
#define auto_plugin_parting AUTO_PTR(plugin_parting)
