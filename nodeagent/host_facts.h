/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * What the kernel says of this machine without any vendor's library, for labels: the machine's
 * name, which kinds of PCI devices it has, and whether a GPU is a virtual one. Plain values; read
 * from sysfs, where nothing can hang.
 */
#define HOST_PCI_KINDS 64

/* Devices of one class from one vendor. */
struct host_pci_kind {
    uint16_t class;  /* 0x0302 */
    uint16_t vendor; /* 0x10de */
    bool sriov;      /* one of them can make virtual functions */
};

struct host_facts {
    char machine[128]; /* the DMI product name as it is written there; "" when it cannot be read */
    unsigned n_pci;
    struct host_pci_kind pci[HOST_PCI_KINDS]; /* those that labels speak of; by class, vendor */
    bool vgpu_known; /* there are NVIDIA GPUs, and the kernel showed the whole configuration space
                        of each (it shows 64 bytes without CAP_SYS_ADMIN) */
    bool vgpu;       /* a GPU here is a hypervisor's virtual one; only with vgpu_known */
    char vgpu_driver[16], vgpu_branch[16]; /* of the hypervisor's driver: "460.16", "r460_00" */
};

/* Reads it all; what cannot be read is left empty. sys_root NULL: /sys. */
void host_facts_read(const char *sys_root, struct host_facts *ret);

/* Does the label of a PCI device of this class exist? Network (02), display (03), coprocessor
 * (0b40) and accelerator (12): node-feature-discovery's own list (source/pci, newDefaultConfig) and
 * that of the GPU operator's chart. */
bool host_pci_class_told(uint16_t class);

/* Finds NVIDIA's vGPU record in a device's PCI configuration space: the vendor's capability (9)
 * with the signature "VF", in it the record 0 with ten bytes of driver version and ten of its
 * branch (k8s-device-plugin internal/vgpu). False: it is no virtual GPU. Reads nothing past len. */
bool host_vgpu_parse(const uint8_t *config, size_t len, struct host_facts *ret);
