# SPDX-License-Identifier: Apache-2.0
"""What the end-to-end tests share: a real control plane, kubectl, our programs, and waiting.

Fixtures:
    cluster      one etcd and kube-apiserver (and controller manager) for the whole run
    kubectl      kubectl as its admin: kubectl("apply", "-f", path), kubectl.out(...), kubectl.json(...)
    wait_for     wait_for(predicate, timeout, message): what the predicate gave, once that is true
    processes    starts programs of ours with their logs in files, and ends them after the test
    release      release("cleave-agent"): the path of a program in build/release

A test that fails shows the ends of its programs' logs. Nothing here sleeps for a fixed time:
everything waits for a condition, with a bound. CLEAVE_PATIENCE=5 makes the bounds five times as long, for a machine
that is busy with something else.
"""

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import threading
import time
from datetime import datetime
from pathlib import Path

import pytest
from namespaces import Where

ROOT = Path(__file__).resolve().parents[2]
HACK = ROOT / "hack" / "kube"
RUNS = ROOT / "build" / "e2e"
POLL_S = 0.05
PATIENCE = int(os.environ.get("CLEAVE_PATIENCE", "1"))
RECORD_BYTES = 1 << 20  # an audit record is shorter
# A test run that is killed leaves none of our programs behind. setpriv sees to it, and not a preexec_fn, with which Python forks
# where it could vfork: to fork takes 20 ms when Python has 100 MiB.
DYING_WITH_PARENT = (shutil.which("setpriv"), "--pdeathsig", "KILL")


class NotYet(AssertionError):
    """What was asked for is not told yet: wait_for asks again."""


class KubectlError(NotYet):
    """kubectl ended with an error; the message is what it wrote."""


def note_pid(pid, file):
    """For hack/kube/down.sh, which ends the process also after this one was killed."""
    started = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rsplit(")", 1)[1].split()[19]
    file.write_text(f"{pid} {started}\n")


def wait_for(predicate, timeout=30, message="the condition"):
    """Returns the predicate's first true value. NotYet, which a kubectl error is too, counts as none.

    message says what is waited for; it may be a function, called when the time is over.
    """
    timeout *= PATIENCE
    begin = time.monotonic()
    while True:
        asked = time.monotonic()
        try:
            last = predicate()
            if last:
                return last
        except NotYet as error:
            last = error
        now = time.monotonic()
        if now >= begin + timeout:
            text = message() if callable(message) else message
            pytest.fail(f"waited {timeout} s for {text}; the last answer was: {last!r}")
        # Asking takes a quarter of the time at most (kubectl computes for a tenth of a second each time), and grows rarer
        # the longer the wait: others compute meanwhile.
        time.sleep(min(1, max(POLL_S, 3 * (now - asked), (now - begin) / 20)))


def made(variant, name):
    """The path of a program below the variant's build folder, made if need be.

    hack/run-tests.sh holds the same lock while it builds: one make at a time in a folder.
    """
    program = ROOT / "build" / variant / name
    program.parent.mkdir(parents=True, exist_ok=True)
    make = ["make", "-s", f"VARIANT={variant}", str(program.relative_to(ROOT))]
    done = subprocess.run(["flock", f"build/{variant}/.lock", *make], cwd=ROOT, capture_output=True, text=True, timeout=1200)
    assert done.returncode == 0, done.stdout + done.stderr
    return program


class Kubectl:
    """kubectl with the rights of one kubeconfig."""

    def __init__(self, program, kubeconfig, cache, network=contextlib.nullcontext):
        self.program = program
        self.kubeconfig = kubeconfig
        self.network = network
        self.env = {**os.environ, "KUBECACHEDIR": str(cache)}

    def __call__(self, *args, input=None, check=True):
        """Runs kubectl and returns the CompletedProcess; input is a string for its stdin."""
        with self.network():
            done = subprocess.run(
                [self.program, "--kubeconfig", self.kubeconfig, *map(str, args)],
                input="" if input is None else input,
                capture_output=True,
                text=True,
                timeout=120 * PATIENCE,
                env=self.env,
            )
        if check and done.returncode != 0:
            raise KubectlError(f"kubectl {' '.join(map(str, args))}: {done.stderr.strip()}")
        return done

    def out(self, *args, **options):
        """What it printed, without the last newline."""
        return self(*args, **options).stdout.rstrip("\n")

    def json(self, *args, **options):
        """The object that it printed with -o json."""
        return json.loads(self(*args, "-o", "json", **options).stdout)

    def apply(self, text):
        """Applies a manifest that is given as text."""
        return self("apply", "-f", "-", input=text)


def is_write(event, by=None):
    """Leases, token requests and dry runs apart; by is a pattern for the user's name."""
    return (
        event["verb"] in ("create", "update", "patch", "delete", "deletecollection")
        and "dryRun=All" not in event.get("requestURI", "")
        and event.get("objectRef", {}).get("resource") not in ("leases", "serviceaccounts", "subjectaccessreviews")
        and (by is None or re.search(by, event["user"].get("username", "")) is not None)
    )


