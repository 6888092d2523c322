# SPDX-License-Identifier: Apache-2.0
"""A write that is on its way while its sender loses the lease: for each kind of write the API server refuses it.

The write has left the leader and has not arrived when the leader is stopped (SIGSTOP); another replica takes over and
acts, and only then the write comes through. CLEAVE_TORTURE=1 does it for every kind, else for those that can harm.
"""

import contextlib
import os
import signal
import sys
import threading

import pytest
from conftest import ROOT, wait_for
from replicas import SHORT, acted, replica, wait_leads
from stack import Api, ApiError, is_true, rig  # noqa: F401

sys.path.append(str(ROOT / "test" / "fault"))
from proxy import FaultProxy, Harm  # noqa: E402

CUT = {"mode": "mig", "mig": {"profiles": {"1g.10gb": 7}}}
HALVES = {"mode": "mig", "mig": {"profiles": {"3g.40gb": 2}}}
every = pytest.mark.skipif(not os.environ.get("CLEAVE_TORTURE"), reason="CLEAVE_TORTURE is not set")


class Late:
    """Two replicas; what the first one writes goes through a proxy that can hold one request back, with its sender stopped."""

    def __init__(self, rig):
        self.rig, self.node = rig, rig.node()
        self.arrived, self.on_its_way = threading.Event(), threading.Event()
        self.proxy = FaultProxy(rig.cluster, kill=None, stop=self.hold, past=None)
        self.first = replica(rig, "one", way=lambda k: self.proxy.kubeconfig(k, "one"), **SHORT)
        wait_leads(rig, self.first)
        self.second = replica(rig, "two", **SHORT)
        wait_for(lambda: self.node.device()["metadata"].get("ownerReferences"), 30, "the first writes to be over")

    def hold(self, by, seconds):
        """In the proxy's thread of this request."""
        self.first.signal(signal.SIGSTOP)
        self.arrived.set()
        self.on_its_way.wait(120)

    def order(self, verb, resource, subresource=""):
        """Which write of the first replica is to be late."""
        self.late = Harm(by="one", verb=verb, resource=resource, subresource=subresource, do="stop")
        self.proxy.order(self.late)

    def hand_over(self):
        """Until the second replica leads, and the write is still on its way."""
        wait_for(self.arrived.is_set, 60, lambda: f"{self.late}; there came {self.proxy.trace[-5:]}")
        wait_leads(self.rig, self.second)
        wait_for(self.is_refused, 30, "the API server to know the second replica as the leader")
        self.mark = self.rig.cluster.audit_mark()

    def is_refused(self):
        """Would the first replica be? The second one has the Lease before the Leader names it."""
        api = Api(self.rig.cluster, self.rig.token("cleave-controller", self.rig.controller_pod("one")))
        path = f"/api/v1/nodes/{self.node.name}?dryRun=All&fieldManager=cleave-controller"
        try:
            api.request("PATCH", path, {"metadata": {}}, "application/merge-patch+json")
        except ApiError as error:
            return error.code == 403
        finally:
            api.close()
        return False

    def arrive(self):
        """Lets the write through, and then its sender go on. Returns the API server's answer to it."""
        key = ("one", self.late.verb, self.late.resource, self.late.subresource)
        before = len(self.proxy.trace)  # the answer to an earlier write may have come after the order
        self.on_its_way.set()
        code = wait_for(lambda: next((r.code for r in self.proxy.trace[before:] if r.key()[:4] == key), None), 30, "the API server to answer it")
        self.first.signal(signal.SIGCONT)
        wait_for(lambda: not self.first.running(), 30, "the first replica to notice")
        assert acted(self.rig, self.first, self.mark) == []
        return code

    def end(self):
        self.on_its_way.set()
        self.first.signal(signal.SIGCONT)
        with contextlib.suppress(Exception):
            self.first.stop()
        self.proxy.end()


@pytest.fixture
def late(rig):
    made = Late(rig)
    yield made
    made.end()


def test_an_order_that_was_given_anew_meanwhile(late):
    late.order("patch", "devices")
    profile = late.rig.profile("p", CUT)
    late.hand_over()
    late.rig.wait_ready(profile)
    late.rig.profile("p", HALVES)
    late.rig.wait_ready(profile)
    assert late.arrive() == 409
    late.rig.wait_ready(profile)
    assert late.node.layout() == {"3g.40gb": 2}


def test_an_order_that_nobody_gives_any_more(late):
    """The second replica has no reason to write: no version tells that the order is out of date."""
    late.order("patch", "devices")
    profile = late.rig.profile("p", CUT)
    wait_for(late.arrived.is_set, 60, "the order")
    late.rig.api.delete(profile)
    late.hand_over()
    assert late.arrive() == 403
    late.node.wait_reads(2)
    assert late.node.layout() == "native"


def test_an_eviction_of_a_pod_that_is_in_nobodys_way_by_now(late):
    rig, node = late.rig, late.node
    profile = rig.profile("p", HALVES, rollout={"drain": "evict"})
    rig.wait_ready(profile)
    name = f"{rig.id}-stays"
    node.run_pod(name, 0, node.instance("3g.40gb"), 801)
    late.order("create", "pods", "eviction")
    rig.profile("p", CUT, rollout={"drain": "evict"})
    wait_for(late.arrived.is_set, 60, "the eviction")
    rig.profile("p", HALVES, rollout={"drain": "evict"})
    late.hand_over()
    rig.wait_ready(profile)
    assert late.arrive() == 403
    assert "deletionTimestamp" not in rig.api.get(f"/api/v1/namespaces/default/pods/{name}")["metadata"]


@every
def test_what_a_node_offers(late):
    late.order("patch", "nodes", "status")
    profile = late.rig.profile("p", CUT)
    late.hand_over()
    late.rig.wait_ready(profile)
    late.rig.profile("p", HALVES)
    late.rig.wait_ready(profile)
    assert late.arrive() in (409, 403)
    assert late.node.offers() == {"nvidia.com/mig-3g.40gb": 2}


@every
@pytest.mark.parametrize("plural", ("gpuprofiles", "migconfigs"))
def test_what_is_said_of_policy(late, plural):
    rig = late.rig
    late.order("patch", plural, "status")
    config = rig.config(f"{rig.id}-c", {"indices": [0], "migEnabled": True, "migDevices": {"1g.10gb": 7}})
    profile = rig.profile("p", {"mode": "mig", "mig": {"config": f"{rig.id}-c"}})
    late.hand_over()
    rig.wait_ready(profile)
    assert late.arrive() in (409, 403)
    assert is_true(rig.api.get(profile), "Ready") and is_true(rig.api.get(config), "Accepted")


@every
def test_a_taint(late):
    rig, node = late.rig, late.node
    profile = rig.profile("p", {"selector": {}, "mode": "native"}, health={"taint": "NoSchedule"})
    rig.wait_ready(profile)
    late.order("patch", "nodes")
    node.ctl("recovery-action", "--gpu", 0, "reset")
    wait_for(late.arrived.is_set, 60, "the taint")
    rig.profile("p", {"selector": {}, "mode": "native"}, health={"taint": "None"})
    late.hand_over()
    assert late.arrive() == 403
    assert not node.node_object()["spec"].get("taints")
