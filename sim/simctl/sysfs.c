/* SPDX-License-Identifier: Apache-2.0 */
/* The command that writes the kernel's view of the cards in /sys: their PCI functions. */
#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sim/metax.h"
#include "sim/proc_driver.h"
#include "sim/simctl/simctl.h"

/* A 3D controller, and a display controller of another kind. Assumed for MetaX's. */
#define CLASS_NVIDIA 0x030200
#define CLASS_METAX  0x038000

/* A PCI function: its path in /sys, its address, and the content of its files. */
struct function {
    char path[128];
    char bdf[32];
    uint32_t id, subsystem; /* device in the upper half, vendor in the lower */
    unsigned int class, numa;
};

__attribute__((format(printf, 4, 5))) static void
write_file(const char *root, const struct function *f, const char *name, const char *format, ...)
{
    char path[PATH_MAX];
    char below[256];
    va_list args;
    (void)snprintf(below, sizeof(below), "%s/%s", f->path + 1, name);
    place_file(root, below, path, sizeof(path));
    FILE *out = fopen(path, "we");
    if (out == NULL)
        die("%s: %s", path, strerror(errno));
    va_start(args, format);
    (void)vfprintf(out, format, args);
    va_end(args);
    if (fclose(out) != 0)
        die("%s: %s", path, strerror(errno));
}

/* /sys/bus/pci/devices contains links only. */
static void write_link(const char *root, const struct function *f)
{
    char path[PATH_MAX];
    char below[64];
    char target[160];
    (void)snprintf(below, sizeof(below), "sys/bus/pci/devices/%s", f->bdf);
    (void)snprintf(target, sizeof(target), "../../..%s", f->path + strlen("/sys"));
    place_file(root, below, path, sizeof(path));
    if (symlink(target, path) != 0 && errno != EEXIST)
        die("%s: %s", path, strerror(errno));
}

static void write_function(const char *root, const struct function *f)
{
    write_file(root, f, "vendor", "0x%04x\n", f->id & 0xFFFF);
    write_file(root, f, "device", "0x%04x\n", f->id >> 16);
    write_file(root, f, "subsystem_vendor", "0x%04x\n", f->subsystem & 0xFFFF);
    write_file(root, f, "subsystem_device", "0x%04x\n", f->subsystem >> 16);
    write_file(root, f, "class", "0x%06x\n", f->class);
    write_file(root, f, "numa_node", "%u\n", f->numa);
    write_link(root, f);
}

enum { CONFIG_BYTES = 256, BARS = 6, RESOURCES = 13 };

/* The windows of a board: registers, memory, and the one beside it. */
#define BAR0_BYTES (16ULL << 20)
#define BAR3_BYTES (32ULL << 20)
#define MIB        (1ULL << 20)

/* IORESOURCE_MEM, with PREFETCH and MEM_64 (linux/ioport.h). */
#define FLAGS_REGISTERS 0x040200ULL
#define FLAGS_MEMORY    0x14220cULL

struct window {
    unsigned long long start, bytes, flags;
};

/* One after the other above 64 TiB, each card in a range of its own. BAR 1 and 3 are 64-bit ones,
 * which also take the next BAR. */
static void windows_of(const struct hw_gpu *g, struct window ret[BARS])
{
    unsigned long long base = (64ULL << 40) + ((unsigned long long)g->bus << 40);
    unsigned long long bar1 = hw_model(g)->bar1_mib * MIB;
    memset(ret, 0, BARS * sizeof(*ret));
    ret[0] = (struct window){0x80000000ULL + g->bus * BAR0_BYTES, BAR0_BYTES, FLAGS_REGISTERS};
    ret[1] = (struct window){base, bar1, FLAGS_MEMORY};
    ret[3] = (struct window){base + bar1, BAR3_BYTES, FLAGS_MEMORY};
}

/* First and last address and flags, a line for each BAR, the ROM, and those of virtual functions,
 * of which these boards have none. */
static void write_resource(const char *root, const struct function *f, const struct hw_gpu *g)
{
    struct window bars[BARS];
    char text[RESOURCES * 64] = "";
    size_t at = 0;
    windows_of(g, bars);
    for (unsigned int i = 0; i < RESOURCES; i++) {
        struct window w = i < BARS ? bars[i] : (struct window){0};
        at += (size_t)snprintf(text + at, sizeof(text) - at, "0x%016llx 0x%016llx 0x%016llx\n",
                               w.start, w.bytes ? w.start + w.bytes - 1 : 0, w.flags);
    }
    write_file(root, f, "resource", "%s", text);
}

static void put16(unsigned char *at, uint32_t value)
{
    at[0] = (unsigned char)(value & 0xFF);
    at[1] = (unsigned char)(value >> 8 & 0xFF);
}

