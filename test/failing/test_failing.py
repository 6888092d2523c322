# SPDX-License-Identifier: Apache-2.0
"""Each allocation, read, write, rename, fsync … of our programs made to fail once (failing.py).

A sample by default; FAILING=whole runs every point (make torture).
"""

import json
import os
import re
import subprocess

import pytest
from failing import BUILD, HANG_S, ROOT, Path_, copy, environment

WHOLE = os.environ.get("FAILING") == "whole"
SIM = ROOT / "build" / "release" / "sim"
AGENT = BUILD / "cleave-agent"
DRIVER = BUILD / "test" / "e2e" / "txn_driver"
FILE_CLASSES = ["alloc", "open", "read", "write", "sync", "name", "stat"]
DEFAULTS = ROOT / "test" / "unit" / "data" / "default-mig-parted-config.yaml"


def must(argv, env, **more):
    done = subprocess.run(
        [str(word) for word in argv], env=env, text=True, capture_output=True, timeout=HANG_S, cwd=ROOT, **more
    )
    assert done.returncode == 0, f"{argv}: {done.returncode}\n{done.stdout}{done.stderr}"
    return done.stdout


def lines(text):
    """Without the time at which it was said, and the commas between."""
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
