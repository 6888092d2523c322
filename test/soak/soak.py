#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Days of a cluster in minutes: random changes and faults at a steady rate, and what must hold all the while.

    soak.py [--minutes N] [--seed N] [--changes PER_MINUTE] [--faults PER_MINUTE]

A real etcd and kube-apiserver, two replicas of the controller, four nodes with agents; two of them serve a kubelet (its
stub). One replica and two agents are killed now and then and come back; the others live from the first to the last
minute, and their memory, descriptors and threads are watched. Every minute the faults cease: all must be as wanted within
60 s, and then nobody writes anything but Leases. Each such stretch is judged by S1 to S6 of test/fault/invariants.py
from the audit log and from what the simulated hardware says that was done to it.

Ends with figures and "N passed, N failed". What failed says the seed, by which the same choices are made again.
"""

import argparse
import faulthandler
import os
import random
import shutil
import signal
import sys
import tempfile
import threading
import time
import traceback
from collections import Counter
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "fault"), str(HERE.parent / "e2e")]

import catalog  # noqa: E402
import stack  # noqa: E402
import vitals  # noqa: E402
import workloads  # noqa: E402
from conftest import ROOT, RUNS, Cluster, remove_stale_runs  # noqa: E402
from harm import Disorder  # noqa: E402
from judge import OVERDRAFT_S, TICK_S, Broken, Judge  # noqa: E402
from people import People  # noqa: E402
from replicas import SHORT, holder, replica  # noqa: E402
from world import DONE_S, Program, World  # noqa: E402

STRETCH_S = 60  # between two pauses
QUIET_S = 5  # nobody writes for so long, at each pause
LAST_QUIET_S = 20  # and at the last one
SAMPLE_S = 5
LATE_S = 10  # what took longer is told


class Kubelet(workloads.Kubelet):
    """One that remembers which pods have ended: when it starts, the API server tells it of none of these, though its
    checkpoint may."""

    def __init__(self, folder):
        self.ended = set()
        super().__init__(folder)

    def end(self, pod):
        self.ended.add(pod.uid)
        super().end(pod)

    def read_checkpoint(self):
        super().read_checkpoint()
        self.pods = [pod for pod in self.pods if pod.uid not in self.ended]


class Fleet(workloads.Workload):
    """The nodes: of the first two kubelets are stubs; of the other two the controller brings what they offer."""

    nodes, fleet = 4, {"h100-80": 2}

    def __init__(self, world):
        super().__init__(world)
        self.kubelets, self.folders, self.holds = {}, [], ()

    def furnish(self, node):
        if len(self.kubelets) == 2:
            return
        folder = tempfile.mkdtemp(prefix="ck", dir="/tmp")  # a socket's path has 107 bytes
        self.folders.append(folder)
        self.kubelets[node] = Kubelet(folder).start()
        node.ctl("driver-root", node.folder / "driver")
        node.ctl("dev-root", node.folder / "driver")

    def flags(self, node):
        flags = {"health_settle_seconds": 1}
        if node not in self.kubelets:
            return flags
        driver = node.folder / "driver"
        places = {f"{host}{what}_root": driver for host in ("", "host_") for what in ("driver", "dev")}
        return {**flags, "resources": "kubelet", "kubelet_dir": self.kubelets[node].folder, "cdi_dir": node.folder / "cdi", **places}

    def close(self):
        for kubelet in self.kubelets.values():
            kubelet.stop()
        for folder in self.folders:
            shutil.rmtree(folder, ignore_errors=True)


catalog.ALL["Fleet"] = Fleet


class SoakWorld(World):
    """A world that lasts: programs that end are started again, what has begun is ended in time."""

    def __init__(self, cluster, release, folder):
        super().__init__(cluster, release, folder, "Fleet")
        self.kubelets = self.workload.kubelets
        self.agenda = []  # (when, what)
        self.still = {}  # by: until when it stands still
        self.ended = set()  # for a while
        self.mortals = {"agent0", "agent2", "controller1"}
        self.orders = []
        self.leases_lost = 0

    def open(self):
        for _ in range(self.workload.nodes):
            node = self.rig.node(self.workload.fleet, start=False)
            self.nodes.append(node)
            self.workload.furnish(node)
            self.start_agent(node)
        for name in ("controller0", "controller1"):
            self.programs[name] = Program(lambda name=name: self.start_replica(name))
        for node in self.nodes:
            node.wait_ready(60)

    def start_replica(self, name):
        return replica(self.rig, name, lambda k: self.proxy.kubeconfig(k, name), wait=False, **SHORT)

    def mortal_nodes(self):
        return [node for node in self.nodes if self.by(node) in self.mortals]

    def leader(self):
        who = holder(self.rig)
        return "controller1" if "controller1" in who else "controller0"

    # --- time ---

    def later(self, seconds, what):
        self.agenda.append((time.monotonic() + seconds, what))

    def tick(self, force=False):
        """Does what is due; force: all of it."""
        now = time.monotonic()
        due = [(when, what) for when, what in self.agenda if force or when <= now]
        self.agenda = [item for item in self.agenda if item not in due]
        for _, what in sorted(due, key=lambda item: item[0]):
            what()
        self.keep_alive()

    def keep_alive(self):
        """As a DaemonSet's and a Deployment's pods are. Nothing but SIGKILL, and a lease that was lost, may end them."""
        for by, program in self.programs.items():
            process = program.process
            if by in self.ended or not process or process.running():
                continue
            code = process.popen.returncode
            if code == 1 and "lost the lease" in process.tail(1):
                self.leases_lost += 1
            elif code not in (None, -signal.SIGKILL):
                raise Broken(f"{by} ended by itself with status {code}:\n{process.tail()}")
            program.do(lambda p=process: p.running() or p.start())  # who was killed by harm starts again there

    # --- faults ---

    def harm(self, harm):
        with self.proxy.lock:
            self.proxy.harms.append(harm)
        self.orders.append(harm)

    def stand_still(self, by, seconds):
        process = self.programs[by].process
        if by in self.ended or by in self.still or not process or not process.running():
            return False
        process.signal(signal.SIGSTOP)
        self.still[by] = process

        def go_on():
            if self.still.pop(by, None):
                process.signal(signal.SIGCONT)

        self.later(seconds, go_on)
        return True

    def kill(self, by):
        """May be called by the proxy's threads."""
        if by in self.ended:
            return False
        self.programs[by].crash()
        return True

    def upgrade(self, node):
        by = self.by(node)
        if by in self.ended or by in self.still:
            return False
        self.programs[by].stop()
        self.programs[by].do(self.programs[by].start)
        return True

    def end_disorder(self):
        self.proxy.order()
        self.tick(force=True)
        for kubelet in self.kubelets.values():
            kubelet.gate.set()

    # --- nodes ---

    def remove_node(self, node):
        by = self.by(node)
        if self.still.get(by):
            self.still.pop(by).signal(signal.SIGCONT)
        self.ended.add(by)
        program = self.programs[by]
        program.stop()
        program.close()
        self.rig.api.delete(f"/api/v1/nodes/{node.name}")

    def return_node(self, node):
        self.add_again(node)
        self.ended.discard(self.by(node))


