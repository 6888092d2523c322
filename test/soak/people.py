# SPDX-License-Identifier: Apache-2.0
"""What people do all day: profiles, labels, nodes and pods, at random; and what the hardware should be like in the end.

A node is in a pool, by its label; a pool has at most one profile. The nodes of the pool "own" have no profile but a
layout of their own by nvidia.com/mig.config. Where nobody asks for anything, nothing is expected.
"""

import re
import time

from kubelet_stub import Refused, grpc
from stack import GROUP, ApiError, is_current

LABEL = "nvidia.com/mig.config"
POOLS = ("a", "b", "own")
LAYOUTS = (
    {"1g.10gb": 7},
    {"3g.40gb": 2},
    {"2g.20gb": 3},
    {"7g.80gb": 1},
    {"1g.10gb": 4, "3g.40gb": 1},
    {"1g.10gb": 2, "2g.20gb": 1, "3g.40gb": 1},
    "native",
)
# Built-in names, and a MIGConfig whose content changes.
NAMED = {
    "all-1g.10gb": {"1g.10gb": 7},
    "all-3g.40gb": {"3g.40gb": 2},
    "all-balanced": {"1g.10gb": 2, "2g.20gb": 1, "3g.40gb": 1},
    "all-disabled": "native",
}
MOST_PODS = 6


def entry(layout):
    """As a profile says it."""
    if layout == "native":
        return {"mode": "native"}
    return {"mode": "mig", "mig": {"profiles": layout}}


def resources(layout):
    """What a card offers."""
    if layout == "native":
        return {"nvidia.com/gpu": 1}
    return {f"nvidia.com/mig-{profile}": count for profile, count in layout.items()}


class Pod:
    """A pod on a node with a kubelet's stub, that holds one partition or card."""

    def __init__(self, path, node, admitted):
        self.path, self.node, self.admitted = path, node, admitted
        ((device,),) = admitted.devices.values()
        start = re.search(r"@(\d+)", device)
        gpu = next(card["index"] for card in node.cards() if device.startswith(card["uuid"]))
        self.held = {"node": node.name, "since": time.time(), "until": float("inf"), "gpu": gpu, "start": start and int(start[1])}


