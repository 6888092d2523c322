#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Prints the folder that holds etcd, kube-apiserver and kubectl.
#
#   hack/kube/bin.sh
#
# The first of these that has all three wins:
#   1. KUBEBUILDER_ASSETS
#   2. PATH (a lone kubectl there is not enough)
#   3. what hack/kube/build.sh built, in ${CLEAVE_CACHE:-~/.cache/cleave}
# With KUBE_VERSION (see hack/kube/build.sh) only the last counts: the others are of some version.
# Exits with 1 and prints nothing where there is none: hack/kube/build.sh makes one.
set -euo pipefail
. "$(dirname "$0")/lib.sh"

no_arguments "$@"

complete() { [ -x "$1/etcd" ] && [ -x "$1/kube-apiserver" ] && [ -x "$1/kubectl" ]; }

# The programs of PATH may lie in different folders: a folder of links stands for them, named
# after what it holds, so that one that is in use never changes.
link_path_programs() {
    local tool links new found=()
    for tool in etcd kube-apiserver kubectl; do
        type -P "$tool" >/dev/null || return 1
    done
    for tool in etcd kube-apiserver kubectl kube-controller-manager kube-scheduler kubelet; do
        ! type -P "$tool" >/dev/null || found+=("$(type -P "$tool")")
    done
    links=$(cache_dir)/path-$(printf '%s\n' "${found[@]}" | sha256sum | cut -c1-12)
    if [ ! -d "$links" ]; then
        new=$links.new.$$
        mkdir -p "$new"
        ln -s "${found[@]}" "$new"
        # Another process may have been faster.
        mv -T "$new" "$links" 2>/dev/null || rm -rf "$new"
    fi
    printf '%s\n' "$links"
}

if [ -n "${KUBEBUILDER_ASSETS:-}" ] && ! complete "$KUBEBUILDER_ASSETS"; then
    say "KUBEBUILDER_ASSETS=$KUBEBUILDER_ASSETS lacks etcd, kube-apiserver or kubectl: not used"
    KUBEBUILDER_ASSETS=
fi
if [ -z "${KUBE_VERSION:-}" ] && [ -n "${KUBEBUILDER_ASSETS:-}" ]; then
    printf '%s\n' "$KUBEBUILDER_ASSETS"
elif [ -z "${KUBE_VERSION:-}" ] && link_path_programs; then
    :
else
    built=$(kube_cache_dir)/bin
    complete "$built" || exit 1
    printf '%s\n' "$built"
fi
