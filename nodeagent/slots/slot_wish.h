/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

#include "nodeagent/gpu/gpu.h"

/*
 * The slice that a pod asks for with a slot. Two schedulers write it into annotations, together
 * with the card that they chose: HAMi and Koordinator, each in its own format. Without an
 * annotation the container's requests decide.
 *
 * Without the admission policies of config/slots, everybody who may create pods can write such an
 * annotation. Therefore an annotation chooses the card but never gives more than the container
 * requests, since quotas count requests. Pure.
 *
 * Sources: HAMi pkg/device/metax/{protocol,sdevice,qos}.go; Koordinator
 * pkg/scheduler/plugins/deviceshare/device_plugin_adapter.go, apis/extension/device_share.go.
 */

#define SLOT_RESOURCE       "metax-tech.com/sgpu"
#define SLOT_COMPUTE        "metax-tech.com/vcore"
#define SLOT_MEMORY         "metax-tech.com/vmemory"
#define SLOT_QOS_ANNOTATION "metax-tech.com/sgpu-qos-policy"
#define SLOT_ALLOCATED      "metax-tech.com/gpu-devices-allocated"

struct slot_wish {
    char card[GPU_UUID_BYTES]; /* the scheduler's choice; "": any card with room */
    unsigned memory_mib;       /* rounded up to whole steps; 0: see memory_percent */
    unsigned memory_percent;   /* of a card's memory, where memory_mib is 0 */
    unsigned compute_percent;
    int qos; /* enum api_qos_policy; -1: the card's own */
    /* The annotation that decided (static; NULL: the container's requests did), and the most that
     * the requests allow it to give; memory as above. */
    const char *said_by;
    unsigned most_memory_mib, most_memory_percent;
};

/* The slice that a container of the pod (the object, as JSON) asks for with its nth slot, counted
 * from 0.
 *  - An annotation decides, within the container's requests.
 *  - Without an annotation and without requests a slot is worth a whole card.
 *  - Where Koordinator gave one card to several slots of a pod together, the annotation decides the
 *    card and the container's own requests decide the size.
 *  - Where Koordinator gave each slot a device, all alike, each gets an even part of what the pod's
 *    containers request together.
 *
 * ERR_INVALID: the annotation or request cannot be understood, is nothing that a card could give,
 * or is more compute than was requested. ERR_NOT_FOUND: the pod has no such container, or the
 * annotation does not mention it. */
int slot_wish_of(const json_t *pod, const char *container, unsigned nth, struct slot_wish *ret,
                 struct err *e) MUST_CHECK;

/* The wish as a quota on a card with so much memory for slices; a percentage of the memory is
 * rounded up to whole steps. ERR_INVALID: an annotation gives more memory than was requested. */
int slot_quota(const struct slot_wish *w, unsigned card_memory_mib, struct sgpu_quota *ret,
               struct err *e) MUST_CHECK;
