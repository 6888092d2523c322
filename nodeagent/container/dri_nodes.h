/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/auto.h"
#include "base/err.h"

/*
 * The kernel's device files of graphics cards (DRM), through which all cards but NVIDIA's are used:
 *
 *   /dev/dri/card<N>, renderD<N>   of one card: /sys/bus/pci/devices/<bus id>/drm/ names them
 *
 * The driver and udev make them; this module only looks them up. Source: the kernel's
 * Documentation/gpu/drm-uapi.rst and Documentation/ABI.
 */

#define DRI_BUS_ID_BYTES 24
/* Bound on the DRM nodes of one function; more are ignored. */
#define DRI_MAX_NODES 64

/* The folders to search. Borrowed strings. */
struct dri_where {
    const char *sys_root; /* "/sys", or a copy of it */
    const char *dev_root; /* the folder that holds dev/, as the agent sees it: "/", "/host" */
};

/* The nodes of one card that exist below dev_root, each list sorted by number: the first is the
 * card's own. */
struct dri_card {
    char bus_id[DRI_BUS_ID_BYTES]; /* as dri_bus_id writes it */
    unsigned cards[DRI_MAX_NODES]; /* /dev/dri/card<N> */
    size_t n_cards;
    unsigned renders[DRI_MAX_NODES]; /* /dev/dri/renderD<N> */
    size_t n_renders;
};

/* The nodes as read. Immutable once read; owned: dri_nodes_done. */
struct dri_nodes {
    struct dri_card *cards;
    size_t n_cards;
    char *host_dev_root; /* the folder that holds dev/, as the container runtime sees it; "" for "/"
                          */
};

/* True when a file of this name ("dri/card0") exists below dev/. Links do not count, since they may
 * lead to a container's file. */
bool dri_file_stands(const char *dev_root, const char *name);

/* Reads which files exist for the cards at these PCI addresses. A text that is no address is left
 * out; a card that the kernel does not show has no nodes. host_dev_root: the folder
 * that holds dev/ as the container runtime sees it; NULL or "/": the files are the host's own.
 * Reads folders of /sys and /dev; for the worker, not for Allocate. Release *ret with
 * dri_nodes_done. */
void dri_nodes_read(const struct dri_where *w, const char *host_dev_root,
                    const char *const *bus_ids, size_t n, struct dri_nodes *ret);

/* The nodes of the card at an address, in any spelling; NULL: it was not asked for. Borrowed. */
const struct dri_card *dri_nodes_card(const struct dri_nodes *n, const char *bus_id);

/* True when both hold the same. */
bool dri_nodes_equal(const struct dri_nodes *a, const struct dri_nodes *b);

/* Frees its contents and makes it empty. */
void dri_nodes_done(struct dri_nodes *n);
AUTO_DEFINE(dri_nodes, struct dri_nodes, dri_nodes_done)
#define auto_dri_nodes AUTO(dri_nodes)

/* The parsers, for tests and fuzzing; both are pure. */

/* Writes an address as sysfs spells it (0000:3b:00.0, also for 00000000:3B:00.0) into ret, which
 * holds DRI_BUS_ID_BYTES. False: text is no address, or NULL. */
bool dri_bus_id(const char *text, char *ret);
/* The number of "renderD128" where prefix is "renderD"; -1: another name. */
int dri_number(const char *name, const char *prefix);
