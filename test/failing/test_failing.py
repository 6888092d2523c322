# SPDX-License-Identifier: Apache-2.0
"""Each allocation, read, write, rename, fsync … of our programs made to fail once (failing.py).

A sample by default; FAILING=whole runs every point (make torture).
"""

import json
import os
import re
import struct
import subprocess
import sys
from pathlib import Path

import pytest
from api import Api
from failing import BUILD, HANG_S, HOWS, KILL_HOWS, ROOT, SOCKET_HOWS, Path_, copy, environment

sys.path.insert(0, str(ROOT / "test" / "e2e"))
import test_transaction_torture as torture  # noqa: E402
import test_transaction_torture_metax as metax  # noqa: E402

torture.DRIVER = BUILD / "test" / "e2e" / "txn_driver"

WHOLE = os.environ.get("FAILING") == "whole"
SIM = ROOT / "build" / "release" / "sim"
AGENT = BUILD / "cleave-agent"
PROGRAM = BUILD / "test" / "failing" / "paths"
DRIVER = torture.DRIVER
FILE_CLASSES = ["alloc", "open", "read", "write", "sync", "name", "stat"]
DEFAULTS = ROOT / "test" / "unit" / "data" / "default-mig-parted-config.yaml"


def must(argv, env, **more):
    done = subprocess.run(
        [str(word) for word in argv], env=env, text=True, capture_output=True, timeout=HANG_S, cwd=ROOT, **more
    )
    assert done.returncode == 0, f"{argv}: {done.returncode}\n{done.stdout}{done.stderr}"
    return done.stdout


# What an installer asks, in the text of inspect and in its JSON: Unknown where the host cannot be read.
ASKED_TEXT = re.compile(r"^(?:DriverReady|ContainerRuntimeReady|PersistenceMode|RebootRequired) .*\n {4}.*\n", re.M)
ASKED_JSON = re.compile(r'^  "conditions": \[\n.*?^  \],?\n', re.M | re.S)


def lines(text):
    """Without the time at which it was said, the commas between, and what an installer asks."""
    text = ASKED_JSON.sub("", ASKED_TEXT.sub("", text))
    return {re.sub(r'"\d{10}"', '"now"', line).rstrip(",") for line in text.splitlines()}


class Host(Path_):
    """A verb of the agent on a host with two simulated cards."""

    def __init__(self, template, words, before=(), kill=None):
        self.words = words
        self.template = template
        template.mkdir()
        env = self.env(template)
        must([SIM / "cleave-simctl", "init"], env)
        for verb in before:
            must([AGENT, *verb], env)
        self.old = self.layout(template)
        if kill:
            subprocess.run(
                [AGENT, *kill[0]], env={**env, "CLEAVE_SIM_FAULT": kill[1]}, capture_output=True, timeout=HANG_S, cwd=ROOT
            )
            assert list((template / "journals").glob("*.json")), "the kill left no journal"
        self.target = self.after_clean_run()

    def env(self, folder):
        return environment(
            CLEAVE_SIM_STATE=folder / "hardware",
            CLEAVE_SIM_PROC=folder / "proc",
            CLEAVE_SIM_FLEET=ROOT / "sim" / "fleets" / "h100-80.yaml",
            CLEAVE_NVML_LIBRARY=SIM / "libnvidia-ml.so.1",
            CLEAVE_NVIDIA_SMI=SIM / "nvidia-smi",
            CLEAVE_STATE_DIR=folder / "journals",
        )

    def layout(self, folder):
        shown = json.loads(must([SIM / "cleave-simctl", "show", "--json"], self.env(folder)))
        return [
            (
                gpu["migCurrent"],
                sorted((gi["profileId"], gi["placement"]["start"], len(gi["computeInstances"])) for gi in gpu["gpuInstances"]),
            )
            for gpu in shown["gpus"]
        ]

    def after_clean_run(self):
        copied = self.template.with_name(self.template.name + "-target")
        copy(self.template, copied)
        must([AGENT, *self.words], self.env(copied))
        return self.layout(copied)

    def start(self, folder):
        copy(self.template, folder)
        return [AGENT, *self.words], self.env(folder)

    def check(self, folder, run, clean):
        journals = folder / "journals"
        now = self.layout(folder)
        if run.code == 0:
            assert now == self.target, f"{run}\nended in {now}"
            if self.words[0] != "apply":
                more = lines(run.out) - lines(clean.out)
                assert not more, f"{run}\nsays what it does not say undisturbed: {more}"
            # A look around leaves out what it could not read of the host.
            if self.words[0] not in ("apply", "inspect") or run.unnoticed:
                assert lines(run.out) == lines(clean.out), f"{run}\nsays less than undisturbed"
        else:
            assert run.err or run.out, f"{run}\nfailed without a word"
        # Card by card: the change of one may be over when the next one's fails.
        for card, old, target in zip(now, self.old, self.target):
            assert card in (old, target) or list(journals.glob("*.json")), f"{run}\nleft {card} without a journal"
        # Nothing has happened: a clean run is the undisturbed one.
        if now == self.old and names(journals) == {"lock"}:
            return
        must([AGENT, *self.words], self.env(folder))
        assert self.layout(folder) == self.target, f"{run}\na clean run does not reach the target"
        assert names(journals) <= {"lock"}, f"{run}\nleft {names(journals)}"


