# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash disable=SC2034 # the sourcing scripts use what is set here
# What the scripts of hack/ share. Source it; it changes nothing by itself.

KUBE_HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

# Koordinator 1.8 asks for Go 1.25, Kubernetes 1.36 for Go 1.26; a Go that is fetched is this one.
GO_NEEDED=1.25
GO_FETCHED=1.25.9
[ -z "${KUBE_VERSION:-}" ] || GO_NEEDED=1.26 GO_FETCHED=1.26.11

say() { printf '%s\n' "$*" >&2; }

die() {
    printf '%s: %s\n' "${0##*/}" "$*" >&2
    exit 1
}

usage() { # prints the comment block that opens the calling script
    awk 'NR <= 2 {next} !/^#/ {exit} {sub(/^# ?/, ""); print}' "$0"
}

# For scripts without arguments of their own.
no_arguments() { # "$@"
    case "${1:-}" in
    '') ;;
    -h | --help)
        usage
        exit 0
        ;;
    *) die "unknown argument '$1'; see --help" ;;
    esac
}

# What all scripts about a RUNDIR take: sets RUNDIR.
take_rundir() { # argument
    case "$1" in
    -h | --help)
        usage
        exit 0
        ;;
    -*) die "unknown option '$1'; see --help" ;;
    *)
        [ -z "$RUNDIR" ] || die "one RUNDIR, please; see --help"
        RUNDIR=$1
        ;;
    esac
}

# The Kubernetes that is built and run is the one of program/go.mod. KUBE_VERSION, in the
# environment, names another: that of program/KUBE_VERSION.mod.
KUBE_MODULES=$KUBE_HERE/program/${KUBE_VERSION:-go}
[ -f "$KUBE_MODULES.mod" ] || die "KUBE_VERSION=$KUBE_VERSION: there is no $KUBE_MODULES.mod; unset it, or name one that is there"

cache_dir() { printf '%s\n' "${CLEAVE_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/cleave}"; }

kubernetes_version() { awk '$1 == "k8s.io/kubernetes" {print $2; exit}' "$KUBE_MODULES.mod"; }

