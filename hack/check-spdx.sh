#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Checks that each file says its licence in one of its first three lines.
#
#   hack/check-spdx.sh
#
# Left out are files that cannot hold a comment or are compared byte by byte, and prose.
set -euo pipefail

case "${1:-}" in -h | --help)
    awk 'NR <= 2 {next} !/^#/ {exit} {sub(/^# ?/, ""); print}' "$0"
    exit 0
    ;;
esac
cd "$(dirname "$0")/.."

bad=0
while IFS= read -r file; do
    [ -s "$file" ] || continue
    case "$file" in
    LICENSE | *.md | *.json | *.sum | *.svg | *.png | *.gitignore) continue ;;
    */corpus/* | */golden/* | */testdata/* | */data/*) continue ;;
    esac
    head -n 3 "$file" | grep -q 'SPDX-License-Identifier: Apache-2.0' || {
        printf '%s: has no "SPDX-License-Identifier: Apache-2.0" in its first three lines\n' "$file"
        bad=1
    }
done < <(git ls-files -co --exclude-standard)
exit "$bad"
