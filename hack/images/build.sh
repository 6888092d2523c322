#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Makes the images of our programs from build/release, into build/images, as root or not:
#
#   hack/images/build.sh [--roots]
#
#   NAME.oci.tar     what "ctr images import" and "podman load" take
#   NAME.digest      the digest of its manifest
#   NAME/root        what is in it
#   NAME/*.debug     the symbols of its programs
#   NAME/NAME.spdx.json
#
# --roots makes the last three only; config/images/Containerfile has the rest done by podman.
# Environment: VERSION, the version and the first tag (git describe); IMAGE_PREFIX, what stands before
# the name (localhost); SOURCE_DATE_EPOCH, the time of all files (the commit's).
set -euo pipefail
cd "$(dirname "$0")/../.."
. hack/kube/lib.sh

roots=
case "${1:-}" in --roots) roots=yes && shift ;; esac
no_arguments "$@"

: "${VERSION:=$(git describe --tags --always --dirty 2>/dev/null || echo unknown)}"
: "${IMAGE_PREFIX:=localhost}"
: "${SOURCE_DATE_EPOCH:=$(git log -1 --format=%ct 2>/dev/null || echo 0)}"
export SOURCE_DATE_EPOCH
revision=$(git rev-parse HEAD 2>/dev/null || echo unknown)
# A tag takes fewer characters than a version may have.
tag=${VERSION//[^A-Za-z0-9_.-]/-}

image() { # NAME TITLE [--for-drivers] [--limiter LIBRARY]... [--with PROGRAM]... [options of image.sh]
    local name=$1 title=$2 folder=build/images/$1 packing=() also=()
    shift 2
    [ "${1:-}" != --for-drivers ] || { packing+=("$1") && shift; }
    while [ "${1:-}" = --limiter ]; do packing+=("$1" "$2") && shift 2; done
    while [ "${1:-}" = --with ]; do also+=("$2") && shift 2; done
    hack/images/root.py "${packing[@]}" --version "$VERSION" "$folder" "build/release/$name" build/release/cleave-child "${also[@]}"
    [ -z "$roots" ] || return 0
    hack/kube/image.sh "$@" --digest "build/images/$name.digest" \
        --tag "$IMAGE_PREFIX/$name:latest" \
        --label "org.opencontainers.image.title=$title" \
        --label "org.opencontainers.image.version=$VERSION" \
        --label "org.opencontainers.image.revision=$revision" \
        --label "org.opencontainers.image.licenses=Apache-2.0" \
        "$IMAGE_PREFIX/$name:$tag" "build/images/$name.oci.tar" "$folder/root" "/usr/bin/$name"
    say "$IMAGE_PREFIX/$name:$tag $(cat "build/images/$name.digest") $(stat -c %s "build/images/$name.oci.tar") bytes"
}

# The limiter, where both of its libraries were built; an agent without it limits no share.
limiter=()
for library in build/release/limiter/libcleave-{cuda,nvml}.so; do [ ! -e "$library" ] || limiter+=(--limiter "$library"); done
[ ${#limiter[@]} = 4 ] || limiter=()

mkdir -p build/images
image cleave-controller "Cleave's controller" --user 65532:65532
image cleave-scheduler "Cleave's scheduler" --user 65532:65532
image cleave-agent "Cleave's agent" --for-drivers "${limiter[@]}" --with build/release/cleave-watch --with build/release/cleave-runtime
