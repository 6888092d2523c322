# SPDX-License-Identifier: Apache-2.0
"""A program's ways to memory of the card, and what its process then has by its own account and by the card's; in a container.

A step returns the calls that let go of what it has made, in their order."""
import ctypes as c
import os
import struct

from cuda import RELAXED, Cuda, External, Flat, PoolProps, Shape

REAL_NVML, SHARE = "/usr/lib/cleave/real/libnvidia-ml.so.1", "/run/cleave"
MAX_PROCESSES, SLOTS, SLOT_BYTES = 1024, 128, 64
TAKEN = SLOTS + MAX_PROCESSES * SLOT_BYTES


class Running(c.Structure):
    """nvmlProcessInfo_t"""

    _fields_ = [("pid", c.c_uint), ("bytes", c.c_ulonglong), ("gpu_instance", c.c_uint), ("compute_instance", c.c_uint)]


class Card:
    """The first card as NVML has it, not the limiter's but the driver's own."""

    def __init__(self):
        self.nvml, self.handle = c.CDLL(REAL_NVML), c.c_void_p()
        assert self.nvml.nvmlInit_v2() == 0
        assert self.nvml.nvmlDeviceGetHandleByIndex_v2(0, c.byref(self.handle)) == 0

    def given(self, pid=None):
        """What it has given a process, this one."""
        n, found = c.c_uint(MAX_PROCESSES), (Running * MAX_PROCESSES)()
        assert self.nvml.nvmlDeviceGetComputeRunningProcesses_v3(self.handle, c.byref(n), found) == 0
        return sum(one.bytes for one in found[: n.value] if one.pid == (pid or os.getpid()))


def taken(card=0):
    """What this process has taken, as it has written it."""
    with open(f"{SHARE}/usage", "rb") as file:
        text = file.read()
    own = [i for i in range(MAX_PROCESSES) if struct.unpack_from("<I", text, SLOTS + i * SLOT_BYTES)[0] == os.getpid()]
    return sum(struct.unpack_from("<Q", text, TAKEN + (card * MAX_PROCESSES + i) * 8)[0] for i in own)


