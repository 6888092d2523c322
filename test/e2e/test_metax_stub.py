# SPDX-License-Identifier: Apache-2.0
"""Slices that are made for pods, on a stub of the kubelet: who gets what when, and what is left when something fails at any
call of the library. The same on a real kubelet is in test_metax.py."""

import ctypes
import json
import os
import signal
import subprocess
import sys
from types import SimpleNamespace

import pytest
from conftest import wait_for
from kubelet_stub import kubelet  # noqa: F401
from namespaces import LIBC, Where
from stack import SIM, condition, rig  # noqa: F401
from test_plugin_stub import CLONE_NEWNS, MS_REC_PRIVATE, Host
from test_standalone import BY_HAND

SGPU = "metax-tech.com/sgpu"
CDI_KIND = "gpu.cleave.dev/metax"
PODS = "/api/v1/namespaces/default/pods"
STEPS = ["mxSmlSetDeviceSchedClass", "mxSmlCreateSgpu", "mxSmlSetSgpuAlias"]


class Slices:
    """A node with one C500, or several, whose slices are made for pods."""

    def __init__(self, rig, kubelet, cards=1):
        self.rig, self.kubelet = rig, kubelet
        self.host = Host(rig, kubelet, {"c500": cards})
        self.node = self.host.node
        self.node.ctl("sys-root", self.node.folder)
        self.start()
        wait_for(self.node.agrees, 30, "the agent")
        self.node.want(*({"uuid": c["uuid"], "mode": "sgpu"} for c in self.node.hardware()["metax"]))
        kubelet.wait_offers(**{SGPU: 16 * cards})

    def start(self):
        self.host.start()

    def card(self, i=0):
        return self.node.hardware()["metax"][i]

    def slices(self, i=0):
        return sorted((s["alias"], s["vramMiB"], s["computePct"]) for s in self.card(i)["slices"])

    def pod_on(self, name, card):
        """A pod for which a scheduler chose that card."""
        return self.pod(name, {"metax-tech.com/gpu-devices-allocated": json.dumps([[{"uuid": self.card(card)["uuid"]}]])})

    def pod(self, name, annotations=None, core=10, memory="1Gi"):
        """Makes the pod in the API, on this node, and has the kubelet admit it."""
        self.make(name, annotations, core, memory)
        return self.admit(name)

    def make(self, name, annotations=None, core=10, memory="1Gi"):
        limits = {SGPU: "1", "koordinator.sh/gpu-core": str(core), "koordinator.sh/gpu-memory": memory}
        container = {"name": "main", "image": "none", "resources": {"limits": limits}}
        name = f"{self.rig.id}-{name}"
        self.rig.objects.append(f"{PODS}/{name}")
        spec = {"nodeName": self.node.name, "containers": [container], "terminationGracePeriodSeconds": 0}
        self.node.rig.scheduler.create(PODS, {"metadata": {"name": name, "annotations": annotations or {}}, "spec": spec})

    def admit(self, name):
        return self.kubelet.admit("default", f"{self.rig.id}-{name}", {SGPU: 1})

    def end(self, pod):
        self.node.api.delete(f"{PODS}/{pod.name}", now=True)
        self.kubelet.end(pod)

    def name(self, pod):
        (device,) = pod.answers[SGPU].cdi_devices
        assert device.name.startswith(f"{CDI_KIND}=slot.")
        return device.name.removeprefix(f"{CDI_KIND}=")

    def edits(self, pod):
        """What the runtime finds under the pod's name; None: nothing."""
        return self.host.spec().get(self.name(pod))

    def trouble(self):
        """Why not all can be given to containers, by the Device; "": all can."""
        published = condition(self.node.device(), "ResourcesPublished")
        return published["message"] if published.get("reason") == "CDIFailed" else ""

    def wait_bound(self, pod, memory=1024, timeout=60):
        """Until the pod's slice stands, alone of its name, and the runtime finds it."""
        alias = f"cleave.{self.name(pod)}"
        wait_for(lambda: [s[1] for s in self.slices() if s[0] == alias] == [memory], timeout, lambda: f"{alias}: {self.slices()}")
        edits = wait_for(lambda: self.edits(pod), timeout, "its CDI file")
        assert any(f"vram={memory};alias={alias}" in env for env in edits["env"]), edits
        return edits

    def wait_told(self, pod):
        """Until the slice is bound and in the Device: the binding, during which nobody is granted the slot, is over then."""

        def told():
            partitions = [p for card in self.node.cards_told() for p in card.get("partitions", [])]
            return self.name(pod) in [p["slice"].get("alias") for p in partitions]

        self.wait_bound(pod)
        wait_for(told, 30, "the slice to be told")


