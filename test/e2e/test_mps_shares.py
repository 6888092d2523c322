# SPDX-License-Identifier: Apache-2.0
"""Shares whose compute is a part of MPS (enforcement.compute: mps), on a stub of the kubelet and with a script in place of NVIDIA's
control daemon: unequal parts, in the environment of each container; no container without its card's daemon."""

import json
import os
import signal
import uuid

import pytest
from conftest import wait_for
from kubelet_stub import kubelet  # noqa: F401
from stack import condition, mig, rig  # noqa: F401
from test_fractional_stub import GPU, PODS_END_S, Shares, fractional
from test_limiter_stub import image, terms_of
from test_mps import CONTROL, root  # noqa: F401

MPS = {"compute": "mps"}


class Clients(Shares):
    """A node whose agent runs the script, with cards whose shares are clients."""

    def __init__(self, root, rig, kubelet, cards=1, limiter=False, broken=False, **settings):
        self.root, self.control = root, rig.folder / f"control-{uuid.uuid4().hex[:8]}"
        self.control.parent.mkdir(parents=True, exist_ok=True)
        self.control.write_text(CONTROL)
        self.control.chmod(0o755)
        if broken:
            (root / "broken").touch()
        flags = {"mps_root": root, "mps_control": self.control}
        if limiter:
            self.folders = self.control.parent / "shares"
            self.folders.mkdir()
            flags |= {"limiter_folder": image(self.control.parent / "image", 1), "library_folder": self.control.parent / "lib"}
            flags["share_folder"] = self.folders
        super().__init__(rig, kubelet, cards, flags=flags, **{"enforcement": MPS, **settings})

    def pipe(self, gpu=0):
        return self.root / self.node.uuid(gpu) / "pipe"

    def mps(self, pod):
        """What MPS is told by the container's variables, and where it finds it."""
        env = {k.removeprefix("CUDA_MPS_"): v for k, v in self.spec(pod).get("env", {}).items() if k.startswith("CUDA_MPS_")}
        return env, self.spec(pod)["mounts"]

    def spec(self, pod):
        """env and mounts of the share's CDI file."""
        self.env(pod)
        text = (self.host.cdi / f"{self.names(pod)[0]}.gpu.cleave.dev-nvidia-slot.json").read_text()
        edits = json.loads(text)["containerEdits"]
        env = dict(e.split("=", 1) for e in edits.get("env", []))
        return {"env": env, "mounts": {m["containerPath"]: m["hostPath"] for m in edits.get("mounts", [])}}

    def modes(self):
        return [c["args"] for c in self.node.changes() if c["call"] == "nvmlDeviceSetComputeMode"]

    def level(self, gpu=0):
        """None: the card gives no shares, as for a moment when its spec is written anew."""
        return self.node.card(gpu).get("fractional", {}).get("compute")

    def daemon(self, gpu=0):
        return int((self.pipe(gpu) / "control").read_text())


@pytest.fixture
def node(root, rig, kubelet):
    return Clients(root, rig, kubelet)


def test_each_share_has_its_own_part(node):
    a, b = node.pod("a", gpumem=3000, gpucores=30), node.pod("b", gpumem=50000, gpucores=70)
    pipe = str(node.pipe())
    for pod, percent, mib in ((a, "30", 3000), (b, "70", 50000)):
        env, mounts = node.mps(pod)
        assert env == {"PIPE_DIRECTORY": pipe, "ACTIVE_THREAD_PERCENTAGE": percent, "PINNED_DEVICE_MEM_LIMIT": f"0={mib}M"}
        assert mounts[pipe] == pipe and mounts["/dev/shm"] == "/dev/shm"
    assert (node.pipe() / "visible").read_text().strip() == node.node.uuid()
    assert (node.pipe() / "commands").read_text().splitlines()[-1] == "set_default_active_thread_percentage 100"
    wait_for(lambda: len(node.told()) == 2, 30, "the shares to be told")
    assert node.level() == "mps"
    wait_for(lambda: node.modes() == ["mode=3"], 30, "nobody else to compute on the card")


def test_a_share_without_a_percentage_has_no_part_of_the_threads(node):
    env, _ = node.mps(node.pod("a", gpumem=3000))
    assert set(env) == {"PIPE_DIRECTORY", "PINNED_DEVICE_MEM_LIMIT"}


def test_a_pod_with_the_whole_card_is_a_client_without_a_part(node):
    env, mounts = node.mps(node.pod("whole"))
    assert set(env) == {"PIPE_DIRECTORY"} and str(node.pipe()) in mounts


def test_a_container_has_a_share_of_one_card_alone(root, rig, kubelet):
    pair = Clients(root, rig, kubelet, cards=2)
    two = pair.pod("two", n=2, gpumem=3000)
    said = wait_for(lambda: pair.trouble(two), 30, "an Event")
    assert "2 of 2 are shared by MPS, for containers with one share" in said, said
    assert not any(name in pair.host.spec() for name in pair.names(two))
    pods = [pair.pod(f"one-{i}", gpumem=60000) for i in range(2)]
    assert {node[0]["PIPE_DIRECTORY"] for node in map(pair.mps, pods)} == {str(pair.pipe(i)) for i in range(2)}


