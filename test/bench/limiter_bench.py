# SPDX-License-Identifier: Apache-2.0
"""What the limiter costs and how well it keeps limits, beside a driver alone and, where HAMI_CORE names its libvgpu.so
(hack/hami-core.sh), beside HAMi-core: the same programs before the same drivers, one that does nothing and does it at once, and the
simulated one. The null driver has no NVML; HAMi-core is given the simulator's.

HAMi-core does not say of which card a kernel is by its length, but by its blocks: those here fill the card (test/e2e/cuda_probe.c)."""
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from rig import BIN, ROOT, Skip, results

sys.path[:0] = [str(ROOT / "test/limiter"), str(ROOT / "test/sim")]
from container import Box  # noqa: E402
from cuda import CONTEXT, MIB  # noqa: E402
from test_turns import PROBE, Host, Spinner, parts  # noqa: E402

HAMI_CORE = os.environ.get("HAMI_CORE")
ROUNDS, FILLS = 5, 3
NULL_UUID = "GPU-" + "01" * 4 + "-0101-0101-0101-" + "01" * 6
LIMIT_MIB = 60000
ATTACHING, FILLING, PIECE_MIB = 1024, 64, 10
LATE_S = 60  # after so long one is not waited for any longer
SPIN_S, SETTLED_MS = 14, 5000
SIDES = ["bare", "ours"] + ["HAMi-core"] * (HAMI_CORE is not None)


class Machine:
    """A simulated host; Container and Host of the tests know it by env and show()."""

    def __init__(self, folder):
        self.env = dict(os.environ, CLEAVE_SIM_STATE=str(folder / "hardware"), CLEAVE_SIM_FLEET=str(ROOT / "sim/fleets/h100-80.yaml"))
        subprocess.run([BIN / "sim/cleave-simctl", "init"], env=self.env, check=True, stdout=subprocess.DEVNULL)

    def show(self):
        return json.loads(subprocess.run([BIN / "sim/cleave-simctl", "show", "--json"], env=self.env, check=True, stdout=subprocess.PIPE).stdout)


class Side:
    """A container whose programs meet the drivers of a folder as `name` has it."""

    def __init__(self, name, folder, machine, drivers, uuid, percent=None):
        self.machine, self.enter, self.more = machine, [], {"LD_LIBRARY_PATH": str(drivers)}
        folder.mkdir()
        if name == "ours":
            self.more = {}
            self.enter = Box(folder / "box", drivers, [(uuid, {"mib": LIMIT_MIB, "context": CONTEXT})]).enter
        elif name == "HAMi-core":
            self.more |= {
                "LD_PRELOAD": HAMI_CORE, "CUDA_REDIRECT": HAMI_CORE, "CUDA_DEVICE_MEMORY_SHARED_CACHE": str(folder / "cache"),
                "CUDA_DEVICE_MEMORY_LIMIT_0": f"{LIMIT_MIB}m", "LIBCUDA_LOG_LEVEL": "0",
            }  # fmt: skip
            if percent:
                self.more["CUDA_DEVICE_SM_LIMIT"] = str(percent)

    def environment(self):
        return {**self.machine.env, **self.more}

    def costs(self, program, *words):
        """What cuda_costs prints; None: it does not end in time, or well."""
        command = [*self.enter, str(program), *map(str, words)]
        try:
            done = subprocess.run(command, env=self.environment(), text=True, capture_output=True, timeout=LATE_S)
        except subprocess.TimeoutExpired:
            return None
        return done.stdout.split() if done.returncode == 0 else None


class Bench:
    def __init__(self, folder):
        self.folder, self.made, self.machine = folder, 0, Machine(folder)
        self.uuid = self.machine.show()["gpus"][0]["uuid"]
        common = ["gcc", "-O2", "-D_GNU_SOURCE", f"-I{ROOT}"]
        self.null, self.costs, self.probe = folder / "null", folder / "cuda_costs", folder / "probe"
        self.null.mkdir()
        (self.null / "libnvidia-ml.so.1").symlink_to(BIN / "sim/libnvidia-ml.so.1")
        libcuda = self.null / "libcuda.so.1"
        subprocess.run([*common, "-shared", "-fPIC", "-Wl,-soname,libcuda.so.1", "-o", libcuda, ROOT / "test/bench/null_cuda.c"], check=True)
        subprocess.run([*common, "-o", self.costs, ROOT / "test/bench/cuda_costs.c", libcuda], check=True)
        subprocess.run([*common, "-o", self.probe, PROBE, BIN / "sim/libcuda.so.1"], check=True)

    def side(self, name, simulated=True, **more):
        self.made += 1
        drivers, uuid = (BIN / "sim", self.uuid) if simulated else (self.null, NULL_UUID)
        return Side(name, self.folder / f"side{self.made}", self.machine, drivers, uuid, **more)


