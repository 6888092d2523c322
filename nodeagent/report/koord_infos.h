/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/auto.h"
#include "base/err.h"

#include "api/device.h"

/*
 * The node's cards for koordlet, on nodes where koordlet writes Koordinator's own Device. They are
 * a file in koordlet's folder of device infos, in the format of koord-device-daemon; koordlet reads
 * every file there (pkg/koordlet/metricsadvisor/devices/xpu).
 *
 * One bad file costs koordlet all of them, so this file is only ever complete: it is written in a
 * subfolder, which koordlet ignores, and renamed into its folder. The file stays when the agent
 * ends; otherwise each update of the agent would take the cards away.
 */
struct koord_infos;

/* The file's name. */
#define KOORD_INFOS_FILE "cleave"

/* folder is copied; it may be missing. */
struct koord_infos *koord_infos_new(const char *folder);
/* Writes the file for this status if it differs from the last one written; removes it when no card
 * is for Koordinator. spec: the ordered spec, or NULL. ERR_SYSTEM: the next call tries again. */
int koord_infos_keep(struct koord_infos *k, const struct device_status *st,
                     const struct device_spec *spec, struct err *e) MUST_CHECK;
/* NULL allowed; returns NULL. The file stays. */
struct koord_infos *koord_infos_free(struct koord_infos *k);
AUTO_DEFINE_PTR(koord_infos, struct koord_infos, koord_infos_free)
#define auto_koord_infos AUTO_PTR(koord_infos)

/* --- Pure --- */

/* The file's text; NULL: there should be no file. Caller frees. */
char *koord_infos_text(const struct device_status *st, const struct device_spec *spec);
