/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * The kernel's facts on this machine, for labels: the machine's name, the kinds of its PCI devices,
 * and whether a GPU is a virtual one. No vendor's library is used. Plain values; read from sysfs,
 * where nothing can hang.
 */
#define HOST_PCI_KINDS 64

/* Devices of one class from one vendor. */
struct host_pci_kind {
    uint16_t class;  /* 0x0302 */
    uint16_t vendor; /* 0x10de */
    bool sriov;      /* one of them can make virtual functions */
};

struct host_facts {
    char machine[128]; /* the DMI product name, unchanged; "" when it cannot be read */
    unsigned n_pci;
    struct host_pci_kind pci[HOST_PCI_KINDS]; /* the kinds that get labels; by class, vendor */
    bool vgpu_known; /* there are NVIDIA GPUs, and the kernel showed each one's whole configuration
                        space (only 64 bytes without CAP_SYS_ADMIN) */
    bool vgpu;       /* a GPU here is a hypervisor's virtual one; valid with vgpu_known */
    char vgpu_driver[16], vgpu_branch[16]; /* the hypervisor's driver: "460.16", "r460_00" */
};

/* Reads all facts; those that cannot be read stay empty. sys_root NULL: /sys. */
void host_facts_read(const char *sys_root, struct host_facts *ret);

/* True when PCI devices of this class get a label: network (02), display (03), coprocessor (0b40)
 * and accelerator (12). Source: node-feature-discovery (source/pci, newDefaultConfig) and the GPU
 * operator's chart. */
bool host_pci_class_told(uint16_t class);

/* Finds NVIDIA's vGPU record in a device's PCI configuration space: the vendor capability (9) with
 * the signature "VF", in it record 0 with ten bytes of driver version and ten of its branch
 * (k8s-device-plugin internal/vgpu). False: not a virtual GPU. Reads nothing past len. */
bool host_vgpu_parse(const uint8_t *config, size_t len, struct host_facts *ret);