def names(folder):
    return {f.name for f in folder.glob("*")} | {"lock"}


A = ["apply", "-c", "all-balanced"]
B = ["apply", "-c", "all-7g.80gb"]
VERBS = {
    "inspect": (["inspect"], [A]),
    "inspect --json": (["inspect", "--json"], [A]),
    "plan": (["plan", "-c", "all-7g.80gb"], [A]),
    "assert": (["assert", "-c", "all-balanced"], [A]),
    "export": (["export"], [A]),
    "import": (["import", str(DEFAULTS)], []),
    "apply": (A, []),
    "apply over another": (B, [A]),
    "apply native": (["apply", "-c", "all-disabled"], [A]),
    "apply after a kill": (B, [A], (B, "mutating:4:kill")),
}


@pytest.fixture(scope="module", params=list(VERBS))
def host(request, tmp_path_factory):
    return Host(tmp_path_factory.mktemp("failing") / "host", *VERBS[request.param])


def tell(capsys, text):
    with capsys.disabled():
        print(f"    {text}")


@pytest.mark.parametrize("kind", FILE_CLASSES)
def test_a_verb_with_one_call_failing_fails_well_or_not_at_all(host, kind, capsys):
    n = host.sweep(kind, WHOLE)
    tell(capsys, f"{' '.join(host.words[:1])} {kind}: {n} points")


# ---- the transaction, below a partition in use ----


class Change(Path_):
    """A change of one card while a process runs on another of its partitions (test/e2e)."""

    def __init__(self, folder, name):
        vendor = CHANGES[name]
        self.scenario = vendor.Scenario(folder, *vendor.SCENARIOS[name])

    def start(self, folder):
        machine = self.scenario.machine(folder, self.scenario.base)
        wish = ["apply", self.scenario.uuid, *self.scenario.wish]
        return [DRIVER, machine.library, SIM / "nvidia-smi", machine.journals, *wish], machine.env

    def check(self, folder, run, clean):
        scenario = self.scenario
        machine = scenario.machine(folder, None)
        if machine.has_journal():
            after = machine.drive("recover", scenario.uuid)
            assert after.returncode == 0, f"{run}\nthen {after.stdout}{after.stderr}"
        scenario.check(machine, (scenario.old, scenario.target), str(run))
        if run.out.startswith("Applied"):
            scenario.check(machine, (scenario.target,), str(run))
        if run.out.startswith(("RolledBack", "InUse")):
            scenario.check(machine, (scenario.old,), str(run))
        again = machine.drive("apply", scenario.uuid, *scenario.wish)
        assert again.stdout.startswith(("Applied", "NothingToDo")), f"{run}\nthen {again.stdout}{again.stderr}"
        scenario.check(machine, (scenario.target,), str(run))
        assert not list(machine.journals.glob("*.tmp")), f"{run}\nleft a draft"
        assert not list(machine.journals.glob("*.bad-*")), f"{run}\nlost a journal"


CHANGES = {"h100 re-cut around a user": torture, "a100 native to mig": torture, "cut anew around a user and others": metax}


@pytest.fixture(scope="module", params=CHANGES)
def change(request, tmp_path_factory):
    return Change(tmp_path_factory.mktemp("change"), request.param)


@pytest.mark.parametrize("kind", [*FILE_CLASSES, "spawn"])
def test_a_change_with_one_call_failing_ends_old_or_new(change, kind, capsys):
    n = change.sweep(kind, WHOLE)
    tell(capsys, f"transaction {kind}: {n} points")


# ---- the kubelet's side ----


