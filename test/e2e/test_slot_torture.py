# SPDX-License-Identifier: Apache-2.0
"""Slices for pods, made and taken back, killed and failed at every single library call.

A process of its own binds a container's slots, or releases them, and is killed by SIGKILL before its
n-th library call, or after the call's effect, or that call fails; for every n. What then comes is tried
from each of these states: the same pod's slots are bound again, or the next pod's, or the pod is gone and
its slots are released. Judged by the simulator's own tool: each slot has one slice, with what its pod asks
for, or none; slices of other pods (used or not), of other tools, with a name or without, stay exactly
as they were; no record is left of what is gone.
"""

import shutil
import signal
import tempfile
from pathlib import Path

import pytest
from test_transaction_torture import MEMORY, Machine, files, sweep, tell
from test_transaction_torture_metax import FLEET, OTHERS, make_foreign

POLICY = "fixed-share"
ACTIONS = ["kill", "kill-after", "fail:Failure", "fail:InvalidDeviceId"]
REFUSALS = ["fail:BusyDevice", "fail:PermissionDenied", "fail:SysfsWriteError:EINVAL", "fail:SysfsWriteError:ENOSPC"]


class Slots(Machine):
    """A machine with slices for pods on its first card."""

    def __init__(self, folder):
        super().__init__(folder, library="libmxsml.so")

    @property
    def card(self):
        return self.show()["metax"][0]

    def slot(self, verb, *words, fault=None):
        return self.drive(verb, self.uuid, *words, fault=fault)

    def copy(self, folder):
        """The same hardware and records in another folder."""
        other = Slots(shutil.copytree(self.folder, Path(folder) / "copy"))
        other.uuid = self.uuid
        return other

    def records(self):
        return sorted(path.name for path in (self.journals / "slots").glob("*"))


class SlotScenario:
    """What stands, and what the pod asks for: {slot: "MIB:PERCENT"}. Slots 8 and 9 are those of other pods, and 9 is used."""

    def __init__(self, folder, others, earlier, wish):
        (folder / "fleet.yaml").write_text(FLEET.replace("count: 3", "count: 1"))
        self.machine, self.earlier, self.wish = Slots(folder), earlier, wish
        self.followed = set()
        self.machine.ctl("init")
        self.machine.uuid = self.machine.card["uuid"]
        done = self.machine.drive("apply", self.machine.uuid, "sgpu", POLICY if others else "best-effort", 0)
        assert done.stdout.startswith("Applied"), done.stdout
        for other in OTHERS if others else []:
            make_foreign(self.machine, *other)
        if others:
            self.bind(self.machine, "neighbours", {8: "1024:10", 9: "1024:10"})
            (used,) = (s["id"] for s in self.machine.card["slices"] if s["alias"] == "cleave.slot.9")
            self.machine.ctl("attach", "--gpu", "metax:0", "--slice", used, "--pid", 4009, "--mem", 256)
        self.before = self.kept(self.machine.card)
        self.records = self.machine.records()
        if earlier:
            self.bind(self.machine, "earlier", earlier)

    @staticmethod
    def words(pod, wish):
        return [pod, POLICY, *(f"{slot}={quota}" for slot, quota in wish.items())]

    def bind(self, machine, pod, wish):
        done = machine.slot("bind", *self.words(pod, wish))
        assert done.returncode == 0, done.stdout + done.stderr

    def is_ours(self, made):
        return made["alias"] in {f"cleave.slot.{slot}" for slot in {**self.wish, **self.earlier}}

    def kept(self, card):
        return [s for s in card["slices"] if not self.is_ours(s)], card["processes"]

    def expect(self, machine, wish, where):
        card = machine.card
        stand = sorted((s["alias"], s["vramMiB"], s["computePct"]) for s in card["slices"] if self.is_ours(s))
        assert stand == sorted((f"cleave.slot.{slot}", *map(int, quota.split(":"))) for slot, quota in wish.items()), where
        assert self.kept(card) == self.before, f"{where}: what is another's was touched, or something nameless is left"
        assert machine.records() == sorted([*self.records, *(f"slot.{slot}.json" for slot in wish)]), where

    def release(self, machine, slots, where):
        for slot in slots:
            done = machine.slot("release", slot)
            assert done.returncode == 0, f"{where}: {done.stdout}"

    def bound_again(self, machine, pod, wish, where):
        self.bind(machine, pod, wish)
        self.expect(machine, {**self.earlier, **wish} if pod == "pod" else wish, where)
        self.gone(machine, where)

    def gone(self, machine, where):
        self.release(machine, {**self.earlier, **self.wish}, where)
        self.expect(machine, {}, where)

    def point(self, action, n, verb, calls="*"):
        """One disturbed run, and all that may come after it. Returns whether it was killed.

        What comes after depends only on what the run left. Most runs leave what an earlier one left; that is followed once.
        """
        where = f"{verb} {n} {action}"
        with tempfile.TemporaryDirectory(dir=MEMORY) as folder:
            machine = self.machine.copy(folder)
            words = self.words("pod", self.wish) if verb == "bind" else [next(iter(self.earlier))]
            run = machine.slot(verb, *words, fault=f"{calls}:{n}:{action}")
            killed = run.returncode == -signal.SIGKILL
            assert killed or run.returncode in (0, 1), f"{where}: {run.returncode} {run.stderr}"
            left = (machine.ctl("show", "--json"), *files(machine.journals))
            if left in self.followed:
                return killed
            larger = {slot: "3072:7" for slot in {**self.earlier, **self.wish}}
            for name, then in {
                "again": lambda m: self.bound_again(m, "pod", self.wish, f"{where}, bound again"),
                "next": lambda m: self.bound_again(m, "next", larger, f"{where}, the next pod"),
                "gone": lambda m: self.gone(m, f"{where}, the pod gone"),
            }.items():
                then(machine.copy(Path(folder) / name))
            self.followed.add(left)
            return killed

    def call_count(self, verb):
        with tempfile.TemporaryDirectory(dir=MEMORY) as folder:
            machine = self.machine.copy(folder)
            machine.ctl("calls", "--clear")
            words = self.words("pod", self.wish) if verb == "bind" else [next(iter(self.earlier))]
            assert machine.slot(verb, *words).returncode == 0
            return sum(int(line.split()[0]) for line in machine.ctl("calls").splitlines() if "total" not in line)