class Soak:
    def __init__(self, world, options):
        self.world, self.options = world, options
        self.rng = random.Random(options.seed)
        self.people = People(world, self.rng)
        self.disorder = Disorder(world, self.rng)
        self.deeds = Counter()
        self.records = {}
        self.pauses = 0
        self.failures = []
        self.judge = Judge(self.world, self.people)

    def run(self):
        self.world.open()
        self.people.begin()
        self.judge.begin()
        self.pause(QUIET_S)
        self.started = time.monotonic()
        end = self.started + self.options.minutes * 60
        while time.monotonic() < end:
            self.stretch(min(end, time.monotonic() + STRETCH_S))
            self.pause(QUIET_S if time.monotonic() < end else LAST_QUIET_S)

    def stretch(self, end):
        """Changes and faults until then, each at its own pace."""
        paces = [
            [60 / self.options.changes, self.change, time.monotonic()],
            [60 / self.options.faults, self.disorder.strike, time.monotonic()],
            [SAMPLE_S, self.sample, time.monotonic()],
            [1, self.people.obey, time.monotonic()],
        ]
        while time.monotonic() < end:
            self.world.tick()
            for pace in paces:
                if time.monotonic() >= pace[2]:
                    pace[2] += pace[0] * self.rng.uniform(0.5, 1.5)
                    pace[1]()
            time.sleep(TICK_S)

    def change(self):
        deed = self.people.act()
        if deed:
            self.deeds[deed.replace("_", " ")] += 1

    def pause(self, quiet_s):
        self.disorder.cease()
        self.people.rest()
        took, last = self.judge.converge()
        self.judge.still(quiet_s)
        self.judge.judge()
        self.leftovers()
        self.sample(at_rest=True)
        self.pauses += 1
        late = f" ({'; '.join(last)})" if took > LATE_S else ""
        print(f"ok - pause {self.pauses}: all as wanted after {took:.1f} s{late}, {sum(self.deeds.values())} changes and {self.faults()} faults so far", flush=True)

    def faults(self):
        self.disorder.ordered = self.world.orders
        return sum(self.disorder.counted().values())

    # --- what they cost ---

    def sample(self, at_rest=False):
        now = time.monotonic()
        for by, program in self.world.programs.items():
            if program.process and program.process.running():
                self.records.setdefault(by, vitals.Record(by)).add(vitals.sample(now, program.process.pid), at_rest)

    def leftovers(self):
        """Nobody lives that is not ours or a child of ours."""
        ours = {program.process.pid for program in self.world.programs.values()}
        known = ours.union(*(vitals.children(pid) for pid in ours))
        lost = {pid: argv for pid, argv in vitals.descendants_of(self.world.rig.folder).items() if pid not in known}
        if lost:
            raise Broken(f"left over: {lost}")

    # --- the end ---

    def verdict(self):
        for by in sorted(self.records):
            if by not in self.world.mortals:
                self.failures += self.records[by].judge()

    def report(self):
        minutes = (time.monotonic() - self.started) / 60 if hasattr(self, "started") else 0
        print(f"\nSoak of {minutes:.1f} min, seed {self.options.seed}")
        table("changes made", self.deeds)
        self.faults()
        table("faults", self.disorder.counted())
        table("writes of ours that were taken", self.judge.written)
        print(f"  leases lost, and begun anew by another replica: {self.world.leases_lost}")
        print(f"  pauses {self.pauses}, the longest convergence {self.judge.longest:.1f} s (at most {DONE_S} s)")
        print(f"  the longest time that more was on offer than there was {self.judge.overdraft:.2f} s (at most {OVERDRAFT_S} s)\n")
        self.report_processes()

    def report_processes(self):
        print(f"  {'process':<12} {'lives':>5} {'resident':>10} {'at most':>10} {'anonymous':>16} {'slope':>12} {'descriptors':>12} {'threads':>8}")
        for by, record in sorted(self.records.items()):
            if not record.rest:
                continue
            last = record.rest[-1]
            slope = f"{record.growth('anonymous')[0] * 3600 / vitals.KIB:+.0f} KiB/h" if by not in self.world.mortals else "-"
            first = next(s for s in record.rest if s.pid == last.pid)
            descriptors = f"{first.descriptors}..{last.descriptors}"
            print(f"  {by:<12} {len(record.lives):>5} {mib(last.resident):>10} {mib(record.most):>10} {f'{first.anonymous / (1 << 20):.1f}..{mib(last.anonymous)}':>16} {slope:>12} {descriptors:>12} {last.threads:>8}")


