# SPDX-License-Identifier: Apache-2.0
"""The part of `make bench` about slices made for pods: pods a second onto one node, beside the same with the node lock.

A scheduler that shares cards takes a lock of the whole node before it binds a pod (annotation hami.io/mutex.lock), and the
vendor's plugin gives it back when the pod has its slice: only so does that plugin know whose slice it makes. Cleave knows it by
the kubelet's list, and needs no lock. The same pods, kubelet and agent serve all ways; the bench itself is the scheduler. It is
also the plugin that gives the lock back, the moment the slice's CDI file is there; or cleave-controller gives it back as it sees
it. Then with real schedulers, from the first pod's making on: kube-scheduler, and Koordinator's without its lock and with it, which
cleave-controller gives back.
BENCH_PODS (32) is their number.
"""

import contextlib
import itertools
import json
import os
import random
import sys
import threading
import time
from datetime import datetime, timezone

from kubelet_bench import MISSING, SEED, real_rig
from rig import show

if not MISSING:
    from conftest import wait_for
    from koord_scheduler import koord_scheduler
    from kubelet_rig import IMAGE, PODS
    from stack import Api, ApiError, is_current

COUNT = int(os.environ.get("BENCH_PODS", "32"))
CARDS = 4
KUBERNETES, KOORDINATOR = "default-scheduler", "koord-scheduler"
COMPUTE, MEMORY_MIB = 10, 1024  # of each slice
SGPU = "metax-tech.com/sgpu"
LOCK = "hami.io/mutex.lock"
# HAMi's pkg/util/nodelock tries five times, from 100 ms, twice as long each time, give or take half; then the scheduler's queue
# puts the pod back for 1 s, 2 s, … 10 s (podInitialBackoffSeconds, podMaxBackoffSeconds).
TRIES, FIRST_S, BACK_OFF_S, MAX_BACK_OFF_S = 5, 0.1, 1, 10
PATIENCE_S = 300


class Round:
    """One way of bringing all pods onto the node."""

    numbers = itertools.count(1)

    def __init__(self, node, scheduler=None, count=COUNT):
        self.node, self.name, self.scheduler, self.count = node, f"slices-{next(self.numbers)}", scheduler, count
        self.cards = [card["uuid"] for card in node.hardware()["metax"]]

    def pod(self, i):
        limits, annotations = {SGPU: "1"}, {}
        if self.scheduler == KOORDINATOR:
            limits |= {f"koordinator.sh/{k}": v for k, v in (("gpu.shared", "1"), ("gpu-core", str(COMPUTE)), ("gpu-memory", f"{MEMORY_MIB}Mi"))}
        else:
            chosen = {"uuid": self.cards[i % CARDS], "compute": COMPUTE, "vRam": MEMORY_MIB}
            annotations["metax-tech.com/gpu-devices-allocated"] = json.dumps([[chosen]])
        container = {
            "name": "main",
            "image": IMAGE,
            "imagePullPolicy": "Never",
            "command": ["sleep", "3600"],
            "resources": {"limits": limits},
        }
        return {
            "metadata": {
                "name": f"{self.name}-{i}",
                "labels": {"bench": self.name},
                "annotations": annotations,
            },
            "spec": {
                "schedulerName": self.scheduler or "bench",
                "automountServiceAccountToken": False,
                "enableServiceLinks": False,
                "terminationGracePeriodSeconds": 0,
                "containers": [container],
            },
        }

    def bind(self, api, i):
        target = {"kind": "Node", "name": self.node.name}
        api.create(f"{PODS}/{self.name}-{i}/binding", {"metadata": {"name": f"{self.name}-{i}"}, "target": target})

    def slices(self):
        """How many pods have their slice and its name."""
        return sum("slot" in file.name for file in self.node.sees("/run/cdi").iterdir())

    def phases(self):
        return [p["status"].get("phase") for p in self.node.api.get(f"{PODS}?labelSelector=bench%3D{self.name}")["items"]]

    def wait_running(self):
        wait_for(lambda: self.phases().count("Running") == self.count, PATIENCE_S, lambda: f"all pods to run: {self.phases()}")

    def clear(self):
        for i in range(self.count):
            self.node.api.delete(f"{PODS}/{self.name}-{i}")
        wait_for(lambda: not self.phases(), PATIENCE_S, "the pods to be gone")
        wait_for(lambda: self.slices() == 0, PATIENCE_S, "their slices to be gone")

    def measure(self, schedule=None):
        """Seconds until every pod has its slice, and until every container runs: from the first bind, or with a scheduler from the first pod."""
        begin = time.monotonic()
        for i in range(self.count):
            self.node.rig.scheduler.create(PODS, self.pod(i))
        if schedule:
            begin = time.monotonic()
            schedule(self)
        wait_for(lambda: self.slices() == self.count, PATIENCE_S, lambda: f"{self.count} slices, not {self.slices()}")
        made = time.monotonic() - begin
        self.wait_running()
        ran = time.monotonic() - begin
        self.clear()
        return made, ran