class Program(Path_):
    """One of the paths of paths.c."""

    hows = {kind: [*hows, *SOCKET_HOWS.get(kind, [])] for kind, hows in HOWS.items()}
    gave_up = re.compile(r"no answer|: wrong|has not registered")

    def __init__(self, verb):
        self.verb = verb

    def start(self, folder):
        return [PROGRAM, self.verb, folder], environment()

    def check(self, folder, run, clean):
        assert run.code == 0 or run.err, f"{run}\nfailed without a word"
        assert not self.gave_up.search(run.err), f"{run}\ndid not get over it"
        must([PROGRAM, self.verb, folder], environment())


class Cdi(Program):
    hows = HOWS

    def check(self, folder, run, clean):
        spec = folder / "cdi" / "gpu.cleave.dev-nvidia.json"
        if spec.exists():
            named = [d["name"] for d in json.loads(spec.read_text())["devices"]]
            assert named in (["GPU-0"], ["GPU-0", "GPU-1"]), f"{run}\n{named}"
        assert run.code == 0 or run.gave_up, f"{run}\ndid not get over it"
        must([PROGRAM, "cdi", folder], environment())
        assert [f.name for f in spec.parent.iterdir()] == [spec.name], f"{run}\nleft a draft"
        assert len(json.loads(spec.read_text())["devices"]) == 2


class Shares(Program):
    """A container with two limited shares, bound (share) or released (unshare), by an agent that may be killed at any call."""

    makes, ends = "share", "unshare"
    hows = {kind: [*hows, *KILL_HOWS.get(kind, [])] for kind, hows in HOWS.items()}

    def start(self, folder):
        if self.verb == self.ends:
            must([PROGRAM, self.makes, folder], environment())
        return super().start(folder)

    def check(self, folder, run, clean):
        assert run.code == 0 or run.gave_up or run.failed, f"{run}\ndid not get over it"
        if len(list((folder / "cdi").glob("share.*.json"))) == 2:  # else no container of the pod starts
            self.check_whole(folder, run)
        assert not (folder / "shares" / "share.3").exists() or (folder / "state" / "slots" / "share.3.json").exists(), f"{run}\nforgot a folder"
        must([PROGRAM, self.makes, folder], environment())
        self.check_whole(folder, run)
        assert names(folder / "shares") == {"share.3", "lock"}, f"{run}\nleft a draft"
        must([PROGRAM, self.ends, folder], environment())
        stays = ("cdi", "shares", "state", "slots", "cgroup", "kubepods", "podu", "limits")
        left = [f for f in folder.rglob("*") if f.name not in stays and not is_draft(f)]
        assert not left, f"{run}\nleft {left}"

    def check_whole(self, folder, run):
        """A container that starts now finds its limits, and can say what it takes."""
        share = folder / "shares" / "share.3"
        terms = (share / "terms").read_bytes()
        magic, version, size, cards = struct.unpack_from("=QIII", terms)
        assert (magic, version, size, cards) == (0x31736D7265745643, 1, len(terms), 2), f"{run}\n{terms[:32]}"
        limits = [struct.unpack_from("=Q", terms, 128 + 128 * card + 16)[0] >> 20 for card in range(2)]
        assert limits in ([3000, 3000], [5000, 5000], [5000, 3000]), f"{run}\n{limits}"
        usage = (share / "usage").stat()
        assert (usage.st_size, usage.st_mode & 0o777) == (458880, 0o666), f"{run}\n{usage}"
        assert (share / "agent").is_socket(), run


def is_draft(file):
    """What the driver's stub had begun to write when it was killed; a driver has no such files."""
    return file.parent.name == "limits" and file.suffix == ".tmp"


class Driven(Shares):
    """The same with limits that the driver keeps: on the cards while a container may start, and nothing of them without a record."""

    makes, ends = "driven", "undriven"

    def check_whole(self, folder, run):
        super().check_whole(folder, run)
        limits = [int(f.read_text()) >> 20 for f in (folder / "limits").iterdir() if not is_draft(f)]
        assert len(limits) == 2 and set(limits) <= {3000, 5000}, f"{run}\n{limits}"


@pytest.mark.parametrize("kind", FILE_CLASSES)
@pytest.mark.parametrize("verb", ["driven", "undriven"])
def test_no_container_starts_without_the_drivers_limits(verb, kind, capsys):
    tell(capsys, f"{verb} {kind}: {Driven(verb).sweep(kind, WHOLE)} points")


@pytest.mark.parametrize("kind", [*FILE_CLASSES, "connect", "map"])
@pytest.mark.parametrize("verb", ["share", "unshare"])
def test_no_container_starts_without_its_limits(verb, kind, capsys):
    tell(capsys, f"{verb} {kind}: {Shares(verb).sweep(kind, WHOLE)} points")


