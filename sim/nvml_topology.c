/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NVML: NUMA, PCIe and NVLink topology, fabric. Contracts are NVML's own.
 *
 * The machine: cards 2i and 2i+1 share a PCIe switch where they share a NUMA node; each NUMA node
 * has an equal range of CPUs. NVLinks end in switches, or go round-robin to the other cards
 * (mesh), or there are none, as the fleet says.
 */
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "sim/nvml_calls.h"
#include "sim/nvml_session.h"

static unsigned int nodes_of(const struct hw *hw)
{
    return hw->numa_nodes > 0 ? hw->numa_nodes : 1;
}

static void set_bits(unsigned long *words, unsigned int count, unsigned int first,
                     unsigned int last)
{
    const unsigned int width = sizeof(unsigned long) * CHAR_BIT;
    memset(words, 0, count * sizeof(*words));
    for (unsigned int bit = first; bit < last && bit / width < count; bit++)
        words[bit / width] |= 1UL << bit % width;
}

/* For cards whose memory is a NUMA node of the machine (Grace Hopper, Grace Blackwell), none of
 * which is simulated. For other cards the kernel has the node, and the affinities below do.
 * The argument is not written, but not const in the ABI. */
/* NOLINTNEXTLINE(readability-non-const-parameter) */
nvmlReturn_t nvmlDeviceGetNumaNodeId(nvmlDevice_t device, unsigned int *node)
{
    struct call c = {.id = CALL_nvmlDeviceGetNumaNodeId};
    int rc = call_enter(&c, device, ON_WHOLE);
    if (rc == NVML_SUCCESS && node == NULL)
        rc = NVML_ERROR_INVALID_ARGUMENT;
    return call_leave(&c, rc == NVML_SUCCESS ? NVML_ERROR_NOT_SUPPORTED : rc);
}

nvmlReturn_t nvmlDeviceGetCpuAffinity(nvmlDevice_t device, unsigned int cpuSetSize,
                                      unsigned long *cpuSet)
{
    struct call c = {.id = CALL_nvmlDeviceGetCpuAffinity};
    int rc = call_enter(&c, device, ON_DEVICE);
    if (rc == NVML_SUCCESS && (cpuSet == NULL || cpuSetSize == 0))
        rc = NVML_ERROR_INVALID_ARGUMENT;
    if (rc == NVML_SUCCESS) {
        unsigned int each = c.hw->cpus / nodes_of(c.hw);
        set_bits(cpuSet, cpuSetSize, c.gpu->numa * each, (c.gpu->numa + 1) * each);
    }
    return call_leave(&c, rc);
}

/* Scope 0 is the node, 1 the socket; a node is a socket here. */
nvmlReturn_t nvmlDeviceGetMemoryAffinity(nvmlDevice_t device, unsigned int nodeSetSize,
                                         unsigned long *nodeSet, unsigned int scope)
{
    struct call c = {.id = CALL_nvmlDeviceGetMemoryAffinity};
    int rc = call_enter(&c, device, ON_DEVICE);
    if (rc == NVML_SUCCESS && (nodeSet == NULL || nodeSetSize == 0 || scope > 1))
        rc = NVML_ERROR_INVALID_ARGUMENT;
    if (rc == NVML_SUCCESS)
        set_bits(nodeSet, nodeSetSize, c.gpu->numa, c.gpu->numa + 1);
    return call_leave(&c, rc);
}

static unsigned int level_between(const struct hw *hw, uint32_t a, uint32_t b)
{
    if (a == b)
        return TOPOLOGY_INTERNAL;
    if (hw->gpus[a].numa != hw->gpus[b].numa)
        return TOPOLOGY_SYSTEM;
    return a / 2 == b / 2 ? TOPOLOGY_SINGLE : TOPOLOGY_NODE;
}

nvmlReturn_t nvmlDeviceGetTopologyCommonAncestor(nvmlDevice_t device1, nvmlDevice_t device2,
                                                 unsigned int *pathInfo)
{
    struct call c = {.id = CALL_nvmlDeviceGetTopologyCommonAncestor};
    uint32_t other = handle_gpu(device2);
    int rc = call_enter(&c, device1, ON_WHOLE);
    if (rc == NVML_SUCCESS && (pathInfo == NULL || other == HW_NONE))
        rc = NVML_ERROR_INVALID_ARGUMENT;
    if (rc == NVML_SUCCESS)
        *pathInfo = level_between(c.hw, c.gpu_index, other);
    return call_leave(&c, rc);
}

static bool is_level(unsigned int level)
{
    return level % 10 == 0 && level <= TOPOLOGY_SYSTEM;
}

