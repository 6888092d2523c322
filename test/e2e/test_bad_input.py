# SPDX-License-Identifier: Apache-2.0
"""Bytes that nobody should send, from all sides: a clear error, bounded memory, no crash, nothing lost."""

import contextlib
import json
import socket

import pytest
from conftest import Cluster, wait_for
from spoiler import SPOILED, Spoiler
from stack import GROUP, MERGE, Rig, condition, install, listening_ports, rig, serve  # noqa: F401

CONTROLLER_MIB, AGENT_MIB = 48, 32
MIB = 1 << 20


def peak_mib(process):
    """The most memory that it ever had."""
    for line in open(f"/proc/{process.pid}/status", encoding="ascii"):
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) / 1024
    raise AssertionError("no VmHWM")


def cut(profiles):
    return {"mode": "mig", "mig": {"profiles": profiles}}


# --- what objects can hold ---


def test_a_character_0_in_an_object_keeps_nobody_from_reading_the_others(rig):
    rig.controller()
    node = rig.node()
    rig.api.merge(f"/api/v1/nodes/{node.name}", {"metadata": {"annotations": {"who": "a\x00b"}}})
    assert rig.api.get(f"/api/v1/nodes/{node.name}")["metadata"]["annotations"]["who"] == "a\x00b"
    profile = rig.profile("p", cut({"3g.40gb": 2}))
    rig.wait_ready(profile)
    node.label(after="this")
    rig.profile("p", cut({"1g.10gb": 7}))
    rig.wait_ready(profile)
    # A controller that starts lists what the first one may only have watched.
    rig.controller("second")


# --- what the API server answers ---


@pytest.fixture
def spoiled(rig):
    """A controller and an agent behind a proxy that can spoil what they read."""
    proxy = Spoiler(rig.cluster)
    node = rig.node(start=False)
    node.kubeconfig = proxy.kubeconfig(node.kubeconfig)
    node.start()
    controller = rig.controller(kubeconfig=proxy.kubeconfig(rig.controller_kubeconfig("controller")))
    yield proxy, controller, node
    proxy.stop()


@pytest.mark.parametrize("how", SPOILED, ids=lambda how: how.__name__)
def test_an_api_server_that_answers_nonsense_is_survived_and_nothing_is_lost(rig, spoiled, how):
    proxy, controller, node = spoiled
    programs = {"cleave-controller": (controller, CONTROLLER_MIB), "cleave-agent": (node.agent, AGENT_MIB)}
    profile = rig.profile("p", cut({"1g.10gb": 7}))
    rig.wait_ready(profile)
    marks = {name: len(process.text()) for name, (process, _) in programs.items()}
    with proxy.spoils(how):
        # Made while nobody can read: it must not be lost.
        rig.profile("p", cut({"3g.40gb": 2}))
        for name in programs:
            wait_for(lambda n=name: proxy.spoiled[n] >= 3, 60, lambda n=name: f"{n} to ask: {proxy.spoiled}")
        for name, (process, _) in programs.items():
            assert process.running(), name
            assert serve(process, "/healthz")[0] == 200, name
            wait_for(lambda p=process, n=name: "level=warn" in p.text()[marks[n] :] or "level=error" in p.text()[marks[n] :], 30, lambda n=name: f"{n} to say so")
    for name, (process, bound) in programs.items():
        assert process.running(), name
        assert peak_mib(process) < bound, name
    rig.wait_ready(profile, 90)
    wait_for(lambda: node.layout() == {"3g.40gb": 2}, 30, lambda: f"the cards to follow: {node.layout()}")
    assert node.agent.stop() == 0
    assert controller.stop() == 0


# --- what is sent to the ports that we serve ---


def send(port, parts):
    """Sends until all is sent or the other end has had enough; what it answered."""
    with socket.create_connection(("127.0.0.1", port), 30) as s:
        with contextlib.suppress(OSError):
            for part in parts:
                s.sendall(part)
        with contextlib.suppress(OSError):
            return s.recv(4096)
    return b""


