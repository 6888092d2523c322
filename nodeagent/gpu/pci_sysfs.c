/* SPDX-License-Identifier: Apache-2.0 */
#include "nodeagent/gpu/pci_sysfs.h"

#include <assert.h>
#include <ctype.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/file.h"
#include "base/num.h"
#include "base/xalloc.h"

#include "nodeagent/gpu/gpu.h"

/* The device's folder. sysfs spells 00000000:3B:00.0 as 0000:3b:00.0, and longer domains in full.
 * Caller frees. */
static char *folder_of(const char *sys_root, const char *bus_id)
{
    char id[GPU_BUS_ID_BYTES];
    while (*bus_id == '0' && strlen(bus_id) > strlen("0000:00:00.0"))
        bus_id++;
    (void)snprintf(id, sizeof(id), "%s", bus_id);
    for (char *c = id; *c; c++)
        *c = (char)tolower((unsigned char)*c);
    return xasprintf("%s/bus/pci/devices/%s", sys_root, id);
}

char *pci_sysfs_path(const char *sys_root, const char *bus_id, const char *file)
{
    auto_free char *folder = folder_of(sys_root, bus_id);
    return xasprintf("%s/%s", folder, file);
}

char *pci_sysfs_link(const char *sys_root, const char *bus_id, const char *link)
{
    auto_free char *path = pci_sysfs_path(sys_root, bus_id, link);
    auto_free char *to = realpath(path, NULL);
    return to ? xstrdup(strrchr(to, '/') + 1) : NULL;
}

char *pci_sysfs_line(const char *sys_root, const char *bus_id, const char *file)
{
    auto_free char *path = pci_sysfs_path(sys_root, bus_id, file);
    char *text = NULL;
    if (file_read(path, 64, &text, NULL, NULL) < 0)
        return NULL;
    text[strcspn(text, "\n")] = '\0';
    return text;
}

uint32_t pci_sysfs_hex(const char *sys_root, const char *bus_id, const char *file)
{
    auto_free char *text = pci_sysfs_line(sys_root, bus_id, file);
    return text ? (uint32_t)strtoul(text, NULL, 16) : 0;
}

/* Length of a root complex's name ("pci0000:3a") that is a whole part of a path; 0: it is none. */
static size_t root_len(const char *part)
{
    static const char hex[] = "0123456789abcdef";
    if (strncmp(part, "pci", 3) != 0)
        return 0;
    size_t domain = strspn(part + 3, hex);
    if (domain < 4 || part[3 + domain] != ':')
        return 0;
    size_t len = 3 + domain + 1;
    size_t bus = strspn(part + len, hex);
    len += bus;
    return bus == 2 && (part[len] == '/' || part[len] == '\0') ? len : 0;
}

void pci_sysfs_root(const char *sys_root, const char *bus_id, char *ret, size_t ret_bytes)
{
    auto_free char *folder = folder_of(sys_root, bus_id);
    auto_free char *path = realpath(folder, NULL);
    assert(ret_bytes > 0);
    *ret = '\0';
    for (const char *at = path; at; at = strchr(at, '/')) {
        at += *at == '/';
        size_t len = root_len(at);
        if (len == 0 || len >= ret_bytes)
            continue;
        (void)snprintf(ret, ret_bytes, "%.*s", (int)len, at);
        return;
    }
}

void pci_sysfs_card(const char *sys_root, struct gpu_card *c)
{
    const char *id = c->pci_bus_id;
    uint32_t device = pci_sysfs_hex(sys_root, id, "device");
    uint32_t of_board = pci_sysfs_hex(sys_root, id, "subsystem_device");
    auto_free char *numa = pci_sysfs_line(sys_root, id, "numa_node");
    int64_t node = -1;
    pci_sysfs_root(sys_root, id, c->pcie_root, sizeof(c->pcie_root));
    c->pci_device_id = device << 16 | pci_sysfs_hex(sys_root, id, "vendor");
    c->pci_subsystem_id = of_board << 16 | pci_sysfs_hex(sys_root, id, "subsystem_vendor");
    c->pci_class = pci_sysfs_hex(sys_root, id, "class") & 0xffffff;
    if (!numa || num_parse(numa, -1, INT_MAX, &node, NULL) < 0)
        node = -1;
    c->numa_node = (int)node;
}