# name: (beside others, what an earlier pod had, what the pod asks for)
SCENARIOS = {
    "the first slice of a card": (False, {}, {3: "1024:10"}),
    "two slots beside others": (True, {}, {3: "1024:10", 7: "2048:5"}),
    "a slot that an earlier pod had": (True, {3: "2048:5"}, {3: "1024:10"}),
}


@pytest.fixture(scope="module", params=list(SCENARIOS))
def slots(request, tmp_path_factory):
    return SlotScenario(tmp_path_factory.mktemp("slots"), *SCENARIOS[request.param])


@pytest.fixture(scope="module", params=[False, True], ids=["alone", "beside others"])
def bound_slot(request, tmp_path_factory):
    return SlotScenario(tmp_path_factory.mktemp("slots"), request.param, {3: "1024:10"}, {3: "1024:10"})


def torture(slots, action, verb, capsys):
    count = slots.call_count(verb)
    reached = sweep(slots, [(action, n, verb) for n in range(1, count + 1)])
    if action.startswith("kill"):
        assert all(reached[: sum(reached)]) and sum(reached) > 0.8 * count, "kills stopped before the last call"
    tell(capsys, f"{verb}, {action}: {count} points")


@pytest.mark.parametrize("action", ACTIONS)
def test_a_binding_disturbed_at_every_library_call_goes_on_from_there(slots, action, capsys):
    torture(slots, action, "bind", capsys)


@pytest.mark.parametrize("action", REFUSALS)
def test_a_binding_refused_at_every_change_goes_on_from_there(slots, action):
    sweep(slots, [(action, n, "bind", "mutating") for n in range(1, 8)])


@pytest.mark.parametrize("action", ACTIONS)
def test_a_release_disturbed_at_every_library_call_goes_on_from_there(bound_slot, action, capsys):
    torture(bound_slot, action, "release", capsys)
