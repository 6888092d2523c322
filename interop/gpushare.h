/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "api/allocation.h"
#include "api/device.h"

/*
 * The words of Alibaba Cloud's gpushare (gpushare-scheduler-extender pkg/utils/const.go,
 * gpushare-device-plugin pkg/gpu/nvidia/const.go): what its pods ask for, and what its tool
 * `kubectl inspect gpushare` reads (cmd/inspect). Pure.
 */

/* The resource that is memory in GiB: a container's is of one card, a Node's of all its cards. */
#define GPUSHARE_MEMORY "aliyun.com/gpu-mem"
/* The resource of a Node that is the number of its cards. */
#define GPUSHARE_COUNT "aliyun.com/gpu-count"
/* Annotation of a pod: which containers have how many GiB of which card. */
#define GPUSHARE_ALLOCATION "scheduler.framework.gpushare.allocation"

bool gpushare_is_resource(const char *name);

/* The sums over a node's cards. gpushare takes the cards of a node for equal ones. */
struct gpushare_sums {
    int64_t gib, cards;
};
/* Adds a card with so much memory that is given out in shares by these terms. */
void gpushare_sums_add(struct gpushare_sums *s, int64_t memory_mib,
                       const struct device_fractional *terms);
/* Adds the resources, for the controller to publish; none where there is no card. XPUSHes. */
void gpushare_sums_offer(const struct gpushare_sums *s, struct device_resource **list, size_t *n);

/* The GiB in a container's limits, rounded up; 0: none, or GPUSHARE_MAX_GIB and more, which was
 * meant otherwise. */
int64_t gpushare_gib(const json_t *container);
enum { GPUSHARE_MAX_GIB = 16384, GPUSHARE_MIB_OF_GIB = 1024 };

/* The number on the node of a card, by its UUID; below 0: not known. */
typedef int64_t gpushare_card_fn(void *arg, const char *uuid);
/* The text of GPUSHARE_ALLOCATION: {"0":{"3":2}}, the first container has 2 GiB of card 3. Only
 * containers that ask in gpushare's words count, each with its first share. At most
 * GPUSHARE_ENTRY_BYTES for each container. Caller frees; NULL: there is none. */
char *gpushare_allocation_text(const json_t *pod, const struct allocation *a,
                               gpushare_card_fn *card, void *arg);
enum { GPUSHARE_ENTRY_BYTES = 64 };
