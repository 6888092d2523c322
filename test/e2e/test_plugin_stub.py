# SPDX-License-Identifier: Apache-2.0
"""The device plugin of the agent on a stub of the kubelet: what changes, what it survives, and what
nobody should send it. The same on a real kubelet is in test_plugin_real.py."""

import ctypes
import json
import os
import random
import re
import shutil
import signal
import socket
import struct

import pytest
from conftest import wait_for
from kubelet_stub import CHECKPOINT, Refused, grpc, kubelet, leave_socket, pr  # noqa: F401
from namespaces import LIBC, Where
from stack import condition, mig, native, rig, serve  # noqa: F401

GPU = "nvidia.com/gpu"
SMALL = "nvidia.com/mig-1g.10gb"
HALF = "nvidia.com/mig-3g.40gb"
CDI_KIND = "gpu.cleave.dev/nvidia"
SEED = 20250711


def text_of(file):
    """None: it is gone."""
    try:
        return file.read_text()
    except FileNotFoundError:
        return None


class Host:
    """A node of simulated cards whose agent serves the stub."""

    def __init__(self, rig, kubelet, fleet, slots=False):
        self.kubelet = kubelet
        self.node = rig.node(fleet, start=False, slots=slots)
        self.driver = self.node.folder / "driver"
        self.cdi = self.node.folder / "cdi"
        self.node.ctl("driver-root", self.driver)
        self.node.ctl("dev-root", self.driver)

    def start(self, where=None, **flags):
        """Starts an agent. Where one has ended, nothing of what that one offered is offered any more."""
        self.kubelet.wait_no_dead()
        places = {f"{host}{what}_root": self.driver for host in ("", "host_") for what in ("driver", "dev")}
        self.node.where = where or Where()
        self.node.start(resources="kubelet", kubelet_dir=self.kubelet.folder, cdi_dir=self.cdi, **{**places, **flags})
        return self

    def cut(self, profiles, gpu=0):
        """Has a card cut and waits until it is."""
        self.node.want(mig(self.node.uuid(gpu), profiles))
        self.node.wait_layout(profiles, gpu)

    def ids(self, resource):
        return sorted(self.kubelet.devices(resource))

    def sockets(self):
        """The plugin's sockets."""
        return sorted(p for p in self.kubelet.plugins.iterdir() if p.is_socket() and p.name != "kubelet.sock")

    def endpoint(self, resource):
        return self.kubelet.plugins / self.kubelet.plugin(resource).endpoint

    def spec(self):
        """The devices of the CDI files, by name. A slot's file may go between the list and the look."""
        files = [json.loads(text) for text in map(text_of, self.cdi.glob("*.json")) if text]
        return {d["name"]: d["containerEdits"] for f in files for d in f["devices"]}


@pytest.fixture
def host(rig, kubelet):
    """One H100 that is served whole."""
    host = Host(rig, kubelet, {"h100-80": 1}).start()
    kubelet.wait_offers(**{GPU: 1})
    return host


@pytest.fixture
def halves(host):
    """One H100 with a 3g.40gb and three 1g.10gb."""
    host.cut({"3g.40gb": 1, "1g.10gb": 3})
    host.kubelet.wait_offers(**{HALF: 1, SMALL: 3})
    return host


# --- what is offered and given ---


def test_a_whole_card_is_offered_and_allocated_by_its_uuid(host):
    uuid = host.node.uuid()
    assert host.ids(GPU) == [uuid]
    (answer,) = host.kubelet.allocate(GPU, [uuid])
    assert [d.name for d in answer.cdi_devices] == [f"{CDI_KIND}={uuid}"]
    assert uuid in host.spec()


def test_a_partition_is_named_by_card_profile_and_place(halves):
    uuid = halves.node.uuid()
    starts = sorted(p[1] for p in halves.node.placements() if p[0] == "1g.10gb")
    assert halves.ids(SMALL) == [f"{uuid}/1g.10gb@{start}" for start in starts]
    (answer,) = halves.kubelet.allocate(SMALL, [f"{uuid}/1g.10gb@{starts[0]}"])
    (device,) = answer.cdi_devices
    nodes = halves.spec()[device.name.removeprefix(f"{CDI_KIND}=")]["deviceNodes"]
    assert len([n for n in nodes if "nvidia-cap" in n["path"]]) == 2