REQUESTS = {
    "a body": lambda: [b"POST /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: 104857600\r\n\r\n", *[b"a" * MIB] * 100],
    "a body of a GET": lambda: [b"GET /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: 104857600\r\n\r\n", *[b"a" * MIB] * 100],
    "a body in chunks": lambda: [b"POST /metrics HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n", *[b"100000\r\n" + b"a" * MIB + b"\r\n"] * 100],
    "a header": lambda: [b"GET /metrics HTTP/1.1\r\nHost: x\r\nX: ", *[b"a" * MIB] * 100, b"\r\n\r\n"],
    "headers": lambda: [b"GET /metrics HTTP/1.1\r\nHost: x\r\n", *[b"X-%d: " % i + b"a" * 65536 + b"\r\n" for i in range(1600)], b"\r\n"],
    "a path": lambda: [b"GET /", *[b"a" * MIB] * 100, b" HTTP/1.1\r\n\r\n"],
    "a query": lambda: [b"GET /metrics?", *[b"a=b&" * (MIB // 4)] * 100, b" HTTP/1.1\r\n\r\n"],
    "no line end": lambda: [b"\0\xff" * (MIB // 2)] * 100,
}


def test_100_mib_sent_to_a_port_take_no_memory_and_no_service(rig):
    node = rig.node()
    programs = {"cleave-controller": (rig.controller(), CONTROLLER_MIB), "cleave-agent": (node.agent, AGENT_MIB)}
    for name, (process, bound) in programs.items():
        for port in listening_ports(process.pid):
            for what, parts in REQUESTS.items():
                answer = send(port, parts())
                assert answer == b"" or answer.startswith((b"HTTP/1.1 4", b"HTTP/1.1 200", b"HTTP/1.0 4")), (name, what, answer[:80])
                assert serve(process, "/metrics")[0] == 200, (name, what)
        assert peak_mib(process) < bound, name
        assert process.stop() == 0, name


# --- objects past their schema ---

OPEN = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


@pytest.fixture(scope="module")
def loose(rundir):
    """A control plane of its own whose API server checks nothing of our resources, as an old CRD would not."""
    control_plane = Cluster(rundir / "loose")
    control_plane.start()
    install(control_plane)
    patch = json.dumps([{"op": "replace", "path": "/spec/versions/0/schema/openAPIV3Schema", "value": OPEN}])
    for plural in ("devices", "gpuprofiles", "migconfigs"):
        control_plane.kubectl("patch", "crd", f"{plural}.gpu.cleave.dev", "--type=json", "-p", patch)
    probe = json.dumps({"apiVersion": "gpu.cleave.dev/v1alpha1", "kind": "GPUProfile", "metadata": {"name": "probe"}, "spec": 7})
    wait_for(lambda: control_plane.kubectl("create", "--dry-run=server", "--validate=false", "-f", "-", input=probe), 60, "the schemas to be gone")
    yield control_plane
    control_plane.stop(purge=True)


@pytest.fixture
def open_rig(loose, processes, release):
    built = Rig(loose, processes, release)
    yield built
    built.end()


DEEP = json.loads("[" * 40 + "]" * 40)
ALL = {"nodeSelector": {}}
PROFILES = [
    7,
    [],
    "text",
    {},
    {"nodeSelector": "pool=a", "devices": [{"mode": "native"}]},
    {"nodeSelector": {"matchLabels": {"a": 1}}, "devices": [{"mode": "native"}]},
    {**ALL, "devices": None},
    {**ALL, "devices": {"0": {"mode": "native"}}},
    {**ALL, "devices": [None]},
    {**ALL, "devices": [DEEP]},
    {**ALL, "devices": [{"mode": 5}]},
    {**ALL, "devices": [{"mode": "mig", "mig": {"profiles": {"1g.10gb": "many"}}}]},
    {**ALL, "devices": [{"mode": "mig", "mig": {"profiles": {"1g.10gb": 1e300}}}]},
    {**ALL, "devices": [{"mode": "mig", "mig": {"profiles": ["1g.10gb"]}}]},
    {**ALL, "devices": [{"mode": "mig", "mig": {"config": {"name": "x"}}}]},
    {**ALL, "devices": [{"mode": "native", "selector": {"indices": ["0"]}}]},
    {**ALL, "devices": [{"mode": "native", "selector": {"vendor": 7, "model": "a" * MIB}}]},
    {**ALL, "devices": [{"mode": "native"}], "priority": "high"},
    {**ALL, "devices": [{"mode": "native"}], "rollout": {"maxUnavailable": True}},
    {**ALL, "devices": [{"mode": "native"}], "rollout": {"maxUnavailable": "many"}},
    {**ALL, "devices": [{"mode": "native"}] * 5000},
]
CONFIGS = [
    7,
    {},
    {"devices": "all"},
    {"devices": [{"migEnabled": "yes"}]},
    {"devices": [{"migEnabled": True, "migDevices": {"1g.10gb": [1]}}]},
    {"devices": [{"migEnabled": True, "migDevices": {"1g.10gb": 1.5}}]},
    {"devices": [{"migEnabled": True, "migDevices": DEEP}]},
    {"devices": [{"migEnabled": True, "filter": "0x233010DE", "migDevices": {"1g.10gb": 1}}]},
    {"devices": [{"migEnabled": False}], "aliases": [7]},
]


def put(rig, plural, name, **fields):
    kind = {"gpuprofiles": "GPUProfile", "migconfigs": "MIGConfig", "devices": "Device"}[plural]
    path = f"{GROUP}/{plural}/{name}"
    rig.objects.append(path)
    rig.api.create(f"{GROUP}/{plural}", {"apiVersion": "gpu.cleave.dev/v1alpha1", "kind": kind, "metadata": {"name": name}, **fields})
    return path


def refused(rig, path):
    """The condition by which an object was told to be wrong."""
    found = condition(rig.api.get(path), "Accepted")
    return found if found.get("status") == "False" and found.get("message") else None


def test_specs_past_the_schema_are_told_and_the_others_go_on(open_rig):
    controller = open_rig.controller()
    node = open_rig.node()
    bad = [put(open_rig, "gpuprofiles", f"{open_rig.id}-p{i}", spec=spec) for i, spec in enumerate(PROFILES)]
    bad += [put(open_rig, "migconfigs", f"{open_rig.id}-c{i}", spec=spec) for i, spec in enumerate(CONFIGS)]
    good = open_rig.profile("good", cut({"3g.40gb": 2}), priority=5)
    for path in bad:
        wait_for(lambda p=path: refused(open_rig, p), 30, lambda p=path: f"{p} to be told: {json.dumps(open_rig.api.get(p).get('status'))[:1500]}")
    open_rig.wait_ready(good)
    assert node.layout() == {"3g.40gb": 2}
    assert peak_mib(controller) < CONTROLLER_MIB
    # Put right, it is taken like any other.
    healed = bad[0]
    open_rig.api.merge(healed, {"spec": {"nodeSelector": {"matchLabels": {"test": open_rig.id}}, "devices": [cut({"7g.80gb": 1})], "priority": 9}})
    open_rig.wait_ready(healed)
    assert node.layout() == {"7g.80gb": 1}
    assert controller.stop() == 0


@pytest.mark.parametrize("counts", [{"1g.10gb": -1}, {"1g.10gb": 2**32 + 1}, {"1g.10gb": 2**63 - 1, "2g.20gb": 2**63 - 1}, {"1g.10gb": -7, "7g.80gb": 1}], ids=str)
def test_a_number_past_the_schema_cuts_no_card(open_rig, counts):
    controller = open_rig.controller()
    node = open_rig.node()
    profile = open_rig.profile("p", cut(counts))
    wait_for(lambda: condition(open_rig.api.get(profile), "Ready").get("status") == "False" and condition(open_rig.api.get(profile), "Stalled"), 30, lambda: f"{open_rig.api.get(profile).get('status')}")
    assert node.layout() == "native" and node.changes() == []
    assert controller.stop() == 0


STATUSES = [
    7,
    [],
    {"devices": {"a": 1}},
    {"devices": [{"uuid": 5}]},
    {"devices": [None, {"uuid": "GPU-1", "partitions": "none"}]},
    {"devices": [{"uuid": "GPU-1", "index": -1, "memoryMiB": "80Gi", "conditions": 3}]},
    {"models": [{"name": "x", "migProfiles": [{"name": "1g.10gb", "size": 1e9, "starts": [-5, 9223372036854775807]}]}]},
    {"observedGeneration": "x", "conditions": {"Ready": True}},
    {"drivers": "570", "resources": [{"name": 1, "count": "seven"}]},
    {"devices": [{"uuid": "a" * MIB}]},
    {"devices": [DEEP]},
]


def test_statuses_past_the_schema_stop_nobody_else(open_rig):
    controller = open_rig.controller()
    hurt = []
    for i, status in enumerate(STATUSES):
        name = f"{open_rig.id}-bad{i}"
        open_rig.api.create("/api/v1/nodes", {"metadata": {"name": name, "labels": {"test": open_rig.id, "nvidia.com/mig.config": "all-1g.10gb"}}})
        open_rig.objects.append(f"/api/v1/nodes/{name}")
        path = put(open_rig, "devices", name)
        open_rig.api.request("PATCH", f"{path}/status", {"status": status}, MERGE)
        hurt.append(path)
    node = open_rig.node()
    node.label(**{"nvidia.com/mig.config": "all-3g.40gb"})
    wait_for(lambda: node.labels().get("nvidia.com/mig.config.state") == "success", 30, "the node that is well")
    assert node.layout() == {"3g.40gb": 2}
    for path in hurt:
        obj = open_rig.api.get(path)
        assert not obj.get("spec", {}).get("devices"), "nothing is asked of cards that nobody can read"
    assert controller.running() and peak_mib(controller) < CONTROLLER_MIB
    assert controller.stop() == 0


@pytest.mark.parametrize("status", STATUSES, ids=range(len(STATUSES)))
def test_an_agent_puts_its_status_right_whatever_was_there(open_rig, status):
    node = open_rig.node()
    node.want({"uuid": node.uuid(), **{"mode": "mig", "mig": {"profiles": [{"profile": "2g.20gb", "count": 3}]}}})
    right = node.wait_ready()["status"]
    open_rig.api.request("PATCH", f"{node.path}/status", {"status": status}, MERGE)

    def is_right():
        now = node.status()
        return isinstance(now, dict) and all(now.get(k) == right[k] for k in ("devices", "resources", "models"))

    wait_for(is_right, 30, lambda: f"the status to be right again: {str(node.status())[:800]}")
    node.wait_ready()
    assert node.agent.running() and node.layout() == {"2g.20gb": 3}
    assert peak_mib(node.agent) < AGENT_MIB


SPECS = [
    {"devices": 7},
    {"devices": [None]},
    {"devices": [{"uuid": 5, "mode": "native"}]},
    {"devices": [{"mode": "mig", "mig": {"profiles": "all"}}]},
    {"devices": DEEP},
    {"migStrategy": ["mixed"]},
    {"rollout": "evict"},
]


@pytest.mark.parametrize("spec", SPECS, ids=range(len(SPECS)))
def test_a_device_spec_past_the_schema_changes_no_card_and_heals(open_rig, spec):
    node = open_rig.node()
    good = {"uuid": node.uuid(), "mode": "mig", "mig": {"profiles": [{"profile": "2g.20gb", "count": 3}]}}
    node.want(good)
    node.wait_ready()
    changes = len(node.changes())
    open_rig.api.merge(node.path, {"spec": None})
    generation = open_rig.api.merge(node.path, {"spec": spec})["metadata"]["generation"]
    wait_for(lambda: node.status().get("observedGeneration") == generation and condition(node.status(), "Ready").get("status") == "False", 30, lambda: f"{node.status().get('conditions')}")
    told = condition(node.status(), "Ready")
    assert ".spec" in told["message"], told
    assert len(node.changes()) == changes and node.layout() == {"2g.20gb": 3}
    node.want(good)
    node.wait_ready()
    assert len(node.changes()) == changes and node.agent.running()
