#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Prints the folder that holds bin/koord-scheduler, in crds/ the kinds that it reads, and the
# scheduler-config.yaml that it is installed with, as hack/kube/build.sh koordinator made it in
# ${CLEAVE_CACHE:-~/.cache/cleave}.
#
#   hack/kube/koordinator.sh
#
# Exits with 1 and prints nothing where there is none.
set -euo pipefail
. "$(dirname "$0")/lib.sh"

no_arguments "$@"

built=$(koordinator_cache_dir)
[ -x "$built/bin/koord-scheduler" ] || exit 1
printf '%s\n' "$built"
