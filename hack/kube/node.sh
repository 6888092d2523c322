#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Makes a Node without a kubelet: Ready, schedulable, with cpu, memory and pods to give.
#
#   hack/kube/node.sh RUNDIR NAME [LABEL=VALUE...]
#
# Running it again sets the labels that are given and leaves the rest of the Node alone.
set -euo pipefail
. "$(dirname "$0")/lib.sh"

case "${1:-}" in -h | --help)
    usage
    exit 0
    ;;
esac
[ $# -ge 2 ] || die "wants RUNDIR NAME [LABEL=VALUE...]; see --help"
open_rundir "$1"
name=$2
shift 2

labels="\"kubernetes.io/hostname\": $(json_string "$name"), \"kubernetes.io/os\": \"linux\""
for label in "$@"; do
    [[ "$label" == ?*=* ]] || die "'$label' is not LABEL=VALUE"
    labels+=", $(json_string "${label%%=*}"): $(json_string "${label#*=}")"
done

kubectl get node "$name" >/dev/null 2>&1 || kubectl create -f - >/dev/null <<JSON
{"apiVersion": "v1", "kind": "Node", "metadata": {"name": $(json_string "$name")}}
JSON

now=$(date -u +%FT%TZ)
resources='{"cpu": "64", "memory": "512Gi", "pods": "110"}'
kubectl patch node "$name" --subresource=status --type=merge -p "{\"status\": {
  \"capacity\": $resources, \"allocatable\": $resources,
  \"addresses\": [{\"type\": \"InternalIP\", \"address\": \"127.0.0.1\"}, {\"type\": \"Hostname\", \"address\": $(json_string "$name")}],
  \"conditions\": [{\"type\": \"Ready\", \"status\": \"True\", \"reason\": \"Simulated\", \"message\": \"no kubelet runs here\",
    \"lastHeartbeatTime\": \"$now\", \"lastTransitionTime\": \"$now\"}]}}" >/dev/null

# Admission taints a new Node as not ready; without a controller manager nobody takes that away.
kubectl patch node "$name" --type=merge -p "{\"metadata\": {\"labels\": {$labels}}, \"spec\": {\"taints\": null}}" >/dev/null
