# SPDX-License-Identifier: Apache-2.0
"""A node that comes over from HAMi, in the order of docs/operations.md, with HAMi's own scheduler and device plugin on simulated cards.

HAMI_SCHEDULER and HAMI_DEVICE_PLUGIN name HAMi's programs, of a checkout of github.com/Project-HAMi/HAMi, version 2.10:
    go build -o /tmp/hami-scheduler ./cmd/scheduler && go build -o /tmp/hami-device-plugin ./cmd/device-plugin/nvidia
The kubelet is the stub, and the test asks HAMi's extender what kube-scheduler would ask. HAMi's accounts have the rights that its chart
gives them, under the name of a release.
"""

import json
import os
import urllib.request

import pytest
from conftest import wait_for
from extender import free_port, scheduler
from kubelet_stub import kubelet  # noqa: F401
from kubelet_work import KubeletWork
from stack import SIM, condition, rig  # noqa: F401
from test_fractional import limits
from test_fractional_stub import GPU, PODS, PODS_END_S, Shares
from test_plugin_stub import Host

PROGRAMS = [os.environ.get(name) for name in ("HAMI_SCHEDULER", "HAMI_DEVICE_PLUGIN")]
NAMESPACE, RELEASE = "gpu", "vgpu-hami"
REGISTER, ALLOCATED, LOCK = "hami.io/node-nvidia-register", "hami.io/vgpu-devices-allocated", "hami.io/mutex.lock"
WORDS = {"Count": GPU, "Memory": f"{GPU}mem", "MemoryPercentage": f"{GPU}mem-percentage", "Core": f"{GPU}cores", "Priority": "nvidia.com/priority"}
CONFIG = {
    **{f"resource{word}Name": name for word, name in WORDS.items()},
    **{"defaultGPUNum": 1, "memoryFactor": 1, "deviceSplitCount": 10, "deviceMemoryScaling": 1, "deviceCoreScaling": 1, "libCudaLogLevel": 1},
}
# Its plugin's socket has a fixed place, and it writes beside it and into /tmp.
INSIDE = 'mount -t tmpfs none /var/lib && mkdir -p /var/lib/kubelet/device-plugins && mount --bind "$1" /var/lib/kubelet/device-plugins && shift && exec "$@"'

pytestmark = pytest.mark.skipif(None in PROGRAMS, reason="HAMI_SCHEDULER and HAMI_DEVICE_PLUGIN name no programs of HAMi")


class Hami:
    """HAMi, for one node whose kubelet is the stub."""

    def __init__(self, rig, kubelet):
        self.rig, self.kubelet = rig, kubelet
        self.host = Host(rig, kubelet, {"h100-80": 2}, slots=True)
        self.node = self.host.node
        self.config = rig.folder / "device-config.yaml"
        self.config.write_text(json.dumps({"nvidia": CONFIG}))
        rig.cluster.kubectl("create", "namespace", NAMESPACE)
        self.port = free_port(rig)
        names = {"NODE_NAME": self.node.name, "POD_NAME": "hami", "POD_NAMESPACE": NAMESPACE, "HOOK_PATH": str(rig.folder / "hook")}
        plugin = ["unshare", "-m", "sh", "-c", INSIDE, "sh", kubelet.plugins, PROGRAMS[1], f"--config-file={self.config}"]
        libraries = {**self.node.env, "LD_LIBRARY_PATH": str(SIM)}
        self.plugin = rig.processes("hami-device-plugin", *plugin, env={**names, **libraries, "KUBECONFIG": str(self.account("device-plugin"))})
        wait_for(lambda: self.annotation(REGISTER), 60, lambda: f"HAMi's plugin to tell of the cards:\n{self.plugin.tail()}")
        extender = [f"--http_bind=127.0.0.1:{self.port}", f"--device-config-file={self.config}", f"--metrics-bind-address=127.0.0.1:{free_port(rig)}"]
        self.scheduler = rig.processes("hami-scheduler", PROGRAMS[0], *extender, env={**names, "KUBECONFIG": str(self.account("scheduler"))})

    def account(self, what):
        """A kubeconfig of it; HAMi's chart binds both to cluster-admin or nearly so."""
        name = f"{RELEASE}-{what}"
        self.rig.cluster.kubectl("-n", NAMESPACE, "create", "serviceaccount", name)
        self.rig.cluster.kubectl("create", "clusterrolebinding", name, "--clusterrole=cluster-admin", f"--serviceaccount={NAMESPACE}:{name}")
        return self.rig.write_kubeconfig(name, self.rig.cluster.kubectl.out("-n", NAMESPACE, "create", "token", name))

    def annotation(self, key):
        return self.node.node_object()["metadata"].get("annotations", {}).get(key)

    def ask(self, verb, question):
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}/{verb}", json.dumps(question).encode(), {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.load(answer)

    def offers(self, pod):
        try:
            return self.ask("filter", {"Pod": pod, "Nodes": None, "NodeNames": [self.node.name]}).get("NodeNames")
        except OSError:
            return None

    def run(self, name, **sizes):
        """A pod, from its making to the kubelet's grant."""
        name = f"{self.rig.id}-{name}"
        self.rig.objects.append(f"{PODS}/{name}")
        container = {"name": "main", "image": "none", "resources": {"limits": limits(**sizes)}}
        spec = {"schedulerName": "hami-scheduler", "containers": [container], "terminationGracePeriodSeconds": 0}
        pod = self.rig.api.create(PODS, {"metadata": {"name": name}, "spec": spec})
        wait_for(lambda: self.offers(pod), 60, lambda: f"HAMi's scheduler to choose a card:\n{self.scheduler.tail()}")
        bound = self.ask("bind", {"PodName": name, "PodNamespace": "default", "PodUID": pod["metadata"]["uid"], "Node": self.node.name})
        assert not bound.get("Error"), bound
        return self.kubelet.admit("default", name, {GPU: 1}, uid=pod["metadata"]["uid"])

    def given(self, pod):
        """(card, MiB, percent), by HAMi's record."""
        uuid, _, mib, percent = self.rig.api.get(f"{PODS}/{pod.name}")["metadata"]["annotations"][ALLOCATED].split(":")[0].split(",")
        return [self.node.uuid(i) for i in (0, 1)].index(uuid), int(mib), int(percent)

    def end(self):
        self.scheduler.stop()
        self.plugin.stop()


