# SPDX-License-Identifier: Apache-2.0
"""A kubelet's device manager and PodResources server without the kubelet: for tests that need it
fast, or ill-mannered. It speaks gRPC by Google's library, compiled from our .proto files.

    stub = KubeletStub(folder)      the folder stands for /var/lib/kubelet; keep its path short
    stub.start(), .stop(), .kill(), .restart()
    stub.wait_offer("nvidia.com/gpu", 1)
    pod = stub.admit("default", "train-0", {"nvidia.com/gpu": 1});  pod.answers["nvidia.com/gpu"]
    stub.end(pod)
    stub.went_to_zero()             what was allocatable and then was not, so far
    stub.hang_up(resource)          ends the stream and the connection, as a kubelet that dies
    with stub.frozen(): ...         answers nothing and reads nothing

What it does, and in what order, is what kubelet 1.34 does (pkg/kubelet/cm/devicemanager of
k8s.io/kubernetes v1.34.4): Register dials back and asks for the options before it answers, a start
removes every socket in the folder, a resource of the checkpoint counts 0 until its plugin is back,
the end of a resource's old stream disconnects whichever plugin has it by then, a registration that
fails leaves the resource without one and its devices and calls as they are, and what an ended
pod had is on record until the pods were listed and the checkpoint was written after that.
"""

import base64
import collections
import contextlib
import itertools
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from conftest import ROOT, NotYet, wait_for

os.environ.setdefault("GRPC_VERBOSITY", "NONE")
# Programs are started by fork and exec at once.
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "false")

VERSION = "v1beta1"
PLUGIN = "/v1beta1.DevicePlugin/"
CHECKPOINT = "kubelet_internal_checkpoint"
MAX_RECEIVE = 4 << 20  # grpc-go's, which the kubelet leaves as it is
DIAL_S = 10
QPS, BURST = 100, 10
EXTENDED_NAME = re.compile(r"^(?!.*kubernetes\.io/)(?!requests\.)[a-z0-9]([a-z0-9.-]*[a-z0-9])?/[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?$")


