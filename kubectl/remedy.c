/* SPDX-License-Identifier: Apache-2.0 */
#include "kubectl/remedy.h"

#include <string.h>

#define REASONS "docs/api.md#reasons"
#define NODE    "docs/api.md#is-the-node-ready"
#define DOCTOR  "docs/kubectl.md#what-is-not-right"
#define INSTALL "docs/operations.md#installing"
#define PODS    "kubectl get pods -A -o wide -l app.kubernetes.io/name=cleave"

const struct remedy remedies[] = {
    {"AgentNotResponding", "look at the node and at its agent: " PODS, REASONS},
    {"AgentNotServing", "look at the node and at its agent: " PODS, REASONS},
    {"CDIDisabled", "switch CDI on in the container runtime's configuration, and restart it", NODE},
    {"CDIUnsupported", "make cleave-runtime, or NVIDIA's, the container runtime's default handler",
     NODE},
    {"Conflict", "give one of the profiles another spec.priority, or another selector", REASONS},
    {"Contested", "switch off the other program, as the message says", REASONS},
    {"DeviceFilesChanged", "delete the pods that the message names, so that they are made anew",
     "docs/api.md#conditions"},
    {"DeviceNotFound", "correct the selector of the profile: kubectl cleave shows the cards",
     REASONS},
    {"DevicePlugin", "switch off the other device plugin, as the message says", REASONS},
    {"Disabled", "", NODE},
    {"DrainTimeout", "end the pods, or raise spec.rollout.timeoutSeconds", REASONS},
    {"Draining", "see whether a PodDisruptionBudget holds it up: kubectl get pdb -A", REASONS},
    {"DriverNotLoaded", "install the driver on the node, or load it", NODE},
    {"DriverVersionMismatch", "finish the driver's upgrade: reboot the node", NODE},
    {"GPULost", "drain the node and reboot it; if the card stays lost, ask the machine's vendor",
     REASONS},
    {"Held", "look at the card; then change the profile", REASONS},
    {"InUse", "end the pods that kubectl cleave shows there, or set spec.rollout.drain to evict",
     REASONS},
    {"Infeasible", "write the layout that the message names; kubectl cleave plan -f checks it",
     REASONS},
    {"JournalUnreadable", "see to the file on the node that the message names", REASONS},
    {"KubeletUnavailable", "look at the kubelet and its log on the node", REASONS},
    {"LibraryNotFound", "install the component that the message names", NODE},
    {"MIGManager", "switch off the other program, as the message says", REASONS},
    {"MPSFailed", "read the daemon's log, below --mps-root on the node", REASONS},
    {"MixedVersions",
     "let the agents' rollout end: kubectl rollout status daemonset -n cleave-node "
     "-l app.kubernetes.io/name=cleave",
     DOCTOR},
    {"NVMLTimeout", "read dmesg on the node: its driver may hang", REASONS},
    {"NoController", "install the controller, or scale it up: " PODS, DOCTOR},
    {"NoDevice", "see whether an agent runs there: " PODS, DOCTOR},
    {"NoNode", "delete the Device, if the node is gone for good", DOCTOR},
    {"NoNodes", "correct spec.nodeSelector of the profile, or see to the nodes' agents", REASONS},
    {"NodeNotReady", "look at the node: kubectl describe node", DOCTOR},
    {"NotInstalled", "apply the resource definitions of crds/", INSTALL},
    {"NotLeading", "look at the controller's pods and their log: " PODS, DOCTOR},
    {"NotReported", "look at the node's agent and its log: " PODS, DOCTOR},
    {"NotSeen", "see whether a controller leads: " PODS, DOCTOR},
    {"NotWithdrawn", "see whether a controller leads, and read the agent's log", REASONS},
    {"OtherDriver", "keep the other driver from loading, install the vendor's, and reboot", NODE},
    {"OtherVersion", "run the release that wrote the file that the message names, or remove it",
     REASONS},
    {"Overridden", "delete the profile, or give it a higher spec.priority", REASONS},
    {"Paused", "set spec.paused of the profile to false", REASONS},
    {"PodsForbidden", "install config/slots, and label the Node", REASONS},
    {"ReadFailed",
     "read dmesg on the node; if it stays so, end what uses the card and reset it, or reboot",
     REASONS},
    {"RebootRequired", "drain the node and reboot it", REASONS},
    {"ResetRequired", "end what uses the card, so that it can be reset", REASONS},
    {"RolledBack", "see what failed: kubectl cleave history NODE, and the agent's log", REASONS},
    {"RowRemapFailure", "have the card replaced", REASONS},
    {"SchedulerNotLeading", "look at the log of the scheduler's pods: " PODS, DOCTOR},
    {"SchedulerNotReady", "look at the scheduler's pods, or scale it up: " PODS, DOCTOR},
    {"SeveralControllers", "remove one of the two installations", "docs/operations.md#installing"},
    {"ShareOverLimit", "see to the pod that the message names",
     "docs/sharing.md#seen-from-outside"},
    {"ShareUnlimited", "see to the pod that the message names",
     "docs/sharing.md#seen-from-outside"},
    {"UncorrectableECC", "end what uses the card, and reset it", REASONS},
    {"Unhealthy", "look at the card: nvidia-smi -q, or mx-smi, and dmesg on the node", REASONS},
    {"UnknownConfig", "write one of the names that the message lists", REASONS},
    {"UnknownProfile", "write one of the names that the message lists", REASONS},
    {"Unreadable", "bring agent and kubectl-cleave to one version", DOCTOR},
    {"Waiting", "wait for the other nodes, or raise spec.rollout.maxUnavailable", REASONS},
    {"XidError", "do what the message says; drain the node first if it is a reset or a reboot",
     "docs/health.md"},
    {0},
};

const struct remedy *remedy_of(const char *reason)
{
    static const struct remedy other = {"", "", REASONS};
    for (const struct remedy *r = remedies; r->reason; r++)
        if (reason && strcmp(r->reason, reason) == 0)
            return r;
    return &other;
}