def test_a_runtime_that_does_cdi_gets_names_and_no_device_files(rig, kubelet):
    """The kubelet repeats an answer for as long as the pod lives, and a file of it may be another partition's by then."""
    host = Host(rig, kubelet, {"h100-80": 1})
    process, config = host.node.folder / "proc" / "4242", host.driver / "etc" / "containerd" / "config.toml"
    for folder in (process, config.parent):
        folder.mkdir(parents=True)
    (process / "comm").write_text("containerd\n")
    (process / "cmdline").write_bytes(b"containerd\0")
    config.write_text("version = 3\n")
    host.start()
    kubelet.wait_offers(**{GPU: 1})

    def answer():
        (said,) = kubelet.allocate(GPU, host.ids(GPU))
        assert [d.name for d in said.cdi_devices] == [f"{CDI_KIND}={host.node.uuid()}"]
        return [d.container_path for d in said.devices], dict(said.envs)

    wait_reason(host, "CDI")
    assert answer() == ([], {})
    shutil.rmtree(process)
    wait_reason(host, "RuntimeNotFound")
    assert answer() == ([], {}), "a runtime that is started again is taken for one without CDI"
    process.mkdir()
    (process / "comm").write_text("containerd\n")
    (process / "cmdline").write_bytes(b"containerd\0")
    config.write_text('version = 3\n[plugins."io.containerd.cri.v1.runtime"]\nenable_cdi = false\n')
    wait_reason(host, "DriverMounts")
    files, variables = answer()
    assert "/dev/nvidia0" in files and variables == {"NVIDIA_VISIBLE_DEVICES": host.node.uuid()}


def wait_reason(host, reason):
    wait_for(lambda: condition(host.node.status(), "ContainerRuntimeReady").get("reason") == reason, 30, f"ContainerRuntimeReady to be {reason}")


def test_a_change_of_layout_changes_the_lists_in_place(halves):
    kept = halves.kubelet.plugin(SMALL)
    halves.cut({"1g.10gb": 3, "2g.20gb": 1})
    halves.kubelet.wait_offers(**{SMALL: 3, "nvidia.com/mig-2g.20gb": 1})
    assert halves.kubelet.plugin(SMALL) is kept and kept.end_code is None


def test_a_partition_that_is_made_again_has_its_old_id(halves):
    before = halves.ids(HALF)
    halves.cut({"1g.10gb": 3})
    halves.kubelet.wait_offers(**{SMALL: 3})
    halves.cut({"3g.40gb": 1, "1g.10gb": 3})
    halves.kubelet.wait_offers(**{HALF: 1, SMALL: 3})
    assert halves.ids(HALF) == before


def test_every_container_of_one_request_gets_its_own_answer(halves):
    ids = halves.ids(SMALL)
    first, second = halves.kubelet.allocate(SMALL, ids[:1], ids[1:])
    assert len(first.cdi_devices) == 1 and len(second.cdi_devices) == 2


def test_a_preference_keeps_what_must_be_and_has_the_size_that_was_asked(halves):
    ids = halves.ids(SMALL)
    chosen = halves.kubelet.prefer(SMALL, ids, 2, must=ids[2:])
    assert len(chosen) == 2 and ids[2] in chosen and set(chosen) <= set(ids)


def test_a_held_partition_is_named_in_use_and_not_taken(halves):
    kubelet, node = halves.kubelet, halves.node
    pod = kubelet.admit("research", "train-0", {HALF: 1})
    standing = node.placements()
    wait_for(lambda: [u.get("name") for u in users(node)] == ["train-0"], 30, lambda: f"the pod to be told: {users(node)}")
    node.want(mig(node.uuid(), {"1g.10gb": 7}))
    told = node.wait_applied("InUse")
    assert "train-0" in told["message"] or "train-0" in str(node.card()["partitions"])
    assert node.placements() == standing
    holder = next(p["inUseBy"][0] for p in node.card()["partitions"] if p["profile"] == "3g.40gb")
    assert (holder["namespace"], holder["name"]) == ("research", "train-0")
    kubelet.end(pod)
    node.wait_layout({"1g.10gb": 7})
    kubelet.wait_offers(**{SMALL: 7})


def test_a_card_that_fell_off_the_bus_is_taken_back_and_offered_again(host):
    host.node.ctl("lost", "--gpu", 0, "set")
    host.kubelet.wait_offers()
    # An Xid tells first. Back before a reading finds it lost, the card would be ill for the time that Xids settle in.
    wait_for(lambda: "NVML error" in condition(host.node.card(0), "Healthy").get("message", ""), message="a reading to find the card lost")
    host.node.ctl("lost", "--gpu", 0, "clear")
    host.kubelet.wait_offers(**{GPU: 1})


# --- kubelets that come and go ---


def test_every_restart_of_the_kubelet_gets_all_resources_back(halves):
    rng = random.Random(SEED)
    for _ in range(20):
        halves.kubelet.restart(kill=rng.random() < 0.5)
        halves.kubelet.wait_offers(**{HALF: 1, SMALL: 3})


