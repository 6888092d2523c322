/* SPDX-License-Identifier: Apache-2.0 */
#include "nodeagent/offer/host_facts.h"

#include <assert.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/file.h"
#include "base/xalloc.h"

#define NVIDIA 0x10de
/* More PCI functions than any machine has. */
#define MAX_DEVICES 8192

/* PCI configuration space (PCI Local Bus 3.0, 6.1 and appendix H). */
enum {
    PCI_CONFIG_BYTES = 256,
    PCI_STATUS = 0x06,
    PCI_STATUS_CAPABILITIES = 0x10,
    PCI_CAPABILITIES = 0x34,
    PCI_CAPABILITY_VENDOR = 0x09,
};
/* The vendor's capability: id, next, length, 'V', 'F', records of {id, length, …}. */
enum { VGPU_RECORDS = 5, VGPU_TEXT_BYTES = 10 };

bool host_pci_class_told(uint16_t class)
{
    unsigned base = class >> 8;
    return base == 0x02 || base == 0x03 || base == 0x12 || class == 0x0b40;
}

static_assert(sizeof(((struct host_facts *)0)->vgpu_driver) > VGPU_TEXT_BYTES &&
                  sizeof(((struct host_facts *)0)->vgpu_branch) > VGPU_TEXT_BYTES,
              "both texts and their ends fit");

/* --- vGPU --- */

/* The vendor's capability, or NULL; *ret_len: its length in bytes. */
static const uint8_t *vendor_capability(const uint8_t *config, size_t *ret_len)
{
    if (!(config[PCI_STATUS] & PCI_STATUS_CAPABILITIES))
        return NULL;
    unsigned at = config[PCI_CAPABILITIES];
    /* The bound ends a looping chain: a chain has no more links than bytes. */
    for (unsigned steps = 0; at && at + 3 <= PCI_CONFIG_BYTES && steps < PCI_CONFIG_BYTES;
         steps++) {
        if (config[at] == PCI_CAPABILITY_VENDOR) {
            size_t room = PCI_CONFIG_BYTES - at;
            assert(room >= 3);
            *ret_len = config[at + 2] < room ? config[at + 2] : room;
            return config + at;
        }
        at = config[at] == 0xff ? 0 : config[at + 1];
    }
    return NULL;
}

static void copy_text(const uint8_t *from, char *to)
{
    memcpy(to, from, VGPU_TEXT_BYTES);
    to[VGPU_TEXT_BYTES] = '\0';
}

bool host_vgpu_parse(const uint8_t *config, size_t len, struct host_facts *ret)
{
    size_t n = 0;
    const uint8_t *cap = len >= PCI_CONFIG_BYTES ? vendor_capability(config, &n) : NULL;
    if (!cap || n < VGPU_RECORDS || cap[3] != 'V' || cap[4] != 'F')
        return false;
    ret->vgpu = true;
    size_t at = VGPU_RECORDS;
    while (at + 2 <= n && cap[at] != 0 && cap[at + 1] != 0)
        at += cap[at + 1];
    if (at + 2 + 2 * (size_t)VGPU_TEXT_BYTES > n || cap[at] != 0)
        return true;
    copy_text(cap + at + 2, ret->vgpu_driver);
    copy_text(cap + at + 2 + VGPU_TEXT_BYTES, ret->vgpu_branch);
    return true;
}

/* --- PCI --- */

/* The number in a device's file; 0: it cannot be read. */
static unsigned long number_in(const char *device, const char *file)
{
    auto_free char *path = xasprintf("%s/%s", device, file);
    auto_free char *text = NULL;
    return file_read(path, 64, &text, NULL, NULL) == 0 ? strtoul(text, NULL, 16) : 0;
}

static bool has_file(const char *device, const char *file)
{
    auto_free char *path = xasprintf("%s/%s", device, file);
    auto_free char *text = NULL;
    return file_read(path, 64, &text, NULL, NULL) == 0;
}

/* Checks whether the device is a virtual GPU. False: the kernel did not show the whole
 * configuration space. */
static bool look_for_vgpu(const char *device, struct host_facts *ret)
{
    auto_free char *path = xasprintf("%s/config", device);
    auto_free char *bytes = NULL;
    size_t len = 0;
    if (file_read(path, 4096, &bytes, &len, NULL) < 0 || len < PCI_CONFIG_BYTES)
        return false;
    (void)host_vgpu_parse((const uint8_t *)bytes, len, ret);
    return true;
}

static void note_kind(uint16_t class, uint16_t vendor, bool sriov, struct host_facts *ret)
{
    assert(ret->n_pci <= HOST_PCI_KINDS);
    for (unsigned i = 0; i < ret->n_pci; i++) {
        struct host_pci_kind *k = &ret->pci[i];
        if (k->class != class || k->vendor != vendor)
            continue;
        k->sriov |= sriov;
        return;
    }
    if (ret->n_pci < HOST_PCI_KINDS)
        ret->pci[ret->n_pci++] = (struct host_pci_kind){class, vendor, sriov};
}

/* NVIDIA's GPUs found so far. */
struct gpus {
    unsigned n, n_shown; /* n_shown: those with their whole configuration space */
};

static void read_device(const char *device, struct gpus *gpus, struct host_facts *ret)
{
    uint16_t class = (uint16_t)(number_in(device, "class") >> 8 & 0xffff);
    if (!host_pci_class_told(class))
        return;
    uint16_t vendor = (uint16_t)(number_in(device, "vendor") & 0xffff);
    note_kind(class, vendor, has_file(device, "sriov_totalvfs"), ret);
    if (vendor != NVIDIA || class >> 8 != 0x03 || ret->vgpu)
        return;
    gpus->n++;
    gpus->n_shown += look_for_vgpu(device, ret);
}

static int by_kind(const void *a, const void *b)
{
    const struct host_pci_kind *x = a;
    const struct host_pci_kind *y = b;
    return x->class != y->class ? (int)x->class - (int)y->class : (int)x->vendor - (int)y->vendor;
}

static void read_devices(const char *sys_root, struct host_facts *ret)
{
    auto_free char *folder = xasprintf("%s/bus/pci/devices", sys_root);
    auto_dir DIR *d = opendir(folder);
    const struct dirent *entry;
    struct gpus gpus = {0};
    for (unsigned n = 0; d && n < MAX_DEVICES && (entry = readdir(d)); n++) {
        if (entry->d_name[0] == '.')
            continue;
        auto_free char *device = xasprintf("%s/%s", folder, entry->d_name);
        read_device(device, &gpus, ret);
    }
    ret->vgpu_known = ret->vgpu || (gpus.n && gpus.n_shown == gpus.n);
    qsort(ret->pci, ret->n_pci, sizeof(ret->pci[0]), by_kind);
}

/* --- The machine --- */

static void read_machine(const char *sys_root, struct host_facts *ret)
{
    auto_free char *path = xasprintf("%s/class/dmi/id/product_name", sys_root);
    auto_free char *text = NULL;
    if (file_read(path, 4096, &text, NULL, NULL) < 0)
        return;
    text[strcspn(text, "\n")] = '\0';
    (void)snprintf(ret->machine, sizeof(ret->machine), "%s", text);
}

void host_facts_read(const char *sys_root, struct host_facts *ret)
{
    *ret = (struct host_facts){0};
    read_machine(sys_root ? sys_root : "/sys", ret);
    read_devices(sys_root ? sys_root : "/sys", ret);
}