/* The configuration space's header (PCI 3.0, 6.1): ids, class, and a list of capabilities with that
 * of PCI Express. A board is not a virtual GPU, so it lacks the vendor's capability. */
static void write_config(const char *root, const struct function *f)
{
    unsigned char bytes[CONFIG_BYTES] = {0};
    char path[PATH_MAX];
    char below[256];
    put16(bytes + 0x00, f->id & 0xFFFF);
    put16(bytes + 0x02, f->id >> 16);
    put16(bytes + 0x04, 0x0006); /* memory, bus master */
    put16(bytes + 0x06, 0x0010); /* there is a list of capabilities */
    bytes[0x08] = 0xA1;
    bytes[0x0A] = (unsigned char)(f->class >> 8 & 0xFF);
    bytes[0x0B] = (unsigned char)(f->class >> 16 & 0xFF);
    put16(bytes + 0x2C, f->subsystem & 0xFFFF);
    put16(bytes + 0x2E, f->subsystem >> 16);
    bytes[0x34] = 0x78;
    bytes[0x78] = 0x10; /* PCI Express, the last of the list */
    put16(bytes + 0x7A, 0x0002);
    (void)snprintf(below, sizeof(below), "%s/config", f->path + 1);
    place_file(root, below, path, sizeof(path));
    FILE *out = fopen(path, "we");
    if (out == NULL)
        die("%s: %s", path, strerror(errno));
    bool written = fwrite(bytes, 1, sizeof(bytes), out) == sizeof(bytes);
    if (fclose(out) != 0 || !written)
        die("%s: %s", path, strerror(errno));
}

static void write_nvidia(const char *root, const struct hw_gpu *g)
{
    struct function f = {.id = hw_model(g)->pci_device_id,
                         .subsystem = hw_model(g)->pci_subsystem_id,
                         .class = CLASS_NVIDIA,
                         .numa = g->numa};
    (void)snprintf(f.bdf, sizeof(f.bdf), "%04x:%02x:%02x.0", g->domain, g->bus, g->device);
    (void)snprintf(f.path, sizeof(f.path), "/sys/devices/pci%04x:%02x/%04x:%02x:01.0/%s", g->domain,
                   g->bus - 1, g->domain, g->bus - 1, f.bdf);
    write_function(root, &f);
    write_resource(root, &f, g);
    write_config(root, &f);
}

static void write_metax(const char *root, const struct hw *hw, uint32_t metax, uint32_t vf)
{
    char name[64];
    const struct mx_card *card = &hw->mx_cards[metax];
    struct function f = {.id = mx_model_of(card)->pci_device_id,
                         .subsystem = mx_model_of(card)->pci_device_id,
                         .class = CLASS_METAX,
                         .numa = card->numa};
    mx_bdf(card, vf, f.bdf, sizeof(f.bdf));
    mx_sys_path(card, vf, f.path, sizeof(f.path));
    write_function(root, &f);
    (void)snprintf(name, sizeof(name), "drm/card%u/dev", mx_dri_card(metax, vf));
    write_file(root, &f, name, "%u:%u\n", PROC_MAJOR_DRM, mx_dri_card(metax, vf));
    (void)snprintf(name, sizeof(name), "drm/renderD%u/dev", mx_dri_render(metax, vf));
    write_file(root, &f, name, "%u:%u\n", PROC_MAJOR_DRM, mx_dri_render(metax, vf));
    if (vf != HW_NONE)
        return;
    write_file(root, &f, "sriov_totalvfs", "%u\n", MX_MAX_VFS);
    write_file(root, &f, "sriov_numvfs", "%u\n", card->vf_count);
}

/* The kernel's module, which is loaded while the driver runs. */
static void write_module(const char *root, const struct hw *hw)
{
    static const struct function module = {.path = "/sys/module/nvidia"};
    write_file(root, &module, "version", "%s\n", hw->driver_version);
}

void sys_root(struct state *s, struct args *a)
{
    const char *root = take_word(a);
    if (root == NULL)
        die("sys-root needs a folder");
    take_end(a);
    const struct hw *hw = state_lock(s);
    if (hw->gpu_count > 0)
        write_module(root, hw);
    for (uint32_t i = 0; i < hw->gpu_count; i++)
        write_nvidia(root, &hw->gpus[i]);
    for (uint32_t i = 0; i < hw->mx_count; i++) {
        write_metax(root, hw, i, HW_NONE);
        for (uint32_t vf = 0; vf < hw->mx_cards[i].vf_count; vf++)
            write_metax(root, hw, i, vf);
    }
    state_unlock(s);
}
