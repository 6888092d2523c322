#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The main job, to watch: a real etcd and kube-apiserver, cleave-controller, and four simulated
# nodes of different models and vendors with a cleave-agent each. Applies the samples, shows each step and what
# came of it, and leaves everything running.
#
#   hack/demo.sh [start|stop]
#
# State and logs are in build/demo; build/demo/kubeconfig is for kubectl. CLEAVE_DEMO_DIR names
# another folder, CLEAVE_DEMO_LATENCY=none cards that answer at once, CLEAVE_DEMO_PICTURES a folder for pictures of
# what kubectl cleave shows (make pictures).
set -euo pipefail
cd "$(dirname "$0")/.."

dir=${CLEAVE_DEMO_DIR:-$PWD/build/demo}
bin=$PWD/build/release
nodes=(h100-node a100-node rtx-node metax-node)

case "${1:-start}" in
-h | --help)
    awk 'NR <= 2 {next} !/^#/ {exit} {sub(/^# ?/, ""); print}' "$0"
    exit 0
    ;;
esac

. hack/demo/lib.sh
kubectl() { "$kube/kubectl" --kubeconfig "$dir/kubeconfig" "$@"; }

stopped=0 had_control_plane=

stop() {
    end_programs "$dir"/*.pid "$dir"/*/agent.pid
    [ -d "$dir/kube" ] || return 0
    hack/kube/down.sh "$dir/kube" --purge
    had_control_plane=yes
}

tell_stopped() {
    if [ "$stopped" = 0 ] && [ -z "$had_control_plane" ]; then
        printf 'No demo was running in %s.\n' "${dir#"$PWD/"}"
        return
    fi
    printf 'Stopped %d programs of Cleave%s. Logs stay in %s.\n' "$stopped" "${had_control_plane:+ and the control plane}" "${dir#"$PWD/"}"
    [ "${KUBECONFIG:-}" != "$dir/kubeconfig" ] || printf 'Your shell still points there: unset KUBECONFIG\n'
}

start_agent() { # node
    local node=$1 home=$dir/$1 account=cleave-agent
    [ "$node" != metax-node ] || account=cleave-agent-slots # config/slots: it reads the pods that it makes slices for
    mkdir -p "$home/state" "$home/proc"
    sed "s/^latency: .*/latency: ${CLEAVE_DEMO_LATENCY:-realistic}/" "hack/demo/$node.yaml" >"$home/fleet.yaml"
    hack/kube/agent-token.sh "$dir/kube" "$node" cleave-node "$account" >/dev/null
    CLEAVE_SIM_STATE=$home/hardware CLEAVE_SIM_FLEET=$home/fleet.yaml CLEAVE_SIM_PROC=$home/proc \
        in_background "$home/agent.log" "$home/agent.pid" \
        "$bin/cleave-agent" run --node-name "$node" --kubeconfig "$dir/kube/agent-$node.kubeconfig" \
        --nvml-library "$bin/sim/libnvidia-ml.so.1" --nvidia-smi "$bin/sim/nvidia-smi" \
        --mxsml-library "$bin/sim/libmxsml.so" --resources controller --state-dir "$home/state" --proc-root "$home/proc" --health-addr 127.0.0.1:0 --metrics-addr 127.0.0.1:0
}

on_node() { # node, command...: runs a tool of the simulator against that node's cards
    local home=$dir/$1
    shift
    CLEAVE_SIM_STATE=$home/hardware CLEAVE_SIM_PROC=$home/proc "$@"
}

start_controller() {
    hack/kube/pod-token.sh "$dir/kube" cleave-controller-demo cleave-system cleave-controller >/dev/null
    in_background "$dir/controller.log" "$dir/controller.pid" \
        "$bin/cleave-controller" --kubeconfig "$dir/kube/cleave-controller-demo.kubeconfig" --leader-elect \
        --pod-name cleave-controller-demo --namespace cleave-system --health-addr 127.0.0.1:0 --metrics-addr 127.0.0.1:0
}

devices_ready() {
    [ "$(kubectl get devices -o name | wc -l)" = "${#nodes[@]}" ] &&
        kubectl wait devices --all --for=condition=Ready --timeout=1s
}

# The cards of a node as cleave-agent draws them, without those after the first few.
inspect() { # node, cards
    printf '\n%s$ cleave-agent inspect     # on %s%s\n' "$dim" "$1" "$plain"
    on_node "$1" "$bin/cleave-agent" inspect --nvml-library "$bin/sim/libnvidia-ml.so.1" --mxsml-library "$bin/sim/libmxsml.so" |
        awk -v last="$2" '/^GPU / && $2 >= last {hidden++} !hidden {print} END {if (hidden) print "… and " hidden " more"}'
}

label_is_seen() { [ -n "$(kubectl get node "$1" -o 'jsonpath={.metadata.labels.nvidia\.com/mig\.config\.state}')" ]; }