@pytest.fixture
def node(rig, kubelet):
    return Slices(rig, kubelet)


def test_a_slot_means_nothing_before_its_pod_is_known(node):
    node.kubelet.before_list = lambda: node.kubelet.gate.wait() and None
    with node.kubelet.frozen():
        (answer,) = node.kubelet.allocate(SGPU, ["sgpu@3"])
        assert [d.name for d in answer.cdi_devices] == [f"{CDI_KIND}=slot.3"]
        assert not answer.envs and not answer.devices
    assert node.slices() == [] and node.host.spec() == {}


def test_the_slice_comes_and_goes_with_its_pod(node):
    pod = node.pod("a", {"metax-tech.com/sgpu-qos-policy": "fixed-share"})
    edits = node.wait_bound(pod)
    assert "/dev/dri/renderD128" in [n["path"] for n in edits["deviceNodes"]]
    assert node.card()["schedClass"] == "fixed-share"
    node.end(pod)
    records = node.node.folder / "state" / "slots"
    wait_for(lambda: node.slices() == [] and node.host.spec() == {} and not list(records.glob("*.json")), 30, "the slice to go")


def test_the_next_pod_of_a_slot_never_finds_the_slice_of_the_one_before(node):
    first = node.pod("a", memory="1Gi")
    node.wait_told(first)
    with node.kubelet.frozen():  # the list is late, and still shows the first
        node.kubelet.end(first)
        node.node.api.delete(f"{PODS}/{first.name}", now=True)
        (answer,) = node.kubelet.allocate(SGPU, first.devices[SGPU])
        assert node.edits(first) is None, "what it meant is taken away before it is handed out"
    second = node.pod("b", memory="2Gi")
    assert second.devices == first.devices
    node.wait_bound(second, 2048)


def test_a_pod_made_again_by_its_name_gets_a_slice_of_its_own(node):
    """As a StatefulSet does: it is granted the slot before anybody asks again, and no list ever looks different."""
    first = node.pod("a", memory="1Gi")
    node.wait_told(first)
    with node.kubelet.frozen():
        node.end(first)
        second = node.pod("a", memory="2Gi")
        assert second.devices == first.devices
    node.wait_bound(second, 2048)


def test_slices_of_earlier_pods_are_not_in_the_way_of_one_another(node):
    """Two pods are replaced at once by two that need the card under another policy: each holds the slot of what the other waits for."""
    policy = "metax-tech.com/sgpu-qos-policy"
    earlier = [node.pod(name, {policy: "fixed-share"}) for name in "ab"]
    for pod in earlier:
        node.wait_told(pod)
    with node.kubelet.frozen():
        for pod in earlier:
            node.end(pod)
        later = [node.pod(name, {policy: "burst-share"}, memory="2Gi") for name in "cd"]
        assert sorted(p.devices[SGPU] for p in later) == sorted(p.devices[SGPU] for p in earlier)
    for pod in later:
        node.wait_bound(pod, 2048)
    assert node.card()["schedClass"] == "burst-share"


