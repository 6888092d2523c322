#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Stops, by pid, what hack/kube/node-up.sh started in RUNDIR, and its pods.
#
#   hack/kube/node-down.sh RUNDIR [--node [--name NAME] | --purge]
#
#   --node       the nodes alone, at once, as a power cut does it; what they have on disk stays, and
#                node-up.sh starts them again
#   --name NAME  of them, this one
#   --purge      all, and removes RUNDIR too
#
# A RUNDIR that is not there, or where nothing runs, is no error.
set -euo pipefail
. "$(dirname "$0")/lib.sh"

RUNDIR=
what=
only=
while [ $# -gt 0 ]; do
    case "$1" in
    --node | --purge) what=$1 ;;
    --name)
        only=${2:-}
        [ -n "$only" ] || die "--name wants a node's name"
        shift
        ;;
    *) take_rundir "$1" ;;
    esac
    shift
done
[ -z "$only" ] || [ "$what" = --node ] || die "--name goes with --node"
[ -n "$RUNDIR" ] || die "which RUNDIR? see --help"
[ -d "$RUNDIR" ] || exit 0

# A cgroup is busy for a moment after its last process has ended.
remove_cgroup() { # name
    local folder attempt
    for folder in /sys/fs/cgroup/"$1" /sys/fs/cgroup/*/"$1"; do
        [ -d "$folder" ] || continue
        for ((attempt = 0; attempt < 100; attempt++)); do
            find "$folder" -depth -type d -exec rmdir {} + 2>/dev/null || true
            [ -d "$folder" ] || continue 2
            sleep 0.05
        done
        say "the cgroup $folder stays: it still has processes"
    done
}

stop_node() { # its folder
    local node=$1 pid name end=$((SECONDS + 30))
    # Kubelet, containerd, pods and their mounts go with it; it counts as running until all have.
    if is_running "$node" init; then
        read -r pid _ <"$node/init.pid"
        kill -KILL "$pid" 2>/dev/null || true
        while is_running "$node" init; do
            [ "$SECONDS" -lt "$end" ] || die "the node does not end: somebody who started a program on it has not waited for its end"
            sleep 0.02
        done
    fi
    stop "$node" node 0
    for name in init containerd kubelet; do
        rm -f "$node/$name.pid"
    done
    [ ! -s "$node/cgroup" ] || remove_cgroup "$(cat "$node/cgroup")"
}

for folder in "$RUNDIR"/nodes/*/; do
    [ -d "$folder" ] && [ "${only:-$(basename "$folder")}" = "$(basename "$folder")" ] || continue
    stop_node "${folder%/}"
done
[ "$what" != --node ] || exit 0
"$KUBE_HERE/down.sh" "$RUNDIR"
stop "$RUNDIR" network 10
# A start that failed early has left nothing that down.sh knows.
[ "$what" != --purge ] || [ ! -f "$RUNDIR/tokens.csv" ] || "$KUBE_HERE/down.sh" "$RUNDIR" --purge
[ "$what" != --purge ] || [ ! -d "$RUNDIR/nodes" ] || rm -rf "$RUNDIR"
