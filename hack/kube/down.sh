#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Stops, by pid, what hack/kube/up.sh started in RUNDIR.
#
#   hack/kube/down.sh RUNDIR [--purge]
#
# --purge removes RUNDIR too. A RUNDIR that is not there, or where nothing runs, is no error.
set -euo pipefail
. "$(dirname "$0")/lib.sh"

RUNDIR=
purge=
for arg in "$@"; do
    case "$arg" in
    --purge) purge=yes ;;
    *) take_rundir "$arg" ;;
    esac
done
[ -n "$RUNDIR" ] || die "which RUNDIR? see --help"
[ -d "$RUNDIR" ] || exit 0

# Left to themselves they take seconds, each waiting for the others: what is written is in etcd
# already, and etcd recovers from its log.
for name in kube-scheduler kube-controller-manager kube-apiserver-twin kube-apiserver etcd; do
    stop "$RUNDIR" "$name" 5
done

[ -n "$purge" ] || exit 0
[ -f "$RUNDIR/tokens.csv" ] || die "$RUNDIR does not look like the folder of a control plane; not removed"
rm -rf "$RUNDIR"
