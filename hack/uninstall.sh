#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Takes Cleave off a cluster, in the order in which nothing of it stays on the Nodes. Needs kubectl alone. Finds what to delete by
# the label app.kubernetes.io/part-of=cleave, so it works for every namespace and component.
#
#   hack/uninstall.sh [--yes] [--purge] [--timeout SECONDS] [--context NAME]
#
#   --yes              ask nothing
#   --purge            also GPUProfiles and MIGConfigs, the resource definitions, and the Nodes' label nvidia.com/mig.config
#   --timeout SECONDS  for each thing that is waited for; 300 if not given
#   --context NAME     of the kubeconfig
#
# Without --purge what people wrote stays: GPUProfiles, MIGConfigs and their definitions, and takes effect again once Cleave is
# installed again. Partitions stay as they are in any case, and pods keep their devices; only sharing by MPS ends.
# Running it again goes on where it ended.
set -euo pipefail

readonly part=app.kubernetes.io/part-of=cleave
yes='' purge='' timeout=300
kubectl=(kubectl)

usage() { awk 'NR <= 2 {next} !/^#/ {exit} {sub(/^# ?/, ""); print}' "$0"; }
say() { printf '%s\n' "$*"; }
die() {
    printf 'uninstall.sh: %s\n' "$*" >&2
    exit 1
}

while [ $# -gt 0 ]; do
    case $1 in
    -h | --help)
        usage
        exit 0
        ;;
    --yes) yes=1 ;;
    --purge) purge=1 ;;
    --timeout | --context)
        [ $# -ge 2 ] || die "$1 wants a value; see --help"
        if [ "$1" = --timeout ]; then timeout=$2; else kubectl+=(--context "$2"); fi
        shift
        ;;
    *) die "what is '$1'? See --help" ;;
    esac
    shift
done
[[ $timeout =~ ^[1-9][0-9]{0,4}$ ]] || die "--timeout is '$timeout', not a number of seconds up to 99999"

k() { "${kubectl[@]}" "$@"; }

# Whether a kind that is no built-in one is known.
is_known() { [ -n "$(k get customresourcedefinitions "$1" --ignore-not-found -o name)" ]; }

# Names of what is there of a kind of Cleave's, a line each; nothing where the kind is not known.
names() { if is_known "$1"; then k get "$1" -o name; fi; }

readonly unreachable='(kubectl fails)'

# Waits until the command succeeds and prints nothing: what is waited for, command... It fails when the time is over.
wait_none() {
    local what=$1 end=$((SECONDS + timeout)) left
    shift
    left=$("$@") || left=$unreachable
    [ -n "$left" ] || return 0
    say "waiting for $what, up to $timeout s"
    while [ -n "$left" ]; do
        [ "$SECONDS" -lt "$end" ] || return 1
        sleep 1
        left=$("$@") || left=$unreachable
    done
}

# An API server that ends between the acceptance of a definition's names and its being Established leaves it so until somebody writes
# to it: its objects are served, but kubectl finds no such kind.
# shellcheck disable=SC2016 # the template's variables
readonly not_established='{{range .items}}{{$is := .metadata.deletionTimestamp}}{{range .status.conditions}}
{{- if and (eq .type "Established") (eq .status "True")}}{{$is = "yes"}}{{end}}{{end}}{{if not $is}}{{.metadata.name}}{{"\n"}}{{end}}{{end}}'
establish_definitions() {
    local list stuck
    list=$(k get customresourcedefinitions -l "$part" -o "go-template=$not_established")
    [ -n "$list" ] || return 0
    mapfile -t stuck <<<"$list"
    say "not Established, which a write to them mends: ${stuck[*]}"
    k annotate customresourcedefinitions "${stuck[@]}" --overwrite gpu.cleave.dev/written-to=yes >/dev/null
    k annotate customresourcedefinitions "${stuck[@]}" gpu.cleave.dev/written-to- >/dev/null
    k wait customresourcedefinitions "${stuck[@]}" --for=condition=Established --timeout="${timeout}s" >/dev/null
}

# --- What is there ---

