# SPDX-License-Identifier: Apache-2.0
"""A replica or an agent lives in another time: its wall clock jumps an hour, or all its clocks run fast or slow.

CLEAVE_TORTURE=1 watches each for longer than a minute, and with the lease that operators run.
"""

import os
import struct
import threading
import time

import pytest
from conftest import ROOT, wait_for
from replicas import SHORT, holder, is_by, replica, transitions, wait_leads
from stack import rig  # noqa: F401
from test_failover import reigns, wrong_writes

from oracle import seconds  # test_failover knows where they are
from proxy import FaultProxy, Harm

TORTURE = bool(os.environ.get("CLEAVE_TORTURE"))
LEASE_FLAGS = {} if TORTURE else SHORT
ROUNDS = 8 if TORTURE else 2
HOUR = 3600
CUT = {"mode": "mig", "mig": {"profiles": {"1g.10gb": 7}}}
HALVES = {"mode": "mig", "mig": {"profiles": {"3g.40gb": 2}}}

# One of these tests waits for half a minute, others for ten seconds.
pytestmark = pytest.mark.long


class Clock:
    """Of one process: how fast it runs, and how far its wall clock is ahead (test/fault/skew.c)."""

    def __init__(self, path, rate=1.0):
        self.path, self.rate = path, rate
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(struct.pack("dd", rate, 0))
        self.env = {"CLEAVE_SKEW": str(path), "LD_PRELOAD": str(ROOT / "build" / "release" / "test" / "fault" / "skew.so")}

    def step(self, ahead_s):
        with open(self.path, "r+b") as file:
            file.write(struct.pack("dd", self.rate, ahead_s))


def pair(rig, first=None, second=None, way=None):
    """Two replicas, the first of which leads."""
    mark = rig.cluster.audit_mark()
    one = replica(rig, "one", env=first.env if first else None, way=way, **LEASE_FLAGS)
    wait_leads(rig, one, 40)
    return mark, one, replica(rig, "two", env=second.env if second else None, **LEASE_FLAGS)


def work(rig, node, rounds, between=None):
    """Layouts, one after the other, each of which is reached."""
    for i in range(rounds):
        cut, layout = ((CUT, {"1g.10gb": 7}), (HALVES, {"3g.40gb": 2}))[i % 2]
        profile = rig.profile("p", cut)
        rig.wait_ready(profile, 60)
        assert node.layout() == layout
        if between:
            between(i)


def renewals(rig, mark, count):
    """Waits for so many renewals of the Lease since the mark."""
    wait_for(lambda: sum(e.get("objectRef", {}).get("resource") == "leases" for e in rig.cluster.audit(mark)) >= count, 120, f"{count} renewals")


def cases(*some):
    """The first of them always, the others by CLEAVE_TORTURE."""
    rare = pytest.mark.skipif(not TORTURE, reason="CLEAVE_TORTURE is not set")
    return [some[0], *(pytest.param(*(s if isinstance(s, tuple) else (s,)), marks=rare) for s in some[1:])]


@pytest.mark.parametrize("who", cases("leader", "follower"))
def test_a_wall_clock_that_jumps_an_hour_changes_nothing(rig, who):
    node = rig.node()
    clock = Clock(rig.folder / "clock")
    mark, *both = pair(rig, **{{"leader": "first", "follower": "second"}[who]: clock})
    before = transitions(rig)

    def jump(i):
        clock.step((HOUR, -HOUR, 0)[i % 3])
        renewals(rig, rig.cluster.audit_mark(), 4)

    work(rig, node, ROUNDS, jump)
    assert list(wrong_writes(rig, mark, both)) == []
    assert (holder(rig), transitions(rig)) == ("one", before)
    assert all(p.running() for p in both)


@pytest.mark.parametrize("who, rate", cases(("follower", 1.3), ("leader", 0.7), ("follower", 0.7), ("leader", 1.3)))
def test_clocks_that_run_fast_or_slow_make_the_lease_flap_no_more(rig, who, rate):
    node = rig.node()
    mark, *both = pair(rig, **{{"leader": "first", "follower": "second"}[who]: Clock(rig.folder / "clock", rate)})
    before = transitions(rig)
    work(rig, node, ROUNDS, lambda i: renewals(rig, rig.cluster.audit_mark(), 4))
    assert list(wrong_writes(rig, mark, both)) == []
    assert (holder(rig), transitions(rig)) == ("one", before)


@pytest.mark.parametrize("rate", cases(1.0, 1.3, 0.7))
def test_an_agent_in_another_time_does_its_work_and_then_rests(rig, rate):
    clock = Clock(rig.folder / "clock", rate)
    node = rig.node(env=clock.env)
    rig.controller()

    def jump(i):
        clock.step((HOUR, -HOUR, 0)[i % 3])
        node.wait_reads(3)
        assert rig.writes_while(lambda: node.wait_reads(5)) == []

    rounds = max(ROUNDS, 3)
    work(rig, node, rounds, jump)
    made = [c["call"] for c in node.changes()].count("nvmlDeviceCreateGpuInstanceWithPlacement")
    assert made == sum((7, 2)[i % 2] for i in range(rounds))


class Muted:
    """What the first replica says of its Lease is lost; all else that it says arrives."""

    def __init__(self, rig):
        self.proxy = FaultProxy(rig.cluster, kill=None, stop=self.lose, past=None)
        self.muted, self.ended = threading.Event(), threading.Event()

    def way(self, kubeconfig):
        return self.proxy.kubeconfig(kubeconfig, "one")

    def mute(self):
        self.proxy.order(*(Harm(by="one", verb=verb, resource="leases", do="blackhole", seconds=600, nth=n) for verb in ("update", "get") for n in range(1, 60)))

    def lose(self, by, seconds):
        raise AssertionError("no harm here stops a program")


@pytest.mark.parametrize("who, rate", cases(("leader", 0.7), ("follower", 1.3)))
def test_a_slow_leader_that_is_not_heard_stops_before_another_begins(rig, who, rate):
    """The worst case: the leader believes its lease to last for longer, and has work without end."""
    node, muted = rig.node(), Muted(rig)
    try:
        clocks = {{"leader": "first", "follower": "second"}[who]: Clock(rig.folder / "clock", rate)}
        mark, one, two = pair(rig, way=muted.way, **clocks)
        work(rig, node, 1)
        muted.mute()
        # Something to write for whoever leads, all the time.
        n, end = 0, time.monotonic() + 60
        while holder(rig) != "two":
            n += 1
            node.label(**{"nvidia.com/mig.config": ("all-1g.10gb", "all-balanced")[n % 2]})
            assert time.monotonic() < end, f"the other replica never leads: {holder(rig)}"
        node.label(**{"nvidia.com/mig.config": "all-balanced"})
        wait_for(lambda: node.layout() == {"1g.10gb": 2, "2g.20gb": 1, "3g.40gb": 1}, 30, "the other replica to act")
        wait_for(lambda: not one.running(), 60, "the first one to know")
        assert list(wrong_writes(rig, mark, (one, two))) == []
        taken = reigns(rig, mark)[-1][1]
        last = max(seconds(e["stageTimestamp"]) for e in rig.cluster.writes(mark, "cleave-controller") if is_by(e, one))
        print(f"the last write of the first came {taken - last:.2f} s before the other one led")
        assert last < taken
    finally:
        muted.proxy.end()
