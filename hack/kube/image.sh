#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Makes an image of one layer from a folder, without a registry: a file that "ctr images import"
# takes.
#
#   hack/kube/image.sh NAME:TAG OUT.tar FOLDER ENTRYPOINT...
set -euo pipefail
. "$(dirname "$0")/lib.sh"

case "${1:-}" in -h | --help)
    usage
    exit 0
    ;;
esac
[ $# -ge 4 ] || die "wants NAME:TAG OUT.tar FOLDER ENTRYPOINT...; see --help"
name=$1 out=$2 folder=$3
shift 3

parts=$(mktemp -d)
trap 'rm -rf "$parts"' EXIT
case "$(uname -m)" in
x86_64) architecture=amd64 ;;
aarch64) architecture=arm64 ;;
*) architecture=$(uname -m) ;;
esac
entrypoint=
for word in "$@"; do
    entrypoint+=${entrypoint:+, }$(json_string "$word")
done

tar -C "$folder" --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner -cf "$parts/layer.tar" .
digest=$(sha256sum <"$parts/layer.tar" | cut -d' ' -f1)
cat >"$parts/config.json" <<JSON
{"architecture": "$architecture", "os": "linux", "config": {"Entrypoint": [$entrypoint], "Env": ["PATH=/bin"]},
 "rootfs": {"type": "layers", "diff_ids": ["sha256:$digest"]}}
JSON
cat >"$parts/manifest.json" <<JSON
[{"Config": "config.json", "RepoTags": [$(json_string "$name")], "Layers": ["layer.tar"]}]
JSON
tar -C "$parts" -cf "$out" manifest.json config.json layer.tar
