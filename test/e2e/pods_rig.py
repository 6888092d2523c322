# SPDX-License-Identifier: Apache-2.0
"""A cluster of three real nodes on which our programs run as pods, installed as the pages say.

    pods                the cluster, with nothing of ours on it: n1 and n2 have simulated cards, n3 has none
    pods.checkout()     a copy of the source's manifests and the chart of them, on which the commands of the pages work
    pods.node("n1")     a node and its cards; its methods are those of kubelet_rig.RealNode

A node has the driver's library below /usr, device files in /dev, and what the driver shows in /proc and
/sys at /run/cleave-sim: a container has a /proc and a /sys of its own, which nothing can be laid over.
Its runtime gives a container that asks for it the library and nvidia-smi, as NVIDIA's does. The API server
admits pods of the system's priority classes only where a quota allows them, as GKE's does. It is one
cluster for the run.
"""

import functools
import os
import re
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import yaml
from chart_rig import helm_homes, helm_program, load_maker
from conftest import HACK, PATIENCE, ROOT, Cluster, KubectlError, Processes, wait_for
from handover import WORKS
from kubelet_rig import RealNode, why_not
from namespaces import Inside, inside
from pod_images import REGISTRY, images
from stack import Rig, is_current

FLEETS = {"n1": {"h100-80": 4}, "n2": {"h100-80": 1, "a100-80": 1}, "n3": {}}
SIM = "/run/cleave-sim"
# All that the manifests are changed by for the simulator: where its files are, in place of the kernel's. Cards are read anew
# often, as no test is to wait half a minute.
FOR_THE_SIMULATOR = f"""
patches:
- target: {{kind: DaemonSet, labelSelector: app.kubernetes.io/part-of=cleave}}
  patch: |-
    - {{op: add, path: /spec/template/spec/containers/0/args/-, value: --proc-root={SIM}/proc}}
    - {{op: add, path: /spec/template/spec/containers/0/args/-, value: --sys-root={SIM}/sys}}
    - {{op: add, path: /spec/template/spec/containers/0/args/-, value: --resync-seconds=2}}
    - {{op: add, path: /spec/template/spec/containers/0/env/-, value: {{name: CLEAVE_SIM_STATE, value: {SIM}/hardware}}}}
    - {{op: add, path: /spec/template/spec/containers/0/env/-, value: {{name: CLEAVE_SIM_PROC, value: {SIM}/proc}}}}
    - {{op: add, path: /spec/template/spec/containers/0/volumeMounts/-, value: {{name: cleave-sim, mountPath: {SIM}}}}}
    - {{op: add, path: /spec/template/spec/volumes/-, value: {{name: cleave-sim, hostPath: {{path: {SIM}, type: DirectoryOrCreate}}}}}}
"""
CRITICAL = ["system-node-critical", "system-cluster-critical"]
LIMITS = {
    "apiVersion": "apiserver.config.k8s.io/v1",
    "kind": "ResourceQuotaConfiguration",
    "limitedResources": [{"resource": "pods", "matchScopes": [{"scopeName": "PriorityClass", "operator": "In", "values": CRITICAL}]}],
}
ADMISSION = {
    "apiVersion": "apiserver.config.k8s.io/v1",
    "kind": "AdmissionConfiguration",
    "plugins": [{"name": "ResourceQuota", "configuration": LIMITS}],
}
NAMESPACES = ("cleave-system", "cleave-node")


