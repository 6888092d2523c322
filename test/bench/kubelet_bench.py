# SPDX-License-Identifier: Apache-2.0
"""The parts of `make bench` about the kubelet's side: allocatable, allocate, restarts, and the agent
with all of it on. They build on what the end-to-end tests build on.

BENCH_LAYOUTS (50), BENCH_CALLS (2000), BENCH_RESTARTS (200) and BENCH_TROUBLE_SECONDS (10) change the
counts and how long an outage or a hung call lasts.
"""

import contextlib
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path

from rig import BIN, IDLE_SECONDS, ROOT, RUN, Skip, anonymous_mib, context_switches, cpu_s, proportional_mib, quantile, resident_mib, show, simulator_mib

sys.path.insert(0, str(ROOT / "test/e2e"))
try:
    import kubelet_stub
    from conftest import Cluster, Processes, wait_for
    from kubelet_rig import RealCluster, RealRig, why_not
    from stack import ApiServer, Rig, condition, install, is_current, mig, serve

    MISSING = None
except (ImportError, AssertionError, OSError, subprocess.SubprocessError) as error:
    MISSING = f"needs pytest, and gRPC for Python (test/e2e/grpc-venv.sh): {error}"

LAYOUTS = int(os.environ.get("BENCH_LAYOUTS", "50"))
CALLS = int(os.environ.get("BENCH_CALLS", "2000"))
RESTARTS = int(os.environ.get("BENCH_RESTARTS", "200"))
TROUBLE_SECONDS = int(os.environ.get("BENCH_TROUBLE_SECONDS", "10"))
SEED = 20251121
STATUS_S = 1  # the kubelet's nodeStatusUpdateFrequency (hack/kube/node-up.sh)
DOWN_S = 0.3  # a kubelet is away for at most so long
PAUSE_MS = 1  # between calls that go on while something else happens

GPU = "nvidia.com/gpu"
SMALL = "nvidia.com/mig-1g.10gb"
SEVENTHS = {"1g.10gb": 7}
HALVES = {"3g.40gb": 1, "1g.10gb": 3}
BALANCED = {"1g.10gb": 2, "2g.20gb": 1, "3g.40gb": 1}


def offered(layouts):
    """What the kubelet counts when the cards are cut so; None is a whole card."""
    counts = Counter()
    for layout in layouts:
        counts.update({f"nvidia.com/mig-{profile}": n for profile, n in layout.items()} if layout else {GPU: 1})
    return dict(counts)


def ms(seconds):
    return f"{seconds * 1e3:.2f} ms"


# --- what is measured on ---


def release(name):
    return BIN / name


class ControlPlane(Cluster):
    """etcd and the API server alone."""

    def start(self):
        self.script("up.sh", self.rundir)
        self.server = (self.rundir / "server").read_text().strip()
        self.kubectl = self.kubectl_as(self.kubeconfig)


@contextlib.contextmanager
def running(kind, rig_kind, name):
    """A rig on a cluster of its own, which ends with the block; its logs stay in build/bench."""
    folder = RUN / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    cluster = kind(folder / "kube")
    with contextlib.ExitStack() as stack:
        stack.callback(cluster.stop, purge=True)
        cluster.start()
        install(cluster)
        rig = rig_kind(cluster, Processes(folder / "run"), release)
        stack.callback(rig.processes.end)
        yield rig


class Kubelet(kubelet_stub.KubeletStub if not MISSING else object):
    """The stub, and when it had the lists."""

    def __init__(self, folder):
        self.news = threading.Condition()
        super().__init__(folder)

    def listed(self, resource, devices):
        super().listed(resource, devices)
        with self.news:
            self.news.notify_all()

    def wait_counts(self, counts, timeout=60):
        """Waits until these devices are healthy and no others; returns when that was."""
        at = None

        def done():
            nonlocal at
            at = time.monotonic()
            return {name: n for name, (n, _) in self.offers().items() if n} == counts

        with self.news:
            if not self.news.wait_for(done, timeout):
                sys.exit(f"bench: waited {timeout} s for the kubelet to have {counts}; it has {self.offers()}")
        return at


