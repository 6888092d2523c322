# SPDX-License-Identifier: Apache-2.0
"""Each call that the limiter makes fails once: of the system, of the C library, and of the real driver. Then nothing crashes or hangs, the
program is told the driver's own error or that there is no memory, and what is taken is what the card has given, to the end.

By default the first and the last call of each function fail, each time with another error; FAILING=whole: all, with each (make torture)."""
import errno
import itertools
import json
import os
import subprocess
import sys
import threading

import pytest
from compiled import ROOT, program
from container import BUILT, CLOSED, TURN
from cuda import CONTEXT, INVALID_VALUE, NO_DEVICE, NOT_SUPPORTED, OUT_OF_MEMORY

WHOLE = os.environ.get("FAILING") == "whole"
UNKNOWN = 999
SYSTEM, DRIVER = 1, 2
END = -1
ERRORS = {DRIVER: [OUT_OF_MEMORY, NOT_SUPPORTED, UNKNOWN, INVALID_VALUE], SYSTEM: [errno.ENOMEM, errno.EMFILE, errno.EIO]}
SHARE = {"mib": 2000, "context": CONTEXT}


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """Folders: `drivers` as a container has them, with one before the simulator's that fails; `calls.so` to preload."""
    folder = tmp_path_factory.mktemp("failing")
    sim = BUILT / "sim/libcuda.so.1"
    drivers = folder / "drivers"
    drivers.mkdir()
    (drivers / "libnvidia-ml.so.1").symlink_to(BUILT / "sim/libnvidia-ml.so.1")
    shared = ["-shared", "-fPIC", "-fvisibility=hidden"]
    subprocess.run(["gcc", "-shared", "-nostdlib", f"-Wl,-soname,{sim}", "-x", "c", "/dev/null", "-o", folder / "sim.so"], check=True)
    program(folder / "calls.so", "test/limiter/failing_calls.c", flags=["-shared", "-fPIC"])
    last = ["-Wl,--no-as-needed", folder / "sim.so", "-Wl,-soname,/usr/lib/cleave/real/libcuda.so.1"]
    program(drivers / "libcuda.so.1", "test/limiter/failing_driver.c", flags=shared, last=last)
    return folder


class Walks:
    """A process in a container, whose children walk."""

    def __init__(self, container, built, agent):
        self.container, self.agent, self.ends = container, agent, threading.Event()
        container.drivers = built / "drivers"
        command = [*container.enter, sys.executable, str(ROOT / "test/limiter/failing_walk.py")]
        env = container.environment(LIBCUDA="libcuda.so.1", LD_PRELOAD=str(built / "calls.so"))
        self.process = subprocess.Popen(command, env=env, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.hears = threading.Thread(target=self.listen)
        self.hears.start()

    def listen(self):
        """A socket that nobody reads is full at some time, and who writes to it waits."""
        while not self.ends.wait(0.001):
            while not self.agent.is_quiet():
                self.agent.hears()

    def goes(self, kind, n=0, code=0, others=False):
        self.process.stdin.write(f"{kind} {others:d} {n} {code}\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def end(self):
        self.ends.set()
        self.hears.join()
        self.process.stdin.close()
        self.process.wait(20)
        self.process.stdout.close()


@pytest.fixture
def walks(h100, container, built):
    """Its work is let through in turns: what an open gate does, that does too."""
    one = container(h100, SHARE)
    agent = one.agent()
    agent.sets(0, TURN)
    made = Walks(one, built, agent)
    yield made
    made.end()


def errors_of(kind, name):
    return ERRORS[kind] + [END] * (name == "read")


def points(kind, names):
    """(the number of a call, the error)."""
    if WHOLE:
        return [(i + 1, code) for i, name in enumerate(names) for code in errors_of(kind, name)]
    ends = sorted({names.index(name) for name in names} | {len(names) - 1 - names[::-1].index(name) for name in names})
    return [(i + 1, errors_of(kind, names[i])[at % len(errors_of(kind, names[i]))]) for at, i in enumerate(ends)]


def judged(found, kind, code):
    """What is wrong with a walk."""
    allowed = {OUT_OF_MEMORY, NO_DEVICE} | ({code} if kind == DRIVER else set())
    strange = set(found["errors"]) - allowed
    return found["odd"] + [f"errors {strange}"] * bool(strange)


@pytest.mark.parametrize("kind", [SYSTEM, DRIVER], ids=["system", "driver"])
def test_what_is_taken_is_what_is_given_whichever_call_fails(walks, kind):
    clean = walks.goes(kind)
    assert clean["errors"] == clean["odd"] == [] and len(clean["names"]) > 20, clean
    wrong = []
    for n, code in points(kind, clean["names"]):
        found = walks.goes(kind, n, code)
        wrong += [f"{n}: {found['failed']} answers {code}: {text}" for text in judged(found, kind, code)]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("kind", [SYSTEM, DRIVER], ids=["system", "driver"])
def test_the_thread_that_answers_the_agent_gets_over_it(walks, kind):
    """While turns come and go."""
    stop = threading.Event()

    def turns():
        for gate in itertools.cycle([CLOSED, TURN]):
            walks.agent.sets(0, gate)
            if stop.wait(0.002):
                break

    thread = threading.Thread(target=turns)
    thread.start()
    found = [(n, walks.goes(kind, n, ERRORS[kind][n % len(ERRORS[kind])], others=True)) for n in range(1, 60 if WHOLE else 16)]
    stop.set()
    thread.join()
    wrong = [f"{n}: {one['failed']}: {text}" for n, one in found for text in judged(one, kind, 0)]
    assert not wrong, "\n".join(wrong)