def where_it_lies(folder):
    """The file system of a folder and its path there, as mountinfo has them."""
    folder, best = os.path.realpath(folder), ("", "", "")
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        _, _, device, root, point, *_ = line.split(" ")
        if (folder + "/").startswith(point.rstrip("/") + "/") and len(point) >= len(best[2]):
            best = (device, root, point)
    device, root, point = best
    return device, root.rstrip("/") + "/" + os.path.relpath(folder, point)


class Audit(Program):
    """Who uses the shares of a container, whose process the limiter is in: it has 600 of 1000 MiB besides its context."""

    hows = HOWS
    gave_up = re.compile("a wrong verdict|was not seen")
    started, own_pid = 77, 42

    def start(self, folder):
        must([PROGRAM, "share", folder], environment())
        share, proc = folder / "shares" / "share.3", folder / "proc" / "4242"
        with (share / "usage").open("r+b") as f:
            for at, text in ((20, struct.pack("=I", 1)), (128, struct.pack("=IIQ", self.own_pid, 1, self.started))):
                f.seek(at)
                f.write(text)
            for card in range(2):
                f.seek(128 + 1024 * 64 + card * 1024 * 8)
                f.write(struct.pack("=Q", 600 << 20))
        proc.mkdir(parents=True)
        device, path = where_it_lies(share)
        (proc / "stat").write_text(f"4242 (a) S {' '.join(['1'] * 18)} {self.started} 0 0\n")
        (proc / "status").write_text(f"Name:\ta\nNSpid:\t4242\t{self.own_pid}\n")
        (proc / "mountinfo").write_text(f"91 90 {device} {path} /run/cleave ro - tmpfs tmpfs rw\n")
        return super().start(folder)

    def check(self, folder, run, clean):
        super().check(folder, run, clean)
        terms = (folder / "shares" / "share.3" / "terms").read_bytes()
        contexts = [struct.unpack_from("=Q", terms, 128 + 128 * card + 24)[0] >> 20 for card in range(2)]
        assert contexts == [400, 400], f"{run}\n{contexts}"


@pytest.mark.parametrize("kind", ["alloc", "open", "read", "stat", "map"])
def test_no_verdict_is_wrong_because_a_call_failed(kind, capsys):
    tell(capsys, f"audit {kind}: {Audit('audit').sweep(kind, WHOLE)} points")


SOCKET_CLASSES = ["alloc", "open", "read", "write", "connect", "accept", "poll", "wait", "stat", "name"]


@pytest.mark.parametrize("kind", FILE_CLASSES)
def test_the_cdi_file_is_old_or_new_and_written_in_the_end(kind, capsys):
    tell(capsys, f"cdi {kind}: {Cdi('cdi').sweep(kind, WHOLE)} points")


@pytest.mark.parametrize("kind", SOCKET_CLASSES)
@pytest.mark.parametrize("verb", ["grpc", "plugin"])
def test_calls_go_on_after_one_that_failed(verb, kind, capsys):
    tell(capsys, f"{verb} {kind}: {Program(verb).sweep(kind, WHOLE)} points")


# ---- the API server's side ----


class Kube(Program):
    """Informer, publisher, recorder and elector, each run with a server of its own."""

    workers = 8  # most of their time they wait to try again

    def __init__(self):
        super().__init__("kube")
        self.api = Api()

    def start(self, folder):
        return [PROGRAM, "kube", self.api.url(folder.name)], environment()

    def check(self, folder, run, clean):
        objects = self.api.worlds.pop(folder.name).objects if folder.name in self.api.worlds else {}
        # Without a client or a thread a process does not start at all, and says so.
        assert run.code == 0 or run.gave_up or run.err.startswith(("no client", "no thread")), f"{run}\ndid not get over it"
        if run.code == 0:
            device = objects["apis/gpu.cleave.dev/v1alpha1/devices/n1"]
            assert device["status"] == {"agentVersion": "v1"}, f"{run}\n{device}"
            assert len(objects) == 3, f"{run}\n{list(objects)}"


@pytest.fixture(scope="module")
def kube():
    return Kube()


@pytest.mark.parametrize("kind", ["alloc", "open", "read", "write", "connect", "wait"])
def test_the_api_is_reached_in_spite_of_one_call_that_failed(kube, kind, capsys):
    tell(capsys, f"kube {kind}: {kube.sweep(kind, WHOLE)} points")
