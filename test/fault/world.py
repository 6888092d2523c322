# SPDX-License-Identifier: Apache-2.0
"""One run: nodes, our programs behind the proxy, what people do, one plan of harm, and what came of it."""

import contextlib
import json
import queue
import signal
import threading
import time

import library
import oracle
from catalog import ALL
from conftest import Processes, wait_for
from invariants import LAG_S
from library import CallHarm
from proxy import FaultProxy
from stack import Api, Rig, install
from twin import Twin

DONE_S = 60  # after the last harm all is as wanted within this time
QUIET_S = 3.0  # then nobody writes for this long: three readings of the hardware
RETURN_S = 10.0  # or this long where a program was cut off twice: it looks again after some seconds, and only then sees the present
RETRY_LAG_S = 2.0  # the Node follows a change that is tried again
LOOK_S = 0.05


class NotReached(Exception):
    """The request or event that was to be harmed never came."""


class Program:
    """One of ours, that harm may kill at any time. While watched() it is started again when it ends by itself, as by a kubelet.
    Processes are started by a thread that lasts: they end with the thread that they were started by (PR_SET_PDEATHSIG)."""

    def __init__(self, start, watched=lambda: False):
        self.begin = start
        self.process = None
        self.watched = watched
        self.deaths = []  # exit statuses of those that ended without our doing
        self.pids = []
        self.orders = queue.SimpleQueue()
        threading.Thread(target=self.work, daemon=True).start()
        self.do(self.start)

    def work(self):
        while order := self.next_order():
            what, done = order
            try:
                what()
            finally:
                done.set()

    def next_order(self):
        while True:
            try:
                return self.orders.get(timeout=LOOK_S)
            except queue.Empty:
                self.revive()

    def revive(self):
        if self.watched() and self.process and not self.process.running():
            self.deaths.append(self.process.popen.returncode)
            self.start_again()

    def do(self, what):
        done = threading.Event()
        self.orders.put((what, done))
        done.wait()

    def start(self):
        self.process = self.begin()
        self.pids.append(self.process.pid)

    def start_again(self):
        self.process.start()
        self.pids.append(self.process.pid)

    def stop(self):
        """Politely and for good."""
        self.do(self.end)

    def end(self):
        process, self.process = self.process, None
        if process:
            process.stop()

    def crash(self):
        """Killed, and started again; one that was ended for good stays so."""
        self.do(self.restart)

    def restart(self):
        if self.process and self.process.running():
            self.process.kill()
            self.start_again()

    def close(self):
        self.orders.put(None)


class Past:
    """What programs of this world see of the second API server, which a lane has once one of its plans asks for it."""

    def __init__(self, world):
        self.world = world

    def prepare(self, harms):
        """Before what people do: the twin is up to date, and then stays so or, without a "freeze" of its own, not."""
        if not any(h.do in ("travel", "reconnect") for h in harms):
            return
        self.twin = twin_of(self.world.cluster)
        self.catch_up()
        if not any(h.do == "freeze" for h in harms):
            self.freeze()

    def catch_up(self):
        """Until it shows the newest object there is."""
        rig = self.world.rig
        path, name = "/api/v1/namespaces/default/configmaps", f"{rig.id}-{time.monotonic_ns()}"
        rig.objects.append(f"{path}/{name}")
        rig.api.create(path, {"metadata": {"name": name}})
        with contextlib.closing(Api(self.world.cluster)) as api:
            api.where = self.twin.where
            wait_for(lambda: api.find(f"{path}/{name}?resourceVersion=0"), 60, "the second API server to have caught up")

    def freeze(self):
        self.twin.freeze()

    def travel(self, by, harm):
        proxy = self.world.proxy
        proxy.reads[by] = self.twin.where
        if harm.do == "travel":
            self.world.kill(by)
        else:
            proxy.cut_reads(by)
        threading.Timer(harm.seconds, self.come_back, [by]).start()

    def come_back(self, by):
        self.twin.thaw()
        self.world.proxy.reads.pop(by, None)
        self.world.proxy.cut_reads(by)

    def close(self):
        if hasattr(self, "twin"):
            self.twin.thaw()


def twin_of(cluster):
    if not hasattr(cluster, "twin"):
        cluster.twin = Twin(cluster).start()
    return cluster.twin


