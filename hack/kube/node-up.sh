#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Starts a cluster with real nodes: the control plane, and for each node a kubelet with containerd that
# runs pods. Needs root.
#
#   hack/kube/node-up.sh RUNDIR [--name NAME] [--over DIR] [--runtime PROGRAM] [-- OPTION-OF-UP.SH...]
#
# One call starts one node, and with the first one the cluster. The cluster lives in a network namespace
# of its own, where its addresses are nobody else's, and each node in mount and PID namespaces of its
# own: /var/lib/kubelet, /run, /dev and the sysctls that a kubelet sets are the node's, and the
# machine's stay as they are. Pods reach the API server at 10.96.0.1:443, as on any cluster.
# hack/kube/kubectl.sh RUNDIR talks to it; hack/kube/node-down.sh RUNDIR stops it, or a node alone.
#
# What already runs is left as it is and the rest started, so the same command starts again a
# kubelet or a containerd that was killed, or a node that was taken down. Returns when the kubelet
# is healthy and the node Ready; where it cannot be started, what this call started is stopped.
#
#   --name NAME        of the node; without it, node1
#   --over DIR         what the node has besides the machine's files: DIR/usr is laid over its /usr, the
#                      files of DIR/dev are copied into its /dev, and DIR/run/X is seen at /run/X
#   --runtime PROGRAM  starts its containers instead of runc, with runc's arguments
#
# RUNDIR holds what hack/kube/up.sh says, and
#   network.pid        a pid and its start time
#   images/            of the two images localhost/busybox:1 and localhost/pause:1
#   nodes/NAME/        node.pid, init.pid, containerd.pid, kubelet.pid (to run a program on the node,
#                      enter the mount, PID and network namespaces of init) and their logs; kubelet/
#                      (the node's /var/lib/kubelet), containerd/, pods/ (their logs)
set -euo pipefail
. "$(dirname "$0")/lib.sh"

RUNDIR=
node_name=node1
over=
runtime=
up_options=()
while [ $# -gt 0 ]; do
    case "$1" in
    --name)
        [[ "${2:-}" =~ ^[a-z0-9]([a-z0-9-]*[a-z0-9])?$ ]] || die "--name wants a name in lower case"
        node_name=$2
        shift
        ;;
    --over)
        [ -d "${2:-}" ] || die "--over wants a folder"
        over=$(realpath "$2")
        shift
        ;;
    --runtime)
        [ -x "${2:-}" ] || die "--runtime wants a program"
        runtime=$(realpath "$2")
        shift
        ;;
    --)
        shift
        up_options=("$@")
        break
        ;;
    *) take_rundir "$1" ;;
    esac
    shift
done
[ -n "$RUNDIR" ] || die "which RUNDIR? see --help"

# --- can it be done here? ---

