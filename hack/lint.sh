#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Checks everything that can be checked without running it.
#
#   hack/lint.sh [--fast] [--changed] [CHECK...]
#
#   --fast      without clang-tidy, which takes seconds a file
#   --changed   clang-tidy only over files that differ from main
#   CHECK       only these: format layers length headers docs index calls spdx shell spelling tidy
#
# Says nothing more than the names of the checks where all is well, and else what is wrong and
# where. A file that clang-tidy passed is not looked at again until it, or a header it includes,
# changes (build/lint remembers).
set -euo pipefail

all=(format layers length headers docs index calls spdx shell spelling tidy)
checks=()
fast=
changed=
for arg in "$@"; do
    case "$arg" in
    --fast) fast=yes ;;
    --changed) changed=yes ;;
    -h | --help)
        awk 'NR <= 2 {next} !/^#/ {exit} {sub(/^# ?/, ""); print}' "$0"
        exit 0
        ;;
    *)
        [[ " ${all[*]} " == *" $arg "* ]] || {
            echo "lint.sh: unknown check '$arg'; see --help" >&2
            exit 2
        }
        checks+=("$arg")
        ;;
    esac
done
[ ${#checks[@]} -gt 0 ] || checks=("${all[@]}")
cd "$(dirname "$0")/.."

files() { # patterns...: tracked and new files that are there
    local f
    git ls-files -co --exclude-standard -- "$@" | while IFS= read -r f; do
        [ ! -f "$f" ] || printf '%s\n' "$f"
    done
}

format() { files '*.c' '*.h' | xargs -r clang-format-14 --dry-run -Werror; }
layers() { hack/check-layers.sh; }
# A longer file of a program has more than one reason to change.
length() {
    local lines file bad=0
    while read -r lines file; do
        [ "$lines" -le 600 ] || { printf '%s: %d lines; 600 are allowed\n' "$file" "$lines" && bad=1; }
    done < <(files '*.c' '*.h' | grep -v '^test/' | xargs -r wc -l | grep -v ' total$')
    [ "$bad" = 0 ]
}
headers() { hack/check-headers.sh; }
docs() { hack/check-docs.py; }
index() { hack/check-index.py; }
calls() { hack/check-calls.py; }
spdx() { hack/check-spdx.sh; }

# SC2015: "a && b || die" is how these scripts state a condition. SC2119, SC2120: functions are
# called by the name of a command line argument. SC1091: what is sourced is
# checked for itself.
shell() {
    local scripts bad=0
    while IFS= read -r script; do
        [ -x "$script" ] || ! head -n 1 "$script" | grep -q '^#!' || { printf '%s: begins with #! and cannot be run\n' "$script" && bad=1; }
    done < <(files '*.sh' '*.py')
    mapfile -t scripts < <(files '*.sh' .ci/run)
    shellcheck -x -P SCRIPTDIR -e SC1091,SC2015,SC2119,SC2120 "${scripts[@]}" && [ "$bad" = 0 ]
}

# Words of the field that look like misspellings.
spelling() {
    files | grep -vE '\.(sum|png)$|/(corpus|golden|testdata)/' |
        xargs -r codespell -q 3 -L 'uptodate,te,nd,renderd'
}

# The preprocessed text with its comments (they carry the suppressions) and the rules decide.
tidy_key() { # file flags...
    { clang-14 -E -C "${@:2}" "$1" && cat .clang-tidy; } 2>/dev/null | sha256sum | cut -d' ' -f1
}

tidy_one() { # file flags...
    local key
    [ "$1" = base/err.c ] || set -- "$@" -include hack/tidy-model.h
    key=$(tidy_key "$@")
    [ ! -e "build/lint/$key" ] || return 0
    printf '  tidy %s\n' "$1" >&2
    nice -n 5 clang-tidy-14 --quiet "$1" -- "${@:2}" 2>/dev/null || return 1
    touch "build/lint/$key"
}
export -f tidy_one tidy_key

tidy() {
    local flags sources folders=(base api partition interop kubeclient service controller nodeagent child reconcilers scheduler kubectl sim)
    make -s VARIANT=lint generated
    read -ra flags < <(pkg-config --cflags libcurl jansson yaml-0.1 libmicrohttpd libseccomp openssl libnghttp2)
    flags+=(-std=gnu17 -D_GNU_SOURCE -I. -Ibuild/lint/gen "-DCLEAVE_VERSION=\"lint\"" -Wall -Wextra)
    mapfile -t sources < <(files "${folders[@]/%//*.c}")
    [ -z "$changed" ] || mapfile -t sources < <(
        { git diff --name-only main -- '*.c' && git ls-files -o --exclude-standard -- '*.c'; } |
            sort -u | grep -Fxf <(printf '%s\n' "${sources[@]}"))
    [ ${#sources[@]} -gt 0 ] || return 0
    mkdir -p build/lint
    printf '%s\0' "${sources[@]}" |
        xargs -0 -P 2 -I{} bash -c 'tidy_one "$@" || exit 1' tidy {} "${flags[@]}"
}

failed=()
for check in "${checks[@]}"; do
    [ "$check" != tidy ] || [ -z "$fast" ] || continue
    printf 'lint: %s\n' "$check" >&2
    "$check" || failed+=("$check")
done
[ ${#failed[@]} = 0 ] || {
    printf 'lint: these failed: %s\n' "${failed[*]}" >&2
    exit 1
}
