/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/auto.h"
#include "base/reactor.h"

#include "nodeagent/kubelet/plugin_calls.h"

/*
 * The kubelet's device plugin API v1beta1 (k8s.io/kubelet pkg/apis/deviceplugin) inside the agent's
 * loop: a socket and a registration for each resource, all in one thread. A changed offer is a
 * message on the streams that the kubelet holds open; nothing is ever restarted for it.
 *
 * A resource registers again whenever the kubelet has stopped listening: its socket was made anew
 * (seen by inotify on the folder, and by the inode), or all its streams of the resource have ended.
 * Socket names are unique to this process, so that the end of an older plugin's socket cannot be
 * mistaken for this one's.
 */
struct device_plugin;

struct device_plugin_options {
    struct reactor *reactor;
    const struct clock *clk; /* the reactor's */
    const char *dir;         /* holds kubelet.sock and the plugins' sockets */
    const struct plugin_ops *ops;
    void *arg;
    uint64_t seed; /* for the sockets' names */
};

/* Bound on a resource's list, in bytes. The kubelet accepts messages up to 4 MiB. */
#define PLUGIN_MAX_LIST (2U << 20)

/* Borrows reactor and ops, copies dir. Waits for a folder that is missing. Removes unused sockets
 * of earlier agents there. ERR_SYSTEM. */
int device_plugin_new(const struct device_plugin_options *o, struct device_plugin **ret,
                      struct err *e) MUST_CHECK;
/* Sets the whole offer. Copies. A resource that is no longer in it is shown empty, and its
 * registration ends after a while. */
void device_plugin_set(struct device_plugin *p, const struct plugin_resource *list, size_t n);
/* Sends one resource's list again to the kubelet, because the kubelet writes its checkpoint after
 * each such message. */
void device_plugin_repeat(struct device_plugin *p);
/* Checks whether the kubelet's socket is still the registered one, in case a notification was
 * lost. */
void device_plugin_check(struct device_plugin *p);

/* Takes what the kubelet would grant. A resource that it listens to, that has a healthy device and
 * that is missing there is registered again: in kubelets before 1.36 the late end of an old stream
 * can undo a new registration (kubernetes#135437), another plugin's as well. Devices of a resource
 * that this plugin has not listed are another plugin's. True: it is too early to decide; ask the
 * kubelet once more. */
bool device_plugin_verify(struct device_plugin *p, const struct plugin_granted *all, size_t n);

enum plugin_state {
    PLUGIN_SERVED,    /* the kubelet listens to every resource */
    PLUGIN_WAITING,   /* no kubelet is there, or it does not listen yet */
    PLUGIN_REFUSED,   /* the kubelet refuses a resource */
    PLUGIN_TOO_LARGE, /* a resource's list is larger than PLUGIN_MAX_LIST */
    PLUGIN_FAILED,    /* the socket cannot be made */
    PLUGIN_NO_CDI,    /* all resources are served, but the CDI file could not be written */
    PLUGIN_NO_MPS,    /* all resources are served, but an MPS control daemon does not run */
};
/* The worst problem; *ret_text, for a person, is borrowed until the next call of any function
 * here. */
enum plugin_state device_plugin_trouble(const struct device_plugin *p, const char **ret_text);

/* A resource that another plugin has registered with the same kubelet as well (contest.h); NULL:
 * none. Borrowed until the next call of any function here. */
const char *device_plugin_contested(const struct device_plugin *p);

struct plugin_stats device_plugin_stats(const struct device_plugin *p);

/* Registers each resource that the kubelet reads once more, at a new socket, and leaves the stream
 * that the kubelet reads already: after a hand-over, when the agent before had the kubelet forget
 * its connections (plugin_parting.h) and this one's with them. Once in a plugin's life. */
void device_plugin_renew(struct device_plugin *p);
/* From now on calls are answered, and nothing else is done: no registration, no list, whatever
 * happens. For the time in which another agent takes over. */
void device_plugin_freeze(struct device_plugin *p);
/* The resources that the kubelet reads a stream of. The caller frees the array; the names are
 * borrowed until the next call of a function here. */
const char **device_plugin_heard(const struct device_plugin *p, size_t *ret_n);

/* Ends all streams; the kubelet then counts their devices as gone. NULL allowed; returns NULL. */
struct device_plugin *device_plugin_free(struct device_plugin *p);
AUTO_DEFINE_PTR(device_plugin, struct device_plugin, device_plugin_free)
#define auto_device_plugin AUTO_PTR(device_plugin)