@pytest.mark.parametrize(
    "annotations, said",
    [
        ({"metax-tech.com/sgpu-qos-policy": "fixed"}, '"fixed" is none of best-effort, fixed-share, burst-share'),
        ({"metax-tech.com/gpu-devices-allocated": "[[{"}, "annotation metax-tech.com/gpu-devices-allocated: JSON line 1"),
        ({"metax-tech.com/gpu-devices-allocated": json.dumps([[{"uuid": "GPU-elsewhere"}]])}, "no card GPU-elsewhere of this node has slices made for pods"),
        ({"metax-tech.com/gpu-devices-allocated": "[" * 1000}, "nested deeper"),
    ],
)
def test_what_cannot_be_understood_is_said_and_put_right_later(node, annotations, said):
    pod = node.pod("a", annotations)
    (event, *_) = wait_for(lambda: node.rig.events(node.node.name, "SliceNotMade"), 30, "the reason")
    assert said in event["note"] and pod.name in event["note"], event["note"]
    assert node.slices() == [] and node.edits(pod) is None
    node.node.rig.scheduler.merge(f"{PODS}/{pod.name}", {"metadata": {"annotations": dict.fromkeys(annotations)}})
    node.wait_bound(pod)


@pytest.fixture
def right(rig):
    """The right of the slots' account to read pods: take() leaves it none, as on a node that has the plain agent, and give() brings it back."""
    path = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"
    binding = rig.api.get(f"{path}/cleave-agent-slots")
    del binding["metadata"]["resourceVersion"], binding["metadata"]["uid"]
    asked = {"resourceAttributes": {"verb": "get", "resource": "pods", "namespace": "default"}, "user": "system:serviceaccount:cleave-node:cleave-agent-slots"}
    review = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": asked}
    reviews = "/apis/authorization.k8s.io/v1/subjectaccessreviews"

    def take():
        rig.api.delete(f"{path}/cleave-agent-slots")
        wait_for(lambda: not rig.api.create(reviews, review)["status"]["allowed"], 30, "the right to be gone")

    yield SimpleNamespace(take=take, give=lambda: rig.api.create(path, binding))
    if not rig.api.find(f"{path}/cleave-agent-slots"):
        rig.api.create(path, binding)


def test_an_agent_that_may_not_read_pods_says_what_is_missing(node, right):
    """The pod was admitted while it still might."""
    node.kubelet.wait_offers(**{SGPU: 16})
    pod = node.admit("a")
    node.node.agent.stop()
    right.take()
    node.make("a")
    node.start()
    (event, *_) = wait_for(lambda: node.rig.events(node.node.name, "SliceNotMade"), 30, "the reason")
    assert pod.name in event["note"] and "may not read pods" in event["note"] and "config/slots" in event["note"], event["note"]
    assert event["type"] == "Warning"
    assert node.slices() == [] and node.edits(pod) is None
    node.kubelet.wait_offers(**{SGPU: 1})
    right.give()
    node.wait_bound(pod)
    node.kubelet.wait_offers(**{SGPU: 16})


def published(node):
    return condition(node.node.device(), "ResourcesPublished")


def test_an_agent_that_may_not_read_pods_offers_no_slices(node, right):
    """Before any pod comes, which would wait for its slice."""
    right.take()
    node.node.agent.stop()
    node.start()
    wait_for(lambda: published(node).get("reason") == "PodsForbidden", 30, lambda: f"the condition: {published(node)}")
    assert "install config/slots and label the Node" in published(node)["message"]
    node.kubelet.wait_offers()
    right.give()
    node.kubelet.wait_offers(**{SGPU: 16})
    wait_for(lambda: published(node)["reason"] == "Served", 30, lambda: f"the condition: {published(node)}")


def test_a_slice_of_somebody_else_is_left_alone(node):
    subprocess.run([sys.executable, "-c", BY_HAND, SIM / "libmxsml.so", "1024", "10"], env={**node.node.env}, check=True, timeout=60)
    pod = node.pod("a")
    node.wait_bound(pod)
    node.end(pod)
    wait_for(lambda: [s[1:] for s in node.slices()] == [(1024, 10)], 30, "ours to go and theirs to stay")
    node.node.agent.stop()
    node.start()
    node.kubelet.wait_offers(**{SGPU: 15})
    assert [s[1:] for s in node.slices()] == [(1024, 10)]


