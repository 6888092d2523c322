#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Puts gRPC's own Python implementation into build/venv-grpc, once; the tests drive ours with it.
# Prints the folder to put on Python's path.
set -euo pipefail
cd "$(dirname "$0")/../.."

version=1.76.0
venv=build/venv-grpc
if [ ! -f "$venv/$version" ]; then
    rm -rf "$venv"
    mkdir -p "$venv"
    /usr/bin/python3 -m venv "$venv" >&2
    "$venv/bin/pip" install --quiet --disable-pip-version-check "grpcio==$version" >&2
    touch "$venv/$version"
fi
echo "$PWD/$venv"/lib/python3*/site-packages
