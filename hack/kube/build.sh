#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds what the demo and the end-to-end tests run on, once, from Go modules.
#
#   hack/kube/build.sh [--force] [--keep-gocache] [kube|containerd|koordinator|helm]
#
#   kube         (when nothing is named) etcd, kube-apiserver, kube-controller-manager,
#                kube-scheduler and kubelet as one program, and kubectl. Cold, on two idle cores:
#                5 minutes, 600 MiB of modules, 200 MB of programs
#   containerd   containerd with its runc shim and ctr, for a node with a real kubelet
#                (hack/kube/node-up.sh): 90 seconds, 75 MB
#   koordinator  koord-scheduler, and beside bin/ the kinds that it reads (crds/) and the configuration
#                that it is installed with: 4 minutes, 95 MB
#   helm         helm and kubeconform, for the chart's tests, and beside bin/ the kind
#                SecurityContextConstraints of OpenShift (crds/): 2 minutes, 60 MB
#
# KUBE_VERSION=1.36 in the environment builds a second Kubernetes, 1.36.3 (program/1.36.mod), and makes
# bin.sh, up.sh and node-up.sh find that one; `make nightly` runs tests on it.
#
# Does nothing where bin.sh, containerd.sh, koordinator.sh or helm.sh finds the binaries. --force builds into the cache all
# the same. The result goes to ${CLEAVE_CACHE:-~/.cache/cleave}/TARGET-<hash of the inputs>/bin, in
# one rename; an interrupted build leaves only its compiler cache and goes on from there the next
# time. That cache (2.8 GiB) is removed after a success unless --keep-gocache is given or GOCACHE
# names one of yours. Needs Go 1.25 or later, for KUBE_VERSION=1.36 Go 1.26 (hack/kube/go.sh), and the Go module proxy.
set -euo pipefail
. "$(dirname "$0")/lib.sh"

force=
keep_gocache=
target=kube
for arg in "$@"; do
    case "$arg" in
    --force) force=yes ;;
    --keep-gocache) keep_gocache=yes ;;
    kube | containerd | koordinator | helm) target=$arg ;;
    -h | --help)
        usage
        exit 0
        ;;
    *) die "unknown argument '$arg'; see --help" ;;
    esac
done

go_build() { nice -n 10 "$go" build -v -gcflags=all=-dwarf=false "$@"; }

# What is built, and in what: each target says the same things.
case "$target" in
kube)
    title="Control plane" what="Kubernetes $(kubernetes_version) and etcd" how_long="about 5 minutes"
    packages=2700 folder=$(kube_cache_dir) finder=bin.sh program=etcd check="kubectl version --client"
    build() {
        cd "$KUBE_HERE/program"
        go_build -modfile "$KUBE_MODULES.mod" -ldflags "$(kube_ldflags)" -o "$new/bin/" \
            . k8s.io/kubernetes/cmd/kubectl || return
        for tool in etcd kube-apiserver kube-controller-manager kube-scheduler kubelet; do
            ln -s cleave-kube "$new/bin/$tool"
        done
    }
    ;;
containerd)
    title="Container runtime" what="containerd $(containerd_version)" how_long="about 90 seconds"
    packages=1000 folder=$(containerd_cache_dir) finder=containerd.sh program=containerd check="containerd --version"
    build() {
        local commands=github.com/containerd/containerd/v2/cmd
        cd "$KUBE_HERE/containerd"
        go_build -tags "$CONTAINERD_TAGS" -ldflags "$(containerd_ldflags)" -o "$new/bin/" \
            "$commands/containerd" "$commands/containerd-shim-runc-v2" "$commands/ctr"
    }
    ;;
koordinator)
    title="Koordinator" what="koord-scheduler $(koordinator_version)" how_long="about 4 minutes"
    packages=1500 folder=$(koordinator_cache_dir) finder=koordinator.sh program=koord-scheduler check="koord-scheduler --version"
    build() {
        local module=github.com/koordinator-sh/koordinator config
        cd "$KUBE_HERE/koordinator"
        go_build -ldflags "-s -w" -o "$new/bin/" "$module/cmd/koord-scheduler" || return
        config=$("$go" list -m -f '{{.Dir}}' "$module")/config || return
        cp -R --no-preserve=mode "$config/crd/bases" "$new/crds" || return
        cp --no-preserve=mode "$config/manager/scheduler-config.yaml" "$new/"
    }
    ;;
helm)
    title="Helm" what="Helm $(helm_version) and kubeconform" how_long="about 2 minutes"
    packages=1000 folder=$(helm_cache_dir) finder=helm.sh program=helm check="helm version"
    build() {
        local module=github.com/openshift/api definition
        cd "$KUBE_HERE/helm"
        go_build -ldflags "$(helm_ldflags)" -o "$new/bin/" \
            helm.sh/helm/v3/cmd/helm github.com/yannh/kubeconform/cmd/kubeconform || return
        "$go" mod download "$module" || return
        definition=$("$go" list -m -f '{{.Dir}}' "$module")/security/v1/0000_03_security-openshift_01_scc.crd.yaml || return
        mkdir "$new/crds" && cp --no-preserve=mode "$definition" "$new/crds/securitycontextconstraints.yaml"
    }
    ;;
esac

[ -n "$force" ] || ! "$KUBE_HERE/$finder" >/dev/null 2>&1 || exit 0

# One lock for all: they share the compiler's cache.
mkdir -p "$(cache_dir)"
exec 9>"$(cache_dir)/kube.lock"
if ! flock -n 9; then
    say "$title: another build is running; waiting for that one"
    flock 9
    [ -n "$force" ] || ! [ -x "$folder/bin/$program" ] || exit 0
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

new=$(cache_dir)/$target.new
log=$(cache_dir)/$target-build.log
rm -rf "$new"
mkdir -p "$new/bin"

compiled() { # log: with -v the compiler prints each package that it had to compile
    awk -v all="$packages" '/^go: downloading/ {modules++; next} {packages++}
         END {printf ", %d modules fetched, %d of about %d packages compiled", modules, packages, all}' "$1"
}

started=$SECONDS
say "$title: building $what with $("$go" version | cut -d' ' -f3)"
say "  from Go modules, once; cold $how_long on 2 idle cores. Into $folder"
progress "building" "$log" compiled build || die "the whole output is in $log; running it again goes on from there"

# shellcheck disable=SC2086 # a program and its arguments
"$new/bin/"$check >/dev/null || die "what was built does not run: $check"
rm -rf "$folder"
mv -T "$new" "$folder"
[ -n "$keep_gocache" ] || rm -rf "$GOCACHE"
say "$title: built in $((SECONDS - started)) s, $(du -ms "$folder/bin" | cut -f1) MiB"