def test_a_kubelet_that_hangs_up_in_mid_stream_is_registered_with_again(halves):
    halves.kubelet.hang_up(SMALL)
    halves.kubelet.wait_offers(**{HALF: 1, SMALL: 3})


def test_a_kubelet_that_refuses_for_a_while_is_asked_until_it_does_not(host):
    refused = []

    def refuse(request):
        if len(refused) < 5:
            refused.append(request.resource_name)
            raise Refused("not now")

    host.kubelet.before_register = refuse
    host.kubelet.restart()
    host.kubelet.wait_offers(**{GPU: 1})
    assert len(refused) == 5


def test_a_kubelet_that_answers_nothing_holds_up_a_change_and_nothing_else(host):
    host.kubelet.stop()
    host.kubelet.gate.clear()
    host.kubelet.start()
    host.node.want(mig(host.node.uuid(), {"1g.10gb": 2}))
    host.node.wait_reads(4)
    assert host.node.layout() == "native"  # nobody can say that no pod holds the card
    assert serve(host.node.agent, "/healthz")[0] == 200
    host.kubelet.gate.set()
    host.kubelet.wait_offers(**{SMALL: 2})


def test_the_agent_may_start_before_there_is_a_kubelet(rig, kubelet):
    kubelet.stop()
    shutil.rmtree(kubelet.folder)
    host = Host(rig, kubelet, {"h100-80": 1}).start()
    wait_for(lambda: host.node.status().get("devices"), 30, "a status")
    kubelet.start()
    kubelet.wait_offers(**{GPU: 1})


def test_a_socket_that_nobody_listens_on_is_waited_out(host):
    host.kubelet.stop()
    leave_socket(host.kubelet.socket)
    host.node.wait_reads(3)
    host.kubelet.socket.unlink()
    host.kubelet.start()
    host.kubelet.wait_offers(**{GPU: 1})


def test_a_wiped_folder_is_filled_again(halves):
    halves.kubelet.stop()
    shutil.rmtree(halves.kubelet.plugins)
    halves.kubelet.start()
    halves.kubelet.wait_offers(**{HALF: 1, SMALL: 3})


def cpu_ticks(pid):
    with open(f"/proc/{pid}/stat", encoding="ascii") as stat:
        return sum(int(word) for word in stat.read().rsplit(")", 1)[1].split()[11:13])


def test_a_folder_that_is_moved_away_is_let_go(halves):
    halves.kubelet.stop()
    halves.kubelet.plugins.rename(halves.kubelet.folder / "old")
    halves.kubelet.start()
    halves.kubelet.wait_offers(**{HALF: 1, SMALL: 3})
    before = cpu_ticks(halves.node.agent.pid)
    halves.node.wait_reads(3)  # one a second
    assert cpu_ticks(halves.node.agent.pid) - before < 100, "it spins"


def test_sockets_that_vanish_under_a_running_kubelet_come_back(halves):
    for path in halves.sockets():
        path.unlink()
    halves.kubelet.hang_up(SMALL)
    halves.kubelet.wait_offers(**{HALF: 1, SMALL: 3})


# --- device files ---


def test_a_device_file_that_goes_missing_is_made_again(host):
    file = host.driver / "dev/nvidia0"
    number = file.stat().st_rdev
    file.unlink()
    wait_for(lambda: file.exists() and file.stat().st_rdev == number, 20, "the file to be made again")
    host.kubelet.wait_offers(**{GPU: 1})


def test_a_card_whose_device_file_cannot_be_made_is_withheld_and_named(host):
    file, link = host.driver / "dev/nvidia0", host.driver / "dev/link"
    link.symlink_to("/dev/null")
    link.replace(file)  # a link is left alone: it may lead into a container
    wait_for(lambda: host.kubelet.offers()[GPU] == (0, 1), 20, "the card to be withheld")
    wait_for(lambda: "/dev/nvidia0" in (condition(host.node.device(), "ResourcesPublished") or {}).get("message", ""), 20, "the file to be named")
    file.unlink()
    host.kubelet.wait_offers(**{GPU: 1})


# --- agents that come and go ---


@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGTERM])
def test_an_agent_that_is_started_again_offers_the_same(halves, end):
    pod = halves.kubelet.admit("default", "kept", {SMALL: 1})
    before = halves.ids(SMALL), halves.node.placements()
    halves.node.agent.signal(end)
    halves.node.agent.popen.wait(20)
    wait_for(lambda: not any(n for n, _ in halves.kubelet.offers().values()), 30, "the kubelet to see it go")
    halves.node.agent.start()
    halves.kubelet.wait_offers(**{HALF: 1, SMALL: 3})
    assert (halves.ids(SMALL), halves.node.placements()) == before
    halves.kubelet.readmit(pod)
    assert halves.kubelet.admit("default", "other", {SMALL: 1}).devices != pod.devices


