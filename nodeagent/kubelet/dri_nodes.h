/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/auto.h"
#include "base/err.h"

/*
 * The kernel's own device files of graphics cards (DRM), by which all vendors' cards but NVIDIA's
 * are used:
 *
 *   /dev/dri/card<N>, renderD<N>   of one card: /sys/bus/pci/devices/<bus id>/drm/ names them
 *
 * The driver and udev make them; here they are only looked up. Source: the kernel's
 * Documentation/gpu/drm-uapi.rst and its Documentation/ABI.
 */

#define DRI_BUS_ID_BYTES 24
/* DRM numbers of one function beyond this many are not looked at. */
#define DRI_MAX_NODES 64

/* Where to look. Borrowed strings. */
struct dri_where {
    const char *sys_root; /* "/sys", or a copy of it */
    const char *dev_root; /* the folder that holds dev/, as seen from here: "/", "/host" */
};

/* The nodes of one card that stand below dev_root, each list from the lowest number on: the first
 * is the card's own. */
struct dri_card {
    char bus_id[DRI_BUS_ID_BYTES]; /* as dri_bus_id writes it */
    unsigned cards[DRI_MAX_NODES]; /* /dev/dri/card<N> */
    size_t n_cards;
    unsigned renders[DRI_MAX_NODES]; /* /dev/dri/renderD<N> */
    size_t n_renders;
};

/* What was read. Immutable once read; owned: dri_nodes_done. */
struct dri_nodes {
    struct dri_card *cards;
    size_t n_cards;
    char *host_dev_root; /* the folder that holds dev/, as the runtime sees it; "" for "/" */
};

/* Does a file of this name stand below dev/, "dri/card0"? Links do not count: what they lead to may
 * be a container's. */
bool dri_file_stands(const char *dev_root, const char *name);

/* Reads which of the files stand, for cards at these PCI addresses; one that is no address, or that
 * the kernel does not show, is a card without nodes, or left out. host_dev_root: as
 * device_nodes_read. Reads folders of /sys and /dev; for the worker, not for Allocate. *ret is to
 * be released with dri_nodes_done. */
void dri_nodes_read(const struct dri_where *w, const char *host_dev_root,
                    const char *const *bus_ids, size_t n, struct dri_nodes *ret);

/* The nodes of the card at an address, in whatever spelling; NULL: it was not asked for. Borrowed.
 */
const struct dri_card *dri_nodes_card(const struct dri_nodes *n, const char *bus_id);

/* Do they say the same? */
bool dri_nodes_equal(const struct dri_nodes *a, const struct dri_nodes *b);

/* Frees what it owns and makes it empty. */
void dri_nodes_done(struct dri_nodes *n);
AUTO_DEFINE(dri_nodes, struct dri_nodes, dri_nodes_done)
#define auto_dri_nodes AUTO(dri_nodes)

/* The parsers, for tests and fuzzing; both are pure. */

/* An address as sysfs spells it, 0000:3b:00.0 for 00000000:3B:00.0 too, into ret, which holds
 * DRI_BUS_ID_BYTES. false: text is none, or NULL. */
bool dri_bus_id(const char *text, char *ret);
/* The number of "renderD128" where prefix is "renderD"; -1: another name. */
int dri_number(const char *name, const char *prefix);
