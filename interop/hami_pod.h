/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <jansson.h>
#include <stdbool.h>

#include "base/err.h"

#include "api/allocation.h"
#include "partition/fraction.h"

/*
 * HAMi's annotations of pods with NVIDIA's cards (HAMi pkg/util/types.go, pkg/device/nvidia/
 * device.go, pkg/scheduler/policy): what a pod wishes of its cards, and what it was given. Pure.
 */

#define HAMI_USE_MODEL   "nvidia.com/use-gputype"
#define HAMI_NO_MODEL    "nvidia.com/nouse-gputype"
#define HAMI_USE_UUID    "nvidia.com/use-gpuuuid"
#define HAMI_NO_UUID     "nvidia.com/nouse-gpuuuid"
#define HAMI_NUMA_BIND   "nvidia.com/numa-bind"
#define HAMI_MODE        "nvidia.com/vgpu-mode"
#define HAMI_NODE_POLICY "hami.io/node-scheduler-policy"
#define HAMI_CARD_POLICY "hami.io/gpu-scheduler-policy"
#define HAMI_WEIGHTS     "hami.io/device-scoring-weights"
#define HAMI_ALLOCATED   "hami.io/vgpu-devices-allocated"
#define HAMI_MIG         "hami.io/vgpu-mig-allocations" /* beside it: of MIG partitions */

/* True for an identifier under which HAMi's device plugin gives out a card: "GPU-<uuid>-3". */
bool hami_is_device_id(const char *id);

enum hami_node_policy { HAMI_NODE_UNSET = -1, HAMI_NODE_BINPACK, HAMI_NODE_SPREAD };

/* What a card has to be for the pod: shared by limits (the default), cut by MIG, or by MPS. */
enum hami_mode { HAMI_MODE_UNSET = -1, HAMI_MODE_CORE, HAMI_MODE_MIG, HAMI_MODE_MPS };

struct hami_wish {
    struct fraction_wish cards; /* borrows the pod's strings */
    enum hami_node_policy nodes;
    enum hami_mode mode;
};

/* Reads the annotations of a pod (the object, as JSON); without them *ret has the defaults.
 * ERR_INVALID names annotation, value and what is allowed: a list of policies, models or uuids has
 * an item, and one of models or uuids at most HAMI_MAX_LIST_BYTES. Blanks around policies, weights and
 * their names do not count. */
int hami_wish_of(const json_t *pod, struct hami_wish *ret, struct err *e) MUST_CHECK;
enum { HAMI_MAX_LIST_BYTES = 4096 };

/* True for a container (the object, as JSON) that wants no limiter: CUDA_DISABLE_CONTROL is true among
 * its variables, as written in the pod. What a ConfigMap says under the name is not known here. */
bool hami_disables_control(const json_t *container);

/* True for one that wants no more compute than it asks for, also alone: its variable
 * GPU_CORE_UTILIZATION_POLICY is force. What that may say besides, default and disable, takes nothing
 * from what the card's profile says. */
bool hami_caps_compute(const json_t *container);

/* The text of HAMI_ALLOCATED: for each of the pod's containers, init containers first, its shares
 * as "uuid,NVIDIA,MiB,percent:", and ';'. The record is one that allocation_check accepts; the text is
 * no longer than the record's and a byte for each container. Caller frees. */
char *hami_allocated_text(const json_t *pod, const struct allocation *a);
/* The reverse, for pods that HAMi has bound. Containers without shares are left out. With as many
 * entries as the pod has app containers, fewer than containers in all, they are the apps': so HAMi
 * wrote up to v2.8. ERR_INVALID: any other number of entries, one that is cut off or of another
 * shape, or what allocation_check refuses; ERR_NOT_FOUND: no share is named. *ret is to be freed in
 * any case. */
int hami_allocated_parse(const json_t *pod, const char *text, struct allocation *ret,
                         struct err *e) MUST_CHECK;