class RealKubelet:
    """The kubelet's PodResources, asked when its device manager has written its checkpoint: it does so
    after each list, and PodResources answers 100 calls a second to all callers together."""

    def __init__(self, node):
        self.checkpoint = node.plugins / kubelet_stub.CHECKPOINT
        grpc, self.messages = kubelet_stub.grpc, kubelet_stub.pr
        self.refused = grpc.RpcError
        channel = grpc.insecure_channel(f"unix:{node.kubelet_dir / 'pod-resources/kubelet.sock'}", (("grpc.default_authority", "localhost"),))
        self.call = channel.unary_unary(
            "/v1.PodResourcesLister/GetAllocatableResources",
            self.messages.AllocatableResourcesRequest.SerializeToString,
            self.messages.AllocatableResourcesResponse.FromString,
        )

    def offers(self):
        devices = self.call(self.messages.AllocatableResourcesRequest(), timeout=10).devices
        counts = Counter()
        for device in devices:
            counts[device.resource_name] += len(device.device_ids)
        return dict(counts)

    def written(self):
        with contextlib.suppress(FileNotFoundError):
            found = self.checkpoint.stat()
            return found.st_ino, found.st_mtime_ns
        return None

    def wait_counts(self, counts, timeout=60):
        end = time.monotonic() + timeout
        asked_of = ()
        while time.monotonic() < end:
            now = self.written()
            if now == asked_of:
                time.sleep(0.0005)  # what a look costs is nothing to a kubelet
                continue
            try:
                if self.offers() == counts:
                    return time.monotonic()
                asked_of = now
            except self.refused:
                time.sleep(0.01)
        sys.exit(f"bench: waited {timeout} s for the kubelet to have {counts}; it has {self.offers()}")


class Host:
    """A node of simulated cards whose agent serves a kubelet."""

    def __init__(self, node, kubelet):
        self.node, self.kubelet = node, kubelet
        self.uuids = [card["uuid"] for card in node.cards()]

    def want(self, layouts):
        """Writes Device.spec, once."""
        devices = [mig(uuid, layout) for uuid, layout in zip(self.uuids, layouts) if layout]
        self.node.api.merge(self.node.path, {"spec": {"devices": devices}})

    def cut(self, layouts, timeout=120):
        """Has all cards cut; returns when the kubelet had it."""
        self.want(layouts)
        at = self.kubelet.wait_counts(offered(layouts), timeout)
        wait_for(lambda: is_current(self.node.device()), timeout, "the Device to be Ready")
        return at


@contextlib.contextmanager
def stubbed(name, fleet, slots=False, **flags):
    """A Host on a stub of the kubelet."""
    if MISSING:
        raise Skip(MISSING)
    with running(ControlPlane, Rig, name) as rig:
        # In memory, as a node's /run, /proc and /sys are, so that no disk is measured; short: a socket's path has 107 bytes.
        folder = tempfile.mkdtemp(prefix="ck", dir="/dev/shm" if Path("/dev/shm").is_dir() else "/tmp")
        rig.folder = Path(folder) / "nodes"
        kubelet = Kubelet(folder).start()
        try:
            node = rig.node(fleet, start=False, slots=slots)
            driver = node.folder / "driver"
            node.ctl("driver-root", driver)
            node.ctl("dev-root", driver)
            places = {f"{host}{what}_root": driver for host in ("", "host_") for what in ("driver", "dev")}
            places |= {"kubelet_dir": folder, "cdi_dir": f"{folder}/cdi", "state_dir": f"{folder}/state"}
            node.start(resources="kubelet", **{"resync_seconds": 30, **places, **flags})
            node.wait_ready()
            yield Host(node, kubelet)
            rig.processes.end()  # before the kubelet
        finally:
            kubelet.stop()
            shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def real_rig(name):
    """A rig on a real kubelet."""
    if MISSING:
        raise Skip(MISSING)
    RUN.mkdir(parents=True, exist_ok=True)
    reason = why_not(RUN)
    if reason:
        raise Skip(reason)
    try:
        whole = contextlib.ExitStack()
        rig = whole.enter_context(running(RealCluster, RealRig, name))
    except AssertionError as error:  # of a script, with what it wrote
        raise Skip(str(error).strip().splitlines()[-1]) from error
    with whole:
        yield rig


