# SPDX-License-Identifier: Apache-2.0
"""Nodes of simulated cards with our programs on them, for tests of the whole.

    rig          makes nodes, agents, controllers and objects, and takes them all away again
    rig.node()   a Node, its hardware in a state file, and an agent with a real node-bound token
    rig.api      the API server as its admin, over one kept connection: polling costs next to nothing

Hardware is judged by the simulator's own tool (SimNode.layout), never by what a status says.
"""

import contextlib
import http.client
import itertools
import json
import os
import re
import signal
import socket
import ssl
import subprocess
import urllib.parse
from collections import Counter
from pathlib import Path

import pytest
import yaml
from confirmer import Confirmer
from conftest import ROOT, KubectlError, NotYet, is_write, made, note_pid, wait_for
from namespaces import Where, inside

GROUP = "/apis/gpu.cleave.dev/v1alpha1"
SIM = ROOT / "build" / "release" / "sim"
FLEETS = ROOT / "sim" / "fleets"
MERGE = "application/merge-patch+json"
PATCH = "application/json-patch+json"
APPLY = "application/apply-patch+yaml"
TOKEN_S = 7200
numbers = itertools.count(1)


NAMESPACES = {
    **dict.fromkeys(("cleave-controller", "cleave-scheduler", "cleave-webhook-certificate"), "cleave-system"),
    **dict.fromkeys(("cleave-agent", "cleave-agent-slots"), "cleave-node"),
}
# What Pod Security "restricted" asks of a pod.
RESTRICTED = {
    "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
    "container": {"securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}},
}


def shipped_container():
    """The agent's, in the shipped DaemonSet."""
    documents = yaml.safe_load_all((ROOT / "config" / "agent" / "daemonset.yaml").read_text())
    (agent,) = next(d for d in documents if d["kind"] == "DaemonSet")["spec"]["template"]["spec"]["containers"]
    return agent


def as_shipped():
    """What a command begins with to have the capabilities of the agent's container, whichever user starts it, and malloc's settings."""
    agent = shipped_container()
    added = agent["securityContext"]["capabilities"]["add"]
    settings = [f"{e['name']}={e['value']}" for e in agent["env"] if e["name"] == "GLIBC_TUNABLES"]
    return ["setpriv", "--bounding-set", ",".join(["-all", *(f"+{c.lower()}" for c in added)]), "env", *settings]


AS_SHIPPED = as_shipped()
VENDORS = ("nvidia.com/", "metax-tech.com/")  # whose names resources have


class ApiError(KubectlError):
    """The API server refused; code is the HTTP status."""

    def __init__(self, code, text):
        super().__init__(text)
        self.code = code


class Api:
    """The API server's REST interface with one token; user: as the admin in the name of this one, with an admin's rights, or a group's."""

    def __init__(self, cluster, token=None, user=None, group="system:masters"):
        self.cluster = cluster
        self.impersonation = {"Impersonate-User": user, "Impersonate-Group": group} if user else {}
        header = (cluster.rundir / "admin.header").read_text().strip()
        self.token = token or header.removeprefix("Authorization: Bearer ")
        self.tls = ssl.create_default_context(cafile=str(cluster.rundir / "certs" / "apiserver.crt"))
        self.connection = None
        server = urllib.parse.urlparse(cluster.server)
        self.where = (server.hostname, server.port)

    def request(self, method, path, body=None, kind="application/json"):
        """The answer as an object; ApiError when it is none of 2xx."""
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": kind, **self.impersonation}
        data = None if body is None else json.dumps(body)
        for attempt in (1, 2):
            try:
                self.connection = self.connection or self.connect()
                self.connection.request(method, path, data, headers)
                answer = self.connection.getresponse()
                text = answer.read().decode()
                break
            except (OSError, http.client.HTTPException) as error:
                self.connection = None
                if attempt == 2:
                    raise ApiError(0, f"{method} {path}: {error}") from error
        if answer.status >= 300:
            raise ApiError(answer.status, f"{method} {path}: {answer.status}: {text}")
        return json.loads(text) if answer.getheader("Content-Type", "").startswith("application/json") else text

    def connect(self):
        connection = http.client.HTTPSConnection(*self.where, context=self.tls, timeout=30)
        with self.cluster.network():
            connection.connect()
        connection.auto_open = 0  # again only from here
        return connection

    def close(self):
        if self.connection:
            self.connection.close()
        self.connection = None

    def get(self, path):
        return self.request("GET", path)

    def find(self, path):
        """As get, and None where there is nothing."""
        try:
            return self.get(path)
        except ApiError as error:
            if error.code == 404:
                return None
            raise

    def create(self, path, obj):
        return self.request("POST", path, obj)

    def merge(self, path, body):
        return self.request("PATCH", path, body, MERGE)

    def replace(self, path, member, value):
        """A member of the object, by its JSON pointer, whatever was there."""
        return self.request("PATCH", path, [{"op": "add", "path": member, "value": value}], PATCH)

    def apply(self, path, obj, manager="test"):
        return self.request("PATCH", f"{path}?fieldManager={manager}&force=true", obj, APPLY)

    def delete(self, path, now=False):
        """Gone or going; it is no error that it was not there. now: without a grace period."""
        try:
            return self.request("DELETE", path + ("?gracePeriodSeconds=0" if now else ""))
        except ApiError as error:
            if error.code != 404:
                raise
            return None


def condition(obj, kind):
    """The condition of this type of an object, a card or a status; {} when there is none."""
    conditions = obj.get("status", obj).get("conditions", [])
    return next((c for c in conditions if c["type"] == kind), {})


def is_true(obj, kind):
    return condition(obj, kind).get("status") == "True"


def is_current(obj, kind="Ready"):
    """Does the status speak of the newest spec, and is the condition true?"""
    return obj.get("status", {}).get("observedGeneration") == obj["metadata"]["generation"] and is_true(obj, kind)


def mig(uuid, profiles, **more):
    """A card of Device.spec that is to be cut."""
    return {"uuid": uuid, "mode": "mig", "mig": {"profiles": [{"profile": p, "count": n} for p, n in profiles.items()]}, **more}


def native(uuid, **more):
    return {"uuid": uuid, "mode": "native", **more}


def each_listening_port(pid):
    """The ports on which a process listens, those of IPv4 first."""
    sockets = set()
    for fd in os.listdir(f"/proc/{pid}/fd"):
        with contextlib.suppress(FileNotFoundError):
            sockets.add(os.readlink(f"/proc/{pid}/fd/{fd}"))
    for table in ("tcp", "tcp6"):
        with open(f"/proc/{pid}/net/{table}", encoding="ascii") as lines:
            next(lines)
            # Sockets that listen come first. To read on takes the kernel 20 ms: it walks a table with room for every connection.
            for words in itertools.takewhile(lambda words: words[3] == "0A", map(str.split, lines)):
                if f"socket:[{words[9]}]" in sockets:
                    yield int(words[1].split(":")[1], 16)


def listening_ports(pid):
    """All of them at once."""
    return sorted(set(each_listening_port(pid)))


def fetch(port, path, host="127.0.0.1"):
    """(status, body) of a plain HTTP server on this machine, or a pod's; (0, "") when it does not answer."""
    connection = http.client.HTTPConnection(host, port, timeout=10)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    except OSError:
        return 0, ""
    finally:
        connection.close()


def slot_records(folder):
    """What the agent of this folder has written of slots, at one moment: between two files one may go and another come."""

    def look():
        found = {}
        for path in (folder / "state" / "slots").glob("*.json"):
            with contextlib.suppress(FileNotFoundError):  # released between the list and the look
                found[path.name] = json.loads(path.read_text())
        return found

    found = look()
    while found != (found := look()):
        pass
    return list(found.values())


def serve(process, path):
    """What a program of ours answers on one of its two ports; (404, "") when on none."""
    with inside(process.pid, "net"):
        for port in each_listening_port(process.pid):
            code, body = fetch(port, path)
            if code != 404:
                return code, body
    return 404, ""


class ApiServer:
    """The kube-apiserver of the run, to be taken away for a while."""

    def __init__(self, cluster):
        self.cluster = cluster
        self.pidfile = cluster.rundir / "kube-apiserver.pid"
        self.pid = int(self.pidfile.read_text().split()[0])

    @contextlib.contextmanager
    def stopped(self):
        """It accepts connections and answers nothing, as over a network that swallows packets."""
        os.kill(self.pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(self.pid, signal.SIGCONT)
        self.wait()

    @contextlib.contextmanager
    def gone(self):
        """Killed; started again with the same words and the same port."""
        argv = open(f"/proc/{self.pid}/cmdline", "rb").read().rstrip(b"\0").split(b"\0")
        os.kill(self.pid, signal.SIGKILL)
        wait_for(lambda: not listening(self.cluster.server), 10, "the port to be closed")
        try:
            yield
        finally:
            with open(self.cluster.rundir / "kube-apiserver.log", "ab") as log:
                again = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)
            self.pid = again.pid
            note_pid(again.pid, self.pidfile)
        self.wait()

    def wait(self):
        wait_for(lambda: self.cluster.kubectl.out("get", "--raw", "/readyz") == "ok", 60, "the API server to be ready")


def listening(server):
    where = urllib.parse.urlparse(server)
    try:
        socket.create_connection((where.hostname, where.port), 1).close()
        return True
    except OSError:
        return False


class SimNode:
    """A Node, its simulated cards and its agent."""

    where = Where()

    def __init__(self, rig, name, fleet, slots=False):
        self.rig, self.api, self.name = rig, rig.api, name
        self.folder = rig.folder / name
        (self.folder / "state").mkdir(parents=True)
        self.fleet = Path(fleet) if os.path.isabs(str(fleet)) else self.write_fleet(fleet)
        self.env = {
            "CLEAVE_SIM_STATE": str(self.folder / "hardware"),
            "CLEAVE_SIM_FLEET": str(self.fleet),
            "CLEAVE_SIM_PROC": str(self.folder / "proc"),
        }
        self.has_slots = slots or "c500" in self.fleet.read_text()
        self.agent = None
        self.library = SIM / "libnvidia-ml.so.1"
        self.ctl("init")

    def write_fleet(self, fleet):
        """{"h100-80": 2} becomes a file; each node has other UUIDs."""
        path = self.folder / "fleet.yaml"
        cards = "".join(f"- {{model: {m}, count: {n}}}\n" for m, n in fleet.items())
        path.write_text(f'driverVersion: 580.95.05\ncudaVersion: "13.0"\nseed: {next(numbers)}\ngpus:\n{cards}')
        return path

    @property
    def account(self):
        """Of its agent: what a slot stands for is in its pod, which the agent then reads."""
        return "cleave-agent-slots" if self.has_slots else "cleave-agent"

    # --- the hardware ---

    def ctl(self, *words):
        """Runs cleave-simctl on this node's cards."""
        done = subprocess.run(
            [SIM / "cleave-simctl", *map(str, words)], env={**os.environ, **self.env}, capture_output=True, text=True, timeout=60
        )
        assert done.returncode == 0, f"simctl {words}: {done.stderr}"
        return done.stdout

    def smi(self, *words):
        """Runs nvidia-smi on this node's cards, as another program that changes them."""
        done = subprocess.run(
            [SIM / "nvidia-smi", *map(str, words)], env={**os.environ, **self.env, "LD_LIBRARY_PATH": str(SIM)}, capture_output=True, text=True, timeout=60
        )
        assert done.returncode == 0, f"nvidia-smi {words}: {done.stdout}{done.stderr}"
        return done.stdout

    def hardware(self):
        return json.loads(self.ctl("show", "--json"))

    def cards(self):
        return self.hardware()["gpus"]

    def uuid(self, gpu=0):
        return self.cards()[gpu]["uuid"]

    def layout(self, gpu=0):
        """{"1g.10gb": 2, ...} of a card with MIG on, "native" of another one."""
        return layout_of(self.cards()[gpu])

    def layouts(self):
        """Of all cards, one vendor's after the other's."""
        hardware = self.hardware()
        return [layout_of(card) for card in hardware["gpus"]] + [slices_of(card) for card in hardware["metax"]]

    def placements(self, gpu=0):
        """What a rollback must restore: profile and place of each instance, without its ids."""
        return sorted((i["profile"], i["placement"]["start"], i["placement"]["size"]) for i in self.cards()[gpu]["gpuInstances"])

    def instance(self, profile, gpu=0):
        """The id of the first GPU instance of a profile."""
        return next(i["id"] for i in self.cards()[gpu]["gpuInstances"] if i["profile"] == profile)

    def calls(self):
        """How often each library call was made since the state file was."""
        return {name: int(n) for n, name in re.findall(r"^\s*(\d+)\s+(nvml\w+)", self.ctl("calls"), re.M)}

    def reads(self):
        """How often the agent has looked at all of the hardware."""
        return self.calls().get("nvmlDeviceGetCount_v2", 0)

    def changes(self):
        """The log of calls that change cards."""
        return [json.loads(line) for line in self.ctl("log", "--json", "--mutating").splitlines() if line.strip()]

    # --- the agent ---

    def argv(self, program=None, **flags):
        flags = {
            "node_name": self.name,
            "kubeconfig": self.kubeconfig,
            "nvml_library": self.library,
            "mxsml_library": SIM / "libmxsml.so",
            "nvidia_smi": SIM / "nvidia-smi",
            "state_dir": self.folder / "state",
            "proc_root": self.folder / "proc",
            "sys_root": self.folder / "sys",
            "health_addr": "127.0.0.1:0",
            "metrics_addr": "127.0.0.1:0",
            "resync_seconds": 1,
            "telemetry_interval": 0,  # its calls would be among those that tests count, and have fail
            "resources": "controller",
            **flags,
        }
        program = program or self.rig.release("cleave-agent")
        return [program, "run", *itertools.chain(*((f"--{k.replace('_', '-')}", str(v)) for k, v in flags.items() if v is not None))]

    def start(self, program=None, env=None, name="agent", **flags):
        """Starts an agent with the capabilities of the shipped DaemonSet and returns its Process; the newest one is SimNode.agent."""
        argv = [*AS_SHIPPED, *self.argv(program, **flags)]
        if flags.get("resources", "controller") == "controller":
            self.rig.confirm()
        self.agent = self.rig.processes(f"{name}-{self.name}", *argv, env={**self.env, **(env or {})}, where=self.where)
        return self.agent

    # --- what the API server holds ---

    @property
    def path(self):
        return f"{GROUP}/devices/{self.name}"

    def device(self):
        return self.api.get(self.path)

    def status(self):
        return self.device().get("status", {})

    def cards_told(self):
        """The cards as the status has them, with their conditions; an agent offers what it has before it has told of it."""
        status = self.status()
        if "devices" not in status:
            raise NotYet(f"the status of Device {self.name} has no cards")
        return status["devices"]

    def shares_told(self, by="uuid"):
        """The shares of pods, as the status has them: {pod: [(card, MiB, percent)]}; a card by this field of it."""
        found = {}
        for card in self.cards_told():
            for part in card.get("partitions", []):
                for user in part.get("inUseBy", []):
                    found.setdefault(user["name"], []).append((card[by], part["slice"]["memoryMiB"], part["slice"]["computePercent"]))
        return found

    def card(self, gpu=0):
        """A card as the status has it, with its conditions."""
        told = [c for c in self.cards_told() if c["index"] == gpu]
        if not told:
            raise NotYet(f"the status of Device {self.name} has no card {gpu}")
        return told[0]

    def applied(self, gpu=0):
        return condition(self.card(gpu), "Applied")

    def resources(self):
        return {r["name"]: r["count"] for r in self.status().get("resources", [])}

    def want(self, *devices, **more):
        """Writes Device.spec as the controller does, at once and as a whole, and returns the generation."""
        return self.api.replace(self.path, "/spec", {"devices": list(devices), **more})["metadata"]["generation"]

    def node_object(self):
        return self.api.get(f"/api/v1/nodes/{self.name}")

    def labels(self):
        return self.node_object()["metadata"]["labels"]

    def label(self, **labels):
        """Sets labels; None removes one. Underscores stand for nothing: give real keys by **{}."""
        self.api.merge(f"/api/v1/nodes/{self.name}", {"metadata": {"labels": labels}})

    def offers(self):
        """Allocatable in vendors' domains, after a look that capacity says the same."""
        status = self.node_object()["status"]
        given, has = ({k: int(v) for k, v in status[m].items() if k.startswith(VENDORS)} for m in ("allocatable", "capacity"))
        return given if given == has else {"allocatable": given, "capacity": has}

    # --- waiting ---

    def wait_ready(self, timeout=30):
        return wait_for(lambda: self.agrees(), timeout, lambda: f"Device {self.name} to be Ready: {json.dumps(self.status().get('conditions'))}")

    def agrees(self):
        """The Device, once it is Ready and nothing is left to be said of what the Node offers."""
        device = self.device()
        said = device.get("spec", {}).get("withdrawn") == device.get("status", {}).get("withdrawal")
        return device if said and is_current(device) else None

    def wait_applied(self, reason, gpu=0, timeout=30):
        """Waits for the reason of a card's condition Applied, and returns the condition."""

        def look():
            found = self.applied(gpu)
            return found if found.get("reason") == reason else None

        return wait_for(look, timeout, lambda: f"Applied to say {reason} on {self.name}; it says {self.applied(gpu)}")

    def wait_layout(self, layout, gpu=0, timeout=30):
        wait_for(lambda: self.layout(gpu) == layout, timeout, lambda: f"card {gpu} of {self.name} to be {layout}, not {self.layout(gpu)}")

    def wait_reads(self, more, timeout=30):
        """Until the agent has looked at the hardware a few times more: time for it to do something."""
        target = self.reads() + more
        wait_for(lambda: self.reads() >= target, timeout, f"{more} more readings of {self.name}'s hardware")

    def run_pod(self, name, gpu, gi, pid, labels=None):
        """A pod bound to this node with a process on an instance. Returns its uid."""
        pod = self.rig.pod(name, self.name, labels)
        uid = pod["metadata"]["uid"]
        self.attach(gpu, gi, pid, "--pod-uid", uid, "--name", name)
        return uid

    def attach(self, gpu, gi, pid, *more):
        where = () if gi is None else ("--gi", gi, "--ci", 0)
        self.ctl("attach", "--gpu", gpu, *where, "--pid", pid, *more)

    def detach(self, pid):
        self.ctl("detach", "--pid", pid)


def slices_of(card):
    """{"small": 4, ...} of one of MetaX's cards with slices on, by their kinds; "native" of another one."""
    if not card["sgpu"]:
        return "native"
    return dict(Counter(re.sub(r"-\d+$", "", s["alias"].removeprefix("cleave.")) for s in card["slices"]))


def layout_of(card):
    if not card["migCurrent"]:
        return "native"
    return dict(Counter(i["profile"] for i in card["gpuInstances"]))


def bound_to(pod):
    """A pod as what a token is bound to."""
    return {"kind": "Pod", "apiVersion": "v1", "name": pod["metadata"]["name"], "uid": pod["metadata"]["uid"]}


class Rig:
    """What one test builds."""

    image = "localhost/never-run"
    where = Where()

    def __init__(self, cluster, processes, release):
        self.cluster, self.processes, self.release = cluster, processes, release
        self.api = Api(cluster)
        self.scheduler = Api(cluster, user="system:kube-scheduler")  # writes what config/slots keeps for schedulers
        self.folder = processes.folder
        self.id = f"t{next(numbers)}"
        self.nodes, self.objects = [], []
        self.confirmer, self.has_controller = None, False
        self.mark = cluster.audit_mark()

    # --- nodes ---

    def node(self, fleet=None, labels=None, start=True, slots=False, **flags):
        """A node of its own with its agent; fleet is {"h100-80": 1} or a file. It carries the label test=<rig.id>.

        slots: its agent may read pods, as those of MetaX's nodes may (config/slots).
        """
        name = f"{self.id}-n{len(self.nodes)}"
        self.add_node_object(name, labels)
        node = SimNode(self, name, fleet or {"h100-80": 1}, slots)
        self.nodes.append(node)
        node.kubeconfig = self.agent_kubeconfig(node)
        if start:
            node.start(**flags)
            wait_for(lambda: is_current(node.device()), 30, f"the agent of {name}")
        return node

    def add_node_object(self, name, labels=None):
        resources = {"cpu": "64", "memory": "512Gi", "pods": "110"}
        self.api.create(
            "/api/v1/nodes",
            {
                "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, "test": self.id, **(labels or {})}},
                "status": {"capacity": resources, "allocatable": resources, "conditions": [{"type": "Ready", "status": "True"}]},
            },
        )

    def agent_kubeconfig(self, node):
        """As hack/kube/agent-token.sh: a token that is bound to a pod on the node."""
        account = node.account
        pod = self.pod(f"agent-{node.name}", node.name, namespace="cleave-node", account=account)
        return self.write_kubeconfig(f"agent-{node.name}", self.token(account, pod))

    def token(self, account, pod=None):
        """A token of one of our ServiceAccounts, bound to this pod, or to none."""
        spec = {"expirationSeconds": TOKEN_S, **({"boundObjectRef": bound_to(pod)} if pod else {})}
        path = f"/api/v1/namespaces/{NAMESPACES[account]}/serviceaccounts/{account}/token"
        return self.api.create(path, {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec})["status"]["token"]

    def controller_kubeconfig(self, name):
        """Credentials as the Deployment's replicas have them: the token names the pod <rig.id>-<name>, which is made here."""
        pod = self.controller_pod(name)
        return self.write_kubeconfig(name, self.token("cleave-controller", pod))

    def controller_pod(self, name):
        """A pod of the controller's that never runs, as Pod Security "restricted" lets it in."""
        path = f"/api/v1/namespaces/cleave-system/pods/{self.id}-{name}"
        return self.api.find(path) or self.pod(
            f"{self.id}-{name}", None, namespace="cleave-system", account="cleave-controller", schedulerName="none", **RESTRICTED
        )

    def give_lease(self, name):
        """The pod of this name has the Lease and is the Leader, whatever it does: the API server takes its writes."""
        path = "/apis/coordination.k8s.io/v1/namespaces/cleave-system/leases/cleave-controller"
        meta = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "cleave-controller", "namespace": "cleave-system"}}
        self.api.apply(path, {**meta, "spec": {"holderIdentity": f"{self.id}-{name}_given", "leaseDurationSeconds": 1}})
        leader = f"{GROUP}/leaders/cleave-controller"
        meta = {"apiVersion": "gpu.cleave.dev/v1alpha1", "kind": "Leader", "metadata": {"name": "cleave-controller"}}
        self.api.apply(leader, {**meta, "spec": {"holder": f"{self.id}-{name}_given"}})
        self.objects += [p for p in (path, leader) if p not in self.objects]

    def write_kubeconfig(self, name, token):
        file = self.folder / f"{name}.kubeconfig"
        file.parent.mkdir(parents=True, exist_ok=True)
        cluster = {"server": self.cluster.server, "certificate-authority": str(self.cluster.rundir / "certs" / "apiserver.crt")}
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "test",
            "clusters": [{"name": "test", "cluster": cluster}],
            "users": [{"name": "test", "user": {"token": token}}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
        }
        file.write_text(json.dumps(config))
        return file

    def pod(self, name, node, labels=None, namespace="default", account="default", container=None, **spec):
        obj = {
            "metadata": {"name": name, "labels": labels or {}},
            "spec": {
                "nodeName": node,
                "serviceAccountName": account,
                "automountServiceAccountToken": False,
                "tolerations": [{"operator": "Exists"}],
                "containers": [{"name": "main", "image": self.image, **(container or {})}],
                **spec,
            },
        }
        path = f"/api/v1/namespaces/{namespace}/pods"
        self.objects.append(f"{path}/{name}")
        return self.api.create(path, obj)

    @staticmethod
    def restricted():
        """More of a pod that Pod Security "restricted" lets in."""
        return RESTRICTED

    # --- the controller ---

    def controller(self, name="controller", program=None, kubeconfig=None, wait=True, env=None, **flags):
        """Starts cleave-controller with the rights of its ServiceAccount, and waits until it is ready. It takes itself for the pod
        <rig.id>-<name>, to which its token is bound; identity is what follows the pod's name."""
        if "identity" in flags:
            flags["identity"] = f"{self.id}-{name}_{flags['identity']}"
        flags = {
            "kubeconfig": kubeconfig or self.controller_kubeconfig(name),
            "pod_name": f"{self.id}-{name}",
            "namespace": "cleave-system",
            "health_addr": "127.0.0.1:0",
            "metrics_addr": "127.0.0.1:0",
            **flags,
        }
        words = [f"--{k.replace('_', '-')}={v}" for k, v in flags.items()]
        self.has_controller = True
        self.end_confirmer()
        process = self.processes(name, program or self.release("cleave-controller"), "--leader-elect", *words, env=env, where=self.where)
        if wait:
            wait_for(lambda: process.running() and serve(process, "/readyz")[0] == 200, 30, lambda: f"the controller to be ready:\n{process.tail()}")
        return process

    def confirm(self):
        """Says to the agents what cleave-controller would, in a test that never starts one."""
        if self.has_controller or self.confirmer:
            return
        self.confirmer = Confirmer(Api(self.cluster), lambda: [n.path for n in self.nodes], ApiError)
        self.confirmer.start()

    def end_confirmer(self):
        if self.confirmer:
            self.confirmer.end()
        self.confirmer = None

    # --- policy ---

    def make(self, plural, name, spec):
        kind = {"gpuprofiles": "GPUProfile", "migconfigs": "MIGConfig"}[plural]
        path = f"{GROUP}/{plural}/{name}"
        obj = {"apiVersion": "gpu.cleave.dev/v1alpha1", "kind": kind, "metadata": {"name": name}, "spec": spec}
        self.objects.append(path)
        return self.api.apply(path, obj)

    def profile(self, name, *devices, **spec):
        """Applies a GPUProfile for this test's nodes, and returns its path."""
        self.make("gpuprofiles", f"{self.id}-{name}", {"nodeSelector": {"matchLabels": {"test": self.id}}, "devices": list(devices), **spec})
        return f"{GROUP}/gpuprofiles/{self.id}-{name}"

    def config(self, name, *devices, aliases=None):
        spec = {"devices": list(devices), **({"aliases": aliases} if aliases else {})}
        self.make("migconfigs", name, spec)
        return f"{GROUP}/migconfigs/{name}"

    def wait_ready(self, path, timeout=30):
        return self.wait_condition(path, "Ready", None, timeout)

    def wait_condition(self, path, kind, reason=None, timeout=30):
        """Waits until the condition is true of the newest generation, with this reason; returns the object."""

        def look():
            obj = self.api.get(path)
            if is_current(obj, kind) and reason in (None, condition(obj, kind)["reason"]):
                return obj
            return None

        return wait_for(look, timeout, lambda: f"{kind} {reason or ''} of {path}: {json.dumps(self.api.get(path).get('status'))}")

    def events(self, name, reason=None):
        """Events about the object of this name, as events.k8s.io has them."""
        found = self.api.get("/apis/events.k8s.io/v1/events")["items"]
        return [e for e in found if e["regarding"].get("name") == name and reason in (None, e["reason"])]

    def writes(self, mark=None, by="cleave", resource=None, until=None):
        """The writes of our programs since the test began or since a mark, up to another one, Events apart."""
        mine = self.mine(self.cluster.writes(self.mark if mark is None else mark, by, until))
        return [e for e in mine if resource is None or e["objectRef"]["resource"] == resource]

    def writes_while(self, action, by="cleave"):
        """The writes of our programs that came in while action() ran, Events apart."""
        return self.mine(e for e in self.cluster.audit_while(action) if is_write(e, by))

    def mine(self, writes):
        """Those of this test's objects, and of such as have no name yet; Events apart."""
        names = ((e, e["objectRef"].get("name")) for e in writes if e["objectRef"]["resource"] != "events")
        return [e for e, name in names if not name or name.startswith(f"{self.id}-")]

    def end(self):
        """Nothing that the test started runs on."""
        try:
            self.clear()
        finally:
            self.end_confirmer()
            self.scheduler.close()
            self.api.close()

    def clear(self):
        """Nothing that the test made is left for the next one."""
        self.processes.end()
        for path in reversed(self.objects):
            self.api.delete(path, now="/pods/" in path)
        for node in self.nodes:
            self.api.delete(node.path)
            self.api.delete(f"/api/v1/nodes/{node.name}")


