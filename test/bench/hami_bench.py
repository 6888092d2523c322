# SPDX-License-Identifier: Apache-2.0
"""cleave-scheduler beside HAMi's scheduler, for the same pods on the same nodes: the answers of their filters, and pods a second through
a kube-scheduler.

HAMI_SCHEDULER names HAMi's program: `go build ./cmd/scheduler` in a checkout of github.com/Project-HAMi/HAMi, version 2.10. It learns of
cards by annotations of the Nodes, as its device plugin writes them, and by what the Nodes offer. For each pod it locks the pod's node.
The plugin gives the lock back when the pod has its card; here the bench does, as soon as it sees the lock.
BENCH_BINDING_NODES (500), BENCH_HAMI_PODS (200) and BENCH_HAMI_QUESTIONS (300) change the sizes.
"""

import json
import os
import queue
import threading
import urllib.request

from rig import BIN, Api, Skip, Stack, drain, free_port, in_parallel, quantile, ready, show, until
from scheduler_bench import CARDS, MIB, NAMED, Asker, make_devices, ms, node_name, pod, uuid
from shares_bench import GPU, NODES, PODS, SHARES, make_nodes, pods_a_second

PROGRAM = os.environ.get("HAMI_SCHEDULER")
COUNT = int(os.environ.get("BENCH_HAMI_PODS", "200"))
QUESTIONS = int(os.environ.get("BENCH_HAMI_QUESTIONS", "300"))
LOCK = "hami.io/mutex.lock"
RESOURCES = {
    "resourceCountName": GPU,
    "resourceMemoryName": f"{GPU}mem",
    "resourceMemoryPercentageName": f"{GPU}mem-percentage",
    "resourceCoreName": f"{GPU}cores",
    "resourcePriorityName": "nvidia.com/priority",
}
# As its chart has it.
CONFIG = {"nvidia": {**RESOURCES, "defaultGPUNum": 1, "memoryFactor": 1, "deviceSplitCount": SHARES, "deviceMemoryScaling": 1, "deviceCoreScaling": 1}}
EXTENDER = {
    "preemptVerb": "",
    "httpTimeout": "30s",
    "managedResources": [{"name": name, "ignoredByScheduler": True} for name in RESOURCES.values()],
}


