/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <jansson.h>

#include "base/err.h"
#include "base/sb.h"

/*
 * The shares of NVIDIA cards that one container asks for, in HAMi's words (HAMi pkg/device/nvidia/
 * device.go GenerateResourceRequests): the resources below among its limits, or among its requests
 * where it has no limits. Pure.
 *
 * What HAMi clamps is clamped, with a warning, since pods that run there are to run here. What it
 * takes for no request at all although something is written, is refused; and so is memory from
 * 16 TiB on, which was meant as bytes ("1Gi", "40Mi").
 */

#define SHARE_COUNT          "nvidia.com/gpu"
#define SHARE_MEMORY         "nvidia.com/gpumem"
#define SHARE_MEMORY_PERCENT "nvidia.com/gpumem-percentage"
#define SHARE_COMPUTE        "nvidia.com/gpucores"
#define SHARE_PRIORITY       "nvidia.com/priority"

/* The number of shares that a container asks the kubelet for where it says how much in words that no
 * device plugin serves: Koordinator's (interop/koordinator_pod.h). */
#define SHARE_SLOT "gpu.cleave.dev/share"

/* The annotation of a pod whose values were clamped when it was made: which, in words. */
#define SHARE_CLAMPED "gpu.cleave.dev/clamped"

enum {
    SHARE_MAX_COUNT = 1024, /* of a node */
    /* Below 16 TiB. HAMi's bound is 31 bits, which "1Gi", meant as bytes, is below. */
    SHARE_MAX_MIB = (1 << 24) - 1,
};

struct share_request {
    unsigned count;          /* shares, each on a card of its own; 0: none */
    unsigned memory_mib;     /* of each; 0: see memory_percent */
    unsigned memory_percent; /* 1 to 100 of its card's memory, where memory_mib is 0 */
    unsigned compute; /* percent of its card's compute; 0: no guarantee; 100: the card alone */
    int priority;     /* 0 high, 1 low; -1: not said */
};

/* What the container asks for; a count of 0 where it names none of the resources. Memory or
 * compute without a count is one share; a count without memory is whole cards. warnings (NULL: not
 * wanted) gets a line for each value that was clamped or does not count.
 * ERR_INVALID: a value cannot be meant; the message names resource, value and remedy. */
int share_request_of(const json_t *container, struct share_request *ret, struct sb *warnings,
                     struct err *e) MUST_CHECK;
