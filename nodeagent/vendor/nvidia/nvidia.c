/* SPDX-License-Identifier: Apache-2.0 */
#include "nodeagent/vendor/nvidia/nvidia.h"

#include "nodeagent/vendor/nvidia/container_nvidia.h"
#include "nodeagent/vendor/nvidia/nvml_open.h"

enum { LIBRARY, NVIDIA_SMI };

static const struct vendor_option options[] = {
    [LIBRARY] = {"nvml-library", "CLEAVE_NVML_LIBRARY", "PATH", "NVML; absent: libnvidia-ml.so.1"},
    [NVIDIA_SMI] = {"nvidia-smi", "CLEAVE_NVIDIA_SMI", "PATH", "for resets; absent: from PATH"},
    {0},
};

static int open_cards(const struct vendor_host *h, struct gpu **ret, struct err *e)
{
    const struct nvml_options o = {.library = h->values[LIBRARY],
                                   .nvidia_smi = h->values[NVIDIA_SMI],
                                   .proc_root = h->proc_root,
                                   .sys_root = h->sys_root,
                                   .watch = h->watch};
    return gpu_nvml_open(&o, ret, e);
}

/* As nvidia-smi topo prints them. */
static const struct vendor_links links = {
    .abbreviation = "NV",
    .legend = "NV#   joined by # NVLinks, straight or through switches\n",
    .counted = true,
};

/* By distribution (Debian and Ubuntu, Red Hat and SUSE), then NVIDIA's driver container and Google's
 * installer. */
static const char *const libraries[] = {
    "/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1",
    "/usr/lib/aarch64-linux-gnu/libnvidia-ml.so.1",
    "/usr/lib64/libnvidia-ml.so.1",
    "/usr/lib/libnvidia-ml.so.1",
    "/run/nvidia/driver/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1",
    "/run/nvidia/driver/usr/lib64/libnvidia-ml.so.1",
    "/home/kubernetes/bin/nvidia/lib64/libnvidia-ml.so.1",
    NULL,
};

static const char *const runtimes[] = {
    "/usr/bin/nvidia-container-runtime",
    "/usr/local/nvidia/toolkit/nvidia-container-runtime",
    "/usr/local/bin/nvidia-container-runtime",
    NULL,
};

const struct vendor_backend vendor_nvidia = {
    .name = "nvidia",
    .options = options,
    .open = open_cards,
    .container = &container_nvidia,
    .links = &links,
    .libraries = libraries,
    .runtimes = runtimes,
    .cards_at_once = 16,
    .reports_events = true,
};
