# SPDX-License-Identifier: Apache-2.0
"""What the agent sees of limited shares from outside, on a stub of the kubelet: it compares what NVML reports of a container's
processes with the container's share, and believes nothing else. The processes are real, and do nothing; the simulator says that
they are on a card, and a made /proc in which container. The limiter is played by the tests, which write what it would."""

import contextlib
import os
import signal
import stat
import struct
import subprocess
import sys
import uuid

import pytest
from conftest import NotYet, wait_for
from kubelet_stub import kubelet  # noqa: F401
from stack import rig, serve  # noqa: F401
from test_fractional_stub import GPU, PODS, fractional
from test_limiter_stub import BUILT, CARD, ENTER, MIB, ROOT, TERMS, USAGE_BYTES, USAGE_MAGIC, Client, Limited

# limiter/region.h
PROCESSES, CARDS = 1024, 16
PROCESS_AT, PROCESS_BYTES = 128, 64
TAKEN_AT = PROCESS_AT + PROCESSES * PROCESS_BYTES
BY_CONTEXTS_AT = TAKEN_AT + CARDS * PROCESSES * 8
CONTEXTS_AT = BY_CONTEXTS_AT + CARDS * PROCESSES * 8
REACH_AT = 20

CUDA = str(ROOT / "test/sim/cuda.py")
CONTEXT_MIB = 448  # of a context on the simulated card (test/sim/cuda.py)

OVER, UNLIMITED, ENDED = "ShareOverLimit", "ShareUnlimited", "ShareProcessEnded"


def where_it_lies(folder):
    """The file system of a folder and its path there, as mountinfo has them."""
    best = ("", "", "")
    with open("/proc/self/mountinfo", encoding="utf-8") as f:
        for line in f:
            _, _, device, root, point, *_ = line.split(" ")
            if (os.path.realpath(folder) + "/").startswith(point.rstrip("/") + "/") and len(point) >= len(best[2]):
                best = (device, root, point)
    device, root, point = best
    return device, (root.rstrip("/") + "/" + os.path.relpath(os.path.realpath(folder), point)).rstrip("/")


def metric(text, name, **labels):
    """The value of the only series with these labels; None: there is none."""
    found = [
        int(value)
        for key, _, value in (line.rpartition(" ") for line in text.splitlines() if line.startswith(name))
        if key.partition("{")[0] == name and all(f'{k}="{v}"' in key for k, v in labels.items())
    ]
    assert len(found) < 2, found
    return found[0] if found else None


class Process:
    """A process of a container."""

    def __init__(self, container, pid, name):
        self.container, self.name = container, name
        self.child = subprocess.Popen(["sleep", "1000"]) if pid is None else None
        self.pid = self.child.pid if self.child else pid
        self.started = 0
        self.own_pid = self.pid % 1000 + 1  # as in a PID namespace of its own

    @property
    def proc(self):
        return self.container.node.node.folder / "proc" / str(self.pid)

    def enter(self, mib, card):
        node = self.container.node.node
        node.attach(card, None, self.pid, "--mem", mib, "--name", self.name, "--pod-uid", self.container.uid, "--container", self.container.id)
        self.proc.mkdir(exist_ok=True)
        self.started = int(open(f"/proc/{self.pid}/stat", encoding="ascii").read().rsplit(")", 1)[1].split()[19]) if self.child else 77
        self.write("stat", f"{self.pid} ({self.name}) S {' '.join(['1'] * 18)} {self.started} 0 0\n")
        self.write("status", f"Name:\t{self.name}\nNSpid:\t{self.pid}\t{self.own_pid}\n")
        device, path = where_it_lies(self.container.folder)
        self.write("mountinfo", f"90 89 0:60 / / rw - overlay overlay rw\n91 90 {device} {path} /run/cleave ro - tmpfs tmpfs rw\n")
        return self

    def write(self, name, text):
        (self.proc / name).write_text(text)

    def leave(self):
        for name in ("stat", "status", "mountinfo"):
            (self.proc / name).unlink(missing_ok=True)
        self.container.node.node.detach(self.pid)

    def is_alive(self):
        return self.child.poll() is None

    def end(self):
        """Returns how it ended."""
        if self.child:
            self.child.terminate()
            return self.child.wait(30)
        return None


