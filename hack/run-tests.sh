#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs the tests and closes with the line "N passed, N failed".
#   hack/run-tests.sh all|unit|sim|limiter|grpc|race|fuzz|strangers|failing|e2e|fault [name]
# A test counts as failed when it says so, when its program dies, and when a sanitizer wrote a
# report: Criterion 2.4.1 passes a test whose only fault is a leak, so reports go to files.
set -euo pipefail
cd "$(dirname "$0")/.."

case "${1:-}" in -h | --help | "")
    sed -n '3,6s/^# \{0,1\}//p' "$0"
    exit 0
    ;;
esac

# Control planes of the end-to-end tests beside each other: six, or one for each 2 GiB of memory. The faults have half as many.
memory_gib() { awk '$1 == "MemAvailable:" {print int($2 / 1048576)}' /proc/meminfo; }
at_once() { echo $(($1 < 4 ? 2 : $1 > 12 ? 6 : $1 / 2)); }
E2E_AT_ONCE=${E2E_AT_ONCE:-$(at_once "$(memory_gib)")}

# The Go programs of the tests (API servers, kubelets, kubectl) look for garbage a quarter as often as they would: it took a
# sixth of the API servers' time. Each of them gets one processor, since they are more than the processors: an API server with
# nothing to do wakes threads 390 times a second with two and 250 times with one, and takes a third less time.
export GOGC=${GOGC:-400} GOMAXPROCS=${GOMAXPROCS:-1}

passed=0
failed=0
logs=$(mktemp -d)
lanes=()
trap 'end_lanes; lower_watches; rm -rf "$logs"' EXIT

# API servers, kubelets and containerd watch files, two to five times each: a whole run has 110 of the 128 inotify instances that a
# user has by default. As root it gets more for its time.
watches=/proc/sys/fs/inotify/max_user_instances
had_watches=
raise_watches() {
    local has
    has=$(cat "$watches" 2>/dev/null) || return 0
    [ "$has" -lt 512 ] && [ -w "$watches" ] || return 0
    if echo 512 2>/dev/null >"$watches"; then had_watches=$has; fi
}
lower_watches() { [ -z "$had_watches" ] || echo "$had_watches" >"$watches"; }

say() { printf '\n== %s\n' "$*"; }

count() { # passed failed
    passed=$((passed + $1))
    failed=$((failed + $2))
}

# One make at a time in a variant's folder.
build() { # variant targets...
    mkdir -p "build/$1"
    flock "build/$1/.lock" make -s -j"$(nproc)" VARIANT="$1" "${@:2}" || {
        count 0 1
        return 1
    }
}

sanitized() { # program args...: with reports sent to files
    ASAN_OPTIONS="log_path=$logs/asan:detect_leaks=1" UBSAN_OPTIONS="log_path=$logs/ubsan:print_stacktrace=1" "$@"
}

reports() { # counts the sanitizer reports written so far, shows and forgets them
    local f
    for f in "$logs"/asan.* "$logs"/ubsan.*; do
        [ -e "$f" ] || continue
        echo "not ok - a sanitizer report:"
        head -40 "$f"
        rm -f "$f"
        count 0 1
    done
}

unit() {
    say "unit tests (ASan+UBSan)"
    local target=unit-build
    [ -z "${1:-}" ] || target=build/san/test/unit/${1}_test
    build san "$target" || return 0
    local t out p f c
    mkdir "$logs/tmp"
    for t in build/san/test/unit/*_test; do
        [ -x "$t" ] && [ -f "${t#build/san/}.c" ] || continue
        [ -z "${1:-}" ] || [ "$(basename "$t")" = "${1}_test" ] || continue
        out=$logs/out
        # The folders of a test that is killed go with the run.
        TMPDIR=$logs/tmp sanitized "$t" >"$out" 2>&1 || true
        read -r p f c < <(sed -n 's/.*Passing: \([0-9]*\) | Failing: \([0-9]*\) | Crashing: \([0-9]*\).*/\1 \2 \3/p' "$out" | tail -1) || true
        if [ -z "${p:-}" ]; then
            cat "$out"
            count 0 1
        else
            printf '  %-32s %4d passed %3d failed\n' "$(basename "$t" _test)" "$p" $((f + c))
            [ $((f + c)) = 0 ] || grep -v '^\[====\]' "$out" | head -60
            count "$p" $((f + c))
        fi
        p=
        reports
    done
}

