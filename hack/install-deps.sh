#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs what building and testing Cleave needs, as far as it is missing:
#   - Debian packages: two compilers, the libraries, the checkers (apt-get, with sudo if not root)
#   - the control plane of the demo and of the end-to-end tests: etcd, kube-apiserver and kubectl
#     of KUBEBUILDER_ASSETS or PATH, else built once by hack/kube/build.sh and cached outside the
#     tree; where that has to happen without a Go, Debian's too
#   - as root, what a node with a real kubelet needs (hack/kube/node-up.sh): containerd 1.7 or later
#     of PATH, else built likewise; runc, CNI plugins and a static busybox; and buildah, to build from
#     the Containerfile
#   - with --with-koordinator, as root: Koordinator's scheduler, built likewise
#   - with --with-helm: helm and kubeconform, built likewise
#
#   hack/install-deps.sh [--no-kube | [--with-koordinator] [--with-helm]]
#
# --no-kube leaves out all but the packages: unit tests, lint and the programs do not need it.
# Says nothing where nothing is missing.
set -euo pipefail
. "$(dirname "$0")/kube/lib.sh"

packages=(
    # the build
    gcc ccache make pkg-config git clang-14
    libcurl4-openssl-dev libjansson-dev libyaml-dev libmicrohttpd-dev libseccomp-dev libssl-dev
    libnghttp2-dev libgnutls28-dev libprotobuf-c-dev protobuf-c-compiler
    # the release build's libcurl, from Debian's source (hack/images/curl.sh)
    binutils debian-archive-keyring dpkg-dev patch xz-utils
    # unit tests (the clang variant's sanitizers are in libclang-rt)
    libcriterion-dev libclang-rt-14-dev
    # lint
    clang-format-14 clang-tidy-14 shellcheck codespell
    # the end-to-end tests and the scripts around them
    python3 python3-venv python3-pytest python3-pytest-xdist python3-yaml curl jq openssl ca-certificates
    # the rules and dashboards of config/monitoring: promtool, and a Prometheus to ask
    prometheus
)

# a node that runs pods
node_packages=(runc containernetworking-plugins busybox-static iproute2 util-linux)
# builds from config/images/Containerfile, and their base (hack/images/check.sh)
node_packages+=(buildah mmdebstrap)

kube=yes
koordinator=
helm=
for arg in "$@"; do
    case "$arg" in
    --no-kube) kube= ;;
    --with-koordinator) koordinator=yes ;;
    --with-helm) helm=yes ;;
    -h | --help)
        usage
        exit 0
        ;;
    *) die "unknown argument '$arg'; see --help" ;;
    esac
done

missing_of() { # packages...: those that are not installed
    local name status
    declare -A installed=()
    while read -r name status; do
        [ "$status" != installed ] || installed[$name]=yes
    done < <(dpkg-query -W -f '${Package} ${db:Status-Status}\n' "$@" 2>/dev/null)
    for name in "$@"; do
        [ -n "${installed[$name]:-}" ] || printf '%s\n' "$name"
    done
}

# Asks for the password, if there has to be one, before the output goes to a file.
become_root() {
    [ "$(id -u)" != 0 ] || return 0
    sudo -n true 2>/dev/null || { [ -t 0 ] && sudo -v; } ||
        die "needs root, or sudo, to install: $*"
}

as_root() {
    local sudo=(sudo -n)
    [ "$(id -u)" != 0 ] || sudo=()
    "${sudo[@]}" "$@"
}

apt_get() {
    as_root env DEBIAN_FRONTEND=noninteractive \
        apt-get -o DPkg::Lock::Timeout=600 -o Acquire::Retries=3 "$@"
}

# Its package starts a service, which nobody here needs.
stop_prometheus() {
    [ -d /run/systemd/system ] || return 0
    as_root systemctl disable --quiet --now prometheus.service
}

install_packages() { # packages...
    local log
    log=$(mktemp)
    become_root "$@"
    say "Installing ${#} Debian packages: $*"
    # The package lists of a fresh machine are empty or old.
    progress "apt-get update" "$log" '' apt_get update -q ||
        say "going on with the package lists that are there"
    progress "apt-get install" "$log" '' apt_get install -q -y --no-install-recommends "$@" ||
        die "could not install the packages; the whole output is in $log"
    case " $* " in *" prometheus "*) stop_prometheus ;; esac
    rm -f "$log"
}

node_wanted() { [ -n "$kube" ] && [ "$(id -u)" = 0 ]; }

koordinator_wanted() { [ -n "$koordinator" ] && node_wanted; }

helm_wanted() { [ -n "$helm" ] && [ -n "$kube" ]; }

something_to_build() {
    [ -n "$kube" ] || return 1
    ! "$KUBE_HERE/bin.sh" >/dev/null ||
        { node_wanted && ! "$KUBE_HERE/containerd.sh" >/dev/null 2>&1; } ||
        { koordinator_wanted && ! "$KUBE_HERE/koordinator.sh" >/dev/null; } ||
        { helm_wanted && ! "$KUBE_HERE/helm.sh" >/dev/null; }
}

# Any Go will do that can fetch a newer one.
go_missing() {
    local rc=0
    "$KUBE_HERE/go.sh" >/dev/null || rc=$?
    [ "$rc" = 2 ]
}

command -v dpkg-query >/dev/null || die "knows Debian 12 and its kin only; elsewhere install what these hold: ${packages[*]}"
! node_wanted || packages+=("${node_packages[@]}")
mapfile -t missing < <(missing_of "${packages[@]}")
! something_to_build || ! go_missing || missing+=(golang-go)
[ ${#missing[@]} = 0 ] || install_packages "${missing[@]}"
[ -z "$kube" ] || "$KUBE_HERE/build.sh"
! node_wanted || "$KUBE_HERE/build.sh" containerd
! koordinator_wanted || "$KUBE_HERE/build.sh" koordinator
! helm_wanted || "$KUBE_HERE/build.sh" helm