class Container:
    """The container of a pod with shares, whose usage the limiter writes: the tests do."""

    def __init__(self, node, pod):
        self.node, self.pod = node, pod
        self.id = uuid.uuid4().hex * 2
        self.uid = node.node.api.get(f"{PODS}/{pod.name}")["metadata"]["uid"]
        node.limits(pod)
        self.folder = node.folder(pod)
        self.usage = self.folder / "usage"
        self.reach = 0

    def process(self, mib, limited=True, own_mib=None, card=0, pid=None, name="python3"):
        """One on a card. limited: the limiter is in it, and has counted own_mib, or all but nothing for its context."""
        p = Process(self, pid, name)
        self.node.processes.append(p)
        p.enter(mib, card)
        if limited:
            self.count(p, (mib if own_mib is None else own_mib) * MIB)
        return p

    def count(self, process, taken, by_contexts=0, contexts=0, card=0):
        """What the limiter in the process writes."""
        slot, self.reach = self.reach, self.reach + 1
        with open(self.usage, "r+b") as f:
            f.seek(PROCESS_AT + slot * PROCESS_BYTES)
            f.write(struct.pack("=IIQ", process.own_pid, 4026531836, process.started))
            for table, value in ((TAKEN_AT, taken), (BY_CONTEXTS_AT, by_contexts), (CONTEXTS_AT, contexts)):
                f.seek(table + (card * PROCESSES + slot) * 8)
                f.write(struct.pack("=Q", value))
            f.seek(REACH_AT)
            f.write(struct.pack("=I", self.reach))

    @contextlib.contextmanager
    def worker(self, libcuda="libcuda.so.1"):
        """A real process in the container's mounts, with a context of its first card; by this library."""
        place = self.node.folders.parent / f"worker-{uuid.uuid4().hex[:8]}"
        (place / "scratch").mkdir(parents=True)
        (place / "share").symlink_to(self.folder)
        machine = type("Machine", (), {"env": {**os.environ, **self.node.node.env}})
        client = Client(machine, "unshare", "--mount", "sh", "-c", ENTER, "container", str(place), str(BUILT / "limiter"), str(BUILT / "sim"), LIBCUDA=libcuda)
        pid = client.process.pid
        proc = self.node.node.folder / "proc" / str(pid)
        proc.mkdir(parents=True)
        uid = self.uid.replace("-", "_")
        path = f"kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{uid}.slice/cri-containerd-{self.id}.scope"
        (proc / "cgroup").write_text(f"0::/{path}\n")
        for name in ("comm", "stat", "status", "mountinfo"):
            (proc / name).symlink_to(f"/proc/{pid}/{name}")
        try:
            assert client.says("cu.init(0)") is None
            yield client
        finally:
            if client.process.poll() is None:
                client.kill()

    def context_mib(self, card=0):
        """What the terms say that a context takes."""
        data = (self.folder / "terms").read_bytes()
        return CARD.unpack_from(data, TERMS.size + card * CARD.size)[2] // MIB


class Watched(Limited):
    def __init__(self, rig, kubelet, cards=1, **settings):
        super().__init__(rig, kubelet, cards, **settings)
        self.processes = []

    def container(self, name, **limits):
        return Container(self, self.pod(name, **limits))

    def notes(self, reason, container=None):
        """What the Events of this reason say; about this container."""
        notes = [e["note"] for e in self.rig.events(self.node.name, reason)]
        return [n for n in notes if container is None or f"/{container.pod.name}, container main" in n]

    def note(self, reason, container, timeout=30):
        """The first of them, once there is one."""
        return wait_for(lambda: self.notes(reason, container), timeout, f"an Event {reason}")[0]

    def breach(self, container, card=0):
        """The reason that the Device's status has; None: none."""
        for p in self.node.card(card).get("partitions", []):
            if p["slice"]["alias"] == container.folder.name:
                return p.get("breach", {}).get("reason")
        raise NotYet("the share is not told")

    def measured(self, name, container):
        """A metric of the container's share."""
        return metric(serve(self.node.agent, "/metrics")[1], name, pod=container.pod.name)

    def wait_breach(self, container, reason):
        wait_for(lambda: self.breach(container) == reason, 30, lambda: f"the status to say {reason}, not {self.breach(container)}")

    def settle(self):
        """Time for two verdicts, and to end what exceeds."""
        self.node.wait_reads(8)


@pytest.fixture
def watched(rig, kubelet):
    """Nodes of watched shares: watched(cards=2, onExceed="kill")."""
    nodes = []

    def make(**settings):
        nodes.append(Watched(rig, kubelet, **settings))
        return nodes[-1]

    yield make
    for p in (p for n in nodes for p in n.processes):
        p.end()


