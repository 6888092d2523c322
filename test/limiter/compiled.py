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


SMALL_UUID = "GPU-11111111-1111-1111-1111-111111111111"


def small_cuda(folder):
    """small_cuda.c as libcuda.so.1 in this folder, which is made. Its card has SMALL_UUID."""
    folder.mkdir()
    flags = ["-shared", "-fPIC", "-nostdlib", "-fno-stack-protector"]
    program(folder / "libcuda.so.1", "test/limiter/small_cuda.c", flags=flags, last=["-Wl,-soname,libcuda.so.1"])
    return folder
