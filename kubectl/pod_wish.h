/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

/*
 * A pod as kube-scheduler takes it, as far as GPUs are concerned: what it asks of a node, and which
 * nodes it may have. Pure; borrows from the pod.
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
    bool more; /* it asks for others as well */
    /* It says how much of a card it asks for (api/share_request.h); Nodes tell only sums of that. */
    bool shares;
    const json_t *spec;
};

/* The sum of its containers; of init containers, which run one by one, the most counts where it is
 * more (kubernetes/enhancements KEP-753: those that go on running add to the sum). *ret is
 * overwritten. */
void pod_wish_read(const json_t *pod, struct pod_wish *ret);

/* The sum of two amounts, neither of which is negative; INT64_MAX where it is more: a pod may ask for
 * any number. */
int64_t pod_wish_sum(int64_t a, int64_t b);
/* How much of a resource a pod asks for. */
int64_t pod_wish_of(const struct pod_wish *w, const char *resource);
/* Why the pod may not have this Node, for a person: not Ready, cordoned, a taint that it does not
 * tolerate, its nodeSelector. Caller frees. NULL: it may, as far as is judged here (affinity and
 * what other pods want is not). */
char *pod_wish_refusal(const struct pod_wish *w, const json_t *node);
