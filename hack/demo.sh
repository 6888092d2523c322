#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The main job, to watch: a real etcd and kube-apiserver, cleave-controller, and three simulated
# nodes of different models with a cleave-agent each. Applies the samples, shows each step and what
# came of it, and leaves everything running.
#
#   hack/demo.sh [start|stop]
#
# State and logs are in build/demo; build/demo/kubeconfig is for kubectl.
set -euo pipefail
cd "$(dirname "$0")/.."

dir=$PWD/build/demo
bin=$PWD/build/release
nodes=(h100-node a100-node rtx-node)

case "${1:-start}" in
-h | --help)
    awk 'NR <= 2 {next} !/^#/ {exit} {sub(/^# ?/, ""); print}' "$0"
    exit 0
    ;;
esac

if [ -t 1 ]; then
    bold=$'\e[1m' dim=$'\e[2m' plain=$'\e[0m'
else
    bold='' dim='' plain=''
fi

step=0
title() {
    step=$((step + 1))
    printf '\n%s%d. %s%s\n' "$bold" "$step" "$*" "$plain"
}
note() { printf '%s%s%s\n' "$dim" "$*" "$plain"; }
show() { # prints a command as a person would type it, then runs it
    printf '\n%s$ %s%s\n' "$dim" "$*" "$plain"
    "$@"
}
kubectl() { "$kube/kubectl" --kubeconfig "$dir/kubeconfig" "$@"; }

# Waits until a command succeeds: seconds, what is awaited, command...
await() {
    local deadline=$((SECONDS + $1)) what=$2
    shift 2
    until "$@" >/dev/null 2>&1; do
        if [ "$SECONDS" -ge "$deadline" ]; then
            printf 'The demo waited in vain for %s. Logs are in %s.\n' "$what" "$dir" >&2
            tail -n 5 "$dir"/*.log "$dir"/*/agent.log >&2 || true
            exit 1
        fi
        read -rt 0.1 <> <(:) || true
    done
}

stop() {
    local pidfile pid
    for pidfile in "$dir"/*.pid "$dir"/*/agent.pid; do
        [ -e "$pidfile" ] || continue
        pid=$(cat "$pidfile")
        if tr '\0' ' ' <"/proc/$pid/cmdline" 2>/dev/null | grep -q "$bin/cleave-"; then
            kill "$pid"
            tail --pid="$pid" -f /dev/null
        fi
        rm -f "$pidfile"
    done
    if [ -d "$dir/kube" ]; then
        hack/kube/down.sh "$dir/kube" --purge
    fi
}

in_background() { # logfile, pidfile, command...
    local log=$1 pidfile=$2
    shift 2
    setsid "$@" >"$log" 2>&1 </dev/null &
    echo $! >"$pidfile"
}

start_agent() { # node
    local node=$1 home=$dir/$1
    mkdir -p "$home/state" "$home/proc"
    hack/kube/agent-token.sh "$dir/kube" "$node" cleave-system cleave-agent >/dev/null
    CLEAVE_SIM_STATE=$home/hardware CLEAVE_SIM_FLEET=$PWD/hack/demo/$node.yaml CLEAVE_SIM_PROC=$home/proc \
        in_background "$home/agent.log" "$home/agent.pid" \
        "$bin/cleave-agent" run --node-name "$node" --kubeconfig "$dir/kube/agent-$node.kubeconfig" \
        --nvml-library "$bin/sim/libnvidia-ml.so.1" --nvidia-smi "$bin/sim/nvidia-smi" \
        --state-dir "$home/state" --proc-root "$home/proc" --health-addr 127.0.0.1:0 --metrics-addr 127.0.0.1:0
}

on_node() { # node, command...: runs a tool of the simulator against that node's cards
    local home=$dir/$1
    shift
    CLEAVE_SIM_STATE=$home/hardware CLEAVE_SIM_PROC=$home/proc "$@"
}

start_controller() {
    local token
    token=$(kubectl create token -n cleave-system cleave-controller --duration 24h)
    hack/kube/kubeconfig.sh "$dir/kube" controller "$token" >/dev/null
    in_background "$dir/controller.log" "$dir/controller.pid" \
        "$bin/cleave-controller" --kubeconfig "$dir/kube/controller.kubeconfig" --leader-elect \
        --namespace cleave-system --health-addr 127.0.0.1:0 --metrics-addr 127.0.0.1:0
}

devices_ready() {
    [ "$(kubectl get devices -o name | wc -l)" = "${#nodes[@]}" ] &&
        kubectl wait devices --all --for=condition=Ready --timeout=1s
}

