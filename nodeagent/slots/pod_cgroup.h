/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

/*
 * Where the kubelet keeps the cgroups of pods, with either of its cgroup drivers (kubernetes
 * pkg/kubelet/cm/cgroup_manager_linux.go). A pod's has the name of its uid, below one of its class
 * of service:
 *
 *   systemd    kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod<uid>.slice, with "_"
 *              for "-" in the uid
 *   cgroupfs   kubepods/burstable/pod<uid>
 *
 * and those of guaranteed pods stand directly in the first of these folders. root: the folder of the
 * kubelet's --cgroup-root; by default that is where cgroups are mounted. Where it is a slice, those
 * below repeat its name.
 */

/* True where cgroups are of version 2 alone. On a hybrid host the driver finds none at this root. */
bool pod_cgroups_are_v2(const char *root);
/* The folder that has those of all pods; ERR_NOT_FOUND: the kubelet has made none. Caller frees. */
int pod_cgroups_top(const char *root, char **ret, struct err *e) MUST_CHECK;
/* The folders in which cgroups of pods are made, those that are there. Caller frees each and the
 * list. */
void pod_cgroups_parents(const char *root, char ***ret, size_t *ret_n);

/* The folder of a pod's cgroup. ERR_NOT_FOUND: it is not there, not yet or no more. ERR_INVALID: no
 * folder has such a name, or its path is too long. Caller frees. */
int pod_cgroup_find(const char *root, const char *uid, char **ret, struct err *e) MUST_CHECK;
/* The uid in the name of a folder; NULL: it is no pod's. Caller frees. */
char *pod_cgroup_uid(const char *folder);