class PodsNode(RealNode):
    """One of the nodes. What it has besides the machine's files is made before it starts."""

    def __init__(self, cluster, name, fleet):
        self.cluster, self.name = cluster, name
        self.where = Inside(lambda: self.pid("init"))
        self.over = cluster.rundir / "over" / name
        self.folder = self.over / SIM.lstrip("/")
        self.folder.mkdir(parents=True)
        self.kubelet_dir = cluster.rundir / "nodes" / name / "kubelet"
        self.plugins = self.kubelet_dir / "device-plugins"
        self.env = {"CLEAVE_SIM_STATE": str(self.folder / "hardware"), "CLEAVE_SIM_PROC": str(self.folder / "proc")}
        self.fleet = self.write_fleet(fleet) if fleet else None
        if fleet:
            self.make_driver()
        else:  # a PCI bus without a card
            (self.folder / "sys/bus/pci/devices").mkdir(parents=True)

    def make_driver(self):
        self.env["CLEAVE_SIM_FLEET"] = str(self.fleet)
        self.ctl("init")
        self.ctl("sys-root", self.folder)
        for root in ("driver-root", "dev-root"):
            self.ctl(root, self.over)
        (self.over / "lib" / "firmware").rename(self.over / "usr" / "lib" / "firmware")  # /lib leads to /usr/lib

    @property
    def api(self):
        return self.rig.api

    def pid(self, name):
        return int((self.cluster.rundir / "nodes" / self.name / f"{name}.pid").read_text().split()[0])

    def up(self):
        runtime = ["--over", self.over, "--runtime", HACK / "nvidia-runtime.sh"] if self.fleet else []
        self.cluster.script("node-up.sh", self.cluster.rundir, "--name", self.name, *runtime, "--", "--admission-config", self.cluster.admission)

    def run(self, name, command, limits=None, restart="Never", **spec):
        return super().run(name, command, limits, restart, **{"nodeSelector": {"kubernetes.io/hostname": self.name}, **spec})

    def agent_pod(self):
        """The agent's pod here; None while there is none that does not end."""
        found = self.api.get("/api/v1/namespaces/cleave-node/pods")["items"]
        here = [p for p in found if p["spec"].get("nodeName") == self.name and "deletionTimestamp" not in p["metadata"]]
        return here[0] if here else None

    def wait_settled(self):
        """Until one agent is left here, and has the node for itself."""

        def look():
            found = [p for p in self.api.get("/api/v1/namespaces/cleave-node/pods")["items"] if p["spec"].get("nodeName") == self.name]
            return len(found) == 1 and WORKS in self.api.get(f"/api/v1/namespaces/cleave-node/pods/{found[0]['metadata']['name']}/log")

        wait_for(look, 60, lambda: f"one agent on {self.name}: {self.rig.why_not_ready()}")

    def resident(self):
        """The resident memory of each process of the agent's pod, in words."""
        (first, *_) = self.agent_pids()
        pod = os.readlink(f"/proc/{first}/ns/mnt")
        found = [pid for pid in sorted(map(int, filter(str.isdigit, os.listdir("/proc")))) if is_in(pid, pod)]
        return ", ".join(f"{process_name(pid)} {resident_kb(pid) / 1024:.1f} MiB" for pid in found)

    def agent_pids(self):
        """The agent's processes, the first one being all others' parent, as this machine numbers them."""
        home = os.readlink(f"/proc/{self.pid('init')}/ns/pid")
        return [pid for pid in sorted(map(int, filter(str.isdigit, os.listdir("/proc")))) if is_agent(pid, home)]


def is_agent(pid, home):
    try:
        return os.readlink(f"/proc/{pid}/exe").endswith("/cleave-agent") and os.readlink(f"/proc/{pid}/ns/pid") == home
    except OSError:
        return False


def is_in(pid, mount_namespace):
    try:
        return os.readlink(f"/proc/{pid}/ns/mnt") == mount_namespace
    except OSError:
        return False


def process_name(pid):
    return Path(f"/proc/{pid}/comm").read_text(encoding="ascii").strip()


def resident_kb(pid):
    return int(re.search(r"^VmRSS:\s+(\d+)", Path(f"/proc/{pid}/status").read_text(encoding="ascii"), re.M).group(1))


class PodsCluster(Cluster):
    def __init__(self, rundir):
        super().__init__(rundir)
        rundir.mkdir(parents=True)
        self.admission = rundir / "admission.yaml"
        self.admission.write_text(yaml.safe_dump(ADMISSION))

    def start(self):
        """The first node brings the control plane; the images are made meanwhile."""
        self.nodes = [PodsNode(self, name, fleet) for name, fleet in FLEETS.items()]
        with ThreadPoolExecutor() as pool:
            tars = pool.submit(images, self.rundir)
            self.nodes[0].up()
            list(pool.map(PodsNode.up, self.nodes[1:]))
            self.load(tars.result())
        self.server = (self.rundir / "server").read_text().strip()
        self.kubectl = self.kubectl_as(self.kubeconfig)

    def load(self, tars):
        self.script("load.sh", self.rundir, *tars.values())

    def stop(self, purge):
        self.script("node-down.sh", self.rundir, *(["--purge"] if purge else []))

    def network(self):
        return inside(int((self.rundir / "network.pid").read_text().split()[0]), "net")


