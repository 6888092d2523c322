/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

#include "nodeagent/gpu/gpu.h"

/*
 * What a pod asks for with a slot. Whoever schedules it says so, each in their own words: HAMi and
 * Koordinator in annotations, with the card that they chose; else the container's requests do.
 * Without config/slots anybody who may create pods writes such an annotation. It chooses the card
 * and gives no more than the container requests, since quotas count requests. Pure. Sources: HAMi
 * pkg/device/metax/{protocol,sdevice,qos}.go; Koordinator
 * pkg/scheduler/plugins/deviceshare/device_plugin_adapter.go, apis/extension/device_share.go.
 */

#define SLOT_RESOURCE       "metax-tech.com/sgpu"
#define SLOT_QOS_ANNOTATION "metax-tech.com/sgpu-qos-policy"
#define SLOT_ALLOCATED      "metax-tech.com/gpu-devices-allocated"
#define SLOT_KOORDINATOR    "scheduling.koordinator.sh/device-allocated"

struct slot_wish {
    char card[GPU_UUID_BYTES]; /* that a scheduler chose; "": whichever has room */
    unsigned memory_mib;       /* in steps, rounded up; 0: the percentage says */
    unsigned memory_percent;   /* of a card's, with memory_mib 0 */
    unsigned compute_percent;
    int qos; /* enum api_qos_policy; -1: whatever the card has */
    /* Where an annotation says so (static; NULL: the container's requests do), the most that the
     * requests allow; memory as above. */
    const char *said_by;
    unsigned most_memory_mib, most_memory_percent;
};

/* What this container of the pod (the object, as JSON) asks for with its nth slot, counted from 0.
 * An annotation that is there decides, within the container's requests; without any of these words
 * a slot is a whole card's worth. Where Koordinator gave one card to several slots of a pod
 * together, the annotation decides the card, and the container's own requests what of it. Where it
 * gave them a device each, all alike, each may have an even part of what the pod's containers
 * request together. ERR_INVALID: what is there cannot be understood, is nothing that a card could
 * give, or is more compute than was requested; ERR_NOT_FOUND: the pod has no such container, or the
 * annotation says nothing of it. */
int slot_wish_of(const json_t *pod, const char *container, unsigned nth, struct slot_wish *ret,
                 struct err *e) MUST_CHECK;

/* A quota on a card with so much memory for slices. ERR_INVALID: an annotation gives more memory
 * than was requested; a share of a card's memory counts in whole steps, rounded up. */
int slot_quota(const struct slot_wish *w, unsigned card_memory_mib, struct sgpu_quota *ret,
               struct err *e) MUST_CHECK;
