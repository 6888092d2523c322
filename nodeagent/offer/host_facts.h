/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * The kernel's facts on this machine, for labels and for a node that no library shows cards of: the
 * machine's name, the kinds of its PCI devices, which of them are cards of known vendors, and
 * whether a GPU is a virtual one. No vendor's library is used. Plain values; read from sysfs, where
 * nothing can hang.
 */
#define HOST_PCI_KINDS   64
#define HOST_MAX_VENDORS 4

/* Devices of one class from one vendor. */
struct host_pci_kind {
    uint16_t class;  /* 0x0302 */
    uint16_t vendor; /* 0x10de */
    bool sriov;      /* one of them can make virtual functions */
};

/* The cards of one vendor on the PCI bus. Virtual functions whose card is visible are none. */
struct host_pci_cards {
    const char *vendor; /* as in partition/vendor.h; static. NULL: no more vendors */
    unsigned n;         /* its cards, without those given away */
    unsigned n_given; /* those that the kernel keeps for virtual machines (vfio-pci and the like) */
    char first[16];   /* the address of the first of n; "" with none */
    char driver[24];  /* the kernel's driver of that one; "": none is bound */
};

struct host_facts {
    char machine[128]; /* the DMI product name, unchanged; "" when it cannot be read */
    unsigned n_pci;
    struct host_pci_kind pci[HOST_PCI_KINDS]; /* the kinds that get labels; by class, vendor */
    bool pci_known;                           /* the list of PCI devices could be read as a whole */
    struct host_pci_cards cards[HOST_MAX_VENDORS]; /* of every vendor that has a PCI id */
    bool vgpu_known; /* there are NVIDIA GPUs, and the kernel showed each one's whole configuration
                        space (only 64 bytes without CAP_SYS_ADMIN) */
    bool vgpu;       /* a GPU here is a hypervisor's virtual one; valid with vgpu_known */
    char vgpu_driver[16], vgpu_branch[16]; /* the hypervisor's driver: "460.16", "r460_00" */
};

/* True when it is certain that no card of a known vendor is here that this machine itself could
 * use. */
bool host_has_no_cards(const struct host_facts *f);
/* The cards that are kept for virtual machines. */
unsigned host_cards_given(const struct host_facts *f);

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