# Without the version stamps clients would see v0.0.0 and refuse features.
kube_ldflags() {
    local version minor package flags="-s -w"
    version=$(kubernetes_version)
    minor=${version#v1.}
    for package in k8s.io/component-base/version k8s.io/client-go/pkg/version; do
        flags+=" -X $package.gitVersion=$version -X $package.gitMajor=1 -X $package.gitMinor=${minor%%.*}"
        flags+=" -X $package.gitTreeState=clean -X $package.gitCommit=module"
        flags+=" -X $package.buildDate=1970-01-01T00:00:00Z"
    done
    printf '%s\n' "$flags"
}

containerd_version() { awk '$1 == "require" && $2 == "github.com/containerd/containerd/v2" {print $3; exit}' "$KUBE_HERE/containerd/go.mod"; }

containerd_ldflags() {
    local package=github.com/containerd/containerd/v2
    printf '%s\n' "-s -w -X $package/version.Version=$(containerd_version) -X $package/version.Package=$package -X $package/version.Revision=module"
}

# Without the snapshotters that need C libraries.
CONTAINERD_TAGS="no_btrfs no_devmapper no_zfs no_tracing"

containerd_cache_dir() {
    local hash
    hash=$({ cat "$KUBE_HERE"/containerd/go.{mod,sum} && containerd_ldflags && echo "$CONTAINERD_TAGS"; } | sha256sum)
    printf '%s/containerd-%s\n' "$(cache_dir)" "${hash:0:12}"
}

koordinator_version() { awk '$1 == "github.com/koordinator-sh/koordinator" {print $2; exit}' "$KUBE_HERE/koordinator/go.mod"; }

koordinator_cache_dir() {
    local hash
    hash=$(cat "$KUBE_HERE"/koordinator/go.{mod,sum} | sha256sum)
    printf '%s/koordinator-%s\n' "$(cache_dir)" "${hash:0:12}"
}

helm_version() { awk '$1 == "helm.sh/helm/v3" {print $2; exit}' "$KUBE_HERE/helm/go.mod"; }

# Without a cluster Helm takes the version of its Kubernetes libraries for the cluster's; it has to be told which.
helm_ldflags() {
    local package minor flags
    minor=$(awk '$1 == "k8s.io/client-go" {split($2, part, "."); print part[2]; exit}' "$KUBE_HERE/helm/go.mod")
    flags="-s -w -X helm.sh/helm/v3/internal/version.version=$(helm_version)"
    for package in chartutil lint/rules; do
        flags+=" -X helm.sh/helm/v3/pkg/$package.k8sVersionMajor=1 -X helm.sh/helm/v3/pkg/$package.k8sVersionMinor=$minor"
    done
    printf '%s\n' "$flags"
}

helm_cache_dir() {
    local hash
    hash=$({ cat "$KUBE_HERE"/helm/go.{mod,sum} && helm_ldflags; } | sha256sum)
    printf '%s/helm-%s\n' "$(cache_dir)" "${hash:0:12}"
}

# A new version, module or flag makes a new folder; a change of a script does not.
kube_cache_dir() {
    local hash
    hash=$({ cat "$KUBE_HERE/program/main.go" "$KUBE_MODULES".{mod,sum} && kube_ldflags; } | sha256sum)
    printf '%s/kube-%s\n' "$(cache_dir)" "${hash:0:12}"
}

# progress TITLE LOG [COUNTER] COMMAND...: runs COMMAND with its output in LOG and says every
# ten seconds how long it has taken; COUNTER is a function that prints how far it has come.
# Returns what COMMAND returned, after showing the end of LOG where that is not 0.
# Interrupted, it ends COMMAND and all that it started before the script ends.
progress() {
    local title=$1 log=$2 counter=$3 started=$SECONDS next=10 pid rc=0
    shift 3
    set -m # a process group of its own
    "$@" >"$log" 2>&1 </dev/null &
    pid=$!
    set +m
    # shellcheck disable=SC2064 # the pid is known now
    trap "kill -- -$pid 2>/dev/null; exit 130" INT TERM HUP
    while kill -0 "$pid" 2>/dev/null; do
        sleep 0.2
        if [ $((SECONDS - started)) -ge "$next" ]; then
            say "  $title: $((SECONDS - started)) s$([ -z "$counter" ] || "$counter" "$log")"
            next=$((SECONDS - started + 10))
        fi
    done
    wait "$pid" || rc=$?
    trap - INT TERM HUP
    [ "$rc" = 0 ] || {
        say "$title ended with status $rc; the end of its output:"
        tail -n 25 "$log" >&2
    }
    return "$rc"
}

# The helpers below serve the scripts that take a RUNDIR, the folder of one running control plane.

json_string() { # a JSON string literal of $1
    local s=${1//\\/\\\\}
    printf '"%s"' "${s//\"/\\\"}"
}

# Field 22 of /proc/PID/stat is the start time: with it a pid names one process for good. Nothing
# for a process that has ended, reaped or not. The name in field 2 may hold blanks and brackets.
start_time() { # pid
    sed -n 's/.*) \([^Z]\)/\1/p' "/proc/$1/stat" 2>/dev/null | cut -d' ' -f20
}

# spawn RUNDIR NAME COMMAND...: starts COMMAND away from the terminal, with NAME.log and NAME.pid
spawn() {
    local run=$1 name=$2 pid
    shift 2
    setsid "$@" >"$run/$name.log" 2>&1 </dev/null 9>&- &
    pid=$!
    printf '%s %s\n' "$pid" "$(start_time "$pid")" >"$run/$name.pid"
}

is_running() { # RUNDIR NAME
    local pid started
    [ -f "$1/$2.pid" ] && read -r pid started <"$1/$2.pid" || return 1
    [ -n "$started" ] && [ "$(start_time "$pid")" = "$started" ]
}

# stop RUNDIR NAME TENTHS: TERM, and KILL after that many tenths of a second
stop() {
    local pid tenth
    if is_running "$1" "$2"; then
        read -r pid _ <"$1/$2.pid"
        kill "$pid" 2>/dev/null || true
        for ((tenth = 0; tenth < $3; tenth++)); do
            is_running "$1" "$2" || break
            sleep 0.1
        done
        ! is_running "$1" "$2" || kill -KILL "$pid" 2>/dev/null || true
        while is_running "$1" "$2"; do sleep 0.02; done
    fi
    rm -f "$1/$2.pid"
}

# wait_until SECONDS RUNDIR NAME WHAT COMMAND...: until COMMAND succeeds; ends with the tail of
# NAME.log when the process NAME has ended or the time is over
wait_until() {
    local end=$((SECONDS + $1)) run=$2 name=$3 what=$4
    shift 4
    until "$@" >/dev/null 2>&1; do
        if ! is_running "$run" "$name"; then
            say "$name ended before $what; the end of $run/$name.log:"
            tail -n 20 "$run/$name.log" >&2
            return 1
        fi
        if [ "$SECONDS" -ge "$end" ]; then
            say "waited too long until $what; the end of $run/$name.log:"
            tail -n 20 "$run/$name.log" >&2
            return 1
        fi
        sleep 0.05
    done
}

# write_kubeconfig FILE SERVER CA-FILE USER CREDENTIALS: self-contained, readable for the owner
# only. CREDENTIALS is what stands below "user:", in one line.
write_kubeconfig() {
    (
        umask 077
        cat >"$1.new" <<EOT
apiVersion: v1
kind: Config
current-context: cleave
contexts: [{name: cleave, context: {cluster: cleave, user: $4}}]
clusters:
- name: cleave
  cluster:
    server: $2
    certificate-authority-data: $(base64 -w0 <"$3")
users: [{name: $4, user: {$5}}]
EOT
        mv "$1.new" "$1"
    )
}

# open_rundir DIR: makes RUNDIR absolute and kubectl point at the control plane that runs there
open_rundir() {
    [ -f "$1/admin.kubeconfig" ] || die "no control plane in $1; hack/kube/up.sh $1 starts one"
    RUNDIR=$(cd "$1" && pwd)
    KUBECTL=$(cat "$RUNDIR/bin-dir")/kubectl
    SERVER=$(cat "$RUNDIR/server")
}

# kubectl as the admin of RUNDIR. Discovery is cached per control plane: ports come back, and what they serve differs. The kubeconfig
# is no flag, since kubectl takes none before the name of a plugin.
kubectl() { in_network "$RUNDIR" env KUBECACHEDIR="$RUNDIR/kubectl-cache" KUBECONFIG="$RUNDIR/admin.kubeconfig" "$KUBECTL" "$@"; }

# token_arguments "$@": what pod-token.sh and agent-token.sh begin with: RUNDIR is opened, and
# subject (POD or NAME), namespace and account are set
token_arguments() {
    case "${1:-}" in -h | --help)
        usage
        exit 0
        ;;
    esac
    [ $# = 4 ] || die "wants four arguments, see --help"
    open_rundir "$1"
    subject=$2 namespace=$3 account=$4
}

exists() { kubectl get "$@" >/dev/null 2>&1; }

# pod_token POD USER SPEC: makes the pod where it is missing, with the account and, in SPEC, more
# members of its spec, and writes RUNDIR/USER.kubeconfig with a token that is bound to it. After
# token_arguments.
pod_token() {
    local token
    exists -n "$namespace" pod "$1" || kubectl create -n "$namespace" -f - >/dev/null <<JSON
{"apiVersion": "v1", "kind": "Pod",
 "metadata": {"name": "$1", "labels": {"app.kubernetes.io/name": "$account"}},
 "spec": {"serviceAccountName": "$account", "automountServiceAccountToken": false, $3}}
JSON
    token=$(kubectl create token -n "$namespace" "$account" --duration 24h --bound-object-kind Pod --bound-object-name "$1")
    "$KUBE_HERE/kubeconfig.sh" "$RUNDIR" "$2" "$token"
}

# in_network RUNDIR COMMAND...: in the network namespace of the cluster, where node-up.sh gave it one
in_network() {
    local run=$1 pid
    shift
    if is_running "$run" network; then
        read -r pid _ <"$run/network.pid"
        nsenter -t "$pid" -n -- "$@"
    else
        "$@"
    fi
}
