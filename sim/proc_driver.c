/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/proc_driver.h"

#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/mig.h"
#include "sim/proc_files.h"

/* The driver lists the capabilities of the greatest possible number of cards and instances. */
#define MAX_CARDS   32
#define MAX_GI      15
#define MAX_CI      8
#define FIRST_MINOR 3

/* Modes in decimal, as in the files: 0400 and 0444. */
#define MODE_CONFIG 256
#define MODE_ACCESS 292

uint32_t proc_cap_minor(uint32_t gpu_minor, uint32_t gi, uint32_t ci)
{
    uint32_t of_gi = FIRST_MINOR + (gpu_minor * MAX_GI + gi) * (MAX_CI + 1);
    return ci == HW_NONE ? of_gi : of_gi + 1 + ci;
}

static const char nvidia_devices[] = "%3d nvidia\n%3d nvidia-modeset\n%3d nvidiactl\n"
                                     "%3d nvidia-caps\n%3d nvidia-uvm\n";

/* The kernel lists the devices of every loaded driver. */
static bool write_devices(const struct hw *hw)
{
    char nvidia[128] = "";
    char metax[64] = "";
    char text[512];
    if (hw_has_nvidia(hw))
        (void)snprintf(nvidia, sizeof(nvidia), nvidia_devices, PROC_MAJOR_NVIDIA, PROC_MAJOR_NVIDIA,
                       PROC_MAJOR_NVIDIA, PROC_MAJOR_CAPS, PROC_MAJOR_UVM);
    if (hw->mx_count > 0)
        (void)snprintf(metax, sizeof(metax), "%3d drm\n%3d metax\n", PROC_MAJOR_DRM,
                       PROC_MAJOR_METAX);
    (void)snprintf(text, sizeof(text),
                   "Character devices:\n  1 mem\n  5 /dev/tty\n%s%s\nBlock devices:\n  7 loop\n"
                   "259 blkext\n",
                   nvidia, metax);
    return proc_write("devices", text);
}

static bool write_version(const struct hw *hw)
{
    char text[256];
    (void)snprintf(text, sizeof(text),
                   "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  %s  Release Build\n"
                   "GCC version:  gcc version 12.2.0 (Debian 12.2.0-14)\n",
                   hw->driver_version);
    return proc_write("driver/nvidia/version", text);
}

static bool write_params(void)
{
    return proc_write("driver/nvidia/params",
                      "ResmanDebugLevel: 4294967295\nRmLogonRC: 1\nModifyDeviceFiles: 1\n"
                      "DeviceFileUID: 0\nDeviceFileGID: 0\nDeviceFileMode: 438\n"
                      "InitializeSystemMemoryAllocations: 1\n");
}

static void bus_id(const struct hw_gpu *g, char *ret, size_t size)
{
    (void)snprintf(ret, size, "%04x:%02x:%02x.0", g->domain, g->bus, g->device);
}

static bool write_information(const struct hw *hw, const struct hw_gpu *g)
{
    char bus[32];
    char name[96];
    char text[512];
    bus_id(g, bus, sizeof(bus));
    (void)snprintf(name, sizeof(name), "driver/nvidia/gpus/%s/information", bus);
    (void)snprintf(text, sizeof(text),
                   "Model: \t\t %s\nIRQ:   \t\t 120\nGPU UUID: \t %s\n"
                   "Video BIOS: \t ??.??.??.??.??\nBus Type: \t PCIe\nDMA Size: \t 52 bits\n"
                   "DMA Mask: \t 0xfffffffffffff\nBus Location: \t %s\nDevice Minor: \t %u\n"
                   "GPU Firmware: \t %s\nGPU Excluded:\t No\n",
                   hw_model(g)->name, g->uuid, bus, g->minor, hw->driver_version);
    return proc_write(name, text);
}

static bool has_bus(const struct hw *hw, const char *name)
{
    char bus[32];
    for (uint32_t i = 0; i < hw->gpu_count; i++) {
        bus_id(&hw->gpus[i], bus, sizeof(bus));
        if (strcmp(bus, name) == 0)
            return true;
    }
    return false;
}

/* A new state file may have other cards. */
static void remove_old_cards(const struct hw *hw)
{
    char path[PATH_MAX];
    char name[NAME_MAX + 64];
    if (snprintf(path, sizeof(path), "%s/driver/nvidia/gpus", proc_root()) >= (int)sizeof(path))
        return;
    DIR *dir = opendir(path);
    for (const struct dirent *e = dir ? readdir(dir) : NULL; e != NULL; e = readdir(dir)) {
        if (e->d_name[0] == '.' || has_bus(hw, e->d_name))
            continue;
        (void)snprintf(name, sizeof(name), "driver/nvidia/gpus/%s/information", e->d_name);
        proc_remove(name);
        (void)snprintf(name, sizeof(name), "driver/nvidia/gpus/%s", e->d_name);
        proc_remove(name);
    }
    if (dir != NULL)
        (void)closedir(dir);
}

