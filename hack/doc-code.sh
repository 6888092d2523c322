#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Prints a source file as a document has it, so that the document's code is compiled and tested.
#
#   hack/doc-code.sh DOCUMENT PATH
#   hack/doc-code.sh DOCUMENT --list      the paths of which it says something
#
# Before a code block of the document stands one of
#
#   **`PATH`**:                    the block is the next part of a new file
#   **`PATH`**, behind `LINE`:     the block goes into a file of ours, behind this line
#
# Fails where nothing is said of PATH, and where LINE does not stand in the file exactly once.
set -euo pipefail

case "${1:-}" in -h | --help | "")
    awk 'NR <= 2 {next} !/^#/ {exit} {sub(/^# ?/, ""); print}' "$0"
    exit 0
    ;;
esac
cd "$(dirname "$0")/.."

doc=$1
shift
if [ "$1" = --list ]; then
    # shellcheck disable=SC2016 # the document's quotes
    sed -nE 's/^\*\*`([^`]+)`\*\*(, behind `.+`)?:$/\1/p' "$doc" | sort -u
    exit 0
fi
exec awk -v path="$1" '
    FNR == NR && /^\*\*`[^`]+`\*\*(, behind `.+`)?:$/ {
        split($0, word, "`")
        mine = word[2] == path
        anchor = word[4]
        said += mine
        next
    }
    FNR == NR && /^```/ {
        inside = !inside && mine
        mine = mine && inside
        next
    }
    FNR == NR {
        if (inside && anchor == "") print
        else if (inside) after[anchor] = after[anchor] $0 "\n"
        next
    }
    {
        print
        line = $0
        sub(/^ +/, "", line)
        if (line in after) { printf "%s", after[line]; found[line]++ }
    }
    END {
        if (!said) { print doc ": says nothing of " path > "/dev/stderr"; exit 1 }
        for (line in after) if (found[line] != 1) {
            print path ": stands there " found[line] + 0 " times: " line > "/dev/stderr"
            exit 1
        }
    }
' doc="$doc" "$doc" "$([ -f "$1" ] && echo "$1" || echo /dev/null)"
