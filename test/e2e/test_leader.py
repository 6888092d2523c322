# SPDX-License-Identifier: Apache-2.0
"""Two replicas of the controller, of which one acts: crashes, stops, and a leader that wakes up late."""

import signal

import pytest
from conftest import ROOT, wait_for
from replicas import LEASE, accepted, acted, holder, replicas
from stack import GROUP, Api, ApiError, rig, serve  # noqa: F401

LEADER = f"{GROUP}/leaders/cleave-controller"

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
    wait_for(lambda: holder(rig) == "two", 10, "the other replica to lead")
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
    wait_for(lambda: holder(rig) == "two", 30, "the other replica to lead")
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


# --- how the API server knows the leader ---


def test_the_leader_is_named_and_a_late_one_names_itself(rig):
    first, second = replicas(rig, "one", "two")
    wait_for(lambda: rig.api.get(LEADER)["spec"]["holder"].startswith(f"{rig.id}-one_"), 10, "the first replica to be named")
    assert first.stop() == 0
    wait_for(lambda: rig.api.get(LEADER)["spec"]["holder"].startswith(f"{rig.id}-two_"), 10, "the second replica to be named")


class Stranger:
    """A replica that never leads: it sees whether the policy is in force."""

    def __init__(self, rig):
        rig.give_lease("nobody")
        rig.api.delete(LEASE)  # nobody leads, and the Leader says so
        self.path = f"/api/v1/nodes/{rig.node(start=False).name}?dryRun=All&fieldManager=cleave-controller"
        self.api = Api(rig.cluster, rig.token("cleave-controller", rig.controller_pod("stranger")))

    def is_refused(self):
        try:
            self.api.request("PATCH", self.path, {"metadata": {}}, "application/merge-patch+json")
        except ApiError as error:
            assert error.code == 403
            return True
        return False


@pytest.fixture
def stranger(rig):
    made = Stranger(rig)
    wait_for(made.is_refused, 30, "the policy to be in force")
    yield made
    apply_policies(rig)
    wait_for(made.is_refused, 30, "the policy to be in force again")
    made.api.close()


def apply_policies(rig):
    rig.cluster.kubectl("apply", "--server-side", "-k", ROOT / "config/admission")


def test_policies_that_were_removed_and_applied_again_know_the_next_leader(rig, stranger):
    """An API server that has stopped watching a built-in kind for a policy never sees it change again (kubernetes#130887)."""
    first, second = replicas(rig, "one", "two")
    node = rig.node()
    profile = rig.profile("p", CUT)
    rig.wait_ready(profile)
    rig.cluster.kubectl("delete", "-k", ROOT / "config/admission")
    wait_for(lambda: not stranger.is_refused(), 30, "the policy to be gone")
    apply_policies(rig)
    wait_for(stranger.is_refused, 30, "the policy to be in force again")
    assert first.stop() == 0
    wait_for(lambda: holder(rig) == "two", 10, "the other replica to lead")
    rig.profile("p", HALVES)
    rig.wait_ready(profile)
    node.wait_layout({"3g.40gb": 2})


def test_a_leader_that_somebody_else_is_named_for_names_itself_again(rig, stranger):
    replicas(rig, "one", "two")
    rig.node()
    profile = rig.profile("p", CUT)
    rig.wait_ready(profile)
    rig.api.merge(LEADER, {"spec": {"holder": "nobody_1"}})
    rig.profile("p", HALVES)
    rig.wait_ready(profile)
    assert rig.api.get(LEADER)["spec"]["holder"].startswith(f"{rig.id}-one_")


def test_without_the_kind_and_the_policy_a_replica_leads_all_the_same(rig, stranger):
    """As a cluster on which the resources of an older release are."""
    rig.cluster.kubectl("delete", "-f", ROOT / "crds/leaders.yaml")
    try:
        (first,) = replicas(rig, "one")
        wait_for(lambda: "Could not claim the lead" in first.text(), 10, "the replica to say so")
        rig.node()
        rig.wait_ready(rig.profile("p", CUT))
        assert first.stop() == 0
    finally:
        rig.cluster.kubectl("apply", "--server-side", "-f", ROOT / "crds/leaders.yaml")
        rig.cluster.kubectl("wait", "--for=condition=Established", "crd/leaders.gpu.cleave.dev", "--timeout=30s")
        # The API server looks for the kind again at growing intervals, and may have kept the Leader of before.
        rig.give_lease("stranger")
        wait_for(lambda: not stranger.is_refused(), 90, "the policy to see the new Leader")
        rig.give_lease("nobody")
        wait_for(stranger.is_refused, 90, "the policy to see the next one")


@pytest.mark.parametrize("holder", ["x_\n1", "x_\x00", "", "x_" + 512 * "y", "x _1"], ids=ascii)
def test_a_leader_is_named_by_printable_characters(rig, holder):
    rig.give_lease("nobody")
    with pytest.raises(ApiError) as error:
        rig.api.merge(LEADER, {"spec": {"holder": holder}})
    assert error.value.code == 422
