#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Starts etcd and kube-apiserver on loopback, as any user, with their state in RUNDIR.
#
#   hack/kube/up.sh RUNDIR [--with-kcm] [--with-scheduler] [--no-audit] [--instance N] [--in-cluster]
#                   [--admission-config FILE]
#
# The ports are free ones, chosen at start: any number of control planes can run side by side.
# What already runs in RUNDIR is left as it is. Returns when all of them answer.
#
#   --with-kcm         kube-controller-manager too (garbage collection, ServiceAccounts, DaemonSets);
#                      nodes without a kubelet stay Ready: it trusts a heartbeat for 24 hours
#   --with-scheduler   kube-scheduler too
#   --no-audit         no audit log, for measurements
#   --instance N       service addresses from 10.(96+N).0.0/16 instead of 10.96.0.0/16
#   --in-cluster       the API server listens on port 443 of all addresses: pods reach it at its
#                      service address without a kube-proxy, where that is an interface's; for a
#                      network namespace of its own (hack/kube/node-up.sh)
#   --admission-config FILE
#                      an AdmissionConfiguration, as kube-apiserver's --admission-control-config-file
#
# RUNDIR holds admin.kubeconfig, server (the URL), ports (of etcd, its peers, the API server, the
# controller manager and the scheduler), audit.log, and NAME.log and NAME.pid of
# each process. Tokens are bound by NodeRestriction and RBAC as in a real cluster; TokenRequest,
# CRDs and ValidatingAdmissionPolicies work. hack/kube/down.sh RUNDIR stops it.
set -euo pipefail
. "$(dirname "$0")/lib.sh"

RUNDIR=
with_kcm=
with_scheduler=
audit=yes
instance=0
in_cluster=
admission_config=
while [ $# -gt 0 ]; do
    case "$1" in
    --with-kcm) with_kcm=yes ;;
    --with-scheduler) with_scheduler=yes ;;
    --no-audit) audit= ;;
    --in-cluster) in_cluster=yes ;;
    --admission-config)
        [ -f "${2:-}" ] || die "--admission-config wants a file"
        admission_config=$(realpath "$2")
        shift
        ;;
    --instance)
        [[ "${2:-}" =~ ^[0-9]+$ ]] && [ "$2" -lt 100 ] || die "--instance wants a number below 100"
        instance=$2
        shift
        ;;
    *) take_rundir "$1" ;;
    esac
    shift
done
[ -n "$RUNDIR" ] || die "which RUNDIR? see --help"

mkdir -p "$RUNDIR"
RUNDIR=$(cd "$RUNDIR" && pwd)
chmod 700 "$RUNDIR"
bin=$("$KUBE_HERE/bin.sh") || die "no control plane here yet; hack/kube/build.sh builds one"
for tool in ${with_kcm:+kube-controller-manager} ${with_scheduler:+kube-scheduler}; do
    [ -x "$bin/$tool" ] || die "$bin has no $tool (unset KUBEBUILDER_ASSETS to build a complete set)"
done

# Ports below the ephemeral range, so that no outgoing connection takes one meanwhile. Another
# control plane may still be faster: start_servers then runs again with others.
choose_ports() {
    python3 - <<'PY'
import random, socket
held = []
while len(held) < 5:
    s = socket.socket()
    try:
        s.bind(("127.0.0.1", random.randrange(18000, 32000)))
    except OSError:
        continue
    held.append(s)
ports = [s.getsockname()[1] for s in held]
for s in held: # before anybody can read the ports: etcd may be quicker than this program's end
    s.close()
print(*ports)
PY
}

make_secrets() {
    (
        umask 077
        [ -s "$RUNDIR/sa.key" ] || openssl genrsa -out "$RUNDIR/sa.key" 2048 2>/dev/null
        [ -s "$RUNDIR/sa.pub" ] || openssl rsa -in "$RUNDIR/sa.key" -pubout -out "$RUNDIR/sa.pub" 2>/dev/null
        # Signs the certificates that hack/kube/client-cert.sh makes.
        [ -s "$RUNDIR/client-ca.crt" ] || openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes \
            -days 3650 -subj /CN=cleave-clients -keyout "$RUNDIR/client-ca.key" -out "$RUNDIR/client-ca.crt" 2>/dev/null
        [ ! -s "$RUNDIR/tokens.csv" ] || return 0
        # The API server reads this file once, at start.
        {
            printf '%s,admin,admin,"system:masters"\n' "$(openssl rand -hex 16)"
            printf '%s,system:kube-controller-manager,kcm\n' "$(openssl rand -hex 16)"
            printf '%s,system:kube-scheduler,scheduler\n' "$(openssl rand -hex 16)"
        } >"$RUNDIR/tokens.csv"
    )
}

