#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Makes a client certificate for USER in GROUPs, writes RUNDIR/cert-USER.kubeconfig with it and
# prints the path. As a kubelet of node n1: USER system:node:n1, GROUP system:nodes.
#
#   hack/kube/client-cert.sh RUNDIR USER [GROUP...]
set -euo pipefail
. "$(dirname "$0")/lib.sh"

case "${1:-}" in -h | --help)
    usage
    exit 0
    ;;
esac
[ $# -ge 2 ] || die "wants RUNDIR USER [GROUP...]; see --help"
open_rundir "$1"
[[ "$2" =~ ^[a-z0-9]([a-z0-9.:-]*[a-z0-9])?$ ]] || die "USER '$2' is no lower-case name"
user=$2
shift 2

subject=/CN=$user
for group in "$@"; do
    [[ "$group" =~ ^[a-z0-9.:-]+$ ]] || die "GROUP '$group' is no lower-case name"
    subject=/O=$group$subject
done

files=$RUNDIR/cert-${user//:/-}
umask 077
openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj "$subject" \
    -keyout "$files.key" -out "$files.csr" 2>/dev/null
openssl x509 -req -in "$files.csr" -CA "$RUNDIR/client-ca.crt" -CAkey "$RUNDIR/client-ca.key" \
    -days 30 -set_serial "0x$(openssl rand -hex 8)" \
    -extfile <(echo 'extendedKeyUsage = clientAuth') -out "$files.crt" 2>/dev/null
write_kubeconfig "$files.kubeconfig" "$SERVER" "$RUNDIR/certs/apiserver.crt" "${user//:/-}" \
    "client-certificate-data: $(base64 -w0 <"$files.crt"), client-key-data: $(base64 -w0 <"$files.key")"
printf '%s\n' "$files.kubeconfig"