def test_what_a_dead_agent_left_is_cleared_away(halves):
    halves.node.agent.kill()
    left = halves.sockets()
    assert left
    halves.node.agent.start()
    halves.kubelet.wait_offers(**{HALF: 1, SMALL: 3})
    wait_for(lambda: not set(left) & set(halves.sockets()), 30, "old sockets to go")


def test_both_end_and_come_back_and_nothing_is_given_twice(halves):
    pod = halves.kubelet.admit("default", "kept", {SMALL: 2})
    halves.node.agent.kill()
    halves.kubelet.restart()
    halves.node.agent.start()
    halves.kubelet.wait_offers(**{HALF: 1, SMALL: 3})
    other = halves.kubelet.admit("default", "other", {SMALL: 1})
    assert not set(other.devices[SMALL]) & set(pod.devices[SMALL])
    with pytest.raises(Refused, match="Requested: 1, Available: 0"):
        halves.kubelet.admit("default", "third", {SMALL: 1})


def start_without_api_server(host):
    """A reboot of the node, after which nobody listens where the API server was."""
    host.node.agent.kill()
    host.kubelet.restart()
    reachable = host.node.kubeconfig
    host.node.kubeconfig = reachable.with_name(f"away-{reachable.name}")
    host.node.kubeconfig.write_text(re.sub(r"https://[^\"\s]+", "https://127.0.0.1:1", reachable.read_text()))
    host.start()
    host.node.kubeconfig = reachable


def test_an_agent_that_starts_while_the_api_server_is_away_offers_what_exists(halves):
    start_without_api_server(halves)
    halves.kubelet.wait_offers(**{HALF: 1, SMALL: 3})
    changes = halves.node.changes()
    halves.node.want(mig(halves.node.uuid(), {"7g.80gb": 1}))
    pod = halves.kubelet.admit("default", "early", {SMALL: 1})
    assert halves.ids(SMALL)[0] in pod.devices[SMALL] and halves.node.changes() == changes
    halves.node.agent.kill()
    halves.start()
    wait_for(lambda: halves.node.applied().get("reason") == "InUse", 30, "the change to wait for the pod")


def test_shared_cards_are_shared_while_the_api_server_is_away(host):
    host.node.want({**native(host.node.uuid()), "sharing": {"timeSlicing": {"replicas": 4}}})
    host.kubelet.wait_offers(**{GPU: 4})
    start_without_api_server(host)
    host.kubelet.wait_offers(**{GPU: 4})


def test_a_shared_card_says_how_many_containers_can_have_it(host):
    def told():
        return host.node.cards_told()[0].get("replicas")

    host.node.want({**native(host.node.uuid()), "sharing": {"timeSlicing": {"replicas": 4}}})
    host.kubelet.wait_offers(**{GPU: 4})
    wait_for(lambda: told() == 4, 30, lambda: f"4 replicas, not {told()}")
    host.node.want(native(host.node.uuid()))
    host.kubelet.wait_offers(**{GPU: 1})
    wait_for(lambda: told() is None, 30, lambda: f"no replicas, not {told()}")


def test_without_a_known_spec_nothing_is_offered_before_the_device_is_known(halves):
    (halves.node.folder / "state" / "spec" / "last.json").write_text('{"version":2,"spec":{}}')
    start_without_api_server(halves)
    wait_for(lambda: "Could not read the last known spec" in halves.node.agent.text(), 30, "the agent to read the file")
    assert not any(n for n, _ in halves.kubelet.offers().values())


# --- requests that nobody should make ---


@pytest.mark.parametrize("ids", [["GPU-0"], [""], ["x" * 4096], ["../../etc/passwd"], ["GPU-\n"]], ids=["unknown", "empty", "long", "path", "newline"])
def test_an_id_that_is_none_is_refused_by_name(halves, ids):
    with pytest.raises(grpc.RpcError) as error:
        halves.kubelet.allocate(SMALL, ids)
    assert error.value.code() in (grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.NOT_FOUND, grpc.StatusCode.UNKNOWN, grpc.StatusCode.FAILED_PRECONDITION)
    assert error.value.details() and len(error.value.details()) <= 1024
    assert len(halves.kubelet.allocate(HALF, halves.ids(HALF))) == 1


