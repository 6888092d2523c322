#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Prints the folder that holds containerd, containerd-shim-runc-v2 and ctr.
#
#   hack/kube/containerd.sh
#
# The first of these that has all three, new enough to understand CDI (1.7), wins:
#   1. CLEAVE_CONTAINERD, a folder
#   2. PATH
#   3. what hack/kube/build.sh containerd built, in ${CLEAVE_CACHE:-~/.cache/cleave}
# Says which one it passed over and why. Exits with 1 and prints nothing where there is none.
set -euo pipefail
. "$(dirname "$0")/lib.sh"

no_arguments "$@"

# usable FOLDER WHERE: all there and new enough; says why not
usable() {
    local tool version
    for tool in containerd containerd-shim-runc-v2 ctr; do
        [ -x "$1/$tool" ] || {
            say "$2: has no $tool: not used"
            return 1
        }
    done
    version=$("$1/containerd" --version | grep -oE 'v?[0-9]+\.[0-9]+\.[0-9]+' | head -n 1)
    version=${version#v}
    printf '1.7\n%s\n' "${version:-0}" | sort -CV || {
        say "$2: containerd ${version:-of no known version} ignores CDI devices without a word, pods would start without their partitions; 1.7 or later is needed: not used"
        return 1
    }
}

built=$(containerd_cache_dir)/bin
if [ -n "${CLEAVE_CONTAINERD:-}" ]; then
    usable "$CLEAVE_CONTAINERD" "CLEAVE_CONTAINERD=$CLEAVE_CONTAINERD" || exit 1
    printf '%s\n' "$CLEAVE_CONTAINERD"
elif found=$(type -P containerd) && found=$(dirname "$found") && usable "$found" "$found (in PATH)"; then
    printf '%s\n' "$found"
else
    [ -x "$built/containerd" ] || exit 1
    printf '%s\n' "$built"
fi
