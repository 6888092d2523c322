/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>

#include "base/err.h"

/*
 * Which pod a process belongs to, told by its cgroup path. The kubelet names pod cgroups
 * kubepods[/burstable|/besteffort]/pod<uid> (cgroupfs driver) or
 * kubepods[-burstable|-besteffort]-pod<uid with '_' for '-'>.slice (systemd driver); the runtime
 * adds the container's id below. From a cgroup namespace of our own, which containers have with
 * cgroup v2 unless they are privileged, paths are relative to our container:
 * "/../../pod<uid>/<id>".
 *
 * Whoever is given a cgroup (a user's session, a container) can make others below it, named like a
 * pod's. So a name counts only in the kubelet's own folders: where our own pod lies, beside us, or
 * where kubelets have their pods unless they are told otherwise. In a path with two pods the upper
 * one is meant. Pure parsing plus two small file reads.
 */
#define CONSUMER_UID_BYTES       40
#define CONSUMER_CONTAINER_BYTES 72

struct consumer {
    char pod_uid[CONSUMER_UID_BYTES];            /* with dashes, as in metadata.uid */
    char container_id[CONSUMER_CONTAINER_BYTES]; /* 64 hex digits, or "" when not told */
};

/* Finds the pod in the text of /proc/<pid>/cgroup, cgroup v1 or v2. own_text: of our own process,
 * which tells where pods lie; NULL: not known. False: not in a pod; *ret is untouched then. */
bool consumer_parse_cgroup(const char *text, const char *own_text, struct consumer *ret);

/* The pod of a process of the host. ERR_NOT_FOUND: the process is gone or in no pod; ERR_SYSTEM.
 * proc_root NULL: /proc. */
int consumer_of_pid(const char *proc_root, unsigned pid, struct consumer *ret,
                    struct err *e) MUST_CHECK;
