/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>

#include "base/err.h"

#include "nodeagent/vendor/nvidia/nvidia_nodes.h"

/*
 * Makes the driver's missing device files, as nvidia-modprobe would. The driver's own settings
 * decide owner, mode, and whether user space may make them at all.
 *  - A file with the right number stays as it is.
 *  - A device file with a wrong number (the module was reloaded and has another major) is replaced
 *    by a rename.
 *  - Anything else under that name, above all a link, is left alone and reported.
 *
 * Only dev/ and dev/nvidia-caps/ below the given root are touched, and no link is followed there.
 * Does file I/O, so not for Allocate. After a failure the other files are still made; the first
 * failure is returned. ERR_CONFLICT: another kind of file has the name. ERR_FORBIDDEN: the agent
 * may not make device files here. ERR_SYSTEM.
 */

/* Makes the common files (nvidiactl; modeset, uvm and uvm-tools where the kernel has them; the MIG
 * capabilities config and monitor) and /dev/nvidia<minor> of these cards. Updates in *n which
 * common files exist. Without a driver it does nothing. */
int nvidia_make_cards(const struct driver_where *w, struct nvidia_nodes *n,
                      const unsigned *card_minors, size_t n_cards, struct err *e) MUST_CHECK;

/* Makes /dev/nvidia<minor> of one card. Without a driver it does nothing. */
int nvidia_make_card(const struct driver_where *w, const struct nvidia_nodes *n, unsigned minor,
                     struct err *e) MUST_CHECK;

/* Makes the two capability files of a partition. The driver shows their modes only once the
 * instances exist. ERR_NOT_FOUND: the driver does not show them. */
int nvidia_make_caps(const struct driver_where *w, const struct nvidia_nodes *n,
                     unsigned card_minor, unsigned gi_id, unsigned ci_id, struct err *e) MUST_CHECK;