def register_cards(stack):
    """As HAMi's device plugin does."""

    def cards(i):
        common = {"count": SHARES, "devmem": MIB, "devcore": 100, "type": "NVIDIA-NVIDIA H100 80GB HBM3", "mode": "hami-core", "health": True}
        return json.dumps([{"id": uuid(i, k), "index": k, "numa": k // 4, "devicevendor": "NVIDIA", **common} for k in range(CARDS)])

    def register(api, i):
        api.merge(f"/api/v1/nodes/{node_name(i)}", {"metadata": {"annotations": {"hami.io/node-nvidia-register": cards(i)}}})

    in_parallel(NODES, register)(stack.api)


class LocksGivenBack:
    """HAMi's device plugins on all nodes, as far as the lock goes; `with` it."""

    def __init__(self, stack):
        self.api, self.ended, events = Api(stack.api.rundir), threading.Event(), queue.Queue()
        self.failed = None  # a lock that is not given back would be measured as HAMi's
        stack.api.watch("/api/v1/nodes", events)
        self.thread = threading.Thread(target=self.run, args=(events,), daemon=True)
        self.thread.start()

    def run(self, events):
        try:
            while not self.ended.wait(0.002):
                for _, _, node in drain(events):
                    if LOCK in node["metadata"].get("annotations", {}):
                        self.api.merge(f"/api/v1/nodes/{node['metadata']['name']}", {"metadata": {"annotations": {LOCK: None}}})
        except Exception as error:
            self.failed = error

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.ended.set()
        self.thread.join()
        if self.failed:
            raise self.failed


def start_ours(stack):
    """Returns its port and its process."""
    port, health = free_port(), free_port()
    proc = stack.start("cleave-scheduler", [BIN / "cleave-scheduler", "--kubeconfig", stack.kubeconfig, "--listen", f"127.0.0.1:{port}", "--health-addr", f"127.0.0.1:{health}"])
    until(lambda: ready(health), 300, "cleave-scheduler to be ready")
    return port, proc


def end(stack, proc):
    proc.stop()
    stack.procs.remove(proc)


def start_hami(stack, policy):
    """Returns its port and its process, once it knows the cards."""
    port, file = free_port(), stack.dir / "device-config.yaml"
    file.write_text(json.dumps(CONFIG))
    argv = [PROGRAM, f"--http_bind=127.0.0.1:{port}", f"--device-config-file={file}", f"--metrics-bind-address=127.0.0.1:{free_port()}",
            f"--node-scheduler-policy={policy}", "--kube-qps=5000", "--kube-burst=10000"]
    names = {"POD_NAME": "hami", "POD_NAMESPACE": "default", "NODE_NAME": node_name(0)}
    proc = stack.start(f"hami-{policy}", argv, {"KUBECONFIG": str(stack.kubeconfig), **names})
    until(lambda: ready(port), 300, "HAMi's scheduler to be ready")
    until(lambda: knows_cards(stack, port), 60, "HAMi's scheduler to know the cards")
    return port, proc


def knows_cards(stack, port):
    one = make_pod(stack.api, "first")
    answer = urllib.request.urlopen(urllib.request.Request(f"http://127.0.0.1:{port}/filter", question(one), {"Content-Type": "application/json"}), timeout=60)
    forget(stack, ["first"])
    return json.load(answer).get("NodeNames")


def make_pod(api, name):
    return api.call("POST", PODS, pod(name, schedulerName="nobody", serviceAccountName="default", automountServiceAccountToken=False))


def forget(stack, names):
    for name in names:
        stack.api.call("DELETE", f"{PODS}/{name}", {"gracePeriodSeconds": 0})


def question(one):
    return json.dumps({"Pod": one, "Nodes": None, "NodeNames": [node_name(i) for i in range(min(NAMED, NODES))]}).encode()


def answers(stack, port, name):
    """The times of filters, each for a pod of its own, one after the other."""
    asker, times, names = Asker(port), [], [f"{name}-{i}" for i in range(QUESTIONS)]
    for each in names:
        body = question(make_pod(stack.api, each))
        head = b"POST /filter HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body)
        took, got = asker.ask(head + body)
        if b" 200 " not in got.split(b"\r\n")[0]:
            raise RuntimeError(got)
        times.append(took)
    forget(stack, names)
    return times


def revision(stack):
    return int(stack.api.call("GET", f"{PODS}?limit=1")["metadata"]["resourceVersion"])


def measure(stack, name, **extender):
    """Pods a second, and the writes of a pod, those of Events and of kube-scheduler included; the pods are gone then."""
    before = {}

    def started():
        before["revision"] = revision(stack)

    rate = pods_a_second(stack, name, COUNT, started, **extender)
    writes = (revision(stack) - before["revision"]) / COUNT
    forget(stack, [f"{name}-{i:05d}" for i in range(COUNT)])
    return rate, writes


def hami():
    if not PROGRAM:
        raise Skip("HAMI_SCHEDULER names no program; test/bench/hami_bench.py says how it is built")
    print(f"\ncleave-scheduler and HAMi's, {NODES} nodes of {CARDS} cards, {COUNT} pods with shares")
    times, rates = {}, {}
    with Stack("hami") as stack:
        make_nodes(stack)
        make_devices(stack, NODES + 1)
        register_cards(stack)

        def compare(who, port, proc, **extender):
            name = proc.name
            times[who] = answers(stack, port, name)
            rates[who] = measure(stack, f"round-{name}", urlPrefix=f"http://127.0.0.1:{port}", **extender)
            end(stack, proc)

        with LocksGivenBack(stack):
            compare("cleave-scheduler", *start_ours(stack))
            for policy in ("binpack", "spread"):
                compare(f"HAMi, {policy}", *start_hami(stack, policy), **EXTENDER)
        for who, found in times.items():
            show("hami", f"filter of {min(NAMED, NODES)} names, p50 / p99, {who}", f"{ms(quantile(found, 0.5))} / {ms(quantile(found, 0.99))}")
        for who, (rate, writes) in rates.items():
            show("hami", f"pods a second, {who}", f"{rate:.1f}")
            show("hami", f"writes to the API server for a pod, {who}", f"{writes:.1f}")
        ours = times.pop("cleave-scheduler"), rates.pop("cleave-scheduler")[0]
        for who, found in times.items():
            show("hami", f"filter, p50, {who}: times as long", f"{quantile(found, 0.5) / quantile(ours[0], 0.5):.1f}")
            show("hami", f"pods a second, cleave-scheduler / {who}", f"{ours[1] / rates[who][0]:.1f}")
