# SPDX-License-Identifier: Apache-2.0
"""What the parts of `make bench` build on: a control plane on loopback, our release builds on
simulated cards, watches with the time of each event, and the figures that were found."""

import http.client
import json
import os
import queue
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
from pathlib import Path
from urllib.parse import urlparse

ROOT = Path(__file__).resolve().parents[2]
BIN = ROOT / "build/release"
RUN = ROOT / "build/bench"
GROUP = "/apis/gpu.cleave.dev/v1alpha1"
NODES = int(os.environ.get("BENCH_NODES", "5000"))
CHANGES = int(os.environ.get("BENCH_CHANGES", "100"))
IDLE_SECONDS = int(os.environ.get("BENCH_IDLE_SECONDS", "60"))
TICKS = os.sysconf("SC_CLK_TCK")

results = {}


class Skip(Exception):
    """The part cannot be measured on this machine; the text says why."""


def show(part, what, value, aim=""):
    print(f"  {what:<70} {value:>14}  {aim}", flush=True)
    results.setdefault(part, {})[what] = value


def script(name, *args):
    done = subprocess.run([ROOT / "hack/kube" / name, *map(str, args)], capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"hack/kube/{name}: {done.stdout}{done.stderr}")
    return done.stdout.strip()


class Api:
    """The API server over one kept connection; one thread. What it starts ends when `ended` is set."""

    def __init__(self, rundir, ended=None):
        self.rundir, self.ended = rundir, ended or threading.Event()
        url = urlparse((rundir / "server").read_text().strip())
        config = json.loads(
            subprocess.run(
                [Path((rundir / "bin-dir").read_text().strip()) / "kubectl", "--kubeconfig",
                 rundir / "admin.kubeconfig", "config", "view", "--raw", "-o", "json"],
                capture_output=True, check=True).stdout)
        self.token = config["users"][0]["user"]["token"]
        self.host, self.port = url.hostname, url.port
        self.tls = ssl.create_default_context(cafile=rundir / "certs/apiserver.crt")
        self.conn = self.connect()

    def connect(self, timeout=120):
        return http.client.HTTPSConnection(self.host, self.port, context=self.tls, timeout=timeout)

    def send(self, conn, method, path, body=None, kind="application/json"):
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": kind}
        conn.request(method, path, json.dumps(body) if body is not None else None, headers)
        return conn.getresponse()

    def call(self, method, path, body=None, kind="application/json", ok=(200, 201)):
        answer = self.send(self.conn, method, path, body, kind)
        text = answer.read()
        if answer.status not in ok:
            raise RuntimeError(f"{method} {path}: {answer.status} {text[:300]}")
        return json.loads(text)

    def merge(self, path, body):
        return self.call("PATCH", path, body, "application/merge-patch+json")

    def watch(self, path, out):
        """Puts (time, object) of every event into a queue, from a thread of its own."""

        version = ""

        def follow():
            nonlocal version
            since = f"&resourceVersion={version}" if version else ""
            answer = self.send(self.connect(timeout=3600), "GET", path + ("&" if "?" in path else "?") + "watch=1" + since)
            if answer.status != 200:
                answer.read()
                self.ended.wait(0.05)
                return
            for line in answer:
                event = json.loads(line)
                if event["type"] == "ERROR":  # the version is too old: from the present state again
                    version = ""
                    return
                version = event["object"]["metadata"]["resourceVersion"]
                out.put((time.monotonic(), event["type"], event["object"]))

        def run():
            while not self.ended.is_set():  # a slow reader is cut off; a resource that was defined just now answers 404 for a moment
                try:
                    follow()
                except (OSError, http.client.HTTPException, json.JSONDecodeError):  # broken off, at the end for good
                    self.ended.wait(0.05)

        threading.Thread(target=run, daemon=True).start()


class Proc:
    def __init__(self, name, argv, env=None):
        self.name = name
        self.log = open(RUN / f"{name}.log", "ab")
        self.popen = subprocess.Popen(list(map(str, argv)), env={**os.environ, **(env or {})}, stdin=subprocess.DEVNULL,
                                      stdout=self.log, stderr=subprocess.STDOUT, cwd=ROOT)

    def stop(self):
        self.popen.send_signal(signal.SIGTERM)
        self.popen.wait(timeout=20)


