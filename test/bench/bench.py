#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What `make bench` measures, as ratios taken within one run.

    test/bench/bench.py [PART...]      (none named: all)

    latency       label set → success and the hardware changed
    recut         a node of 8 cards re-cut, beside the hardware's own time
    agent         the agent at rest: as it is, and with all of the kubelet's side on
    allocatable   layout change → the kubelet's allocatable, beside a restart of the agent
    allocate      Allocate on the wire: quiet, and while something else goes on
    restarts      restarts of the kubelet: until all resources are back
    slices        pods a second onto one node, each with a slice made for it, beside the same with a node lock
    scheduler     the extender's answers, with a fleet
    binding       pods of shares a second by kube-scheduler, beside the same without the extender
    one-node      pods of shares that come onto one node all at once
    attempts      pods of shares on a real kubelet: containers that find their share at once
    hami          the extender beside HAMi's scheduler, where HAMI_SCHEDULER names that program
    limiter       what the limiter costs and how it keeps limits, beside HAMi-core where HAMI_CORE names its libvgpu.so
    turns         what containers get of a card by turns, and what turns cost the agent
    scrape        what the cards measure: a scrape over HTTP, processor time and memory, beside dcgm-exporter's published figures
    fleet         the controller with a fleet
    plan          kubectl cleave plan for that fleet: seconds and memory