def test_without_its_daemon_no_share_is_made(root, rig, kubelet):
    node = Clients(root, rig, kubelet, broken=True)
    pod = node.pod("a", gpumem=3000, gpucores=30)
    said = wait_for(lambda: node.trouble(pod), 30, "an Event")
    assert "MPS control daemon" in said and "is not ready" in said, said
    assert node.host.spec() == {} and node.records() == []
    wait_for(lambda: condition(node.node.device(), "ResourcesPublished")["reason"] == "MPSFailed", 30, "the condition to name the daemon")
    (root / "broken").unlink()
    assert node.mps(pod)[0]["ACTIVE_THREAD_PERCENTAGE"] == "30"


def test_shares_wait_for_a_daemon_that_died(node):
    node.mps(node.pod("a", gpumem=3000))
    (node.root / "broken").touch()
    os.kill(node.daemon(), signal.SIGKILL)
    pod = node.pod("b", gpumem=3000)
    assert "is not ready" in wait_for(lambda: node.trouble(pod), 30, "an Event")
    (node.root / "broken").unlink()
    node.mps(pod)


def test_the_daemon_stays_as_long_as_a_client_does_and_then_goes(node):
    pod = node.pod("a", gpumem=3000, gpucores=30)
    node.mps(pod)
    pid = node.daemon()
    wait_for(lambda: node.modes() == ["mode=3"], 30, "nobody else to compute on the card")
    node.node.want(fractional(node.node.uuid()))
    node.node.wait_ready()
    node.kubelet.wait_offers(**{GPU: 10})
    wait_for(lambda: node.modes() == ["mode=3", "mode=0"], 30, "others to compute on the card")
    other = node.pod("b", gpumem=3000, gpucores=30)
    assert not node.mps(other)[0], "new shares are no clients"
    assert os.path.exists(f"/proc/{pid}") and node.level() == "none"
    node.end(pod)
    wait_for(lambda: not os.path.exists(f"/proc/{pid}"), PODS_END_S, "the daemon to end")


def test_a_card_with_others_is_not_kept_from_them(root, rig, kubelet):
    node = Clients(root, rig, kubelet, enforcement={})
    before = node.pod("before", gpumem=3000)
    node.env(before)
    node.node.want(fractional(node.node.uuid(), enforcement=MPS))
    node.node.wait_ready()
    node.kubelet.wait_offers(**{GPU: 10})
    client = node.pod("client", gpumem=3000, gpucores=30)
    assert node.mps(client)[0]["ACTIVE_THREAD_PERCENTAGE"] == "30"
    wait_for(lambda: len(node.told()) == 2, 30, "the shares to be told")
    assert node.modes() == [] and node.level() == "none", "the weakest is said"
    node.end(before)
    wait_for(lambda: node.modes() == ["mode=3"], PODS_END_S, "nobody else to compute on the card")
    wait_for(lambda: node.level() == "mps", 30, "the weakest to be gone")


def test_a_client_has_the_limiter_as_well(root, rig, kubelet):
    node = Clients(root, rig, kubelet, limiter=True)
    pod = node.pod("a", gpumem=3000, gpucores=30)
    env, mounts = node.mps(pod)
    assert {"/run/cleave", str(node.pipe())} <= set(mounts) and env["ACTIVE_THREAD_PERCENTAGE"] == "30"
    (limit,) = terms_of(node.folders / node.names(pod)[0])
    assert (limit.mib, limit.memory, limit.compute) == (3000, "library", "mps")


def test_shares_outlive_the_agent_and_its_daemon(node):
    pod = node.pod("a", gpumem=3000, gpucores=30)
    before = node.mps(pod)
    node.node.agent.kill()
    node.host.start(**node.flags)
    node.kubelet.wait_offers(**{GPU: 10})
    wait_for(lambda: (node.pipe() / "commands").exists(), 30, "the next daemon")
    assert node.mps(pod) == before


def test_a_card_is_cut_once_its_clients_and_its_daemon_are_gone(node):
    pod = node.pod("a", gpumem=3000)
    node.mps(pod)
    pid = node.daemon()
    wait_for(lambda: node.told(), 30, "the share to be told")
    node.node.want(mig(node.node.uuid(), {"1g.10gb": 7}))
    node.node.wait_applied("InUse")
    node.end(pod)
    node.node.wait_layout({"1g.10gb": 7}, timeout=PODS_END_S)
    assert not os.path.exists(f"/proc/{pid}")


@pytest.mark.parametrize("settings,why", [({"maxShares": 49}, "48 clients"), ({"qosPolicy": "burst-share"}, "parts of MPS are fixed")])
def test_what_mps_cannot_do_is_refused(node, settings, why):
    node.node.want(fractional(node.node.uuid(), enforcement=MPS, **settings))
    assert why in node.node.wait_applied("EnforcementUnavailable")["message"]
    node.kubelet.wait_offers(**{GPU: 1})


def test_auto_never_chooses_mps(root, rig, kubelet):
    node = Clients(root, rig, kubelet, enforcement={"compute": "auto"})
    assert not node.mps(node.pod("a", gpumem=3000, gpucores=30))[0]
    assert not any(node.root.iterdir())
