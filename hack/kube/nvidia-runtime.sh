#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# In place of NVIDIA's container runtime, for node-up.sh --runtime: a container that asks for cards by
# NVIDIA_VISIBLE_DEVICES gets the host's management library and nvidia-smi (what NVIDIA_DRIVER_CAPABILITIES
# calls "utility") mounted at the same places, and runc does the rest. Device files it gives to nobody:
# who opens them are drivers' libraries, and a simulated one does not.
#
#   hack/kube/nvidia-runtime.sh ARGUMENTS-OF-RUNC...
set -euo pipefail

libraries=/usr/lib/x86_64-linux-gnu

mounts() { # a JSON list
    local file
    for file in "$libraries"/libnvidia-ml.so.* /usr/bin/nvidia-smi; do
        jq -n --arg to "$file" --arg from "$(realpath "$file")" \
            '{destination: $to, source: $from, type: "bind", options: ["rbind", "ro", "nosuid", "nodev"]}'
    done | jq -s .
}

bundle=
creates=
words=("$@")
for ((i = 0; i < $#; i++)); do
    case "${words[i]}" in
    create) creates=yes ;;
    --bundle) bundle=${words[i + 1]} ;;
    esac
done
if [ -n "$creates" ] && [ -n "$bundle" ]; then
    config=$bundle/config.json
    # The last of two is the one that counts.
    asked=$(jq -r '[(.process.env // [])[] | select(startswith("NVIDIA_VISIBLE_DEVICES="))] | last // "" | ltrimstr("NVIDIA_VISIBLE_DEVICES=")' "$config")
    case "$asked" in
    '' | void | none) ;;
    *)
        jq --argjson more "$(mounts)" '.mounts += $more' "$config" >"$config.new"
        mv "$config.new" "$config"
        ;;
    esac
fi
exec runc "$@"
