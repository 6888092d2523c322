#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a cluster of many nodes costs: a real API server, our controller, and hollow agents (hollow.c) with cards in memory.

    fleet.py [--rest SECONDS] [--cards N] [--workers N] NODES...

For each number of nodes, on a control plane of its own: the agents start, the controller starts, a first profile for all
nodes, a rest, a change that at most a tenth of the nodes may be in at once, and the controller killed and started again.
Each agent has a thread for each thread of a real one, its own connections, and a token that names its node, so that RBAC
and admission are asked as always. What is written is read from the audit log.

Ends with a table, and "N passed, N failed": of what must hold at any size. Times are told, not judged.
"""

import argparse
import os
import shutil
import subprocess
import sys
import threading
import time
import traceback
from collections import Counter, defaultdict
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "fault"), str(HERE.parent / "soak"), str(HERE.parent / "e2e")]

import vitals  # noqa: E402
from conftest import DYING_WITH_PARENT, ROOT, RUNS, Cluster, Processes, remove_stale_runs, wait_for  # noqa: E402
from oracle import seconds, what  # noqa: E402
from stack import GROUP, Api, Rig, install, is_current, is_true  # noqa: E402

HOLLOW = ROOT / "build" / "release" / "test" / "fleet" / "hollow"
EACH = 1000  # agents of one process: it may have 20,000 descriptors
RESYNC_S = 30  # as in production
PATIENCE_S = 600
QUIET_S = 5
AT_ONCE = 8  # requests of ours
SMALL, HALVES = {"1g.10gb": 7}, {"3g.40gb": 2}
TENTH = "10%"


class BareCluster(Cluster):
    """Without a controller manager: nobody is to write but ours."""

    def start(self):
        self.script("up.sh", self.rundir)
        self.server = (self.rundir / "server").read_text().strip()
        self.kubectl = self.kubectl_as(self.kubeconfig)


def cpu_s(pid):
    """User and system time so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Hollow:
    """One process of agents."""

    def __init__(self, cluster, folder, tokens, cards):
        argv = [*DYING_WITH_PARENT, HOLLOW, cluster.server, cluster.rundir / "certs" / "apiserver.crt", folder, cards, RESYNC_S]
        self.popen = subprocess.Popen(list(map(str, argv)), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT)
        self.popen.stdin.write("".join(f"{name} {token}\n" for name, token in tokens))
        self.popen.stdin.close()
        self.count = len(tokens)

    def wait_running(self):
        said = self.popen.stdout.readline().split()
        assert said == ["running", str(self.count)], said

    def end(self):
        """What it says in the end: how often something in use was to be destroyed."""
        self.popen.terminate()
        said = self.popen.stdout.read().split()
        self.popen.wait()
        return int(said[3])


