# SPDX-License-Identifier: Apache-2.0
"""The transaction on simulated hardware, killed and failed at every single library call.

For each scenario the change is made once undisturbed, which gives the target. Then, from the same
state of the hardware, a process of its own makes the change again and is killed by SIGKILL before
its n-th library call, or after the call's effect, or that call fails; for every n until the process
no longer reaches it. A second process recovers. Judged by the simulator's own tool: the card shows
the old layout or the target; instances with processes stand untouched (S1); the neighbour card is
exactly as it was (S7); no journal is left; and a clean run ends in the target (L1).

MetaX's library goes through the same in test_transaction_torture_metax.py.
"""

import concurrent.futures
import json
import os
import shutil
import signal
import subprocess
import tempfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / "build" / os.environ.get("TORTURE_VARIANT", "release")
SIM = BUILD / "sim"
DRIVER = BUILD / "test" / "e2e" / "txn_driver"
MEMORY = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
WORKERS = max(2, os.cpu_count() or 2)
MAX_CALLS = 5000


def files(folder):
    """Names and contents: what a process finds that starts now, besides the hardware."""
    return sorted((str(f.relative_to(folder)), f.read_bytes()) for f in folder.rglob("*") if f.is_file())


class Machine:
    """A state file of simulated cards, and the journals of whoever changes them."""

    def __init__(self, folder, state=None, library="libnvidia-ml.so.1"):
        self.folder = Path(folder)
        self.library = SIM / library
        self.state = self.folder / "hardware"
        self.journals = self.folder / "journals"
        if state:
            shutil.copyfile(state, self.state)
        self.env = dict(os.environ, CLEAVE_SIM_STATE=str(self.state), CLEAVE_SIM_FLEET=str(self.folder / "fleet.yaml"))
        self.env.pop("CLEAVE_SIM_FAULT", None)

    def run(self, program, *words, fault=None):
        env = dict(self.env, CLEAVE_SIM_FAULT=fault) if fault else self.env
        return subprocess.run(
            [str(program), *map(str, words)], env=env, text=True, capture_output=True, timeout=60, close_fds=False
        )

    def ctl(self, *words):
        done = self.run(SIM / "cleave-simctl", *words)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def show(self):
        return json.loads(self.ctl("show", "--json"))

    def drive(self, *words, fault=None):
        return self.run(DRIVER, self.library, SIM / "nvidia-smi", self.journals, *words, fault=fault)

    def has_journal(self):
        return any(self.journals.glob("*.json"))


def layout(gpu):
    """What a layout is: mode and every placement. UUIDs and ids are new with each creation."""
    instances = [
        (
            gi["profileId"],
            gi["placement"]["start"],
            gi["placement"]["size"],
            tuple(sorted((ci["placement"]["start"], ci["placement"]["size"]) for ci in gi["computeInstances"])),
        )
        for gi in gpu["gpuInstances"]
    ]
    return gpu["migCurrent"], gpu["migPending"], tuple(sorted(instances))


def used(shown):
    """The instances of card 0 that processes run on, with the identity they must keep."""
    busy = {p["gi"] for p in shown["processes"] if p["gpu"] == 0 and "gi" in p}
    return [gi for gi in shown["gpus"][0]["gpuInstances"] if gi["id"] in busy]


# name: (fleet, what stands on card 0, profiles in use, the wish)
SCENARIOS = {
    "h100 native to mig": ("h100-80", None, (), ["mig", "1g.10gb=2", "2g.20gb=1", "3g.40gb=1"]),
    "h100 re-cut around a user": (
        "h100-80",
        ["mig", "3g.40gb=1", "2g.20gb=1", "1g.10gb=1"],
        ("3g.40gb",),
        ["mig", "3g.40gb=2"],
    ),
    "h100 compute instances cut anew": (
        "h100-80",
        ["mig", "1c.4g.40gb=4", "3g.40gb=1"],
        ("3g.40gb",),
        ["mig", "2c.4g.40gb=1", "1c.4g.40gb=2", "3g.40gb=1"],
    ),
    "h100 mig to native": ("h100-80", ["mig", "1c.3g.40gb=2", "4g.40gb=1"], (), ["native"]),
    "a100 native to mig": ("a100-80", None, (), ["mig", "3g.40gb=1", "1g.10gb+me=1"]),
    "a100 mig to native": ("a100-80", ["mig", "2g.20gb=1", "1g.20gb=1"], (), ["native"]),
}


