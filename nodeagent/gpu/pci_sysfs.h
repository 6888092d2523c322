/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>
#include <stdint.h>

/*
 * The kernel's files of a PCI device (/sys/bus/pci/devices). bus_id is spelled as in the vendors'
 * libraries: four or eight digits of the domain, in either case.
 */

/* The first line of a file; NULL: there is none. Caller frees. */
char *pci_sysfs_line(const char *sys_root, const char *bus_id, const char *file);
/* The number in a file such as "vendor", "device" or "class", which begins with 0x; 0: not
 * readable. */
uint32_t pci_sysfs_hex(const char *sys_root, const char *bus_id, const char *file);
/* The path of a file. Caller frees. */
char *pci_sysfs_path(const char *sys_root, const char *bus_id, const char *file);
/* The name of a link's target, as "xe" for "driver"; for ".." the name of the parent folder. NULL:
 * there is no such link, or it leads nowhere. Caller frees. */
char *pci_sysfs_link(const char *sys_root, const char *bus_id, const char *link);
/* The name of the device's PCIe root complex ("pci0000:3a"), taken from the path of the device's
 * link. "" when it is not there, or longer than ret_bytes. */
void pci_sysfs_root(const char *sys_root, const char *bus_id, char *ret, size_t ret_bytes);

struct gpu_card;
/* Fills in the kernel's facts on the card at c->pci_bus_id: ids, class, NUMA node (-1: none) and
 * root complex. A missing one is 0, or "". */
void pci_sysfs_card(const char *sys_root, struct gpu_card *c);