[ "$(id -u)" = 0 ] || die "needs root"
mkdir -p "$RUNDIR"
RUNDIR=$(cd "$RUNDIR" && pwd)
case "$RUNDIR/" in /run/* | /var/lib/* | /var/log/*) die "RUNDIR may not lie below /run, /var/lib or /var/log: the node has its own there" ;; esac
bin=$("$KUBE_HERE/bin.sh") || die "no control plane here yet; hack/kube/build.sh builds one"
[ -x "$bin/kubelet" ] || die "$bin has no kubelet (unset KUBEBUILDER_ASSETS to build a complete set)"
containerd=$("$KUBE_HERE/containerd.sh") || die "no containerd that serves here yet; hack/kube/build.sh containerd builds one"
cni=$(for d in /usr/lib/cni /opt/cni/bin; do [ ! -x "$d/ptp" ] || echo "$d"; done | head -n 1)
[ -n "$cni" ] || die "no CNI plugins: install containernetworking-plugins"
busybox=$(type -P busybox) && ! ldd "$busybox" >/dev/null 2>&1 || die "no busybox that is linked statically: install busybox-static"
for tool in runc ip unshare nsenter cc; do
    type -P "$tool" >/dev/null || die "there is no $tool: hack/install-deps.sh installs it"
done

node=$RUNDIR/nodes/$node_name
images=$RUNDIR/images
pause=$images/pause/pause
mkdir -p "$node"

# --- network ---

is_apart() { [ "$(readlink "/proc/$(cut -d' ' -f1 "$RUNDIR/network.pid")/ns/net")" != "$(readlink /proc/self/ns/net)" ]; }

start_network() {
    spawn "$RUNDIR" network unshare -n -- "$pause"
    wait_until 60 "$RUNDIR" network "it had a network namespace" is_apart
    in_network "$RUNDIR" ip link set lo up
    in_network "$RUNDIR" ip address add 10.96.0.1/32 dev lo # the API server's as a Service
}

# Each node has a number that no other has, and by it an address and a range for its pods.
number_node() {
    local number=1
    mkdir -p "$RUNDIR/numbers"
    if [ ! -s "$node/number" ]; then
        until mkdir "$RUNDIR/numbers/$number" 2>/dev/null; do
            number=$((number + 1))
            [ "$number" -lt 200 ] || die "a cluster has 199 nodes at most"
        done
        printf '%s\n' "$number" >"$node/number"
    fi
    number=$(cat "$node/number")
    address=10.88.200.$number
    pod_range=10.88.$number.0/24
}

# A kubelet refuses a loopback address.
add_address() {
    [[ "$(in_network "$RUNDIR" ip -o address show dev lo)" == *" $address/32 "* ]] ||
        in_network "$RUNDIR" ip address add "$address/32" dev lo
}

# --- images ---

make_images() {
    local root=$images/busybox
    mkdir -p "${pause%/*}" "$root"/{bin,tmp,etc}
    cc -static -O2 -o "$pause" "$KUBE_HERE/pause.c"
    cp "$busybox" "$root/bin/busybox"
    "$busybox" --list | while read -r applet; do
        [ "$applet" = busybox ] || ln -sf busybox "$root/bin/$applet"
    done
    "$KUBE_HERE/image.sh" --level 1 localhost/pause:1 "$images/pause.tar" "${pause%/*}" /pause
    "$KUBE_HERE/image.sh" --level 1 localhost/busybox:1 "$images/busybox.tar" "$root" /bin/sh
}

# --- the node ---

cgroup_folders() { # of this node, in every hierarchy
    local hierarchy
    if [ -e /sys/fs/cgroup/cgroup.controllers ]; then
        echo "/sys/fs/cgroup/$cgroup"
    else
        for hierarchy in /sys/fs/cgroup/*/cgroup.procs; do echo "${hierarchy%/*}/$cgroup"; done
    fi
}

# The kubelet wants the one it is given to exist, with all controllers.
make_cgroup() {
    local folder file
    cgroup=cleave-$(cut -d' ' -f1 "$RUNDIR/network.pid")-$node_name
    printf '%s\n' "$cgroup" >"$node/cgroup"
    if [ -e /sys/fs/cgroup/cgroup.controllers ]; then
        sed 's/[^ ]*/+&/g' /sys/fs/cgroup/cgroup.controllers >/sys/fs/cgroup/cgroup.subtree_control ||
            die "the cgroup at /sys/fs/cgroup cannot hand on its controllers: it has processes of its own"
    fi
    cgroup_folders | while read -r folder; do
        mkdir -p "$folder"
        for file in cpuset.cpus cpuset.mems; do
            # Of cgroup v1 alone: empty until it is set.
            [ ! -e "$folder/$file" ] || [ -e /sys/fs/cgroup/cgroup.controllers ] || cat "${folder%/*}/$file" >"$folder/$file"
        done
    done
}

write_cni() {
    mkdir -p "$node/cni"
    cat >"$node/cni/10-node.conflist" <<EOT
{"cniVersion": "1.0.0", "name": "node", "plugins": [{"type": "ptp", "ipMasq": false,
 "ipam": {"type": "host-local", "ranges": [[{"subnet": "$pod_range"}]], "routes": [{"dst": "0.0.0.0/0"}]}}]}
EOT
}

# Without CAP_SYS_RESOURCE runc cannot lower oom_score_adj and says "can't get final child's PID from
# pipe: EOF"; containerd can be told to ask for no less than there is.
oom_is_restricted() { ! (echo -998 >/proc/self/oom_score_adj) 2>/dev/null; }

