/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>

#include "base/err.h"

/*
 * Which pod a process belongs to, told by its cgroup path. The kubelet names pod cgroups
 * kubepods[/burstable|/besteffort]/pod<uid> (cgroupfs driver) or
 * kubepods[-burstable|-besteffort]-pod<uid with '_' for '-'>.slice (systemd driver); the runtime
 * adds the container's id below. Pure parsing plus one small file read.
 */
#define CONSUMER_UID_BYTES       40
#define CONSUMER_CONTAINER_BYTES 72

struct consumer {
    char pod_uid[CONSUMER_UID_BYTES];            /* with dashes, as in metadata.uid */
    char container_id[CONSUMER_CONTAINER_BYTES]; /* 64 hex digits, or "" when not told */
};

/* Finds the pod in the text of /proc/<pid>/cgroup, cgroup v1 or v2. False: not in a pod; *ret is
 * untouched then. */
bool consumer_parse_cgroup(const char *text, struct consumer *ret);

/* The pod of a process of the host. ERR_NOT_FOUND: the process is gone or in no pod; ERR_SYSTEM.
 * proc_root NULL: /proc. */
int consumer_of_pid(const char *proc_root, unsigned pid, struct consumer *ret,
                    struct err *e) MUST_CHECK;