def test_an_id_that_has_vanished_is_refused_and_others_are_not(halves):
    (gone,) = halves.ids(HALF)
    halves.cut({"1g.10gb": 3})
    halves.kubelet.wait_offers(**{SMALL: 3})
    with pytest.raises((grpc.RpcError, AssertionError)):
        halves.kubelet.allocate(HALF, [gone])
    assert halves.kubelet.allocate(SMALL, halves.ids(SMALL)[:1])[0].cdi_devices


def test_a_request_of_megabytes_is_refused(halves):
    with pytest.raises(grpc.RpcError) as error:
        halves.kubelet.allocate(SMALL, ["x" * 1000] * 3000)
    assert error.value.code() == grpc.StatusCode.RESOURCE_EXHAUSTED or error.value.details()
    assert halves.kubelet.allocate(SMALL, halves.ids(SMALL)[:1])


def test_a_method_that_is_none_is_unimplemented(host):
    with pytest.raises(grpc.RpcError) as error:
        host.kubelet.plugin(GPU).channel.unary_unary("/v1beta1.DevicePlugin/Nothing")(b"")
    assert error.value.code() == grpc.StatusCode.UNIMPLEMENTED


# --- bytes that nobody should send ---

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"


def frame(kind, flags, stream, payload=b""):
    """An HTTP/2 frame (RFC 9113, 4.1)."""
    return struct.pack(">I", len(payload))[1:] + bytes((kind, flags)) + struct.pack(">I", stream) + payload


def literal(name, value):
    """A header field that is in no table (RFC 7541, 6.2.2)."""
    return b"\0" + bytes((len(name),)) + name + bytes((len(value),)) + value


def headers(stream, end=False):
    """The beginning of an Allocate."""
    fields = (
        (b":method", b"POST"),
        (b":scheme", b"http"),
        (b":path", b"/v1beta1.DevicePlugin/Allocate"),
        (b":authority", b"localhost"),
        (b"content-type", b"application/grpc"),
        (b"te", b"trailers"),
    )
    return frame(1, 4 | end, stream, b"".join(literal(*f) for f in fields))


HELLO = PREFACE + frame(4, 0, 0)
ABUSE = {
    "garbage": b"\xff" * 5000,
    "http/1": b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n",
    "half a preface": PREFACE[:9],
    "half a frame": HELLO + frame(1, 4, 1, b"x" * 200)[:40],
    "a frame that is too large": HELLO + frame(0, 0, 1, b"")[:0] + b"\xff\xff\xff\x00\x00\x00\x00\x00\x01",
    "headers without a body": HELLO + headers(1),
    "half a message": HELLO + headers(1) + frame(0, 0, 1, b"\0\0\0\1\0half"),
    "a message that says 4 GiB": HELLO + headers(1) + frame(0, 0, 1, b"\0\xff\xff\xff\xff"),
    "a compressed message": HELLO + headers(1) + frame(0, 1, 1, b"\1\0\0\0\1x"),
    "no protobuf": HELLO + headers(1) + frame(0, 1, 1, b"\0\0\0\0\4\xff\xff\xff\xff"),
    "an odd header block": HELLO + frame(1, 5, 1, b"\x80"),
    "a push": HELLO + frame(5, 4, 1, b"\0\0\0\2"),
    "a window of nothing": HELLO + frame(8, 0, 0, b"\0\0\0\0"),
}


def dial(path):
    peer = socket.socket(socket.AF_UNIX)
    peer.settimeout(20)
    peer.connect(str(path))
    return peer


def send(peer, data):
    """As much as the other side takes."""
    try:
        peer.sendall(data)
    except (BrokenPipeError, ConnectionResetError):
        pass


@pytest.mark.parametrize("what", ABUSE, ids=lambda w: w.replace(" ", "-").replace("/", ""))
def test_bytes_that_nobody_should_send_end_with_who_sent_them(halves, what):
    stream = halves.kubelet.plugin(SMALL)
    with dial(halves.endpoint(SMALL)) as peer:
        send(peer, ABUSE[what])
        assert len(halves.kubelet.allocate(SMALL, halves.ids(SMALL)[:1])) == 1
        assert len(halves.kubelet.allocate(HALF, halves.ids(HALF))) == 1
    assert halves.kubelet.plugin(SMALL) is stream and halves.node.agent.running()


def test_silent_connections_keep_nobody_out(halves):
    silent = []
    for _ in range(300):
        try:
            silent.append(dial(halves.endpoint(SMALL)))
        except OSError:
            break  # the cap, or a queue that is full
    assert halves.kubelet.allocate(SMALL, halves.ids(SMALL)[:1])
    halves.kubelet.hang_up(SMALL)
    halves.kubelet.wait_offers(**{HALF: 1, SMALL: 3})
    for peer in silent:
        peer.close()