static void list_minors(FILE *out)
{
    (void)fputs("config 1\nmonitor 2\n", out);
    for (uint32_t card = 0; card < MAX_CARDS; card++) {
        for (uint32_t gi = 0; gi < MAX_GI; gi++) {
            (void)fprintf(out, "gpu%u/gi%u/access %u\n", card, gi,
                          proc_cap_minor(card, gi, HW_NONE));
            for (uint32_t ci = 0; ci < MAX_CI; ci++)
                (void)fprintf(out, "gpu%u/gi%u/ci%u/access %u\n", card, gi, ci,
                              proc_cap_minor(card, gi, ci));
        }
    }
}

static bool write_minors(void)
{
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    if (out == NULL)
        return false;
    list_minors(out);
    bool written = fclose(out) == 0 && proc_write("driver/nvidia-caps/mig-minors", text);
    free(text);
    return written;
}

static bool write_cap(const char *name, uint32_t minor, unsigned int mode)
{
    char text[96];
    (void)snprintf(text, sizeof(text),
                   "DeviceFileMinor: %u\nDeviceFileMode: %u\nDeviceFileModify: 1\n", minor, mode);
    return proc_write(name, text);
}

bool proc_driver_load(const struct hw *hw)
{
    if (proc_root() == NULL)
        return true;
    remove_old_cards(hw);
    if (!hw_has_nvidia(hw))
        return write_devices(hw);
    for (uint32_t i = 0; i < hw->gpu_count; i++) {
        if (!write_information(hw, &hw->gpus[i]))
            return false;
    }
    return write_devices(hw) && write_version(hw) && write_params() && write_minors() &&
           write_cap("driver/nvidia/capabilities/mig/config", 1, MODE_CONFIG) &&
           write_cap("driver/nvidia/capabilities/mig/monitor", 2, MODE_ACCESS);
}

/* The folder of a capability; with ci not HW_NONE of a compute instance's. */
static void cap_folder(uint32_t card, uint32_t gi, uint32_t ci, char *ret, size_t size)
{
    int n = snprintf(ret, size, "driver/nvidia/capabilities/gpu%u/mig/gi%u", card, gi);
    if (ci != HW_NONE && n > 0 && (size_t)n < size)
        (void)snprintf(ret + n, size - (size_t)n, "/ci%u", ci);
}

/* Writes or removes the capability of one instance. */
static bool set_cap(uint32_t card, uint32_t gi, uint32_t ci, bool there)
{
    char folder[96];
    char file[112];
    cap_folder(card, gi, ci, folder, sizeof(folder));
    (void)snprintf(file, sizeof(file), "%s/access", folder);
    if (there)
        return proc_exists(file) || write_cap(file, proc_cap_minor(card, gi, ci), MODE_ACCESS);
    proc_remove(file);
    proc_remove(folder);
    return true;
}

static bool sync_cis(const struct hw_gpu *g, uint32_t gi_id)
{
    const struct hw_gi *gi = mig_find_gi(g, gi_id);
    for (uint32_t ci = 0; ci < MAX_CI; ci++) {
        if (!set_cap(g->minor, gi_id, ci, gi != NULL && mig_find_ci(gi, ci) != NULL))
            return false;
    }
    return true;
}

static bool is_shown(const struct hw_gpu *g, uint32_t gi_id)
{
    char folder[96];
    cap_folder(g->minor, gi_id, HW_NONE, folder, sizeof(folder));
    return proc_exists(folder);
}

/* The folder is removed last and made first. */
static bool sync_gi(const struct hw_gpu *g, uint32_t gi_id)
{
    bool there = mig_find_gi(g, gi_id) != NULL;
    if (!there && !is_shown(g, gi_id))
        return true;
    if (there && !set_cap(g->minor, gi_id, HW_NONE, true))
        return false;
    return sync_cis(g, gi_id) && (there || set_cap(g->minor, gi_id, HW_NONE, false));
}

static bool sync_card(const struct hw_gpu *g)
{
    for (uint32_t gi = 0; gi < MAX_GI; gi++) {
        if (!sync_gi(g, gi))
            return false;
    }
    return true;
}

bool proc_driver_sync(const struct hw *hw, uint32_t gpu)
{
    if (proc_root() == NULL)
        return true;
    for (uint32_t i = 0; i < hw->gpu_count; i++) {
        if ((gpu == HW_NONE || gpu == i) && !sync_card(&hw->gpus[i]))
            return false;
    }
    return true;
}