race() {
    compgen -G 'test/race/*.c' >/dev/null || return 0
    say "thread tests (TSan)"
    build tsan race-build || return 0
    local t
    for t in build/tsan/test/race/*; do
        [ -x "$t" ] && [ -f "${t#build/tsan/}.c" ] || continue
        if TSAN_OPTIONS=halt_on_error=1 timeout 120 "$t" >"$logs/out" 2>&1; then
            echo "ok - $(basename "$t")"
            count 1 0
        else
            tail -40 "$logs/out"
            echo "not ok - $(basename "$t")"
            count 0 1
        fi
    done
}

fuzz() {
    compgen -G 'test/fuzz/*_fuzz.c' >/dev/null || return 0
    say "fuzz corpora (ASan+UBSan)"
    build san fuzz-build || return 0
    local t name
    for t in build/san/test/fuzz/*_fuzz; do
        [ -x "$t" ] && [ -f "${t#build/san/}.c" ] || continue
        name=$(basename "$t" _fuzz)
        if sanitized timeout 300 "$t" "test/fuzz/corpus/$name" >"$logs/out" 2>&1; then
            echo "ok - $name: $(tail -1 "$logs/out")"
            count 1 0
        else
            tail -20 "$logs/out"
            echo "not ok - $name"
            count 0 1
        fi
        reports
    done
    strangers
}

# Of what the kernel ends for a call that is not allowed, only the shipped build tells; of memory,
# only the sanitized one.
strangers() {
    local out variant
    for variant in release san; do
        build "$variant" "build/$variant/cleave-agent" "build/$variant/cleave-controller" || continue
        out=$logs/strangers
        /usr/bin/python3 test/fuzz/http_strangers.py --connections "${HTTP_CONNECTIONS:-3000}" \
            "build/$variant/cleave-agent" "build/$variant/cleave-controller" | tee "$out"
        /usr/bin/python3 test/fuzz/http_strangers.py --connections "${HTTP_CONNECTIONS:-3000}" \
            --tls --token "build/$variant/cleave-agent" | tee -a "$out"
        count "$(grep -c '^ok' "$out" || true)" "$(grep -c '^not ok' "$out" || true)"
    done
}

sum_of() { # words file: the sum of the numbers before any of the words
    { grep -oE "[0-9]+ ($1)" "$2" || true; } | awk '{n += $1} END {print n + 0}'
}

pytests() { # title, folder, [-k name], [options...]: pytest counts for itself
    compgen -G "$2/test_*.py" >/dev/null || return 0
    say "$1"
    local out=$logs/pytest rc=0 p f
    : >"$out" # tail may be there first
    /usr/bin/python3 -m pytest -p no:cacheprovider -q --color=no --tb=short "$2" ${3:+-k "$3"} "${@:4}" >"$out" 2>&1 &
    tail -n +1 -s 0.2 -f --pid=$! "$out"
    wait $! || rc=$?
    tail -1 "$out" >"$logs/summary"
    p=$(sum_of passed "$logs/summary")
    f=$(sum_of 'failed|errors?' "$logs/summary")
    # A run that broke off has no summary to count, and is a failure all the same.
    [ "$rc" = 0 ] || [ "$f" -gt 0 ] || f=1
    count "$p" "$f"
}

sim() {
    [ -f sim/Makefile ] || return 0
    build release sim || return 0
    pytests "the simulator, driven by a foreign NVML client" test/sim "${1:-}"
}

limiter() {
    build release sim limiter build/release/test/limiter/shares_host || return 0
    pytests "the limiter, in front of the simulated drivers" test/limiter "${1:-}"
}

grpc() {
    compgen -G 'test/grpc/test_*.py' >/dev/null || return 0
    build san build/san/test/grpc/peer || return 0
    pytests "kubelet protocols, driven by a foreign gRPC" test/grpc "${1:-}"
}

failing() {
    [ -d test/failing ] || return 0
    build release sim || return 0
    build san failing-build || return 0
    pytests "each call of our programs made to fail${FAILING:+, all of them} (ASan+UBSan)" test/failing "${1:-}"
}

e2e() {
    [ -d test/e2e ] || return 0
    build release all || return 0
    pytests "end to end on real API servers${KUBE_VERSION:+ of Kubernetes $KUBE_VERSION}" test/e2e "${1:-}" --numprocesses="$E2E_AT_ONCE" --dist=loadgroup
}

fault() {
    [ -d test/fault ] || return 0
    build release all || return 0
    say "what goes wrong, a sample of the plans of make torture"
    /usr/bin/python3 test/fault/run.py --sample 3 --jobs $(((E2E_AT_ONCE + 1) / 2)) 2>&1 | tee "$logs/fault" || true
    tail -1 "$logs/fault" >"$logs/summary"
    count "$(sum_of passed "$logs/summary")" "$(sum_of failed "$logs/summary")"
    grep -q ' passed, ' "$logs/summary" || count 0 1
    pytests "the state space of the API, a sample of the walk of make torture" test/fault "${1:-}"
    pytests "what soak runs are judged by" test/soak "${1:-}"
    pytests "what fleets are judged by" test/fleet "${1:-}"
}

# Much of the time of the tests with an API server is waiting; most others compute, and take what those leave of the
# processors. A lane does its parts one after the other, beside the other lanes. What a part prints appears when the part ends.
run_lane() { # folder parts...
    local logs=$1 part
    mkdir "$logs"
    for part in "${@:2}"; do
        flock "$logs/.." echo "-- $part: begun after $SECONDS s"
        "$part" >"$logs/printed" 2>&1
        echo "-- $part: ended after $SECONDS s" >>"$logs/printed"
        flock "$logs/.." cat "$logs/printed"
    done
    echo "$passed $failed" >"$logs/count"
}

lane() { # niceness name parts...
    run_lane "$logs/$2" "${@:3}" &
    lanes+=($!)
    renice -n "$1" -g $! >/dev/null
}

# A lane that broke off has not written its count, which is a failure.
join_lanes() {
    local folder p f
    wait "${lanes[@]}" || true
    lanes=()
    for folder in "$logs"/*/; do
        read -r p f <"$folder/count" 2>/dev/null || { p=0 f=1; }
        count "$p" "$f"
    done
}

# Each lane is a process group.
end_lanes() {
    local lane
    for lane in "${lanes[@]}"; do kill -INT -- "-$lane" 2>/dev/null || true; done
}

case "$1" in all | e2e) raise_watches ;; esac
case "$1" in
all)
    set -m
    lane 0 served e2e
    lane 2 plain unit race fuzz sim limiter grpc
    lane 2 broken failing fault
    set +m
    join_lanes
    ;;
*) "$1" "${2:-}" ;;
esac

printf '\n%d passed, %d failed\n' "$passed" "$failed"
[ "$failed" = 0 ] && [ "$passed" -gt 0 ]
