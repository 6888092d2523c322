# SPDX-License-Identifier: Apache-2.0
"""What the limiter costs, in front of a driver that does nothing and does it at once, and beside HAMi-core where HAMI_CORE names its
libvgpu.so."""
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from rig import ROOT, Skip, show

sys.path[:0] = [str(ROOT / "test/limiter"), str(ROOT / "test/sim")]
from container import Box  # noqa: E402

ROUNDS = 5
UUID = "GPU-" + "01" * 4 + "-0101-0101-0101-" + "01" * 6
PROCESSES = 1024


def build(folder):
    here = ROOT / "test/bench"
    common = ["gcc", "-O2", "-D_GNU_SOURCE", f"-I{ROOT}"]
    subprocess.run([*common, "-shared", "-fPIC", "-Wl,-soname,libcuda.so.1", "-o", folder / "libcuda.so.1", here / "null_cuda.c"], check=True)
    subprocess.run([*common, "-o", folder / "cuda_costs", here / "cuda_costs.c", folder / "libcuda.so.1"], check=True)


def costs(words, env):
    done = subprocess.run(words, env={**os.environ, **env}, check=True, text=True, capture_output=True)
    words = done.stdout.split()
    return dict(zip(words[::2], map(float, words[1::2])))


def medians(found):
    return {key: statistics.median(one[key] for one in found) for key in found[0]}


def limiter():
    print("\nThe limiter in front of a driver that does nothing")
    if os.geteuid() != 0:
        raise Skip("mount namespaces are root's")
    subprocess.run(["make", "-s", "VARIANT=release", "limiter"], cwd=ROOT, check=True)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        build(folder)
        measure_calls(folder)
        measure_attaching(folder)


def measure_calls(folder):
    bare = ([folder / "cuda_costs", "calls"], {"LD_LIBRARY_PATH": str(folder)})
    box = Box(folder / "box", folder, [(UUID, {"mib": 60000})])
    ours = ([*box.enter, folder / "cuda_costs", "calls"], {})
    found = {"bare": [], "ours": []}
    for _ in range(ROUNDS):
        found["bare"].append(costs(*bare))
        found["ours"].append(costs(*ours))
    without, with_it = medians(found["bare"]), medians(found["ours"])
    names = {"alloc": "cuMemAlloc of 2 MiB", "free": "its cuMemFree", "small": "cuMemAlloc of 64 KiB", "small-free": "its cuMemFree", "launch": "cuLaunchKernel"}
    for what, aim in (("alloc", "+ 150"), ("free", ""), ("small", "+ 150"), ("small-free", ""), ("launch", "+ 5")):
        show("limiter", f"{names[what]}: the driver alone → behind the limiter", f"{without[what]:.1f} → {with_it[what]:.1f} ns", aim)
    show("limiter", "cuInit behind the limiter", f"{with_it['init'] / 1e3:.0f} µs", "1000")


def measure_attaching(folder):
    box = Box(folder / "many", folder, [(UUID, {"mib": 60000})])
    done = subprocess.run([*box.enter, folder / "cuda_costs", "attach", str(PROCESSES)], check=True, text=True, capture_output=True)
    show("limiter", f"{PROCESSES} processes attach at once", f"{float(done.stdout.split()[2]):.0f} ms", "1000")