nvmlReturn_t nvmlDeviceGetTopologyNearestGpus(nvmlDevice_t device, unsigned int level,
                                              unsigned int *count, nvmlDevice_t *deviceArray)
{
    struct call c = {.id = CALL_nvmlDeviceGetTopologyNearestGpus};
    unsigned int n = 0;
    int rc = call_enter(&c, device, ON_WHOLE);
    if (rc == NVML_SUCCESS && (count == NULL || !is_level(level)))
        rc = NVML_ERROR_INVALID_ARGUMENT;
    for (uint32_t i = 0; rc == NVML_SUCCESS && i < c.hw->gpu_count; i++) {
        if (i == c.gpu_index || level_between(c.hw, c.gpu_index, i) != level)
            continue;
        if (deviceArray != NULL && n < *count)
            deviceArray[n] = handle_of_gpu(i);
        n++;
    }
    if (rc == NVML_SUCCESS)
        *count = deviceArray != NULL && n > *count ? *count : n;
    return call_leave(&c, rc);
}

static unsigned int link_count(const struct call *c)
{
    return c->hw->links == LINKS_NONE ? 0 : hw_model(c->gpu)->nvlinks;
}

/* A fleet may have "nvswitch" with boards that have no such connector. */
static bool links_to_switch(const struct call *c)
{
    return c->hw->links == LINKS_NVSWITCH && hw_model(c->gpu)->nvswitch;
}

/* The card at the other end of a link in a mesh. */
static uint32_t peer_of(const struct call *c, unsigned int link)
{
    uint32_t others = c->hw->gpu_count - 1;
    if (others == 0)
        return HW_NONE;
    uint32_t peer = link % others;
    return peer < c->gpu_index ? peer : peer + 1;
}

/* MIG disables NVLink; a link without a peer is not active. */
static bool link_active(const struct call *c, unsigned int link)
{
    if (c->gpu->mig_current)
        return false;
    return links_to_switch(c) || (c->hw->links == LINKS_MESH && peer_of(c, link) != HW_NONE);
}

static int enter_link(struct call *c, nvmlDevice_t device, unsigned int link, const void *out)
{
    int rc = call_enter(c, device, ON_WHOLE);
    if (rc != NVML_SUCCESS)
        return rc;
    if (out == NULL || link >= 36)
        return NVML_ERROR_INVALID_ARGUMENT;
    return link < link_count(c) ? NVML_SUCCESS : NVML_ERROR_NOT_SUPPORTED;
}

nvmlReturn_t nvmlDeviceGetNvLinkState(nvmlDevice_t device, unsigned int link,
                                      unsigned int *isActive)
{
    struct call c = {.id = CALL_nvmlDeviceGetNvLinkState};
    int rc = enter_link(&c, device, link, isActive);
    if (rc == NVML_SUCCESS)
        *isActive = link_active(&c, link);
    return call_leave(&c, rc);
}

/* P2P, system memory, their atomics and validity: yes; an SLI bridge: no. */
nvmlReturn_t nvmlDeviceGetNvLinkCapability(nvmlDevice_t device, unsigned int link,
                                           unsigned int capability, unsigned int *capResult)
{
    struct call c = {.id = CALL_nvmlDeviceGetNvLinkCapability};
    int rc = enter_link(&c, device, link, capResult);
    if (rc == NVML_SUCCESS && capability >= 6)
        rc = NVML_ERROR_INVALID_ARGUMENT;
    if (rc == NVML_SUCCESS)
        *capResult = capability != 4;
    return call_leave(&c, rc);
}

nvmlReturn_t nvmlDeviceGetNvLinkRemoteDeviceType(nvmlDevice_t device, unsigned int link,
                                                 unsigned int *pNvLinkDeviceType)
{
    struct call c = {.id = CALL_nvmlDeviceGetNvLinkRemoteDeviceType};
    int rc = enter_link(&c, device, link, pNvLinkDeviceType);
    if (rc == NVML_SUCCESS && !link_active(&c, link))
        rc = NVML_ERROR_NOT_SUPPORTED;
    if (rc == NVML_SUCCESS)
        *pNvLinkDeviceType = links_to_switch(&c) ? 2 : 0;
    return call_leave(&c, rc);
}

/* Switches are on buses of their own, one for every few links. */
static void switch_address(unsigned int link, nvmlPciInfo_t *pci)
{
    *pci = (nvmlPciInfo_t){.bus = 0xC0 + link / 3, .pciDeviceId = 0x22A310DE};
    (void)snprintf(pci->busIdLegacy, sizeof(pci->busIdLegacy), "0000:%02X:00.0", pci->bus & 0xFF);
    (void)snprintf(pci->busId, sizeof(pci->busId), "00000000:%02X:00.0", pci->bus);
}

static void peer_address(const struct hw_gpu *gpu, nvmlPciInfo_t *pci)
{
    *pci = (nvmlPciInfo_t){.domain = gpu->domain, .bus = gpu->bus, .device = gpu->device};
    pci->pciDeviceId = hw_model(gpu)->pci_device_id;
    pci->pciSubSystemId = hw_model(gpu)->pci_subsystem_id;
    (void)snprintf(pci->busIdLegacy, sizeof(pci->busIdLegacy), "%04X:%02X:%02X.0",
                   gpu->domain & 0xFFFF, gpu->bus & 0xFF, gpu->device & 0xFF);
    (void)snprintf(pci->busId, sizeof(pci->busId), "%08X:%02X:%02X.0", gpu->domain, gpu->bus,
                   gpu->device);
}

