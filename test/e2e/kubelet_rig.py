# SPDX-License-Identifier: Apache-2.0
"""A node with a real kubelet and containerd, for the tests that need one.

    real_node            the node, with simulated cards; its pods and its agent end with the test
    real_node.start()    our agent on it, as the DaemonSet would run it there
    real_node.run(...)   a pod: scheduled, started by containerd and runc
    halves               the node with our agent and a card in four partitions
    real_node.kill_kubelet(), .up(), .down(), .reboot()

The cluster is started by the first test that asks for it (hack/kube/node-up.sh) and serves all.
Where the machine cannot have one the tests are skipped, and the summary says why.
"""

import contextlib
import itertools
import json
import os
import re
import signal
import subprocess
from pathlib import Path

import pytest
from conftest import Cluster, NotYet, wait_for
from namespaces import Inside, inside
from stack import Rig, SimNode, install, mig

IMAGE = "localhost/busybox:1"
SAID_ALL = "that was all"
SMALL = "nvidia.com/mig-1g.10gb"
HALF = "nvidia.com/mig-3g.40gb"
PODS = "/api/v1/namespaces/default/pods"
numbers = itertools.count(1)


def why_not(folder):
    """Why this machine can have no real node; None where it can."""
    if os.geteuid() != 0:
        return "a real node needs root"
    probe = subprocess.run(
        ["unshare", "-n", "-m", "-p", "-f", "--mount-proc", "mount", "-t", "tmpfs", "probe", "/run"], capture_output=True, text=True
    )
    if probe.returncode != 0:
        return f"a real node needs namespaces of its own: {probe.stderr.strip()}"
    device = folder / "null"
    try:
        os.mknod(device, 0o600 | 0o020000, os.makedev(1, 3))
    except OSError as error:
        return f"a real node needs mknod: {error}"
    device.unlink()
    return None


class RealCluster(Cluster):
    """A control plane and one node, in a network namespace of their own."""

    node_name = "node1"

    def start(self):
        self.up()
        self.server = (self.rundir / "server").read_text().strip()
        self.kubectl = self.kubectl_as(self.kubeconfig)

    def up(self):
        """Starts what does not run: everything, or a kubelet that was killed."""
        self.script("node-up.sh", self.rundir, "--name", self.node_name)

    def down(self):
        """The node alone, as a power cut."""
        self.script("node-down.sh", self.rundir, "--node")

    def stop(self, purge):
        self.script("node-down.sh", self.rundir, *(["--purge"] if purge else []))

    def is_up(self):
        """Do the node's parts run?"""
        files = [self.pid_file(name) for name in ("init", "containerd", "kubelet")]
        return all(f.exists() and Path(f"/proc/{f.read_text().split()[0]}").exists() for f in files)

    @property
    def folder(self):
        """The node's."""
        return self.rundir / "nodes" / self.node_name

    def pid_file(self, name):
        return (self.folder if name in ("node", "init", "containerd", "kubelet") else self.rundir) / f"{name}.pid"

    def pid(self, name):
        """Of network, init, containerd, kubelet, or a part of the control plane."""
        return int(self.pid_file(name).read_text().split()[0])

    def network(self):
        return inside(self.pid("network"), "net")


