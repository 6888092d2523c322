# SPDX-License-Identifier: Apache-2.0
"""Pods of shares from their making to their cards: pods a second through a real kube-scheduler with cleave-scheduler beside it and
without, how soon one node has bound many at once, and how often a container finds its share there at its first attempt.

BENCH_BOUND_PODS (2000), BENCH_BINDING_NODES (500) and BENCH_ROUNDS (3) change the sizes of the first, BENCH_NODE_PODS (300) of the second,
BENCH_ALONE_PODS (100), BENCH_FIRST_PODS (200) and BENCH_AT_ONCE (20) of the third.
"""

import itertools
import json
import os
import queue
import statistics
import time
import urllib.request
from pathlib import Path

import yaml
from kubelet_bench import MISSING, real_rig, stubbed
from rig import BIN, ROOT, Stack, at_most, cpu_s, free_port, in_parallel, quantile, ready, show, until
from scheduler_bench import CARDS, MIB, make_devices, ms, node_name, pod

if not MISSING:
    from conftest import wait_for
    from stack import serve

BOUND_PODS = int(os.environ.get("BENCH_BOUND_PODS", "2000"))
NODES = int(os.environ.get("BENCH_BINDING_NODES", "500"))
ROUNDS = int(os.environ.get("BENCH_ROUNDS", "3"))
NODE_PODS = int(os.environ.get("BENCH_NODE_PODS", "300"))
ALONE_PODS = int(os.environ.get("BENCH_ALONE_PODS", "100"))
FIRST_PODS = int(os.environ.get("BENCH_FIRST_PODS", "200"))
AT_ONCE = int(os.environ.get("BENCH_AT_ONCE", "20"))
EVENTS = "/api/v1/namespaces/default/events"
PODS = "/api/v1/namespaces/default/pods"
GPU = "nvidia.com/gpu"
SHARES = 10  # of a card
HELD_MIB = 45000  # more than half of one
WAKE_UPS = 20
PATIENCE_S = 600


# --- pods a second ---


def make_nodes(stack):
    """As kubelets and cleave-controller have them."""
    counts = {GPU: CARDS * SHARES, f"{GPU}mem": CARDS * MIB, f"{GPU}mem-percentage": CARDS * 100, f"{GPU}cores": CARDS * 100}
    resources = {"cpu": "64", "memory": "512Gi", "pods": "250", **{k: str(v) for k, v in counts.items()}}
    ready_now = [{"type": "Ready", "status": "True"}]

    def make(api, i):
        path = f"/api/v1/nodes/{node_name(i)}"
        api.call("POST", "/api/v1/nodes", {"metadata": {"name": node_name(i)}})
        api.merge(f"{path}/status", {"status": {"capacity": resources, "allocatable": resources, "conditions": ready_now}})
        api.merge(path, {"spec": {"taints": None}})

    in_parallel(NODES + 1, make)(stack.api)


class KubeScheduler:
    """A stock one as config/scheduler has it, its extender changed so; without one it knows the Nodes' sums. Its client's limit is out
    of the way, as in the project's own benchmark (test/integration/scheduler_perf)."""

    def __init__(self, stack, name, **extender):
        documents = yaml.safe_load_all((ROOT / "config/scheduler/configuration.yaml").read_text())
        (shipped,) = (d for d in documents if d["kind"] == "ConfigMap")
        config = yaml.safe_load(shipped["data"]["configuration.yaml"])
        config |= {"leaderElection": {"leaderElect": False}, "clientConnection": {"kubeconfig": str(stack.kubeconfig), "qps": 5000, "burst": 10000}}
        if extender:
            config["extenders"][0] |= extender
        else:
            del config["extenders"]
        file = stack.dir / f"{name}.yaml"
        file.write_text(yaml.safe_dump(config))
        program = Path((stack.dir / "kube/bin-dir").read_text().strip()) / "kube-scheduler"
        self.stack = stack
        self.proc = stack.start(name, [
            program, f"--config={file}", "--bind-address=127.0.0.1", f"--secure-port={free_port()}", f"--cert-dir={stack.dir}",
            f"--authentication-kubeconfig={stack.kubeconfig}", f"--authorization-kubeconfig={stack.kubeconfig}"])

    def end(self):
        self.proc.stop()
        self.stack.procs.remove(self.proc)


