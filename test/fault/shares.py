# SPDX-License-Identifier: Apache-2.0
"""Pods with shares of cards come and go: cleave-scheduler beside a stock kube-scheduler, and a kubelet that is a stub."""

import contextlib
import time

from conftest import wait_for
from extender import Scheduler
from invariants import RECORD, shares_of
from kubelet_stub import Refused, grpc
from kubelet_work import GPU, PODS, KubeletWork
from slot_files import SlotFiles
from workloads import Served

MIB = 40000  # of each pod's share: two fit on a card
OFFERED = 20  # by two cards


class PatientWork(KubeletWork):
    """A pod that is refused because the agent is away is admitted at a later look; a real kubelet's pod is made anew by its owner."""

    def __init__(self, *of):
        super().__init__(*of)
        self.given = {}  # uid: (the pod's name, its slots)

    def do(self):
        with contextlib.suppress(Refused, grpc.RpcError, AssertionError):
            super().do()

    def admit(self, uid, pod):
        made = super().admit(uid, pod)
        devices = (device.name for container in made for answer in container.answers.values() for device in answer.cdi_devices)
        self.given[uid] = pod["metadata"]["name"], {name.rpartition("=")[2] for name in devices}
        return made


class Shares(Served):
    """On two cards that are shared by two pods, three more are created and one of the first is deleted."""

    fleet, slots = {"h100-80": 2}, True
    spared = (0, 1)

    def furnish(self, node):
        super().furnish(node)
        self.files = SlotFiles(node.folder / "state", node.folder / "cdi")

    def close(self):
        self.files.end()
        super().close()

    def granted(self):
        return {uid: (name, slots, (MIB, 0)) for uid, (name, slots) in self.work.given.items()}

    def slot_files(self, node):
        return list(self.files.log)

    def before(self):
        (self.node,) = self.world.nodes
        self.work = PatientWork(self.rig.api, self.node.name, self.kubelet)
        self.names, self.live, self.ended = [], {}, {}  # of pods: all, those that are to have shares with their uids, and {name: time}
        self.rig.api.merge(self.work.path, {"spec": {"taints": None}})
        self.profile = self.rig.profile("p", {"selector": {"vendor": "nvidia"}, "mode": "native", "sharing": {"fractional": {}}})
        wait_for(self.done, 60, "the node to offer shares")
        self.start_scheduler()
        self.create(2)
        wait_for(self.done, 60, "the first pods to have shares")

    def start_scheduler(self):
        """Kube-scheduler's own requests do not pass the proxy."""
        self.scheduler = Scheduler(self.rig)
        credentials = self.world.proxy.kubeconfig(self.scheduler.kubeconfig, "scheduler")
        self.world.start("scheduler", lambda: self.scheduler.extender_process(credentials))
        wait_for(self.scheduler.extender_is_ready, 60, "cleave-scheduler to be ready")
        self.scheduler.start_kube()

    def act(self):
        self.create(3)
        self.delete(self.names[0])

    def create(self, count):
        for _ in range(count):
            name = f"{self.rig.id}-p{len(self.names)}"
            container = {"name": "main", "image": "none", "resources": {"limits": {GPU: "1", "nvidia.com/gpumem": str(MIB)}}}
            self.names.append(name)
            self.rig.objects.append(f"{PODS}/{name}")
            made = self.rig.api.create(PODS, {"metadata": {"name": name}, "spec": {"schedulerName": "cleave-scheduler", "containers": [container]}})
            self.live[name] = made["metadata"]["uid"]

    def delete(self, name):
        self.ended[name] = time.time()
        self.rig.api.delete(f"{PODS}/{name}", now=True)
        del self.live[name]

    def done(self):
        self.work.do()
        return self.is_ready() and self.is_offered() and self.told() == sorted(self.live) and all(map(self.is_placed, self.live))

    def is_offered(self):
        given = self.node.node_object()["status"]["allocatable"]
        return self.kubelet.offers().get(GPU) == (OFFERED, OFFERED) and given.get(GPU) == str(OFFERED)

    def told(self):
        """The pods with shares, as the Device has them."""
        return sorted(name for card in self.node.cards_told() for _, _, users in shares_of(card) for name in users)

    def is_placed(self, name):
        pod = self.rig.api.get(f"{PODS}/{name}")
        bound = pod["spec"].get("nodeName") == self.node.name and RECORD in pod["metadata"].get("annotations", {})
        return bound and self.live[name] in self.work.admitted

    def words(self):
        """Which of them lies on which card, and in which slot, is of no account."""
        return dict.fromkeys(self.names, "POD") | {f"share.{slot}": "share.N" for slot in range(OFFERED)}