class Checkout:
    """What somebody who installs has before him."""

    def __init__(self, pods, folder):
        self.pods, self.folder = pods, folder
        for name in ("crds", "config"):
            shutil.copytree(ROOT / name, folder / name)
        (folder / "hack").mkdir()
        shutil.copy(ROOT / "hack" / "uninstall.sh", folder / "hack")
        (folder / "bin").mkdir()
        self.program("kubectl", self.plugin_line(), f'exec {HACK}/kubectl.sh {pods.cluster.rundir} "$@"')
        self.kustomization = folder / "config" / "kustomization.yaml"
        with open(self.kustomization, "a", encoding="utf-8") as file:
            file.write(FOR_THE_SIMULATOR)

    def plugin_line(self):
        """kubectl finds its plugin, and hands it no flags that stand before its name, as those of kubectl.sh do."""
        (self.folder / "bin" / "kubectl-cleave").symlink_to(self.pods.release("kubectl-cleave"))
        return f'[ "$1" != cleave ] || exec {self.in_network()} env KUBECONFIG={self.pods.cluster.kubeconfig} {self.pods.cluster.kubectl.program} "$@"'

    def in_network(self):
        """What a command begins with that runs where the control plane can be reached."""
        return f"nsenter -t {(self.pods.cluster.rundir / 'network.pid').read_text().split()[0]} -n --"

    def program(self, name, *lines):
        """A shell script that the commands of pages find before others."""
        path = self.folder / "bin" / name
        path.write_text("\n".join(["#!/bin/sh", "set -e", *lines, ""]))
        path.chmod(0o755)
        return path

    def make_chart(self):
        """As `make chart VERSION=v1` does, and a helm that changes for the simulator what it installs, as kustomize does it here."""
        shutil.copytree(self.pods.chart, self.folder / "build" / "chart")
        rendered = self.folder / "rendered"
        rendered.mkdir()
        (rendered / "kustomization.yaml").write_text(f"resources: [all.yaml]\n{FOR_THE_SIMULATOR}")
        patch = self.program("for-the-simulator", f"cat >{rendered}/all.yaml", f"kubectl kustomize {rendered}")
        homes = " ".join(f"{name}={value}" for name, value in helm_homes(self.folder / "helm").items())
        helm = f"{self.in_network()} env {homes} {helm_program()} --kubeconfig {self.pods.cluster.kubeconfig}"
        self.program("helm", f'case $1 in install | upgrade) set -- "$@" --post-renderer {patch} ;; esac', f'exec {helm} "$@"')

    def next_chart(self, tag):
        """As `make chart VERSION=tag` does: the manifests are the same."""
        load_maker().write_versions(self.folder / "build" / "chart" / "cleave", tag)

    def make_chart_of(self, release):
        """The chart that a release had had, whose manifests lie in a folder; without its components."""
        maker = load_maker(release / "config")
        maker.components = list
        maker.make("before", self.folder / "build" / "chart-before")

    def sh(self, commands, timeout=300):
        """Runs commands of a page, all of which have to succeed, and returns what they printed."""
        env = {**os.environ, "PATH": f"{self.folder}/bin:{os.environ['PATH']}"}
        done = subprocess.run(["bash", "-euo", "pipefail", "-c", commands], cwd=self.folder, env=env, capture_output=True, text=True, timeout=timeout * PATIENCE)
        assert done.returncode == 0, f"{commands}\n{done.stdout}{done.stderr}"
        return done.stdout

    def uninstall(self):
        """As docs/operations.md has it, without its questions, and with all that people wrote."""
        self.sh(without_questions(section("docs/operations.md", "Uninstalling"), "--purge"))
        if (self.folder / "bin" / "helm").exists():
            self.sh("helm uninstall cleave -n default --ignore-not-found")

    def take(self, component):
        """Takes out the "#" before a component, as the file itself says."""
        text = self.kustomization.read_text()
        for line in ("components:", f"- {component} "):
            assert f"# {line}" in text or line == "components:", line
            text = text.replace(f"# {line}", line)
        self.kustomization.write_text(text)

    def name_images(self, tag="v1", programs=("cleave-controller", "cleave-agent")):
        """As README's second step, for any tag."""
        document = yaml.safe_load(self.kustomization.read_text())
        document["images"] = [{"name": name, "newName": f"{REGISTRY}/{name}", "newTag": tag} for name in programs]
        self.kustomization.write_text(yaml.safe_dump(document))

    def apply(self):
        self.sh("kubectl apply --server-side -k config")
        self.pods.wait_rolled_out()


