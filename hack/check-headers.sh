#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Checks that each header compiles alone, with gcc and with clang.
#
#   hack/check-headers.sh [HEADER...]      all of them by default
#
# Shows the compiler's words for each that does not; says nothing when all do.
set -euo pipefail

case "${1:-}" in -h | --help)
    awk 'NR <= 2 {next} !/^#/ {exit} {sub(/^# ?/, ""); print}' "$0"
    exit 0
    ;;
esac
cd "$(dirname "$0")/.."

headers=("$@")
[ $# -gt 0 ] || mapfile -t headers < <(git ls-files -co --exclude-standard '*.h')
# Deleted, but not yet in the index.
mapfile -t headers < <(for h in "${headers[@]}"; do [ ! -f "$h" ] || printf '%s\n' "$h"; done)
[ ${#headers[@]} -gt 0 ] || exit 0

# Headers that the build makes.
[ ! -f Makefile ] || make -s VARIANT=lint generated
read -ra flags < <(pkg-config --cflags libcurl jansson yaml-0.1 libmicrohttpd libseccomp openssl libnghttp2)
flags+=(-std=gnu17 -D_GNU_SOURCE -I. -Ibuild/lint/gen -Wall -Wextra -Werror -Wstrict-prototypes -fsyntax-only -x c)

check() { # compiler header: included twice, so that a missing "#pragma once" shows too
    printf '#include "%s"\n#include "%s"\n' "$2" "$2" | "$1" "${flags[@]}" -I"$(dirname "$2")" - 2>&1 || {
        printf '%s: does not compile alone with %s\n' "$2" "$1"
        return 1
    }
}

bad=0
for header in "${headers[@]}"; do
    check gcc "$header" &
    pid=$!
    check clang-14 "$header" || bad=1
    wait "$pid" || bad=1
done
exit "$bad"
