/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

#include "api/share_request.h"

/*
 * Koordinator's words in a pod: how much of a card its containers ask for (apis/extension/
 * resource.go), and which cards its scheduler chose (apis/extension/device_share.go). Pure.
 */

/* Annotation of a pod, written by the scheduler: {"gpu":[{"minor":0,"id":"GPU-…"}]}. */
#define KOORDINATOR_ALLOCATED "scheduling.koordinator.sh/device-allocated"

/* The amounts in a list of resources, of all its cards together; one that it does not name is 0. */
struct koordinator_pod_amounts {
    bool has_core, has_memory, has_ratio;
    int64_t core;   /* percent of a card's compute */
    int64_t memory; /* bytes */
    int64_t ratio;  /* percent of a card's memory */
    int64_t cards;  /* gpu.shared: how many these are */
};

/* koordinator.sh/gpu means the same percentage of compute and memory. list: an object of quantities;
 * anything else: an empty one. ERR_INVALID: a value is no quantity; the message has the path. */
int koordinator_pod_amounts(const json_t *list, struct koordinator_pod_amounts *ret,
                            struct err *e) MUST_CHECK;

/* Beginnings of resources' names, with NULL at the end. In a container that names such a resource,
 * Koordinator's words are not of NVIDIA's cards, or have their slots already. */
extern const char *const koordinator_pod_others[];
/* The number of SHARE_SLOT that belongs to the limits of a container which asks for cards in
 * Koordinator's words alone: as many as Koordinator's scheduler looks for cards. 0: the container
 * names no card's memory, or a resource of koordinator_pod_others; or what it says cannot be meant. */
int64_t koordinator_pod_slots(const json_t *container);

/* The shares of a container that asks for SHARE_SLOT; a count of 0 where it does not. Memory is
 * rounded down to MiB, so that what Koordinator puts on one card together fits there. ERR_INVALID: it
 * names no memory in Koordinator's words, so that Koordinator's scheduler does not count it, or
 * another number of cards; a share would be more than a card, or less than 1 MiB; a value is no
 * quantity. */
int koordinator_pod_request(const json_t *container, struct share_request *ret,
                            struct err *e) MUST_CHECK;

/* The UUIDs of the cards that Koordinator's scheduler chose for a container with n shares, by which
 * resource it asks for them: a list of n texts, new reference. It chooses for the pod as a whole, and
 * counts its containers in equal parts. Its cards go to the containers in their order, the first ones
 * where there are more than shares; of fewer, each is for equally many. NULL: it did not choose.
 * ERR_INVALID: the annotation cannot be read, names a card by its minor alone, or does not fit the
 * pod's shares. */
int koordinator_pod_cards(const json_t *pod, const char *container, const char *resource, size_t n,
                          json_t **ret, struct err *e) MUST_CHECK;
