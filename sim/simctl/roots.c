/* SPDX-License-Identifier: Apache-2.0 */
/* Commands that write a driver's installation on a host: its files, its devices. */
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "sim/metax.h"
#include "sim/proc_driver.h"
#include "sim/simctl/simctl.h"

#define LIBRARIES "usr/lib/x86_64-linux-gnu"

/* "%" is replaced by the driver's version. A file's content is its name, unless the simulator has
 * the real file beside this program; "+x" marks programs. */
struct root_file {
    const char *path;
    const char *beside; /* NULL: text */
    unsigned int mode;
};

static const struct root_file nvidia_files[] = {
    {LIBRARIES "/libnvidia-ml.so.%", "libnvidia-ml.so.1", 0644},
    {LIBRARIES "/libcuda.so.%", "libcuda.so.1", 0644},
    {LIBRARIES "/libcudadebugger.so.%", NULL, 0644},
    {LIBRARIES "/libnvcuvid.so.%", NULL, 0644},
    {LIBRARIES "/libnvidia-allocator.so.%", NULL, 0644},
    {LIBRARIES "/libnvidia-cfg.so.%", NULL, 0644},
    {LIBRARIES "/libnvidia-encode.so.%", NULL, 0644},
    {LIBRARIES "/libnvidia-gpucomp.so.%", NULL, 0644},
    {LIBRARIES "/libnvidia-nvvm.so.%", NULL, 0644},
    {LIBRARIES "/libnvidia-opencl.so.%", NULL, 0644},
    {LIBRARIES "/libnvidia-opticalflow.so.%", NULL, 0644},
    {LIBRARIES "/libnvidia-ptxjitcompiler.so.%", NULL, 0644},
    {LIBRARIES "/libGLX_nvidia.so.%", NULL, 0644},
    {LIBRARIES "/libEGL_nvidia.so.%", NULL, 0644},
    {LIBRARIES "/libnvidia-egl-gbm.so.1.1.2", NULL, 0644},
    {LIBRARIES "/vdpau/libvdpau_nvidia.so.%", NULL, 0644},
    {"usr/bin/nvidia-smi", "nvidia-smi", 0755},
    {"usr/bin/nvidia-debugdump", NULL, 0755},
    {"usr/bin/nvidia-persistenced", NULL, 0755},
    {"usr/bin/nvidia-cuda-mps-control", NULL, 0755},
    {"usr/bin/nvidia-cuda-mps-server", NULL, 0755},
    {"lib/firmware/nvidia/%/gsp_ga10x.bin", NULL, 0644},
    {"lib/firmware/nvidia/%/gsp_tu10x.bin", NULL, 0644},
    {"usr/share/glvnd/egl_vendor.d/10_nvidia.json", NULL, 0644},
    {"usr/share/vulkan/icd.d/nvidia_icd.json", NULL, 0644},
};

/* The locations of the library and its tool in MetaX's packages. */
static const struct root_file metax_files[] = {
    {"opt/mxdriver/lib/libmxsml.so", "libmxsml.so", 0644},
    {"opt/mxdriver/bin/mx-smi", NULL, 0755},
};

/* The links that ldconfig and the installer make. */
static const struct {
    const char *path, *target;
} links[] = {
    {LIBRARIES "/libnvidia-ml.so.1", "libnvidia-ml.so.%"},
    {LIBRARIES "/libcuda.so.1", "libcuda.so.%"},
    {LIBRARIES "/libcuda.so", "libcuda.so.1"},
    {LIBRARIES "/libcudadebugger.so.1", "libcudadebugger.so.%"},
    {LIBRARIES "/libnvcuvid.so.1", "libnvcuvid.so.%"},
    {LIBRARIES "/libnvidia-allocator.so.1", "libnvidia-allocator.so.%"},
    {LIBRARIES "/libnvidia-cfg.so.1", "libnvidia-cfg.so.%"},
    {LIBRARIES "/libnvidia-encode.so.1", "libnvidia-encode.so.%"},
    {LIBRARIES "/libnvidia-nvvm.so.4", "libnvidia-nvvm.so.%"},
    {LIBRARIES "/libnvidia-opencl.so.1", "libnvidia-opencl.so.%"},
    {LIBRARIES "/libnvidia-opticalflow.so.1", "libnvidia-opticalflow.so.%"},
    {LIBRARIES "/libnvidia-ptxjitcompiler.so.1", "libnvidia-ptxjitcompiler.so.%"},
    {LIBRARIES "/libGLX_nvidia.so.0", "libGLX_nvidia.so.%"},
    {LIBRARIES "/libEGL_nvidia.so.0", "libEGL_nvidia.so.%"},
    {LIBRARIES "/libnvidia-egl-gbm.so.1", "libnvidia-egl-gbm.so.1.1.2"},
    {"var/run", "../run"},
    {"lib64", "usr/lib/x86_64-linux-gnu"},
};