def test_who_keeps_to_the_share_is_not_told_of(watched):
    node = watched()
    a, b = node.container("a", gpumem=3000), node.container("b", gpumem=4000)
    a.process(1500)
    a.process(1400)
    b.process(4000)
    for container, mib in ((a, 2900), (b, 4000)):
        wait_for(lambda c=container, n=mib: node.measured("cleave_agent_share_used_bytes", c) == n * MIB, 30, "the use to be measured")
    assert node.measured("cleave_agent_share_limit_bytes", a) == 3000 * MIB
    node.settle()
    assert [node.notes(reason) for reason in (OVER, UNLIMITED, ENDED)] == [[], [], []]
    assert node.breach(a) is None and node.breach(b) is None


def test_who_uses_more_is_told_of_once_with_the_numbers_and_no_more_when_it_is_less(watched):
    node = watched()
    a, b = node.container("a", gpumem=3000), node.container("b", gpumem=3000)
    a.process(1500, name="server")
    big = a.process(2000, name="trainer")
    b.process(1000)
    said = node.note(OVER, a)
    assert f"pod default/{a.pod.name}, container main, on NVIDIA GPU 0: uses 3500 MiB of the card, and its share has 3000 MiB" in said
    assert f"most has trainer ({big.pid} on the host) with 2000 MiB" in said
    node.wait_breach(a, OVER)
    (told,) = [p["breach"]["message"] for p in node.node.card()["partitions"] if "breach" in p]
    assert "uses 3500 MiB" in told
    wait_for(lambda: node.measured("cleave_agent_share_breach", a) == 1, 30, "the metric")
    assert node.measured("cleave_agent_share_breach", b) is None
    node.settle()
    assert len(node.notes(OVER)) == 1 and big.is_alive(), "it is reported, and nothing else"
    big.leave()
    node.wait_breach(a, None)
    wait_for(lambda: node.measured("cleave_agent_share_breach", a) is None, 30, "the metric to go")
    assert node.measured("cleave_agent_share_used_bytes", a) == 1500 * MIB


def test_the_pod_is_told_as_well(watched, rig):  # noqa: F811
    node = watched()
    a, b = node.container("a", gpumem=3000), node.container("b", gpumem=3000)
    rig.controller()  # which takes the card back, as no profile asks for shares; those that pods have stay
    a.process(3500)
    b.process(700, limited=False, name="bundled")

    def told(container, reason):
        return [e for e in rig.api.get("/apis/events.k8s.io/v1/events")["items"] if e["regarding"].get("uid") == container.uid and e["reason"] == reason]

    (event,) = wait_for(lambda: told(a, OVER), 30, "an Event about the pod")
    assert event["regarding"]["kind"] == "Pod" and event["type"] == "Warning" and event["metadata"]["namespace"] == "default"
    assert f"container main, on node {node.node.name}: uses 3500 MiB of the card, and its share has 3000 MiB" in event["note"]
    (event,) = wait_for(lambda: told(b, UNLIMITED), 30, "an Event about the other pod")
    assert "bundled" in event["note"]
    node.settle()
    assert len(told(a, OVER)) == 1 and told(a, UNLIMITED) == told(b, OVER) == []


def test_what_exceeds_is_ended_and_only_that_where_the_profile_says_so(watched):
    node = watched(onExceed="kill")
    a, b = node.container("a", gpumem=3000), node.container("b", gpumem=3000)
    small, big = a.process(1400), a.process(2000, name="trainer")
    neighbour = b.process(2900)
    assert big.child.wait(30) == -signal.SIGKILL
    said = node.note(ENDED, a)
    assert f"process trainer ({big.pid} on the host) with 2000 MiB was ended: the container used 3400 MiB" in said
    big.leave()
    node.wait_breach(a, None)
    node.settle()
    assert small.is_alive() and neighbour.is_alive()
    assert len(node.notes(ENDED)) == 1
    text = serve(node.node.agent, "/metrics")[1]
    assert metric(text, "cleave_agent_share_processes_ended_total") == 1


def test_a_policy_that_comes_later_ends_what_exceeds_already(watched):
    node = watched()
    a = node.container("a", gpumem=3000)
    p = a.process(4000)
    node.wait_breach(a, OVER)
    assert p.is_alive()
    node.node.want(fractional(node.node.uuid(), onExceed="kill"))
    assert p.child.wait(30) == -signal.SIGKILL


def test_a_process_belongs_to_a_container_by_its_control_group_and_the_folder_that_it_sees(watched):
    node = watched(onExceed="kill")
    a, b = node.container("a", gpumem=3000), node.container("b", gpumem=3000)
    shown, hidden, stranger = a.process(1000), a.process(4000), b.process(5000)
    hidden.write("mountinfo", "90 89 0:60 / / rw - overlay overlay rw\n")  # as after chroot: its container is known by the other one
    stranger.write("mountinfo", (shown.proc / "mountinfo").read_text())  # one pod's process that shows another's folder is nobody's
    assert hidden.child.wait(30) == -signal.SIGKILL
    node.settle()
    assert shown.is_alive() and stranger.is_alive()
    assert node.notes(ENDED, b) == []