def test_twenty_thousand_reset_streams_cost_their_sender_the_connection_at_most(halves):
    with dial(halves.endpoint(SMALL)) as peer:
        send(peer, HELLO)
        for first in range(0, 20000, 500):
            streams = range(2 * first + 1, 2 * (first + 500), 2)
            send(peer, b"".join(headers(s) + frame(3, 0, s, b"\0\0\0\x08") for s in streams))
        assert len(halves.kubelet.allocate(SMALL, halves.ids(SMALL)[:1])) == 1
    assert halves.kubelet.offers()[SMALL] == (3, 3)


# --- PodResources that misbehaves ---


def test_nothing_is_destroyed_while_nobody_says_who_holds_it(halves):
    halves.kubelet.before_list = lambda: b"\xff\xff\xff"
    pod = halves.kubelet.admit("default", "held", {HALF: 1})
    standing = halves.node.placements()
    halves.node.want(mig(halves.node.uuid(), {"1g.10gb": 7}))
    halves.node.wait_reads(4)
    assert halves.node.placements() == standing
    halves.kubelet.before_list = lambda: None
    halves.node.wait_applied("InUse")
    halves.kubelet.end(pod)
    halves.node.wait_layout({"1g.10gb": 7})


def test_a_change_that_waits_for_the_list_of_pods_says_so(halves):
    halves.kubelet.before_list = lambda: b"\xff\xff\xff"
    halves.node.want(mig(halves.node.uuid(), {"1g.10gb": 7}))
    halves.node.wait_applied("NotWithdrawn", timeout=60)
    halves.kubelet.before_list = lambda: None
    halves.node.wait_layout({"1g.10gb": 7})


def test_a_kubelet_that_does_not_know_its_pods_yet_frees_nothing(halves):
    kubelet, node = halves.kubelet, halves.node
    kubelet.admit("default", "held", {HALF: 1})
    node.want(mig(node.uuid(), {"1g.10gb": 7}))
    node.wait_applied("InUse")
    standing = node.placements()
    kubelet.before_list = lambda: pr.ListPodResourcesResponse()
    kubelet.restart()
    kubelet.wait_offer(HALF, 1)
    node.wait_reads(4)
    assert node.placements() == standing


def users(node):
    return [user for p in node.card()["partitions"] for user in p.get("inUseBy", [])]


def test_what_pods_hold_is_known_when_agent_and_kubelet_restart_and_the_api_server_is_away(halves):
    kubelet, node = halves.kubelet, halves.node
    pod = kubelet.admit("default", "held", {HALF: 1})
    standing = node.placements()
    node.agent.kill()
    kubelet.before_start = kubelet.lose_api_server
    kubelet.restart()
    node.want(mig(node.uuid(), {"1g.10gb": 7}))
    node.agent.start()
    node.wait_applied("InUse")
    assert pod.uid in condition(node.card(), "Applied")["message"]
    assert users(node) == [{"uid": pod.uid, "container": "main"}]
    kubelet.find_api_server()
    wait_for(lambda: [u.get("name") for u in users(node)] == ["held"], 30, lambda: f"the name of the pod: {users(node)}")
    assert node.placements() == standing
    kubelet.end(pod)
    node.wait_layout({"1g.10gb": 7})


# --- changes that a crash or a failure left half-way ---

CREATE = "nvmlDeviceCreateGpuInstanceWithPlacement"
DESTROY = "nvmlGpuInstanceDestroy"


def journals(node):
    """Of changes that are not over."""
    return list((node.folder / "state").glob("*.json"))


def expect_untouched_until(host, over, is_ended):
    """Readings come and go, and recovery changes nothing on the cards before the kubelet has answered."""
    changes = host.node.changes()
    host.node.wait_reads(4)
    assert host.node.changes() == changes
    assert journals(host.node)
    over()
    wait_for(is_ended, 30, "the change to be ended")


def test_an_agent_killed_in_a_change_ends_it_once_the_kubelet_says_who_holds_what(halves):
    kubelet, node = halves.kubelet, halves.node
    node.ctl("fault", "add", "--call", CREATE, "--nth", 2, "--action", "kill")
    node.want(mig(node.uuid(), {"1g.10gb": 7}))
    wait_for(lambda: not node.agent.running(), 30, "the agent to be killed")
    node.ctl("fault", "clear")
    node.want()  # else the next attempt ends the change
    kubelet.before_list = lambda: b"\xff\xff\xff"
    node.agent.start()
    expect_untouched_until(halves, lambda: setattr(kubelet, "before_list", lambda: None), lambda: not journals(node))
    assert node.layout() in ({"1g.10gb": 7}, {"3g.40gb": 1, "1g.10gb": 3})
    kubelet.wait_offers(**{f"nvidia.com/mig-{profile}": n for profile, n in node.layout().items()})


