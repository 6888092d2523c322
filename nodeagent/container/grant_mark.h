/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>

/*
 * The mark by which cleave-runtime knows the devices that a container was granted, where the
 * container runtime does not do CDI (docs/adr/0038). One mount of the answer to Allocate for each
 * device:
 *
 *   source GRANT_SOURCE, destination GRANT_FOLDER/<vendor>/<CDI name>
 *
 * The source is what makes it a mark. A pod names the destinations of its volumes, but the kubelet
 * and the volumes' plugins choose the sources, all of them below folders of their own. The exception
 * is a hostPath volume, by which a pod reaches the whole host already. Environment, annotations and
 * arguments are the pod's own words and count for nothing.
 *
 * The source need not exist: a container runtime makes an empty folder of the name, and without
 * cleave-runtime the container sees that folder, which is empty. Pure.
 */
#define GRANT_SOURCE "/run/cleave/granted"
#define GRANT_FOLDER "/run/cleave/devices"

enum { GRANT_VENDOR_BYTES = 16, GRANT_NAME_BYTES = 160 };

struct grant_mark {
    char vendor[GRANT_VENDOR_BYTES]; /* "nvidia": lower-case letters and digits */
    char name[GRANT_NAME_BYTES];     /* letters, digits and "_-."; no slash */
};

/* The destination of a device's mark. Caller frees. */
char *grant_mark_path(const char *vendor, const char *cdi_name);
/* False where the destination of a mark names no device. */
bool grant_mark_parse(const char *destination, struct grant_mark *ret);
