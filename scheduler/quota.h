/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "kubeclient/store.h"
#include "scheduler/pod_shares.h"

/*
 * HAMi's words in a ResourceQuota: limits.nvidia.com/gpumem (MiB) and limits.nvidia.com/gpucores
 * (percent) bound what all pods of the namespace have together. Kubernetes accepts these keys and
 * counts nothing by them; its own requests.nvidia.com/… count a container's share once, whatever its
 * number. Each quota holds by itself; 0 allows nothing.
 */

/* The cache's kind: a record is there where a quota has one of the words. */
extern const struct object_type quota_type;
/* True where a quota (NULL: it is gone) has one of the words. */
bool quota_has_words(const struct object *quota);
/* Indexes the cache's store by namespace; before it runs. */
void quota_add_index(struct store *quotas);

struct quota_use {
    int64_t memory_mib, percent;
};
/* The bounds of a quota that has one of the words; -1: any amount. */
struct quota_use quota_most(const struct object *quota);
/* Adds what a pod's shares take. */
void quota_use_add(struct quota_use *u, const struct pod_shares *s);

/* Whether a quota bounds the shares of the namespace at all. */
bool quota_bounds(struct store *quotas, const char *ns);
/* Whether the namespace may have this much. ERR_UNAVAILABLE names the quota, the word, and how much there
 * would be of how much. */
int quota_check(struct store *quotas, const char *ns, const struct quota_use *use,
                struct err *e) MUST_CHECK;