class Fleet:
    def __init__(self, cluster, folder, count, options):
        self.cluster, self.count, self.options = cluster, count, options
        self.folder = folder
        self.processes = Processes(folder)
        self.rig = Rig(cluster, self.processes, lambda name: ROOT / "build" / "release" / name)
        self.api = self.rig.api
        self.figures, self.wrong, self.passed = {}, [], 0
        self.local = threading.local()
        self.hollows = []
        self.names = [f"{self.rig.id}-n{i}" for i in range(count)]

    # --- making it ---

    def my_api(self):
        """One for each thread."""
        if not hasattr(self.local, "api"):
            self.local.api = Api(self.cluster)
        return self.local.api

    def make_node(self, name):
        """A Node and its agent's pod; returns the pod's token."""
        api, system = self.my_api(), "/api/v1/namespaces/cleave-node"
        resources = {"cpu": "64", "memory": "512Gi", "pods": "110"}
        labels = {"kubernetes.io/hostname": name, "test": self.rig.id}
        status = {"capacity": resources, "allocatable": resources, "conditions": [{"type": "Ready", "status": "True"}]}
        api.create("/api/v1/nodes", {"metadata": {"name": name, "labels": labels}, "status": status})
        spec = {"nodeName": name, "serviceAccountName": "cleave-agent", "automountServiceAccountToken": False, "tolerations": [{"operator": "Exists"}]}
        pod = api.create(f"{system}/pods", {"metadata": {"name": f"agent-{name}"}, "spec": {**spec, "containers": [{"name": "main", "image": self.rig.image}]}})
        bound = {"kind": "Pod", "apiVersion": "v1", "name": pod["metadata"]["name"], "uid": pod["metadata"]["uid"]}
        request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 7200, "boundObjectRef": bound}}
        return name, api.create(f"{system}/serviceaccounts/cleave-agent/token", request)["status"]["token"]

    def make_nodes(self):
        with ThreadPoolExecutor(AT_ONCE) as pool:
            return list(pool.map(self.make_node, self.names))

    def start_agents(self, tokens):
        for i in range(0, len(tokens), EACH):
            self.hollows.append(Hollow(self.cluster, self.folder / f"hollow-{i}", tokens[i : i + EACH], self.options.cards))
        for hollow in self.hollows:
            hollow.wait_running()
        wait_for(lambda: self.devices_there() == self.count, PATIENCE_S, lambda: f"{self.count} Devices; there are {self.devices_there()}")

    def devices_there(self):
        """Cheaply: the API server counts those that it does not list."""
        page = self.api.get(f"{GROUP}/devices?limit=1")
        return len(page["items"]) + page["metadata"].get("remainingItemCount", 0)

    # --- waiting ---

    def quiet(self, seconds_=QUIET_S):
        """Until the audit log does not grow by a write of ours for so long. Returns when the last one was."""
        mark, last = self.cluster.audit_mark(), time.monotonic()
        begin = last
        while time.monotonic() - last < seconds_:
            now = self.cluster.audit_mark()
            if now != mark and self.cluster.writes(mark, "cleave"):
                last = time.monotonic()
            mark = now
            assert time.monotonic() - begin < PATIENCE_S, "the writing never ends"
            time.sleep(0.1)
        return last

    def wait_profile(self, path):
        def is_done():
            found = self.api.get(path)
            return is_current(found) and found["status"]["nodes"].get("upToDate") == self.count

        begin = time.monotonic()
        wait_for(is_done, PATIENCE_S, lambda: f"the profile: {self.api.get(path).get('status')}")
        return time.monotonic() - begin

    def ask(self, layout, most):
        return self.rig.profile("p", {"mode": "mig", "mig": {"profiles": layout}}, rollout={"maxUnavailable": most})

    def expect(self, holds, text):
        if not holds:
            self.wrong.append(text)
        self.passed += holds
        print(f"{'ok' if holds else 'not ok'} - {self.count} nodes: {text}", flush=True)

    # --- what is done ---

    def run(self):
        begin = time.monotonic()
        tokens = self.make_nodes()
        self.figures["made, s"] = time.monotonic() - begin
        mark, begin = self.cluster.audit_mark(), time.monotonic()
        self.start_agents(tokens)
        self.figures["agents: all Devices there, s"] = time.monotonic() - begin
        self.quiet()
        self.figures["agents: slowest answer, s"] = max((latency(e) for e in self.cluster.audit(mark) if is_ours(e, "agent") and e["verb"] != "watch"), default=0)
        self.per_agent()
        self.start_controller()
        self.first_profile()
        self.rest()
        self.rollout()
        self.restart()
        self.watches(mark)
        self.expect(sum(h.end() for h in self.hollows) == 0, "nothing in use was to be destroyed")
        self.hollows = []

    def per_agent(self):
        said = [vitals.Sample(0, h.popen.pid) for h in self.hollows]
        self.figures["agent: memory, KiB"] = sum(s.anonymous for s in said) / self.count / 1024
        self.figures["agent: threads"] = sum(s.threads for s in said) / self.count
        self.figures["agent: descriptors"] = sum(s.descriptors for s in said) / self.count

    def start_controller(self):
        begin = time.monotonic()
        self.controller = self.rig.controller(workers=self.options.workers)
        self.figures["controller: ready, s"] = time.monotonic() - begin
        self.figures["controller: all written, s"] = self.quiet() - begin

    def first_profile(self):
        mark, cpu = self.cluster.audit_mark(), cpu_s(self.controller.pid)
        path = self.ask(SMALL, "100%")
        self.figures["first profile: Ready, s"] = self.wait_profile(path)
        self.quiet()
        self.figures["first profile: controller's CPU, s"] = cpu_s(self.controller.pid) - cpu
        self.count_writes("first profile", mark)

    def count_writes(self, title, mark):
        """By whom and of what; and whether a node takes as much among many as alone."""
        writes = [e for e in self.cluster.writes(mark, "cleave") if e["objectRef"]["resource"] != "events"]
        refused = Counter(e["responseStatus"]["code"] for e in writes if e["responseStatus"]["code"] >= 300)
        done = [e for e in writes if e["responseStatus"]["code"] < 300]
        kinds, each = Counter(), defaultdict(Counter)
        for e in done:
            verb, resource, name = what(e)
            kinds[f"{verb} {resource}"] += 1
            if name in self.known:
                each[name][f"{verb} {resource}"] += 1
        totals = [sum(c.values()) for c in each.values()]
        self.figures[f"{title}: writes a node"] = f"{min(totals)}..{max(totals)}, {sum(totals) / self.count:.2f}"
        self.figures[f"{title}: writes"] = ", ".join(f"{n} {kind}" for kind, n in sorted(kinds.items()))
        self.figures[f"{title}: refused"] = ", ".join(f"{n} x {code}" for code, n in refused.items()) or 0
        idle = idle_writes(done)
        self.expect(not idle, f"{title}: no write that changes nothing{f': {idle}' if idle else ''}")

    @property
    def known(self):
        return set(self.names)

    def rest(self):
        """Nobody asks for anything."""
        self.quiet(10)
        mark, begin = self.cluster.audit_mark(), time.monotonic()
        before = cpu_s(self.controller.pid), sum(cpu_s(h.popen.pid) for h in self.hollows)
        time.sleep(self.options.rest)
        took = time.monotonic() - begin
        self.figures["rest: controller's CPU, %"] = 100 * (cpu_s(self.controller.pid) - before[0]) / took
        self.figures["rest: an agent's CPU, %"] = 100 * (sum(cpu_s(h.popen.pid) for h in self.hollows) - before[1]) / took / self.count
        said = vitals.Sample(0, self.controller.pid)
        self.figures["controller: anonymous memory, MiB"] = said.anonymous / (1 << 20)
        self.figures["controller: resident memory, MiB"] = said.resident / (1 << 20)
        events = [e for e in self.cluster.audit(mark) if is_ours(e)]
        requests = Counter(" ".join(what(e)[:2]) for e in events)
        self.figures["rest: requests/s"] = f"{len(events) / took:.2f} ({', '.join(f'{n} {k}' for k, n in requests.most_common())})"
        written = [what(e) for e in self.cluster.writes(mark, "cleave")]
        self.expect(not written, f"at rest nobody writes but Leases{f': {written[:5]}' if written else ''}")
        listed = [k for k in requests if k.startswith("list")]
        self.expect(not listed, f"at rest nobody lists{f': {listed}' if listed else ''}")

    def rollout(self):
        mark, cpu = self.cluster.audit_mark(), cpu_s(self.controller.pid)
        path = self.ask(HALVES, TENTH)
        self.figures[f"change by {TENTH}: Ready, s"] = self.wait_profile(path)
        self.quiet()
        self.figures[f"change by {TENTH}: controller's CPU, s"] = cpu_s(self.controller.pid) - cpu
        most, allowed = most_in_change(self.cluster.audit(mark)), -(-self.count // 10)
        self.figures[f"change by {TENTH}: most at once"] = most
        self.expect(0 < most <= allowed, f"at most {allowed} in change at once: {most}")
        self.count_writes(f"change by {TENTH}", mark)

    def restart(self):
        self.controller.kill()
        mark, begin = self.cluster.audit_mark(), time.monotonic()
        self.controller = self.rig.controller(name="controller-again", identity="again", workers=self.options.workers)
        self.figures["restart: caches full, s"] = time.monotonic() - begin
        wait_for(lambda: self.is_leader("again"), 60, "the new one to lead")
        self.quiet()
        self.figures["restart: controller's CPU, s"] = cpu_s(self.controller.pid)
        written = [what(e) for e in self.cluster.writes(mark, "cleave")]
        self.expect(not written, f"a controller that starts again writes nothing{f': {written[:5]}' if written else ''}")
        said = vitals.Sample(0, self.controller.pid)
        self.figures["restart: resident memory, MiB"] = said.resident / (1 << 20)

    def is_leader(self, name):
        lease = self.api.get("/apis/coordination.k8s.io/v1/namespaces/cleave-system/leases/cleave-controller")
        return name in lease["spec"].get("holderIdentity", "")

    def watches(self, mark):
        """An agent asks for its own objects, whatever the number of nodes."""
        wide = Counter()
        for e in self.cluster.audit(mark):
            if is_ours(e, "agent") and e["verb"] in ("list", "watch") and not e["objectRef"].get("name"):
                wide[f"{e['verb']} {e['objectRef']['resource']}"] += 1
        self.expect(not wide, f"no agent lists or watches what is not its own{f': {dict(wide)}' if wide else ''}")

    def close(self):
        for hollow in self.hollows:
            hollow.popen.kill()
            hollow.popen.wait()
        self.processes.end()


def is_ours(event, who=""):
    return event["user"].get("username", "").endswith(f":cleave-{who}")


def latency(event):
    """What the API server took, in seconds."""
    return seconds(event["stageTimestamp"]) - seconds(event["requestReceivedTimestamp"])


def idle_writes(events):
    """Writes that left the object at the version that the write before had given it."""
    versions, idle = {}, Counter()
    for e in events:
        verb, resource, name = what(e)
        version = (e.get("responseObject") or {}).get("metadata", {}).get("resourceVersion")
        key = (e["objectRef"]["resource"], name)
        if version and versions.get(key) == version:
            idle[f"{verb} {resource}"] += 1
        versions[key] = version
    return dict(idle)


def most_in_change(events):
    """The largest number of nodes that were told what to become and had not become it."""
    going, most = {}, 0
    for e in sorted((e for e in events if e["objectRef"].get("resource") == "devices" and e["responseStatus"]["code"] < 300), key=lambda e: e["stageTimestamp"]):
        verb, resource, name = what(e)
        if verb not in ("patch", "update"):
            continue
        obj = e["responseObject"]
        if resource == "devices":
            if obj["metadata"]["generation"] != obj.get("status", {}).get("observedGeneration"):
                going[name] = obj["metadata"]["generation"]
        elif is_current(obj) and not is_true(obj, "Reconciling"):
            going.pop(name, None)
        most = max(most, len(going))
    return most


def tell(figures, counts):
    names = list(dict.fromkeys(name for each in figures for name in each))
    long = [n for n in names if any(len(str(each.get(n, ""))) > 30 for each in figures)]
    width = max(map(len, names))
    print(f"\n  {'nodes':<{width}} " + " ".join(f"{c:>18}" for c in counts))
    for name in names:
        if name not in long:
            print(f"  {name:<{width}} " + " ".join(f"{plain(each.get(name, '')):>18}" for each in figures))
    for name in long:
        for count, each in zip(counts, figures):
            print(f"  {name}, {count} nodes: {each.get(name, '')}")


def plain(value):
    return f"{value:.2f}" if isinstance(value, float) else str(value)


def measure(folder, count, options):
    """(figures, passed, failed) of a cluster of so many nodes."""
    cluster = BareCluster(folder / "kube")
    fleet = None
    try:
        cluster.start()
        install(cluster)
        fleet = Fleet(cluster, folder / "fleet", count, options)
        fleet.run()
    except KeyboardInterrupt:
        raise
    except BaseException:  # noqa: BLE001 - pytest.fail of wait_for is none of Exception
        traceback.print_exc()
        fleet and fleet.wrong.append("it broke off")
    finally:
        if fleet:
            fleet.close()
        cluster.stop(purge=not fleet or not fleet.wrong)
    return (fleet.figures, fleet.passed, len(fleet.wrong)) if fleet else ({}, 0, 1)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("nodes", type=int, nargs="+")
    parser.add_argument("--rest", type=float, default=30)
    parser.add_argument("--workers", type=int, default=2, help="of the controller; 2 is its default")
    parser.add_argument("--cards", type=int, default=1, help="of a node, at most 4")
    options = parser.parse_args()
    remove_stale_runs()
    folder = RUNS / f"run-{os.getpid()}"
    folder.mkdir(parents=True)
    results = []
    for count in options.nodes:
        (folder / f"lane-{count}").mkdir()
        results.append(measure(folder / f"lane-{count}", count, options))
    tell([figures for figures, _, _ in results], options.nodes)
    passed, failed = (sum(r[i] for r in results) for i in (1, 2))
    if not failed:
        shutil.rmtree(folder, ignore_errors=True)
    print(f"\n{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
