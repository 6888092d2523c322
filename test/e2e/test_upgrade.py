# SPDX-License-Identifier: Apache-2.0
"""Upgrades, ways back, and what goes wrong on the way, as pods on three real kubelets with pods on partitions.

Installed first is the release before (hack/before.sh), whose agents hand no node over. The tests go on from one another's
cluster. CLEAVE_UPGRADES=100 upgrades a hundred times in a row.
"""

import contextlib
import os
import subprocess
from concurrent.futures import ThreadPoolExecutor

import pytest
from conftest import wait_for
from handover import NodeWatch, without
from pod_images import REGISTRY, agent_image, images, images_before, release_before
from pods_rig import pods, pods_cluster  # noqa: F401
from stack import GROUP, ApiServer, condition
from test_plugin_real import LOOK, assert_sees_its_own, held

UPGRADES = int(os.environ.get("CLEAVE_UPGRADES", "2"))
CARDS = {"nvidia.com/mig-1g.10gb": 2, "nvidia.com/mig-3g.40gb": 1, "nvidia.com/gpu": 1}  # of n2
OFFER = {name: str(count) for name, count in CARDS.items()}
TOWN = {
    "nodeSelector": {"matchLabels": {"kubernetes.io/hostname": "n2"}},
    "devices": [{"selector": {"vendor": "nvidia", "indices": [0]}, "mode": "mig", "mig": {"profiles": {"1g.10gb": 2, "3g.40gb": 1}}}],
}
HELM = "helm upgrade --install cleave build/{} -n default --reset-then-reuse-values --set images.registry=registry.example"

# These tests and the other ones of pods, one after the other, would take longer than all the rest side by side.
pytestmark = pytest.mark.second_cluster


class Town:
    """The cluster with Cleave as a chart, and a pod on each partition of n2."""

    def __init__(self, pods, say):
        self.pods, self.say, self.node = pods, say, pods.node("n2")
        self.checkout, self.before = pods.checkout(), {}
        self.checkout.make_chart()
        pods.cluster.load(images(pods.cluster.rundir, "v2"))

    def upgrade(self, tag, agent="", chart="chart/cleave"):
        """To the images of a tag; agent: and this one for the agents."""
        self.checkout.sh(f"{HELM.format(chart)} --set images.tag={tag} --set daemonsets.image={agent}")

    def profile(self, name, spec):
        path = f"{GROUP}/gpuprofiles/{name}"
        self.pods.api.apply(path, {"apiVersion": "gpu.cleave.dev/v1alpha1", "kind": "GPUProfile", "metadata": {"name": name}, "spec": spec})
        return path

    def begin(self):
        """A pod for each partition, as the only ones who want any."""
        self.pods.wait_rolled_out()
        self.pods.wait_devices()
        self.pods.wait_ready(self.profile("town", TOWN), timeout=60)
        self.node.wait_offers(timeout=60, **CARDS)
        workers = [self.node.runner("worker", {name: "1"}, LOOK) for name, count in CARDS.items() for _ in range(count)]
        for pod in workers:
            assert_sees_its_own(self.node, pod)
        self.before = self.standing(workers)

    def standing(self, workers=None):
        """What each pod has: its container, and its device."""
        return {pod: (self.node.container(pod)["containerID"], held(self.node, pod)) for pod in workers or self.before}

    @contextlib.contextmanager
    def watched(self, what, absent=False, hands_over=True):
        """A rollout that ends well, and that no pod notices. absent: resources may be away for a while; hands_over: its agents can."""
        with NodeWatch(self.pods.cluster, self.node.name) as watch:
            yield
            self.pods.wait_rolled_out()
            if hands_over:
                self.node.wait_settled()
            self.node.wait_offers(timeout=60, **CARDS)
            versions = watch.end()
        self.say(f"{what}: {len(versions)} versions of the Node, {len(without(versions, OFFER))} without a resource, absent for {watch.absent(OFFER):.2f} s")
        assert absent or without(versions, OFFER) == []
        assert self.standing() == self.before

    def daemonset(self):
        return self.pods.api.get("/apis/apps/v1/namespaces/cleave-node/daemonsets/cleave-agent")["status"]

    def agents_with(self, image):
        return [p for p in self.pods.ours("cleave-node") if p["spec"]["containers"][0]["image"] == image]


