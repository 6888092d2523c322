#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds the release before this one, for the tests of upgrades, of the way back, and of programs of two releases side by side.
# Nothing has been released yet: the release before is a commit of this history, and this is the only place that names it.
# It is the last one whose agents do not hand a node over (docs/adr/0037-hand-over.md).
#
#   hack/before.sh            builds it if need be; two minutes on two idle cores
#   hack/before.sh --folder   prints where it is, or would be: bin/ has the programs, crds/ and config/ its manifests
#
# The result goes to ${CLEAVE_CACHE:-~/.cache/cleave}. Exits with 2 where the history does not reach back to the commit,
# as in a shallow clone.
set -euo pipefail
HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$HERE/kube/lib.sh"

readonly COMMIT=0c26e2c48609b838c23d4987f73fa50b3a416d3f

# The programs load Debian's libraries, so a build on other ones is another build.
before_folder() {
    local hash
    hash=$({ echo "$COMMIT" && dpkg-query -W -f '${Package} ${Version}\n' libcurl4-openssl-dev libjansson-dev libmicrohttpd-dev \
        libnghttp2-dev libprotobuf-c-dev libseccomp-dev libssl-dev libyaml-dev 2>/dev/null; } | sha256sum)
    printf '%s/before-%s\n' "$(cache_dir)" "${hash:0:12}"
}

build() { # SOURCE NEW
    git -C "$HERE/.." archive "$COMMIT" | tar -x -C "$1" || return
    make -s -C "$1" -j"$(nproc)" VARIANT=release VERSION=before build/release/cleave-controller build/release/cleave-agent || return
    mkdir -p "$2/bin" || return
    strip -o "$2/bin/cleave-controller" "$1/build/release/cleave-controller" || return
    strip -o "$2/bin/cleave-agent" "$1/build/release/cleave-agent" || return
    cp -R "$1/crds" "$1/config" "$2/"
}

folder=$(before_folder)
case "${1:-}" in
--folder)
    printf '%s\n' "$folder"
    exit 0
    ;;
*) no_arguments "$@" ;;
esac

[ ! -x "$folder/bin/cleave-agent" ] || exit 0
git -C "$HERE/.." cat-file -e "$COMMIT^{commit}" 2>/dev/null || {
    say "before.sh: the history here does not reach back to $COMMIT, the release before; git fetch --unshallow gets it"
    exit 2
}
mkdir -p "$(cache_dir)"
exec 9>"$(cache_dir)/before.lock"
flock -n 9 || {
    say "The release before: another build is running; waiting for that one"
    flock 9
    [ ! -x "$folder/bin/cleave-agent" ] || exit 0
}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
new=$(cache_dir)/before.new
log=$(cache_dir)/before-build.log
rm -rf "$new"
mkdir -p "$new"
say "The release before: building $COMMIT, once; into $folder"
progress "building" "$log" '' build "$work" "$new" || die "the whole output is in $log"
rm -rf "$folder"
mv -T "$new" "$folder"
