#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs kubectl as the admin of the control plane in RUNDIR, from inside its network namespace where
# it has one (hack/kube/node-up.sh makes one). `cleave` is there when build/release has it.
#
#   hack/kube/kubectl.sh RUNDIR ARGUMENTS...
set -euo pipefail
. "$(dirname "$0")/lib.sh"

case "${1:-}" in -h | --help | '')
    usage
    exit 0
    ;;
esac
open_rundir "$1"
shift
export PATH=$KUBE_HERE/../../build/release:$PATH
kubectl "$@"