@contextlib.contextmanager
def real(name, fleet, **flags):
    """A Host on a real kubelet."""
    with real_rig(name) as rig:
        # Journals in memory, as in the other parts: no disk is measured.
        node = rig.node(fleet, start=True, **{"resync_seconds": 30, "state_dir": "/run/cleave", **flags})
        node.wait_ready()
        yield Host(node, RealKubelet(node))


# --- allocatable ---


def allocatable():
    print(f"\nLayout change → the kubelet's allocatable, p50 of {LAYOUTS}, 8 H100 of which one changes, simulator of zero latency")
    try:
        with real("allocatable", {"h100-80": 8}) as host:
            print("  a real kubelet, whose Node status is written within a second of a change (nodeStatusUpdateFrequency; 10 s by default)")
            compare_changes(host, on_node=True)
    except Skip as skip:
        print(f"  a stub of the kubelet, which has no Node status: {skip}")
        with stubbed("allocatable", {"h100-80": 8}) as host:
            compare_changes(host, on_node=False)


def change_in_place(host, layouts):
    host.want(layouts)


def change_by_restart(host, layouts):
    """As plugins that take in a layout at their start: killed, started, registered again."""
    host.node.agent.kill()
    host.want(layouts)
    host.node.agent.start()


def compare_changes(host, on_node):
    rest = [None] * (len(host.uuids) - 1)
    host.kubelet.wait_counts({GPU: len(host.uuids)})
    host.cut([SEVENTHS, *rest])
    show("allocatable", "one write to the same API server, p50", ms(median_write(host.node)))
    ways = {"in place": change_in_place, "by a restart of the agent": change_by_restart}
    found = {}
    for way, change in ways.items():
        rng = random.Random(SEED)  # the same moments for both
        times = [change_once(host, change, [layout, *rest], rng if on_node else None) for layout in alternating(LAYOUTS)]
        found[way] = [statistics.median(column) for column in zip(*times)]
    wheres = ("in the kubelet (PodResources)", "in the Node's status")
    for i, where in enumerate(wheres[: 2 if on_node else 1]):
        for way in ways:
            show("allocatable", f"{where}, {way}", ms(found[way][i]))
        show("allocatable", f"{where}, ratio", f"{found['by a restart of the agent'][i] / found['in place'][i]:.1f}")


def alternating(count):
    """Layouts of one card, each other than the one before; the first stands already."""
    return [SEVENTHS if i % 2 else HALVES for i in range(count + count % 2)]


def change_once(host, change, layouts, rng):
    """Seconds until the kubelet's memory has it, and with rng until the Node has it: then at a random
    moment of the kubelet's period, or every change would come right after a status was written."""
    counts = offered(layouts)
    if rng:
        time.sleep(rng.uniform(0, STATUS_S))
    begin = time.monotonic()
    change(host, layouts)
    took = [host.kubelet.wait_counts(counts) - begin]
    if rng:
        while host.node.offers() != counts:
            if time.monotonic() > begin + 60:
                sys.exit(f"bench: waited 60 s for the Node to offer {counts}, not {host.node.offers()}")
            time.sleep(0.01)
        took.append(time.monotonic() - begin)
    wait_for(lambda: is_current(host.node.device()), 60, "the Device to be Ready")
    return took


def median_write(node):
    trips = []
    for i in range(50):
        begin = time.monotonic()
        node.label(bench=str(i))
        trips.append(time.monotonic() - begin)
    return statistics.median(trips)


# --- allocate ---


