# SPDX-License-Identifier: Apache-2.0
"""What holds a container to its share, on a stub of the kubelet: the files that the agent and a container have in common, the
libraries that the container gets in place of the driver's, and what is left of them when the pod, or the agent, is gone. The
libraries are stand-ins, but where a process of the container uses the card: that one is in the container's mounts, with the
limiter that was built, on the simulated driver."""

import contextlib
import dataclasses
import itertools
import json
import os
import random
import re
import socket
import struct
import sys
import uuid
from pathlib import Path

import pytest
from conftest import wait_for
from handover import hand_over, stand_by
from kubelet_stub import Refused, grpc, kubelet  # noqa: F401
from stack import rig  # noqa: F401
from test_fractional_stub import GPU, PODS_END_S, SEED, Shares, fractional

ROOT = Path(__file__).resolve().parents[2]
sys.path += [str(ROOT / "test" / folder) for folder in ("sim", "limiter")]
from container import BUILT, ENTER  # noqa: E402
from cuda import MIB, OUT_OF_MEMORY, Client  # noqa: E402

# limiter/region.h
TERMS = struct.Struct("=QIIIIII96x")
CARD = struct.Struct("=16sQQIIIIIIQI60x")
TERMS_MAGIC, USAGE_MAGIC, TERMS_BYTES, USAGE_BYTES = 0x31736D7265745643, 0x3165676173755643, 2176, 458880
LEVELS = ("none", "library", "mps", "driver")
HELLO = struct.pack("=IIIIII", 1, 1, 0, 0, 0, 0)
LIBRARIES = {"libcuda.so": "libcleave-cuda.so", "libnvidia-ml.so": "libcleave-nvml.so"}


@dataclasses.dataclass
class Limit:
    card: str
    mib: int
    percent: int
    memory: str
    compute: str
    low: bool = False
    capped: bool = False