def test_a_change_that_failed_and_is_wanted_no_more_is_ended_once_the_kubelet_has_taken_note(halves):
    """What it left is withdrawn first. A list of the pods that was asked for before that may lack who was given a part of it since."""
    kubelet, node = halves.kubelet, halves.node
    for nth in range(2, 22):  # also for those who try to end it while it is wanted
        for call in (CREATE, DESTROY):  # the second stops the way back
            node.ctl("fault", "add", "--call", call, "--nth", nth, "--action", "fail:UNKNOWN")
    node.want(mig(node.uuid(), {"1g.10gb": 7}))
    wait_for(lambda: journals(node) and node.applied().get("reason") == "ApplyFailed", 30, lambda: f"the change to fail, not {node.applied()}")
    kubelet.before_list = lambda: b"\xff\xff\xff"
    node.want()
    kubelet.wait_offers()
    node.ctl("fault", "clear")  # not before: what is wanted may be completed at any time
    expect_untouched_until(halves, lambda: setattr(kubelet, "before_list", lambda: None), lambda: not journals(node))
    kubelet.wait_offers(**{f"nvidia.com/mig-{profile}": n for profile, n in node.layout().items()})


def test_what_an_init_container_holds_is_not_taken(halves):
    kubelet, node = halves.kubelet, halves.node
    pod = kubelet.admit("default", "prepares", {HALF: 1}, container="prepare")
    pod.initial = True
    node.want(mig(node.uuid(), {"1g.10gb": 7}))
    node.wait_applied("InUse")
    wait_for(lambda: users(node) == [{"uid": pod.uid, "container": "prepare"}], 30, lambda: f"the uid of the pod: {users(node)}")
    kubelet.end(pod)
    node.wait_layout({"1g.10gb": 7})


def test_what_another_plugin_gave_to_a_pod_is_not_taken(rig, kubelet):
    node = rig.node({"h100-80": 1}, start=False)
    node.start(resources="none", kubelet_dir=kubelet.folder)
    node.wait_ready()
    node.want(mig(node.uuid(), {"3g.40gb": 1, "1g.10gb": 3}))
    node.wait_layout({"3g.40gb": 1, "1g.10gb": 3})
    wait_for(lambda: len(node.card().get("partitions", ())) == 4, 30, "the partitions in the Device")
    (half,) = [p["uuid"] for p in node.card()["partitions"] if p["profile"] == "3g.40gb"]
    pod = kubelet.gave("default", "theirs", HALF, f"{half}::1")
    standing = node.placements()
    node.want(mig(node.uuid(), {"1g.10gb": 7}))
    node.wait_applied("InUse")
    theirs = [("default", "theirs")]
    wait_for(lambda: [(u.get("namespace"), u.get("name")) for u in users(node)] == theirs, 30, lambda: f"the pod to be told: {users(node)}")
    assert node.placements() == standing
    assert {r["publisher"] for r in node.status()["resources"]} == {"other"} and not kubelet.registrations
    kubelet.end(pod)
    kubelet.forget_ended()
    kubelet.write_checkpoint()  # as when their plugin says something
    node.wait_layout({"1g.10gb": 7})


@pytest.mark.parametrize("text", ["", "{", '{"Data": {"PodDeviceEntries": 7}}', "x" * (17 << 20)], ids=["empty", "half", "odd", "huge"])
def test_a_checkpoint_that_cannot_be_read_is_an_error_and_no_more(halves, text):
    kubelet, node = halves.kubelet, halves.node
    pod = kubelet.admit("default", "held", {SMALL: 1})
    (kubelet.plugins / CHECKPOINT).write_text(text)
    node.want(mig(node.uuid(), {"1g.10gb": 7}))
    node.wait_layout({"1g.10gb": 7})
    assert pod.devices[SMALL][0] in halves.ids(SMALL)


def test_a_kubelet_s_socket_whose_mode_is_changed_is_the_same_kubelet(halves):
    kept = halves.kubelet.plugin(SMALL)
    registered = len(halves.kubelet.registrations)
    halves.kubelet.socket.chmod(0o600)
    halves.cut({"1g.10gb": 7})
    halves.kubelet.wait_offers(**{SMALL: 7})
    assert halves.kubelet.plugin(SMALL) is kept and len(halves.kubelet.registrations) == registered


