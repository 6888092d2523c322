# SPDX-License-Identifier: Apache-2.0
"""Two replicas of the controller, of which one acts: crashes, stops, and a leader that wakes up late."""

import signal

from conftest import wait_for
from replicas import LEASE, accepted, acted, holder, replicas
from stack import rig, serve  # noqa: F401

CUT = {"mode": "mig", "mig": {"profiles": {"1g.10gb": 7}}}
HALVES = {"mode": "mig", "mig": {"profiles": {"3g.40gb": 2}}}


def test_one_of_two_replicas_acts_and_both_are_ready(rig):
    first, second = replicas(rig, "one", "two")
    mark = rig.cluster.audit_mark()
    node = rig.node()
    rig.wait_ready(rig.profile("p", CUT))
    assert node.layout() == {"1g.10gb": 7}
    assert accepted(rig, first, mark) and accepted(rig, second, mark) == []
    for replica in (first, second):
        assert serve(replica, "/readyz")[0] == 200 and serve(replica, "/healthz")[0] == 200
    assert ["leader_election_master_status" in m and m.rstrip().endswith("1") for m in master(first, second)] == [True, False]


def master(*processes):
    return [next(line for line in serve(p, "/metrics")[1].splitlines() if line.startswith("leader_election_master_status")) for p in processes]


def test_a_leader_that_stops_hands_over_at_once(rig):
    first, second = replicas(rig, "one", "two")
    node = rig.node()
    first.signal(signal.SIGTERM)
    # Far below the lease's 15 s: it was given back.
    wait_for(lambda: holder(rig) == "two", 3, "the other replica to lead")
    assert first.stop() == 0
    rig.wait_ready(rig.profile("p", CUT))
    assert node.layout() == {"1g.10gb": 7}


def test_a_leader_that_is_killed_is_replaced_when_its_lease_ends(rig):
    first, second = replicas(rig, "one", "two")
    node = rig.node()
    duration = rig.api.get(LEASE)["spec"]["leaseDurationSeconds"]
    first.kill()
    profile = rig.profile("p", CUT)
    assert duration == 15
    wait_for(lambda: holder(rig) == "two", 20, "the other replica to lead")
    rig.wait_ready(profile)
    assert node.layout() == {"1g.10gb": 7}


def test_a_leader_that_was_stopped_and_wakes_up_does_nothing_more(rig):
    first, second = replicas(rig, "one", "two")
    node = rig.node()
    profile = rig.profile("p", CUT)
    rig.wait_ready(profile)
    first.signal(signal.SIGSTOP)
    try:
        wait_for(lambda: holder(rig) == "two", 25, "the other replica to lead")
        # Something to do for whoever believes to lead, at the moment of waking up.
        mark = rig.cluster.audit_mark()
        rig.profile("p", HALVES)
    finally:
        first.signal(signal.SIGCONT)
    rig.wait_ready(profile)
    node.wait_layout({"3g.40gb": 2})
    wait_for(lambda: not first.running() or "lost" in first.text().lower(), 30, "the first replica to notice")
    assert acted(rig, first, mark) == []
    assert acted(rig, second, mark)
