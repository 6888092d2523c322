# SPDX-License-Identifier: Apache-2.0
"""Processes of one container walk at random over all ways to memory (torture_walk.py): they fork, are replaced, stopped and killed, while
gates open and close and the limit rises. The card never gives them more than the limit and what one of them may try at a time; whenever they
stand still, what they have taken is what it has given them; and in the end that is nothing.

A failure names its seed. CLEAVE_TORTURE=1 walks for minutes."""
import json
import os
import random
import select
import signal
import subprocess
import sys
import threading

import pynvml as nv
import pytest
from container import CLOSED, OPEN, ROOT, TELL, TURN
from cuda import CONTEXT, GRANULE, MIB

TORTURE = bool(os.environ.get("CLEAVE_TORTURE"))
SEEDS, ROUNDS = (range(1, 31), 40) if TORTURE else (range(1, 3), 3)
PROCESSES, EVENTS, PAUSE_S, HANG_S = 4, 8, 0.02, 60
FIRST_MIB, RAISE_MIB = 2400, 64
SLAB = 32 * MIB  # of a pool, which has it until the allocation is undone


class Walker:
    def __init__(self, container, seed):
        command = [*container.enter, sys.executable, str(ROOT / "test/limiter/torture_walk.py"), str(seed)]
        env = container.environment(LIBCUDA="libcuda.so.1")
        self.process = subprocess.Popen(command, env=env, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def tell(self, word):
        self.process.stdin.write(word + "\n")
        self.process.stdin.flush()

    def answers(self):
        assert select.select([self.process.stdout], [], [], HANG_S)[0], "it hangs"
        return json.loads(self.process.stdout.readline())

    def stops(self):
        self.process.send_signal(signal.SIGSTOP)

    def goes_on(self):
        self.process.send_signal(signal.SIGCONT)

    def end(self):
        self.process.kill()
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()


class Card:
    """What it has given, and whether that was ever more than the limit."""

    def __init__(self, mib):
        self.handle, self.limit, self.most_past = nv.nvmlDeviceGetHandleByIndex(0), mib * MIB, 0
        self.before = self.used()

    def used(self):
        return nv.nvmlDeviceGetMemoryInfo(self.handle, version=nv.nvmlMemory_v2).used

    def given(self):
        """{pid: bytes}"""
        return {one.pid: one.usedGpuMemory for one in nv.nvmlDeviceGetComputeRunningProcesses(self.handle)}

    def looks(self):
        """The limit is read afterwards: it only rises."""
        used = self.used()
        self.most_past = max(self.most_past, used - self.before - self.limit)


class Storm:
    def __init__(self, container, seed):
        self.random, self.card = random.Random(seed), Card(FIRST_MIB)
        self.container, self.agent, self.over = container, container.agent(), threading.Event()
        self.walkers = [self.another() for _ in range(PROCESSES)]
        self.watch = threading.Thread(target=self.watches)
        self.watch.start()

    def another(self):
        return Walker(self.container, self.random.randrange(2**32))

    def watches(self):
        """The card, and the socket, which is full at some time when nobody reads it."""
        while not self.over.wait(0.0005):
            self.card.looks()
            while not self.agent.is_quiet():
                self.agent.hears()

    # --- What happens to them ---

    def kill(self):
        at = self.random.randrange(PROCESSES)
        self.walkers[at].end()
        self.walkers[at] = self.another()
        self.walkers[at].tell("go")
        self.walkers[at].answers()

    def stop(self):
        """For as long as something else happens."""
        one = self.random.choice(self.walkers)
        one.stops()
        self.over.wait(PAUSE_S)
        one.goes_on()

    def gate(self):
        self.agent.sets(0, self.random.choice([OPEN, OPEN, TELL, CLOSED, TURN, TURN]))

    def raise_limit(self):
        at = self.card.limit + RAISE_MIB * MIB
        self.card.limit = at
        self.agent.sets_limit(0, at)

    def storms(self):
        for _ in range(EVENTS):
            self.random.choice([self.kill, self.stop, self.gate, self.gate, self.raise_limit])()
            self.agent.beat()
            self.over.wait(PAUSE_S)
        self.agent.sets(0, OPEN)

    # --- ---

    def all(self, word):
        """[(pid, answer)]"""
        for one in self.walkers:
            one.tell(word)
        return [(one.process.pid, one.answers()) for one in self.walkers]

    def judge(self, answers):
        """They stand still."""
        given = self.card.given()
        odd = [f"process {pid} has taken {one['taken'] / MIB:g} MiB, and was given {given.get(pid, 0) / MIB:g}" for pid, one in answers if one["taken"] != given.get(pid, 0)]
        odd += [text for _, one in answers for text in one["odd"]]
        assert not odd, "\n".join(odd)
        assert set(given) <= {pid for pid, _ in answers}
        assert self.card.most_past <= SLAB + GRANULE, f"{self.card.most_past / MIB:g} MiB past the limit"

    def end(self):
        self.over.set()
        self.watch.join()
        for one in self.walkers:
            one.end()


@pytest.fixture
def storm(h100, container):
    made = []

    def start(seed):
        made.append(Storm(container(h100, {"mib": FIRST_MIB, "context": CONTEXT}), seed))
        return made[-1]

    yield start
    for one in made:
        one.end()


@pytest.mark.parametrize("seed", SEEDS)
def test_what_is_taken_is_what_is_given_and_never_past_the_limit(storm, seed):
    one = storm(seed)
    for _ in range(ROUNDS):
        one.all("go")
        one.storms()
        one.judge(one.all("stand"))
    last = one.all("end")
    one.judge(last)
    assert [answer["taken"] for _, answer in last] == [0] * PROCESSES
    assert one.card.used() == one.card.before