Each part brings up its own control plane on loopback, runs the release builds against simulated
cards, and prints figures beside the aim; one that this machine cannot do says why. BENCH_NODES
(5000), BENCH_CHANGES (100), BENCH_IDLE_SECONDS (60) and those of the other files here change the sizes.
Results also go to build/bench/results.json.
"""

import http.client
import json
import queue
import signal
import statistics
import sys
import threading
import time
from collections import Counter
from pathlib import Path

import hami_bench
import kubelet_bench
import limiter_bench
import plan_bench
import scheduler_bench
import scrape_bench
import shares_bench
import slices_bench
import turns_bench
from fleets import make_fleet, read_lists, template_status
from rig import (
    CHANGES, GROUP, IDLE_SECONDS, NODES, RUN, Api, Node, Skip, Stack, anonymous_mib, context_switches, cpu_s, drain, free_port, quantile, quiet,
    ready, resident_mib, results, show, until,
)


def latency():
    print(f"\nLabel set → success and the hardware changed, {CHANGES} changes, simulator of zero latency")
    with Stack("latency") as stack:
        stack.node("n1")
        stack.agent("n1", "h100x8.yaml")
        stack.controller()
        node = Node(stack.api, "n1")
        layouts = ["all-balanced", "all-1g.10gb", "all-3g.40gb", "all-2g.20gb"]
        for layout in layouts:
            node.set(layout)
        trips = []
        for i in range(CHANGES):
            begin = time.monotonic()
            stack.api.merge("/api/v1/nodes/n1", {"metadata": {"annotations": {"bench": str(i)}}})
            trips.append(time.monotonic() - begin)
        times = [node.set(layouts[i % len(layouts)]) for i in range(CHANGES)]
        trip = statistics.median(trips)
        show("latency", "one write to the same API server, p50", f"{trip * 1e3:.2f} ms")
        for name, q, aim in (("p50", 0.5, "aim < 12"), ("p99", 0.99, "")):
            t = quantile(times, q)
            show("latency", f"label → success, {name}", f"{t * 1e3:.1f} ms")
            show("latency", f"label → success, {name}, in round trips", f"{t / trip:.1f}", aim)


def recut():
    print("\nA node of 8 H100 re-cut, latencies of hardware (create 150 ms, destroy 1 s)")
    with Stack("recut") as stack:
        stack.node("n1")
        stack.agent("n1", "realistic.yaml")
        stack.controller()
        node = Node(stack.api, "n1")
        node.set("all-1g.10gb")
        stack.simctl("n1", "log", "--clear")
        took = node.set("all-balanced")
        calls = [json.loads(line) for line in stack.simctl("n1", "log", "--json", "--mutating").splitlines() if line.strip().startswith("{")]
        if not calls:
            calls = json.loads(stack.simctl("n1", "log", "--json", "--mutating"))
        cards = Counter()
        for call in calls:
            cards[call["gpu"]] += call_seconds(call)
        slowest = max(cards.values())
        show("recut", "mutating library calls", len(calls))
        show("recut", "sum of their own latencies", f"{cards.total():.2f} s")
        show("recut", "the same of the slowest card", f"{slowest:.2f} s")
        show("recut", "label → success", f"{took:.2f} s")
        show("recut", "ratio to the slowest card", f"{took / slowest:.3f}", "aim < 1.1")


def call_seconds(call):
    for begin, end, scale in (("startNs", "endNs", 1e9), ("start_ns", "end_ns", 1e9), ("startUs", "endUs", 1e6), ("start", "end", 1)):
        if begin in call:
            return (call[end] - call[begin]) / scale
    sys.exit(f"bench: no times in the simulator's log: {call}")


def agent():
    print("\nAgent, 8 H100, simulator of zero latency")
    with Stack("agent") as stack:
        stack.node("n1")
        events = queue.Queue()
        stack.api.watch(f"{GROUP}/devices?fieldSelector=metadata.name=n1", events)
        begin = time.monotonic()
        proc = stack.agent("n1", "h100x8.yaml")
        while True:
            at, _, obj = events.get(timeout=30)
            conditions = {c["type"]: c["status"] for c in obj.get("status", {}).get("conditions", [])}
            if conditions.get("Ready") == "True":
                break
        pid = proc.popen.pid
        show("agent", "start → Ready in the Device", f"{(at - begin) * 1e3:.0f} ms")
        show("agent", "resident / anonymous memory", f"{resident_mib(pid):.1f} / {anonymous_mib(pid):.1f} MiB", "aim 10")
        seconds = min(IDLE_SECONDS, 60)
        for _ in drain(events):
            pass
        switches, cpu = context_switches(pid), cpu_s(pid)
        time.sleep(seconds)  # measures idleness: nothing is awaited
        show("agent", "wake-ups a second while idle", f"{(context_switches(pid) - switches) / seconds:.2f}")
        show("agent", "CPU while idle", f"{(cpu_s(pid) - cpu) / seconds * 100:.2f} %")
        show("agent", "writes while idle", len(list(drain(events))), "aim 0")
    kubelet_bench.agent_with_all()


class HollowAgents:
    """Answers every Device.spec as an agent on perfect hardware would; one watch, a few writers."""

    def __init__(self, api):
        self.api, self.work, self.written = api, queue.Queue(), 0
        events = queue.Queue()
        api.watch(f"{GROUP}/devices", events)
        threading.Thread(target=self.follow, args=(events,), daemon=True).start()
        for _ in range(4):
            threading.Thread(target=self.write, daemon=True).start()

    def follow(self, events):
        for _, kind, obj in self.taken(events):
            if kind in ("ADDED", "MODIFIED") and obj["metadata"]["generation"] != obj.get("status", {}).get("observedGeneration"):
                self.work.put(obj)

    def write(self):
        api = Api(self.api.rundir)
        for obj in self.taken(self.work):
            try:
                api.merge(f"{GROUP}/devices/{obj['metadata']['name']}/status", {"status": applied_status(obj)})
                self.written += 1
            except (OSError, http.client.HTTPException, RuntimeError):  # the server goes away at the end, and only then
                if not self.api.ended.is_set():
                    raise

    def taken(self, source):
        while not self.api.ended.is_set():
            try:
                yield source.get(timeout=0.2)
            except queue.Empty:
                pass


def applied_status(obj):
    wants = {w["uuid"]: w for w in obj.get("spec", {}).get("devices", [])}
    status, generation = obj["status"], obj["metadata"]["generation"]
    counts = {}
    for card in status["devices"]:
        want = wants.get(card["uuid"])
        if want and want["mode"] == "mig":
            card["mode"] = "mig"
            card["partitions"] = [
                {"uuid": f"MIG-{card['uuid'][4:]}-{p['profile']}-{k}".replace("+", "."), "profile": p["profile"], "giID": k, "ciID": 0}
                for p in want["mig"]["profiles"] for k in range(p["count"])]
            for p in want["mig"]["profiles"]:
                counts[p["profile"]] = counts.get(p["profile"], 0) + p["count"]
        if want:
            card["conditions"] = [c for c in card.get("conditions", []) if c["type"] != "Applied"] + [condition("Applied", generation)]
    for c in status["conditions"]:
        c["observedGeneration"] = generation
    return {"observedGeneration": generation, "devices": status["devices"], "conditions": status["conditions"],
            "resources": [{"name": f"nvidia.com/mig-{p}", "count": n, "publisher": "controller"} for p, n in sorted(counts.items())]}


def condition(kind, generation):
    return {"type": kind, "status": "True", "reason": "Applied", "message": "the hardware is as wanted",
            "observedGeneration": generation, "lastTransitionTime": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())}


def log_has(proc, text):
    return text in Path(proc.log.name).read_text(errors="replace")


def fleet():
    print(f"\nController with {NODES} nodes and {NODES} Devices of 8 cards on a real API server")
    with Stack("fleet") as stack:
        begin = time.monotonic()
        make_fleet(stack, template_status(stack))
        show("fleet", "objects made (the bench's own time)", f"{time.monotonic() - begin:.0f} s")
        curl = read_lists(stack)
        server = stack.server_pid()
        server_cpu, begin = cpu_s(server), time.monotonic()
        port = free_port()
        proc = stack.controller("--health-addr", f"127.0.0.1:{port}")
        pid = proc.popen.pid
        until(lambda: ready(port), 300, "the controller to be ready")
        took = time.monotonic() - begin
        own, theirs = cpu_s(pid), cpu_s(server) - server_cpu
        show("fleet", "curl reading the same lists", f"{curl:.2f} s")
        show("fleet", "cold start → ready", f"{took:.2f} s")
        show("fleet", "CPU beside the API server's in that time", f"{own:.2f} / {theirs:.2f} s")
        show("fleet", "resident / anonymous memory, synced", f"{resident_mib(pid):.0f} / {anonymous_mib(pid):.0f} MiB", "aim 64")

        hollow = HollowAgents(stack.api)
        server_cpu, own_cpu, begin = cpu_s(server), cpu_s(pid), time.monotonic()
        stack.api.call("POST", f"{GROUP}/gpuprofiles", {
            "apiVersion": "gpu.cleave.dev/v1alpha1", "kind": "GPUProfile", "metadata": {"name": "all"},
            "spec": {"nodeSelector": {"matchLabels": {"pool": "bench"}}, "rollout": {"maxUnavailable": "100%"},
                     "devices": [{"mode": "mig", "mig": {"profiles": {"1g.10gb": 7}}}]}})

        def done():
            status = stack.api.call("GET", f"{GROUP}/gpuprofiles/all").get("status", {})
            time.sleep(0.2)
            return status.get("nodes", {}).get("upToDate") == NODES

        until(done, 1800, "all nodes to be up to date")
        took = time.monotonic() - begin
        own, theirs = cpu_s(pid) - own_cpu, cpu_s(server) - server_cpu
        show("fleet", "a profile reaches all nodes", f"{took:.1f} s")
        show("fleet", "Device specs a second", f"{NODES / took:.0f}")
        show("fleet", "controller's CPU / the API server's", f"{own:.1f} / {theirs:.1f} s")
        show("fleet", "ratio", f"{own / theirs:.3f}", "aim < 0.167")
        show("fleet", "resident / anonymous memory after it", f"{resident_mib(pid):.0f} / {anonymous_mib(pid):.0f} MiB", "aim 64")
        events = queue.Queue()
        version = stack.api.call("GET", "/api/v1/nodes?limit=1")["metadata"]["resourceVersion"]
        for path in ("/api/v1/nodes", f"{GROUP}/devices", f"{GROUP}/gpuprofiles"):
            stack.api.watch(f"{path}?resourceVersion={version}", events)
        last = quiet(events, 3)
        show("fleet", "and the last node's resources follow after", f"{max(0, last - begin - took):.1f} s")
        time.sleep(IDLE_SECONDS)  # measures idleness: nothing is awaited
        show("fleet", f"writes in the following {IDLE_SECONDS} s, the Lease apart", len(list(drain(events))), "aim 0")


PARTS = {
    "latency": latency,
    "recut": recut,
    "agent": agent,
    "allocatable": kubelet_bench.allocatable,
    "allocate": kubelet_bench.allocate,
    "restarts": kubelet_bench.restarts,
    "slices": slices_bench.slices,
    "scheduler": scheduler_bench.scheduler,
    "binding": shares_bench.binding,
    "one-node": shares_bench.one_node,
    "attempts": shares_bench.first_attempts,
    "hami": hami_bench.hami,
    "limiter": limiter_bench.limiter,
    "turns": turns_bench.turns,
    "scrape": scrape_bench.scrape,
    "fleet": fleet,
    "plan": plan_bench.plan,
}


def measure(name):
    try:
        PARTS[name]()
    except Skip as skip:
        show(name, "skipped", skip.args[0])


def main():
    names = sys.argv[1:] or list(PARTS)
    unknown = [name for name in names if name not in PARTS]
    if unknown:
        sys.exit(f"bench: no part {', '.join(unknown)}; there are {', '.join(PARTS)}")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # what was started is ended
    RUN.mkdir(parents=True, exist_ok=True)
    print(f"{'':<72} {'measured':>14}  aim")
    for name in names:
        measure(name)
    (RUN / "results.json").write_text(json.dumps(results, indent=2) + "\n")


if __name__ == "__main__":
    main()