/* Replaces "%" by the version. */
static void with_version(const char *text, const char *version, char *ret, size_t size)
{
    const char *mark = strchr(text, '%');
    int n = mark == NULL
                ? snprintf(ret, size, "%s", text)
                : snprintf(ret, size, "%.*s%s%s", (int)(mark - text), text, version, mark + 1);
    if (n < 0 || (size_t)n >= size)
        die("a path is too long");
}

static void copy(FILE *from, FILE *to, const char *path)
{
    char chunk[16384];
    for (size_t n; (n = fread(chunk, 1, sizeof(chunk), from)) > 0;) {
        if (fwrite(chunk, 1, n, to) != n)
            die("%s: %s", path, strerror(errno));
    }
}

/* A file of the simulator's own, beside this program; NULL: it does not exist. */
static FILE *open_beside(const char *name)
{
    char own[PATH_MAX];
    char path[PATH_MAX + NAME_MAX];
    ssize_t len = name != NULL ? readlink("/proc/self/exe", own, sizeof(own) - 1) : -1;
    if (len < 0)
        return NULL;
    own[len] = '\0';
    (void)snprintf(path, sizeof(path), "%s/%s", dirname(own), name);
    return fopen(path, "re");
}

static void write_content(const char *path, const char *beside, unsigned int mode)
{
    FILE *out = fopen(path, "we");
    FILE *real = open_beside(beside);
    if (out == NULL)
        die("%s: %s", path, strerror(errno));
    if (real != NULL)
        copy(real, out, path);
    else if (mode & 0111)
        (void)fputs("#!/bin/sh\nexit 0\n", out);
    else
        (void)fprintf(out, "simulated %s\n", strrchr(path, '/') + 1);
    if (real != NULL)
        (void)fclose(real);
    if (fclose(out) != 0 || chmod(path, mode) != 0)
        die("%s: %s", path, strerror(errno));
}

static void write_files(const char *root, const struct root_file *files, size_t count,
                        const char *version)
{
    char name[PATH_MAX];
    char path[PATH_MAX];
    for (size_t i = 0; i < count; i++) {
        with_version(files[i].path, version, name, sizeof(name));
        place_file(root, name, path, sizeof(path));
        write_content(path, files[i].beside, files[i].mode);
    }
}

static void write_links(const char *root, const char *version)
{
    char target[PATH_MAX];
    char path[PATH_MAX];
    for (size_t i = 0; i < sizeof(links) / sizeof(links[0]); i++) {
        with_version(links[i].target, version, target, sizeof(target));
        place_file(root, links[i].path, path, sizeof(path));
        if (symlink(target, path) != 0 && errno != EEXIST)
            die("%s: %s", path, strerror(errno));
    }
}

/* Makes a socket's file; no process listens on it. */
static void write_socket(const char *root, const char *name)
{
    char path[PATH_MAX];
    place_file(root, name, path, sizeof(path));
    if (mknod(path, S_IFSOCK | 0666, 0) != 0 && errno != EEXIST)
        die("%s: %s", path, strerror(errno));
}

static void write_nvidia_driver(const char *root, const char *version)
{
    write_files(root, nvidia_files, sizeof(nvidia_files) / sizeof(nvidia_files[0]), version);
    write_socket(root, "run/nvidia-persistenced/socket");
    write_links(root, version);
}

void driver_root(struct state *s, struct args *a)
{
    char version[32];
    const char *root = take_word(a);
    if (root == NULL)
        die("driver-root needs a folder");
    take_end(a);
    const struct hw *hw = state_lock(s);
    bool nvidia = hw_has_nvidia(hw);
    bool metax = hw->mx_count > 0;
    (void)snprintf(version, sizeof(version), "%s", hw->driver_version);
    state_unlock(s);
    if (nvidia)
        write_nvidia_driver(root, version);
    if (metax)
        write_files(root, metax_files, sizeof(metax_files) / sizeof(metax_files[0]), "");
}

