#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Prints the path of a Go that can build the control plane (1.25 or later; with KUBE_VERSION, 1.26).
#
#   hack/kube/go.sh           looks in PATH, /usr/local/go, Debian's folders and the cache
#   hack/kube/go.sh --fetch   and else lets an older Go (Debian's golang-go) fetch a newer one
#                             from the Go module proxy, where toolchains are ordinary modules
#                             (golang.org/toolchain, checked against the checksum database)
#
# Exits with 1 where there is none, with 2 where there is not even an older Go.
set -euo pipefail
. "$(dirname "$0")/lib.sh"

fetch=
case "${1:-}" in
'') ;;
--fetch) fetch=yes ;;
-h | --help)
    usage
    exit 0
    ;;
*) die "unknown argument '$1'; see --help" ;;
esac

fetched=$(cache_dir)/go-$GO_FETCHED

candidates() {
    type -ap go || true
    printf '%s\n' /usr/local/go/bin/go "$fetched/bin/go"
    compgen -G '/usr/lib/go-*/bin/go' || true
}

go_version() { # of a go program, without the leading "go"; empty when it does not run
    GOTOOLCHAIN=local "$1" version 2>/dev/null | awk '{sub(/^go/, "", $3); print $3}'
}

new_enough() {
    [ -n "$1" ] && printf '%s\n%s\n' "$GO_NEEDED" "$1" | sort -CV
}

# Modules are unpacked without execute bits, and with nested go.mod files under another name.
install_toolchain() { # go-program
    local module dir new=$fetched.new
    module=golang.org/toolchain@v0.0.1-go$GO_FETCHED.$("$1" env GOOS)-$("$1" env GOARCH)
    dir=$(cd / && GO111MODULE=on GOTOOLCHAIN=local GOFLAGS='' "$1" mod download -json "$module" |
        sed -n 's/^\t"Dir": "\(.*\)",\{0,1\}$/\1/p')
    [ -n "$dir" ] || return 1
    rm -rf "$new"
    mkdir -p "$new"
    cp -R --no-preserve=mode "$dir/." "$new"
    find "$new" -name _go.mod -execdir mv {} go.mod ';'
    chmod +x "$new"/bin/* "$new"/pkg/tool/*/*
    rm -rf "$fetched"
    mv -T "$new" "$fetched"
}

older=
while IFS= read -r go; do
    [ -x "$go" ] || continue
    version=$(go_version "$go") || continue
    if new_enough "$version"; then
        printf '%s\n' "$go"
        exit 0
    fi
    [ -z "$version" ] || older=${older:-$go}
done < <(candidates)

[ -n "$older" ] || exit 2
[ -n "$fetch" ] || exit 1
say "Go: $("$older" version | cut -d' ' -f3) is too old; fetching go$GO_FETCHED (about 80 MB) with it"
install_toolchain "$older" || die "could not fetch go$GO_FETCHED from the module proxy; install Go $GO_NEEDED or later"
printf '%s\n' "$fetched/bin/go"