def test_a_process_that_never_said_hello_is_told_of_by_its_name(watched):
    node = watched(onExceed="kill")
    a = node.container("a", gpumem=3000)
    a.process(1000)
    own = a.process(700, limited=False, name="bundled")
    said = node.note(UNLIMITED, a)
    assert f"1 process uses the card without the limiter, and nothing holds it to the share: bundled ({own.pid} on the host) with 700 MiB" in said
    node.wait_breach(a, UNLIMITED)
    node.settle()
    assert own.is_alive() and node.notes(OVER) == [], "it keeps to the share"
    assert len(node.notes(UNLIMITED)) == 1
    own.leave()
    node.wait_breach(a, None)


def test_of_those_that_exceed_together_the_one_without_the_limiter_is_ended(watched):
    node = watched(onExceed="kill")
    a = node.container("a", gpumem=3000)
    good = a.process(2800)
    own = a.process(900, limited=False, name="static")
    assert own.child.wait(30) == -signal.SIGKILL
    own.leave()
    node.settle()
    assert good.is_alive()


def test_what_contexts_take_is_measured_and_told_to_the_container(watched):
    node = watched()
    a = node.container("a", gpumem=3000)
    assert a.context_mib() == 0
    a.process(1500, own_mib=1000)
    a.process(1400, own_mib=1000)
    wait_for(lambda: node.measured("cleave_agent_share_context_bytes", a) == 450 * MIB, 30, "the measure")
    assert a.context_mib() == 450
    node.node.agent.kill()
    node.host.start(**node.flags)
    node.settle()
    assert a.context_mib() == 450
    assert node.notes(OVER) == []


def test_contexts_on_top_of_a_full_share_are_no_breach(watched):
    node = watched(onExceed="kill")
    a, b = node.container("a", gpumem=3000), node.container("b", gpumem=3000)
    both = [a.process(1500 + CONTEXT_MIB, own_mib=1500) for _ in range(2)]
    # As managed memory that is on the host until the measure is taken, and comes back when it says that a context takes little.
    b.process(100, own_mib=80)
    wait_for(lambda: b.context_mib() > 0 and a.context_mib() == CONTEXT_MIB, 30, "the measures")
    both.append(b.process(2900 + CONTEXT_MIB, own_mib=2800))
    node.settle()
    assert all(p.is_alive() for p in both)
    assert [node.notes(r) for r in (OVER, UNLIMITED, ENDED)] == [[], [], []]


def test_a_program_that_is_replaced_and_one_that_forks_are_not_told_of(watched):
    node = watched(onExceed="kill")
    a = node.container("a", gpumem=3000)
    again = f"echo 1; exec {sys.executable} {CUDA}"
    with a.worker() as worker:
        child = worker.says("os.fork() or __import__('signal').pause()")
        assert worker.says(f"cu.alloc({500 * MIB}) > 0")
        node.settle()
        for mib in (300, 400):
            assert worker.says(f"os.execv('/bin/sh', ['sh', '-c', {again!r}])") == 1
            assert worker.says("cu.init(0)") is None
            assert worker.says(f"cu.alloc({mib * MIB}) > 0")
            node.settle()
            used = (mib + CONTEXT_MIB) * MIB
            wait_for(lambda n=used: node.measured("cleave_agent_share_used_bytes", a) == n, 30, "the new program's use")
        assert [node.notes(r) for r in (OVER, UNLIMITED, ENDED)] == [[], [], []]
        os.kill(child, signal.SIGKILL)


def test_real_processes_are_known_by_their_limiter_and_measured(watched):
    node = watched(onExceed="kill")
    a = node.container("a", gpumem=3000)
    with a.worker() as first, a.worker() as second:
        for worker in (first, second):
            assert worker.says(f"cu.alloc({500 * MIB}) > 0")
        wait_for(lambda: a.context_mib() == CONTEXT_MIB, 30, lambda: f"a context of {CONTEXT_MIB} MiB, not {a.context_mib()}")
        node.settle()
        assert a.context_mib() == CONTEXT_MIB, "also when the limiter counts it"
        assert node.measured("cleave_agent_share_used_bytes", a) == 2 * (500 + CONTEXT_MIB) * MIB
        assert [node.notes(r) for r in (OVER, UNLIMITED)] == [[], []]
        with a.worker("/usr/lib/cleave/real/libcuda.so.1") as own:
            assert own.says(f"cu.alloc({100 * MIB}) > 0")
            said = node.note(UNLIMITED, a)
            assert f"({own.process.pid} on the host)" in said, said
            assert own.says(f"cu.alloc({4000 * MIB}) > 0")
            assert own.process.wait(30) == -signal.SIGKILL
        node.wait_breach(a, None)
        assert first.process.poll() is None and second.process.poll() is None