class Caller:
    """plugin_call, one call after the other; with count 0 until the block ends. took holds seconds."""

    def __init__(self, host, method, ids=(), count=0, pause_ms=PAUSE_MS):
        endpoint = host.kubelet.plugins / host.kubelet.plugin(SMALL).endpoint
        self.argv = [release("test/bench/plugin_call"), endpoint, f"/v1beta1.DevicePlugin/{method}", str(count), str(pause_ms), *ids]
        self.took, self.failures = [], []

    def __enter__(self):
        self.out = tempfile.TemporaryFile("w+")
        self.popen = subprocess.Popen(self.argv, stdin=subprocess.PIPE, stdout=self.out)
        return self

    def __exit__(self, kind, *_):
        self.popen.stdin.close()
        try:
            status = self.popen.wait(60)
        except subprocess.TimeoutExpired:
            self.popen.kill()
            status = self.popen.wait()
        self.out.seek(0)
        lines = self.out.read().splitlines()
        self.out.close()
        if kind is None and (status or not lines):
            sys.exit(f"bench: {self.argv} ended with {status}")
        self.failures = [line for line in lines if line.startswith("failed")]
        self.took = [float(line) / 1e6 for line in lines if not line.startswith("failed")]


def calls(host, method, ids=(), pause_ms=0):
    """CALLS calls on a quiet agent."""
    with Caller(host, method, ids, CALLS, pause_ms) as caller:
        pass
    return caller


def show_calls(what, caller, aims):
    """Quantiles of a Caller that ended; aims in milliseconds, as texts."""
    for name, q in (("p50", 0.5), ("p99", 0.99), ("max", 1)):
        if name in aims:
            value = f"{quantile(caller.took, q) * 1e3:.3f} ms" if caller.took else "none"
            show("allocate", f"{what}, {name}", value, f"aim < {aims[name]}" if aims[name] else "")
    count = len(caller.took) + len(caller.failures)
    show("allocate", f"{what}, calls / of them failed", f"{count} / {len(caller.failures)}", caller.failures[0] if caller.failures else "")


def allocate():
    print(f"\nAllocate on the wire, 8 H100 × 7 instances, one call after the other; quiet: {CALLS} calls, else one a millisecond until it is over")
    with stubbed("allocate", {"h100-80": 8}, resync_seconds=1, call_deadline_ms=2000) as host:
        host.cut([SEVENTHS] * 8)
        # A pod has it: its card is cut around it.
        ids = host.kubelet.admit("default", "bench", {SMALL: 1}).devices[SMALL]
        show_calls("quiet, an empty call (GetDevicePluginOptions)", calls(host, "GetDevicePluginOptions"), {"p50": "", "p99": ""})
        show_calls("quiet, Allocate", calls(host, "Allocate", ids), {"p50": "0.1", "p99": "0.25", "max": ""})
        trouble = {"p50": "", "p99": "5", "max": "100"}
        show_calls("quiet, one a millisecond", calls(host, "Allocate", ids, PAUSE_MS), {"p50": "", "p99": "", "max": ""})
        for what, happens in (("re-cut of 8 cards", during_recut), ("API outage", during_outage), ("hung library call", during_hang)):
            with Caller(host, "Allocate", ids) as caller:
                happens(host)
            show_calls(f"during a {what}" if what[0] not in "AEIOU" else f"during an {what}", caller, trouble)


def during_recut(host):
    """Latencies of hardware: create 150 ms, destroy 1 s."""
    host.node.ctl("latency", "preset", "realistic")
    host.cut([HALVES] * 8)
    host.node.ctl("latency", "preset", "none")


def during_outage(host):
    """The API server answers nothing, while the agent has something to say."""
    with ApiServer(host.node.rig.cluster).stopped():
        host.node.ctl("lost", "--gpu", 7, "set")
        time.sleep(TROUBLE_SECONDS)  # measures a state: nothing is awaited
        host.node.ctl("lost", "--gpu", 7, "clear")


def during_hang(host):
    """A reading of the cards hangs, and the agent says so."""
    host.node.ctl("fault", "add", "--call", "nvmlDeviceGetCount_v2", "--nth", 1, "--action", f"hang:{TROUBLE_SECONDS}")
    wait_for(lambda: condition(host.node.device(), "Stalled").get("reason") == "NVMLTimeout", TROUBLE_SECONDS + 10, "the hung call to be noticed")
    wait_for(lambda: is_current(host.node.device()), TROUBLE_SECONDS + 30, "the hung call to end")


# --- restarts ---


