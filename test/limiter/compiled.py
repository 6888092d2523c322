# SPDX-License-Identifier: Apache-2.0
"""C programs of the tests."""
import pathlib
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]
FLAGS = ["-std=gnu17", "-D_GNU_SOURCE", "-O1", "-g", "-Wall", "-Wextra", "-Werror", "-pthread", f"-I{ROOT}"]


def program(path, *sources, flags=(), last=()):
    """The sources, named from the root of the tree, as a program at path. last: words behind them, as libraries are."""
    subprocess.run(["gcc", *FLAGS, *flags, *(str(ROOT / source) for source in sources), *map(str, last), "-o", str(path)], check=True)
    return path