def pods_a_second(stack, name, count=BOUND_PODS, begins=lambda: None, **extender):
    """Pods that wait when the scheduler starts: from the first to the last that is bound. begins() is called before it does."""

    def make(api, i):
        one = pod(f"{name}-{i:05d}", schedulerName="cleave-scheduler", serviceAccountName="default", automountServiceAccountToken=False)
        one["metadata"]["labels"] = {"round": name}
        api.call("POST", PODS, one)

    in_parallel(count, make)(stack.api)
    events, bound = queue.Queue(), {}
    stack.api.watch(f"{PODS}?labelSelector=round%3D{name}", events)
    begins()
    scheduler = KubeScheduler(stack, name, **extender)
    end = time.monotonic() + PATIENCE_S
    while len(bound) < count:
        at, _, one = events.get(timeout=max(0, end - time.monotonic()))
        if one["spec"].get("nodeName"):
            bound.setdefault(one["metadata"]["name"], at)
    scheduler.end()
    return (count - 1) / (max(bound.values()) - min(bound.values()))


def waiting(stack, name, mib):
    """A pod for the node that is kept for it."""
    one = pod(name, schedulerName="cleave-scheduler", serviceAccountName="default", automountServiceAccountToken=False, nodeSelector={"bench": "room"})
    one["spec"]["containers"][0]["resources"]["limits"] = {GPU: "1", f"{GPU}mem": str(mib)}
    stack.api.call("POST", PODS, one)


def wake_ups(stack, **extender):
    """Times from a pod's deletion to the binding of another that waits for its room: the sums of the node have enough, and no card has."""
    stack.api.merge(f"/api/v1/nodes/{node_name(NODES)}", {"metadata": {"labels": {"bench": "room"}}})
    events, bound, times = queue.Queue(), {}, []
    stack.api.watch(f"{PODS}?fieldSelector=spec.schedulerName%3Dcleave-scheduler", events)
    refused = queue.Queue()
    stack.api.watch("/api/v1/events?fieldSelector=reason%3DFailedScheduling", refused)
    scheduler = KubeScheduler(stack, "wake-ups", **extender)

    def wait_bound(name):
        while name not in bound:
            at, _, one = events.get(timeout=60)
            if one["spec"].get("nodeName"):
                bound.setdefault(one["metadata"]["name"], at)
        return bound[name]

    def wait_refused(name):
        while refused.get(timeout=60)[2]["involvedObject"]["name"] != name:
            pass

    for i in range(CARDS):
        waiting(stack, f"holds-{i}", HELD_MIB)
        wait_bound(f"holds-{i}")
    for i in range(WAKE_UPS):
        name = f"holds-{i + CARDS}"
        waiting(stack, name, HELD_MIB)
        wait_refused(name)
        begin = time.monotonic()
        stack.api.call("DELETE", f"{PODS}/holds-{i}", {"gracePeriodSeconds": 0})
        times.append(wait_bound(name) - begin)
    scheduler.end()
    return times