BY_OTHER_HANDS = """
import ctypes, sys
mx = ctypes.CDLL(sys.argv[1])
assert mx.mxSmlInit() == 0
assert mx.mxSmlRemoveSgpu(0, int(sys.argv[2])) == 0
taken = ctypes.c_uint()
assert mx.mxSmlCreateSgpu(0, 2048, 10, ctypes.byref(taken)) == 0
assert taken.value == int(sys.argv[2])
"""


def test_a_slice_that_was_taken_away_is_made_again_and_its_place_is_not_mistaken_for_it(node):
    pod = node.pod("a")
    before = node.wait_bound(pod)["env"]
    (slice_,) = node.card()["slices"]
    node.node.agent.signal(signal.SIGSTOP)  # a reading between the two would make the pod's slice in the free place
    subprocess.run([sys.executable, "-c", BY_OTHER_HANDS, SIM / "libmxsml.so", str(slice_["id"])], env={**node.node.env}, check=True, timeout=60)
    node.node.agent.signal(signal.SIGCONT)
    wait_for(lambda: (node.edits(pod) or {"env": before})["env"] != before, 30, "the pod's slice to be another")
    assert node.wait_bound(pod)["env"] != before
    assert [s[1] for s in node.slices()] == [2048, 1024]


@pytest.mark.parametrize("call", STEPS)
@pytest.mark.parametrize("action", ["fail:SysfsWriteError:EINVAL", "kill", "kill-after"])
def test_a_step_that_fails_or_is_the_last_leaves_one_slice_for_one_pod(node, call, action):
    node.node.ctl("fault", "add", "--call", call, "--nth", 1, "--action", action)
    pod = node.pod("a", {"metax-tech.com/sgpu-qos-policy": "burst-share"})
    if action.startswith("kill"):
        wait_for(lambda: not node.node.agent.running(), 30, "the agent to be killed")
        node.start()
    node.wait_bound(pod)
    assert len(node.slices()) == 1, node.slices()
    node.end(pod)
    wait_for(lambda: node.slices() == [], 60, lambda: f"nothing to be left: {node.slices()}")


@pytest.mark.parametrize("action", ["fail:BusyDevice", "kill", "kill-after"])
def test_a_release_that_fails_or_is_the_last_is_done_again(node, action):
    pod = node.pod("a")
    node.wait_bound(pod)
    node.node.ctl("fault", "add", "--call", "mxSmlRemoveSgpu", "--nth", 1, "--action", action)
    node.end(pod)
    if action.startswith("kill"):
        wait_for(lambda: not node.node.agent.running(), 30, "the agent to be killed")
        node.start()
    wait_for(lambda: node.slices() == [] and node.host.spec() == {}, 60, "the slice to go")


def test_a_slot_whose_slice_cannot_be_removed_is_not_handed_out_until_it_is(node):
    first = node.pod("a")
    node.wait_bound(first)
    (slot,) = first.devices[SGPU]
    node.node.ctl("fault", "add", "--call", "mxSmlRemoveSgpu", "--action", "fail:BusyDevice")
    node.end(first)
    node.kubelet.wait_offers(**{SGPU: 15})
    assert node.kubelet.devices(SGPU)[slot].health == "Unhealthy"
    second = node.pod("b", memory="2Gi")
    assert second.devices != first.devices
    node.wait_bound(second, 2048)
    node.node.ctl("fault", "clear")
    node.kubelet.wait_offers(**{SGPU: 16})
    wait_for(lambda: len(node.slices()) == 1, 30, lambda: f"the first slice to go: {node.slices()}")