/* The folder for device files, and whether plain files may take their place. */
struct dev {
    const char *root;
    bool plain;
};

static void write_node(const struct dev *d, const char *name, unsigned int major_number,
                       unsigned int minor_number, mode_t mode)
{
    char path[PATH_MAX];
    place_file(d->root, name, path, sizeof(path));
    (void)unlink(path);
    dev_t number = makedev(major_number, minor_number);
    bool made = !d->plain && mknod(path, S_IFCHR | mode, number) == 0;
    if (!made && (d->plain || errno == EPERM)) {
        int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
        made = fd >= 0 && close(fd) == 0;
    }
    if (!made || chmod(path, mode) != 0)
        die("%s: %s", path, strerror(errno));
}

static void write_cap_node(const struct dev *d, uint32_t minor_number, mode_t mode)
{
    char name[64];
    (void)snprintf(name, sizeof(name), "dev/nvidia-caps/nvidia-cap%u", minor_number);
    write_node(d, name, PROC_MAJOR_CAPS, minor_number, mode);
}

static void write_card_nodes(const struct dev *d, const struct hw_gpu *g)
{
    char name[32];
    (void)snprintf(name, sizeof(name), "dev/nvidia%u", g->minor);
    write_node(d, name, PROC_MAJOR_NVIDIA, g->minor, 0666);
    for (size_t i = 0; i < HW_MAX_GI; i++) {
        const struct hw_gi *gi = &g->gis[i];
        if (gi->serial == 0)
            continue;
        write_cap_node(d, proc_cap_minor(g->minor, gi->id, HW_NONE), 0444);
        for (size_t k = 0; k < HW_MAX_CI; k++) {
            if (gi->cis[k].serial != 0)
                write_cap_node(d, proc_cap_minor(g->minor, gi->id, gi->cis[k].id), 0444);
        }
    }
}

static void write_nvidia_nodes(const struct dev *d, const struct hw *hw)
{
    write_node(d, "dev/nvidiactl", PROC_MAJOR_NVIDIA, 255, 0666);
    write_node(d, "dev/nvidia-modeset", PROC_MAJOR_NVIDIA, 254, 0666);
    write_node(d, "dev/nvidia-uvm", PROC_MAJOR_UVM, 0, 0666);
    write_node(d, "dev/nvidia-uvm-tools", PROC_MAJOR_UVM, 1, 0666);
    write_cap_node(d, 1, 0400);
    write_cap_node(d, 2, 0444);
    for (uint32_t i = 0; i < hw->gpu_count; i++)
        write_card_nodes(d, &hw->gpus[i]);
}

static void write_dri_nodes(const struct dev *d, uint32_t metax, uint32_t vf)
{
    char name[32];
    (void)snprintf(name, sizeof(name), "dev/dri/card%u", mx_dri_card(metax, vf));
    write_node(d, name, PROC_MAJOR_DRM, mx_dri_card(metax, vf), 0660);
    (void)snprintf(name, sizeof(name), "dev/dri/renderD%u", mx_dri_render(metax, vf));
    write_node(d, name, PROC_MAJOR_DRM, mx_dri_render(metax, vf), 0660);
}

/* mxcd is the control device and always exists; the purpose of the other two is not documented. */
static void write_metax_nodes(const struct dev *d, const struct hw *hw)
{
    write_node(d, "dev/mxcd", PROC_MAJOR_METAX, 0, 0660);
    write_node(d, "dev/mxnd", PROC_MAJOR_METAX, 1, 0660);
    write_node(d, "dev/mxgd", PROC_MAJOR_METAX, 2, 0660);
    for (uint32_t i = 0; i < hw->mx_count; i++) {
        write_dri_nodes(d, i, HW_NONE);
        for (uint32_t vf = 0; vf < hw->mx_cards[i].vf_count; vf++)
            write_dri_nodes(d, i, vf);
    }
}

void dev_root(struct state *s, struct args *a)
{
    struct dev d = {.plain = take_flag(a, "--plain"), .root = take_word(a)};
    if (d.root == NULL)
        die("dev-root needs a folder");
    take_end(a);
    const struct hw *hw = state_lock(s);
    if (hw_has_nvidia(hw))
        write_nvidia_nodes(&d, hw);
    if (hw->mx_count > 0)
        write_metax_nodes(&d, hw);
    state_unlock(s);
}