def binding():
    print(f"\n{BOUND_PODS} pods with shares onto {NODES} nodes by kube-scheduler, {ROUNDS} times with cleave-scheduler beside it and without")
    with Stack("binding") as stack:
        make_nodes(stack)
        make_devices(stack, NODES + 1)
        port, health, metrics = free_port(), free_port(), free_port()
        ours = stack.start("scheduler", [BIN / "cleave-scheduler", "--kubeconfig", stack.kubeconfig, "--listen", f"127.0.0.1:{port}",
                                         "--health-addr", f"127.0.0.1:{health}", "--metrics-addr", f"127.0.0.1:{metrics}"])
        until(lambda: ready(health), 300, "cleave-scheduler to be ready")
        rates = {"alone": [], "beside": []}
        before, server_before = cpu_s(ours.popen.pid), cpu_s(stack.server_pid())
        for i in range(ROUNDS):
            rates["alone"].append(pods_a_second(stack, f"alone-{i}"))
            rates["beside"].append(pods_a_second(stack, f"beside-{i}", urlPrefix=f"http://127.0.0.1:{port}"))
        alone, beside = (statistics.median(rates[way]) for way in ("alone", "beside"))
        show("binding", "pods a second, kube-scheduler alone, median", f"{alone:.0f}")
        show("binding", "pods a second, with cleave-scheduler, median", f"{beside:.0f}")
        show("binding", "ratio of the medians", f"{beside / alone:.2f}", "aim 0.85")
        ratios = [b / a for a, b in zip(rates["alone"], rates["beside"], strict=True)]
        show("binding", "ratios, lowest and highest", f"{min(ratios):.2f} … {max(ratios):.2f}")
        show("binding", "cleave-scheduler's CPU / the API server's", f"{cpu_s(ours.popen.pid) - before:.1f} / {cpu_s(stack.server_pid()) - server_before:.1f} s")
        with urllib.request.urlopen(f"http://127.0.0.1:{metrics}/metrics", timeout=60) as answer:
            page = answer.read().decode()
        for q in (0.5, 0.99):
            own, theirs = (ms(at_most(page, f'cleave_scheduler_bind_seconds{{of="{of}"}}', q)) for of in ("scheduler", "api-server"))
            show("binding", f"a Binding's own time, p{q * 100:.0f}, at most", own, "aim 0.2" if q == 0.5 else "")
            show("binding", f"and what it waits for the API server, p{q * 100:.0f}, at most", theirs)
        woken = wake_ups(stack, urlPrefix=f"http://127.0.0.1:{port}")
        show("binding", "a pod goes → one that waited for its room is bound, p50 / most", f"{ms(quantile(woken, 0.5))} / {ms(max(woken))}", "aim 200")


# --- many pods onto one node ---


def sums(folder):
    """(MiB, percent, shares) by card, by the agent's records."""
    found = {}
    for file in (folder / "state/slots").glob("share.*.json"):
        record = json.loads(file.read_text())
        mib, percent, n = found.get(record["card"], (0, 0, 0))
        found[record["card"]] = (mib + record["memoryMiB"], percent + record["computePercent"], n + 1)
    return found


