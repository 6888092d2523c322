# SPDX-License-Identifier: Apache-2.0
"""One process of a container that walks at random over all ways to memory (walk.py), until it is told to stand still.

    torture_walk.py SEED

Lines to it: "go", "stand" and "end" (all that it has is let go of). It answers each with a line of JSON: after "stand" and "end" what it
has taken, and what was odd. It may be killed, stopped and replaced by itself at any time."""
import ctypes as c
import json
import os
import random
import select
import sys
import threading

from cuda import MIB, NOT_INITIALIZED, OUT_OF_MEMORY, CudaError
from walk import STEPS, Walker, taken

MAX_THINGS, THREADS = 24, 3
SIZES = [2 * MIB, 6 * MIB, 32 * MIB, 50 * MIB, 96 * MIB]
OF_THE_CONTEXT = {"cuMemFree_v2", "cuArrayDestroy", "cuMipmappedArrayDestroy", "cuCtxSetLimit"}
SIZES_SMALL = [512, 4096, 60 << 10, 700 << 10]


class Torture:
    def __init__(self, seed):
        self.random, self.odd = random.Random(seed), []
        self.walker, self.end, self.things = Walker(), None, []

    def note(self, what, code):
        if code not in (0, OUT_OF_MEMORY):
            self.odd.append(f"{what} answers {code}")

    def undo(self, what, calls):
        for call in calls:
            self.note(f"{what}: {call[0]}", self.walker.cu.code(*call))

    # --- What it may do ---

    def make(self):
        name = self.random.choice(STEPS)
        size = self.random.choice(SIZES_SMALL) * 1024 if name == "small" else self.random.choice(SIZES)
        try:
            self.things.append((name, getattr(self.walker, name)(size)))
        except CudaError as error:
            self.note(name, error.args[0])

    def let_go(self):
        if self.things:
            self.undo(*self.things.pop(self.random.randrange(len(self.things))))

    def let_go_of_all(self):
        while self.things:
            self.let_go()

    def threads(self):
        """Some that make and let go of small pieces and of pools at the same time."""
        seeds = [self.random.random() for _ in range(THREADS)]
        context = self.walker.primary
        threads = [threading.Thread(target=self.one_thread, args=(random.Random(seed), context)) for seed in seeds]
        for one in threads:
            one.start()
        for one in threads:
            one.join()

    def one_thread(self, any_, context):
        cu, had = self.walker.cu, []
        cu.code("cuCtxSetCurrent", context)
        for _ in range(20):
            x = c.c_uint64()
            if any_.random() < 0.5:
                code = cu.code("cuMemAlloc_v2", c.byref(x), any_.choice(SIZES_SMALL + SIZES))
                undo = [("cuMemFree_v2", x)]
            else:
                code = cu.code("cuMemAllocAsync", c.byref(x), any_.choice(SIZES), self.walker.s)
                undo = [("cuMemFreeAsync", x, self.walker.s)]
            self.note("a thread", code)
            if code == 0:
                had.append(undo)
            while had and any_.random() < 0.5:
                self.undo("a thread", had.pop())
        for undo in had:
            self.undo("a thread", undo)

    def fork(self):
        """The child has no CUDA, and what it does counts nowhere. Only while nobody is killed: of a killed process a child keeps what the
        card has given it (docs/limits.md)."""
        pid = os.fork()
        if pid == 0:
            code = self.walker.cu.code("cuMemAlloc_v2", c.byref(c.c_uint64()), 8 * MIB)
            os._exit(code != NOT_INITIALIZED)
        if os.waitpid(pid, 0)[1]:
            self.odd.append("the child of a fork has CUDA")

    def replace(self):
        """By itself: what it had is the card's again."""
        os.execv(sys.executable, [sys.executable, __file__, str(self.random.randrange(2**32)), "goes"])

    def reset(self):
        """The context ends with all that it has; the rest is let go of before."""
        for name, calls in self.things:
            if calls and calls[0][0] not in OF_THE_CONTEXT:
                self.undo(name, calls)
        self.things.clear()
        self.note("cuDevicePrimaryCtxReset_v2", self.walker.cu.code("cuDevicePrimaryCtxReset_v2", 0))
        self.walker.cu.code("cuDevicePrimaryCtxRelease_v2", 0)
        self.end = None

    def step(self):
        if self.end is None:
            self.begin()
            return
        which = self.random.random()
        if which < 0.02:
            self.random.choice([self.threads, self.threads, self.reset, self.replace])()
        elif len(self.things) >= MAX_THINGS or which < 0.05:
            self.let_go_of_all()
        elif which < 0.45:
            self.let_go()
        else:
            self.make()

    def begin(self):
        try:
            self.end = self.walker.begin()
        except CudaError as error:
            self.note("begin", error.args[0])
            self.walker.cu.code("cuDevicePrimaryCtxRelease_v2", 0)

    def stand(self):
        """Nothing of it is on its way any more, and what the card has let go of is told, also by the program before an exec."""
        self.walker.cu.code("cuInit", 0)
        self.fork()
        if self.end is not None:
            self.note("cuCtxSynchronize", self.walker.cu.code("cuCtxSynchronize"))
            self.walker.cu.code("cuMemGetInfo_v2", c.byref(c.c_size_t()), c.byref(c.c_size_t()))

    def ends(self):
        self.let_go_of_all()
        if self.end is not None:
            self.undo("the end", self.end)
        self.end = None


def hears(wait):
    """The next line; None: there is none yet."""
    return sys.stdin.readline().strip() if select.select([sys.stdin], [], [], None if wait else 0)[0] else None


def serve(seed, goes):
    one = Torture(seed)
    while True:
        word = hears(wait=not goes)
        if word == "":
            return
        if word is None:
            one.step()
            continue
        goes = word == "go"
        if word == "stand":
            one.stand()
        if word == "end":
            one.ends()
        odd, one.odd = one.odd, []
        print(json.dumps({"word": word, "taken": taken(), "odd": odd}), flush=True)


serve(int(sys.argv[1]), len(sys.argv) > 2)