@pytest.fixture(scope="module")
def town(pods, request):
    capture = request.config.pluginmanager.getplugin("capturemanager")

    def say(text):
        with capture.global_and_fixture_disabled():
            print(f"\n{text}", end="")

    pods.new_cards()
    town = Town(pods, say)
    town.release = release_before()
    if town.release:
        pods.cluster.load(images_before(pods.cluster.rundir, town.release))
        town.checkout.make_chart_of(town.release)
        town.upgrade("before", chart="chart-before/cleave")
    else:
        town.upgrade("v1")
    town.begin()
    yield town
    pods.clear()
    town.checkout.uninstall()


@pytest.fixture
def since_before(town):
    if not town.release:
        pytest.skip("this clone's history does not reach back to the release before (hack/before.sh)")
    return town


def test_from_the_release_before_and_back_to_it_and_again(since_before):
    town = since_before
    with town.watched("from a release without the hand-over", absent=True):
        town.upgrade("v1")
    with town.watched("helm rollback to it", absent=True, hands_over=False):
        town.checkout.sh("helm rollback cleave 1 -n default")
    with town.watched("and from it again", absent=True):
        town.upgrade("v1")


def test_no_upgrade_leaves_a_version_of_the_node_without_a_resource(town):
    with town.watched(f"{UPGRADES} upgrades of three nodes"):
        for i in range(UPGRADES):
            town.upgrade(f"v{2 - i % 2}")
            town.pods.wait_rolled_out()
            town.node.wait_settled()
            assert town.standing() == town.before


def no_such_program(town):
    return agent_image(town.checkout.folder, "no-program", town.pods.cluster.rundir / "cleave-agent", "/usr/bin/nowhere")


def silent(town):
    """It starts, and answers nobody."""
    return agent_image(town.checkout.folder, "silent", town.pods.cluster.rundir / "images" / "pause", "/pause")


def of_before(town):
    """An agent without the hand-over, where the DaemonSet has the strategy for it."""
    if not town.release:
        pytest.skip("this clone's history does not reach back to the release before (hack/before.sh)")
    return f"{REGISTRY}/cleave-agent:before", None


def is_in_trouble(pod):
    """Has been seen not to be ready, by the kubelet's own look."""
    status = (pod["status"].get("containerStatuses") or [{}])[0]
    waits = status.get("state", {}).get("waiting", {}).get("reason", "")
    return waits.endswith(("Error", "BackOff")) or status.get("restartCount", 0) > 0


def is_seen_unready(town, pod):
    """Its container does not start, or the kubelet has asked it in vain."""
    return is_in_trouble(pod) or town.pods.events(pod["metadata"]["name"], "Unhealthy")


# After kubectl has taken an image back Helm's record still has it, so that comes last.
BY_HELM, BY_UNDO = "helm rollback cleave -n default", "kubectl -n cleave-node rollout undo daemonset/cleave-agent"


@pytest.mark.parametrize(("image", "back"), [(no_such_program, BY_HELM), (of_before, BY_HELM), (silent, BY_UNDO)])
def test_bad_image_stops_after_one_node_and_the_others_serve(town, image, back):
    reference, tar = image(town)
    if tar:
        town.pods.cluster.load({reference: tar})
    with town.watched(f"a bad image ({image.__name__}) and back"):
        town.upgrade("v1", agent=reference)
        wait_for(lambda: any(is_seen_unready(town, p) for p in town.agents_with(reference)), 90, town.pods.why_not_ready)
        assert len(town.agents_with(reference)) == 1
        assert town.daemonset()["numberAvailable"] == 3
        assert town.pods.node("n1").result("echo served", {"nvidia.com/gpu": "1"}) == "served\n"
        town.checkout.sh(back)


