#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Checks that includes point downwards only, that no files include each other in a circle (x.c and
# x.h count as one), and that each folder sees the libraries it may see.
#
#   hack/check-layers.sh          names every include that breaks the rule; says nothing and exits
#                                 with 0 when there is none
#   hack/check-layers.sh --list   the folders, top first, each with what it may include
set -euo pipefail

case "${1:-}" in -h | --help)
    awk 'NR <= 2 {next} !/^#/ {exit} {sub(/^# ?/, ""); print}' "$0"
    exit 0
    ;;
esac
cd "$(dirname "$0")/.."

# The layers, top first: a folder may include itself, what stands behind it, and nothing else.
# A program's main.c may see everything below it.
# nodeagent/kubelet/proto holds what protoc-c generates.
declare -A may_include=(
    # It asks the controller's, the agent's and the scheduler's planners, and has none of its own.
    [kubectl/main.c]="kubectl kubeclient base"
    [kubectl]="scheduler reconcilers reconcilers/records nodeagent/change nodeagent/gpu nodeagent/commands/layout_check.h nodeagent/commands/layout_documents.h nodeagent/slots/slot_place.h
        nodeagent/slots/slot_wish.h service
        kubeclient partition api base"

    [scheduler/main.c]="scheduler controller service kubeclient interop partition api base"
    [scheduler]="controller service kubeclient interop partition api base"
    [scheduler/certificate.c]="service kubeclient base"

    [controller/main.c]="reconcilers controller service kubeclient partition api base"
    [reconcilers]="reconcilers/records controller service kubeclient interop partition api base"
    [reconcilers/records]="service kubeclient interop partition api base"
    [controller]="service kubeclient api base"

    [child]="service"
    [child/watch]="nodeagent/commands"

    [nodeagent/main.c]="nodeagent/commands service base"
    [nodeagent/commands]="nodeagent/loop nodeagent/telemetry nodeagent/slots nodeagent/report nodeagent/offer nodeagent/change nodeagent/mode nodeagent/vendor
        nodeagent/gpu service kubeclient interop partition api base"
    [nodeagent/loop]="nodeagent/report nodeagent/telemetry nodeagent/audit nodeagent/slots nodeagent/offer nodeagent/health nodeagent/change nodeagent/mode
        nodeagent/kubelet nodeagent/cdi nodeagent/container nodeagent/gpu service kubeclient partition api base"
    [nodeagent/report]="nodeagent/offer nodeagent/change nodeagent/mode nodeagent/gpu service interop partition api base"
    [nodeagent/telemetry]="nodeagent/offer nodeagent/health nodeagent/mode nodeagent/kubelet nodeagent/gpu service interop base"
    [nodeagent/audit]="nodeagent/slots nodeagent/offer nodeagent/change nodeagent/container nodeagent/gpu limiter/region.h api base"
    [nodeagent/slots]="nodeagent/offer nodeagent/change nodeagent/mode nodeagent/cdi nodeagent/arbiter nodeagent/container nodeagent/gpu limiter/region.h service interop kubeclient partition api base"
    [nodeagent/offer]="nodeagent/health nodeagent/change nodeagent/mode nodeagent/kubelet nodeagent/cdi nodeagent/vendor nodeagent/container nodeagent/gpu partition api base"
    [nodeagent/health]="nodeagent/change nodeagent/gpu service kubeclient partition base"
    [nodeagent/change]="nodeagent/mode nodeagent/gpu partition api base"
    # One file a mode, behind one table. A file of a mode is found by its symbol; mig.h and sgpu.h
    # have what only these modes have.
    [nodeagent/mode]="nodeagent/container nodeagent/gpu partition api base"
    [nodeagent/kubelet]="nodeagent/kubelet/proto nodeagent/container base"
    [nodeagent/cdi]="nodeagent/vendor nodeagent/container nodeagent/gpu base"
    # The table of vendors, and a folder for each. Nothing includes a vendor's folder, not even the
    # table, which finds each by its symbol; and what a vendor fills is the one file that it sees of
    # the folder above it.
    [nodeagent/vendor]="nodeagent/container nodeagent/gpu base"
    [nodeagent/vendor/vendor_backend.h]="nodeagent/container nodeagent/gpu base"
    [nodeagent/vendor/]="nodeagent/vendor/vendor_backend.h nodeagent/container nodeagent/gpu partition base"
    # An OCI runtime, a program of its own.
    [runtime]="nodeagent/container base"
    [nodeagent/arbiter]="limiter/region.h base"
    [nodeagent/container]="nodeagent/gpu base"
    [nodeagent/gpu]="partition api/modes.def base"

    [service]="kubeclient api base"
    [kubeclient/fake]="kubeclient base"
    [kubeclient]="base"
    [interop]="partition api base"
    [partition]="api base"
    [api]="base"
    [base]=""
    # Libraries of containers; the agent sees region.h, what it shares with them.
    [limiter]=""
    # The simulated vendor libraries are programs of their own; nothing includes them.
    [sim]="base sim"
)