class World:
    DONE_S = DONE_S

    def __init__(self, cluster, release, folder, workload):
        install(cluster)
        self.cluster = cluster
        self.processes = Processes(folder)
        self.rig = Rig(cluster, self.processes, release)
        self.past = Past(self)
        self.proxy = FaultProxy(cluster, self.kill, self.pause, self.past)
        self.workload = ALL[workload](self)
        self.programs, self.nodes = {}, []
        self.prepare(())
        self.supervising = False

    def open(self):
        for _ in range(self.workload.nodes):
            node = self.rig.node(self.workload.fleet, start=False, slots=self.workload.slots)
            self.nodes.append(node)
            self.workload.furnish(node)
            self.start_agent(node)
        credentials = self.proxy.kubeconfig(self.rig.controller_kubeconfig("controller"), "controller")
        # By the same name, as one StatefulSet's pod has it: its Lease needs no waiting for.
        self.start("controller", lambda: self.rig.controller(kubeconfig=credentials, identity="controller", wait=False))
        for node in self.nodes:
            node.wait_ready(60)

    def start(self, by, begin):
        """A program that harm may strike; begin() starts it and returns its Process."""
        self.programs[by] = Program(begin, self.is_supervising)

    def is_supervising(self):
        return self.supervising

    def by(self, node):
        return f"agent{self.nodes.index(node)}"

    def start_agent(self, node):
        by = self.by(node)
        credentials = self.proxy.kubeconfig(node.kubeconfig, by)

        def start():
            argv = node.argv(kubeconfig=credentials, **self.workload.flags(node), **self.agent_flags)
            node.agent = self.rig.processes(f"agent-{node.name}", *argv, env=node.env)
            return node.agent

        before, self.programs[by] = self.programs.get(by), Program(start, self.is_supervising)
        if before:
            before.close()

    def end_agent(self, node):
        self.programs[self.by(node)].stop()

    def add_again(self, node):
        """The Node is made again, as by a kubelet, and the agent's pod with it."""
        name = node.name
        self.rig.api.delete(f"/api/v1/namespaces/cleave-node/pods/agent-{name}", now=True)
        wait_for(lambda: self.rig.api.find(f"/api/v1/namespaces/cleave-node/pods/agent-{name}") is None, 30, "the agent's pod to go")
        self.rig.add_node_object(name)
        node.kubeconfig = self.rig.agent_kubeconfig(node)
        self.start_agent(node)

    def kill(self, by):
        self.programs[by].crash()

    def pause(self, by, seconds):
        process = self.programs[by].process
        process.signal(signal.SIGSTOP)
        threading.Timer(seconds, lambda: process.signal(signal.SIGCONT)).start()

    # --- a run ---

    def run(self, harms=(), quiet_s=QUIET_S):
        """Does the workload with these harms and returns the Outcome; quiet_s: for so long nobody may write at the end."""
        calls = [h for h in harms if isinstance(h, CallHarm)]
        requests = [h for h in harms if h not in calls]
        self.prepare(calls)
        self.supervising = True
        if self.workload.ordered and not harms:
            self.lag = (0.0, 0.0)
        self.open()
        self.workload.before()
        mark, self.marked = self.cluster.audit_mark(), time.time()
        self.offered = {node.name: node.node_object()["status"]["allocatable"] for node in self.nodes}
        self.past.prepare(requests)
        self.order(requests, calls)
        self.workload.act()
        self.calm_since = time.time() + self.hang_s
        wait_for(lambda: self.workload.done() and not self.proxy.reads, self.patience, lambda: f"the end of {type(self.workload).__name__}:\n{self.standing()}")
        self.done_ns = time.monotonic_ns()
        returns = any(h.do in ("travel", "reconnect") for h in requests)
        left = self.quiet(mark, max(quiet_s, RETURN_S) if returns else quiet_s, calls)
        if left:
            raise NotReached(left)
        if not self.workload.done():
            raise AssertionError(f"what was reached was left again: {self.standing()}")
        return oracle.Outcome(self, mark)

    def prepare(self, calls):
        """What is otherwise with these calls that go wrong: flags and patience where one hangs, and what is a lie."""
        self.agent_flags = library.flags(calls)
        self.hang_s = sum(h.hang_s for h in calls)
        self.deadline_s = self.agent_flags.get("call_deadline_ms", library.DEADLINE_MS) / 1000
        self.patience = self.DONE_S + self.hang_s
        self.lag = (RETRY_LAG_S, RETRY_LAG_S) if calls else (0.0, LAG_S)
        self.cards_answer = not any(library.is_blinding(h) for h in calls)

    def order(self, requests, calls):
        self.proxy.order(*requests)
        self.sequences = [library.log_of(node)[-1]["sequence"] for node in self.nodes]
        for harm in calls:
            harm.order(self.nodes[harm.node])

    def left(self, calls):
        """The harms that have not struck yet."""
        return [*self.proxy.pending(), *(h for h in calls if not h.struck(self.nodes[h.node]))]

    def quiet(self, mark, quiet_s, calls=()):
        """Waits until quiet_s have passed in which nothing happened, and returns the harms that have not struck. A program of ours
        that writes, waits for an answer or a call, or reads the past is something that happened; so is a harm that strikes, for it
        is still to be healed."""
        end = time.monotonic() + self.patience
        read_to, since = mark, time.monotonic()
        self.watched = (time.time(), time.time() + quiet_s)
        left = self.left(calls)
        while True:
            read_from, read_to = read_to, self.cluster.audit_mark()
            wrote = self.rig.writes(read_from, until=read_to)
            hanging = any(h.hangs(self.nodes[h.node]) for h in calls)
            before, left = left, self.left(calls)
            if wrote or self.proxy.silent or self.proxy.reads or hanging or left != before:
                since = time.monotonic()
                self.watched = (time.time(), time.time() + quiet_s)
            if time.monotonic() - since >= quiet_s:
                return left
            if time.monotonic() > end + quiet_s:
                raise AssertionError(f"L1: the writing never ends: {[oracle.what(e) for e in self.rig.writes(mark)[-10:]]}")
            time.sleep(0.1)

    def standing(self):
        lines = [f"{node.name}: {node.layouts()}, {json.dumps(node.status().get('conditions'))}" for node in self.nodes if self.rig.api.find(node.path)]
        if self.workload.profile:
            lines.append(json.dumps(self.rig.api.get(self.workload.profile).get("status")))
        return "\n".join(lines)

    def close(self):
        self.proxy.ended.set()
        self.supervising = False
        with contextlib.suppress(Exception):
            self.rig.end()
        for program in self.programs.values():
            program.close()
        self.proxy.end()
        self.past.close()
        self.workload.close()


def run(cluster, release, folder, workload, harms=(), quiet_s=QUIET_S):
    """One run in a world of its own."""
    world = World(cluster, release, folder, workload)
    try:
        return world.run(harms, quiet_s)
    finally:
        world.close()

