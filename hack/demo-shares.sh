#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Shares of cards, to watch: one node with a real kubelet and containerd and two simulated H100, a stock
# kube-scheduler with cleave-scheduler beside it, and ten pods on one card. Needs root. Leaves everything
# running.
#
#   hack/demo-shares.sh [start|stop]
#
# State and logs are in build/demo-shares. CLEAVE_DEMO_DIR names another folder.
set -euo pipefail
cd "$(dirname "$0")/.."
. hack/demo/lib.sh

dir=${CLEAVE_DEMO_DIR:-$PWD/build/demo-shares}
bin=$PWD/build/release
node=gpu-node
home=$dir/$node

case "${1:-start}" in
-h | --help)
    awk 'NR <= 2 {next} !/^#/ {exit} {sub(/^# ?/, ""); print}' "$0"
    exit 0
    ;;
esac

pid_of() { cut -d' ' -f1 "$1"; }
# How a program is run in the cluster's network, and on the node, whose files and sockets are its own.
in_cluster=() on_node=()
enter() {
    in_cluster=(nsenter --target "$(pid_of "$dir/kube/network.pid")" --net)
    on_node=(env "CLEAVE_SIM_STATE=$home/hardware" "CLEAVE_SIM_FLEET=$home/fleet.yaml" "CLEAVE_SIM_PROC=$home/proc"
        nsenter --target "$(pid_of "$dir/kube/nodes/$node/init.pid")" --mount --pid --net)
}
kubectl() { hack/kube/kubectl.sh "$dir/kube" "$@"; }

run() { # name, command...
    local name=$1
    shift
    in_background "$dir/$name.log" "$dir/$name.pid" "$@"
}

# The agent lives in the node's PID namespace, and ends with it.
stop() {
    end_programs "$dir"/cleave-*.pid "$dir"/kube-scheduler.pid
    [ ! -d "$dir/kube" ] || hack/kube/node-down.sh "$dir/kube" --purge
}

start_agent() {
    mkdir -p "$home/state" "$home/proc"
    cp hack/demo/shares/node.yaml "$home/fleet.yaml"
    "${on_node[@]}" "$bin/sim/cleave-simctl" driver-root "$home/driver"
    "${on_node[@]}" "$bin/sim/cleave-simctl" dev-root "$home/driver"
    hack/kube/agent-token.sh "$dir/kube" "$node" cleave-node cleave-agent-slots >/dev/null
    kubectl label node "$node" gpu.cleave.dev.node-restriction.kubernetes.io/slots=true >>"$dir/install.log"
    local driver=(--driver-root "$home/driver" --dev-root "$home/driver" --host-driver-root "$home/driver" --host-dev-root "$home/driver")
    run cleave-agent "${on_node[@]}" "$bin/cleave-agent" run --node-name "$node" --kubeconfig "$dir/kube/agent-$node.kubeconfig" \
        --nvml-library "$bin/sim/libnvidia-ml.so.1" --nvidia-smi "$bin/sim/nvidia-smi" --state-dir "$home/state" --proc-root "$home/proc" \
        --resources kubelet --kubelet-dir /var/lib/kubelet --cdi-dir /var/run/cdi "${driver[@]}" --health-addr 127.0.0.1:0 --metrics-addr 127.0.0.1:0
}

start_controller() {
    hack/kube/pod-token.sh "$dir/kube" cleave-controller-demo cleave-system cleave-controller >/dev/null
    run cleave-controller "${in_cluster[@]}" "$bin/cleave-controller" --kubeconfig "$dir/kube/cleave-controller-demo.kubeconfig" --leader-elect \
        --pod-name cleave-controller-demo --namespace cleave-system --health-addr 127.0.0.1:0 --metrics-addr 127.0.0.1:0
}

# As config/scheduler has them, with the same account.
start_scheduler() {
    hack/kube/pod-token.sh "$dir/kube" cleave-scheduler-demo cleave-system cleave-scheduler >/dev/null
    local kubeconfig=$dir/kube/cleave-scheduler-demo.kubeconfig
    kubectl get configmap cleave-scheduler -n cleave-system -o 'jsonpath={.data.configuration\.yaml}' >"$dir/kube-scheduler.yaml"
    printf 'clientConnection: {kubeconfig: %s}\n' "$kubeconfig" >>"$dir/kube-scheduler.yaml"
    run cleave-scheduler "${in_cluster[@]}" "$bin/cleave-scheduler" --kubeconfig "$kubeconfig"
    run kube-scheduler "${in_cluster[@]}" "$kube/kube-scheduler" --config "$dir/kube-scheduler.yaml" \
        --authentication-kubeconfig "$kubeconfig" --authorization-kubeconfig "$kubeconfig" --leader-elect-resource-namespace cleave-system \
        --bind-address 127.0.0.1 --cert-dir "$dir/kube-scheduler-certs"
}

