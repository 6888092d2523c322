/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>
#include <stdint.h>

/*
 * What the kernel says of a PCI device (/sys/bus/pci/devices). bus_id is spelled as the vendors'
 * libraries do, with four or eight digits of the domain, in either case.
 */

/* The first line of one of its files; NULL: there is none. Caller frees. */
char *pci_sysfs_line(const char *sys_root, const char *bus_id, const char *file);
/* A number of its files "vendor", "device", "class", …, which begin with 0x; 0: not told. */
uint32_t pci_sysfs_hex(const char *sys_root, const char *bus_id, const char *file);
/* The path of one of its files. Caller frees. */
char *pci_sysfs_path(const char *sys_root, const char *bus_id, const char *file);
/* The name of what one of its links leads to, as "xe" for "driver", or of the folder that it is in
 * for ".."; NULL: there is no such link, or it leads nowhere. Caller frees. */
char *pci_sysfs_link(const char *sys_root, const char *bus_id, const char *link);
/* The name of the PCIe root complex that a device is below ("pci0000:3a"), which stands in the path
 * that its link leads to; "" when it is not told, or longer than ret_bytes can hold. */
void pci_sysfs_root(const char *sys_root, const char *bus_id, char *ret, size_t ret_bytes);

struct gpu_card;
/* What the kernel says of the card at c->pci_bus_id: ids, class, NUMA node (-1: none) and root
 * complex. What is not told is 0, or "". */
void pci_sysfs_card(const char *sys_root, struct gpu_card *c);
