#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Puts gRPC for Python and a protobuf compiler into build/venv-grpc, once, and compiles the
# kubelet's protocol files with it: the stub of a kubelet (kubelet_stub.py) speaks with another
# implementation of gRPC than the agent's own. Prints the folders to put on Python's path.
set -euo pipefail
cd "$(dirname "$0")/../.."

packages=(grpcio==1.74.0 grpcio-tools==1.74.0 protobuf==6.31.1)
venv=build/venv-grpc
stamp=$venv/$(printf '%s\n' "${packages[@]}" | sha256sum | cut -c1-12)
if [ ! -f "$stamp" ]; then
    rm -rf "$venv"
    mkdir -p "$venv"
    /usr/bin/python3 -m venv "$venv" >&2
    "$venv/bin/pip" install --quiet --disable-pip-version-check "${packages[@]}" >&2
    touch "$stamp"
fi
proto=nodeagent/kubelet/proto
mkdir -p "$venv/proto"
"$venv/bin/python" -m grpc_tools.protoc -I "$proto" --python_out="$venv/proto" "$proto"/*.proto
echo "$PWD/$venv"/lib/python3*/site-packages
echo "$PWD/$venv/proto"
