/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/auto.h"
#include "base/err.h"

#include "api/device.h"

/*
 * The node's cards for koordlet, where it is koordlet that writes Koordinator's Device: a file in
 * its folder of device infos, which it reads with every other that is there
 * (pkg/koordlet/metricsadvisor/devices/xpu; the format is that of koord-device-daemon). One bad
 * file there costs it all of them, so ours comes whole: it is made in a folder of our own below,
 * folders are passed over, and put in its place by a rename. The file stays when the agent ends,
 * or each update of the agent would take the cards away.
 */
struct koord_infos;

/* Name of the file. */
#define KOORD_INFOS_FILE "cleave"

/* folder is copied; it need not be there. */
struct koord_infos *koord_infos_new(const char *folder);
/* Brings the file to what this status says, if that differs from what was written last; removes it
 * when there is no card that Koordinator is to see. spec is what is ordered, or NULL. ERR_SYSTEM:
 * the next call tries again. */
int koord_infos_keep(struct koord_infos *k, const struct device_status *st,
                     const struct device_spec *spec, struct err *e) MUST_CHECK;
/* NULL allowed; returns NULL. The file stays. */
struct koord_infos *koord_infos_free(struct koord_infos *k);
AUTO_DEFINE_PTR(koord_infos, struct koord_infos, koord_infos_free)
#define auto_koord_infos AUTO_PTR(koord_infos)

/* --- Pure --- */

/* The file's text; NULL: there is to be none. Caller frees. */
char *koord_infos_text(const struct device_status *st, const struct device_spec *spec);