class Lock:
    """The annotation on the Node, as schedulers take it: read, and written with the version that was read."""

    def __init__(self, node):
        self.node, self.path = node, f"/api/v1/nodes/{node.name}"

    def is_taken(self, api):
        return LOCK in api.get(self.path)["metadata"].get("annotations", {})

    def take(self, api, pod):
        node = api.get(self.path)
        if LOCK in node["metadata"].get("annotations", {}):
            return False
        value = f"{datetime.now(timezone.utc):%Y-%m-%dT%H:%M:%SZ},default,{pod}"
        meta = {"annotations": {LOCK: value}, "resourceVersion": node["metadata"]["resourceVersion"]}
        try:
            api.merge(self.path, {"metadata": meta})
        except ApiError as error:
            if error.code == 409:
                return False
            raise
        return True

    def give_back(self, api):
        api.merge(self.path, {"metadata": {"annotations": {LOCK: None}}})


def at_once(a_round):
    """No lock: each pod is bound as it comes."""
    for i in range(COUNT):
        a_round.bind(a_round.node.api, i)


def one_by_one(a_round):
    """The lock, with a scheduler that knows at once when it is free."""
    lock, api = Lock(a_round.node), a_round.node.api
    for i in range(COUNT):
        until(lambda i=i: lock.take(api, f"{a_round.name}-{i}"))
        a_round.bind(api, i)
        until(lambda i=i: a_round.slices() > i)
        lock.give_back(api)


def given_back(a_round):
    """The lock, with a scheduler that waits for its turn, and Cleave that needs no lock."""
    lock, api = Lock(a_round.node), a_round.node.api
    for i in range(COUNT):
        until(lambda i=i: lock.take(api, f"{a_round.name}-{i}"), pause_s=0.02)
        a_round.bind(api, i)


def with_retries(a_round):
    """The lock, all pods at once, each waiting as HAMi and the scheduler's queue do."""
    lock, failed = Lock(a_round.node), []
    delays = [random.Random(SEED + i) for i in range(COUNT)]
    made = itertools.count(1)

    def place(i):
        api = Api(a_round.node.rig.cluster)
        try:
            wait_turn(lock, api, f"{a_round.name}-{i}", delays[i])
            mine = next(made)  # the holder alone gets here
            a_round.bind(api, i)
            until(lambda: a_round.slices() >= mine)
            lock.give_back(api)
        except (ApiError, OSError, TimeoutError) as error:
            failed.append(error)
        finally:
            api.close()

    threads = [threading.Thread(target=place, args=(i,)) for i in range(COUNT)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failed:
        sys.exit(f"bench: {failed[0]}")


def wait_turn(lock, api, pod, rng):
    """HAMi's five tries, then the queue, and again."""
    back_off, end = BACK_OFF_S, time.monotonic() + PATIENCE_S
    while time.monotonic() < end:
        delay = FIRST_S
        for _ in range(TRIES):
            if lock.take(api, pod):
                return
            time.sleep(delay * rng.uniform(0.5, 1.5))  # the protocol's own waiting is what is measured
            delay *= 2
        time.sleep(back_off)
        back_off = min(2 * back_off, MAX_BACK_OFF_S)
    raise TimeoutError(f"{pod} did not get the lock in {PATIENCE_S} s")


def until(is_so, pause_s=0.002):
    """Looks at short intervals; what a look costs must be nothing to the node."""
    end = time.monotonic() + PATIENCE_S
    while not is_so():
        if time.monotonic() > end:
            raise TimeoutError(f"waited {PATIENCE_S} s for a slice, or for the lock")
        time.sleep(pause_s)


@contextlib.contextmanager
def node_with_slices():
    with real_rig("slices") as rig:
        node = rig.node({"c500": CARDS})
        node.ctl("sys-root", node.folder)
        node.start(resync_seconds=30, state_dir="/run/cleave")
        node.wait_ready()
        controller = rig.controller(hami="off")
        rig.profile("slices", {"selector": {"vendor": "metax"}, "mode": "sgpu", "sgpu": {"qosPolicy": "fixed-share"}})
        wait_for(lambda: node.node_object()["status"]["allocatable"].get(SGPU) == str(16 * CARDS), 60, "the slots")
        wait_for(lambda: is_current(node.device()), 60, "the Device to be Ready")
        yield node, controller


def slices():
    print(f"\n{COUNT} pods with a slice of {CARDS} C500 each onto one node; a real kubelet and containerd, simulator of zero latency")
    with node_with_slices() as (node, controller):
        ways = {"no lock": at_once, "lock, told at once": one_by_one, "lock, HAMi's retries": with_retries}
        found = {way: Round(node).measure(schedule) for way, schedule in ways.items()}
        controller.stop()
        node.rig.controller(hami="on")
        found["lock, Cleave gives it back"] = Round(node).measure(given_back)
        found["kube-scheduler"] = Round(node, KUBERNETES).measure()
        for way, gates in {"koord-scheduler": {}, "koord-scheduler, lock": {"DevicePluginAdaption": True}}.items():
            with koord_scheduler(node.rig, **gates):
                wait_for(lambda: "koordinator.sh/gpu-core" in node.node_object()["status"]["allocatable"], 60, "Koordinator's resources")
                Round(node, KOORDINATOR, count=1).measure()  # it is up then
                found[way] = Round(node, KOORDINATOR).measure()
        for i, what in enumerate(("have their slice", "run")):
            for way in found:
                show("slices", f"pods a second that {what}, {way}", f"{COUNT / found[way][i]:.2f}")
            for way in list(found)[1:]:
                show("slices", f"pods that {what}, {way}: times as long", f"{found[way][i] / found['no lock'][i]:.2f}")
