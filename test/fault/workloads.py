# SPDX-License-Identifier: Apache-2.0
"""What people do to a cluster, each as a class: what is there before, what they do, and when it is done.

What is done between before() and done() is what faults strike.
"""

import shutil
import tempfile
import time

from conftest import wait_for
from kubelet_stub import KubeletStub
from stack import is_current


def cut(**profiles):
    return {"mode": "mig", "mig": {"profiles": {name.strip("_").replace("_", "."): n for name, n in profiles.items()}}}


SMALL = cut(_1g_10gb=7)
HALVES = cut(_3g_40gb=2)
HALF = "nvidia.com/mig-3g.40gb"
LABEL = "nvidia.com/mig.config"


class Workload:
    """world has the rig, its nodes, and the programs; one node of two cards, unless a workload says otherwise."""

    nodes, fleet = 1, {"h100-80": 2}
    slots = False  # its agents may read pods
    spared, spared_offer = (), {}  # cards that are not asked to change, and what they offer all the while
    ordered = True  # the agent is there when the change is ordered
    profile = None
    ended = {}  # pods that were deleted: {name: when}
    live = {}  # pods that are to have shares in the end: {name: uid}

    def __init__(self, world):
        self.world, self.rig = world, world.rig

    def furnish(self, node):
        """What the node has beside its cards."""

    def flags(self, node):
        """Of the agent."""
        return {}

    def offers(self, node):
        """What its kubelet was told that it offers: (time, {resource: count})."""
        return []

    def granted(self):
        """The pods that a kubelet gave slots of shares: {uid: (name, slots, (MiB, percent) of a share that it asks for)}."""
        return {}

    def slot_files(self, node):
        """What its agent wrote for them, as slot_files.py has it."""
        return []

    def words(self):
        """Names of this run, and what to read for them where runs are compared."""
        return {}

    def close(self):
        """Takes away what the rig does not."""

    def before(self):
        """Brings about what is there before, undisturbed."""

    def act(self):
        raise NotImplementedError

    def done(self):
        """Is what was asked for there?"""
        return self.is_ready() and all(layout == self.layout for node in self.world.nodes for layout in node.layouts())

    def is_ready(self):
        return is_current(self.rig.api.get(self.profile)) and all(is_current(node.device()) for node in self.world.nodes)

    def ask(self, device, **rollout):
        self.profile = self.rig.profile("p", device, **({"rollout": rollout} if rollout else {}))

    def settle(self, layout):
        self.layout = layout
        wait_for(self.done, 60, lambda: f"the start: {self.rig.api.get(self.profile).get('status')}")


class FirstProfile(Workload):
    """Nodes that nobody asked anything of get their first profile."""

    def act(self):
        self.layout = {"1g.10gb": 7}
        self.ask(SMALL)


class ProfileChange(Workload):
    """A profile is changed, and two nodes follow one after the other."""

    nodes, fleet = 2, {"h100-80": 1}

    def before(self):
        self.ask(HALVES, maxUnavailable=1)
        self.settle({"3g.40gb": 2})

    def act(self):
        self.layout = {"1g.10gb": 7}
        self.ask(SMALL, maxUnavailable=1)


class OneOfTwo(Workload):
    """Of a node's two cards one is cut otherwise; the other one's partitions stay on offer all the while."""

    spared, spared_offer = (1,), {HALF: 2}

    def want(self, *layouts):
        devices = [{"selector": {"indices": [i]}, **layout} for i, layout in enumerate(layouts)]
        self.profile = self.rig.profile("p", *devices)

    def before(self):
        self.want(HALVES, HALVES)
        self.layouts = [{"3g.40gb": 2}, {"3g.40gb": 2}]
        wait_for(self.done, 60, "the start")

    def act(self):
        self.layouts = [{"1g.10gb": 7}, {"3g.40gb": 2}]
        self.want(SMALL, HALVES)

    def done(self):
        return self.is_ready() and self.world.nodes[0].layouts() == self.layouts


class LabelChange(Workload):
    """A node's label asks for one layout, then for another."""

    def label(self, name):
        for node in self.world.nodes:
            node.label(**{LABEL: name})

    def before(self):
        self.label("all-1g.10gb")
        self.layout = {"1g.10gb": 7}
        wait_for(self.done, 60, lambda: f"the first label: {self.world.nodes[0].labels()}")

    def act(self):
        self.layout = {"1g.10gb": 2, "2g.20gb": 1, "3g.40gb": 1}
        self.label("all-balanced")

    def is_ready(self):
        return all(n.labels().get(f"{LABEL}.state") == "success" and is_current(n.device()) for n in self.world.nodes)


def slices(alias, count):
    return {"mode": "sgpu", "sgpu": {"qosPolicy": "fixed-share", "slices": [{"alias": alias, "memoryMiB": 2048, "computePercent": 10, "count": count}]}}


class Slices(Workload):
    """MetaX's cards are cut into slices, and then into others."""

    fleet = {"c500": 2}

    def before(self):
        self.ask(slices("half", 2))
        self.settle({"half": 2})

    def act(self):
        self.layout = {"small": 3}
        self.ask(slices("small", 3))