# --- what else goes wrong ---


def test_upgrade_waits_for_a_node_that_vanished_and_goes_on_when_it_is_deleted(town):
    lost = town.pods.node("n3")
    with town.watched("an upgrade with a node that vanished"):
        town.pods.cluster.script("node-down.sh", town.pods.cluster.rundir, "--node", "--name", lost.name)
        try:
            town.upgrade("v2")
            waiting = f"{REGISTRY}/cleave-agent:v2"
            wait_for(lambda: any(p["spec"].get("nodeName") == lost.name for p in town.agents_with(waiting)), 120, town.pods.why_not_ready)
            assert town.daemonset().get("updatedNumberScheduled", 0) < 3
            town.checkout.sh(f"kubectl delete node {lost.name}")
            town.pods.wait_rolled_out(nodes=2)
            wait_for(lambda: town.pods.api.find(lost.path) is None, 30, "its Device to go with it")
        finally:
            lost.up()
    wait_for(lambda: condition(lost.device(), "Ready"), 60, "the node that came back to have a Device")


# umount(8) asks the table of mounts, whose paths are those of the machine.
UNMOUNT = "import ctypes, os; libc = ctypes.CDLL(None, use_errno=True); assert libc.umount2(b'/var/lib/cleave', 2) == 0, os.strerror(ctypes.get_errno())"


@pytest.fixture
def small_disk(town):
    """n1, whose folder of state has 64 KiB."""
    node = town.pods.node("n1")
    on_node(node, "mount", "-t", "tmpfs", "-o", "size=64k", "state", "/var/lib/cleave")
    replace_agent(town, node)
    yield node
    on_node(node, "/usr/bin/python3", "-c", UNMOUNT)
    replace_agent(town, node)


def on_node(node, *command):
    subprocess.run(["nsenter", "-t", str(node.pid("init")), "-m", "--", *command], check=True, timeout=30)


def replace_agent(town, node):
    town.pods.api.delete(f"/api/v1/namespaces/cleave-node/pods/{node.agent_pod()['metadata']['name']}")
    town.pods.wait_rolled_out()
    node.wait_settled()


def fill(path):
    with contextlib.suppress(OSError), open(path, "wb", buffering=0) as file:
        while True:
            file.write(bytes(512))


def test_full_disk_is_named_costs_nothing_and_heals(town, small_disk):
    node, filler = small_disk, small_disk.sees("/var/lib/cleave/filler")
    before = node.layout(0)
    fill(filler)
    seven = {"selector": {"vendor": "nvidia", "indices": [0]}, "mode": "mig", "mig": {"profiles": {"1g.10gb": 7}}}
    profile = town.profile("full", {"nodeSelector": {"matchLabels": {"kubernetes.io/hostname": node.name}}, "devices": [seven]})
    said = wait_for(lambda: "No space left on device" in node.applied(0).get("message", "") and node.applied(0), 60, lambda: f"the card to say why: {node.status()}")
    assert said["status"] == "False" and node.layout(0) == before
    filler.unlink()
    town.pods.wait_ready(profile, timeout=90)
    assert node.layout(0) == {"1g.10gb": 7}
    town.pods.api.delete(profile)


def test_api_server_that_restarts_during_the_install(town):
    town.pods.clear()
    town.checkout.uninstall()
    command = HELM.format("chart/cleave") + " --set images.tag=v1"
    with ThreadPoolExecutor(1) as pool:
        install = pool.submit(town.checkout.sh, command)
        wait_for(lambda: town.pods.api.find("/api/v1/namespaces/cleave-node"), 60, "the install to have begun")
        restart_api_server(town.pods.cluster)
    if install.exception():
        town.say(f"helm, when the API server restarts: {str(install.exception()).strip().splitlines()[-1]}")
        town.checkout.sh(f"helm uninstall cleave -n default --wait; {command}")
    town.pods.wait_rolled_out()
    town.pods.wait_devices()


def restart_api_server(cluster):
    with cluster.network(), ApiServer(cluster).gone():
        pass
