/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "partition/resolve.h"

/*
 * Names under which cards and partitions are offered: those of the vendors' device plugins
 * (partition/vendor.h), for NVIDIA's strategies none, single and mixed (k8s-device-plugin
 * internal/resource, internal/rm).
 */

/* With its domain; the plugin's bound on the whole of it. */
#define RESOURCE_NAME_BYTES 64

/* The strategy that holds: the one that is asked for, but mixed for single where the node's cards
 * do not all show one kind of partition, or one of them stays without any. A card that is ill, or
 * empty only until it is cut as spec (NULL: nothing) wants, has no say. What the kubelet is
 * offered, what the controller publishes and what the labels say follow this one decision. */
int resource_strategy(const struct resolve_card *cards, size_t n_cards,
                      const struct device_spec *spec, int asked);

/* The name of a partition, or with profile NULL of a whole card, of this vendor. renamed: it is
 * shared and has a name of its own for that. buf holds RESOURCE_NAME_BYTES. False: it is not
 * offered (under none a partition is not, the card is), or the name would be too long. */
bool resource_name(const char *vendor, int strategy, bool renamed, const char *profile, char *buf);
/* The name of slices that stand under this alias, or with alias NULL of those that are made for
 * pods. buf holds RESOURCE_NAME_BYTES. False: the vendor has none. */
bool resource_slice_name(const char *vendor, const char *alias, char *buf);

/* The name of virtual functions of cards. NULL: the vendor has none. Static. */
const char *resource_function_name(const char *vendor);

/* What all the cards offer, counts multiplied by replicas. Counts only healthy cards that show the
 * mode wanted of them; spec may be NULL (nothing is wanted: mixed). Sorted by name. *list and its
 * strings are the caller's (count may be 0, then *list is NULL). */
void resolve_resources(const struct resolve_card *cards, size_t n_cards,
                       const struct device_spec *spec, int publisher, struct device_resource **list,
                       size_t *n);