def lies(container):
    """Everything that a container can do to its usage; each is a function that does it."""
    data = container.usage.read_bytes()

    def replaced(make):
        def do():
            with contextlib.suppress(FileNotFoundError):
                container.usage.unlink()
            make()

        return do

    def scribbled():
        container.usage.write_bytes(os.urandom(USAGE_BYTES))

    def huge():
        container.usage.write_bytes(struct.pack("=QIIII", USAGE_MAGIC, 1, USAGE_BYTES, 0xFFFFFFFF, 0xFFFFFFFF) + b"\xff" * (USAGE_BYTES - 24))

    return {
        "nothing taken": lambda: container.usage.write_bytes(data[:TAKEN_AT] + bytes(USAGE_BYTES - TAKEN_AT)),
        "huge numbers": huge,
        "scribbled": scribbled,
        "cut": lambda: os.truncate(container.usage, 100),
        "empty": lambda: os.truncate(container.usage, 0),
        "gone": replaced(lambda: None),
        "a FIFO": replaced(lambda: os.mkfifo(container.usage)),
        "a link": replaced(lambda: container.usage.symlink_to("/dev/zero")),
        "a device": replaced(lambda: os.mknod(container.usage, stat.S_IFCHR | 0o666, os.makedev(1, 5))),
        "a folder": replaced(lambda: container.usage.mkdir()),
    }


def test_no_lie_in_usage_hides_what_nvml_shows_or_harms_the_agent(watched):
    node = watched()
    good = node.container("good", gpumem=3000)
    good.process(2000)
    names = list(lies(good))
    agent = node.node.agent
    for name in names:
        a = node.container(f"a{names.index(name)}", gpumem=1000)
        p = a.process(2500, own_mib=0)
        lies(a)[name]()
        node.note(OVER, a)
        p.leave()
        node.end(a.pod)
    assert node.node.agent is agent and agent.running()
    assert node.breach(good) is None and node.notes(OVER, good) == []


def test_a_process_of_a_container_without_a_share_is_nobodys(watched):
    node = watched(onExceed="kill")
    a = node.container("a", gpumem=3000)
    a.process(1000)
    sidecar = a.process(5000, limited=False)
    # The same pod, another container, which does not have the folder; and a process of no pod.
    sidecar.write("mountinfo", "90 89 0:60 / / rw - overlay overlay rw\n")
    cgroup = (sidecar.proc / "cgroup").read_text()
    sidecar.write("cgroup", cgroup.replace(a.id, uuid.uuid4().hex * 2))
    node.node.attach(0, None, 4242, "--mem", 5000)
    node.settle()
    wait_for(lambda: node.measured("cleave_agent_share_used_bytes", a) == 1000 * MIB, 30, "the container's own use alone")
    assert sidecar.is_alive() and [node.notes(r) for r in (OVER, UNLIMITED, ENDED)] == [[], [], []]


def test_each_card_of_a_container_has_a_limit_of_its_own(watched):
    node = watched(cards=2)
    a = node.container("a", n=2, gpumem=3000)
    second = node.card_of(a.pod, 1)
    p = a.process(4000, limited=False, card=second)
    a.count(p, 4000 * MIB, card=1)
    said = node.note(OVER, a)
    assert f"on NVIDIA GPU {second}: uses 4000 MiB" in said
    assert len(node.notes(OVER)) == 1 and node.notes(UNLIMITED) == []


def test_a_share_without_a_limit_is_not_watched(watched):
    node = watched(enforcement={"memory": "none"})
    pod = node.pod("a", gpumem=3000)
    node.env(pod)
    uid = node.node.api.get(f"{PODS}/{pod.name}")["metadata"]["uid"]
    node.node.attach(0, None, 4242, "--mem", 9000, "--pod-uid", uid, "--container", "0" * 64)
    node.settle()
    assert [node.notes(r) for r in (OVER, UNLIMITED)] == [[], []]


def test_a_policy_is_refused_where_nothing_is_measured(watched):
    node = watched()
    node.node.want(fractional(node.node.uuid(), enforcement={"memory": "none"}, onExceed="kill"))
    said = node.node.wait_applied("EnforcementUnavailable")["message"]
    assert "only shares with a limit are measured" in said, said
    node.kubelet.wait_offers(**{GPU: 1})
