/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>

#include "base/err.h"

/*
 * Finds the pod of a process by its cgroup path. The kubelet names pod cgroups
 * kubepods[/burstable|/besteffort]/pod<uid> (cgroupfs driver) or
 * kubepods[-burstable|-besteffort]-pod<uid with '_' for '-'>.slice (systemd driver); the runtime
 * adds the container's id below. In a cgroup namespace, which containers have with cgroup v2 unless
 * they are privileged, paths are relative to the agent's own container: "/../../pod<uid>/<id>".
 *
 * A process that owns a cgroup (a user's session, a container) can make others below it with the
 * name of a pod's. So a name counts only in the kubelet's own folders: beside the agent's own pod,
 * or where kubelets keep their pods by default. In a path with two pods the upper one counts. Pure
 * parsing, and two small file reads.
 */
#define CONSUMER_UID_BYTES       40
#define CONSUMER_CONTAINER_BYTES 72

struct consumer {
    char pod_uid[CONSUMER_UID_BYTES];            /* with dashes, as in metadata.uid */
    char container_id[CONSUMER_CONTAINER_BYTES]; /* 64 hex digits, or "" when the path has none */
};

/* Finds the pod in the text of /proc/<pid>/cgroup, cgroup v1 or v2. own_text: the text of the
 * agent's own process, which shows where pods are; NULL: not known. False: not in a pod; *ret is
 * untouched then. */
bool consumer_parse_cgroup(const char *text, const char *own_text, struct consumer *ret);

/* The pod of a process of the host. ERR_NOT_FOUND: the process is gone or in no pod; ERR_SYSTEM.
 * proc_root NULL: /proc. */
int consumer_of_pid(const char *proc_root, unsigned pid, struct consumer *ret,
                    struct err *e) MUST_CHECK;
