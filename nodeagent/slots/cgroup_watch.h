/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>

#include "base/auto.h"
#include "base/err.h"

/*
 * Waits for cgroups that the kubelet is about to make for pods: it grants a pod its devices a moment
 * before. The kernel is asked to report new folders only while somebody waits. One thread.
 */
struct cgroup_watch;

/* root: as for pod_cgroup_find. NULL: the kernel gives no such reports; whoever waits has to ask
 * again. */
struct cgroup_watch *cgroup_watch_new(const char *root);
/* NULL allowed; returns NULL. */
struct cgroup_watch *cgroup_watch_free(struct cgroup_watch *w);
AUTO_DEFINE_PTR(cgroup_watch, struct cgroup_watch, cgroup_watch_free)
#define auto_cgroup_watch AUTO_PTR(cgroup_watch)

/* True when the pod's cgroup is there. Else *ret_why says so, and cgroup_watch_fd becomes readable
 * when a cgroup is made. */
bool cgroup_watch_has(struct cgroup_watch *w, const char *uid, struct err *ret_why);
int cgroup_watch_fd(const struct cgroup_watch *w);
/* Empties the descriptor, and stops waiting. True: some cgroup was made. */
bool cgroup_watch_take(struct cgroup_watch *w);
