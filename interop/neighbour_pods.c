/* SPDX-License-Identifier: Apache-2.0 */
#include "interop/neighbour_pods.h"

#include <stddef.h>
#include <string.h>

#include "base/auto.h"

/* The DaemonSet's name, with the '-' that its pods' names go on with. container NULL: any. */
static const struct {
    const char *stem, *container;
    struct neighbour is;
} known[] = {
    {"nvidia-mig-manager-",
     NULL,
     {"NVIDIA's mig-manager", NEIGHBOUR_CUTS, "nvidia.com/gpu.deploy.mig-manager=false"}},
    /* The operator's, and the plugin's own; there are also pods of a validator and of MPS's daemon,
     * whose names begin alike. */
    {"nvidia-device-plugin-",
     "nvidia-device-plugin",
     {"NVIDIA's device plugin", NEIGHBOUR_SERVES, "nvidia.com/gpu.deploy.device-plugin=false"}},
    {"nvidia-device-plugin-",
     "nvidia-device-plugin-ctr",
     {"NVIDIA's device plugin", NEIGHBOUR_SERVES, NULL}},
    {"hami-device-plugin-", NULL, {"HAMi's device plugin", NEIGHBOUR_SERVES, "gpu-"}},
    {"volcano-device-plugin-", NULL, {"Volcano's device plugin", NEIGHBOUR_SERVES, NULL}},
    {"metax-gpu-device-", NULL, {"MetaX's device plugin", NEIGHBOUR_SERVES, NULL}},
};

const struct neighbour *neighbour_of_pod(const char *pod, const char *container)
{
    for (size_t i = 0; i < ARRAY_LEN(known); i++)
        if (strstr(pod, known[i].stem) &&
            (!known[i].container || strcmp(known[i].container, container) == 0))
            return &known[i].is;
    return NULL;
}
