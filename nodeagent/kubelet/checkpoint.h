/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <sys/stat.h>

#include "base/auto.h"
#include "base/err.h"

/*
 * The kubelet's own record of the devices that it granted: its device manager's checkpoint
 * (kubernetes pkg/kubelet/cm/devicemanager/checkpoint). It has what PodResources does not list:
 * init containers, and the pods of a kubelet that has just started and not heard from the API
 * server. It may be out of date: a pod's devices stay in it until the kubelet writes it again.
 */
struct checkpoint_device {
    char *resource, *id, *container;
    char *uid; /* of the pod */
};

/* What a plugin answered for the devices of one resource and container: devices [first, first + n)
 * of the checkpoint. The kubelet repeats the answer whenever the container starts. */
struct checkpoint_grant {
    size_t first, n;
    /* The host's paths of the device files in the answer; none also where they are more than 1,024,
     * or would be more than 65,536 with those before. */
    char **files;
    size_t n_files;
    bool is_marked; /* the answer has a mark for cleave-runtime (container/grant_mark.h) */
};

struct checkpoint {
    struct checkpoint_device *devices;
    size_t n;
    struct checkpoint_grant *grants; /* with at least one device */
    size_t n_grants;
    size_t n_files;   /* of all grants */
    struct stat seen; /* the file it was read from; st_nlink 0: none */
};

/* Parses the text. ERR_TOO_LARGE, ERR_PROTOCOL, ERR_INVALID leave *c unchanged. */
int checkpoint_parse(const char *text, size_t len, struct checkpoint *c, struct err *e) MUST_CHECK;
/* Reads the file if it changed. A missing file leaves the checkpoint empty. An error leaves *c
 * unchanged; what is no regular file, a link included, is ERR_INVALID. */
int checkpoint_refresh(struct checkpoint *c, const char *path, struct err *e) MUST_CHECK;

void checkpoint_done(struct checkpoint *c);
AUTO_DEFINE(checkpoint, struct checkpoint, checkpoint_done)
#define auto_checkpoint AUTO(checkpoint)
