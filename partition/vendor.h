/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>

/*
 * The vendors whose cards Cleave knows, as far as the whole cluster has to tell them apart: by the
 * names under which their own device plugins offer cards. What else is different about them is in
 * the agent's back ends.
 */
struct vendor {
    const char *name;   /* as in Device.status and in selectors */
    const char *domain; /* of the names of its resources, with '/' */
    const char *card;   /* a whole card */
    const char *part;   /* goes before the name of a hardware partition; NULL: it has none */
    const char *slice;  /* one that is made for its pod; NULL: it has none. One that stands has "-"
                           and its alias after it */
    const char *function; /* a virtual function of a card (SR-IOV); NULL: it has none */
    bool has_mps;         /* its cards can be shared by MPS */
};

/* By name, the last one without. */
extern const struct vendor vendors[];
/* Is a resource of this name one under which we offer cards, parts or slices of them? */
bool vendor_offers(const char *resource);
/* Has a resource of this name a domain in which we may offer any? */
bool vendor_owns(const char *resource);
/* NULL: we know none of this name. */
const struct vendor *vendor_find(const char *name);