set_up() {
    title "A node with two cards, and a scheduler that knows them"
    note "etcd, kube-apiserver, kubelet, containerd and kube-scheduler are real; only the cards are simulated."
    hack/kube/node-up.sh "$dir/kube" --name "$node" -- --with-kcm >"$dir/up.log" 2>&1 || {
        cat "$dir/up.log" >&2
        exit 1
    }
    enter
    for part in config config/slots config/scheduler; do
        kubectl apply --server-side -k "$part" >>"$dir/install.log"
    done
    await 30 "the resource definitions" kubectl wait --for=condition=Established crd/devices.gpu.cleave.dev --timeout=1s
    start_controller
    start_agent
    start_scheduler
    await 60 "the scheduler" kubectl wait lease/cleave-scheduler -n cleave-system --for=jsonpath='{.spec.holderIdentity}' --timeout=1s
    await 60 "the agent" kubectl wait device/$node --for=condition=Ready --timeout=1s
    show kubectl get devices
}

offers_shares() { [ "$(kubectl get node "$node" -o 'jsonpath={.status.allocatable.nvidia\.com/gpu}')" = 20 ]; }

# The scheduler's word on a pod that waits.
why() { # pod
    kubectl get pod "$1" -o json | jq -er '.status.conditions[] | select(.reason == "Unschedulable") | "  " + .message'
}

pods() { show kubectl get pods -o custom-columns='NAME:.metadata.name,STATUS:.status.phase,SHARES:.metadata.annotations.hami\.io/vgpu-devices-allocated'; }

start() {
    kube=$(hack/kube/bin.sh) || {
        echo "demo-shares.sh: there is no control plane yet; hack/install-deps.sh gets one" >&2
        exit 1
    }
    stop
    rm -rf "$dir"
    mkdir -p "$dir"
    set_up

    title "A profile gives the cards out, up to ten shares each"
    show kubectl apply -f hack/demo/shares/profile.yaml
    await 60 "the shares" offers_shares
    show kubectl get devices
    note "What the node offers to pods: slots, and what its cards have together."
    offers "$node"

    title "Ten pods on one card"
    show kubectl apply -f hack/demo/shares/ten.yaml
    show kubectl wait pods -l app=ten --for=condition=Ready --timeout=120s
    pods
    note "None was restarted, and each sees its card and its share:"
    show kubectl logs ten-0
    show kubectl get devices

    title "The pod of HAMi's manual, as it is written there"
    show kubectl apply -f hack/demo/shares/manual.yaml
    await 60 "the scheduler's reason" why gpu-pod
    note "It asks for two cards, and the first has no share left:"
    why gpu-pod
    note "One of the ten ends, and its share is another's as soon as the agent has it back:"
    show kubectl delete pod ten-9
    show kubectl wait pod/gpu-pod --for=condition=Ready --timeout=60s
    show kubectl logs gpu-pod
    pods

    title "The cards, as the node sees them"
    printf '\n%s$ cleave-agent inspect     # on %s%s\n' "$dim" "$node" "$plain"
    "${on_node[@]}" "$bin/cleave-agent" inspect --nvml-library "$bin/sim/libnvidia-ml.so.1" --state-dir "$home/state"

    title "The cards, as the cluster knows them"
    show kubectl cleave

    printf '\n%sEverything keeps running.%s Look around with the cluster'"'"'s kubectl, which is in its network, as root:\n\n' "$bold" "$plain"
    printf '  k() { %s "$@"; }\n  k get pods\n  k cleave\n  k cleave doctor\n' "$PWD/hack/kube/kubectl.sh $dir/kube"
    printf '\nkubectl cleave top has nobody to ask here: it needs agents that run as pods, and this one runs beside the cluster.\n'
    printf 'Logs are in %s. End it with: make demo-shares-stop\n' "${dir#"$PWD/"}"
}

case "${1:-start}" in
start) start ;;
stop) stop ;;
*)
    echo "demo-shares.sh: start or stop" >&2
    exit 2
    ;;
esac
