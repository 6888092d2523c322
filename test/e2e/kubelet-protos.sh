#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Compiles the kubelet's protocol files for the stub of a kubelet (kubelet_stub.py), which speaks
# with gRPC's own implementation, not the agent's. Prints the folders to put on Python's path.
set -euo pipefail
cd "$(dirname "$0")/../.."

packages=$(test/venv.sh test/grpc/requirements.txt)
proto=nodeagent/kubelet/proto
made=build/proto-$(cat test/grpc/requirements.txt "$proto"/*.proto | sha256sum | cut -c1-12)
if [ ! -d "$made" ]; then
    # Several processes may be here at once: each compiles apart, and the first one's folder stays.
    new=$(mktemp -d "$made.XXXXXX")
    PYTHONPATH=$packages /usr/bin/python3 -m grpc_tools.protoc -I "$proto" --python_out="$new" "$proto"/*.proto
    mv -T "$new" "$made" 2>/dev/null || rm -rf "$new"
fi
echo "$packages"
echo "$PWD/$made"