def load():
    """gRPC and the messages, installed and compiled below build/ once."""
    done = subprocess.run([ROOT / "test/e2e/kubelet-protos.sh"], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    sys.path[:0] = done.stdout.split()
    import deviceplugin_pb2
    import grpc
    import podresources_pb2

    return grpc, deviceplugin_pb2, podresources_pb2


grpc, dp, pr = load()


class Refused(Exception):
    """The pod is not admitted; the message is the kubelet's."""


class Plugin:
    """One registration: a connection to a plugin, and the stream of its devices."""

    def __init__(self, stub, request):
        self.stub, self.resource, self.endpoint = stub, request.resource_name, request.endpoint
        options = (("grpc.default_authority", "localhost"), ("grpc.use_local_subchannel_pool", 1), ("grpc.max_receive_message_length", MAX_RECEIVE))
        self.channel = grpc.insecure_channel(f"unix:{stub.plugins / request.endpoint}", options)
        self.stream = None
        self.closing = threading.Lock()  # a channel that is closed while a call begins on it leaves that call waiting for ever
        self.closed = False
        self.end_code = None
        self.stopped = False
        self.lists = 0  # messages of the stream so far

    def connect(self):
        self.options = self.call("GetDevicePluginOptions", dp.Empty(), dp.DevicePluginOptions, timeout=DIAL_S, wait_for_ready=True)

    def call(self, method, request, answer, timeout=30, **how):
        """One call of the plugin; an error is a grpc.RpcError."""
        stub = self.channel.unary_unary(PLUGIN + method, type(request).SerializeToString, answer.FromString)
        return stub(request, timeout=timeout, **how)

    def watch(self):
        """Reads lists until the stream ends."""
        stub = self.channel.unary_stream(PLUGIN + "ListAndWatch", dp.Empty.SerializeToString, dp.ListAndWatchResponse.FromString)
        with self.closing:
            if self.closed:
                return
            self.stream = stub(dp.Empty())
        try:
            for message in self.stream:
                self.stub.gate.wait()
                self.lists += 1
                self.stub.listed(self.resource, message.devices)
                self.stub.after_list(self)
        except grpc.RpcError as error:
            self.end_code = error.code()

    def is_reachable(self):
        """Is there still a plugin behind the connection?"""
        try:
            self.call("GetDevicePluginOptions", dp.Empty(), dp.DevicePluginOptions, timeout=5)
        except (grpc.RpcError, ValueError):  # ValueError: hung up
            return False
        return True

    def close(self):
        with self.closing:
            self.closed = True
            if self.stream:
                self.stream.cancel()
            self.channel.close()


class Pod:
    """A pod that was admitted: what it holds, and what the plugins answered."""

    initial = False  # its container is an init container, which PodResources does not list

    def __init__(self, namespace, name, container, uid):
        self.namespace, self.name, self.container, self.uid = namespace, name, container, uid
        self.devices, self.answers = {}, {}


class RateLimit:
    """A bucket of BURST tokens that fills with QPS."""

    def __init__(self):
        self.tokens, self.at = BURST, time.monotonic()
        self.lock = threading.Lock()

    def take(self):
        with self.lock:
            now = time.monotonic()
            self.tokens = min(BURST, self.tokens + (now - self.at) * QPS)
            self.at = now
            if self.tokens < 1:
                return False
            self.tokens -= 1
            return True


class KubeletStub:
    def __init__(self, folder):
        self.folder = Path(folder)
        self.plugins = self.folder / "device-plugins"
        self.socket = self.plugins / "kubelet.sock"
        self.pod_socket = self.folder / "pod-resources" / "kubelet.sock"
        self.lock = threading.RLock()
        self.gate = threading.Event()
        self.gate.set()
        # Asked before the real answer is made; may raise, or return another answer.
        self.before_register = lambda request: None
        self.before_list = lambda: None
        self.before_start = lambda: None
        self.after_list = lambda plugin: None
        self.registrations = []  # of all times: (monotonic time, request)
        self.history = []  # of all times: (resource, healthy devices before, and after), one for each change
        self.ended = collections.Counter()  # {resource: streams}
        self.calls = collections.Counter()
        self.server = self.pod_server = None
        self.stopping = False
        self.connected = set()  # all Plugins whose connection may stand, also those that newer ones of their resource have replaced
        self.pools = []
        self.gone = set()  # uids of pods that ended: the API server says so to a kubelet that starts, whatever its checkpoint has
        self.forget()

    def forget(self):
        """What is only in memory."""
        self.clients, self.endpoints = {}, {}
        self.healthy, self.unhealthy, self.all = {}, {}, {}
        self.pods = []  # that it knows of and lists
        self.record = []  # pods that it counts what they have of
        self.knows_pods = True  # the API server has told it

    # --- its life ---

    def start(self):
        self.forget()
        for path in (self.socket, self.pod_socket):
            path.parent.mkdir(parents=True, exist_ok=True)
        for path in self.plugins.iterdir():
            if path.is_socket():
                path.unlink()
        self.read_checkpoint()
        self.limit = RateLimit()
        self.stopping = False
        self.before_start()
        self.server = self.serve(self.socket, "v1beta1.Registration", Register=(self.register, dp.RegisterRequest))
        self.pod_socket.unlink(missing_ok=True)
        self.pod_server = self.serve(
            self.pod_socket,
            "v1.PodResourcesLister",
            List=(self.list_pods, pr.ListPodResourcesRequest),
            GetAllocatableResources=(self.list_allocatable, pr.AllocatableResourcesRequest),
        )
        return self

    def serve(self, path, service, **methods):
        handlers = {
            name: grpc.unary_unary_rpc_method_handler(handler, request.FromString, lambda answer: answer if isinstance(answer, bytes) else answer.SerializeToString())
            for name, (handler, request) in methods.items()
        }
        pool = ThreadPoolExecutor(32)
        self.pools.append(pool)
        server = grpc.server(pool, options=(("grpc.max_send_message_length", -1),))
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, handlers),))
        assert server.add_insecure_port(f"unix:{path}"), path
        server.start()
        return server

    def stop(self):
        """As SIGTERM: the sockets are removed."""
        if not self.server:
            return
        self.gate.set()
        with self.lock:
            self.stopping = True  # the calls of register that are under way go on, and connect to nobody from now on
        for server in (self.server, self.pod_server):
            server.stop(None).wait(10)
        # A pool's threads end with the last reference to the pool, and the log of an exception may hold one.
        while self.pools:
            self.pools.pop().shutdown(wait=False)
        self.server = self.pod_server = None
        with self.lock:
            connected, self.connected, self.clients, self.endpoints = self.connected, set(), {}, {}
        for plugin in connected:
            plugin.close()

    def kill(self):
        """As SIGKILL: the connections end, the sockets stay and nobody listens."""
        self.stop()
        for path in (self.socket, self.pod_socket):
            leave_socket(path)

    def restart(self, kill=True):
        (self.kill if kill else self.stop)()
        return self.start()

    @contextlib.contextmanager
    def frozen(self):
        """As SIGSTOP: connections are accepted by the system, and nothing is answered."""
        self.gate.clear()
        try:
            yield
        finally:
            self.gate.set()

    # --- Registration ---

    def register(self, request, context):
        self.gate.wait()
        self.registrations.append((time.monotonic(), request))
        self.calls["Register"] += 1
        try:
            self.before_register(request)
            self.check(request)
            plugin = Plugin(self, request)
            with self.lock:
                if self.stopping:
                    raise Refused("the kubelet ends")
                self.clients[plugin.resource] = plugin
                self.connected.add(plugin)
            self.connect(plugin)
        except Refused as error:
            context.abort(grpc.StatusCode.UNKNOWN, str(error))
        threading.Thread(target=self.run, args=(plugin,), daemon=True).start()
        return dp.Empty()

    def check(self, request):
        if request.version != VERSION:
            raise Refused(f'requested API version "{request.version}" is not supported by kubelet. Supported version is ["{VERSION}"]')
        if not EXTENDED_NAME.match(request.resource_name):
            raise Refused(f'the ResourceName "{request.resource_name}" is invalid')

    def connect(self, plugin):
        try:
            plugin.connect()
        except (grpc.RpcError, ValueError) as error:  # ValueError: hung up before it was connected
            with self.lock:
                self.clients.pop(plugin.resource, None)
                self.connected.discard(plugin)
            plugin.close()
            raise Refused(f"failed to get device plugin options: {error!r}") from error
        with self.lock:
            if plugin in self.connected:  # the kubelet did not end meanwhile
                self.endpoints[plugin.resource] = plugin

    def run(self, plugin):
        with contextlib.suppress(ValueError):  # closed before the stream was there
            plugin.watch()
        with self.lock:
            self.ended[plugin.resource] += 1
            self.connected.discard(plugin)
            now = self.clients.pop(plugin.resource, None)
            if now is None:
                return
            self.lose(plugin.resource)
        now.close()

    def lose(self, resource):
        """A plugin was disconnected: its devices stay known, and none is healthy. A plugin that is still asked for its options has no devices yet."""
        if resource not in self.endpoints:
            return
        self.history.append((resource, len(self.healthy.get(resource, ())), 0))
        self.healthy[resource], self.unhealthy[resource] = set(), set(self.all.get(resource, {}))
        self.endpoints[resource].stopped = True

    def listed(self, resource, devices):
        """A list came: it replaces the one before."""
        with self.lock:
            before = len(self.healthy.get(resource, ()))
            self.all[resource] = {d.ID: d for d in devices}
            self.healthy[resource] = {d.ID for d in devices if d.health == "Healthy"}
            self.unhealthy[resource] = set(self.all[resource]) - self.healthy[resource]
            self.history.append((resource, before, len(self.healthy[resource])))
            self.write_checkpoint()

    def went_to_zero(self):
        """Resources of which something could be had, and then nothing, at any time since the history was cleared."""
        with self.lock:
            return {name for name, before, after in self.history if before and not after}

    def wait_no_dead(self):
        """Until the end of each plugin that has ended is seen, so that its devices are offered no more."""

        def dead():
            with self.lock:
                connected = list(self.connected)
            return [p.resource for p in connected if not p.is_reachable()]

        wait_for(lambda: not dead(), 30, lambda: f"the ends of the plugins of {dead()} to be seen")

    def plugin(self, resource):
        """The Plugin that is asked for a resource: the newest that answered for its options, until it was disconnected."""
        with self.lock:
            plugin = self.endpoints.get(resource)
        if not plugin or plugin.stopped:
            raise NotYet(f"nothing is registered for {resource}; there is {sorted(self.endpoints)}")
        return plugin

    def hang_up(self, resource):
        self.plugin(resource).close()

    # --- what the node offers ---

    def offers(self):
        """{resource: (allocatable, capacity)}"""
        with self.lock:
            names = set(self.healthy) | set(self.unhealthy)
            return {n: (len(self.healthy.get(n, ())), len(self.healthy.get(n, ())) + len(self.unhealthy.get(n, ()))) for n in names}

    def wait_offer(self, resource, allocatable, capacity=None, timeout=30):
        wanted = (allocatable, allocatable if capacity is None else capacity)
        wait_for(lambda: self.offers().get(resource) == wanted, timeout, lambda: f"{resource} to be {wanted}; the node has {self.offers()}")

    def wait_offers(self, timeout=30, **counts):
        """Waits until these are all that can be had: by **{"nvidia.com/gpu": 1}."""

        def allocatable():
            return {name: n for name, (n, _) in self.offers().items() if n}

        wait_for(lambda: allocatable() == counts, timeout, lambda: f"the node to offer {counts}, not {self.offers()}")

    def devices(self, resource):
        """The devices of the last list, by id."""
        with self.lock:
            return dict(self.all.get(resource, {}))

    # --- calls of a plugin ---

    def allocate(self, resource, *groups, timeout=30):
        """Allocate for containers: a list of ids for each. Returns the answers."""
        request = dp.AllocateRequest(container_requests=[dp.ContainerAllocateRequest(devices_ids=ids) for ids in groups])
        return list(self.plugin(resource).call("Allocate", request, dp.AllocateResponse, timeout).container_responses)

    def prefer(self, resource, available, size, must=()):
        """GetPreferredAllocation for one container."""
        wish = dp.ContainerPreferredAllocationRequest(available_deviceIDs=available, must_include_deviceIDs=must, allocation_size=size)
        request = dp.PreferredAllocationRequest(container_requests=[wish])
        return list(self.plugin(resource).call("GetPreferredAllocation", request, dp.PreferredAllocationResponse).container_responses[0].deviceIDs)

    # --- pods ---

    def admit(self, namespace, name, limits, container="main", uid=None):
        """Admits a pod as the device manager does: picks devices, asks the plugin. Refused when it cannot."""
        pod = Pod(namespace, name, container, uid or str(uuid.uuid4()))
        for resource, count in limits.items():
            ids = self.choose(resource, count)
            pod.devices[resource] = ids
            pod.answers[resource] = self.allocate(resource, ids)[0]
            if self.plugin(resource).options.pre_start_required:
                self.plugin(resource).call("PreStartContainer", dp.PreStartContainerRequest(devices_ids=ids), dp.PreStartContainerResponse)
        with self.lock:
            self.pods.append(pod)
            self.record.append(pod)
            self.write_checkpoint()
        return pod

    def gave(self, namespace, name, resource, device):
        """A pod that was given a device by another plugin, before."""
        pod = Pod(namespace, name, "main", str(uuid.uuid4()))
        pod.devices[resource], pod.answers[resource] = [device], dp.ContainerAllocateResponse()
        with self.lock:
            self.pods.append(pod)
            self.record.append(pod)
            self.write_checkpoint()
        return pod

    def choose(self, resource, count):
        with self.lock:
            if resource not in self.healthy:
                raise Refused(f"cannot allocate unregistered device {resource}")
            if not self.healthy[resource]:
                raise Refused(f"no healthy devices present; cannot allocate unhealthy devices {resource}")
            available = self.healthy[resource] - self.held(resource)
        if len(available) < count:
            raise Refused(f"requested number of devices unavailable for {resource}. Requested: {count}, Available: {len(available)}")
        preferred = []
        if self.plugin(resource).options.get_preferred_allocation_available:
            preferred = [i for i in self.prefer(resource, sorted(available), count) if i in available]
        rest = (i for i in sorted(available) if i not in preferred)
        return list(itertools.islice(itertools.chain(preferred, rest), count))

    def readmit(self, pod):
        """The pod's container is started again: it keeps what it has, if that is well."""
        for resource, ids in pod.devices.items():
            with self.lock:
                healthy = self.healthy.get(resource, set())
            if not healthy:
                raise Refused(f"no healthy devices present; cannot allocate unhealthy devices {resource}")
            if not healthy.issuperset(ids):
                raise Refused(f"previously allocated devices are no longer healthy; cannot allocate unhealthy devices {resource}")

    def held(self, resource):
        self.forget_ended()
        return {i for pod in self.record for i in pod.devices.get(resource, ())}

    def end(self, pod):
        with self.lock:
            self.gone.add(pod.uid)
            self.pods = [p for p in self.pods if p.uid != pod.uid]

    def forget_ended(self):
        """In memory; the checkpoint follows when it is written."""
        if self.knows_pods:
            self.record = [pod for pod in self.record if pod in self.pods]

    def lose_api_server(self):
        """As a kubelet that started while it cannot be reached: it knows no pods, and what they have."""
        with self.lock:
            self.knows_pods, self.unknown, self.pods = False, self.pods, []

    def find_api_server(self):
        with self.lock:
            self.knows_pods, self.pods = True, self.pods + self.unknown

    # --- PodResources ---

    def list_pods(self, request, context):
        self.gate.wait()
        self.calls["List"] += 1
        if not self.limit.take():
            self.calls["List refused"] += 1
            context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "rejected by rate limit")
        return self.before_list() or self.pod_answer()

    def pod_answer(self):
        with self.lock:
            self.forget_ended()
            return pr.ListPodResourcesResponse(
                pod_resources=[
                    pr.PodResources(
                        name=p.name, namespace=p.namespace, containers=[pr.ContainerResources(name=p.container, devices=held_devices(p))] if not p.initial else []
                    )
                    for p in self.pods
                ]
            )

    def list_allocatable(self, request, context):
        self.gate.wait()
        with self.lock:
            known = [pr.ContainerDevices(resource_name=r, device_ids=[i]) for r, ids in sorted(self.healthy.items()) for i in sorted(ids)]
            return pr.AllocatableResourcesResponse(devices=known)

    # --- the checkpoint ---

    def write_checkpoint(self):
        entries = [
            {
                "PodUID": p.uid,
                "ContainerName": p.container,
                "ResourceName": resource,
                "DeviceIDs": {"-1": ids},
                "AllocResp": base64.b64encode(p.answers[resource].SerializeToString()).decode(),
                # Not the kubelet's: the pod's name is in its own store.
                "Stub": [p.namespace, p.name],
            }
            for p in self.record
            for resource, ids in p.devices.items()
        ]
        data = {"PodDeviceEntries": entries, "RegisteredDevices": {r: sorted(ids) for r, ids in self.healthy.items()}}
        new = self.plugins / f"{CHECKPOINT}.new"
        with contextlib.suppress(FileNotFoundError):  # the folder was wiped
            new.write_text(json.dumps({"Data": data, "Checksum": 0}))
            new.rename(self.plugins / CHECKPOINT)

    def read_checkpoint(self):
        with contextlib.suppress(FileNotFoundError):
            data = json.loads((self.plugins / CHECKPOINT).read_text())["Data"]
            self.healthy = {resource: set() for resource in data["RegisteredDevices"]}
            self.unhealthy = {resource: set() for resource in data["RegisteredDevices"]}
            pods = {}
            for entry in data["PodDeviceEntries"]:
                pod = pods.setdefault(entry["PodUID"], Pod(*entry["Stub"], entry["ContainerName"], entry["PodUID"]))
                pod.devices[entry["ResourceName"]] = entry["DeviceIDs"]["-1"]
                pod.answers[entry["ResourceName"]] = dp.ContainerAllocateResponse.FromString(base64.b64decode(entry["AllocResp"]))
            self.record = list(pods.values())
            self.pods = [pod for pod in self.record if pod.uid not in self.gone]


def held_devices(pod):
    """One entry for each device, as the kubelet has them."""
    return [pr.ContainerDevices(resource_name=r, device_ids=[i]) for r, ids in pod.devices.items() for i in ids]


def leave_socket(path):
    """A socket file that nobody listens on."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(path))


@pytest.fixture
def kubelet():
    """A stub that runs, in a folder with a short path: a socket's has 107 bytes."""
    folder = tempfile.mkdtemp(prefix="ck", dir="/tmp")
    stub = KubeletStub(folder).start()
    yield stub
    stub.stop()
    shutil.rmtree(folder, ignore_errors=True)
