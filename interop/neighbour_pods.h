/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Pods of other programs that do on a node what Cleave's agent does: cut its cards, or offer them to
 * the kubelet. They are known by the names that their installations give them: a DaemonSet's pod is
 * named after it, and Helm may put a release's name before that. Pure.
 *
 * Sources: gpu-operator assets/state-mig-manager and assets/state-device-plugin, k8s-device-plugin
 * deployments/helm and deployments/static, HAMi charts/hami/templates/device-plugin, volcano
 * devices' volcano-device-plugin.yml, MetaX's operator.
 */
enum neighbour_does { NEIGHBOUR_CUTS, NEIGHBOUR_SERVES };

struct neighbour {
    const char *title; /* "NVIDIA's mig-manager" */
    enum neighbour_does does;
    /* What keeps it off a node: a label of the node for "kubectl label node"; NULL: its DaemonSet
     * has to leave the node out. */
    const char *switch_off;
};

/* NULL: no such program, or not known. Static. */
const struct neighbour *neighbour_of_pod(const char *pod, const char *container);
