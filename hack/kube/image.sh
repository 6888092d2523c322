#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Makes an OCI image of one layer from a folder, without a registry: a file that "ctr images import",
# "podman load" and "docker load" take.
#
#   hack/kube/image.sh [OPTION...] NAME:TAG OUT.tar FOLDER ENTRYPOINT...
#
#   --tag NAME:TAG      one more name of the same image
#   --user USER         whom it runs as; root where this is left out
#   --label KEY=VALUE   a label of the image's configuration, and an annotation of its manifest
#   --digest FILE       writes the image's digest there
#   --level N           of gzip, 1 (fast) to 9 (small); 6 where this is left out
#
# The same folder gives the same file: names are sorted, everything is root's, and all times are
# SOURCE_DATE_EPOCH (0 where that is not set). Modes are the folder's, whatever the caller's umask.
set -euo pipefail
. "$(dirname "$0")/lib.sh"

tags=() user='' labels=() digest_file='' level=6
while [ $# -gt 0 ]; do
    case "$1" in
    -h | --help)
        usage
        exit 0
        ;;
    --tag) tags+=("$2") ;;
    --user) user=$2 ;;
    --label) labels+=("$2") ;;
    --digest) digest_file=$2 ;;
    --level) level=$2 ;;
    -*) die "unknown option '$1'; see --help" ;;
    *) break ;;
    esac
    shift 2
done
[ $# -ge 4 ] || die "wants NAME:TAG OUT.tar FOLDER ENTRYPOINT...; see --help"
tags=("$1" "${tags[@]}") out=$2 folder=$3
shift 3
epoch=${SOURCE_DATE_EPOCH:-0}
umask 022 # the archive has the modes of its parts

parts=$(mktemp -d)
trap 'rm -rf "$parts"' EXIT
case "$(uname -m)" in
x86_64) architecture=amd64 ;;
aarch64) architecture=arm64 ;;
*) architecture=$(uname -m) ;;
esac

same_tar() { # FOLDER NAMES...: a tar on standard output that is the same each time
    tar -C "$1" --format=gnu --sort=name --mtime="@$epoch" --owner=0 --group=0 --numeric-owner -cf - "${@:2}"
}

sha256() { sha256sum "$1" | cut -d' ' -f1; }

keep() { # FILE: moves it to the blobs, and prints its digest
    local hash
    hash=$(sha256 "$1")
    mv "$1" "$parts/blobs/sha256/$hash"
    printf '%s\n' "$hash"
}

size_of() { stat -c %s "$parts/blobs/sha256/$1"; }

mkdir -p "$parts/blobs/sha256"
same_tar "$folder" . >"$parts/layer"
diff_id=$(sha256 "$parts/layer")
gzip -n "-$level" <"$parts/layer" >"$parts/layer.gz"
rm "$parts/layer"
layer=$(keep "$parts/layer.gz")

label_object=$(printf '%s\n' "${labels[@]}" | jq -R 'select(. != "") | capture("^(?<key>[^=]+)=(?<value>.*)$")' | jq -cs 'from_entries')
jq -cnS --arg architecture "$architecture" --arg created "$(date -u -d "@$epoch" +%Y-%m-%dT%H:%M:%SZ)" --arg user "$user" \
    --argjson labels "$label_object" --arg diff_id "sha256:$diff_id" '{architecture: $architecture, os: "linux", created: $created,
    config: ({Entrypoint: $ARGS.positional, Env: ["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"]} + (if $user != "" then {User: $user} else {} end)
        + (if $labels != {} then {Labels: $labels} else {} end)),
    rootfs: {type: "layers", diff_ids: [$diff_id]}}' --args -- "$@" >"$parts/config"
config=$(keep "$parts/config")

jq -cnS --arg config "$config" --argjson config_size "$(size_of "$config")" --arg layer "$layer" --argjson layer_size "$(size_of "$layer")" \
    --argjson labels "$label_object" '{schemaVersion: 2, mediaType: "application/vnd.oci.image.manifest.v1+json",
    config: {mediaType: "application/vnd.oci.image.config.v1+json", digest: "sha256:\($config)", size: $config_size},
    layers: [{mediaType: "application/vnd.oci.image.layer.v1.tar+gzip", digest: "sha256:\($layer)", size: $layer_size}]}
    + (if $labels != {} then {annotations: $labels} else {} end)' >"$parts/manifest"
manifest=$(keep "$parts/manifest")

# A manifest is named once for each tag: containerd reads the whole name, others the tag.
jq -cnS --arg manifest "$manifest" --argjson size "$(size_of "$manifest")" --arg architecture "$architecture" \
    '{schemaVersion: 2, mediaType: "application/vnd.oci.image.index.v1+json", manifests: [$ARGS.positional[] as $name |
    {mediaType: "application/vnd.oci.image.manifest.v1+json", digest: "sha256:\($manifest)", size: $size,
     platform: {architecture: $architecture, os: "linux"},
     annotations: {"io.containerd.image.name": $name, "org.opencontainers.image.ref.name": ($name | sub(".*:"; ""))}}]}' \
    --args -- "${tags[@]}" >"$parts/index.json"
# For those that load archives of Docker only.
jq -cnS --arg config "blobs/sha256/$config" --arg layer "blobs/sha256/$layer" \
    '[{Config: $config, RepoTags: $ARGS.positional, Layers: [$layer]}]' --args -- "${tags[@]}" >"$parts/manifest.json"
printf '{"imageLayoutVersion": "1.0.0"}\n' >"$parts/oci-layout"
same_tar "$parts" oci-layout index.json manifest.json blobs >"$out"
[ -z "$digest_file" ] || printf 'sha256:%s\n' "$manifest" >"$digest_file"
