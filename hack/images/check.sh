#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds the images from config/images/Containerfile, as operators do where `make images` cannot run, starts each program in its image,
# and compares the names of its files with those of build/images: Debian may have newer packages than this machine. The base is made
# of Debian's packages by mmdebstrap, so that no registry is asked. Needs root, and some minutes; `make images` first.
#
#   hack/images/check.sh
set -euo pipefail
cd "$(dirname "$0")/../.."

case "${1:-}" in -h | --help)
    awk 'NR <= 2 {next} !/^#/ {exit} {sub(/^# ?/, ""); print}' "$0"
    exit 0
    ;;
esac

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
buildah() { command buildah --root "$work/storage" --runroot "$work/run" --storage-driver vfs "$@"; }

base=$(awk '$1 == "FROM" {print $2; exit}' config/images/Containerfile)
mmdebstrap --quiet --variant=minbase --include=ca-certificates bookworm "$work/base.tar"
container=$(buildah from scratch)
buildah add --quiet "$container" "$work/base.tar" / >/dev/null
buildah commit --quiet "$container" "$base" >/dev/null
buildah rm "$container" >/dev/null
printf 'Base %s: made of Debian packages\n' "$base"

different=0
mapfile -t images < <(awk '$1 == "FROM" && $2 == "scratch" {print $4}' config/images/Containerfile)
for image in "${images[@]}"; do
    buildah bud --quiet --pull-never --isolation chroot --layers --file config/images/Containerfile \
        --build-arg VERSION="$(git describe --tags --always --dirty)" --target "$image" --tag "$image" . >"$work/$image.log" 2>&1 || {
        tail -n 30 "$work/$image.log" >&2
        exit 1
    }
    container=$(buildah from --pull-never "$image")
    root=$(buildah mount "$container")
    printf '%s: %s\n' "$image" "$(chroot "$root" "/usr/bin/$image" --version)"
    diff <(cd "$root" && find . -mindepth 1 | sort) <(cd "build/images/$image/root" && find . -mindepth 1 | sort) || different=1
    buildah rm "$container" >/dev/null
done
exit "$different"
