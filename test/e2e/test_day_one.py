# SPDX-License-Identifier: Apache-2.0
"""A platform team's first day with Cleave on three nodes, two of them with cards: what README.md and docs/install.md say, in order."""

import threading
import time

from conftest import wait_for
from pod_images import images
from pods_rig import pods, pods_cluster, section, steps  # noqa: F401
from stack import GROUP, Api
from test_plugin_real import LOOK, assert_sees_its_own, held

CARDS = {"nvidia.com/mig-1g.10gb": 2, "nvidia.com/mig-3g.40gb": 1, "nvidia.com/gpu": 1}  # of n2
PROFILE = {
    "apiVersion": "gpu.cleave.dev/v1alpha1",
    "kind": "GPUProfile",
    "metadata": {"name": "team"},
    "spec": {
        "nodeSelector": {"matchLabels": {"pool": "team"}},
        "devices": [{"selector": {"vendor": "nvidia", "indices": [0]}, "mode": "mig", "mig": {"profiles": {"1g.10gb": 2, "3g.40gb": 1}}}],
    },
}


class Absence(threading.Thread):
    """Looks at what a node offers, and adds up for how long it is less than all."""

    def __init__(self, pods, node):
        super().__init__()
        self.api, self.path = Api(pods.cluster), f"/api/v1/nodes/{node.name}"
        self.seconds, self.over = 0.0, threading.Event()

    def run(self):
        last, lacked = time.monotonic(), False
        while not self.over.wait(0.05):
            given = self.api.get(self.path)["status"]["allocatable"]
            now = time.monotonic()
            self.seconds += now - last if lacked else 0
            last, lacked = now, any(int(given.get(name, 0)) < n for name, n in CARDS.items())
        self.api.close()

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.over.set()
        self.join()


def standing(node, workers):
    """What each of the pods has: its container, and its device."""
    return {pod: (node.container(pod)["containerID"], held(node, pod)) for pod in workers}


def apply_profile(pods, checkout):
    pods.api.apply(f"{GROUP}/gpuprofiles/team", PROFILE)
    checkout.sh("kubectl label --overwrite node n2 pool=team")
    pods.wait_ready(f"{GROUP}/gpuprofiles/team", timeout=60)
    pods.node("n2").wait_offers(timeout=60, **CARDS)


def test_day_one(pods):
    pods.new_cards()
    checkout, node = pods.checkout(), pods.node("n2")
    readme = steps(section("README.md", "On a cluster"))

    started = time.monotonic()
    checkout.sh(readme[2])
    checkout.sh(readme[4])
    pods.wait_rolled_out()
    print(f"apply to all pods Ready: {time.monotonic() - started:.1f} s")
    pods.wait_devices()
    apply_profile(pods, checkout)

    workers = [node.runner("worker", {name: "1"}, LOOK) for name, count in CARDS.items() for _ in range(count)]
    devices = [assert_sees_its_own(node, pod) for pod in workers]
    assert len(set(devices)) == sum(CARDS.values())
    before = standing(node, workers)

    pods.cluster.load(images(checkout.folder, "v2"))
    checkout.name_images("v2")
    with Absence(pods, node) as absence:
        checkout.apply()
        node.wait_offers(timeout=60, **CARDS)
    print(f"allocatable absent in an upgrade: {absence.seconds:.2f} s")
    assert {c["image"].rpartition(":")[2] for p in pods.ours() for c in p["spec"]["containers"]} == {"v2"}
    assert standing(node, workers) == before

    checkout.uninstall()
    wait_for(lambda: node.offers() == {}, 30, lambda: f"nothing to be offered: {node.offers()}")
    assert [k for n in pods.nodes for k in n.labels() if k.startswith(("nvidia.com/", "gpu.cleave.dev/"))] == []
    assert standing(node, workers) == before

    checkout.apply()
    pods.wait_devices()
    apply_profile(pods, checkout)
    assert standing(node, workers) == before
    freed = workers.pop()
    node.delete(freed)
    again = node.runner("again", {"nvidia.com/gpu": "1"}, LOOK)
    assert assert_sees_its_own(node, again) == before[freed][1][0]

    pods.end_pods()
    checkout.uninstall()
    checkout.sh("kubectl label node n2 pool-")