def cpu_s(pid):
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def status_kib(pid, key):
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(key + ":"):
            return int(line.split()[1])
    return 0


def anonymous_mib(pid):
    return status_kib(pid, "RssAnon") / 1024


def resident_mib(pid):
    return status_kib(pid, "VmRSS") / 1024


def proportional_mib(pid):
    """With what several processes share divided among them."""
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) / 1024
    return 0


def simulator_mib(pid):
    """Of what is resident: the simulated libraries and their state file, which a node with a driver does not have."""
    kib, ours = 0, False
    for line in Path(f"/proc/{pid}/smaps").read_text().splitlines():
        words = line.split()
        if "-" in words[0] and not words[0].endswith(":"):
            ours = len(words) > 5 and (words[5].startswith(str(BIN / "sim")) or words[5].endswith("/hardware"))
        elif words[0] == "Rss:" and ours:
            kib += int(words[1])
    return kib / 1024


def context_switches(pid):
    total = 0
    for task in Path(f"/proc/{pid}/task").iterdir():
        for line in (task / "status").read_text().splitlines():
            if line.startswith("voluntary_ctxt"):
                total += int(line.split()[1])
    return total


class Stack:
    """A control plane with our resources installed, and programs of ours."""

    def __init__(self, name):
        self.dir = RUN / name
        shutil.rmtree(self.dir, ignore_errors=True)
        self.dir.mkdir(parents=True)
        script("up.sh", self.dir / "kube", "--no-audit")
        self.ended = threading.Event()
        self.api = Api(self.dir / "kube", self.ended)
        self.kubeconfig = self.dir / "kube/admin.kubeconfig"
        self.kubectl("apply", "--server-side", "-k", ROOT / "crds")
        self.kubectl("wait", "--for=condition=Established", "crd", "--all", "--timeout=60s")
        self.kubectl("create", "namespace", "cleave-system")
        self.procs = []

    def kubectl(self, *args, stdin=None):
        program = Path((self.dir / "kube/bin-dir").read_text().strip()) / "kubectl"
        return subprocess.run([program, "--kubeconfig", self.kubeconfig, *map(str, args)], input=stdin, check=True,
                              capture_output=True, text=True).stdout

    def node(self, name, *labels):
        script("node.sh", self.dir / "kube", name, *labels)

    def start(self, name, argv, env=None):
        proc = Proc(f"{self.dir.name}-{name}", argv, env)
        self.procs.append(proc)
        return proc

    def sim_env(self, node, fleet):
        return {"CLEAVE_SIM_STATE": str(self.dir / f"{node}.hw"), "CLEAVE_SIM_FLEET": str(ROOT / "sim/fleets" / fleet)}

    def state_dir(self, node):
        """Of the journals: in memory, as etcd's fsync is off too, so that no disk is measured."""
        shm = Path("/dev/shm")
        return (shm if shm.is_dir() else self.dir) / f"cleave-bench-{os.getpid()}-{node}"

    def agent(self, node, fleet):
        return self.start(f"agent-{node}", [
            BIN / "cleave-agent", "run", "--node-name", node, "--kubeconfig", self.kubeconfig,
            "--nvml-library", BIN / "sim/libnvidia-ml.so.1", "--nvidia-smi", BIN / "sim/nvidia-smi",
            "--resources", "controller", "--state-dir", self.state_dir(node), "--health-addr", "127.0.0.1:0", "--metrics-addr", "127.0.0.1:0",
        ], self.sim_env(node, fleet))

    def controller(self, *flags):
        return self.start("controller", [
            BIN / "cleave-controller", "--kubeconfig", self.kubeconfig, "--leader-elect", "--namespace", "cleave-system",
            "--health-addr", "127.0.0.1:0", "--metrics-addr", "127.0.0.1:0", *flags])

    def simctl(self, node, *args):
        return subprocess.run([BIN / "sim/cleave-simctl", *args], env={**os.environ, **self.sim_env(node, "h100x8.yaml")},
                              check=True, capture_output=True, text=True).stdout

    def server_pid(self):
        return int((self.dir / "kube/kube-apiserver.pid").read_text().split()[0])

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.ended.set()
        for proc in reversed(self.procs):
            proc.stop()
        script("down.sh", self.dir / "kube", "--purge")
        for left in Path("/dev/shm").glob(f"cleave-bench-{os.getpid()}-*"):
            shutil.rmtree(left, ignore_errors=True)


