# SPDX-License-Identifier: Apache-2.0
"""Turns on a card: what containers get of it, beside the same programs in the driver's own time slices; and what turns cost the agent."""
import contextlib
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from rig import ROOT, Skip, show

sys.path[:0] = [str(ROOT / "test/limiter"), str(ROOT / "test/sim")]
from container import BUILT, ENTER  # noqa: E402

SECONDS, BEATING, WARM_MS, LAST_MS = 6, 20, 1000, 300
SIM = BUILT / "sim"


class Machine:
    """A simulated one with one card, and the programs of some containers on it."""

    def __init__(self, folder):
        self.folder, self.n = folder, 0
        (folder / "fleet.yaml").write_text("gpus: [{model: h100-80, count: 1}]")
        self.env = dict(os.environ, CLEAVE_SIM_STATE=str(folder / "state"), CLEAVE_SIM_FLEET=str(folder / "fleet.yaml"), CLEAVE_SIM_PROC=str(folder / "proc"))
        told = subprocess.run([SIM / "cleave-simctl", "show", "--json"], env=self.env, check=True, text=True, capture_output=True).stdout
        self.uuid = json.loads(told)["gpus"][0]["uuid"]
        self.probe = folder / "probe"
        subprocess.run(["gcc", "-O2", f"-I{ROOT}", "-o", self.probe, ROOT / "test/e2e/cuda_probe.c", SIM / "libcuda.so.1"], check=True)

    @contextlib.contextmanager
    def shares(self, *policies):
        """The agent's side of containers with these shares: the words that enter each."""
        self.n += 1
        root = self.folder / f"shares{self.n}"
        words = [f"{i} {self.uuid} 3000 {one}" for i, one in enumerate(policies)]
        host = subprocess.Popen([BUILT / "test/limiter/shares_host", root, *words], stdout=subprocess.PIPE, text=True)
        try:
            assert host.stdout.readline() == "ready\n"
            yield [self.container(root / f"share.{i}") for i in range(len(policies))]
        finally:
            host.terminate()
            host.wait(20)

    def container(self, share):
        path = self.folder / f"container-{self.n}-{share.name}"
        (path / "scratch").mkdir(parents=True)
        (path / "share").symlink_to(share)
        return ["unshare", "--mount", "sh", "-c", ENTER, "container", str(path), str(BUILT / "limiter"), str(SIM)]

    def runs(self, *programs):
        """What each prints: (words before it, its own words), all at the same time."""
        plain = dict(self.env, LD_LIBRARY_PATH=str(SIM))
        started = [
            subprocess.Popen([*before, str(self.probe), *map(str, words)], env=self.env if before else plain, stdout=subprocess.PIPE, text=True)
            for before, words in programs
        ]
        return [one.communicate(timeout=120)[0] for one in started]


def parts(printed, us):
    """The card's time that each had, of all that passed while all ran."""
    counts = [{int(ms): int(n) for ms, n in re.findall(r"^spun (\d+) (\d+)$", text, re.M)} for text in printed]
    begin, end = max(min(c) for c in counts) + WARM_MS, min(max(c) for c in counts) - LAST_MS
    had = []
    for count in counts:
        first, last = min(ms for ms in count if ms >= begin), max(ms for ms in count if ms <= end)
        had.append((count[last] - count[first]) * us / 1000 / (last - first))
    return had


def feeding(us):
    return ["feed", SECONDS, us]


def spinning(us):
    return ["spin", SECONDS, us]


def p99_ms(printed):
    return int(re.search(r"^beat \d+ \d+ (\d+) ", printed, re.M)[1]) / 1000


def turns():
    print("\nTurns on a simulated card")
    if os.geteuid() != 0:
        raise Skip("mount namespaces are root's")
    subprocess.run(["make", "-s", "-j2", "VARIANT=release", "sim", "limiter", "build/release/test/limiter/shares_host", "build/release/test/bench/arbiter_bench"], cwd=ROOT, check=True)
    with tempfile.TemporaryDirectory() as name:
        machine = Machine(Path(name))
        for us in (100, 1000, 5000):
            measure_parts(machine, us, f"kernels of {us / 1000:g} ms", feeding(us))
        measure_parts(machine, 100, "the same of 0.1 ms, by programs that wait for each eight", spinning(100))
        measure_alone(machine)
        measure_priority(machine)
    measure_agent()


def measure_parts(machine, us, what, words):
    plain = sum(parts(machine.runs(([], words), ([], words)), us))
    with machine.shares("30 lent", "70 lent") as (first, second):
        small, large = parts(machine.runs((first, words), (second, words)), us)
    show("turns", f"{what}: 30 and 70 percent", f"{100 * small / (small + large):.1f} / {100 * large / (small + large):.1f} %", "± 5")
    show("turns", f"{what}: busy, of what plain time slices are", f"{100 * (small + large) / plain:.1f} %", "95")


def measure_alone(machine):
    us = 1000
    [bare] = parts(machine.runs(([], spinning(us))), us)
    with machine.shares("30 lent") as [only]:
        [ours] = parts(machine.runs((only, spinning(us))), us)
    show("turns", "alone and not capped: what the limiter takes", f"{100 * (1 - ours / bare):.2f} %", "0.5")
    with machine.shares("30 capped") as [only]:
        [capped] = parts(machine.runs((only, spinning(us))), us)
    show("turns", "alone and capped to 30 percent", f"{100 * capped:.1f} %", "30")


def measure_priority(machine):
    us = 1000
    with machine.shares("0 lent") as [only]:
        [alone] = machine.runs((only, ["beat", BEATING, us]))
    with machine.shares("0 lent", "0 low") as (high, low):
        beside, _ = machine.runs((high, ["beat", BEATING, us]), (low, ["spin", BEATING, us]))
    show("turns", "p99 of a kernel of 1 ms, high priority: alone → beside a low one", f"{p99_ms(alone):.1f} → {p99_ms(beside):.1f} ms", f"{p99_ms(alone) + 2:.1f}")


def measure_agent():
    done = subprocess.run([ROOT / "build/release/test/bench/arbiter_bench", "16", str(SECONDS)], check=True, text=True, capture_output=True)
    contended, alone = (line.split(": ", 1)[1].split(" of a core, ") for line in done.stdout.splitlines())
    show("turns", f"the agent, 16 cards that two containers each want ({contended[1]})", f"{contended[0]}", "1 % of a core")
    show("turns", "the agent, 16 cards that one container each wants", f"{alone[0]}", "0 %")
