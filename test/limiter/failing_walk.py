# SPDX-License-Identifier: Apache-2.0
"""Walks over all ways to memory, with one call of the limiter's failing (failing.h). For each line "KIND OTHERS N CODE" a child of
this process does so, and a line of JSON tells what it came to."""
import ctypes as c
import json
import os
import signal
import sys

from cuda import MIB, CudaError
from walk import STEPS, Card, Walker, taken

plan = c.CDLL(None)
plan.failing_name.restype = c.c_char_p
SIZE, HANG_S = 32 * MIB, 20


class Walk:
    def __init__(self):
        self.walker, self.card, self.errors, self.odd = Walker(), Card(), [], []

    def judge(self, where):
        """What is taken is what the card has given. What the card keeps for the process is settled when it is asked for."""
        for _ in range(2):
            self.walker.cu.code("cuMemGetInfo_v2", c.byref(c.c_size_t()), c.byref(c.c_size_t()))
        own, given = taken(), self.card.given()
        if own != given:
            self.odd.append(f"{where}: {own / MIB:g} MiB are taken, and {given / MIB:g} given")

    def undo(self, calls, where):
        """A call that failed is made once more: then it has to do what it is to do."""
        for call in calls:
            error = self.walker.cu.code(*call)
            if error:
                self.errors.append(error)
                again = self.walker.cu.code(*call)
                if again:
                    self.odd.append(f"{where}: {call[0]} answers {error}, then {again}")
        self.judge(f"{where}, undone")

    def step(self, name, *args):
        """False: it was refused."""
        try:
            undo = getattr(self.walker, name)(*args)
        except CudaError as error:
            self.errors.append(error.args[0])
            self.walker.cu.code("cuCtxSetCurrent", getattr(self.walker, "primary", None))
            undo = None
        self.judge(name)
        return undo

    def goes(self):
        end = self.step("begin") or self.step("begin")
        if end is None:
            return
        for name in STEPS:
            undo = self.step(name, SIZE)
            self.undo(undo or [], name)
        self.undo(end, "the end")


def child(kind, others, n, code):
    signal.alarm(HANG_S)
    walk = Walk()
    plan.failing_plan(kind, others, n, code)
    walk.goes()
    names = [plan.failing_name(i + 1).decode() for i in range(plan.failing_count())]
    failed = names[n - 1] if 0 < n <= len(names) else ""
    print(json.dumps({"failed": failed, "errors": walk.errors, "odd": walk.odd, "names": [] if n else names}), flush=True)


for line in sys.stdin:
    pid = os.fork()
    if pid == 0:
        child(*map(int, line.split()))
        os._exit(0)
    _, status = os.waitpid(pid, 0)
    if status:
        print(json.dumps({"failed": "?", "errors": [], "odd": [f"ended with {status}"], "names": []}), flush=True)
