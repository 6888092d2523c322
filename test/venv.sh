#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs the packages of a requirements file into a virtual environment of their own below build/,
# once, and prints the folder to put on Python's path. Several test processes may call it at once:
# the first installs, the others wait for it.
#   test/venv.sh REQUIREMENTS
set -euo pipefail
requirements=$(realpath "$1")
cd "$(dirname "$0")/.."

venv=build/venv-$(sha256sum "$requirements" | cut -c1-12)
mkdir -p build
exec 9>"$venv.lock"
flock 9
if [ ! -f "$venv/installed" ]; then
    rm -rf "$venv"
    # No process that pip leaves behind holds the lock.
    /usr/bin/python3 -m venv "$venv" >&2 9>&-
    "$venv/bin/pip" install --quiet --disable-pip-version-check -r "$requirements" >&2 9>&-
    touch "$venv/installed"
fi
echo "$PWD/$venv"/lib/python3*/site-packages