snapshotter() { # overlayfs does not work on an overlay, as a container's own folders are
    [ "$(stat -fc %T "$node")" = overlayfs ] && echo native || echo overlayfs
}

write_containerd_config() {
    local cri="io.containerd.cri.v1.runtime" images="io.containerd.cri.v1.images" version=3 sandbox cni_dirs oom=false
    if [[ "$("$containerd/containerd" --version)" =~ \ v?1\. ]]; then
        cri="io.containerd.grpc.v1.cri" images=$cri version=2
        sandbox="sandbox_image = \"localhost/pause:1\"" cni_dirs="bin_dir = \"$cni\""
    else
        sandbox="" cni_dirs="bin_dirs = [\"$cni\"]"
    fi
    ! oom_is_restricted || oom=true
    cat >"$node/containerd.toml" <<EOT
version = $version
root = "$node/containerd"
state = "/run/containerd"
disabled_plugins = ["io.containerd.internal.v1.opt", "io.containerd.nri.v1.nri"]
[plugins."$cri"]
  enable_cdi = true
  cdi_spec_dirs = ["/etc/cdi", "/var/run/cdi"]
  restrict_oom_score_adj = $oom
  $sandbox
  [plugins."$cri".cni]
    $cni_dirs
    conf_dir = "$node/cni"
  [plugins."$cri".containerd]
    default_runtime_name = "runc"
$([ -z "$sandbox" ] || echo "    snapshotter = \"$(snapshotter)\"")
    [plugins."$cri".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
      [plugins."$cri".containerd.runtimes.runc.options]
        BinaryName = "$runtime"
EOT
    [ "$version" = 2 ] || cat >>"$node/containerd.toml" <<EOT
[plugins."$images"]
  snapshotter = "$(snapshotter)"
  [plugins."$images".pinned_images]
    sandbox = "localhost/pause:1"
EOT
}

# Nothing is evicted or collected because the machine is full. A status goes out within a second of a
# change, and otherwise once a minute: without the second word the first would hold for both.
write_kubelet_config() {
    cat >"$node/kubelet.yaml" <<EOT
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
address: $address
healthzBindAddress: $address
readOnlyPort: 0
cgroupDriver: cgroupfs
cgroupRoot: /$cgroup
failSwapOn: false
failCgroupV1: false
containerRuntimeEndpoint: unix:///run/containerd/containerd.sock
authentication: {anonymous: {enabled: true}, webhook: {enabled: false}}
authorization: {mode: AlwaysAllow}
enforceNodeAllocatable: []
makeIPTablesUtilChains: false
localStorageCapacityIsolation: false
imageGCHighThresholdPercent: 100
evictionHard: {memory.available: "0%", nodefs.available: "0%", nodefs.inodesFree: "0%", imagefs.available: "0%", imagefs.inodesFree: "0%"}
podLogsDir: $node/pods
volumePluginDir: $node/volumeplugins
resolvConf: ""
nodeStatusUpdateFrequency: 1s
nodeStatusReportFrequency: 1m
syncFrequency: 5s
shutdownGracePeriod: 0s
EOT
}

write_configs() {
    write_cni
    write_containerd_config
    write_kubelet_config
    "$KUBE_HERE/client-cert.sh" "$RUNDIR" "system:node:$node_name" system:nodes >/dev/null
}

# The node's first process: when it ends, the kernel ends all of the node.
write_init_pid() {
    local node_pid init
    read -r node_pid _ <"$node/node.pid"
    init=$(tr -d ' ' <"/proc/$node_pid/task/$node_pid/children")
    [ "$(readlink "/proc/$init/exe")" = "$pause" ] || return
    printf '%s %s\n' "$init" "$(start_time "$init")" >"$node/init.pid"
}

start_node() {
    make_cgroup
    write_configs
    # shellcheck disable=SC2016
    spawn "$node" node nsenter -t "$(cut -d' ' -f1 "$RUNDIR/network.pid")" -n -- \
        unshare -m -p -f --kill-child --mount-proc --propagation private -- "$KUBE_HERE/node-inside.sh" "$node" "$pause" "$over"
    wait_until 60 "$node" node "it had its namespaces" write_init_pid
}

on_node() { nsenter -t "$(cut -d' ' -f1 "$node/init.pid")" -m -n -- "$@"; }

ctr() { on_node "$containerd/ctr" -n k8s.io "$@"; }

# From a byte of its log on. It answers for its version earlier, and refuses a kubelet, which then ends, for some milliseconds.
containerd_has_booted() { tail -c "+$(($1 + 1))" "$node/containerd.log" | grep -q 'msg="containerd successfully booted'; }

start_containerd() {
    local image has log_bytes
    log_bytes=$(stat -c %s "$node/containerd.log" 2>/dev/null) || log_bytes=0
    spawn_on_node containerd env PATH="$containerd:$PATH" "$containerd/containerd" --config "$node/containerd.toml"
    wait_until 30 "$node" containerd "it had booted" containerd_has_booted "$log_bytes"
    has=$(ctr images list -q)
    for image in pause busybox; do
        [[ $'\n'$has$'\n' == *$'\n'"localhost/$image:1"$'\n'* ]] || ctr images import "$images/$image.tar" >/dev/null
    done
}

kubelet_is_healthy() { on_node curl -sf --max-time 5 "http://$address:10248/healthz"; }

node_is_ready() {
    [ "$(kubectl get node "$node_name" -o 'jsonpath={.status.conditions[?(@.type=="Ready")].status}')" = True ]
}

start_kubelet() {
    spawn_on_node kubelet "$bin/kubelet" --config "$node/kubelet.yaml" --cert-dir "$node/certs" \
        --kubeconfig "$RUNDIR/cert-system-node-$node_name.kubeconfig" --hostname-override "$node_name" --node-ip "$address" --v 2
    wait_until 60 "$node" kubelet "it was healthy" kubelet_is_healthy
    wait_until 60 "$node" kubelet "its node was ready" node_is_ready
}

# spawn_on_node NAME COMMAND...: as spawn, with the node's first process as its parent. Nothing of
# ours stays between the two: a process that is stopped by a signal would stop that as well. The
# inner shell sees the machine's /proc until it enters the mount namespace, and so its pid as the
# machine knows it.
spawn_on_node() {
    local process=$1 init pid inner
    shift
    init=$(cut -d' ' -f1 "$node/init.pid")
    # shellcheck disable=SC2016 # for the inner shell
    inner='read -r pid rest </proc/self/stat; echo "$pid"; init=$1 log=$2; shift 2; exec nsenter -t "$init" -m -- "$@" >>"$log" 2>&1 </dev/null'
    # shellcheck disable=SC2016
    pid=$(nsenter -t "$init" -p -n -- sh -c 'setsid sh -c "$@" &' sh "$inner" sh "$init" "$node/$process.log" "$@")
    printf '%s %s\n' "$pid" "$(start_time "$pid")" >"$node/$process.pid"
}

# --- all of it ---

started=$(date +%s%N)
elapsed() { awk -v from="$started" -v to="$(date +%s%N)" 'BEGIN {printf "%.1f s", (to - from) / 1e9}'; }

what_to_stop=(--node --name "$node_name")
is_running "$RUNDIR" network || what_to_stop=()
trap 'rc=$?; [ "$rc" = 0 ] || "$KUBE_HERE/node-down.sh" "$RUNDIR" "${what_to_stop[@]}"' EXIT

if ! is_running "$RUNDIR" network; then
    "$KUBE_HERE/node-down.sh" "$RUNDIR" # what is left where it has died
    make_images
    start_network
fi
number_node
add_address
in_network "$RUNDIR" "$KUBE_HERE/up.sh" "$RUNDIR" --with-kcm --with-scheduler --in-cluster "${up_options[@]}"
open_rundir "$RUNDIR"
if ! is_running "$node" init; then
    "$KUBE_HERE/node-down.sh" "$RUNDIR" --node --name "$node_name"
    start_node
fi
cgroup=$(cat "$node/cgroup")
is_running "$node" containerd || start_containerd
is_running "$node" kubelet || start_kubelet
say "Node: $node_name is ready after $(elapsed); hack/kube/kubectl.sh $RUNDIR get pods -A"