# Tells how the node's layout changes until its label's state is success.
follow_label() { # node
    local layout='' now state
    while :; do
        state=$(kubectl get node "$1" -o 'jsonpath={.metadata.labels.nvidia\.com/mig\.config\.state}')
        now=$(kubectl get device "$1" -o 'jsonpath={.status.summary.layout}')
        if [ "$now $state" != "$layout" ]; then
            printf '  %-9s %s\n' "$state" "$now"
            layout="$now $state"
        fi
        [ "$state" != success ] || break
        if [ "$state" = failed ] || [ "$SECONDS" -ge 300 ]; then
            printf 'The demo waited in vain for the label of %s. Logs are in %s.\n' "$1" "$dir" >&2
            exit 1
        fi
        pause
    done
}

# Shows what the plugin says, and makes a picture of it where these are wanted. Of plan 2 is good news, too.
see() { # name of the picture, kubectl cleave...
    local name=$1
    shift
    prompt "$@"
    (
        unset -f kubectl
        export KUBECONFIG=$dir/kubeconfig PATH=$bin:$kube:$PATH
        [ -z "${CLEAVE_DEMO_PICTURES:-}" ] || set -- hack/picture.py "$CLEAVE_DEMO_PICTURES/$name.svg" "$@"
        "$@"
    ) || [ $? = 2 ]
}

who_waits() { # node
    kubectl get device "$1" -o json | jq -r '.status.devices[] | select(.drain)
        | "  GPU \(.index) waits: \(.conditions[] | select(.type == "Applied") | .message)"'
}

memory() {
    local pidfile name
    for pidfile in "$dir/controller.pid" "$dir"/*/agent.pid; do
        name=cleave-controller
        [[ $pidfile = */controller.pid ]] || name="cleave-agent on $(basename "$(dirname "$pidfile")")"
        printf '  %-26s %4.1f MiB\n' "$name" "$(awk '/^VmRSS/ {print $2 / 1024}' "/proc/$(cat "$pidfile")/status")"
    done
}

set_up() {
    title "A control plane, four nodes and their agents"
    note "etcd, kube-apiserver, cleave-controller, and a cleave-agent on each node; only the cards are simulated."
    hack/kube/up.sh "$dir/kube" 2>"$dir/up.log" || {
        cat "$dir/up.log" >&2
        exit 1
    }
    cp "$dir/kube/admin.kubeconfig" "$dir/kubeconfig"
    kubectl apply --server-side -k config >"$dir/install.log"
    kubectl apply --server-side -f config/slots/account.yaml -f config/slots/pod-slots.yaml >>"$dir/install.log"
    await 30 "the resource definitions" kubectl wait --for=condition=Established crd/devices.gpu.cleave.dev --timeout=1s
    hack/kube/node.sh "$dir/kube" h100-node pool=inference
    hack/kube/node.sh "$dir/kube" a100-node pool=training
    hack/kube/node.sh "$dir/kube" rtx-node pool=graphics
    hack/kube/node.sh "$dir/kube" metax-node pool=metax
    start_controller
    for node in "${nodes[@]}"; do start_agent "$node"; done
    await 60 "the agents" devices_ready
    show kubectl get devices
}

profile_step() {
    title "A profile cuts the cards of its nodes"
    note "What it would do, before anything is cut:"
    see plan kubectl cleave plan -f config/samples/inference.yaml
    show kubectl apply -f config/samples/inference.yaml
    show kubectl wait gpuprofile/inference --for=condition=Ready --timeout=120s
    show kubectl get gpuprofiles
    show kubectl get device h100-node
    await 30 "the node's resources" bash -c "'$kube/kubectl' --kubeconfig '$dir/kubeconfig' get node h100-node -o json | jq -e '.status.allocatable[\"nvidia.com/mig-1g.10gb\"] == \"11\"'"
    note "What the node offers to pods now, whole cards shared by four:"
    offers h100-node
    inspect h100-node 3
}

label_step() {
    title "A label does it too, as existing scripts set it"
    show kubectl label node a100-node nvidia.com/mig.config=all-balanced
    await 30 "the label's state" label_is_seen a100-node
    show kubectl get nodes -L nvidia.com/mig.config,nvidia.com/mig.config.state
    note "Eight A100 need eight resets, of seconds each. The other nodes need not wait for that:"
}

graphics_step() {
    title "Cards with another grid, and profiles with attributes"
    show kubectl apply -f config/samples/graphics.yaml
    show kubectl wait gpuprofile/graphics --for=condition=Ready --timeout=120s
    show kubectl get device rtx-node
}

metax_step() {
    title "Another vendor's cards, cut into slices with quotas"
    show kubectl apply -f config/samples/metax.yaml
    show kubectl wait gpuprofile/metax --for=condition=Ready --timeout=120s
    await 30 "the node's resources" bash -c "'$kube/kubectl' --kubeconfig '$dir/kubeconfig' get node metax-node -o json | jq -e '.status.allocatable[\"metax-tech.com/sgpu-small\"] == \"4\"'"
    show kubectl get device metax-node
    note "Slices that stand on the first card; on the second, up to sixteen that are made for the pods that ask:"
    offers metax-node
    inspect metax-node 2
}

