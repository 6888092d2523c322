#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Gives images to the nodes of hack/kube/node-up.sh, as if each had pulled them.
#
#   hack/kube/load.sh RUNDIR IMAGE.tar...
#
# IMAGE.tar is what hack/kube/image.sh or "podman save" makes.
set -euo pipefail
. "$(dirname "$0")/lib.sh"

case "${1:-}" in -h | --help)
    usage
    exit 0
    ;;
esac
[ $# -ge 2 ] || die "wants RUNDIR IMAGE.tar...; see --help"
open_rundir "$1"
shift
containerd=$("$KUBE_HERE/containerd.sh")

for node in "$RUNDIR"/nodes/*/; do
    is_running "$node" containerd || continue
    for image in "$@"; do
        nsenter -t "$(cut -d' ' -f1 "$node/init.pid")" -m -n -- "$containerd/ctr" -n k8s.io images import "$image" >/dev/null
    done
done
