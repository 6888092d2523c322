# SPDX-License-Identifier: Apache-2.0
"""The transaction on simulated cards of MetaX, killed and failed at every single library call: what
test_transaction_torture.py does to NVIDIA's, and judged as there. What no change may touch are slices
that processes are in, slices that others made, with or without a name, and two neighbours: a whole card
with a process, and one that is cut into slices.
"""

import subprocess
import sys

import pytest
from test_transaction_torture import MAX_CALLS, SIM, Torture, sweep, tell

FLEET = "metaxDriverVersion: 2.32.0.6\nmacaVersion: 2.32.0.6\nseed: 7\ngpus: [{model: c500, count: 3, linked: 0}]\n"
SMALL, LARGE, HALF = "small=1024:10", "large=16384:30", "half=32768:50"

FOREIGN = """
import ctypes, sys
mx = ctypes.CDLL(sys.argv[1])
slice_id = ctypes.c_uint()
assert mx.mxSmlInit() == 0
assert mx.mxSmlSetSgpuToggle(0, 1) in (0, 23)
assert mx.mxSmlCreateSgpu(0, int(sys.argv[2]), int(sys.argv[3]), ctypes.byref(slice_id)) == 0
assert not sys.argv[4] or mx.mxSmlSetSgpuAlias(0, slice_id, sys.argv[4].encode()) == 0
"""


def make_foreign(machine, alias, mib, percent):
    """A slice on the first card, as somebody else makes it."""
    words = [sys.executable, "-c", FOREIGN, SIM / "libmxsml.so", str(mib), str(percent), alias]
    subprocess.run(words, env=machine.env, check=True, timeout=60)


# name: (slices of others, what stands, aliases in use, the wish). One of the others has no name, and the quota of one of ours.
OTHERS = [("theirs", 4096, 10), ("", 1024, 10)]
SCENARIOS = {
    "native to sgpu": ([], None, (), ["sgpu", "fixed-share", 10, SMALL, LARGE]),
    "quota, number and alias": (
        [],
        ["sgpu", "best-effort", 0, "small-0=1024:10", "small-1=1024:10", "large=16384:30", "odd=2048:5"],
        (),
        ["sgpu", "best-effort", 0, "small-0=1024:10", "small-1=1024:20", "small-2=1024:10", "even=2048:5"],
    ),
    "cut anew around a user and others": (
        OTHERS,
        ["sgpu", "best-effort", 0, SMALL, HALF],
        ("half",),
        ["sgpu", "best-effort", 0, HALF, "small=2048:10", "more=1024:10"],
    ),
    "policy": ([], ["sgpu", "best-effort", 0, SMALL, LARGE], (), ["sgpu", "burst-share", 0, SMALL, LARGE]),
    "time slice": (OTHERS, ["sgpu", "best-effort", 5, SMALL], (), ["sgpu", "best-effort", 20, SMALL]),
    "sgpu to native": ([], ["sgpu", "fixed-share", 0, SMALL, LARGE], (), ["native"]),
    "static to slices for pods": (OTHERS, ["sgpu", "best-effort", 0, SMALL, LARGE], ("slot.3",), ["sgpu", "best-effort", 0]),
}


class Scenario(Torture):
    library = "libmxsml.so"

    def __init__(self, folder, others, stands, in_use, wish):
        self.others, self.stands, self.in_use = others, stands, in_use
        super().__init__(folder, FLEET, wish)
        assert len(self.kept(self.before)[0]) == len(others) + len(in_use)

    def prepare(self, machine):
        cards = [card["uuid"] for card in machine.show()["metax"]]
        machine.ctl("attach", "--gpu", "metax:1", "--pid", 4100, "--mem", 512)
        self.change(machine, cards[2], ["sgpu", "burst-share", 0, SMALL, HALF])
        for other in self.others:
            make_foreign(machine, *other)
        if self.stands:
            self.change(machine, cards[0], self.stands)
        for alias in self.in_use:
            self.attach(machine, cards[0], alias)
        return cards[0]

    def attach(self, machine, uuid, alias):
        if alias.startswith("slot."):
            done = machine.drive("bind", uuid, "pod", "best-effort", f"{alias.removeprefix('slot.')}=1024:10")
            assert done.returncode == 0, done.stdout
        (of_card,) = (s["id"] for s in machine.show()["metax"][0]["slices"] if s["alias"] == f"cleave.{alias}")
        machine.ctl("attach", "--gpu", "metax:0", "--slice", of_card, "--pid", 4000 + of_card, "--mem", 256)

    def is_kept(self, card, made):
        return not made["alias"].startswith("cleave.") or any(p.get("slice") == made["id"] for p in card["processes"])

    def layout(self, shown):
        card = shown["metax"][0]
        ours = ((s["alias"], s["vramMiB"], s["computePct"]) for s in card["slices"])
        return card["sgpu"] and (card["schedClass"], card["timesliceMs"], *sorted(ours))

    def kept(self, shown):
        card = shown["metax"][0]
        return [s for s in card["slices"] if self.is_kept(card, s)], card["processes"], shown["metax"][1:]


@pytest.fixture(scope="module", params=list(SCENARIOS))
def scenario(request, tmp_path_factory):
    return Scenario(tmp_path_factory.mktemp("torture"), *SCENARIOS[request.param])


@pytest.mark.parametrize("action", ["kill", "kill-after", "fail:Failure", "fail:SysfsError:EIO", "fail:InvalidDeviceId"])
def test_a_metax_card_disturbed_at_every_library_call_ends_old_or_new(scenario, action, capsys):
    count = scenario.call_count()
    assert 50 < count < MAX_CALLS
    reached = sweep(scenario, [(action, n, "*") for n in range(1, count + 1)])
    if action.startswith("kill"):
        # The count holds what no order can disturb, such as mxSmlInit.
        assert all(reached[: sum(reached)]), "kills stopped before the last call"
        assert sum(reached) > 0.9 * count
    tell(capsys, f"{action}: {len(reached)} points")


@pytest.mark.parametrize("code", ["BusyDevice", "OperationNotSupport", "PermissionDenied", "SysfsWriteError:EINVAL", "SysfsWriteError:ENOSPC"])
def test_a_metax_card_refused_at_every_change_ends_old_or_new(scenario, code, capsys):
    points = [(f"fail:{code}", n, "mutating") for n in range(1, 16)]
    sweep(scenario, points)
    tell(capsys, f"{code}: {len(points)} points")
