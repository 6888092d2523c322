/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <jansson.h>

#include "base/auto.h"
#include "base/err.h"

#include "api/share_request.h"
#include "nodeagent/container/slot_pool.h"
#include "nodeagent/gpu/gpu.h"
#include "partition/fraction.h"

/*
 * What a container asks for with its slots of a pool of shares: its resources say how much, in the
 * words of the pool (api/share_request.h, interop/koordinator_pod.h), and an annotation of the pod
 * says which cards, where a scheduler chose them: cleave-scheduler's record (api/allocation.h) or
 * Koordinator's. An annotation never gives more than the container's resources, since everybody who
 * may create pods could write one, and quotas count resources. Pure.
 */

/* A share that the annotation gives. */
struct share_given {
    char card[GPU_UUID_BYTES];
    unsigned memory_mib; /* 0: as much as the container asks for, compute too */
    unsigned percent;
};

struct share_wish {
    struct share_request ask;  /* ask.count: the container's slots */
    const char *said_by;       /* the annotation that gives; NULL: none does. Static */
    struct share_given *given; /* ask.count of them, on different cards; NULL: no scheduler chose.
                                  Owned */
    bool
        is_unlimited; /* the container wants nothing to hold it to its shares, where it may choose */
    bool is_capped;   /* it wants no more than its compute, also alone */
    struct fraction_wish cards; /* which cards the pod wants; borrows from `texts` */
    char *texts[4];             /* owned */
};

/* The wish of a container with so many slots of a pool of shares, of the pod (the object, as JSON).
 * ERR_INVALID: resources or annotations cannot be meant, do not agree with each other, or with the
 * number of slots. ERR_NOT_FOUND: the pod has no such container. Others as allocation_parse. *ret is
 * set where 0 is returned; free it with share_wish_done. */
int share_wish_of(const json_t *pod, const char *container, enum slot_pool pool, size_t n_slots,
                  struct share_wish *ret, struct err *e) MUST_CHECK;
void share_wish_done(struct share_wish *w);
AUTO_DEFINE(share_wish, struct share_wish, share_wish_done)
#define auto_share_wish AUTO(share_wish)