token_of() { awk -F, -v uid="$1" '$3 == uid {print $1}' "$RUNDIR/tokens.csv"; }

start_etcd() {
    local client=http://127.0.0.1:$etcd_port peer=http://127.0.0.1:$peer_port
    spawn "$RUNDIR" etcd "$bin/etcd" --name cleave --data-dir "$RUNDIR/etcd" --unsafe-no-fsync \
        --listen-client-urls "$client" --advertise-client-urls "$client" \
        --listen-peer-urls "$peer" --initial-advertise-peer-urls "$peer" \
        --initial-cluster "cleave=$peer" --quota-backend-bytes 8589934592 --log-level warn
}

# A certificate that the API server makes for itself has an RSA key, which costs it a millisecond for each connection, and
# each kubectl makes one. Tests set clocks back, so this certificate is valid since long ago; of openssl's commands only
# "ca" can say that.
make_certificate() {
    local name=$RUNDIR/certs/apiserver
    rm -rf "$RUNDIR/certs"
    mkdir -p "$RUNDIR/certs/index"
    : >"$name.txt"
    {
        openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout "$name.key" -out "$name.csr" -subj /CN=cleave-kube-apiserver \
            -addext "subjectAltName=DNS:kubernetes.default.svc,DNS:kubernetes.default,DNS:kubernetes,DNS:localhost,IP:127.0.0.1,IP:10.$((96 + instance)).0.1" \
            -addext basicConstraints=critical,CA:true -addext keyUsage=critical,digitalSignature,keyCertSign
        openssl ca -batch -notext -selfsign -keyfile "$name.key" -in "$name.csr" -out "$name.crt" -startdate 20250101000000Z -days 3650 -config <(
            printf '%s\n' [ca] default_ca=own [own] "database=$name.txt" "new_certs_dir=$RUNDIR/certs/index" rand_serial=yes default_md=sha256 \
                policy=any copy_extensions=copy [any] commonName=supplied
        )
    } 2>"$RUNDIR/certificate.log" || die "could not make the API server's certificate: $(tail -n 3 "$RUNDIR/certificate.log")"
}

start_apiserver() {
    local flags=() address=127.0.0.1
    [ -z "$audit" ] || flags=(--audit-policy-file "$KUBE_HERE/audit.yaml"
        --audit-log-path "$RUNDIR/audit.log" --audit-log-maxsize 2000)
    [ -z "$admission_config" ] || flags+=(--admission-control-config-file "$admission_config")
    # No kube-proxy leads from a Service's address to its pods: a webhook is asked at the pods' own.
    [ -z "$in_cluster" ] || flags+=(--enable-aggregator-routing)
    [ -z "$in_cluster" ] || address=0.0.0.0
    spawn "$RUNDIR" kube-apiserver "$bin/kube-apiserver" --etcd-servers "http://127.0.0.1:$etcd_port" \
        --bind-address "$address" --advertise-address 127.0.0.1 --secure-port "$api_port" \
        --cert-dir "$RUNDIR/certs" --endpoint-reconciler-type none --shutdown-delay-duration 0s \
        --service-cluster-ip-range "10.$((96 + instance)).0.0/16" \
        --service-account-issuer https://kubernetes.default.svc \
        --service-account-key-file "$RUNDIR/sa.pub" --service-account-signing-key-file "$RUNDIR/sa.key" \
        --token-auth-file "$RUNDIR/tokens.csv" --client-ca-file "$RUNDIR/client-ca.crt" --authorization-mode Node,RBAC \
        --enable-admission-plugins NodeRestriction --allow-privileged \
        --kubelet-preferred-address-types InternalIP --profiling=false --v 1 "${flags[@]}"
}

api() { # path, curl arguments...
    local path=$1
    shift
    curl -sf --max-time 5 --cacert "$RUNDIR/certs/apiserver.crt" -H @"$RUNDIR/admin.header" "$@" \
        "https://127.0.0.1:$api_port$path"
}

port_was_taken() { grep -qs 'address already in use' "$RUNDIR/etcd.log" "$RUNDIR/kube-apiserver.log"; }

start_servers() {
    read -r etcd_port peer_port api_port kcm_port scheduler_port < <(choose_ports)
    [ -z "$in_cluster" ] || api_port=443
    start_etcd
    make_certificate
    start_apiserver
    wait_until 30 "$RUNDIR" etcd "it answered" curl -sf --max-time 5 "http://127.0.0.1:$etcd_port/health" || return
    wait_until 90 "$RUNDIR" kube-apiserver "the API server was ready" api /readyz
}