columns='NODE:.metadata.name,MIG-CONFIG:.metadata.labels.nvidia\.com/mig\.config,STATE:.metadata.labels.nvidia\.com/mig\.config\.state'
allocatable() { # node
    kubectl get node "$1" -o json | jq -r '.status.allocatable | to_entries[] | select(.key | startswith("nvidia.com/")) | "  \(.key): \(.value)"'
}
message() { kubectl get gpuprofile "$1" -o json | jq -r '.status | ((.failures // [])[] | "  \(.node): \(.reason): \(.message)"), (.conditions[] | "  \(.type)=\(.status) \(.reason): \(.message)")'; }

start() {
    stop
    rm -rf "$dir"
    mkdir -p "$dir"
    kube=$(hack/kube/bin.sh)

    title "A control plane, three nodes and their agents"
    hack/kube/up.sh "$dir/kube"
    cp "$dir/kube/admin.kubeconfig" "$dir/kubeconfig"
    kubectl apply --server-side -k config >"$dir/install.log"
    await 30 "the resource definitions" kubectl wait --for=condition=Established crd/devices.gpu.cleave.dev --timeout=1s
    hack/kube/node.sh "$dir/kube" h100-node pool=inference
    hack/kube/node.sh "$dir/kube" a100-node pool=training
    hack/kube/node.sh "$dir/kube" rtx-node pool=graphics
    start_controller
    for node in "${nodes[@]}"; do start_agent "$node"; done
    await 60 "the agents" devices_ready
    show kubectl get devices

    title "A profile cuts the cards of its nodes"
    show kubectl apply -f config/samples/inference.yaml
    show kubectl wait gpuprofile/inference --for=condition=Ready --timeout=120s
    show kubectl get gpuprofiles
    show kubectl get devices
    note "What the node offers now:"
    allocatable h100-node
    note "The hardware itself, asked through NVML:"
    show on_node h100-node "$bin/cleave-agent" inspect --nvml-library "$bin/sim/libnvidia-ml.so.1" | head -40

    title "A label does it too, as existing scripts set it"
    show kubectl label node a100-node nvidia.com/mig.config=all-balanced
    await 120 "the label's state" kubectl wait node/a100-node --for='jsonpath={.metadata.labels.nvidia\.com/mig\.config\.state}=success' --timeout=1s
    show kubectl get nodes -o "custom-columns=$columns"
    show kubectl get devices
    allocatable a100-node

    title "Cards with another grid, and profiles with attributes"
    show kubectl apply -f config/samples/graphics.yaml
    show kubectl wait gpuprofile/graphics --for=condition=Ready --timeout=120s
    show kubectl get devices

    title "A layout that cannot exist is refused, with the nearest one that can"
    show kubectl apply -f hack/demo/impossible.yaml
    await 60 "the refusal" kubectl wait gpuprofile/impossible --for=condition=Stalled --timeout=1s
    message impossible
    show kubectl delete gpuprofile impossible

    title "What a process uses stays; the rest can change"
    local gi
    gi=$(kubectl get device h100-node -o json | jq -r '[.status.devices[0].partitions[] | select(.profile == "3g.40gb") | .giID][0]')
    on_node h100-node "$bin/sim/cleave-simctl" attach --gpu 0 --gi "$gi" --ci 0 --pid 4242 --name train.py
    show kubectl apply -f hack/demo/in-use.yaml
    await 60 "the card in use" bash -c "'$kube/kubectl' --kubeconfig '$dir/kubeconfig' get device h100-node -o json | jq -e '.status.devices[0].drain'"
    show kubectl get devices
    kubectl get device h100-node -o json | jq -r '.status.devices[] | select(.drain) | "  GPU \(.index) waits: \(.conditions[] | select(.type == "Applied") | .message)", (.partitions[] | select(.inUse) | "  \(.profile) \(.uuid) is used by \([.inUseBy[] | "\(.process) (pid \(.pid))"] | join(", "))")'
    note "The process ends:"
    on_node h100-node "$bin/sim/cleave-simctl" detach --gpu 0 --pid 4242
    await 60 "the change" kubectl wait gpuprofile/maintenance --for=condition=Ready --timeout=1s
    show kubectl get devices
    show kubectl delete gpuprofile maintenance

    title "What happened, as events"
    show kubectl get events -A --sort-by=.metadata.creationTimestamp

    printf '\n%sEverything keeps running.%s Look around:\n' "$bold" "$plain"
    printf '  export KUBECONFIG=%s\n  kubectl get devices,gpuprofiles,migconfigs\n' "build/demo/kubeconfig"
    printf '  kubectl is %s if you have none\nEnd it with: make demo-stop\n' "$kube/kubectl"
}

case "${1:-start}" in
start) start ;;
stop) stop ;;
*)
    echo "demo.sh: start or stop" >&2
    exit 2
    ;;
esac