def test_a_huge_answer_about_pods_is_an_error_and_no_more(halves):
    many = pr.ListPodResourcesResponse(pod_resources=[pr.PodResources(name="x" * 200, namespace="y" * 60) for _ in range(70000)])  # 18 MB
    halves.kubelet.before_list = many.SerializeToString
    halves.node.want(mig(halves.node.uuid(), {"1g.10gb": 7}))
    halves.node.wait_reads(4)
    assert serve(halves.node.agent, "/healthz")[0] == 200
    assert halves.node.layout() == {"3g.40gb": 1, "1g.10gb": 3}
    halves.kubelet.before_list = lambda: None
    halves.kubelet.wait_offers(**{SMALL: 7})


def test_the_rate_limit_of_pod_resources_is_kept(halves):
    pods = [halves.kubelet.admit("default", f"p{n}", {SMALL: 1}) for n in range(3)]
    for pod in pods:
        halves.kubelet.end(pod)
    halves.node.want(mig(halves.node.uuid(), {"1g.10gb": 7}))
    halves.kubelet.wait_offers(**{SMALL: 7})
    assert halves.kubelet.calls["List"] > 0 and halves.kubelet.calls["List refused"] == 0


# --- a folder that takes nothing ---

CLONE_NEWNS, MS_REC_PRIVATE = 0x00020000, 0x4000 | 0x40000


class SmallDisk(Where):
    """A mount namespace of its own with a file system of a few pages at a folder."""

    def __init__(self, folder):
        self.folder = folder

    def before_exec(self, cwd):
        for done in (
            LIBC.unshare(CLONE_NEWNS),
            LIBC.mount(b"none", b"/", None, MS_REC_PRIVATE, None),
            LIBC.mount(b"tmpfs", os.fsencode(self.folder), b"tmpfs", 0, b"size=64k"),
        ):
            if done != 0:
                raise OSError(ctypes.get_errno(), "a small disk")


@pytest.mark.skipif(os.geteuid() != 0, reason="a full disk needs root to mount one")
def test_a_full_disk_under_the_cdi_folder_is_said_and_heals(rig, kubelet):
    host = Host(rig, kubelet, {"h100-80": 1})
    host.cdi.mkdir()
    host.start(where=SmallDisk(host.cdi))
    kubelet.wait_offers(**{GPU: 1})
    seen = f"/proc/{host.node.agent.pid}/root{host.cdi}"
    with open(f"{seen}/filler", "wb", buffering=0) as filler:
        while True:
            try:
                filler.write(b"x" * 512)
            except OSError:
                break
    host.node.want(mig(host.node.uuid(), {"1g.10gb": 2}))
    host.node.wait_layout({"1g.10gb": 2})
    said = wait_for(lambda: "space" in str(host.node.status().get("conditions")), 30, lambda: f"a condition: {host.node.status().get('conditions')}")
    assert said and host.node.agent.running()
    os.unlink(f"{seen}/filler")
    kubelet.wait_offers(**{SMALL: 2})
    wait_for(lambda: "space" not in str(host.node.status().get("conditions")), 30, "the condition to be gone")
    assert condition(host.node.device(), "Ready")["status"] == "True"


def test_a_card_that_is_made_whole_again_is_offered_whole(halves):
    halves.node.want(native(halves.node.uuid()))
    halves.kubelet.wait_offers(**{GPU: 1})


# --- the configuration of NVIDIA's device plugin ---


def test_a_configuration_of_nvidias_plugin_changes_what_is_offered_and_how(rig, kubelet):
    host = Host(rig, kubelet, {"h100-80": 2})
    file = host.node.folder / "plugin.yaml"
    file.write_text(
        """
version: v1
flags:
  plugin: {deviceListStrategy: [envvar], deviceIDStrategy: uuid}
sharing:
  timeSlicing:
    failRequestsGreaterThanOne: true
    resources: [{name: nvidia.com/gpu, replicas: 3}]
resources: {gpus: [{pattern: "*", name: other}]}
"""
    )
    host.start(plugin_config=file, device_id_strategy="index")
    kubelet.wait_offers(**{GPU: 6})
    (answer,) = kubelet.allocate(GPU, [f"{host.node.uuid(1)}::2"])
    assert answer.envs["NVIDIA_VISIBLE_DEVICES"] == "1", "the file names the way, and the flag beats it in how"
    assert not answer.cdi_devices
    with pytest.raises(grpc.RpcError, match="failRequestsGreaterThanOne"):
        kubelet.allocate(GPU, [f"{host.node.uuid(1)}::{i}" for i in range(2)])
    told = wait_for(lambda: condition(host.node.device(), "ConfigUnderstood"), 30, "what is said of the configuration")
    assert told["reason"] == "PartlyIgnored" and ".resources:" in told["message"]
    source = {"kind": "GPUProfile", "name": "whole", "generation": 1}
    host.node.want({**native(host.node.uuid(0)), "source": source})
    kubelet.wait_offers(**{GPU: 4})
