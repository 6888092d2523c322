#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds the control plane for the demo and the end-to-end tests: etcd, kube-apiserver,
# kube-controller-manager, kube-scheduler, kubelet and kubectl as one program.
#
#   hack/kube/build.sh [--force] [--keep-gocache]
#
# Does nothing where bin.sh finds the binaries (KUBEBUILDER_ASSETS, PATH, the cache).
# --force builds into the cache all the same. The result goes to
# ${CLEAVE_CACHE:-~/.cache/cleave}/kube-<hash of the inputs>/bin, in one rename; an interrupted
# build leaves only its compiler cache and goes on from there the next time. That cache (2.8 GiB)
# is removed after a success unless --keep-gocache is given or GOCACHE names one of yours.
#
# Needs Go 1.24 or later (hack/kube/go.sh) and the Go module proxy. Cold, on two idle cores:
# 5 minutes, 600 MiB of modules, 140 MB of program.
set -euo pipefail
. "$(dirname "$0")/lib.sh"

force=
keep_gocache=
for arg in "$@"; do
    case "$arg" in
    --force) force=yes ;;
    --keep-gocache) keep_gocache=yes ;;
    -h | --help)
        usage
        exit 0
        ;;
    *) die "unknown argument '$arg'; see --help" ;;
    esac
done

[ -n "$force" ] || ! "$KUBE_HERE/bin.sh" >/dev/null || exit 0

target=$(kube_cache_dir)
mkdir -p "$(cache_dir)"
exec 9>"$(cache_dir)/kube.lock"
if ! flock -n 9; then
    say "Control plane: another build of it is running; waiting for that one"
    flock 9
    [ -n "$force" ] || ! [ -x "$target/bin/etcd" ] || exit 0
fi

go=$("$KUBE_HERE/go.sh" --fetch) || die "no Go: install golang-go (hack/install-deps.sh does) or Go $GO_NEEDED or later"
if [ -n "${GOCACHE:-}" ]; then
    keep_gocache=yes
else
    GOCACHE=$(cache_dir)/gocache
    export GOCACHE
fi
# The compiler inherits GOGC: with -dwarf=false it saves a tenth of the time.
export GOTOOLCHAIN=local GOFLAGS="-mod=readonly -buildvcs=false -trimpath" CGO_ENABLED=0 GOGC=${GOGC:-400}

new=$(cache_dir)/kube.new
log=$(cache_dir)/kube-build.log
rm -rf "$new"
mkdir -p "$new/bin"

compiled() { # log: with -v the compiler prints each package that it had to compile
    awk '/^go: downloading/ {modules++; next} {packages++}
         END {printf ", %d modules fetched, %d of about 2700 packages compiled", modules, packages}' "$1"
}

build() {
    cd "$KUBE_HERE/program"
    nice -n 10 "$go" build -v -gcflags=all=-dwarf=false -ldflags "$(kube_ldflags)" -o "$new/bin/cleave-kube" .
}

started=$SECONDS
say "Control plane: building Kubernetes $(kubernetes_version) and etcd with $("$go" version | cut -d' ' -f3)"
say "  from Go modules, once; cold about 5 minutes on 2 idle cores. Into $target"
progress "building" "$log" compiled build || die "the whole output is in $log; running it again goes on from there"

for tool in etcd kube-apiserver kube-controller-manager kube-scheduler kubelet kubectl; do
    ln -s cleave-kube "$new/bin/$tool"
done
"$new/bin/kubectl" version --client >/dev/null || die "the new kubectl does not run"
rm -rf "$target"
mv -T "$new" "$target"
[ -n "$keep_gocache" ] || rm -rf "$GOCACHE"
say "Control plane: built in $((SECONDS - started)) s, $(du -m "$target/bin/cleave-kube" | cut -f1) MiB"