class Pods(Rig):
    """The cluster and what the tests make on it."""

    image = "localhost/busybox:1"

    def __init__(self, cluster, release):
        super().__init__(cluster, Processes(cluster.rundir / "checkouts"), release)
        self.where = Inside(lambda: int((cluster.rundir / "network.pid").read_text().split()[0]), "net")
        self.nodes = cluster.nodes
        for node in self.nodes:
            node.rig = self
        self.folder.mkdir(exist_ok=True)

    @functools.cached_property
    def chart(self):
        """A folder as `make chart` leaves it; made once, since kustomize is asked for each component."""
        folder = self.cluster.rundir / "chart"
        load_maker().make("v1", folder)
        return folder

    def checkout(self):
        return Checkout(self, self.folder / f"checkout-{len(list(self.folder.iterdir()))}")

    def node(self, name):
        return next(n for n in self.nodes if n.name == name)

    def ours(self, namespace=None):
        """The pods of our programs that are not on their way out."""
        found = [p for ns in NAMESPACES if namespace in (None, ns) for p in self.api.get(f"/api/v1/namespaces/{ns}/pods")["items"]]
        return [p for p in found if "deletionTimestamp" not in p["metadata"]]

    def new_cards(self):
        """Cards as nobody cut them yet; for the time when nothing of ours runs, as they keep what an uninstalled Cleave made."""
        for node in self.nodes:
            if node.fleet:
                node.ctl("init", "--force")

    def wait_rolled_out(self, nodes=len(FLEETS)):
        """Until each pod of the newest template is Ready, and no other one is left."""
        deployments = self.api.get("/apis/apps/v1/namespaces/cleave-system/deployments")["items"]
        daemonsets = self.api.get("/apis/apps/v1/namespaces/cleave-node/daemonsets")["items"]
        for kind, what in [("deployment", d) for d in deployments] + [("daemonset", d) for d in daemonsets]:
            meta = what["metadata"]
            try:
                self.cluster.kubectl("-n", meta["namespace"], "rollout", "status", f"{kind}/{meta['name']}", f"--timeout={300 * PATIENCE}s")
            except KubectlError as error:
                pytest.fail(f"{error}\n{self.why_not_ready()}")
        # The pods of a node that was deleted go up to 80 s later: what collects them looks every 20 s, and leaves 40 s between.
        replicas = sum(d["spec"]["replicas"] for d in deployments)
        wait_for(lambda: len(self.ours("cleave-system")) == replicas and len(self.ours("cleave-node")) == nodes, 120, self.why_not_ready)

    def why_not_ready(self):
        said = self.cluster.kubectl.out("get", "pods", "-A", "-o", "wide")
        return f"{said}\n{self.cluster.kubectl.out('get', 'events', '-A', '--field-selector=type=Warning')}"

    def wait_devices(self):
        """Until each node has its Device, those with cards a Ready one."""
        for node in self.nodes:
            wait_for(lambda n=node: is_current(n.device()) if n.fleet else n.device().get("status"), 60, lambda n=node: f"the Device of {n.name}: {n.why_no_device()}")

    def clear(self):
        """The pods that tests made are gone."""
        for path in self.objects:
            self.api.delete(path, now=True)
        wait_for(lambda: not any(self.api.find(path) for path in self.objects), 60, "the tests' pods to be gone")
        self.objects.clear()

    def ended(self, besides=None):
        """Of containers of ours, but for those of that name, that ended and were started again: where, and how often."""
        statuses = [(p["metadata"]["name"], c) for p in self.ours() for c in p["status"].get("containerStatuses", []) if c["name"] != besides]
        return {name: c["restartCount"] for name, c in statuses if c["restartCount"]}


def section(page, title):
    """The first block of commands below a heading of a page."""
    text = (ROOT / page).read_text(encoding="utf-8")
    return re.search(rf"^#+ {re.escape(title)}$.*?^```sh\n(.*?)^```$", text, re.M | re.S).group(1)


def without_questions(commands, *more):
    """Commands that uninstall, where nobody is there to be asked."""
    words = " ".join(["hack/uninstall.sh", "--yes", *more])
    assert "hack/uninstall.sh" in commands
    return commands.replace("hack/uninstall.sh", words)


def steps(commands):
    """{1: ..., 2: ...} of a block of commands with comments "# 1. ..."."""
    found = re.split(r"^# (\d+)\. .*\n", commands, flags=re.M)
    return {int(number): text for number, text in zip(found[1::2], found[2::2])}


running = []


@pytest.fixture(scope="session")
def pods_cluster(rundir, request):
    """Each module that imports it has such a fixture of its own; the cluster is the first one's."""
    if running:
        yield running[0]
        return
    reason = why_not(rundir)
    if reason:
        pytest.skip(reason)
    cluster = PodsCluster(rundir / "pods")
    cluster.start()
    running.append(cluster)
    yield cluster
    running.clear()
    cluster.stop(purge=not request.session.testsfailed)


@pytest.fixture(scope="session")
def pods(pods_cluster):
    def release(name):
        return ROOT / "build" / "release" / name

    built = Pods(pods_cluster, release)
    yield built
    built.end()
