/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <jansson.h>
#include <stddef.h>

#include "base/err.h"

#include "nodeagent/container/grant_mark.h"

/*
 * A container's configuration (config.json of an OCI bundle), and what a description of devices
 * changes in it: the same as a runtime with CDI changes (container-device-interface,
 * pkg/cdi/container-edits.go). Pure, but for the look at a device file, which the caller does.
 * A member of the wrong type is ERR_INVALID and named.
 */

enum { OCI_MAX_GRANTS = 256 };

/* The devices that the configuration's marks name, each once, in their order. The caller frees
 * *ret. ERR_INVALID: a mark names no device; ERR_TOO_LARGE. */
int oci_grants(const json_t *config, struct grant_mark **ret, size_t *ret_n,
               struct err *e) MUST_CHECK;
/* Removes the marks, so that the container does not see them. */
void oci_remove_marks(json_t *config);

struct oci_node {
    char type; /* 'c', 'b' */
    unsigned major, minor;
};
/* What a device file of the host is. ERR_NOT_FOUND; ERR_INVALID: it is none. */
typedef int oci_look_fn(void *arg, const char *path, struct oci_node *ret, struct err *e);

/* Applies a description's containerEdits: environment, device files with the right to use them,
 * mounts, hooks. What the configuration has under the same name, path or destination is replaced.
 * Mounts come last, so that they lie over the pod's own. ERR_INVALID: an edit that is not known, or
 * not of its shape; an error of look. After an error the configuration is not to be used. */
int oci_apply(json_t *config, const json_t *edits, oci_look_fn *look, void *arg,
              struct err *e) MUST_CHECK;

/* Removes the device files that the description knows, with the right to use them, other than those
 * of the n edits: the kubelet repeats an old answer after a reboot, when a file may be another
 * partition's. Before oci_apply. */
void oci_drop_others(json_t *config, const json_t *description, const json_t *const *edits,
                     size_t n);
