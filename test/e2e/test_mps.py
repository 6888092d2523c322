# SPDX-License-Identifier: Apache-2.0
"""Sharing by MPS, with a script in place of NVIDIA's control daemon: what it is told, what containers get, what
becomes of both when it dies or its partition goes."""

import os
import shutil
import signal
import tempfile
from pathlib import Path

import pytest
from conftest import ROOT, wait_for
from kubelet_stub import grpc, kubelet  # noqa: F401
from stack import GROUP, condition, mig, native, rig, sanitized  # noqa: F401
from test_plugin_stub import GPU, HALF, SMALL, Host

SAMPLE = ROOT / "config" / "samples" / "mps.yaml"

CONTROL = """#!/bin/sh
cd "$CUDA_MPS_PIPE_DIRECTORY" || exit 9
if [ "$1" = -f ]; then
    [ ! -e ../../broken ] || exit 7
    echo "$CUDA_VISIBLE_DEVICES" > visible
    echo "$CUDA_VISIBLE_DEVICES" >> ../starts
    echo $$ > control
    exec sleep 3600
fi
[ -e control ] || exit 1
cat > commands
"""


class Shared(Host):
    """A node whose agent runs the script."""

    def __init__(self, rig, kubelet, fleet, root, offers=None, **more):
        super().__init__(rig, kubelet, fleet)
        self.root = root
        control = self.node.folder / "mps-control"
        control.write_text(CONTROL)
        control.chmod(0o755)
        self.start(mps_root=root, mps_control=control, **more)
        kubelet.wait_offers(timeout=60, **{GPU: offers or sum(fleet.values())})

    def pipe(self, unit):
        return self.root / unit / "pipe"

    def said(self, unit):
        """The commands that the unit's daemon was given."""
        return (self.pipe(unit) / "commands").read_text().splitlines()

    def pid(self, unit):
        return int((self.pipe(unit) / "control").read_text())

    def unit(self, resource, place):
        """The daemon's name of a partition: that of its CDI device."""
        return next(i for i in self.ids(resource) if f"@{place}::" in i).split("::")[0].replace("/", "-").replace("@", "-")

    def published(self):
        return condition(self.node.device(), "ResourcesPublished")


@pytest.fixture
def root():
    """Short: the path of a socket has 107 characters. Asked for before the rig, it goes after the agent; a daemon that ends with
    its agent may still write there."""
    folder = Path(tempfile.mkdtemp(prefix="mps"))
    yield folder
    wait_for(lambda: shutil.rmtree(folder, ignore_errors=True) or not folder.exists(), 10, "the daemons to have ended")


def runs(pid):
    return os.path.exists(f"/proc/{pid}")


@pytest.fixture
def card(root, rig, kubelet):
    """One whole H100, shared by four."""
    host = Shared(rig, kubelet, {"h100-80": 1}, root)
    host.node.want({**native(host.node.uuid()), "sharing": {"mps": {"replicas": 4}}})
    kubelet.wait_offers(**{GPU: 4})
    return host


def test_a_shared_card_has_a_daemon_with_limits_and_containers_are_told(card):
    uuid = card.node.uuid()
    assert (card.pipe(uuid) / "visible").read_text().strip() == uuid
    assert card.said(uuid) == ["set_default_device_pinned_mem_limit 0 20389M", "set_default_active_thread_percentage 25"]
    (answer,) = card.kubelet.allocate(GPU, [f"{uuid}::3"])
    assert answer.envs["CUDA_MPS_PIPE_DIRECTORY"] == str(card.pipe(uuid))
    assert {m.container_path: m.host_path for m in answer.mounts} == {str(card.pipe(uuid)): str(card.pipe(uuid)), "/dev/shm": "/dev/shm"}
    assert len(answer.cdi_devices) == 1
    labels = {"nvidia.com/gpu.sharing-strategy": "mps", "nvidia.com/mps.capable": "true"}
    wait_for(lambda: labels.items() <= card.node.status()["labels"].items(), 30, lambda: f"the labels: {card.node.status()['labels']}")


def test_nobody_else_computes_on_a_shared_card_until_it_is_not_shared_any_more(card):
    def settings():
        return [c for c in card.node.changes() if c["call"] == "nvmlDeviceSetComputeMode"]

    wait_for(lambda: len(settings()) == 1, 30, "the compute mode to be set")
    card.node.want(native(card.node.uuid()))
    card.kubelet.wait_offers(**{GPU: 1})
    wait_for(lambda: len(settings()) == 2, 30, "the compute mode to be taken back")
    card.node.wait_reads(2)
    assert len(settings()) == 2


def test_a_card_whose_daemon_dies_is_not_offered_until_it_is_back(card):
    uuid = card.node.uuid()
    (card.root / "broken").touch()
    os.kill(card.pid(uuid), signal.SIGKILL)
    card.kubelet.wait_offer(GPU, 0, 4)
    wait_for(lambda: card.published()["reason"] == "MPSFailed", 30, "the condition to name the daemon")
    assert "ended with status" in card.published()["message"]
    (card.root / "broken").unlink()
    card.kubelet.wait_offer(GPU, 4, 4)
    wait_for(lambda: card.published()["status"] == "True", 30, "the condition to be well again")


def test_a_container_has_replicas_of_one_card_only(root, rig, kubelet):
    host = Shared(rig, kubelet, {"h100-80": 2}, root)
    host.node.want(*({**native(host.node.uuid(i)), "sharing": {"mps": {"replicas": 2}}} for i in (0, 1)))
    kubelet.wait_offers(**{GPU: 4})
    with pytest.raises(grpc.RpcError, match="of one device"):
        kubelet.allocate(GPU, [f"{host.node.uuid(i)}::0" for i in (0, 1)])
    chosen = kubelet.prefer(GPU, host.ids(GPU), 2)
    assert len({i.split("::")[0] for i in chosen}) == 1


