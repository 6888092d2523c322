/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/*
 * The names of each vendor in the cluster, for both programs: those under which its own device
 * plugin offers cards, and what Koordinator calls them. The agent's back ends are in
 * vendor/vendors.def.
 */
struct vendor {
    const char *name;   /* as in Device.status and in selectors */
    const char *title;  /* as it writes itself, for messages: "NVIDIA" */
    const char *domain; /* the domain of its resource names, with '/' */
    const char *card;   /* resource name of a whole card */
    const char *part;   /* prefix of the name of a hardware partition; NULL: it has none */
    /* Name of a slice made for its pod, and before "-<alias>" that of a static slice; NULL: it has
     * none. */
    const char *slice;
    const char *function; /* name of a virtual function of a card (SR-IOV); NULL: it has none */
    bool has_mps;         /* its cards can be shared by MPS */
    bool has_shares;      /* its whole cards can be given out in shares */
    uint16_t pci;         /* the PCI vendor id of its cards; 0: they are not on a PCI bus */
    const char *module;   /* the kernel's module that drives them; NULL: not known */
    /* Koordinator's own words for its cards. */
    struct vendor_koordinator {
        const char *model_prefix; /* cut from the start of the model; NULL: nothing is */
        const char *link;         /* the name of its links; NULL: "Link" */
        bool has_gpu;             /* koordinator.sh/gpu counts them */
        bool tells_driver;        /* the driver's version is one of the labels */
    } koordinator;
};

/* Sorted by name; ends with an entry without one. */
extern const struct vendor vendors[];
/* True for a resource name under which Cleave offers cards, partitions, slices or functions. */
bool vendor_offers(const char *resource);
/* True for a resource name in a vendor's domain, or under which Cleave offers shares. */
bool vendor_owns(const char *resource);
/* NULL: no vendor of this name is known. */
const struct vendor *vendor_find(const char *name);
/* The vendor's title, for messages: each names a card "<title> GPU <index>", since the first card
 * of every vendor on a node has index 0. A vendor without a row is called by its name; NULL by
 * "unknown". */
const char *vendor_title(const char *name);