class Walker:
    def __init__(self):
        self.cu = Cuda()

    def begin(self):
        """A context; a stream that stands apart from the default one, and a pool, which take nothing by themselves."""
        self.primary = self.cu.init(0)("cuCtxGetCurrent", c.c_void_p)
        self.s = self.cu.stream(1)
        self.o = self.cu("cuMemPoolCreate", c.c_void_p, c.byref(PoolProps()))
        return [("cuStreamDestroy_v2", self.s), ("cuMemPoolDestroy", self.o), ("cuDevicePrimaryCtxRelease_v2", 0)]

    # --- Steps ---

    def linear(self, size):
        return [("cuMemFree_v2", self.cu.alloc(size))]

    def small(self, size):
        return self.linear(size // 1024)

    def linear_that_a_stream_frees(self, size):
        return [("cuMemFreeAsync", self.cu.alloc(size), self.s), ("cuStreamSynchronize", self.s)]

    def pitched(self, size):
        return [("cuMemFree_v2", self.cu("cuMemAllocPitch_v2", c.c_uint64, c.c_size_t, 4096, size // 4096, 4)[0])]

    def managed(self, size):
        return [("cuMemFree_v2", self.cu("cuMemAllocManaged", c.c_uint64, size, 1))]

    def physical(self, size):
        return [("cuMemRelease", self.cu.create(size))]

    def mapped(self, size):
        """Retained by its address, and unmapped last."""
        x = self.cu.create(size)
        at = self.cu("cuMemAddressReserve", c.c_uint64, size, 0, 0, 0)
        if self.cu.code("cuMemMap", at, size, 0, x, 0):
            return [("cuMemRelease", x)]
        again = self.cu.code("cuMemRetainAllocationHandle", c.byref(c.c_uint64()), at) == 0
        return [("cuMemRelease", x)] * (1 + again) + [("cuMemUnmap", at, size)]

    def array(self, size):
        return [("cuArrayDestroy", self.cu.array(size // 4096, 1024, format=32))]

    def flat_array(self, size):
        return [("cuArrayDestroy", self.cu("cuArrayCreate_v2", c.c_void_p, c.byref(Flat(size // 4096, 1024, 32, 1))))]

    def mipmaps(self, size):
        """A power of two wide and high, so that each level is as the card lays it out."""
        return [("cuMipmappedArrayDestroy", self.cu("cuMipmappedArrayCreate", c.c_void_p, c.byref(Shape(4096, size >> 14, format=32)), 1))]

    def external(self, size):
        fd = os.memfd_create("graphics")
        os.ftruncate(fd, size)
        return [("cuDestroyExternalMemory", self.cu("cuImportExternalMemory", c.c_void_p, c.byref(External(fd=fd, size=size, type=1))))]

    def heap(self, size):
        self.cu("cuCtxSetLimit", 2, size + (8 << 20))
        return [("cuCtxSetLimit", 2, 8 << 20)]

    def pooled(self, size):
        return [("cuMemFreeAsync", self.cu("cuMemAllocAsync", c.c_uint64, size, self.s), self.s), ("cuStreamSynchronize", self.s)]

    def pooled_and_freed_at_once(self, size):
        x = self.cu("cuMemAllocAsync", c.c_uint64, size, self.s)
        return [("cuStreamSynchronize", self.s), ("cuMemFree_v2", x), ("cuCtxSynchronize",)]

    def pooled_of_its_own(self, size):
        return [("cuMemFreeAsync", self.cu("cuMemAllocFromPoolAsync", c.c_uint64, size, self.o, self.s), self.s), ("cuStreamSynchronize", self.s)]

    def pool_that_goes_before_its_memory(self, size):
        o = self.cu("cuMemPoolCreate", c.c_void_p, c.byref(PoolProps()))
        x = c.c_uint64()
        if self.cu.code("cuMemAllocFromPoolAsync", c.byref(x), size, o, self.s):
            return [("cuMemPoolDestroy", o)]
        return [("cuMemPoolDestroy", o), ("cuMemFreeAsync", x.value, self.s), ("cuStreamSynchronize", self.s)]

    def capture(self, size, frees):
        """What a capture allocates, a graph does when it is launched: (the graph, the address)."""
        graph, x = c.c_void_p(), c.c_uint64()
        self.cu.capture(self.s)
        made = self.cu.code("cuMemAllocAsync", c.byref(x), size, self.s) == 0
        if made and frees:
            self.cu.code("cuMemFreeAsync", x.value, self.s)
        self.cu.code("cuStreamEndCapture", self.s, c.byref(graph)) and self.cu.code("cuStreamEndCapture", self.s, c.byref(graph))
        return graph, x.value

    def captured(self, size):
        graph, _ = self.capture(size, frees=True)
        return [("cuGraphDestroy", graph)] if graph else []

    def graph(self, size, frees=True):
        """Launched twice, where it frees what it allocates; the card keeps the memory for the next launch."""
        graph, x = self.capture(size, frees)
        run = c.c_void_p()
        if not graph:
            return []
        if self.cu.code("cuGraphInstantiateWithFlags", c.byref(run), graph, 0):
            return [("cuGraphDestroy", graph)]
        launched = sum(self.cu.code("cuGraphLaunch", run, self.s) == 0 for _ in range(1 + frees))
        undo = [("cuMemFreeAsync", x, self.s)] if launched and x and not frees else []
        return [*undo, ("cuStreamSynchronize", self.s), ("cuGraphExecDestroy", run), ("cuGraphDestroy", graph), ("cuDeviceGraphMemTrim", 0)]

    def graph_whose_memory_stays(self, size):
        return self.graph(size, frees=False)

    def context(self, size):
        """One of its own ends with what was allocated in it."""
        context = self.cu("cuCtxCreate_v2", c.c_void_p, 0, 0)
        for n in (size, size // 1024, size // 2048):
            self.cu.code("cuMemAlloc_v2", c.byref(c.c_uint64()), n)
        self.cu("cuCtxSetCurrent", self.primary)
        return [("cuCtxDestroy_v2", context)]

    def retained(self, size):
        """The context that is there already."""
        self.cu("cuDevicePrimaryCtxRetain", c.c_void_p, 0)
        return [("cuDevicePrimaryCtxRelease_v2", 0)]

    def beside_a_capture(self, size):
        """Work and memory of one stream while another is captured, in a thread that may."""
        graph, x, t = c.c_void_p(), c.c_uint64(), self.cu.stream(1)
        self.cu.code("cuStreamBeginCapture_v2", t, RELAXED)
        made = self.cu.code("cuMemAllocAsync", c.byref(x), size, self.s) == 0
        if made:
            self.cu.code("cuMemsetD8Async", x.value, 7, 4, self.s)
        self.cu.code("cuStreamEndCapture", t, c.byref(graph)) and self.cu.code("cuStreamEndCapture", t, c.byref(graph))
        undo = [("cuGraphDestroy", graph)] if graph else []
        return [*undo, *[("cuMemFreeAsync", x.value, self.s)] * made, ("cuStreamSynchronize", self.s), ("cuStreamDestroy_v2", t)]

    def work(self, size):
        """Sets memory in both kinds of streams."""
        x = self.cu.alloc(size)
        for stream in [self.s, None] * 12:
            self.cu.code("cuMemsetD8Async", x, 7, 4, stream)
        return [("cuCtxSynchronize",), ("cuMemFree_v2", x)]


STEPS = [name for name in vars(Walker) if not name.startswith("_") and name not in ("begin", "capture")]