def one_node():
    """The kubelet is a stub that admits as fast as it is answered."""
    print(f"\n{NODE_PODS} pods with shares admitted at once on a node of {CARDS} cards")
    with stubbed("one-node", {"h100-80": CARDS}, slots=True) as host:
        most = -(-NODE_PODS // CARDS) + 10
        folder = host.kubelet.folder
        host.node.want(*({"uuid": uuid, "mode": "native", "sharing": {"fractional": {"maxShares": most}}} for uuid in host.uuids))
        host.kubelet.wait_counts({GPU: most * CARDS})
        names = [f"many-{i:03d}" for i in range(NODE_PODS)]
        limits = {GPU: "1", f"{GPU}mem": "1500", f"{GPU}cores": "1"}
        for name in names:
            container = {"name": "main", "image": "none", "resources": {"limits": limits}}
            spec = {"nodeName": host.node.name, "containers": [container], "terminationGracePeriodSeconds": 0}
            host.node.rig.scheduler.create(PODS, {"metadata": {"name": name}, "spec": spec})
            host.node.rig.objects.append(f"{PODS}/{name}")
        begin, admitted = time.monotonic(), []
        for name in names:
            host.kubelet.admit("default", name, {GPU: 1})
            admitted.append(time.monotonic())
        files = Path(folder) / "cdi"
        wait_for(lambda: sum(f.name.startswith("share.") for f in files.iterdir()) == NODE_PODS, 60, "all shares")
        done = time.monotonic()
        show("one-node", "from the first admission to the last share's CDI file", f"{done - begin:.2f} s", "aim 3")
        show("one-node", "of it after the last admission", f"{done - admitted[-1]:.2f} s")
        steps = [b - a for a, b in itertools.pairwise([begin, *admitted])]
        show("one-node", "an admission, p50 / p99", f"{ms(quantile(steps, 0.5))} / {ms(quantile(steps, 0.99))}")
        page = serve(host.node.agent, "/metrics")[1]
        for q in (0.5, 0.99):
            took = at_most(page, "cleave_agent_slot_bind_seconds", q)
            show("one-node", f"the agent's own part once a pod is known, p{q * 100:.0f}, at most", ms(took))
        given = sums(Path(folder))
        over = [card for card, (mib, percent, _) in given.items() if mib > MIB or percent > 100]
        show("one-node", "cards that are given out beyond what they have", len(over), "aim 0")
        show("one-node", "shares on the cards, least and most", f"{min(n for _, _, n in given.values())} … {max(n for _, _, n in given.values())}")


# --- containers' first attempts ---


def failed_attempts(node, pods):
    """Pods whose container the runtime could not make at first, by the Events: the kubelet tries again after them."""
    events = node.api.get(f"{EVENTS}?fieldSelector=reason%3DFailed")["items"]
    return {e["involvedObject"]["name"]: e["message"] for e in events if e["involvedObject"]["name"] in pods}


def run_pods(node, count, at_once):
    """Runs so many pods with a share, a few at a time. Those whose first attempt failed, with what was said."""
    limits = {GPU: "1", f"{GPU}mem": "3000", f"{GPU}cores": "5"}
    made, failed = 0, {}
    while made < count:
        pods = [node.run("first", "trap 'exit 0' TERM; sleep 3600 & wait", limits) for _ in range(min(at_once, count - made))]
        for pod_name in pods:
            node.wait_phase(pod_name, "Running", timeout=PATIENCE_S)
        made += len(pods)
        failed |= failed_attempts(node, pods)
        for pod_name in pods:
            node.api.delete(node.pod_path(pod_name))
        wait_for(lambda pods=pods: not any(node.api.find(node.pod_path(name)) for name in pods), PATIENCE_S, "the pods to be gone")
        if at_once > 1:  # the next ones need their slots
            wait_for(lambda: not node.shares_told(), PATIENCE_S, "the shares to go")
    return failed


def first_attempts():
    print(f"\n{ALONE_PODS} pods with a share, one at a time, and {FIRST_PODS}, {AT_ONCE} at a time: a real kube-scheduler, kubelet and containerd")
    with real_rig("attempts") as rig:
        node = rig.node({"h100-80": CARDS}, slots=True)
        node.start(resync_seconds=30, state_dir="/run/cleave")
        node.wait_ready()
        rig.controller()
        rig.profile("shares", {"selector": {"vendor": "nvidia"}, "mode": "native", "sharing": {"fractional": {}}})
        node.wait_offers(**{GPU: SHARES * CARDS, f"{GPU}cores": 100 * CARDS, f"{GPU}mem": MIB * CARDS, f"{GPU}mem-percentage": 100 * CARDS})
        failed, page = {}, ""
        for count, at_once, how in ((ALONE_PODS, 1, "one at a time"), (FIRST_PODS, AT_ONCE, f"{AT_ONCE} at a time")):
            failed |= run_pods(node, count, at_once)
            before, page = page, serve(node.agent, "/metrics")[1]
            for q in (0.5, 0.99):
                took = at_most(page, "cleave_agent_slot_bind_seconds", q, before)
                show("attempts", f"the agent's own part once a pod is known, {how}, p{q * 100:.0f}, at most", ms(took), "aim 5" if q == 0.99 else "")
        for message in sorted(set(failed.values())):
            print(f"    {message}")
        show("attempts", "containers whose first attempt failed", len(failed))
        show("attempts", "first attempts that succeeded", f"{100 * (1 - len(failed) / (ALONE_PODS + FIRST_PODS)):.1f} %", "aim 99")
