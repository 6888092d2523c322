#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Makes credentials as a DaemonSet's pod on node NAME has them: writes
# RUNDIR/agent-NAME.kubeconfig, with a token that names the node, and prints its path.
#
#   hack/kube/agent-token.sh RUNDIR NAME NAMESPACE SERVICEACCOUNT
#
# The token is bound to a pod (made here, assigned to the node, never run), so the API server puts
# the node's name into it, and the policy that binds an agent to its own node can be tried
# without a kubelet. Namespace and ServiceAccount are made where they are missing.
set -euo pipefail
. "$(dirname "$0")/lib.sh"

case "${1:-}" in -h | --help)
    usage
    exit 0
    ;;
esac
[ $# = 4 ] || die "wants RUNDIR NAME NAMESPACE SERVICEACCOUNT; see --help"
open_rundir "$1"
node=$2 namespace=$3 account=$4
pod=$account-$node

exists() { kubectl get "$@" >/dev/null 2>&1; }

exists node "$node" || die "there is no node $node; hack/kube/node.sh makes one"
exists namespace "$namespace" || kubectl create namespace "$namespace" >/dev/null
exists -n "$namespace" serviceaccount "$account" || kubectl create -n "$namespace" serviceaccount "$account" >/dev/null
exists -n "$namespace" pod "$pod" || kubectl create -n "$namespace" -f - >/dev/null <<JSON
{"apiVersion": "v1", "kind": "Pod",
 "metadata": {"name": "$pod", "labels": {"app.kubernetes.io/name": "$account"}},
 "spec": {"nodeName": "$node", "serviceAccountName": "$account", "automountServiceAccountToken": false,
          "tolerations": [{"operator": "Exists"}],
          "containers": [{"name": "agent", "image": "localhost/never-run"}]}}
JSON

token=$(kubectl create token -n "$namespace" "$account" --duration 24h --bound-object-kind Pod --bound-object-name "$pod")
"$KUBE_HERE/kubeconfig.sh" "$RUNDIR" "agent-$node" "$token"
