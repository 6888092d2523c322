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

case "${1:-}" in -h | --help)
    usage
    exit 0
    ;;
esac
[ $# = 4 ] || die "wants RUNDIR POD NAMESPACE SERVICEACCOUNT; see --help"
open_rundir "$1"
pod=$2 namespace=$3 account=$4

kubectl get -n "$namespace" pod "$pod" >/dev/null 2>&1 || kubectl create -n "$namespace" -f - >/dev/null <<JSON
{"apiVersion": "v1", "kind": "Pod",
 "metadata": {"name": "$pod", "labels": {"app.kubernetes.io/name": "$account"}},
 "spec": {"schedulerName": "none", "serviceAccountName": "$account", "automountServiceAccountToken": false,
          "securityContext": {"runAsNonRoot": true, "seccompProfile": {"type": "RuntimeDefault"}},
          "containers": [{"name": "main", "image": "localhost/never-run",
                          "securityContext": {"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}}}]}}
JSON

token=$(kubectl create token -n "$namespace" "$account" --duration 24h --bound-object-kind Pod --bound-object-name "$pod")
"$KUBE_HERE/kubeconfig.sh" "$RUNDIR" "$pod" "$token"