def restarts():
    layouts = [None, None, SEVENTHS, SEVENTHS, BALANCED, BALANCED, BALANCED, BALANCED]
    counts = offered(layouts)
    print(f"\n{RESTARTS} restarts of the kubelet at random (stub, away for 0–{DOWN_S * 1e3:.0f} ms), {len(counts)} resources of 8 H100: until all are back")
    rng = random.Random(SEED)
    with stubbed("restarts", {"h100-80": 8}) as host:
        host.kubelet.wait_counts({GPU: 8})
        host.cut(layouts)
        times = [restart_once(host.kubelet, counts, rng) for _ in range(RESTARTS)]
    for name, q in (("p50", 0.5), ("p99", 0.99), ("max", 1)):
        show("restarts", f"the kubelet listens → all lists are there, {name}", ms(quantile(times, q)))
    show("restarts", f"of {RESTARTS} within 2 s", sum(t < 2 for t in times), f"aim {RESTARTS}")


def restart_once(kubelet, counts, rng):
    """Seconds from when the new kubelet begins to listen until it has every list in full."""
    begin = None

    def mark():
        nonlocal begin
        begin = time.monotonic()

    (kubelet.kill if rng.random() < 0.5 else kubelet.stop)()
    time.sleep(rng.uniform(0, DOWN_S))  # the time it is away is what varies
    kubelet.before_start = mark
    kubelet.start()
    return kubelet.wait_counts(counts) - begin


# --- the agent with all of it on ---


def children(pid):
    return [int(c) for task in Path(f"/proc/{pid}/task").iterdir() for c in (task / "children").read_text().split()]


AIMS_MIB = {True: "aim 10", False: "aim 2"}


def child_name(pid):
    """Its verb and, as there is one for each port, its pid."""
    verb = Path(f"/proc/{pid}/cmdline").read_text().split("\0")[1]
    return f"{verb} {pid}"


def metric(node, name):
    for line in serve(node.agent, "/metrics")[1].splitlines():
        if line.startswith(f"{name} "):
            return float(line.split()[-1])
    return None


def agent_with_all():
    print("\nAgent with the kubelet served (stub), labels, health, metrics; 8 H100 × 7 instances")
    with stubbed("agent-all", {"h100-80": 8}) as host:
        node = host.node
        host.cut([SEVENTHS] * 8)
        wait_for(lambda: metric(node, "cleave_agent_unwatched_cards") == 0, 60, "the cards to be watched")
        node.wait_reads(2, timeout=120)  # what the change left to do is done then
        pids = {"agent": node.agent.pid, **{child_name(pid): pid for pid in children(node.agent.pid)}}
        version = node.device()["metadata"]["resourceVersion"]
        seconds = 4 * min(IDLE_SECONDS, 60)  # one wake-up more or less in a minute is a sixth of the aim
        before = {who: (context_switches(pid), cpu_s(pid)) for who, pid in pids.items()}
        time.sleep(seconds)  # measures idleness: nothing is awaited
        for who, pid in pids.items():
            switches, cpu = before[who]
            # A node with a driver has the driver's library in the simulator's place.
            resident, simulated = resident_mib(pid), simulator_mib(pid)
            show("agent", f"all on, {who}: resident / anonymous memory", f"{resident:.1f} / {anonymous_mib(pid):.1f} MiB", AIMS_MIB[who == "agent"])
            show("agent", f"all on, {who}: resident memory without the simulator's", f"{resident - simulated:.1f} MiB")
            show("agent", f"all on, {who}: proportional memory", f"{proportional_mib(pid):.1f} MiB")
            show("agent", f"all on, {who}: wake-ups a second while idle", f"{(context_switches(pid) - switches) / seconds:.3f}", "aim < 0.1")
            show("agent", f"all on, {who}: CPU while idle", f"{(cpu_s(pid) - cpu) / seconds * 100:.2f} %")
        written = node.device()["metadata"]["resourceVersion"] != version
        show("agent", "all on: status written while idle", "yes" if written else "no", "aim no")
        layouts = alternating(LAYOUTS)
        cpu = cpu_s(node.agent.pid)
        for layout in layouts:
            host.cut([layout, *[SEVENTHS] * 7])
        show("agent", f"all on, agent: CPU of a change of one card, mean of {len(layouts)}", ms((cpu_s(node.agent.pid) - cpu) / len(layouts)))
