#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Makes credentials as a Deployment's pod has them: writes RUNDIR/POD.kubeconfig, with a token that
# names the pod, and prints its path.
#
#   hack/kube/pod-token.sh RUNDIR POD NAMESPACE SERVICEACCOUNT
#
# The token is bound to a pod (made here, never scheduled, let in by Pod Security "restricted"), so
# the policies that tell replicas apart by their pods can be tried without a kubelet. Namespace and
# ServiceAccount have to be there.
set -euo pipefail
. "$(dirname "$0")/lib.sh"

token_arguments "$@"
pod_token "$subject" "$subject" '
    "schedulerName": "none",
    "securityContext": {"runAsNonRoot": true, "seccompProfile": {"type": "RuntimeDefault"}},
    "containers": [{"name": "main", "image": "localhost/never-run",
                    "securityContext": {"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}}}]'