def hold(node, card, call, action):
    node.node.ctl("fault", "add", "--call", call, "--gpu", f"metax:{card}", "--nth", 1, "--action", action)


def test_slices_on_different_cards_are_made_and_removed_side_by_side(rig, kubelet):
    node = Slices(rig, kubelet, cards=2)
    for call in ("mxSmlCreateSgpu", "mxSmlRemoveSgpu"):
        for card in (0, 1):
            hold(node, card, call, "hang:8")
    pods = [node.pod_on(name, card) for name, card in (("a", 0), ("b", 1))]
    wait_for(lambda: len(node.slices(0)) == len(node.slices(1)) == 1, 60, "the slices")
    for pod in pods:
        wait_for(lambda pod=pod: node.edits(pod), 30, "its CDI file")
    for pod in pods:
        node.end(pod)
    wait_for(lambda: node.slices(0) == node.slices(1) == [] and node.host.spec() == {}, 60, "the slices to go")
    for call in ("mxSmlCreateSgpu", "mxSmlRemoveSgpu"):
        one, other = (c for c in node.node.changes() if c["call"] == call)
        assert max(one["startNs"], other["startNs"]) < min(one["endNs"], other["endNs"]), (one, other)


@pytest.mark.parametrize("action", ["kill", "kill-after"])
@pytest.mark.parametrize("call", STEPS[1:])
def test_an_agent_killed_while_slices_are_made_on_two_cards_makes_each_once(rig, kubelet, call, action):
    node = Slices(rig, kubelet, cards=2)
    hold(node, 0, call, "hang:600")
    hold(node, 1, call, action)
    pods = [node.pod_on("a", 0), node.pod_on("b", 1)]
    wait_for(lambda: not node.node.agent.running(), 30, "the agent to be killed")
    node.node.ctl("fault", "clear")
    node.start()
    for card, pod in enumerate(pods):
        made = [(f"cleave.{node.name(pod)}", 1024, 10)]
        wait_for(lambda card=card, made=made: node.slices(card) == made, 60, lambda card=card: node.slices(card))
        wait_for(lambda pod=pod: node.edits(pod), 30, "its CDI file")


def that_hangs(rig, kubelet, call):
    """A node whose first card hangs in that call, and whose agent says so soon."""
    node = Slices(rig, kubelet, cards=2)
    node.node.agent.stop()
    node.host.start(call_deadline_ms=2000)
    kubelet.wait_offers(**{SGPU: 32})
    hold(node, 0, call, "hang:600")
    return node


def wait_hanging(node):
    wait_for(lambda: condition(node.node.status(), "Ready").get("reason") == "NVMLTimeout", 30, "the hang to be told")


def start_anew(node):
    """After a reset of the card, say."""
    assert node.node.agent.stop() == 1, "the call still hangs"
    node.node.ctl("fault", "clear")
    node.start()


def test_a_slice_that_hangs_while_it_is_made_holds_up_its_own_card_only(rig, kubelet):
    node = that_hangs(rig, kubelet, "mxSmlCreateSgpu")
    first = node.pod_on("a", 0)
    wait_hanging(node)
    kubelet.wait_offers(**{SGPU: 16})  # one of them is the first pod's
    comes_and_goes(node)
    start_anew(node)
    node.wait_bound(first)
    assert len(node.slices(1)) == 1


def test_a_slice_that_hangs_while_it_is_removed_holds_up_its_own_card_only(rig, kubelet):
    node = that_hangs(rig, kubelet, "mxSmlRemoveSgpu")
    pods = [node.pod_on(name, 0) for name in ("a", "d")]
    for pod in pods:
        node.wait_bound(pod)
    node.end(pods[0])
    wait_hanging(node)
    kubelet.wait_offers(**{SGPU: 17})  # as many as the other card has, and the one that is held
    node.end(pods[1])
    kubelet.wait_offers(**{SGPU: 16})
    for pod in pods:
        (slot,) = pod.devices[SGPU]
        assert kubelet.devices(SGPU)[slot].health == "Unhealthy"
    comes_and_goes(node)
    start_anew(node)
    wait_for(lambda: node.slices(0) == [], 60, "the earlier pods' slices to go")
    assert len(node.slices(1)) == 1