class RealNode(SimNode):
    """The node: simulated cards, a real kubelet, and our agent when it is started."""

    def __init__(self, rig, fleet, slots=False):
        super().__init__(rig, rig.cluster.node_name, fleet, slots)
        self.cluster = rig.cluster
        self.where = Inside(lambda: self.pid("init"))
        self.kubelet_dir = self.cluster.folder / "kubelet"
        self.plugins = self.kubelet_dir / "device-plugins"

        self.driver = self.folder / "driver"
        self.ctl("driver-root", self.driver)
        self.ctl("dev-root", self.driver)

    def argv(self, program=None, **flags):
        """As the DaemonSet has it: the kubelet's places are where they are on every node."""
        ours = {"resources": "kubelet", "kubelet_dir": "/var/lib/kubelet", "cdi_dir": "/var/run/cdi"}
        driver = {f"{host}{what}_root": self.driver for host in ("", "host_") for what in ("driver", "dev")}
        return super().argv(program, **{**ours, **driver, **flags})

    @property
    def runtime_config(self):
        return self.cluster.rundir / "nodes" / self.cluster.node_name / "containerd.toml"

    def show_runtime(self):
        """Shows the agent, whose /proc and host are folders, the containerd that runs here and its configuration."""
        process = self.folder / "proc" / "4242"
        process.mkdir(parents=True, exist_ok=True)
        (process / "comm").write_text("containerd\n")
        (process / "cmdline").write_bytes(b"containerd\0")
        config = self.driver / "etc" / "containerd" / "config.toml"
        config.parent.mkdir(parents=True, exist_ok=True)
        config.write_text(self.runtime_config.read_text())

    @contextlib.contextmanager
    def without_cdi(self, runtime=None):
        """Its containerd has CDI switched off, as 1.7 has it by default, and this OCI runtime instead of its own."""
        text = self.runtime_config.read_text()
        assert "enable_cdi = true" in text and re.search(r"BinaryName = .*", text)
        without = text.replace("enable_cdi = true", "enable_cdi = false")
        self.runtime_config.write_text(re.sub(r"BinaryName = .*", f'BinaryName = "{runtime}"', without) if runtime else without)
        self.kill("containerd")
        self.up()
        try:
            yield
        finally:
            self.runtime_config.write_text(text)
            self.kill("containerd")
            self.up()

    # --- its parts ---

    def pid(self, name):
        return self.cluster.pid(name)

    def up(self):
        self.cluster.up()

    def down(self):
        """The power is cut. The namespace ends when its last process is reaped: the agent is our child."""
        for process in self.rig.processes.all:
            if process.where is self.where:
                process.kill()
        self.cluster.down()

    def kill(self, name):
        """Of kubelet and containerd. up() starts it again."""
        os.kill(self.pid(name), signal.SIGKILL)
        wait_for(lambda: not Path(f"/proc/{self.pid(name)}").exists(), 10, f"{name} to be gone")

    def kill_kubelet(self):
        self.kill("kubelet")

    def restart_kubelet(self):
        """Returns when the new one takes registrations: it is healthy before that, and Ready may be its predecessor's word."""
        old = self.registry()
        self.kill_kubelet()
        self.up()
        wait_for(lambda: self.registry() not in (None, old), 30, "the new kubelet to take registrations")

    def registry(self):
        """The identity of the socket that plugins register at; None while there is none. The kubelet makes it after it cleared the folder."""
        try:
            found = (self.plugins / "kubelet.sock").stat()
        except FileNotFoundError:
            return None
        return found.st_ino, found.st_mtime_ns

    @contextlib.contextmanager
    def kubelet_frozen(self):
        """It holds its sockets and answers nothing."""
        os.kill(self.pid("kubelet"), signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(self.pid("kubelet"), signal.SIGCONT)

    def reboot(self):
        """The power is cut and comes back: every process of the node ends, and the cards start anew."""
        self.down()
        self.ctl("reboot")
        self.up()

    def sees(self, path):
        """A path of the node as this machine can open it. No symbolic link may be in it: /run, not /var/run."""
        return Path(f"/proc/{self.pid('init')}/root") / path.lstrip("/")

    def cdi_specs(self):
        """The CDI files on the node, by name."""
        folder = self.sees("/run/cdi")
        return {f.name: json.loads(f.read_text()) for f in sorted(folder.iterdir()) if f.suffix == ".json"}

    def checkpoint(self):
        """What the kubelet has written down: {(pod uid, container, resource): [ids]}."""
        data = json.loads((self.plugins / "kubelet_internal_checkpoint").read_text())["Data"]
        return {
            (e["PodUID"], e["ContainerName"], e["ResourceName"]): sorted(i for ids in e["DeviceIDs"].values() for i in ids)
            for e in data["PodDeviceEntries"] or []
        }

    # --- pods ---

    def pod_path(self, name):
        return f"{PODS}/{name}"

    def run(self, name, command, limits=None, restart="Never", **spec):
        """Makes a pod that the scheduler puts on the node, and returns its name, which is unique. command is a shell's."""
        name = f"{self.rig.id}-{name}-{next(numbers)}"
        container = {"name": "main", "image": IMAGE, "imagePullPolicy": "Never", "command": ["sh", "-c", command]}
        if limits:
            container["resources"] = {"limits": limits}
        self.rig.objects.append(self.pod_path(name))
        self.api.create(
            PODS,
            {
                "metadata": {"name": name, "labels": {"test": self.rig.id}},
                "spec": {
                    "restartPolicy": restart,
                    "automountServiceAccountToken": False,
                    "enableServiceLinks": False,
                    "terminationGracePeriodSeconds": 1,
                    "containers": [container],
                    **spec,
                },
            },
        )
        return name

    def phase(self, name):
        return self.api.get(self.pod_path(name)).get("status", {}).get("phase")

    def wait_phase(self, name, *phases, timeout=30):
        """Waits for one of the phases, and returns the pod."""

        def look():
            pod = self.api.get(self.pod_path(name))
            return pod if pod["status"].get("phase") in phases else None

        return wait_for(look, timeout, lambda: f"{name} to be {' or '.join(phases)}: {self.why(name)}")

    def why(self, name):
        """What the pod and its Events say, for a message."""
        status = self.api.get(self.pod_path(name)).get("status")
        return json.dumps({"status": status, "events": [f"{e['reason']}: {e.get('note')}" for e in self.rig.events(name)]})

    def log(self, name):
        """What the pod's container wrote, also before it was restarted."""
        return self.api.get(f"{self.pod_path(name)}/log")

    def said(self, name):
        """The lines that the pod's container wrote before SAID_ALL, once that is there: a log is written line by line."""
        text = wait_for(lambda: f"{SAID_ALL}\n" in self.log(name) and self.log(name), 30, "the pod to say all that it sees")
        return text.partition(f"{SAID_ALL}\n")[0].splitlines()

    def result(self, command, limits=None, timeout=30):
        """Runs a pod to its end and returns what it wrote."""
        name = self.run("job", command, limits)
        self.wait_phase(name, "Succeeded", timeout=timeout)
        return self.log(name)

    def runner(self, name="runner", limits=None, greeting="env", restart="Always"):
        """A pod that writes something at its start and then runs on. Returns its name once it runs."""
        name = self.run(name, f"trap 'exit 0' TERM; {greeting}; sleep 3600 & wait", limits, restart)
        self.wait_phase(name, "Running")
        return name

    def container(self, name):
        """The status of a pod's container."""
        statuses = self.api.get(self.pod_path(name))["status"].get("containerStatuses")
        if not statuses:  # a kubelet that has just started
            raise NotYet(f"pod {name} has no container's status yet")
        return statuses[0]

    def uid(self, name):
        return self.api.get(self.pod_path(name))["metadata"]["uid"]

    def delete(self, name):
        """Asks for it and waits until the kubelet has ended it."""
        self.api.delete(self.pod_path(name))
        wait_for(lambda: self.api.find(self.pod_path(name)) is None, 30, f"{name} to be gone")

    def offers(self):
        """What can be had of nvidia.com/…; names of which nothing is left stay for five minutes."""
        given = self.node_object()["status"]["allocatable"]
        return {name: int(n) for name, n in given.items() if name.startswith("nvidia.com/") and n != "0"}

    def forget_sums(self):
        """A controller that is ended with its profile leaves what it published on the Node."""
        sums = ("nvidia.com/gpumem", "nvidia.com/gpucores", "aliyun.com/gpu-")
        gone = dict.fromkeys(name for name in self.node_object()["status"]["allocatable"] if name.startswith(sums))
        if gone:
            self.api.merge(f"/api/v1/nodes/{self.name}/status", {"status": {"allocatable": gone, "capacity": gone}})

    def wait_offers(self, timeout=30, **counts):
        """Waits until nothing else can be had: {"nvidia.com/gpu": 1}, by **."""
        wait_for(lambda: self.offers() == counts, timeout, lambda: f"the node to offer {counts}, not {self.offers()}")


class RealRig(Rig):
    """What one test builds on the real node. The controller runs beside the control plane."""

    image = "localhost/pause:1"

    def __init__(self, cluster, processes, release):
        super().__init__(cluster, processes, release)
        self.where = Inside(lambda: cluster.pid("network"), "net")

    def node(self, fleet=None, labels=None, start=False, slots=False, **flags):
        node = RealNode(self, fleet or {"h100-80": 1}, slots)
        self.nodes.append(node)
        node.label(**{"test": self.id, **(labels or {})})
        node.kubeconfig = self.agent_kubeconfig(node)
        if start:
            node.start(**flags)
        return node

    def clear(self):
        """The node is up and empty for the next test."""
        if not self.cluster.is_up():
            self.cluster.up()
        pods = [path for path in self.objects if "/pods/" in path]
        for path in reversed(self.objects):
            self.api.delete(path)
        wait_for(lambda: not any(self.api.find(path) for path in pods), 60, "the test's pods to be gone")
        self.processes.end()
        for node in self.nodes:
            self.api.delete(node.path)
            node.forget_sums()


@pytest.fixture(scope="session")
def real_cluster(rundir, request):
    reason = why_not(rundir)
    if reason:
        pytest.skip(reason)
    cluster = RealCluster(rundir / "real")
    cluster.start()
    install(cluster)
    yield cluster
    cluster.stop(purge=not request.session.testsfailed)


@pytest.fixture
def real_rig(real_cluster, processes, release):
    built = RealRig(real_cluster, processes, release)
    yield built
    built.end()


@pytest.fixture
def real_node(real_rig):
    """The node with one H100; real_rig.node(fleet) for other cards."""
    return real_rig.node()


@pytest.fixture
def halves(real_node):
    """The node with its H100 cut into a 3g.40gb and three 1g.10gb, served by our agent."""
    real_node.wait_offers()  # what the agent of the test before offered is off the Node
    real_node.start()
    wait_for(lambda: real_node.agrees(), 30, "the agent")
    real_node.want(mig(real_node.uuid(), {"3g.40gb": 1, "1g.10gb": 3}))
    real_node.wait_layout({"3g.40gb": 1, "1g.10gb": 3})
    real_node.wait_offers(**{HALF: 1, SMALL: 3})
    return real_node