def terms_of(folder):
    """What the container may have, card by card; asserts that the files are whole."""
    data = (folder / "terms").read_bytes()
    magic, version, size, n, _, _, _ = TERMS.unpack_from(data)
    assert (magic, version, size, len(data)) == (TERMS_MAGIC, 1, TERMS_BYTES, TERMS_BYTES)
    usage = folder / "usage"
    assert (usage.stat().st_size, usage.stat().st_mode & 0o777) == (USAGE_BYTES, 0o666)
    assert struct.unpack_from("=QII", usage.read_bytes()) == (USAGE_MAGIC, 1, USAGE_BYTES)
    assert (folder / "agent").is_socket()
    limits = []
    for i in range(n):
        card, memory, _, percent, priority, memory_level, compute_level, _, _, _, capped = CARD.unpack_from(data, TERMS.size + i * CARD.size)
        limits.append(Limit(f"GPU-{uuid.UUID(bytes=card)}", memory // MIB, percent, LEVELS[memory_level], LEVELS[compute_level], priority == 1, capped == 1))
    return limits


def says_hello(folder):
    """Whether a process of the container reaches the agent."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as s:
        held = os.open(folder, os.O_PATH)  # a socket's path is short
        try:
            s.connect(f"/proc/self/fd/{held}/agent")
            return s.send(HELLO) == len(HELLO)
        except (ConnectionRefusedError, FileNotFoundError):
            return False
        finally:
            os.close(held)


def image(folder, version):
    """The limiter as an agent's image has it."""
    folder.mkdir(exist_ok=True)
    for name in LIBRARIES.values():
        (folder / name).write_text(f"{name} {version}\n")
    return folder


class Limited(Shares):
    """A node whose agent has a limiter; agent: more flags of it."""

    def __init__(self, rig, kubelet, cards=1, missing=None, agent=None, **settings):
        root = rig.folder / f"limits-{uuid.uuid4().hex[:8]}"
        root.mkdir(parents=True)
        self.image, self.lib, self.folders = image(root / "image", 1), root / "lib", root / "shares"
        self.folders.mkdir()
        flags = {"limiter_folder": self.image, "library_folder": self.lib, "share_folder": self.folders, **(agent or {})}
        if missing:
            flags[missing] = root / "nowhere"
        super().__init__(rig, kubelet, cards, flags=flags, **settings)

    def folder(self, pod):
        """The container's, by the lowest of its slots."""
        lowest = min(self.names(pod), key=lambda name: int(name.split(".")[1]))
        return self.folders / lowest

    def mounts(self, pod, i=0):
        """{path in the container: (path on the host, writable)} of a share's CDI file."""
        name = self.names(pod)[i]
        file = self.host.cdi / f"{name}.gpu.cleave.dev-nvidia-slot.json"
        spec = json.loads(wait_for(lambda: file.exists() and file.read_text(), 30, "the share's CDI file"))
        return {m["containerPath"]: (m["hostPath"], "rw" in m["options"]) for m in spec["containerEdits"]["mounts"]}

    def written(self, name, container):
        """A pod of one container as it is written here, with one share."""
        name, path = f"{self.rig.id}-{name}", "/api/v1/namespaces/default/pods"
        self.rig.objects.append(f"{path}/{name}")
        spec = {"nodeName": self.node.name, "containers": [container], "terminationGracePeriodSeconds": 0}
        self.rig.scheduler.create(path, {"metadata": {"name": name}, "spec": spec})
        return self.kubelet.admit("default", name, {GPU: 1})

    def limits(self, pod):
        """Of a pod whose containers can start."""
        self.env(pod, len(self.names(pod)) - 1)
        return terms_of(self.folder(pod))

    @contextlib.contextmanager
    def process(self, pod):
        """Of the pod's container, with the context of its first card."""
        place = self.folders.parent / f"container-{uuid.uuid4().hex[:8]}"
        (place / "scratch").mkdir(parents=True)
        (place / "share").symlink_to(self.folder(pod))
        machine = type("Machine", (), {"env": {**os.environ, **self.node.env}})
        enter = ["unshare", "--mount", "sh", "-c", ENTER, "container", str(place), str(BUILT / "limiter"), str(BUILT / "sim")]
        client = Client(machine, *enter, LIBCUDA="libcuda.so.1")
        try:
            assert client.says("cu.init(0)") is None
            yield client
        finally:
            if client.process.poll() is None:
                client.kill()

    def versions(self):
        return sorted(p.name for p in self.lib.iterdir())

    def level(self, gpu=0):
        """None: the card gives no shares, as for a moment when its spec is written anew."""
        told = self.node.card(gpu).get("fractional")
        return told and (told["memory"], told["compute"])

    def is_empty(self):
        return self.records() == [] and not any(self.folders.iterdir()) and self.host.spec() == {}


@pytest.fixture
def node(rig, kubelet):
    return Limited(rig, kubelet)


def test_a_container_finds_its_limits_and_the_limiter_where_the_driver_was(node):
    pod = node.pod("a", gpumem=3000, gpucores=30)
    assert node.limits(pod) == [Limit(node.node.uuid(), 3000, 30, "library", "library")]
    mounts = node.mounts(pod)
    assert mounts["/run/cleave"] == (str(node.folder(pod)), False)
    assert mounts["/run/cleave/usage"] == (f"{node.folder(pod)}/usage", True)
    assert [path for path, (_, writable) in mounts.items() if writable] == ["/run/cleave/usage"]
    (version,) = node.versions()
    for library, ours in LIBRARIES.items():
        real, _ = mounts[f"/usr/lib/cleave/real/{library}.1"]
        assert re.search(rf"/{library}\.\d", real), real
        names = [path for path in mounts if re.fullmatch(rf"/usr/(?!lib/cleave).*/{re.escape(library)}[.\d]*", path)]
        assert {os.path.basename(name) for name in names} >= {os.path.basename(real), f"{library}.1"}, names
        assert {os.path.dirname(name) for name in names} >= {"/usr/local/nvidia/lib64"}, names
        assert {mounts[name][0] for name in names} == {f"{node.lib}/{version}/{ours}"}
        assert (node.lib / version / ours).read_text() == f"{ours} 1\n"
    wait_for(lambda: node.told(), 30, "the share to be told")
    assert node.level() == ("library", "library")
    assert says_hello(node.folder(pod))
    node.end(pod)
    wait_for(node.is_empty, PODS_END_S, "nothing to be left")


def test_a_process_of_the_container_has_what_its_pod_asked_for_and_no_more(node):
    pods = [node.pod(name, gpumem=3000) for name in ("a", "b")]
    for pod in pods:
        node.limits(pod)
    with node.process(pods[0]) as first, node.process(pods[0]) as second, node.process(pods[1]) as neighbour:
        assert first.says("cu('cuDeviceTotalMem_v2', c.c_size_t, 0)") == 3000 * MIB
        assert first.says(f"cu.alloc({2000 * MIB}) > 0")
        assert second.says(f"cu.alloc({2000 * MIB})") == -OUT_OF_MEMORY
        assert neighbour.says(f"cu.alloc({2000 * MIB}) > 0")
        node.node.agent.kill()
        assert second.says(f"cu.alloc({2000 * MIB})") == -OUT_OF_MEMORY, "what holds them needs no agent"
        node.host.start(**node.flags)
        wait_for(lambda: says_hello(node.folder(pods[0])), 30, "the next agent to listen")
        first.kill()
        assert second.says(f"cu.alloc({2000 * MIB}) > 0")


def test_no_other_user_of_the_host_reaches_a_containers_files(node):
    node.limits(node.pod("a", gpumem=3000))
    assert node.folders.stat().st_mode & 0o777 == 0o700


def test_a_container_does_not_fill_the_hosts_memory_by_its_usage(node):
    pod = node.pod("a", gpumem=3000)
    node.limits(pod)
    usage = node.folder(pod) / "usage"
    for _ in range(3):
        with usage.open("r+b") as f:
            f.seek(64 * MIB)
            f.write(b"x" * MIB)
        wait_for(lambda: usage.stat().st_size == USAGE_BYTES, 10, "what is too much to be cut")
    assert node.limits(pod)


def test_each_container_has_a_folder_of_its_own_and_one_for_all_its_cards(rig, kubelet):
    pair = Limited(rig, kubelet, cards=2)
    one, two = pair.pod("one", gpumem=1000), pair.pod("two", n=2, gpumem=2000)
    assert [limit.mib for limit in pair.limits(one)] == [1000]
    assert [(limit.card, limit.mib) for limit in pair.limits(two)] == [(pair.node.uuid(pair.card_of(two, i)), 2000) for i in range(2)]
    assert pair.folder(one) != pair.folder(two) and len(list(pair.folders.iterdir())) == 2
    assert pair.mounts(two, 0) == pair.mounts(two, 1)
    assert pair.mounts(two)["/run/cleave"] == (str(pair.folder(two)), False)


def test_a_pod_with_the_whole_card_has_the_drivers_own_libraries(node):
    pod = node.pod("whole")
    mounts = node.mounts(pod)
    assert not [path for path in mounts if path.startswith(("/run/cleave", "/usr/lib/cleave"))]
    assert not any(host.startswith(str(node.lib)) for host, _ in mounts.values())
    assert not any(node.folders.iterdir())
    wait_for(lambda: node.told(), 30, "the share to be told")
    assert node.level() == ("library", "library"), "nothing has to hold that container"


def test_a_profile_may_want_nothing_to_hold_its_containers(rig, kubelet):
    node = Limited(rig, kubelet, enforcement={"memory": "none", "compute": "none"})
    pod = node.pod("a", gpumem=3000)
    assert "/run/cleave" not in node.mounts(pod)
    assert not any(node.folders.iterdir())
    wait_for(lambda: node.told(), 30, "the share to be told")
    assert node.level() == ("none", "none")


def test_what_a_share_was_made_with_stays_as_long_as_its_pod(node):
    before = node.pod("before", gpumem=3000)
    node.limits(before)
    node.node.want(fractional(node.node.uuid(), enforcement={"memory": "none", "compute": "none"}))
    wait_for(lambda: node.level() == ("none", "none"), 30, "new shares to be without a limit")
    after = node.pod("after", gpumem=3000)
    assert "/run/cleave" not in node.mounts(after) and "/run/cleave" in node.mounts(before)
    node.node.want(fractional(node.node.uuid(), enforcement={"memory": "library"}))
    node.node.wait_ready()
    node.kubelet.wait_offers(**{GPU: 10})
    last = node.pod("last", gpumem=3000)
    assert [limit.memory for limit in node.limits(last)] == ["library"]
    assert node.level() == ("none", "none"), "as long as one runs without"
    node.end(after)
    wait_for(lambda: node.level() == ("library", "library"), PODS_END_S, "the weakest to be gone")


@pytest.mark.parametrize("lets", [False, True])
def test_a_container_does_without_where_the_profile_lets_it(rig, kubelet, lets):
    node = Limited(rig, kubelet, allowDisable=lets)
    limits = {GPU: "1", "nvidia.com/gpumem": "3000"}
    pod = node.written("free", {"name": "main", "image": "none", "resources": {"limits": limits}, "env": [{"name": "CUDA_DISABLE_CONTROL", "value": "true"}]})
    assert ("/run/cleave" in node.mounts(pod)) != lets


@pytest.mark.parametrize(("words", "env", "low", "capped"), [
    ({"nvidia.com/gpucores": "30"}, None, False, False),
    ({"nvidia.com/gpucores": "30", "nvidia.com/priority": "0"}, "default", False, False),
    ({"nvidia.com/gpucores": "30", "nvidia.com/priority": "1"}, "force", True, True),
    ({"nvidia.com/priority": "1"}, "force", True, False),
])  # fmt: skip
def test_hamis_words_of_compute_are_in_the_terms(node, words, env, low, capped):
    """Priority, and the wish to have no more than one's part; without a part there is nothing to keep to."""
    limits = {GPU: "1", "nvidia.com/gpumem": "3000", **words}
    variables = [{"name": "GPU_CORE_UTILIZATION_POLICY", "value": env}] if env else []
    pod = node.written("a", {"name": "main", "image": "none", "resources": {"limits": limits}, "env": variables})
    [limit] = node.limits(pod)
    assert (limit.low, limit.capped) == (low, capped)


@pytest.mark.parametrize("missing", ["limiter_folder", "share_folder"])
def test_a_limit_that_the_node_does_not_have_is_refused(rig, kubelet, missing):
    node = Limited(rig, kubelet, missing=missing)
    wait_for(lambda: node.node.card().get("fractional", {}).get("memory") == "none", 20, "the status of the shares")
    node.node.want(fractional(node.node.uuid(), enforcement={"memory": "library"}))
    said = node.node.wait_applied("EnforcementUnavailable")["message"]
    assert "the limiter is not installed on this node" in said, said
    kubelet.wait_offers(**{GPU: 1})  # itself, and no part
    assert "fractional" not in node.node.card()


# --- agents that end, and others that come ---


def test_containers_keep_their_files_over_the_agents_end_and_reach_the_next_one(node):
    pods = [node.pod(f"p{i}", gpumem=20000) for i in range(3)]
    limits = [node.limits(p) for p in pods]
    files = [node.folder(p) / name for p in pods for name in ("", "terms", "usage")]
    inodes = [f.stat().st_ino for f in files]
    node.node.agent.kill()
    assert not any(says_hello(node.folder(p)) for p in pods)
    node.host.start(**node.flags)
    for p in pods:
        wait_for(lambda p=p: says_hello(node.folder(p)), 30, "the next agent to listen")
    node.kubelet.wait_offers(**{GPU: 10})
    assert [f.stat().st_ino for f in files] == inodes
    assert [node.limits(p) for p in pods] == limits
    for p in pods:
        node.end(p)
    wait_for(node.is_empty, PODS_END_S, "nothing to be left")


def test_an_agent_that_stands_by_takes_the_sockets_only_with_the_node(node):
    pod = node.pod("a", gpumem=3000)
    node.limits(pod)
    sock = node.folder(pod) / "agent"
    before = sock.stat().st_ino
    old = node.node.agent
    new = stand_by(lambda: node.host.start(name="next", **node.flags).node.agent)
    assert sock.stat().st_ino == before
    hand_over(old, new)
    wait_for(lambda: sock.stat().st_ino != before and says_hello(node.folder(pod)), 30, "the new agent to listen")


def test_a_new_version_is_for_containers_that_start_and_the_old_one_goes_with_its_last_pod(node):
    a, b = node.pod("a", gpumem=3000), node.pod("b", gpumem=3000)
    node.limits(a)
    node.limits(b)
    (old,) = node.versions()
    node.node.agent.kill()
    image(node.image, 2)
    node.host.start(**node.flags)
    wait_for(lambda: all(old not in host for p in (a, b) for host, _ in node.mounts(p).values()), 60, "the CDI files to name the new version")
    new = [v for v in node.versions() if v != old]
    assert len(new) == 1 and (node.lib / new[0] / "libcleave-cuda.so").read_text() == "libcleave-cuda.so 2\n"
    node.end(a)
    wait_for(lambda: node.versions() == new, PODS_END_S, "the old version to go")
    assert node.limits(b)


def test_without_the_limiter_nothing_is_started_that_had_a_limit_and_its_end_leaves_nothing(node):
    pod = node.pod("a", gpumem=3000)
    node.limits(pod)
    mounts = node.mounts(pod)
    node.node.agent.kill()
    node.flags["limiter_folder"] = node.image / "nowhere"
    node.host.start(**node.flags)
    said = wait_for(lambda: node.trouble(pod), 60, "an Event")
    assert "the limiter is not installed on this node" in said, said
    assert node.mounts(pod) == mounts and all(os.path.exists(host) for host, _ in mounts.values())
    node.end(pod)
    wait_for(node.is_empty, PODS_END_S, "nothing to be left")


def assert_limited(node, pods):
    """Whoever can start by now is limited to what its record says."""
    for pod in pods:
        edits = node.host.spec()
        names = node.names(pod)
        if not all(name in edits for name in names):
            continue
        try:
            record = json.loads((node.node.folder / "state" / "slots" / f"{names[0]}.json").read_text())
            limits = terms_of(node.folder(pod))
        except FileNotFoundError:
            # It was another pod's, and is being made anew.
            assert not all(name in node.host.spec() for name in names)
            continue
        if record["pod"] == pod.name:
            assert [(limit.card, limit.mib) for limit in limits] == [(record["card"], record["memoryMiB"])]


def test_no_container_starts_without_its_limits_whatever_is_killed(rig, kubelet):
    pair = Limited(rig, kubelet, cards=2)
    rng, numbers, pods = random.Random(SEED), itertools.count(), []
    for _ in range(2000 if os.environ.get("CLEAVE_TORTURE") else 30):
        chance = rng.random()
        if chance < 0.5 and len(pods) < 8:
            try:
                pods.append(pair.pod(f"p{next(numbers)}", gpumem=rng.choice([1000, 9000])))
            except (Refused, grpc.RpcError):
                pass  # the agent is away, or the slot's last share is not gone yet
        elif chance < 0.75 and pods:
            pair.end(pods.pop(rng.randrange(len(pods))))
        else:
            pair.node.agent.kill()
            pair.host.start(**pair.flags)
            wait_for(lambda: kubelet.plugin(GPU).is_reachable(), 30, "the new agent to register")
        assert_limited(pair, pods)
    for pod in pods:
        assert [limit.memory for limit in pair.limits(pod)] == ["library"]
        pair.end(pod)
    wait_for(pair.is_empty, PODS_END_S, lambda: f"nothing to be left, not {list(pair.folders.iterdir())}")