def test_a_partition_goes_after_its_daemon_and_its_neighbours_daemon_stays(root, rig, kubelet):
    host = Shared(rig, kubelet, {"h100-80": 1}, root)
    uuid = host.node.uuid()
    shared = {"sharing": {"mps": {"replicas": 2}}}
    host.node.want(mig(uuid, {"3g.40gb": 1, "1g.10gb": 1}, **shared))
    kubelet.wait_offers(**{HALF: 2, SMALL: 2})
    places = {profile: start for profile, start, _ in host.node.placements()}
    half, small = host.unit(HALF, places["3g.40gb"]), host.unit(SMALL, places["1g.10gb"])
    going, staying = host.pid(half), host.pid(small)
    assert (host.pipe(small) / "visible").read_text().startswith("MIG-")
    # What the daemon started for clients that are gone by now: it ends with the daemon.
    host.node.attach(0, host.node.instance("3g.40gb"), 77, "--name", "nvidia-cuda-mps-server")
    (host.node.folder / "proc" / "77" / "stat").write_text(f"77 (nvidia-cuda-mps) S {host.node.agent.pid} 77 77 0\n")
    host.node.wait_reads(2)
    # In one step: a card that nobody wants to be shared for a moment loses its daemons in it.
    host.node.api.merge(host.node.path, {"spec": {"devices": [mig(uuid, {"1g.10gb": 2}, **shared)]}})
    wait_for(lambda: not runs(going), 30, "the daemon to end before its partition")
    host.node.detach(77)
    kubelet.wait_offers(**{SMALL: 4})
    assert not runs(going) and runs(staying) and host.pid(small) == staying
    host.node.agent.stop()
    wait_for(lambda: not runs(staying), 30, "the daemon to end with the agent")


def test_cards_that_change_together_end_their_daemons_once(root, rig, kubelet):
    host = Shared(rig, kubelet, {"h100-80": 2}, root)
    uuids = [host.node.uuid(i) for i in (0, 1)]
    shared = {"sharing": {"mps": {"replicas": 2}}}
    host.node.want(*({**native(u), **shared} for u in uuids))
    kubelet.wait_offers(**{GPU: 4})
    host.node.api.merge(host.node.path, {"spec": {"devices": [mig(u, {"1g.10gb": 2}, **shared) for u in uuids]}})
    kubelet.wait_offers(**{SMALL: 8})
    assert [(root / u / "starts").read_text().split() for u in uuids] == [[u] for u in uuids]


def test_a_configuration_of_nvidias_plugin_shares_by_mps(root, rig, kubelet):
    file = root / "plugin.yaml"
    file.write_text("sharing: {mps: {resources: [{name: nvidia.com/gpu, replicas: 5}]}}\n")
    host = Shared(rig, kubelet, {"h100-80": 1}, root, offers=5, plugin_config=file)
    uuid = host.node.uuid()
    assert "set_default_active_thread_percentage 20" in host.said(uuid)
    with pytest.raises(grpc.RpcError, match="failRequestsGreaterThanOne"):
        kubelet.allocate(GPU, [f"{uuid}::{i}" for i in range(2)])


def test_the_sample_is_ready_where_the_kubelet_is_served(root, rig, kubelet):
    rig.controller()
    host = Shared(rig, kubelet, {"h100-80": 2}, root)
    rig.api.merge(f"/api/v1/nodes/{host.node.name}", {"metadata": {"labels": {"pool": "serving"}}})
    rig.cluster.kubectl.apply(SAMPLE.read_text())
    try:
        rig.wait_ready(f"{GROUP}/gpuprofiles/serving")
        kubelet.wait_offers(**{GPU: 16})
        assert host.said(host.node.uuid(1))
    finally:
        rig.api.delete(f"{GROUP}/gpuprofiles/serving")


@pytest.mark.parametrize("who", ["controller", "none"])
def test_mps_is_refused_where_nobody_would_run_its_daemons(root, rig, who):
    def counts():
        return {r["name"]: r["count"] for r in node.status().get("resources", ())}

    rig.controller()
    node = rig.node({"h100-80": 1}, resources=who, mps_root=root)
    refused = rig.wait_condition(rig.profile("p", {"mode": "native", "sharing": {"mps": {"replicas": 4}}}), "Stalled", "MPSUnsupported")
    assert "--resources=kubelet" in condition(refused, "Stalled")["message"]
    assert counts() == {GPU: 1} and not list(root.iterdir())
    labels = node.status()["labels"]
    assert labels["nvidia.com/gpu.sharing-strategy"] == "none" and labels["nvidia.com/mps.capable"] == "false"
    rig.wait_ready(rig.profile("p", {"mode": "native", "sharing": {"timeSlicing": {"replicas": 4}}}))
    assert counts() == {GPU: 4}


def test_an_agent_under_the_sanitizers_shares_by_mps_and_leaks_nothing(root, rig, kubelet):
    program, env = sanitized("cleave-agent")
    host = Shared(rig, kubelet, {"h100-80": 1}, root, program=program, env=env)
    uuid = host.node.uuid()
    host.node.want(mig(uuid, {"1g.10gb": 2}, sharing={"mps": {"replicas": 3}}))
    kubelet.wait_offers(timeout=60, **{SMALL: 6})
    assert "CUDA_MPS_PIPE_DIRECTORY" in kubelet.allocate(SMALL, host.ids(SMALL)[:1])[0].envs
    host.node.want(native(uuid))
    kubelet.wait_offers(timeout=60, **{GPU: 1})
    assert host.node.agent.stop(30) == 0
    assert "ERROR: " not in host.node.agent.text() and "runtime error" not in host.node.agent.text()
