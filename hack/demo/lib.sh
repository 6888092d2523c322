# shellcheck shell=bash disable=SC2154,SC2034
# SPDX-License-Identifier: Apache-2.0
# What the demos show their steps with. Sourced. They set $dir (state and logs) and $bin (our programs), and define kubectl.

if [ -t 1 ]; then
    bold=$'\e[1m' dim=$'\e[2m' plain=$'\e[0m'
else
    bold='' dim='' plain=''
fi

step=0
title() {
    step=$((step + 1))
    printf '\n%s%d. %s%s\n' "$bold" "$step" "$*" "$plain"
}
note() { printf '%s%s%s\n' "$dim" "$*" "$plain"; }
prompt() { # a command, as a person would type it
    local word line=
    for word in "$@"; do
        [[ $word =~ ^[A-Za-z0-9_./=:,@%+-]+$ ]] || word="'$word'"
        line+=" $word"
    done
    printf '\n%s$%s%s\n' "$dim" "$line" "$plain"
}
show() { # the command, and what it says
    prompt "$@"
    "$@"
}
pause() { read -rt 0.1 <> <(:) || true; }

# Waits until a command succeeds: seconds, what is awaited, command...
await() {
    local deadline=$((SECONDS + $1)) what=$2
    shift 2
    until "$@" >/dev/null 2>&1; do
        if [ "$SECONDS" -ge "$deadline" ]; then
            printf 'The demo waited in vain for %s. Logs are in %s.\n' "$what" "$dir" >&2
            tail -n 5 "$dir"/*.log "$dir"/*/agent.log >&2 || true
            exit 1
        fi
        pause
    done
}

# Its command line names our program, or a file of this demo.
is_ours() { tr '\0' ' ' 2>/dev/null <"/proc/$1/cmdline" | grep -qF -e "$bin/cleave-" -e "$dir/"; }

# Ends the programs of these files, and waits for it; says how many in $stopped.
end_programs() { # pidfiles...
    local pidfile pid ours=()
    for pidfile in "$@"; do
        [ -e "$pidfile" ] || continue
        pid=$(cat "$pidfile")
        ! is_ours "$pid" || ours+=("$pid")
        rm -f "$pidfile"
    done
    [ ${#ours[@]} = 0 ] || kill "${ours[@]}"
    for pid in "${ours[@]}"; do
        tail -s 0.1 --pid="$pid" -f /dev/null
    done
    stopped=${#ours[@]}
}

in_background() { # logfile, pidfile, command...
    local log=$1 pidfile=$2
    shift 2
    setsid "$@" >"$log" 2>&1 </dev/null &
    echo $! >"$pidfile"
}

# What the node offers to pods, in one line.
offers() { # node
    kubectl get node "$1" -o json |
        jq -r '[.status.allocatable | to_entries[] | select(.key | test("^(nvidia|metax-tech)\\.com/")) | "\(.key) \(.value)"] | "  " + join(", ")'
}

