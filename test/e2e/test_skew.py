# SPDX-License-Identifier: Apache-2.0
"""Programs of two releases side by side: of this one and of the one before (hack/before.sh), as processes beside an API server
whose definitions have gained fields that neither release knows."""

import itertools
import json

import pytest
from conftest import Cluster, wait_for
from kubelet_stub import kubelet  # noqa: F401
from pod_images import release_before
from stack import install, mig, rig  # noqa: F401
from test_plugin_stub import GPU, HALF, SMALL, Host

RELEASES = ("today", "before")
NEW = "newInTheTest"
FIELD = {"type": "string"}


@pytest.fixture(scope="module")
def cluster(rundir):
    """One of its own: its definitions are of a release to come."""
    it = Cluster(rundir / "lane-skew" / "kube")
    it.rundir.parent.mkdir(parents=True, exist_ok=True)
    it.start()
    install(it)
    gain_fields(it.kubectl)
    yield it
    it.stop(purge=False)


def gain_fields(kubectl):
    for name in ("devices", "gpuprofiles"):
        definition = kubectl.json("get", "crd", f"{name}.gpu.cleave.dev")
        for version in definition["spec"]["versions"]:
            grow(version["schema"]["openAPIV3Schema"]["properties"])
        kubectl("replace", "-f", "-", input=json.dumps(definition))


def grow(properties):
    """A field more in spec, in status, and in each card of both."""
    for part in ("spec", "status"):
        properties[part]["properties"][NEW] = FIELD
        properties[part]["properties"].get("devices", {}).get("items", {}).get("properties", {})[NEW] = FIELD


@pytest.fixture(scope="module")
def before():
    found = release_before()
    if not found:
        pytest.skip("this clone's history does not reach back to the release before (hack/before.sh)")
    return found / "bin"


@pytest.fixture
def program(before, release):
    return lambda which, name: before / name if which == "before" else release(name)


def start(host, program, which):
    # the release before knows no telemetry
    host.start(program=program(which, "cleave-agent"), name=f"{which}-{len(host.node.rig.processes.all)}", telemetry_interval=None if which == "before" else 0)
    wait_for(lambda: host.node.rig.api.find(host.node.path), 30, "the agent's Device")


def wish(profiles):
    return {"selector": {"vendor": "nvidia"}, "mode": "mig", "mig": {"profiles": profiles}, NEW: "of the card"}


@pytest.mark.parametrize(("agent", "controller"), list(itertools.product(RELEASES, RELEASES)))
def test_profile_partition_and_pod(rig, kubelet, program, agent, controller):
    """The second half is the other agent's, which finds what the first one left."""
    host = Host(rig, kubelet, {"h100-80": 1})
    start(host, program, agent)
    rig.controller(program=program(controller, "cleave-controller"))
    path = rig.profile("p", wish({"3g.40gb": 1, "1g.10gb": 2}))
    rig.api.merge(path, {"spec": {NEW: "of the profile"}})
    rig.wait_ready(path)
    kubelet.wait_offers(**{HALF: 1, SMALL: 2})
    pod = kubelet.admit("default", "runs", {HALF: 1})
    assert rig.api.get(path)["spec"][NEW] == "of the profile"

    host.node.agent.stop()
    start(host, program, other(agent))
    kubelet.wait_offers(60, **{HALF: 1, SMALL: 2})
    rig.profile("p", wish({"3g.40gb": 1, "2g.20gb": 1}))
    rig.wait_ready(path)
    kubelet.wait_offers(**{HALF: 1, "nvidia.com/mig-2g.20gb": 1})
    kubelet.readmit(pod)
    assert host.node.layout() == {"3g.40gb": 1, "2g.20gb": 1}


def other(which):
    return RELEASES[1 - RELEASES.index(which)]


@pytest.mark.parametrize("writer", RELEASES)
def test_change_that_one_release_began_is_ended_by_the_other(rig, kubelet, program, writer):
    """The journal, and the order that was followed last."""
    host = Host(rig, kubelet, {"h100-80": 1})
    start(host, program, writer)
    host.cut({"3g.40gb": 1})
    host.node.ctl("fault", "add", "--call", "nvmlDeviceCreateGpuInstanceWithPlacement", "--nth", 2, "--action", "kill")
    host.node.want(mig(host.node.uuid(), {"1g.10gb": 7}))
    host.node.agent.popen.wait(60)
    journal = host.node.folder / "state" / f"{host.node.uuid()}.json"
    assert journal.exists()
    start(host, program, other(writer))
    host.node.wait_layout({"1g.10gb": 7}, timeout=60)
    kubelet.wait_offers(60, **{SMALL: 7})
    host.node.wait_ready()
    assert not journal.exists()
    # The release before says so only where the kubelet's list of devices in use came first.
    if other(writer) == "today":
        assert "Recovered an interrupted change" in host.node.agent.text()


@pytest.mark.parametrize("agent", RELEASES)
def test_fields_of_a_release_to_come_are_passed_over_in_an_order_and_taken_out_of_a_status(rig, kubelet, program, agent):
    """What only a newer agent could say would stay for ever, and be wrong."""
    host = Host(rig, kubelet, {"h100-80": 1})
    start(host, program, agent)
    kubelet.wait_offers(**{GPU: 1})
    rig.api.merge(f"{host.node.path}/status", {"status": {NEW: "an agent's to come"}})
    host.node.want(mig(host.node.uuid(), {"1g.10gb": 7}, **{NEW: "of the card"}), **{NEW: "of the order"})
    host.node.wait_layout({"1g.10gb": 7})
    host.node.wait_ready()
    assert host.node.device()["spec"][NEW] == "of the order"
    wait_for(lambda: NEW not in host.node.status(), 30, "the status to be the agent's own")
