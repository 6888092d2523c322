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

token_arguments "$@"
node=$subject

exists node "$node" || die "there is no node $node; hack/kube/node.sh makes one"
exists namespace "$namespace" || kubectl create namespace "$namespace" >/dev/null
exists -n "$namespace" serviceaccount "$account" || kubectl create -n "$namespace" serviceaccount "$account" >/dev/null

pod_token "$account-$node" "agent-$node" "
    \"nodeName\": $(json_string "$node"),
    \"tolerations\": [{\"operator\": \"Exists\"}],
    \"containers\": [{\"name\": \"agent\", \"image\": \"localhost/never-run\"}]"