# What goes at the end: the policies after those whom they hold, the rights after those who need them.
readonly monitors=(servicemonitors podmonitors prometheusrules)
rest() {
    local known policies
    # Kubernetes has mutating ones from 1.36 on; the bindings come first.
    policies=$(k api-resources --api-group=admissionregistration.k8s.io --no-headers -o name) || return
    policies=$(grep -o '^\(mutating\|validating\)admissionpolic[a-z]*' <<<"$policies" | sort -r | tr '\n' ',')
    known=$(k get customresourcedefinitions "${monitors[@]/%/.monitoring.coreos.com}" --ignore-not-found -o name) || return
    known=${known//customresourcedefinition.apiextensions.k8s.io\//}
    printf '%s,' mutatingwebhookconfigurations poddisruptionbudgets services networkpolicies resourcequotas configmaps secrets
    [ -z "$known" ] || printf '%s,' "${known//$'\n'/,}"
    printf '%s' rolebindings,roles,clusterrolebindings,clusterroles,serviceaccounts, "$policies" namespaces
}

# "kind|namespace|name" of all objects of these kinds, with commas, that are Cleave's. A call of kubectl takes a third of a second:
# one for all of them.
ours() { k get "$1" -A -l "$part" -o 'jsonpath={range .items[*]}{.kind}{"|"}{.metadata.namespace}{"|"}{.metadata.name}{"\n"}{end}'; }

devices() { names devices.gpu.cleave.dev; }

# The namespaces in which our programs have rights. Whoever may create pods elsewhere may give them our labels, so what waits for pods
# or Leases asks here.
# shellcheck disable=SC2016 # the template's variables
readonly accounts='{{range .items}}{{range .subjects}}{{if eq .kind "ServiceAccount"}}{{.namespace}} {{.name}}{{"\n"}}{{end}}{{end}}{{end}}'
namespaces() {
    k get clusterrolebindings -l "$part" -o "go-template=$accounts" | awk '$2 ~ /^(.*-)?cleave-(agent|controller|scheduler)(-.*)?$/ {print $1}' | sort -u
}

# Runs a command for each of them: command...
in_namespaces() {
    local ns list
    list=$(namespaces) || return 1
    for ns in $list; do
        "$@" -n "$ns" || return 1
    done
}

agent_pods() { in_namespaces k get pods -l "$part,app.kubernetes.io/component in (agent, agent-slots, agent-other)" -o 'jsonpath={range .items[*]}{.metadata.name}{" on "}{.spec.nodeName}{"\n"}{end}'; }
readonly of_scheduler='app.kubernetes.io/component in (scheduler, webhook-certificate)'
scheduler_pods() { in_namespaces k get pods -l "$part,$of_scheduler" -o name; }
controller_pods() { in_namespaces k get pods -l "$part,app.kubernetes.io/component=controller" -o name; }

# "node kind key" of each label, annotation, resource and taint that the controller owns on a Node and that is there, as managedFields
# and the taint's key tell. A kubelet may write the managedFields of its own Node, with any characters in a field's name: a name comes
# quoted, and one that is no key is left out. A dot is the name of a whole map.
# shellcheck disable=SC2016 # the template's variables
readonly template='{{range .items}}{{$n := .metadata.name}}
{{- range .spec.taints}}{{if eq .key "gpu.cleave.dev/unhealthy"}}{{$n}} taint "f:{{.key}}"{{"\n"}}{{end}}{{end}}
{{- range $k, $v := .metadata.labels}}{{$n}} has-label {{printf "%q" $k}}{{"\n"}}{{end}}
{{- range $k, $v := .metadata.annotations}}{{$n}} has-annotation {{printf "%q" $k}}{{"\n"}}{{end}}
{{- range $k, $v := .status.capacity}}{{$n}} has-resource {{printf "%q" $k}}{{"\n"}}{{end}}
{{- range $k, $v := .status.allocatable}}{{$n}} has-resource {{printf "%q" $k}}{{"\n"}}{{end}}
{{- range .metadata.managedFields}}{{if or (eq .manager "cleave-controller-node") (eq .manager "cleave-controller-node-cards")}}
{{- with index .fieldsV1 "f:metadata"}}{{with index . "f:labels"}}{{range $k, $v := .}}{{$n}} label {{printf "%q" $k}}{{"\n"}}{{end}}{{end}}
{{- with index . "f:annotations"}}{{range $k, $v := .}}{{$n}} annotation {{printf "%q" $k}}{{"\n"}}{{end}}{{end}}{{end}}
{{- with index .fieldsV1 "f:status"}}{{with index . "f:capacity"}}{{range $k, $v := .}}{{$n}} resource {{printf "%q" $k}}{{"\n"}}{{end}}{{end}}
{{- with index . "f:allocatable"}}{{range $k, $v := .}}{{$n}} resource {{printf "%q" $k}}{{"\n"}}{{end}}{{end}}{{end}}
{{- end}}{{end}}{{end}}'
on_nodes() {
    k get nodes --show-managed-fields -o "go-template=$template" | awk '
        NF != 3 || $3 !~ /^"(f:)?[A-Za-z0-9._\/-]+"$/ { next }
        { key = $3; gsub(/^"(f:)?|"$/, "", key) }
        $2 ~ /^has-/ { there[$1 " " substr($2, 5) " " key] = 1; next }
        $2 == "taint" || ($1 " " $2 " " key) in there { print $1, $2, key }' | sort -u
}

ask() {
    local count
    count=$(devices | wc -l)
    say "This deletes from the cluster $("${kubectl[@]}" config current-context 2>/dev/null || echo '(no context)'):"
    ours namespaces,deployments,daemonsets | awk -F'|' '{print "  " tolower($1) ($2 == "" ? "" : " " $2) " " $3}'
    local others
    # The name of a Role may have any characters, also ends of lines and what moves a terminal.
    others=$(ours "$last_kinds" | awk -F'|' '
        NF != 3 || $1 !~ /^[A-Za-z]+$/ || $1 == "Namespace" {next}
        !($1 in count) {order[++n] = $1}
        {count[$1]++}
        END {for (i = 1; i <= n; i++) {kind = order[i]; sub(/y$/, "ie", kind); printf "%s%d %ss", (i == 1 ? "" : ", "), count[order[i]], kind}}')
    [ -z "$others" ] || say "  of the same label: $others"
    say "  $count Devices, and the labels, resources and taints that they are the reason for"
    if [ -n "$purge" ]; then
        say "  $(names gpuprofiles.gpu.cleave.dev | wc -l) GPUProfiles and $(names migconfigs.gpu.cleave.dev | wc -l) MIGConfigs"
    fi
    say "A namespace goes with all that is in it."
    [ -z "$yes" ] || return 0
    [ -t 0 ] || die "nobody is here to ask; --yes goes on without asking"
    local answer
    read -rp 'Go on? [y/N] ' answer
    [[ $answer == [yY]* ]] || die "nothing was deleted"
}

# --- What is deleted in a known order ---

# shellcheck disable=SC2016 # the template's variables
readonly manifests='{{range .items}}---
apiVersion: {{.apiVersion}}
kind: {{.kind}}
metadata: {name: {{printf "%q" .metadata.name}}{{with .metadata.namespace}}, namespace: {{printf "%q" .}}{{end}}}
{{end}}'
delete_ours() { # kinds with commas, which go in this order; one more label, or none
    local there
    there=$(k get "$1" -A -l "$part${2:+,$2}" -o "go-template=$manifests")
    [ -z "$there" ] || k delete -f - --ignore-not-found --wait=false <<<"$there"
}

# --- The scheduler, whose annotation of Nodes nobody else takes off ---

# shellcheck disable=SC2016 # the template's variables
readonly with_room='{{range .items}}{{$n := .metadata.name}}{{with .metadata.annotations}}{{if index . "gpu.cleave.dev/room"}}{{$n}}{{"\n"}}{{end}}{{end}}{{end}}'
remove_scheduler() {
    # config/scheduler-webhook or -defaults, which send pods to a scheduler that will not be there. The kinds of the latter are known from
    # Kubernetes 1.36 on.
    local defaults
    defaults=$(k api-resources --api-group=admissionregistration.k8s.io -o name | awk '/^mutating(admissionpolic|webhookconf)/ {printf "%s%s", n++ ? "," : "", $0}')
    delete_ours "$defaults"
    delete_ours deployments "$of_scheduler"
    wait_none "the scheduler's pods to end" scheduler_pods || say "pods of the scheduler do not end; they can do nothing once their rights are gone"
    k get nodes -o "go-template=$with_room" | xargs -r -n 100 sh -c '"$@" gpu.cleave.dev/room-' sh "${kubectl[@]}" annotate node >/dev/null
}

# --- Then the agents: each would make its Device again ---

remove_agents() {
    delete_ours daemonsets
    wait_none "the agents' pods to end" agent_pods && return
    say "these agents do not end; their nodes are down, or cannot end pods:"
    agent_pods | sed 's/^/  /'
    die "let these nodes come back, or delete them; then run this again"
}

# --- Devices: the controller takes off the Nodes what it has put there ---

# The holder of the Lease renews it every few seconds. Clocks are not compared, only two looks.
leases() { in_namespaces k get leases.coordination.k8s.io --field-selector metadata.name=cleave-controller -o 'jsonpath={range .items[*]}{.spec.holderIdentity}{.spec.renewTime}{"\n"}{end}'; }
controller_lives() {
    local before end=$((SECONDS + 20))
    before=$(leases)
    [ -n "$before" ] || return 1
    say "looking whether the controller works: waiting for it to renew its Lease, up to 20 s"
    while [ "$SECONDS" -lt "$end" ]; do
        sleep 1
        [ "$(leases)" = "$before" ] || return 0
    done
    return 1
}

remove_devices() {
    [ -z "$(devices)" ] || k delete devices.gpu.cleave.dev --all --wait=false >/dev/null
    wait_none "the Devices to be gone" devices || die "these Devices stay: $(devices | tr '\n' ' ')"
}

# --- Without a controller ---

# Merge patches that remove what on_nodes names, a line each: up to 100 Nodes with commas, which part of them, patch. Nodes from
# which the same goes share a patch: kubectl takes a third of a second to start, and some clusters have thousands of them.
patches() {
    awk '
        function add(list, key) { return list (list == "" ? "" : ", ") "\"" key "\": null" }
        function put(patch) {
            nodes[patch] = nodes[patch] (nodes[patch] == "" ? "" : ",") node
            if (++count[patch] % 100 == 0) { print nodes[patch], patch; nodes[patch] = "" }
        }
        function flush() {
            if (node == "") return
            if (l != "" || a != "") put("metadata {\"metadata\": {\"labels\": {" l "}, \"annotations\": {" a "}}}")
            if (r != "") put("status {\"status\": {\"capacity\": {" r "}, \"allocatable\": {" r "}}}")
        }
        $1 != node { flush(); node = $1; l = a = r = "" }
        $2 == "label" { l = add(l, $3) }
        $2 == "annotation" { a = add(a, $3) }
        $2 == "resource" { r = add(r, $3) }
        END { flush(); for (patch in nodes) if (nodes[patch] != "") print nodes[patch], patch }'
}

clean_nodes() {
    local left names nodes what patch
    left=$(on_nodes)
    [ -n "$left" ] || return 0
    say "taking it off $(cut -d' ' -f1 <<<"$left" | sort -u | wc -l) Nodes with kubectl"
    while read -r names what patch; do
        IFS=, read -ra nodes <<<"$names"
        if [ "$what" = status ]; then
            k patch node "${nodes[@]}" --subresource=status --type=merge -p "$patch" >/dev/null
        else
            k patch node "${nodes[@]}" --type=merge -p "$patch" >/dev/null
        fi
    done < <(patches <<<"$left")
    awk '$2 == "taint" {print $1}' <<<"$left" | sort -u | xargs -r -n 100 sh -c '"$@" gpu.cleave.dev/unhealthy-' sh "${kubectl[@]}" taint node >/dev/null
    left=$(on_nodes)
    [ -z "$left" ] || die "this is still on Nodes: $left"
}

remove_controller() {
    delete_ours deployments
    wait_none "the controller's pods to end" controller_pods && return
    say "these pods of the controller do not end; they can do nothing once their rights are gone:"
    controller_pods | sed 's/^/  /'
}

# --- The rest ---

remove_rest() {
    in_namespaces k delete leases.coordination.k8s.io cleave-controller cleave-scheduler --ignore-not-found >/dev/null
    [ -z "$(names leaders.gpu.cleave.dev)" ] || k delete leaders.gpu.cleave.dev --all >/dev/null
    delete_ours "$last_kinds"
    wait_none "the namespaces to be gone" ours namespaces ||
        die "these namespaces do not end: $(ours namespaces | sed 's/.*|//' | tr '\n' ' '); kubectl get namespace NAME -o yaml says why"
}

remove_peoples() {
    local kind
    for kind in gpuprofiles migconfigs; do
        [ -z "$(names "$kind.gpu.cleave.dev")" ] || k delete "$kind.gpu.cleave.dev" --all
    done
    k label nodes --all nvidia.com/mig.config- >/dev/null
    k delete customresourcedefinitions -l "$part" --ignore-not-found --timeout="${timeout}s"
}

k get nodes -o name >/dev/null || die "kubectl does not reach the cluster"
establish_definitions
last_kinds=$(rest)
readonly last_kinds
if [ -z "$(ours "deployments,daemonsets,$last_kinds")$(devices)$(on_nodes)" ] && { [ -z "$purge" ] || [ -z "$(ours customresourcedefinitions)" ]; }; then
    say "nothing of Cleave is here"
    exit 0
fi
ask
charts=$(k get deployments,daemonsets -A -l "$part,app.kubernetes.io/managed-by=Helm" -o 'jsonpath={range .items[*]}{.metadata.annotations.meta\.helm\.sh/release-name}{" -n "}{.metadata.annotations.meta\.helm\.sh/release-namespace}{"\n"}{end}' | { grep -E '^[a-z0-9][a-z0-9.-]* -n [a-z0-9-]+$' || true; } | sort -u)
lives=1
controller_lives || lives=''
remove_scheduler
remove_agents
[ -n "$lives" ] || {
    say "no controller works here: its part is done from here"
    remove_controller
}
remove_devices
if [ -n "$lives" ]; then
    wait_none "the controller to take its labels, resources and taints off the Nodes" on_nodes || {
        say "the controller does not end with it: that is done from here"
        lives=''
    }
    remove_controller
fi
clean_nodes
[ -z "$purge" ] || remove_peoples
remove_rest
say "Cleave is gone.${purge:+ So is what people wrote for it.} On the nodes' disks /var/lib/cleave and /var/run/cdi/gpu.cleave.dev-*.json stay, and may be removed."
[ -z "$charts" ] || say "Helm's record of the release stays until: helm uninstall ${charts//$'\n'/; helm uninstall }"