def mib(n):
    return f"{n / (1 << 20):.1f} MiB"


def table(title, counts):
    print(f"  {title}: {sum(counts.values())}")
    for name, n in sorted(counts.items(), key=lambda item: -item[1]):
        print(f"    {n:>6} {name}")


def release(name):
    return ROOT / "build" / "release" / name


def soak(cluster, folder, options):
    """Returns how many checks failed."""
    world = SoakWorld(cluster, release, folder)
    run = Soak(world, options)
    try:
        run.run()
        run.verdict()
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # noqa: BLE001 - pytest.fail of wait_for is none of Exception
        run.failures.append(str(error) if isinstance(error, Broken) else traceback.format_exc())
    finally:
        run.report()
        world.close()
    for text in run.failures:
        print(f"\nnot ok - seed {options.seed}: {text}", flush=True)
    print(f"\n{run.pauses} passed, {len(run.failures)} failed")
    return len(run.failures)


def leave_out_channels(hook):
    """Of gRPC's own threads, which complain when a kubelet is killed while it connects."""
    return lambda failed: None if "Channel closed" in str(failed.exc_value) else hook(failed)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=5)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 32))
    parser.add_argument("--changes", type=float, default=60, help="a minute")
    parser.add_argument("--faults", type=float, default=60, help="a minute")
    options = parser.parse_args()
    print(f"seed {options.seed}", flush=True)
    stack.TOKEN_S = max(stack.TOKEN_S, int(options.minutes * 60) + 3600)
    faulthandler.register(signal.SIGUSR1)  # says where it stands
    threading.excepthook = leave_out_channels(threading.excepthook)
    remove_stale_runs()
    folder = RUNS / f"run-{os.getpid()}"
    folder.mkdir(parents=True)
    cluster = Cluster(folder / "kube")
    failed = 1
    try:
        cluster.start()
        failed = soak(cluster, folder / "soak", options)
    finally:
        cluster.stop(purge=not failed)
        if not failed:
            shutil.rmtree(folder, ignore_errors=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