class ProfileReturns(Workload):
    """A profile is deleted, and at once made again under its name, with another layout."""

    def before(self):
        self.ask(HALVES)
        self.settle({"3g.40gb": 2})

    def act(self):
        self.layout = {"1g.10gb": 7}
        self.rig.api.delete(self.profile)
        self.ask(SMALL)


class NodeReturns(Workload):
    """A node is removed, and added again under its name: its pods, and with them the agent's token, are new."""

    ordered = False

    def before(self):
        self.ask(HALVES)
        self.settle({"3g.40gb": 2})

    def act(self):
        self.layout = {"3g.40gb": 2}
        (node,) = self.world.nodes
        self.world.end_agent(node)
        self.rig.api.delete(f"/api/v1/nodes/{node.name}")
        wait_for(lambda: self.rig.api.find(node.path) is None, self.world.patience, "the Device to be collected")
        self.world.add_again(node)

    def is_ready(self):
        return all(self.rig.api.find(node.path) for node in self.world.nodes) and super().is_ready()


class AgentUpgrade(Workload):
    """While a profile changes, the agent is replaced by another one."""

    ordered = False

    def before(self):
        self.ask(HALVES)
        self.settle({"3g.40gb": 2})

    def act(self):
        self.layout = {"1g.10gb": 7}
        self.ask(SMALL)
        for node in self.world.nodes:
            self.world.end_agent(node)
            self.world.start_agent(node)


class Kubelet(KubeletStub):
    """One that remembers what it was told to offer, and when."""

    def __init__(self, folder):
        self.offered = []  # (time, {resource: count of those that are well})
        super().__init__(folder)

    def forget(self):
        super().forget()
        self.note()

    def listed(self, resource, devices):
        super().listed(resource, devices)
        self.note()

    def lose(self, resource):
        super().lose(resource)
        self.note()

    def note(self):
        with self.lock:
            self.offered.append((time.time(), {name: len(ids) for name, ids in self.healthy.items()}))


class Served(Workload):
    """The agent serves a kubelet (a stub of it)."""

    fleet = {"h100-80": 1}

    def furnish(self, node):
        self.folder = tempfile.mkdtemp(prefix="ck", dir="/tmp")  # a socket's path has 107 bytes
        self.kubelet = Kubelet(self.folder).start()
        self.driver = node.folder / "driver"
        node.ctl("driver-root", self.driver)
        node.ctl("dev-root", self.driver)

    def flags(self, node):
        places = {f"{host}{what}_root": self.driver for host in ("", "host_") for what in ("driver", "dev")}
        return {"resources": "kubelet", "kubelet_dir": self.folder, "cdi_dir": node.folder / "cdi", **places}

    def offers(self, node):
        return self.kubelet.offered

    def close(self):
        self.kubelet.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    def hold(self):
        """A pod gets the second half of the card; until it is let go nothing may take that from it."""
        (node,) = self.world.nodes
        self.kubelet.wait_offer(HALF, 2)
        self.pod = self.kubelet.admit("default", f"{self.rig.id}-holds", {HALF: 1})
        start = int(self.pod.devices[HALF][0].partition("@")[2])
        self.held = {"node": node.name, "start": start, "since": time.time(), "until": float("inf")}
        self.holds = [self.held]

    def let_go(self):
        self.held["until"] = time.time()
        self.kubelet.end(self.pod)

    def done(self):
        return super().done() and self.kubelet.offers().get("nvidia.com/mig-1g.10gb") == (7, 7)


class FailingLayout(Served):
    """The third instance of a card cannot be made, once: what was there comes back, and then it works."""

    def before(self):
        self.ask(HALVES)
        self.layout = {"3g.40gb": 2}
        wait_for(self.is_ready, 60, "the start")
        (node,) = self.world.nodes
        node.ctl("fault", "add", "--call", "nvmlDeviceCreateGpuInstanceWithPlacement", "--nth", 3, "--action", "fail:UNKNOWN")

    def act(self):
        self.layout = {"1g.10gb": 7}
        self.ask(SMALL)


class PodHolds(Served):
    """A pod holds a half of the card that is to be cut otherwise; later it ends."""

    def before(self):
        self.ask(HALVES)
        self.layout = {"3g.40gb": 2}
        wait_for(self.is_ready, 60, "the start")
        self.hold()

    def act(self):
        (node,) = self.world.nodes
        self.layout = {"1g.10gb": 7}
        self.ask(SMALL)
        wait_for(self.waits, self.world.patience, lambda: f"the change to wait: {node.applied()}")
        self.let_go()

    def waits(self):
        (node,) = self.world.nodes
        return self.rig.api.find(node.path) and node.applied().get("reason") == "InUse"


class Evicted(Served):
    """The pod that holds it is evicted."""

    def before(self):
        self.ask(HALVES)
        self.layout = {"3g.40gb": 2}
        wait_for(self.is_ready, 60, "the start")
        self.rig.pod(f"{self.rig.id}-holds", self.world.nodes[0].name)
        self.hold()

    def act(self):
        self.layout = {"1g.10gb": 7}
        self.ask(SMALL, drain="evict", maxUnavailable=1)
        path = f"/api/v1/namespaces/default/pods/{self.rig.id}-holds"
        wait_for(lambda: self.rig.api.get(path)["metadata"].get("deletionTimestamp"), self.world.patience, "the eviction")
        self.let_go()
        self.rig.api.delete(path, now=True)