# Headers from outside, as shell patterns. The C library's are in system_headers below.
declare -A may_see=(
    [kubectl/main.c]="jansson.h"
    [kubectl]="jansson.h"
    [scheduler/main.c]="jansson.h"
    [scheduler]="jansson.h"
    [scheduler/certificate.c]="openssl/*"
    [controller/main.c]="jansson.h curl/*"
    [reconcilers]="jansson.h"
    [reconcilers/records]="jansson.h"
    [controller]="jansson.h"
    [child]=""
    [child/watch]=""
    [nodeagent/main.c]="jansson.h curl/*"
    [nodeagent/commands]="jansson.h openssl/evp.h"
    [nodeagent/loop]="jansson.h"
    [nodeagent/report]="jansson.h"
    [nodeagent/telemetry]=""
    [nodeagent/audit]=""
    [nodeagent/slots]="jansson.h"
    [nodeagent/offer]="jansson.h"
    [nodeagent/health]=""
    [nodeagent/change]="jansson.h"
    [nodeagent/mode]=""
    [nodeagent/kubelet]="nghttp2/* protobuf-c/* jansson.h openssl/evp.h"
    [nodeagent/cdi]="jansson.h"
    [nodeagent/vendor]=""
    [nodeagent/vendor/vendor_backend.h]=""
    [nodeagent/vendor/]=""
    [runtime]="jansson.h"
    [nodeagent/arbiter]=""
    [nodeagent/container]="jansson.h"
    [nodeagent/gpu]=""
    [service]="jansson.h microhttpd.h gnutls/* seccomp.h openssl/*"
    [kubeclient/fake]="jansson.h"
    [kubeclient]="jansson.h curl/* openssl/*"
    [interop]="jansson.h"
    [partition]="jansson.h"
    [api]="jansson.h"
    [base]="jansson.h yaml.h"
    [limiter]=""
    [sim]="yaml.h jansson.h"
)