@pytest.fixture
def hami(rig, kubelet):
    h = Hami(rig, kubelet)
    yield h
    for what in ("device-plugin", "scheduler"):
        rig.cluster.kubectl("delete", "clusterrolebinding", f"{RELEASE}-{what}")
    rig.cluster.kubectl("delete", "namespace", NAMESPACE, "--wait=false")


class Moved(Shares):
    """The node as Cleave's, which its agent gives out in shares."""

    def __init__(self, hami):
        self.rig, self.kubelet, self.host, self.node = hami.rig, hami.kubelet, hami.host.start(), hami.node
        self.rig.profile("shares", {"selector": {"vendor": "nvidia"}, "mode": "native", "sharing": {"fractional": {}}})

    def shares(self):
        """{pod: (card, MiB, percent)}, by the Device."""
        return {name: (card, *size) for card in (0, 1) for size, name in self.told(card)}


def waiting(rig, name, **sizes):
    """A pod of cleave-scheduler's."""
    return rig.pod(f"{rig.id}-{name}", None, schedulerName="cleave-scheduler", container={"resources": {"limits": limits(**sizes)}})


def why(rig, pod):
    return condition(rig.api.get(f"{PODS}/{pod['metadata']['name']}"), "PodScheduled").get("message", "")


def test_pods_run_on_while_their_node_comes_over(hami):
    rig = hami.rig
    rig.controller()
    large, small = hami.run("large", gpumem=60000, gpucores=40), hami.run("small", gpumem=3000)
    before = {pod.name: hami.given(pod) for pod in (large, small)}
    assert [before[large.name][1:], before[small.name][1:]] == [(60000, 40), (3000, 0)]
    with scheduler(rig):
        # Both know the node: ours leaves it alone.
        work = KubeletWork(rig.api, hami.node.name, hami.kubelet)
        work.admitted = {pod.uid: [pod] for pod in (large, small)}
        work.offer()
        whole = waiting(rig, "whole")
        wait_for(lambda: "HAMi's device plugin serves the node" in why(rig, whole), 60, lambda: f"our scheduler to say whose the node is, not {why(rig, whole)!r}")
        hami.end()
        hami.kubelet.wait_no_dead()
        rig.cluster.kubectl("annotate", "node", hami.node.name, *(f"{key}-" for key in (REGISTER, "hami.io/node-handshake", LOCK)))
        moved = Moved(hami)
        wait_for(lambda: moved.shares() == before, PODS_END_S, lambda: f"HAMi's shares {before}, not {moved.shares()}")
        rig.api.delete(f"{PODS}/{whole['metadata']['name']}", now=True)
        late = waiting(rig, "late", gpumem=70000)["metadata"]["name"]

        def given():
            work.do()
            return moved.shares().get(late)

        beside = 1 - before[large.name][0]
        wait_for(lambda: given() == (beside, 70000, 0), 60, lambda: f"room on the card beside the large one, not {moved.shares()}: {before}")
        assert hami.kubelet.pods and {p.name for p in (large, small)} <= {p.name for p in hami.kubelet.pods}