nvmlReturn_t nvmlDeviceGetNvLinkRemotePciInfo_v2(nvmlDevice_t device, unsigned int link,
                                                 nvmlPciInfo_t *pci)
{
    struct call c = {.id = CALL_nvmlDeviceGetNvLinkRemotePciInfo_v2};
    int rc = enter_link(&c, device, link, pci);
    if (rc == NVML_SUCCESS && !link_active(&c, link))
        rc = NVML_ERROR_NOT_SUPPORTED;
    if (rc == NVML_SUCCESS) {
        if (links_to_switch(&c))
            switch_address(link, pci);
        else
            peer_address(&c.hw->gpus[peer_of(&c, link)], pci);
    }
    return call_leave(&c, rc);
}

nvmlReturn_t nvmlDeviceGetNvLinkRemotePciInfo(nvmlDevice_t device, unsigned int link,
                                              nvmlPciInfo_t *pci)
{
    nvmlPciInfo_t full = {0};
    int rc = nvmlDeviceGetNvLinkRemotePciInfo_v2(device, link, &full);
    if (rc == NVML_SUCCESS && pci == NULL)
        rc = NVML_ERROR_INVALID_ARGUMENT;
    if (rc == NVML_SUCCESS)
        memcpy(pci, &full, offsetof(nvmlPciInfo_t, busId));
    return rc;
}

nvmlReturn_t nvmlDeviceGetP2PStatus(nvmlDevice_t device1, nvmlDevice_t device2,
                                    unsigned int p2pIndex, unsigned int *p2pStatus)
{
    struct call c = {.id = CALL_nvmlDeviceGetP2PStatus};
    uint32_t other = handle_gpu(device2);
    int rc = call_enter(&c, device1, ON_WHOLE);
    if (rc == NVML_SUCCESS && (p2pStatus == NULL || other == HW_NONE || p2pIndex > 5))
        rc = NVML_ERROR_INVALID_ARGUMENT;
    if (rc == NVML_SUCCESS) {
        bool mig = c.gpu->mig_current || c.hw->gpus[other].mig_current;
        *p2pStatus = mig ? 2 : 0; /* GPU_NOT_SUPPORTED, OK */
    }
    return call_leave(&c, rc);
}

static unsigned int fabric_state(const struct call *c)
{
    return hw_model(c->gpu)->nvswitch && hw_model(c->gpu)->arch >= ARCH_HOPPER
               ? c->hw->fabric.state
               : FABRIC_NOT_SUPPORTED;
}

/* For cards outside a fabric: SUCCESS, with the state NOT_SUPPORTED. */
static nvmlGpuFabricInfo_v3_t fabric_of(const struct call *c)
{
    nvmlGpuFabricInfo_v3_t info = {.state = fabric_state(c)};
    if (info.state != FABRIC_COMPLETED)
        return info;
    info.cliqueId = c->hw->fabric.clique;
    info.healthSummary = NVML_FABRIC_HEALTH_SUMMARY_OK;
    memcpy(info.clusterUuid, c->hw->fabric.cluster_uuid, sizeof(info.clusterUuid));
    return info;
}

nvmlReturn_t nvmlDeviceGetGpuFabricInfo(nvmlDevice_t device, nvmlGpuFabricInfo_t *gpuFabricInfo)
{
    struct call c = {.id = CALL_nvmlDeviceGetGpuFabricInfo};
    int rc = call_enter(&c, device, ON_DEVICE);
    if (rc == NVML_SUCCESS && gpuFabricInfo == NULL)
        rc = NVML_ERROR_INVALID_ARGUMENT;
    if (rc == NVML_SUCCESS) {
        nvmlGpuFabricInfo_v3_t info = fabric_of(&c);
        memcpy(gpuFabricInfo, info.clusterUuid, sizeof(*gpuFabricInfo));
    }
    return call_leave(&c, rc);
}

nvmlReturn_t nvmlDeviceGetGpuFabricInfoV(nvmlDevice_t device, void *gpuFabricInfo)
{
    struct call c = {.id = CALL_nvmlDeviceGetGpuFabricInfoV};
    int rc = call_enter(&c, device, ON_DEVICE);
    if (rc == NVML_SUCCESS && gpuFabricInfo == NULL)
        rc = NVML_ERROR_INVALID_ARGUMENT;
    if (rc != NVML_SUCCESS)
        return call_leave(&c, rc);
    nvmlGpuFabricInfo_v3_t info = fabric_of(&c);
    info.version = *(const unsigned int *)gpuFabricInfo;
    /* Each generation is a prefix of the next. */
    if (info.version == NVML_STRUCT_VERSION(sizeof(nvmlGpuFabricInfo_v2_t), 2U))
        memcpy(gpuFabricInfo, &info, sizeof(nvmlGpuFabricInfo_v2_t));
    else if (info.version == NVML_STRUCT_VERSION(sizeof(info), 3U))
        memcpy(gpuFabricInfo, &info, sizeof(info));
    else
        rc = NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    return call_leave(&c, rc);
}