system_headers="arpa/* assert.h ctype.h dirent.h dlfcn.h elf.h endian.h errno.h execinfo.h fcntl.h
fnmatch.h ftw.h getopt.h glob.h grp.h ifaddrs.h inttypes.h libgen.h limits.h link.h linux/* locale.h
malloc.h math.h net/* netdb.h netinet/* poll.h pthread.h pwd.h regex.h sched.h search.h semaphore.h
setjmp.h signal.h spawn.h stdalign.h stdarg.h stdatomic.h stdbool.h stddef.h stdint.h stdio.h
stdlib.h stdnoreturn.h string.h strings.h sys/* sysexits.h syslog.h termios.h threads.h time.h
ucontext.h uchar.h unistd.h utime.h wchar.h wctype.h"

# A rule's "folder/" stands for the folders in it.
list_layers() {
    local rule
    for rule in "${!may_include[@]}"; do
        # shellcheck disable=SC2086 # a list of words
        printf "$rule %s\n" "$rule" ${may_include[$rule]}
    done | tsort | while read -r rule; do
        [ -z "${may_include[$rule]+x}" ] || printf '%-34s %s\n' "$rule" "$(xargs <<<"${may_include[$rule]}")"
    done
}
if [ "${1:-}" = --list ]; then
    list_layers
    exit
fi

matches() { # word patterns...
    local word=$1 pattern
    shift
    for pattern in "$@"; do
        # shellcheck disable=SC2053 # the right side is a pattern
        [[ $word != $pattern ]] || return 0
    done
    return 1
}

complain() { # file:line text
    printf '%s: %s\n' "$1" "$2"
    bad=1
}

check_own() { # file:line rule folder included
    local target=${4%/*}
    if [[ $4 != */* ]]; then
        # Beside each other without a folder: sim only, whose headers foreign programs may read.
        [ "$2" = sim ] || complain "$1" "\"$4\" is to be named from the root of the tree"
    elif [ "$target" != "$3" ] && [[ $target != sim/* || $2 != sim ]]; then
        # shellcheck disable=SC2086 # a list of words
        matches "$target" ${may_include[$2]} || matches "$4" ${may_include[$2]} ||
            complain "$1" "$2 must not include \"$4\"; it may include: ${may_include[$2]:-nothing else}"
    fi
}

check_foreign() { # file:line rule included
    # shellcheck disable=SC2086 # lists of words
    matches "$3" $system_headers ${may_see[$2]} ||
        complain "$1" "$2 must not include <$3>; beside the C library it may see: ${may_see[$2]:-nothing}"
}

rule_of() { # file folder
    local folder=$2
    if [ -n "${may_include[$1]+x}" ]; then
        printf '%s\n' "$1"
        return
    fi
    case $folder in nodeagent/vendor/*)
        echo nodeagent/vendor/
        return
        ;;
    esac
    while [ -z "${may_include[$folder]+x}" ] && [[ $folder == */* ]]; do folder=${folder%/*}; done
    printf '%s\n' "$folder"
}

set -f # the patterns are for headers, not for files
bad=0
tops=()
for top in base api partition interop kubeclient service controller nodeagent runtime child scheduler reconcilers kubectl sim; do
    [ -d "$top" ] || continue
    tops+=("$top")
    while IFS=: read -r file line text; do
        rule=$(rule_of "$file" "${file%/*}")
        if [[ $text =~ ^[[:space:]]*#[[:space:]]*include[[:space:]]*\"([^\"]+)\" ]]; then
            check_own "$file:$line" "$rule" "${file%/*}" "${BASH_REMATCH[1]}"
        elif [[ $text =~ ^[[:space:]]*#[[:space:]]*include[[:space:]]*\<([^\>]+)\> ]]; then
            check_foreign "$file:$line" "$rule" "${BASH_REMATCH[1]}"
        else
            complain "$file:$line" "an include that this script cannot read: $text"
        fi
    done < <(grep -rnE '^[[:space:]]*#[[:space:]]*include' --include='*.[ch]' "$top" || true)
done

# Whatever else reads a file in: nothing of ours does so. A .def is included and includes nothing.
while IFS=: read -r file line text; do
    complain "$file:$line" "not a plain #include in a .c or .h: $text"
done < <({
    grep -rnE '(#|%:|\?\?=)[[:space:]]*(/\*.*\*/[[:space:]]*)?(import|include|include_next|embed)\b' --include='*.[ch]' "${tops[@]}" |
        grep -vE '^[^:]+:[0-9]+:[[:space:]]*#[[:space:]]*include[[:space:]]*["<]'
    grep -rnE '^[[:space:]]*#[[:space:]]*$|[#:][[:space:]]*\\$' --include='*.[ch]' "${tops[@]}"
    grep -rnE '#|%:' --include='*.def' --include='*.inc' "${tops[@]}"
} || true)

# A vendor's own struct is seen by the table alone; a declaration needs no include.
for folder in $(cd nodeagent/vendor && find . -mindepth 1 -maxdepth 1 -type d -printf '%f\n'); do
    while IFS=: read -r file line text; do
        complain "$file:$line" "vendor_$folder is for nodeagent/vendor/$folder and the table: $text"
    done < <(grep -rnw "vendor_$folder" --include='*.[ch]' "${tops[@]}" | grep -v "^nodeagent/vendor/$folder/" || true)
done

# tsort names the members of each circle.
circles() {
    { grep -rE '^[[:space:]]*#[[:space:]]*include "[^"]+/' --include='*.[ch]' "${tops[@]}" || true; } |
        sed -nE 's/^([^:]+)\.[ch]:[[:space:]]*#[[:space:]]*include "([^"]+)\.h".*/\1 \2/p' |
        awk '$1 != $2' | { tsort >/dev/null; } 2>&1
}
circle=$(circles) || complain "a circle of includes" "$(sed 's/^tsort: //; /input contains a loop/d' <<<"$circle" | paste -sd' ')"
exit "$bad"