def sanitized(name):
    """The path of a program with ASan and UBSan, built if need be, and its environment."""
    program = made("san", name)
    return program, {"ASAN_OPTIONS": "detect_leaks=1:exitcode=99", "UBSAN_OPTIONS": "halt_on_error=1:exitcode=98"}


# What components have besides workloads: accounts and policies, and not the webhook, which its own test installs.
OF_COMPONENTS = {"slots": ("account", "pod-shares", "pod-slots"), "scheduler-webhook": ("account",), "scheduler": ("account", "scheduler-lease", "scheduler-node", "scheduler-pod")}


def files_of_components():
    """Arguments of kubectl."""
    return [f"--filename={ROOT}/config/{folder}/{name}.yaml" for folder, names in OF_COMPONENTS.items() for name in names]


def install(cluster):
    """Everything of config/ that needs no image."""
    if getattr(cluster, "installed", False):
        return
    for folder in ("crds", "config/namespace", "config/rbac", "config/admission"):
        cluster.kubectl("apply", "--server-side", "-k", ROOT / folder)
    cluster.kubectl("apply", "--server-side", *files_of_components())
    cluster.kubectl("wait", "--for=condition=Established", "crd", "-l", "app.kubernetes.io/part-of=cleave", "--timeout=30s")
    wait_policies(cluster)
    cluster.installed = True


def wait_policies(cluster):
    """An API server asks a policy a moment after it has it. The one that files_of_components() has last stands for all."""
    api = Api(cluster, user="system:serviceaccount:cleave-system:cleave-scheduler")
    pod = {"metadata": {"generateName": "policies-"}, "spec": {"containers": [{"name": "main", "image": "none"}]}}

    def is_refused():
        try:
            api.request("POST", "/api/v1/namespaces/default/pods?dryRun=All", pod)
        except ApiError as error:
            return "cleave-scheduler makes no pod" in str(error)
        return False

    wait_for(is_refused, 30, "the policies to be in force")
    api.close()


@pytest.fixture
def rig(cluster, processes, release):
    install(cluster)
    built = Rig(cluster, processes, release)
    yield built
    built.end()
