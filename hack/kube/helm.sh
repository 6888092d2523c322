#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Prints the folder that holds bin/helm, bin/kubeconform, and in crds/ OpenShift's kind
# SecurityContextConstraints, as hack/kube/build.sh helm made it in ${CLEAVE_CACHE:-~/.cache/cleave}.
#
#   hack/kube/helm.sh
#
# Exits with 1 and prints nothing where there is none.
set -euo pipefail
. "$(dirname "$0")/lib.sh"

no_arguments "$@"

built=$(helm_cache_dir)
[ -x "$built/bin/helm" ] || exit 1
printf '%s\n' "$built"
