#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Writes RUNDIR/NAME.kubeconfig for a bearer token and prints its path.
#
#   hack/kube/kubeconfig.sh RUNDIR NAME TOKEN
set -euo pipefail
. "$(dirname "$0")/lib.sh"

case "${1:-}" in -h | --help)
    usage
    exit 0
    ;;
esac
[ $# = 3 ] || die "wants RUNDIR NAME TOKEN; see --help"
open_rundir "$1"
[[ "$2" =~ ^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$ ]] || die "NAME '$2' is no lower-case name"

write_kubeconfig "$RUNDIR/$2.kubeconfig" "$SERVER" "$RUNDIR/certs/apiserver.crt" "$2" "token: \"$3\""
printf '%s\n' "$RUNDIR/$2.kubeconfig"
