# SPDX-License-Identifier: Apache-2.0
"""The limiter in the image of an older Debian, whose C library is older than the one that it was built with (make nightly).

The oldest that Debian's archive still has is 11, with glibc 2.31. That nothing newer than 2.17 is asked for is shown by the symbols
(test_loading.py) alone."""
import fcntl
import os
import pathlib
import subprocess

import pytest
from compiled import ROOT, SMALL_UUID, small_cuda
from container import BUILT, terms, usage

pytestmark = pytest.mark.skipif("KUBE_VERSION" not in os.environ, reason="make nightly runs it: it fetches 60 MB of packages once")

RELEASE = "bullseye"
CACHE = pathlib.Path(os.environ.get("CLEAVE_CACHE") or pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "cleave")

# $1: the test's folder, $2: the image's root, $3: the build. What it changes is gone with its last process.
ENTER = """
set -e
mount -t tmpfs container "$1/scratch"
mkdir "$1/scratch/upper" "$1/scratch/work" "$1/scratch/root"
mount -t overlay container -o "lowerdir=$2,upperdir=$1/scratch/upper,workdir=$1/scratch/work" "$1/scratch/root"
cd "$1/scratch/root"
mkdir -p usr/lib/cleave/real run/cleave proc
place() { touch "$2"; mount --bind "$1" "$2"; }
place "$3/limiter/libcleave-cuda.so" usr/lib/x86_64-linux-gnu/libcuda.so.1
place "$1/drivers/libcuda.so.1" usr/lib/cleave/real/libcuda.so.1
place "$4/test/limiter/loader.c" loader.c
mount --bind "$1/share" run/cleave
mount --bind /proc proc
shift 4
exec chroot . "$@"
"""


@pytest.fixture(scope="module")
def image(tmp_path_factory):
    """The root folder of the older image, with a small C compiler."""
    CACHE.mkdir(parents=True, exist_ok=True)
    tar = CACHE / f"older-{RELEASE}.tar"
    with open(CACHE / "older.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not tar.exists():
            part = tar.with_suffix(".part.tar")
            subprocess.run(["mmdebstrap", "--quiet", "--variant=extract", "--include=tcc,libc6-dev", RELEASE, str(part)], check=True)
            part.rename(tar)
    root = tmp_path_factory.mktemp("image")
    subprocess.run(["tar", "-xf", str(tar), "-C", str(root)], check=True)
    return root


@pytest.fixture
def run(image, tmp_path):
    """run(words): what a command in a container of that image prints."""
    small_cuda(tmp_path / "drivers")
    for folder in ("share", "scratch"):
        (tmp_path / folder).mkdir()
    (tmp_path / "share/terms").write_bytes(terms([(SMALL_UUID, {"mib": 3000})]))
    (tmp_path / "share/usage").write_bytes(usage())

    def start(*words):
        command = ["unshare", "--mount", "sh", "-c", ENTER, "older", str(tmp_path), str(image), str(BUILT), str(ROOT), *words]
        return subprocess.run(command, check=True, text=True, capture_output=True).stdout

    return start


def test_a_program_that_was_compiled_there_is_held_to_the_share(run):
    assert "release version 2.31" in run("/lib/x86_64-linux-gnu/libc.so.6")
    result = run("/usr/bin/tcc", "-D_GNU_SOURCE", "-ldl", "-run", "/loader.c", "libcuda.so.1")
    assert result == "init 0 0 secure 0 total 3000 too much 2 small 0 from /usr/lib/x86_64-linux-gnu/libcuda.so.1\n"
