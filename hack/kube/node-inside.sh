#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The first process of a node, started by hack/kube/node-up.sh in namespaces made for it: gives the
# node folders of its own where containerd and the kubelet have theirs, then becomes PROGRAM.
#
#   hack/kube/node-inside.sh NODEDIR PROGRAM [OVER]
#
# OVER is the folder of node-up.sh --over.
#
# Nothing of it is seen outside, and all of it goes when the namespaces do.
set -euo pipefail
. "$(dirname "$0")/lib.sh"

case "${1:-}" in -h | --help)
    usage
    exit 0
    ;;
esac
[ $# -ge 2 ] && [ $# -le 3 ] && [ $$ = 1 ] || die "is for hack/kube/node-up.sh; see --help"
node=$1 program=$2 over=${3:-}

# have FOLDER...: each is there. Where the machine has no such folder, it gets none: the one that
# holds it is overlaid. All come before the first bind mount, which an overlay would hide.
have() {
    local folder parent layer
    for folder in "$@"; do
        parent=${folder%/*} layer=/run/over${folder%/*}
        if [ ! -d "$folder" ] && [ ! -d "$layer" ]; then
            mkdir -p "$layer"/{upper,work}
            mount -t overlay -o "lowerdir=$parent,upperdir=$layer/upper,workdir=$layer/work" overlay "$parent"
        fi
        mkdir -p "$folder"
    done
}

instead() { # FOLDER OTHER: OTHER is seen at FOLDER
    mkdir -p "$2"
    mount --bind "$2" "$1"
}

# Kubelets set these for the whole machine and never back. One that finds the values it wants
# writes nothing.
pretend() { # file of /proc/sys, what it says
    local file=/run/pretend/${1//\//-}
    printf '%s\n' "$2" >"$file"
    mount --bind "$file" "/proc/sys/$1"
}

# A /dev of the node's own: what a pod makes there, the machine does not have.
make_dev() {
    local name
    mkdir /run/dev
    mount -t tmpfs -o mode=755 dev /run/dev
    mkdir -p /run/dev/{pts,shm,mqueue}
    for name in null zero full random urandom tty console kmsg fuse; do
        [ ! -c "/dev/$name" ] || cp -a "/dev/$name" /run/dev/
    done
    ln -s /proc/self/fd /run/dev/fd
    for name in stdin:0 stdout:1 stderr:2; do
        ln -s "/proc/self/fd/${name#*:}" "/run/dev/${name%:*}"
    done
    ln -s pts/ptmx /run/dev/ptmx
    mount -t devpts -o newinstance,ptmxmode=0666,mode=0620 devpts /run/dev/pts
    mount -t tmpfs -o mode=1777 shm /run/dev/shm
    mount --rbind /run/dev /dev
}

lay_over() { # OVER
    local folder
    [ ! -d "$1/usr" ] || mount -t overlay -o "lowerdir=$1/usr:/usr" overlay /usr
    [ ! -d "$1/dev" ] || cp -a "$1/dev/." /dev/
    for folder in "$1"/run/*/; do
        [ ! -d "$folder" ] || { mkdir -p "/run/$(basename "$folder")" && instead "/run/$(basename "$folder")" "${folder%/}"; }
    done
}

mount -t tmpfs -o mode=755 node /run
mkdir -p /run/netns /run/containerd /run/cdi /run/pretend
have /var/lib/kubelet /var/lib/cni /var/log/containers
# Device plugins' sockets are at a place that is a constant in the kubelet.
instead /var/lib/kubelet "$node/kubelet"
instead /var/lib/cni /run/cni
instead /var/log/containers /run/log-links
make_dev
[ -z "$over" ] || lay_over "$over"

pretend vm/overcommit_memory 1
pretend vm/panic_on_oom 0
pretend kernel/panic 10
pretend kernel/panic_on_oops 1
pretend kernel/keys/root_maxkeys 1000000
pretend kernel/keys/root_maxbytes 25000000
# Each start of the node is a boot of its own.
pretend kernel/random/boot_id "$(cat /proc/sys/kernel/random/uuid)"

mount --make-rshared /
exec "$program"