def comes_and_goes(node):
    """Slices are made and removed on the second card."""
    stays, goes = node.pod_on("b", 1), node.pod("c")  # of any card
    for pod in (stays, goes):
        wait_for(lambda pod=pod: node.edits(pod), 30, "its CDI file")
    assert len(node.slices(1)) == 2
    node.end(goes)
    wait_for(lambda: len(node.slices(1)) == 1 and node.edits(goes) is None, 30, "the slice to go")


def test_a_pod_waits_without_a_word_for_a_card_that_is_about_to_have_slices(node):
    """As after a reboot, which leaves the card whole."""
    pod = node.pod("a")
    node.wait_bound(pod)
    node.node.agent.stop()
    node.node.ctl("reboot")
    hold(node, 0, "mxSmlSetSgpuToggle", "hang:5")
    node.start()
    node.wait_bound(pod)
    assert node.rig.events(node.node.name, "SliceNotMade") == []


def test_a_slice_is_made_on_a_card_that_containers_can_use(rig, kubelet):
    node = Slices(rig, kubelet, cards=2)
    render = node.host.driver / "dev" / "dri" / "renderD128"
    render.rename(render.with_name("away"))
    node.kubelet.wait_offers(**{SGPU: 16})
    wait_for(lambda: "no render node" in node.trouble(), 30, "the condition to say so")
    pod = node.pod("a")
    edits = wait_for(lambda: node.edits(pod), 30, "its CDI file")
    assert "/dev/dri/renderD129" in [n["path"] for n in edits["deviceNodes"]]
    render.with_name("away").rename(render)
    node.kubelet.wait_offers(**{SGPU: 32})
    wait_for(lambda: node.trouble() == "", 30, "the condition to be gone")


def test_a_slot_names_the_device_files_that_its_card_has_now(node):
    """Numbers of DRI nodes are the kernel's; when they change, the old one may become another card's."""
    pod = node.pod("a")
    node.wait_bound(pod)
    (drm,) = (node.node.folder / "sys").glob("bus/pci/devices/*/drm")
    (drm / "renderD128").rename(drm / "renderD140")
    dri = node.host.driver / "dev" / "dri"
    (dri / "renderD128").rename(dri / "renderD140")
    wait_for(lambda: "/dev/dri/renderD140" in [n["path"] for n in node.edits(pod)["deviceNodes"]], 30, lambda: f"its CDI file: {node.edits(pod)}")
    assert len(node.slices()) == 1


class ReadOnlyFolder(Where):
    """A mount namespace of its own, in which nothing can be written to a folder."""

    def __init__(self, folder):
        self.folder = folder

    def before_exec(self, cwd):
        for done in (
            LIBC.unshare(CLONE_NEWNS),
            LIBC.mount(b"none", b"/", None, MS_REC_PRIVATE, None),
            LIBC.mount(b"tmpfs", os.fsencode(self.folder), b"tmpfs", 1, None),
        ):
            if done != 0:
                raise OSError(ctypes.get_errno(), "a read-only folder")


@pytest.mark.skipif(os.geteuid() != 0, reason="a read-only folder needs root to mount one")
def test_a_pod_waits_while_the_cdi_folder_is_read_only(node):
    node.node.agent.stop()
    node.host.cdi.mkdir(exist_ok=True)
    node.host.start(where=ReadOnlyFolder(node.host.cdi))
    node.kubelet.wait_offers(**{SGPU: 16})
    pod = node.pod("a")  # and is not refused by the kubelet for good
    wait_for(lambda: "Read-only" in node.node.agent.text(), 30, "the agent to say why")
    node.node.agent.stop()
    node.start()
    node.wait_bound(pod)
