/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>

#include "base/err.h"

#include "nodeagent/kubelet/device_nodes.h"

/*
 * Makes the driver's device files where they are missing, as nvidia-modprobe would. Owner, mode and
 * whether user space may make them at all are the driver's own settings. A file that stands with
 * the right number is left as it is; a device file with a wrong number (the module was loaded anew
 * and has another major) is replaced at once by a rename; anything else under that name, a link
 * above all, is left alone and told of. Nothing but dev/ and dev/nvidia-caps/ below the given root
 * is touched, and no link is followed there.
 *
 * Does file I/O; not for the path of Allocate. What can be made is made even when something fails;
 * the first failure is told. ERR_CONFLICT: something else stands there. ERR_FORBIDDEN: not allowed
 * to make device files here. ERR_SYSTEM.
 */

/* The common files (nvidiactl; modeset, uvm and uvm-tools where the kernel has them; the MIG
 * capabilities config and monitor) and /dev/nvidia<minor> of these cards. Refreshes in *n which
 * common files stand. Nothing to do without a driver. */
int device_make_cards(const struct device_nodes_where *w, struct device_nodes *n,
                      const unsigned *card_minors, size_t n_cards, struct err *e) MUST_CHECK;

/* The two capability files of a partition, whose modes the driver shows once the instances exist.
 * ERR_NOT_FOUND: the driver does not show them. */
int device_make_caps(const struct device_nodes_where *w, const struct device_nodes *n,
                     unsigned card_minor, unsigned gi_id, unsigned ci_id, struct err *e) MUST_CHECK;