class Cluster:
    """A control plane of hack/kube/up.sh, its nodes and its audit log."""

    def __init__(self, rundir):
        self.rundir = rundir
        self.kubeconfig = rundir / "admin.kubeconfig"
        self.audit_log = rundir / "audit.log"

    def network(self):
        """A context in which what is started, and the sockets that are opened, reach the API server."""
        return contextlib.nullcontext()

    def script(self, name, *args):
        """Runs a script of hack/kube and returns what it printed."""
        done = subprocess.run(
            [HACK / name, *map(str, args)], capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=300 * PATIENCE
        )
        assert done.returncode == 0, f"hack/kube/{name} {' '.join(map(str, args))}:\n{done.stdout}{done.stderr}"
        return done.stdout.strip()

    def start(self):
        self.script("up.sh", self.rundir, "--with-kcm")
        self.server = (self.rundir / "server").read_text().strip()
        self.kubectl = self.kubectl_as(self.kubeconfig)

    def stop(self, purge):
        self.script("down.sh", self.rundir, *(["--purge"] if purge else []))

    def kubectl_as(self, kubeconfig):
        """kubectl with the rights of another kubeconfig."""
        program = Path((self.rundir / "bin-dir").read_text().strip()) / "kubectl"
        return Kubectl(program, kubeconfig, self.rundir / "kubectl-cache", self.network)

    def node(self, name, labels=None):
        """Makes a Node without a kubelet that is Ready, or sets labels on the one that is there."""
        self.script("node.sh", self.rundir, name, *(f"{k}={v}" for k, v in (labels or {}).items()))

    def agent_kubeconfig(self, node, namespace="cleave-node", account="cleave-agent"):
        """Path of a kubeconfig whose token names the node, as that of a DaemonSet's pod does."""
        return Path(self.script("agent-token.sh", self.rundir, node, namespace, account))

    def audit_mark(self):
        """The place in the audit log up to which everything has happened already: the end of a record."""
        with open(self.audit_log, "rb") as log:
            size = log.seek(0, os.SEEK_END)
            start = log.seek(max(0, size - RECORD_BYTES))
            unfinished = log.read(size - start).rpartition(b"\n")[2]
        return size - len(unfinished)

    def audit(self, since=0, until=None):
        """The audit events after a mark, up to another."""
        with open(self.audit_log, "rb") as log:
            log.seek(since)
            lines = log if until is None else log.read(until - since).splitlines(keepends=True)
            return [json.loads(line) for line in lines if line.endswith(b"\n")]

    def audit_while(self, action):
        """The audit events of requests that came in while action() ran.

        By the time of the request: the server shows what was written a moment before its log has it, so that the log's end
        is no mark of what is done.
        """
        mark, begin = self.audit_mark(), time.time()
        action()
        return [event for event in self.audit(mark) if datetime.fromisoformat(event["requestReceivedTimestamp"]).timestamp() >= begin]

    def writes(self, since=0, by=None, until=None):
        """The writes after a mark, as is_write() has them."""
        return [event for event in self.audit(since, until) if is_write(event, by)]


class Process:
    """One program of ours; its standard output and error go to a file. where is a namespaces.Where."""

    def __init__(self, name, argv, log, env=None, cwd=None, where=None):
        self.name, self.argv, self.log, self.env, self.cwd = name, [str(a) for a in argv], log, env or {}, cwd or ROOT
        self.where = where or Where()
        self.start()

    def start(self):
        """Starts it, once more after it has ended; the log goes on."""
        with open(self.log, "ab") as out, self.where.around():
            self.popen = subprocess.Popen(
                [*DYING_WITH_PARENT, *self.argv],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                env={**os.environ, **self.env},
                cwd=self.cwd,
                preexec_fn=self.where.before_exec and (lambda: self.where.before_exec(self.cwd)),
            )

    @property
    def pid(self):
        return self.popen.pid

    def running(self):
        return self.popen.poll() is None

    def text(self):
        """The log so far."""
        return self.log.read_text(errors="replace")

    def tail(self, lines=30):
        return "\n".join(self.text().splitlines()[-lines:])

    def signal(self, number):
        if self.running():
            self.popen.send_signal(number)

    def kill(self):
        """As a crash does it. Returns when it is gone."""
        self.signal(signal.SIGKILL)
        self.popen.wait()

    def stop(self, timeout=30):
        """Politely. Returns the exit status; killing it in the end is a failure of the test."""
        self.signal(signal.SIGTERM)
        try:
            return self.popen.wait(timeout * PATIENCE)
        except subprocess.TimeoutExpired:
            self.kill()
            pytest.fail(f"{self.name} did not end within {timeout} s of SIGTERM")


class Processes:
    """The programs of one test."""

    def __init__(self, folder):
        self.folder = folder
        self.all = []

    def __call__(self, name, *argv, env=None, cwd=None, where=None):
        """Starts argv; name is for its log and for messages. Returns a Process."""
        self.folder.mkdir(parents=True, exist_ok=True)
        process = Process(name, argv, self.folder / f"{name}.log", env, cwd, where)
        self.all.append(process)
        return process

    def end(self):
        """In reverse order, as they were started; those that hang are killed."""
        for process in reversed(self.all):
            process.signal(signal.SIGTERM)
        for process in reversed(self.all):
            try:
                process.popen.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()

    def tails(self):
        return [(f"{p.name} (exit status {p.popen.poll()}), {p.log}", p.tail() if p.log.exists() else "(the log is gone)") for p in self.all]


