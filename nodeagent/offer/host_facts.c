/* SPDX-License-Identifier: Apache-2.0 */
#include "nodeagent/offer/host_facts.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/file.h"
#include "base/xalloc.h"

#include "partition/vendor.h"

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

/* --- Cards --- */

static bool is_card_class(uint16_t class)
{
    return host_pci_class_told(class) && class >> 8 != 0x02;
}

/* A virtual machine that was given a function sees no physical one: there it is the card. */
static bool is_function_of_visible_card(const char *device)
{
    struct stat st;
    auto_free char *path = xasprintf("%s/physfn", device);
    return lstat(path, &st) == 0;
}

/* The driver that is bound to the device; "": none. */
static void driver_of(const char *device, char *ret, size_t size)
{
    char to[256];
    auto_free char *path = xasprintf("%s/driver", device);
    ssize_t len = readlink(path, to, sizeof(to) - 1);
    to[len > 0 ? len : 0] = '\0';
    const char *name = strrchr(to, '/');
    (void)snprintf(ret, size, "%.*s", (int)size - 1, name ? name + 1 : to);
}

static bool keeps_for_machines(const char *driver)
{
    static const char *const keepers[] = {"vfio-pci", "pci-stub", "pciback", "xen-pciback"};
    for (size_t i = 0; i < ARRAY_LEN(keepers); i++)
        if (strcmp(driver, keepers[i]) == 0)
            return true;
    return strstr(driver, "_vfio_pci"); /* variants, such as nvgrace_gpu_vfio_pci */
}

static void name_vendors(struct host_facts *ret)
{
    size_t n = 0;
    for (const struct vendor *v = vendors; v->name; v++) {
        assert(n < HOST_MAX_VENDORS);
        if (v->pci)
            ret->cards[n++].vendor = v->name;
    }
}

/* NULL: no vendor whose cards are known has this id. */
static struct host_pci_cards *cards_of(uint16_t vendor, struct host_facts *ret)
{
    for (size_t i = 0; i < HOST_MAX_VENDORS && ret->cards[i].vendor; i++)
        if (vendor_find(ret->cards[i].vendor)->pci == vendor)
            return &ret->cards[i];
    return NULL;
}

static void note_card(const char *device, const char *address, uint16_t vendor,
                      struct host_facts *ret)
{
    char driver[sizeof(ret->cards[0].driver)];
    struct host_pci_cards *cards = cards_of(vendor, ret);
    if (!cards || is_function_of_visible_card(device))
        return;
    driver_of(device, driver, sizeof(driver));
    if (keeps_for_machines(driver)) {
        cards->n_given++;
        return;
    }
    cards->n++;
    if (*cards->first && strcmp(address, cards->first) >= 0)
        return;
    (void)snprintf(cards->first, sizeof(cards->first), "%.*s", (int)sizeof(cards->first) - 1,
                   address);
    memcpy(cards->driver, driver, sizeof(driver));
}

bool host_has_no_cards(const struct host_facts *f)
{
    for (size_t i = 0; i < HOST_MAX_VENDORS; i++)
        if (f->cards[i].n)
            return false;
    return f->pci_known;
}

unsigned host_cards_given(const struct host_facts *f)
{
    unsigned n = 0;
    for (size_t i = 0; i < HOST_MAX_VENDORS; i++)
        n += f->cards[i].n_given;
    return n;
}

/* --- The bus --- */

/* NVIDIA's GPUs found so far. */
struct gpus {
    unsigned n, n_shown; /* n_shown: those with their whole configuration space */
    bool unread;         /* the kind of some device could not be read */
};

static void read_device(const char *device, const char *address, struct gpus *gpus,
                        struct host_facts *ret)
{
    uint16_t class = (uint16_t)(number_in(device, "class") >> 8 & 0xffff);
    if (!host_pci_class_told(class)) {
        gpus->unread |= !class && !has_file(device, "class");
        return;
    }
    uint16_t vendor = (uint16_t)(number_in(device, "vendor") & 0xffff);
    gpus->unread |= !vendor;
    note_kind(class, vendor, has_file(device, "sriov_totalvfs"), ret);
    if (is_card_class(class))
        note_card(device, address, vendor, ret);
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

/* A kernel without a PCI bus has no folder for it, and a /sys that is not the host's has none for
 * buses either. */
static bool has_no_pci(const char *sys_root)
{
    struct stat st;
    auto_free char *bus = xasprintf("%s/bus", sys_root);
    auto_free char *pci = xasprintf("%s/bus/pci", sys_root);
    return stat(bus, &st) == 0 && stat(pci, &st) < 0 && errno == ENOENT;
}

static void read_devices(const char *sys_root, struct host_facts *ret)
{
    auto_free char *folder = xasprintf("%s/bus/pci/devices", sys_root);
    auto_dir DIR *d = opendir(folder);
    const struct dirent *entry = NULL;
    struct gpus gpus = {0};
    for (unsigned n = 0; d && n < MAX_DEVICES && (entry = readdir(d)); n++) {
        if (entry->d_name[0] == '.')
            continue;
        auto_free char *device = xasprintf("%s/%s", folder, entry->d_name);
        read_device(device, entry->d_name, &gpus, ret);
    }
    ret->pci_known = d ? !entry && !gpus.unread : has_no_pci(sys_root);
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
    name_vendors(ret);
    read_machine(sys_root ? sys_root : "/sys", ret);
    read_devices(sys_root ? sys_root : "/sys", ret);
}