# The partitions of a node, a line each.
placements() { # node
    kubectl get device "$1" -o json | jq -r '.status.devices[] | .uuid as $card | .partitions[]? | "\($card) \(.uuid) \(.placement)"'
}

impossible_step() {
    title "A layout that cannot exist is refused, with the nearest one that can"
    local before after
    before=$(placements h100-node)
    show kubectl apply -f hack/demo/impossible.yaml
    await 60 "the refusal" kubectl wait gpuprofile/impossible --for=condition=Stalled --timeout=1s
    show kubectl get gpuprofile impossible -o 'jsonpath={.status.conditions[?(@.type=="Accepted")].message}{"\n"}'
    show kubectl get device h100-node
    after=$(placements h100-node)
    if [ "$before" != "$after" ]; then
        printf 'The partitions of h100-node have changed:\n%s\n' "$after" >&2
        exit 1
    fi
    note "All $(wc -l <<<"$after") partitions of the node are the ones that stood before, by their UUIDs and places; nothing tries again and again."
    show kubectl delete gpuprofile impossible
}

in_use_step() {
    local gi layout
    title "What a process uses stays until the process ends"
    layout=$(kubectl get device h100-node -o "jsonpath={.status.summary.layout}")
    gi=$(kubectl get device h100-node -o json | jq -r '[.status.devices[0].partitions[] | select(.profile == "3g.40gb") | .giID][0]')
    note "train.py begins to compute on the 3g.40gb of GPU 0, which a new profile wants cut into seven:"
    on_node h100-node "$bin/sim/cleave-simctl" attach --gpu 0 --gi "$gi" --ci 0 --pid 4242 --name train.py
    show kubectl apply -f hack/demo/in-use.yaml
    await 60 "the card in use" bash -c "'$kube/kubectl' --kubeconfig '$dir/kubeconfig' get device h100-node -o json | jq -e '.status.devices[0].drain'"
    show kubectl get device h100-node
    who_waits h100-node
    see cards kubectl cleave --node h100-node
    note "train.py ends:"
    on_node h100-node "$bin/sim/cleave-simctl" detach --gpu 0 --pid 4242
    show kubectl wait gpuprofile/maintenance --for=condition=Ready --timeout=60s
    show kubectl get device h100-node
    note "Without that profile the card is the other one's again:"
    show kubectl delete gpuprofile maintenance
    show kubectl wait device/h100-node "--for=jsonpath={.status.summary.layout}=$layout" --timeout=60s
    show kubectl wait gpuprofile/inference --for=condition=Ready --timeout=60s
}

why_step() {
    title "A pod that gets no card, and the change that would give it one"
    show kubectl apply -f hack/demo/pod.yaml
    see why kubectl cleave why train
    show kubectl delete pod train --wait=false
}

start() {
    kube=$(hack/kube/bin.sh) || {
        echo "demo.sh: there is no control plane yet; hack/install-deps.sh gets one" >&2
        exit 1
    }
    stop
    rm -rf "$dir"
    mkdir -p "$dir"
    set_up
    profile_step
    label_step
    graphics_step
    metax_step
    impossible_step
    in_use_step
    why_step

    title "Back to the label: the script that waits for success goes on when the hardware is there"
    follow_label a100-node
    offers a100-node

    title "What happened, as events"
    show kubectl get events --sort-by=.metadata.creationTimestamp -o \
        custom-columns=TYPE:.type,REASON:.reason,KIND:.involvedObject.kind,NAME:.involvedObject.name,MESSAGE:.message

    title "Everything together"
    show kubectl get gpuprofiles,devices
    note "And what it takes:"
    memory

    printf '\n%sEverything keeps running.%s Look around:\n\n' "$bold" "$plain"
    printf '  export KUBECONFIG=%s\n' "$dir/kubeconfig"
    type -P kubectl >/dev/null || printf '  export PATH="%s:$%s"     # kubectl\n' "$kube" PATH
    printf '  export PATH="%s:$%s"     # kubectl cleave\n' "$bin" PATH
    printf '  kubectl get cleave\n  kubectl cleave\n  kubectl describe node h100-node     # its Events tell each step\n  kubectl describe device h100-node\n  kubectl explain gpuprofile.spec\n'
    printf '\nkubectl cleave top has nobody to ask here: it needs agents that run as pods, and these run beside the cluster.\n'
    printf 'Logs are in %s. End it with: make demo-stop\n' "${dir#"$PWD/"}"
}

case "${1:-start}" in
start) start ;;
stop)
    stop
    tell_stopped
    ;;
*)
    echo "demo.sh: start or stop" >&2
    exit 2
    ;;
esac