def is_alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True


class FailuresAtOnce:
    """Names a test when it fails, not only at the end of a long run."""

    def __init__(self, config):
        self.config = config

    def pytest_runtest_logreport(self, report):
        screen = self.config.pluginmanager.get_plugin("terminalreporter")
        if report.failed and screen:
            last = report.longreprtext.strip().rpartition("\n")[2]
            screen.write_line(f"\nfailed, {report.when}: {report.nodeid}: {last}")


def pytest_configure(config):
    """Says why a test was skipped, whatever the command line says."""
    config.addinivalue_line("markers", "long: begins before others where tests run side by side")
    config.addinivalue_line("markers", "second_cluster: runs on a second pods_cluster or real_cluster, beside the other tests with one")
    config.addinivalue_line("markers", "new_kubernetes: of what only the second Kubernetes of make nightly has")
    config.addinivalue_line("markers", "real_kubelet: runs on the node with a real kubelet; set by its fixtures, or by hand where it asks for them by name")
    config.addinivalue_line("markers", "xdist_group: python3-pytest-xdist's; known without it too")
    if "s" not in config.option.reportchars:
        config.option.reportchars += "s"
    config.pluginmanager.register(FailuresAtOnce(config))


REAL = ("pods_cluster", "second_pods_cluster", "real_cluster", "second_real_cluster")  # the clusters with real kubelets


def group_of(item):
    """What has to run in one process, one after the other: what shares nodes with a real kubelet, or a module's fixture."""
    real = "pods_cluster" if "pods_cluster" in item.fixturenames else "real_cluster"
    if real in item.fixturenames or item.get_closest_marker("real_kubelet"):
        return f"second_{real}" if item.get_closest_marker("second_cluster") else real
    shared = sorted(name for name, defs in item._fixtureinfo.name2fixturedefs.items() if defs[-1].scope == "module")
    indices = item.callspec.indices if hasattr(item, "callspec") else {}
    return " ".join([item.module.__name__, *(f"{name}={indices.get(name, 0)}" for name in shared)]) if shared else None


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Side by side (--dist=loadgroup) each process has a control plane of its own. What takes long begins first."""
    groups = {item: group_of(item) for item in items}
    for item, group in groups.items():
        if group:
            item.add_marker(pytest.mark.xdist_group(group))
        if group in REAL:
            item.add_marker(pytest.mark.real_kubelet)
    items.sort(key=lambda item: (groups[item] not in REAL, not item.get_closest_marker("long"), groups[item] is None))


def remove_stale_runs():
    """Control planes of test runs that were killed: their folders are named after the run's pid."""
    for folder in RUNS.glob("run-*"):
        if folder.name[4:].isdigit() and not is_alive(int(folder.name[4:])):
            for script, made in (("down.sh", [folder / "kube", *folder.glob("lane-*/kube")]), ("node-down.sh", [folder / "real", folder / "pods"])):
                for rundir in made:
                    subprocess.run([HACK / script, rundir], check=False, capture_output=True)
            shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def rundir(request):
    """This run's folder; it stays when a test failed, its own end included."""
    remove_stale_runs()
    folder = RUNS / f"run-{os.getpid()}"
    folder.mkdir(parents=True)
    request.session.cleave_folder = folder
    return folder


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session):
    if hasattr(session, "cleave_folder") and not session.testsfailed:
        shutil.rmtree(session.cleave_folder, ignore_errors=True)


@pytest.fixture(autouse=True)
def threads_end():
    """A test's threads end with it: one that asks on and on would take the time of those that follow, and could write to their objects."""
    before = threading.enumerate()
    yield
    wait_for(lambda: not set(threading.enumerate()) - set(before), 30, lambda: f"the threads of the test to end: {set(threading.enumerate()) - set(before)}")


@pytest.fixture(scope="session")
def cluster(rundir):
    control_plane = Cluster(rundir / "kube")
    control_plane.start()
    yield control_plane
    control_plane.stop(purge=False)


@pytest.fixture
def kubectl(cluster):
    return cluster.kubectl


@pytest.fixture(name="wait_for", scope="session")
def wait_for_fixture():
    return wait_for


@pytest.fixture(scope="session")
def release():
    def path(name):
        program = ROOT / "build" / "release" / name
        assert program.exists(), f"{program} is not built; `make all` builds it"
        return program

    return path


@pytest.fixture
def processes(rundir, request):
    folder = rundir / re.sub(r"[^A-Za-z0-9_.-]+", "_", request.node.name)
    started = Processes(folder)
    request.node.cleave_processes = started
    yield started
    started.end()


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item):
    outcome = yield
    report = outcome.get_result()
    if report.failed and hasattr(item, "cleave_processes"):
        report.sections.extend(item.cleave_processes.tails())