class People:
    def __init__(self, world, rng):
        self.world, self.rig, self.rng = world, world.rig, rng
        self.pool = {}  # node: pool
        self.own = {}  # node: layout by label
        self.label_of = {}  # node: that label
        self.profiles = {}  # pool: layout
        self.pods, self.holds, self.numbers = [], [], 0
        self.named = dict(NAMED)
        self.away = []
        self.deeds = (
            (6, self.change_profile),
            (1, self.delete_profile),
            (3, self.move_node),
            (3, self.label_node),
            (1, self.change_config),
            (2, self.label_idly),
            (1, self.replace_node),
            (8, self.start_pod),
            (8, self.end_pod),
        )

    def begin(self):
        for i, node in enumerate(self.world.nodes):
            self.put(node, POOLS[i % len(POOLS)])
        for pool in ("a", "b"):
            self.change_profile(pool)

    def act(self):
        """One thing. Returns its name, or None where it could not be done."""
        deed = self.rng.choices([d for _, d in self.deeds], [w for w, _ in self.deeds])[0]
        try:
            done = deed()
        except ApiError as error:
            if error.code not in (404, 409):
                raise
            done = False
        return None if done is False else deed.__name__

    # --- policy ---

    def change_profile(self, pool=None):
        pool = pool or self.rng.choice(("a", "b"))
        layout = self.rng.choice(LAYOUTS)
        spec = {
            "nodeSelector": {"matchLabels": {"test": self.rig.id, "pool": pool}},
            "devices": [{"selector": {"vendor": "nvidia"}, **entry(layout)}],
            "rollout": {"maxUnavailable": self.rng.randint(1, 2), "drain": self.rng.choice(("evict", "evict", "refuseIfInUse"))},
        }
        self.rig.make("gpuprofiles", self.profile_name(pool), spec)
        self.profiles[pool] = layout

    def delete_profile(self):
        pool = self.rng.choice(("a", "b"))
        self.rig.api.delete(self.profile_path(pool))
        return self.profiles.pop(pool, None) is not None

    def change_config(self):
        layout = self.rng.choice(LAYOUTS)
        name = f"{self.rig.id}-config"
        mig = {"migEnabled": layout != "native", **({} if layout == "native" else {"migDevices": layout})}
        self.rig.config(name, mig)
        self.named[name] = layout
        self.own.update({node: layout for node, was in self.own.items() if self.label_of.get(node) == name})

    def profile_name(self, pool):
        return f"{self.rig.id}-{pool}"

    def profile_path(self, pool):
        return f"{GROUP}/gpuprofiles/{self.profile_name(pool)}"

    # --- nodes ---

    def present(self):
        return [node for node in self.world.nodes if node not in self.away]

    def put(self, node, pool):
        """In a pool; what it had of its own goes."""
        self.pool[node] = pool
        self.own.pop(node, None)
        self.label_of.pop(node, None)
        node.label(**{"pool": pool, LABEL: None})

    def move_node(self):
        node = self.rng.choice(self.present())
        self.put(node, self.rng.choice(POOLS))

    def label_node(self):
        mine = [node for node in self.present() if self.pool[node] == "own"]
        if not mine:
            return False
        node, name = self.rng.choice(mine), self.rng.choice(sorted(self.named))
        node.label(**{LABEL: name})
        self.own[node], self.label_of[node] = self.named[name], name

    def label_idly(self):
        self.rng.choice(self.present()).label(season=str(self.rng.randrange(1000)))

    def replace_node(self):
        """Removed, and added again under its name a little later."""
        node = self.rng.choice(self.world.mortal_nodes())
        if node in self.away:
            return False
        self.away.append(node)
        for pod in [p for p in self.pods if p.node is node]:
            self.let_go(pod)
        self.world.remove_node(node)
        self.world.later(self.rng.uniform(0.1, 2), lambda: self.bring_back(node))

    def bring_back(self, node):
        self.world.return_node(node)
        self.away.remove(node)
        self.put(node, self.pool[node])

    # --- pods ---

    def start_pod(self):
        nodes = [node for node in self.present() if node in self.world.kubelets]
        if not nodes or len(self.pods) >= MOST_PODS:
            return False
        node = self.rng.choice(nodes)
        kubelet = self.world.kubelets[node]
        offered = sorted(name for name, (free, _) in kubelet.offers().items() if free)
        if not offered:
            return False
        resource, self.numbers = self.rng.choice(offered), self.numbers + 1
        name = f"{self.rig.id}-pod-{self.numbers}"
        made = self.rig.pod(name, node.name)
        self.rig.objects.pop()  # it goes as it came
        path = f"/api/v1/namespaces/default/pods/{name}"
        try:
            admitted = kubelet.admit("default", name, {resource: 1}, uid=made["metadata"]["uid"])
        except (Refused, AssertionError, grpc.RpcError):
            self.rig.api.delete(path, now=True)
            return False
        self.pods.append(Pod(path, node, admitted))
        self.holds.append(self.pods[-1].held)

    def end_pod(self):
        if not self.pods:
            return False
        self.let_go(self.rng.choice(self.pods))

    def let_go(self, pod):
        pod.held["until"] = time.time()
        self.world.kubelets[pod.node].end(pod.admitted)
        self.rig.api.delete(pod.path, now=True)
        self.pods.remove(pod)

    def obey(self):
        """Pods that were evicted end, as by a kubelet."""
        for pod in list(self.pods):
            found = self.rig.api.find(pod.path)
            if found is None or found["metadata"].get("deletionTimestamp"):
                self.let_go(pod)

    # --- the end ---

    def rest(self):
        """Nothing is in use any more."""
        for pod in list(self.pods):
            self.let_go(pod)

    def wanted(self, node):
        """Its layout; None: nobody asks for one."""
        return self.own.get(node) if self.pool[node] == "own" else self.profiles.get(self.pool[node])

    def unlike(self):
        """What is not as it should be, in words."""
        for pool in set(self.profiles) & set(self.pool.values()):
            if not is_current(self.rig.api.get(self.profile_path(pool))):
                yield f"the profile of pool {pool} is not Ready"
        for node in self.world.nodes:
            yield from self.unlike_of(node)

    def unlike_of(self, node):
        device = self.rig.api.find(node.path)
        if not device or not is_current(device):
            yield f"the Device of {node.name} is not Ready"
            return
        layouts, wanted = node.layouts(), self.wanted(node)
        if wanted is not None and any(layout != wanted for layout in layouts):
            yield f"{node.name} is {layouts}, not {wanted}"
        should = {}
        for layout in layouts:
            for name, count in resources(layout).items():
                should[name] = should.get(name, 0) + count
        if node in self.world.kubelets:
            has = {name: free for name, (free, _) in self.world.kubelets[node].offers().items() if free}
        else:
            has = {name: count for name, count in node.offers().items() if count}
        if has != should:
            yield f"{node.name} offers {has}, not {should}"
