#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Lets libFuzzer look for inputs that crash, leak, hang or use memory without bounds.
#   hack/fuzz-search.sh SECONDS [parser]
# What it learns stays in build/fuzz/corpus/<parser>, and what breaks something in build/fuzz/found:
# mend it, and put that file into test/fuzz/corpus/<parser>.
set -euo pipefail
cd "$(dirname "$0")/.."

seconds=${1:?seconds for each parser}
found=build/fuzz/found
mkdir -p "$found"
export ASAN_OPTIONS=detect_leaks=1 UBSAN_OPTIONS=print_stacktrace=1

failed=0
for fuzzer in build/fuzz/test/fuzz/*_fuzz; do
    name=$(basename "$fuzzer" _fuzz)
    [ -z "${2:-}" ] || [ "$name" = "$2" ] || continue
    learned=build/fuzz/corpus/$name
    log=build/fuzz/$name.log
    mkdir -p "$learned"
    # Bounded: a parser of ours takes neither memory nor time beyond its input.
    if "$fuzzer" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=1024 -max_len=65536 -print_final_stats=1 \
        -artifact_prefix="$found/$name-" "$learned" "test/fuzz/corpus/$name" >"$log" 2>&1; then
        runs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
        edges=$(grep -o ' cov: [0-9]*' "$log" | tail -1)
        echo "ok - $name: ${runs:-0} inputs,${edges/cov:/edges reached:}"
    else
        echo "not ok - $name"
        tail -40 "$log"
        failed=1
    fi
done
exit "$failed"
