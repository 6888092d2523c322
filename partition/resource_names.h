/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "partition/resolve.h"

/*
 * The resource names of cards and partitions: those of the vendors' own device plugins
 * (partition/vendor.h), for NVIDIA with the strategies none, single and mixed (k8s-device-plugin
 * internal/resource, internal/rm).
 */

/* Including the domain; the device plugin's bound for the whole name. */
#define RESOURCE_NAME_BYTES 64

/* The effective strategy. It is `asked`, except that single falls back to mixed where the node's
 * cards do not all show one kind of partition, or one of them stays without any. A card does not
 * count while it is unhealthy, or while it is empty only until it becomes what spec (NULL: nothing)
 * wants. The kubelet's offer, the controller's resources and the labels all follow this one
 * decision. */
int resource_strategy(const struct resolve_card *cards, size_t n_cards,
                      const struct device_spec *spec, int asked);

/* The resource name of a partition, or with profile NULL of a whole card. renamed: it is shared
 * under a name of its own. buf holds RESOURCE_NAME_BYTES. False: it is not offered (under none a
 * partition is not, the card is), or the name would be too long. */
bool resource_name(const char *vendor, int strategy, bool renamed, const char *profile, char *buf);
/* The resource name of slices with this alias, or with alias NULL of slices that are made for pods.
 * buf holds RESOURCE_NAME_BYTES. False: the vendor has none. */
bool resource_slice_name(const char *vendor, const char *alias, char *buf);

/* The resource name of virtual functions. NULL: the vendor has none. Static. */
const char *resource_function_name(const char *vendor);

/* The offer of all cards, with counts multiplied by replicas. Counts only healthy cards in the mode
 * that is wanted of them; spec may be NULL (nothing is wanted: mixed). Sorted by name. *list and
 * its strings are the caller's (count may be 0, then *list is NULL). */
void resolve_resources(const struct resolve_card *cards, size_t n_cards,
                       const struct device_spec *spec, enum api_publisher publisher,
                       struct device_resource **list, size_t *n);
