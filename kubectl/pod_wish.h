/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

/*
 * The wish of a pod, as kube-scheduler takes it and as far as GPUs are concerned: what the pod asks
 * of a node. Pure; borrows from the pod.
 */

struct wish_resource {
    const char *name; /* in a vendor's domain, or gpu.cleave.dev's */
    int64_t count;
};

/* Vendors have some dozens of names together; a pod's author may write any number of them. */
enum { POD_WISH_MAX = 32 };

struct pod_wish {
    struct wish_resource resources[POD_WISH_MAX];
    size_t n;
    bool more;           /* it asks for others as well */
    const char *foreign; /* in a domain that Cleave does not know; NULL: it asks for none */
    /* The pod asks for shares of cards (api/share_request.h); a Node's resources say only their
     * sums. */
    bool shares;
};

/* Reads the wish: the sum of the pod's containers. Init containers run one by one, so that the
 * largest of them counts where it is more; those that go on running add to the sum
 * (kubernetes/enhancements KEP-753). *ret is overwritten. */
void pod_wish_read(const json_t *pod, struct pod_wish *ret);

/* The sum of two amounts, neither of which is negative; INT64_MAX where it is more: a pod may ask
 * for any number. */
int64_t pod_wish_sum(int64_t a, int64_t b);
/* The amount of a resource that a pod asks for. */
int64_t pod_wish_of(const struct pod_wish *w, const char *resource);