def row(what, found, aim=""):
    """found: {side: text}."""
    print(f"  {what:<62}" + "".join(f" {found.get(side, '–'):>14}" for side in SIDES) + f"  {aim}", flush=True)
    results.setdefault("limiter", {})[what] = found


def limiter():
    print("\nThe limiter, beside" + "".join(f" {side:>14}" for side in SIDES).rjust(64 - 19 + 15 * len(SIDES)) + "  aim")
    if os.geteuid() != 0:
        raise Skip("mount namespaces are root's")
    subprocess.run(["make", "-s", "VARIANT=release", "sim", "limiter", "build/release/test/limiter/shares_host"], cwd=ROOT, check=True)
    with tempfile.TemporaryDirectory() as name:
        bench = Bench(Path(name))
        calls(bench)
        attaching(bench)
        filling(bench)
        for us in (100, 1000, 5000):
            turns(bench, us)


# --- Calls ---

CALLS = {
    "alloc": ("cuMemAlloc of 2 MiB", "bare + 150 ns"), "free": ("its cuMemFree", ""), "small": ("cuMemAlloc of 64 KiB", "bare + 150 ns"),
    "small-free": ("its cuMemFree", ""), "launch": ("cuLaunchKernel", "bare + 5 ns"),
}  # fmt: skip


def medians(runs):
    """Of runs of `cuda_costs calls`, by name."""
    found = [dict(zip(words[::2], map(float, words[1::2]))) for words in runs]
    return {key: statistics.median(one[key] for one in found) for key in found[0]}


def times(text, value):
    return "does not run" if value is None else text.format(value)


def in_turn(bench, simulated, *words):
    """What runs of cuda_costs print, by side. The sides take turns, so that all have the machine as it is at the time."""
    runs = [(side, bench.side(side, simulated).costs(bench.costs, *words)) for _ in range(ROUNDS) for side in SIDES]
    return {side: [found for of, found in runs if of == side] for side in SIDES}


def calls(bench):
    found = {side: medians(runs) if None not in runs else {} for side, runs in in_turn(bench, False, "calls").items()}
    for key, (name, aim) in CALLS.items():
        row(f"{name}, the driver does nothing", {side: times("{:.1f} ns", one.get(key)) for side, one in found.items()}, aim)
    found = {side: statistics.median(1e3 * float(run[2]) for run in runs) if None not in runs else None for side, runs in in_turn(bench, True, "attach", 1).items()}
    row("cuInit, simulated driver", {side: times("{:.0f} µs", one) for side, one in found.items()}, "1000 µs")


# --- Many processes ---


def attaching(bench):
    found = {}
    for side in SIDES:
        words = bench.side(side, simulated=False).costs(bench.costs, "attach", ATTACHING)
        found[side] = f"{float(words[2]):.0f} ms" if words else f"> {LATE_S} s"
    row(f"{ATTACHING} processes attach at once, the driver does nothing", found, "1000 ms")


def filling(bench):
    """Bare they fill the card, which is not tried."""
    found = {}
    for side in SIDES[1:]:
        runs = [bench.side(side).costs(bench.costs, "fill", FILLING, PIECE_MIB) for _ in range(FILLS)]
        past = [int(words[1]) + FILLING * CONTEXT // MIB - LIMIT_MIB for words in runs if words]
        found[side] = f"{max(past):+d} MiB" if len(past) == FILLS else f"> {LATE_S} s"
    row(f"{FILLING} processes fill {LIMIT_MIB} MiB, simulated driver: most past it", found, "0")


# --- Compute ---


class Plain:
    """Host of the tests, without an agent."""

    def __init__(self, bench, side):
        self.probe = bench.probe
        self.boxes = [bench.side(side, percent=percent) for percent in (30, 70)]

    def spins(self, share, seconds, us, word):
        return Spinner(self.boxes[share], self.probe, word, seconds, us)

    def end(self):
        pass


def host(bench, side):
    if side != "ours":
        return Plain(bench, side)
    bench.made += 1
    folder = bench.folder / f"host{bench.made}"
    folder.mkdir()
    return Host(bench.machine, folder, bench.probe, [(30, "lent"), (70, "lent")])


def turns(bench, us):
    small, done = {}, {}
    for side in SIDES:
        one = host(bench, side)
        spinners = [one.spins(share, SPIN_S, us, "feed") for share in (0, 1)]
        percent, _ = parts(spinners, after=SETTLED_MS)
        begin, end = max(min(spinner.counts) for spinner in spinners) + SETTLED_MS, min(max(spinner.counts) for spinner in spinners) - 300
        one.end()
        small[side] = f"{percent:.1f} %"
        done[side] = f"{sum(spinner.done(begin, end) for spinner in spinners) * us / 10 / (end - begin):.0f} %"
    row(f"30 beside 70 percent, kernels of {us / 1000:g} ms: the first one's part", small, "30 ± 5 %")
    row(f"30 beside 70 percent, kernels of {us / 1000:g} ms: of the card", done, "95 %")