class Torture:
    """A change of one card, from one state of the hardware, disturbed at one point after the other. What a vendor's cards
    show is for whoever inherits."""

    library = "libnvidia-ml.so.1"

    def __init__(self, folder, fleet, wish):
        (folder / "fleet.yaml").write_text(fleet)
        self.base = folder / "base"
        self.wish = wish
        self.followed = set()
        machine = self.machine(folder, None)
        machine.ctl("init")
        self.uuid = self.prepare(machine)
        shutil.copyfile(machine.state, self.base)
        self.before = machine.show()
        self.old = self.layout(self.before)
        self.change(machine, self.uuid, wish)
        self.target = self.layout(machine.show())
        assert self.target != self.old

    def prepare(self, machine):
        """What stands before, on the new machine. Returns the card's UUID."""
        raise NotImplementedError

    def layout(self, shown):
        """The card's, without what is new with each creation."""
        raise NotImplementedError

    def kept(self, shown):
        """What no change may touch, with all that it is."""
        raise NotImplementedError

    def machine(self, folder, state):
        return Machine(folder, state, self.library)

    @staticmethod
    def change(machine, uuid, wish):
        done = machine.drive("apply", uuid, *wish)
        assert done.returncode == 0 and done.stdout.startswith("Applied"), done.stdout + done.stderr

    def check(self, machine, allowed, where):
        shown = machine.show()
        got = self.layout(shown)
        assert got in allowed, f"{where}: {got}, neither of {allowed}"
        assert self.kept(shown) == self.kept(self.before), f"{where}: what is none of its business was touched"
        assert not machine.has_journal(), f"{where}: a journal is left"

    def allowed(self, said):
        """The layouts that a run may leave that said this of itself, or was killed before it could."""
        if said.startswith("Applied"):
            return (self.target,)
        if said.startswith(("RolledBack", "InUse")):
            return (self.old,)
        return (self.old, self.target)

    def point(self, action, n, calls="*"):
        """One disturbed run and what comes after. Returns whether the n-th call was reached.

        What comes after depends on what the run left alone, and most leave what another left before: that is followed once.
        """
        where = f"{calls} {n} {action}"
        with tempfile.TemporaryDirectory(dir=MEMORY) as folder:
            machine = self.machine(folder, self.base)
            run = machine.drive("apply", self.uuid, *self.wish, fault=f"{calls}:{n}:{action}")
            killed = run.returncode == -signal.SIGKILL
            assert killed or run.returncode in (0, 1, 2), f"{where}: {run.returncode} {run.stderr}"
            left = (killed, self.allowed(run.stdout), machine.ctl("show", "--json"), *files(machine.journals))
            if left in self.followed:
                return killed
            if killed or machine.has_journal():
                after = machine.drive("recover", self.uuid)
                assert after.returncode == 0, f"{where}: {run.stdout} then {after.stdout}{after.stderr}"
            self.check(machine, self.allowed(run.stdout), where)
            clean = machine.drive("apply", self.uuid, *self.wish)
            assert clean.stdout.startswith(("Applied", "NothingToDo")), f"{where}: {clean.stdout}{clean.stderr}"
            self.check(machine, (self.target,), where)
            self.followed.add(left)
            return killed

    def call_count(self):
        """How many library calls the undisturbed change makes, the reset's program included."""
        with tempfile.TemporaryDirectory(dir=MEMORY) as folder:
            machine = self.machine(folder, self.base)
            machine.ctl("calls", "--clear")
            self.change(machine, self.uuid, self.wish)
            return sum(int(line.split()[0]) for line in machine.ctl("calls").splitlines() if "total" not in line)


class Scenario(Torture):
    """NVIDIA: the second card has one instance that fills it."""

    def __init__(self, folder, model, stands, in_use, wish):
        self.stands, self.in_use = stands, in_use
        fleet = f'driverVersion: 580.95.05\ncudaVersion: "13.0"\nseed: 7\ngpus: [{{model: {model}, count: 2}}]\n'
        super().__init__(folder, fleet, wish)
        assert len(used(self.before)) == len(in_use)

    def prepare(self, machine):
        cards = [gpu["uuid"] for gpu in machine.show()["gpus"]]
        self.change(machine, cards[1], ["mig", "7g.80gb=1"])
        if self.stands:
            self.change(machine, cards[0], self.stands)
        for gi in machine.show()["gpus"][0]["gpuInstances"]:
            if gi["profile"] in self.in_use:
                machine.ctl("attach", "--gpu", 0, "--gi", gi["id"], "--ci", 0, "--pid", 4000 + gi["id"])
        return cards[0]

    def layout(self, shown):
        return layout(shown["gpus"][0])

    def kept(self, shown):
        return used(shown), shown["gpus"][1]


@pytest.fixture(scope="module", params=list(SCENARIOS))
def scenario(request, tmp_path_factory):
    model, stands, in_use, wish = SCENARIOS[request.param]
    return Scenario(tmp_path_factory.mktemp("torture"), model, stands, in_use, wish)


def sweep(scenario, points):
    """Runs (action, n, calls) points side by side. Returns what each said."""
    with concurrent.futures.ThreadPoolExecutor(WORKERS) as pool:
        return list(pool.map(lambda p: scenario.point(*p), points))


def tell(capsys, text):
    with capsys.disabled():
        print(f"    {text}")


@pytest.mark.parametrize("action", ["kill", "kill-after", "fail:UNKNOWN"])
def test_disturbed_at_every_library_call_ends_old_or_new(scenario, action, capsys):
    count = scenario.call_count()
    assert count < MAX_CALLS
    reached = sweep(scenario, [(action, n, "*") for n in range(1, count + 1)])
    if action.startswith("kill"):
        # The count holds the reset program's calls too; those of the process itself come first.
        assert all(reached[: sum(reached)]), "kills stopped before the last call"
        assert sum(reached) > 100
    tell(capsys, f"{action}: {len(reached)} points")


@pytest.mark.parametrize("code", ["IN_USE", "INSUFFICIENT_RESOURCES", "GPU_IS_LOST", "TIMEOUT"])
def test_refused_at_every_change_ends_old_or_new(scenario, code, capsys):
    points = [(f"fail:{code}", n, "mutating") for n in range(1, 16)]
    sweep(scenario, points)
    tell(capsys, f"{code}: {len(points)} points")
