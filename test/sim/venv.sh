#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Puts NVIDIA's Python client of NVML into build/venv-nvml, once; the tests drive the simulator
# with it. Prints the folder to put on Python's path.
set -euo pipefail
cd "$(dirname "$0")/../.."

version=13.580.82
venv=build/venv-nvml
if [ ! -f "$venv/$version" ]; then
    rm -rf "$venv"
    mkdir -p "$venv"
    /usr/bin/python3 -m venv "$venv" >&2
    "$venv/bin/pip" install --quiet --disable-pip-version-check "nvidia-ml-py==$version" >&2
    touch "$venv/$version"
fi
echo "$PWD/$venv"/lib/python3*/site-packages
