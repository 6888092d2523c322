/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <sys/stat.h>

#include "base/auto.h"
#include "base/err.h"

/*
 * What the kubelet has on record of the devices that it gave away: its device manager's checkpoint
 * (kubernetes pkg/kubelet/cm/devicemanager/checkpoint). It knows what PodResources does not list:
 * init containers, and the pods of a kubelet that has just started and not heard from the API
 * server. It may be behind: what a pod had stands there until something else is written.
 */
struct checkpoint_device {
    char *resource, *id, *container;
    char *uid; /* of the pod */
};

struct checkpoint {
    struct checkpoint_device *devices;
    size_t n;
    struct stat seen; /* the file that they are from; st_nlink 0: none */
};

/* ERR_TOO_LARGE, ERR_PROTOCOL, ERR_INVALID; *c is then as it was. */
int checkpoint_parse(const char *text, size_t len, struct checkpoint *c, struct err *e) MUST_CHECK;
/* Reads the file, if it is another than before. One that is not there says nothing. An error
 * leaves *c as it was. */
int checkpoint_refresh(struct checkpoint *c, const char *path, struct err *e) MUST_CHECK;

void checkpoint_done(struct checkpoint *c);
AUTO_DEFINE(checkpoint, struct checkpoint, checkpoint_done)
#define auto_checkpoint AUTO(checkpoint)
