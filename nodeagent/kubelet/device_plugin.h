/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/auto.h"
#include "base/reactor.h"

#include "nodeagent/kubelet/entry.h"

/*
 * The kubelet's device plugin API v1beta1 (k8s.io/kubelet pkg/apis/deviceplugin), inside the
 * agent's loop: for each resource a socket of its own and a registration, all in one thread. What
 * is offered changes in place, by a message on the streams that the kubelet holds open; nothing is
 * ever restarted for it.
 *
 * Registers again whenever the kubelet does not listen any more: its socket was made anew (inotify
 * on the folder, and the inode), or all its streams of a resource have ended. Sockets have names
 * that no other process uses, so an old plugin's end cannot be taken for ours.
 */
struct device_plugin;

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

/* What GetPreferredAllocation asks for one container. */
struct plugin_preference {
    const char *const *available;
    size_t n_available;
    const char *const *must_include;
    size_t n_must_include;
    size_t size;
};

/* Answers from memory, on the reactor's thread: the kubelet admits one pod after the other and
 * waits. The error's text becomes the pod's. */
struct plugin_ops {
    int (*allocate)(void *arg, const char *resource, const char *const *ids, size_t n,
                    struct entry *ret, struct err *e);
    /* Fills ret_ids with p->size pointers out of p->available. */
    int (*prefer)(void *arg, const char *resource, const struct plugin_preference *p,
                  const char **ret_ids, struct err *e);
    /* What device_plugin_trouble says may have changed. */
    void (*changed)(void *arg);
};

struct device_plugin_options {
    struct reactor *reactor;
    const struct clock *clk; /* the reactor's */
    const char *dir;         /* of kubelet.sock and of the plugins' sockets */
    const struct plugin_ops *ops;
    void *arg;
    uint64_t seed; /* for the sockets' names */
};

/* The kubelet's bound on a message is 4 MiB; a resource whose list is larger than this is refused.
 */
#define PLUGIN_MAX_LIST (2U << 20)

/* Borrows reactor and ops, copies dir. A folder that is not there yet is waited for. Removes
 * sockets that earlier processes of ours left there and nobody serves. ERR_SYSTEM. */
int device_plugin_new(const struct device_plugin_options *o, struct device_plugin **ret,
                      struct err *e) MUST_CHECK;
/* What is on offer from now on, all of it. Copies. A resource that is no more among them is shown
 * empty, and after a while its registration ends. */
void device_plugin_set(struct device_plugin *p, const struct plugin_resource *list, size_t n);
/* Says once more what is on offer, of one resource that the kubelet listens to: it writes its
 * checkpoint whenever it is told something. */
void device_plugin_repeat(struct device_plugin *p);
/* Looks whether the kubelet's socket is still the one that was registered with, for when a
 * notification was lost. */
void device_plugin_check(struct device_plugin *p);

/* The kubelet says of which resources it would grant something. One that it listens to and that has
 * a healthy device, and that is not among them, is registered anew: kubelets before 1.36 let the
 * late end of an old stream undo a new registration (kubernetes#135437). True: one was too new to
 * be judged, ask once more. */
bool device_plugin_verify(struct device_plugin *p, const char *const *names, size_t n);

enum plugin_state {
    PLUGIN_SERVED,    /* the kubelet listens to every resource */
    PLUGIN_WAITING,   /* for a kubelet that is not there, or for it to listen */
    PLUGIN_REFUSED,   /* the kubelet refuses a resource */
    PLUGIN_TOO_LARGE, /* a resource's list would be */
    PLUGIN_FAILED,    /* the socket cannot be made */
    PLUGIN_NO_CDI,    /* all is served, but the CDI file could not be written */
    PLUGIN_NO_MPS,    /* all is served, but an MPS control daemon does not run */
};
/* The worst of what is wrong; *ret_text, for a person, is borrowed until the next call of anything
 * here. */
enum plugin_state device_plugin_trouble(const struct device_plugin *p, const char **ret_text);

/* Registrations that succeeded, and answers to Allocate, since the start. */
struct plugin_stats {
    int64_t registrations, allocations, refused;
};
struct plugin_stats device_plugin_stats(const struct device_plugin *p);

/* Ends all streams: the kubelet counts what they offered as gone. NULL allowed; returns NULL. */
struct device_plugin *device_plugin_free(struct device_plugin *p);
AUTO_DEFINE_PTR(device_plugin, struct device_plugin, device_plugin_free)
#define auto_device_plugin AUTO_PTR(device_plugin)