def drain(events):
    while True:
        try:
            yield events.get_nowait()
        except queue.Empty:
            return


def quiet(events, seconds):
    """Waits until nothing has happened for so long; returns when the last thing did."""
    last = time.monotonic()
    while True:
        try:
            last = events.get(timeout=seconds)[0]
        except queue.Empty:
            return last


def until(predicate, seconds, what):
    end = time.monotonic() + seconds
    while not predicate():
        if time.monotonic() > end:
            sys.exit(f"bench: waited {seconds} s for {what}; logs are in {RUN}")
        time.sleep(0.005)


def in_parallel(count, work, threads=8):
    """work(api, i) for every i, each thread on a connection of its own."""
    numbers = iter(range(count))
    lock = threading.Lock()
    failed = []

    def run(stack_api):
        api = Api(stack_api.rundir)
        while not failed:
            with lock:
                i = next(numbers, None)
            if i is None:
                return
            try:
                work(api, i)
            except Exception as error:  # shown once, below
                failed.append(error)

    def start(api):
        pool = [threading.Thread(target=run, args=(api,)) for _ in range(threads)]
        for t in pool:
            t.start()
        for t in pool:
            t.join()
        if failed:
            raise failed[0]

    return start


class Node:
    """Follows one node's label state and its Device by watches, with the time of each event."""

    def __init__(self, api, name):
        self.api, self.name = api, name
        self.generation = 0  # of the Device's spec, when the last change was done
        self.events = queue.Queue()
        api.watch(f"/api/v1/nodes?fieldSelector=metadata.name={name}", self.events)
        api.watch(f"{GROUP}/devices?fieldSelector=metadata.name={name}", self.events)

    def set(self, config):
        """Sets the label; returns the seconds until state success and the hardware's new layout were both told."""
        for _ in drain(self.events):
            pass
        before = time.monotonic()
        self.api.merge(f"/api/v1/nodes/{self.name}", {"metadata": {"labels": {"nvidia.com/mig.config": config}}})
        return self.settled(before)

    def settled(self, before, seconds=300):
        pending = applied = success = None  # two watches: their events come in any order
        while not (applied and success):
            at, _, obj = self.events.get(timeout=seconds)
            if obj["kind"] == "Device":
                status = obj.get("status", {})
                conditions = {c["type"]: c["status"] for c in status.get("conditions", [])}
                observed = status.get("observedGeneration", 0)
                done = observed == obj["metadata"]["generation"] > self.generation and conditions.get("Ready") == "True"
                applied = at if done else None
                continue
            state = obj["metadata"]["labels"].get("nvidia.com/mig.config.state")
            if state == "failed":
                sys.exit("bench: the label's state is failed")
            pending = pending or state == "pending"
            success = at if pending and state == "success" else None
        self.generation = observed
        return max(applied, success) - before


def quantile(values, q):
    values = sorted(values)
    return values[min(len(values) - 1, int(q * len(values)))]


def buckets_of(page, series):
    name, _, labels = series.rstrip("}").partition("{")
    begin = f"{name}_bucket{{{labels}{',' if labels else ''}le=\""
    lines = [line.removeprefix(begin).split('"} ') for line in page.splitlines() if line.startswith(begin)]
    return [(float(bound), int(count)) for bound, count in lines]


def at_most(page, series, q, since=""):
    """The bound under which so many of a histogram's values are, by a page of metrics, of those that an earlier page has not; series: its
    name and labels, `name{a="b"}`."""
    earlier = dict(buckets_of(since, series))
    buckets = [(bound, count - earlier.get(bound, 0)) for bound, count in buckets_of(page, series)]
    if not buckets or not buckets[-1][1]:
        raise RuntimeError(f"{series}: nothing was measured")
    return next(bound for bound, count in buckets if count >= q * buckets[-1][1])


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def ready(port):
    try:
        conn = http.client.HTTPConnection("127.0.0.1", port, timeout=2)
        conn.request("GET", "/readyz")
        return conn.getresponse().status == 200
    except OSError:
        return False