# Pods are refused until their namespace has this one, and the controller manager takes 5 s.
default_service_account() {
    api /api/v1/namespaces/default/serviceaccounts/default ||
        api /api/v1/namespaces/default/serviceaccounts -H 'Content-Type: application/json' \
            -d '{"apiVersion":"v1","kind":"ServiceAccount","metadata":{"name":"default"}}'
}

start_kcm() {
    spawn "$RUNDIR" kube-controller-manager "$bin/kube-controller-manager" \
        --kubeconfig "$RUNDIR/kcm.kubeconfig" --authentication-kubeconfig "$RUNDIR/kcm.kubeconfig" \
        --authorization-kubeconfig "$RUNDIR/kcm.kubeconfig" --bind-address 127.0.0.1 \
        --secure-port "$kcm_port" --cert-dir "$RUNDIR/certs-kcm" --leader-elect=false \
        --use-service-account-credentials --service-account-private-key-file "$RUNDIR/sa.key" \
        --root-ca-file "$RUNDIR/certs/apiserver.crt" --node-monitor-grace-period 24h --profiling=false
}

start_scheduler() {
    spawn "$RUNDIR" kube-scheduler "$bin/kube-scheduler" \
        --kubeconfig "$RUNDIR/scheduler.kubeconfig" --authentication-kubeconfig "$RUNDIR/scheduler.kubeconfig" \
        --authorization-kubeconfig "$RUNDIR/scheduler.kubeconfig" --bind-address 127.0.0.1 \
        --secure-port "$scheduler_port" --cert-dir "$RUNDIR/certs-scheduler" --leader-elect=false --profiling=false
}

healthy() { curl -skf --max-time 5 "https://127.0.0.1:$1/healthz"; }

start_control_plane() {
    local attempt user
    make_secrets
    (umask 077 && printf 'Authorization: Bearer %s\n' "$(token_of admin)" >"$RUNDIR/admin.header")
    printf '%s\n' "$bin" >"$RUNDIR/bin-dir"
    for attempt in 1 2 3; do
        ! start_servers || break
        port_was_taken && [ "$attempt" -lt 3 ] || die "the control plane did not start"
        say "a port was taken meanwhile; trying others"
        "$KUBE_HERE/down.sh" "$RUNDIR"
    done
    printf 'https://127.0.0.1:%s\n' "$api_port" >"$RUNDIR/server"
    printf '%s ' "$etcd_port" "$peer_port" "$api_port" "$kcm_port" "$scheduler_port" >"$RUNDIR/ports"
    for user in admin kcm scheduler; do
        write_kubeconfig "$RUNDIR/$user.kubeconfig" "$(cat "$RUNDIR/server")" "$RUNDIR/certs/apiserver.crt" \
            "$user" "token: \"$(token_of "$user")\""
    done
    wait_until 30 "$RUNDIR" kube-apiserver "the default ServiceAccount could be made" default_service_account
    say "Control plane: $(cat "$RUNDIR/server") ready after $(elapsed); KUBECONFIG=$RUNDIR/admin.kubeconfig"
}

started=$(date +%s%N)
elapsed() { awk -v from="$started" -v to="$(date +%s%N)" 'BEGIN {printf "%.1f s", (to - from) / 1e9}'; }

if is_running "$RUNDIR" kube-apiserver && is_running "$RUNDIR" etcd; then
    say "Control plane: already running at $(cat "$RUNDIR/server")"
    read -r etcd_port peer_port api_port kcm_port scheduler_port <"$RUNDIR/ports" || true
else
    "$KUBE_HERE/down.sh" "$RUNDIR" # what is left where one of them has died
    trap 'rc=$?; [ "$rc" = 0 ] || "$KUBE_HERE/down.sh" "$RUNDIR"' EXIT
    start_control_plane
fi

! is_running "$RUNDIR" kube-controller-manager || with_kcm=
! is_running "$RUNDIR" kube-scheduler || with_scheduler=
[ -z "$with_kcm" ] || start_kcm
[ -z "$with_scheduler" ] || start_scheduler
[ -z "$with_kcm" ] || wait_until 60 "$RUNDIR" kube-controller-manager "it was healthy" healthy "$kcm_port"
[ -z "$with_scheduler" ] || wait_until 60 "$RUNDIR" kube-scheduler "it was healthy" healthy "$scheduler_port"
[ -z "$with_kcm$with_scheduler" ] || say "Control plane: complete after $(elapsed)"
