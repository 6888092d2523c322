# SPDX-License-Identifier: Apache-2.0
"""CUDA's driver API as a client sees it: its codes, and short ways to call it. Run as a program it is the other side of Client."""
import ctypes as c
import os
import pathlib
import subprocess
import sys
import threading
import traceback

# As conftest has it, which a client does without: it looks for NVIDIA's own client first.
OUT = pathlib.Path(__file__).resolve().parents[2] / "build" / os.environ.get("VARIANT", "release") / "sim"

INVALID_VALUE, OUT_OF_MEMORY, NOT_INITIALIZED, UNAVAILABLE, NO_DEVICE, INVALID_DEVICE = 1, 2, 3, 46, 100, 101
INVALID_CONTEXT, NOT_FOUND, DESTROYED, NOT_SUPPORTED = 201, 500, 709, 801
INVALID_IMAGE, NO_BINARY, INVALID_PTX, UNSUPPORTED_PTX, FILE_NOT_FOUND, INVALID_HANDLE, NOT_READY = 200, 209, 218, 222, 301, 400, 600
MAP_FAILED = 205
ALREADY_REGISTERED, NOT_REGISTERED, TOO_LARGE, NOT_PERMITTED, OUT_OF_RESOURCES = 712, 713, 720, 800, 701
ILLEGAL_ADDRESS, ILLEGAL_STATE, UNKNOWN = 700, 401, 999
UNSUPPORTED, INVALIDATED, MERGE, UNMATCHED, UNJOINED, ISOLATION, IMPLICIT, CAPTURED_EVENT, WRONG_THREAD = range(900, 909)
GLOBAL, THREAD_LOCAL, RELAXED = 0, 1, 2
KERNEL, MEMCPY, MEMSET, HOST, GRAPH, EMPTY, WAIT_EVENT, EVENT_RECORD, MEM_ALLOC, MEM_FREE = 0, 1, 2, 3, 4, 5, 6, 7, 10, 11
FOREVER = 2**64 - 1
LEGACY, PER_THREAD = 1, 2
MIB, GRANULE, CONTEXT = 1 << 20, 2 << 20, 448 << 20

FUNCTION = c.CFUNCTYPE(None, c.c_void_p)
SPIN = (pathlib.Path(__file__).parent / "spin.ptx").read_bytes()


class Location(c.Structure):
    """CUmemLocation: type 1 is a device, 2 to 4 the host."""

    _fields_ = [("type", c.c_int), ("id", c.c_int)]


class Access(c.Structure):
    """CUmemAccessDesc: flags 1 is reading, 3 writing too."""

    _fields_ = [("location", Location), ("flags", c.c_int)]


class PoolProps(c.Structure):
    """CUmemPoolProps: by default pinned memory of device 0, which cannot be exported."""

    _fields_ = [("allocType", c.c_int), ("handleTypes", c.c_int), ("type", c.c_int), ("id", c.c_int), ("security", c.c_void_p)]
    _fields_ += [("maxSize", c.c_size_t), ("usage", c.c_ushort), ("reserved", c.c_ubyte * 54)]

    def __init__(self, **values):
        super().__init__(**{"allocType": 1, "type": 1, **values})


class Prop(c.Structure):
    """CUmemAllocationProp: by default of device 0, and for this process alone."""

    _fields_ = [("kind", c.c_int), ("handles", c.c_int), ("type", c.c_int), ("id", c.c_int), ("security", c.c_void_p)]
    _fields_ += [("compression", c.c_ubyte), ("rdma", c.c_ubyte), ("usage", c.c_ushort), ("reserved", c.c_ubyte * 4)]

    def __init__(self, **values):
        super().__init__(**{"kind": 1, "type": 1, **values})


class Data(c.Structure):
    """The 64 bytes of CUipcMemHandle and CUmemPoolPtrExportData, which mean nothing to a program."""

    _fields_ = [("bytes", c.c_ubyte * 64)]


class Shape(c.Structure):
    """CUDA_ARRAY3D_DESCRIPTOR: by default of single bytes."""

    _fields_ = [("width", c.c_size_t), ("height", c.c_size_t), ("depth", c.c_size_t), ("format", c.c_int), ("channels", c.c_uint), ("flags", c.c_uint)]

    def __init__(self, width=0, height=0, depth=0, format=1, channels=1, flags=0):
        super().__init__(width, height, depth, format, channels, flags)


class Flat(c.Structure):
    """CUDA_ARRAY_DESCRIPTOR."""

    _fields_ = [("width", c.c_size_t), ("height", c.c_size_t), ("format", c.c_int), ("channels", c.c_uint)]


def end(name):
    """The members of one end of CUDA_MEMCPY3D."""
    return [
        *((f"{name}_{word}", c.c_size_t) for word in ("x", "y", "z", "level")), (f"{name}_type", c.c_int), (f"{name}_host", c.c_void_p),
        (f"{name}_device", c.c_uint64), (f"{name}_array", c.c_void_p), (f"{name}_unused", c.c_void_p), (f"{name}_pitch", c.c_size_t), (f"{name}_height", c.c_size_t),
    ]  # fmt: skip


def flat_end(name):
    return [field for field in end(name) if field[0].split("_")[1] not in ("z", "level", "unused", "height")]


class Box(c.Structure):
    """CUDA_MEMCPY3D: types 1 host, 2 device, 3 array, 4 whatever the address is."""

    _fields_ = [*end("from"), *end("to"), ("width", c.c_size_t), ("height", c.c_size_t), ("depth", c.c_size_t)]


class Plane(c.Structure):
    """CUDA_MEMCPY2D."""

    _fields_ = [*flat_end("from"), *flat_end("to"), ("width", c.c_size_t), ("height", c.c_size_t)]


class External(c.Structure):
    """CUDA_EXTERNAL_MEMORY_HANDLE_DESC of a descriptor, whose union is as long as two pointers."""

    _fields_ = [("type", c.c_int), ("fd", c.c_int64), ("more", c.c_int64), ("size", c.c_ulonglong), ("flags", c.c_uint), ("reserved", c.c_uint * 16)]


class Buffer(c.Structure):
    """CUDA_EXTERNAL_MEMORY_BUFFER_DESC."""

    _fields_ = [("offset", c.c_ulonglong), ("size", c.c_ulonglong), ("flags", c.c_uint), ("reserved", c.c_uint * 16)]


class Team(c.Structure):
    """CUmulticastObjectProp."""

    _fields_ = [("devices", c.c_uint), ("size", c.c_size_t), ("handles", c.c_ulonglong), ("flags", c.c_ulonglong)]


class Kernel(c.Structure):
    """CUDA_KERNEL_NODE_PARAMS: by default of one thread."""

    _fields_ = [("function", c.c_void_p), ("grid", c.c_uint * 3), ("block", c.c_uint * 3), ("shared", c.c_uint)]
    _fields_ += [("params", c.POINTER(c.c_void_p)), ("extra", c.c_void_p), ("kernel", c.c_void_p), ("context", c.c_void_p)]

    def __init__(self, function=None, grid=(1, 1, 1), block=(1, 1, 1), pointers=None):
        super().__init__(function, grid, block, 0, pointers)


class Setting(c.Structure):
    """CUDA_MEMSET_NODE_PARAMS."""

    _fields_ = [("to", c.c_uint64), ("pitch", c.c_size_t), ("value", c.c_uint), ("element", c.c_uint), ("width", c.c_size_t), ("height", c.c_size_t)]
    _fields_ += [("context", c.c_void_p)]


class Allocation(c.Structure):
    """CUDA_MEM_ALLOC_NODE_PARAMS of device 0."""

    _fields_ = [("props", PoolProps), ("access", c.c_void_p), ("accesses", c.c_size_t), ("size", c.c_size_t), ("at", c.c_uint64)]

    def __init__(self, size):
        super().__init__(PoolProps(), None, 0, size)


class CudaError(Exception):
    """A call failed; the argument is its code."""


class Cuda:
    """The library in this process. Calls raise CudaError; an argument of a type gets what the call writes there."""

    SPIN = SPIN

    def __init__(self):
        self.lib = c.CDLL(os.environ.get("LIBCUDA", str(OUT / "libcuda.so.1")))
        self.spinners, self.functions = {}, []

    def __call__(self, name, *args):
        written = [a() if isinstance(a, type) else None for a in args]
        values = [c.byref(w) if w is not None else c.c_uint64(a) if isinstance(a, int) else a for a, w in zip(args, written)]
        code = getattr(self.lib, name)(*values)
        if code:
            raise CudaError(code)
        found = [w.value if hasattr(w, "value") else w for w in written if w is not None]
        return found[0] if len(found) == 1 else tuple(found) or None

    def code(self, name, *args):
        try:
            self(name, *args)
        except CudaError as error:
            return error.args[0]
        return 0

    def init(self, device=None):
        """With a device: and its primary context is the current one."""
        self("cuInit", 0)
        self.spinners = {}
        if device is not None:
            self("cuCtxSetCurrent", self("cuDevicePrimaryCtxRetain", c.c_void_p, device))
        return self

    def stream(self, flags=0, priority=0):
        return self("cuStreamCreateWithPriority", c.c_void_p, flags, c.c_int(priority))

    def event(self, flags=0):
        return self("cuEventCreate", c.c_void_p, flags)

    def load(self, text=SPIN):
        return self("cuModuleLoadData", c.c_void_p, c.c_char_p(text))

    def function(self, name, text=SPIN):
        """A function of the current context, of a module of its own."""
        return self("cuModuleGetFunction", c.c_void_p, self.load(text), name.encode())

    def launch(self, function, *params, grid=(1, 1, 1), block=(1, 1, 1), shared=0, stream=None, call="cuLaunchKernel"):
        """Launches with parameters that are of types of C."""
        pointers = (c.c_void_p * (len(params) + 1))(*(c.addressof(p) for p in params))
        self(call, function, *grid, *block, shared, stream, pointers, None)

    def spins(self, ns, stream=None, times=1):
        """Keeps the card busy for so many nanoseconds, as often."""
        current = self("cuCtxGetCurrent", c.c_void_p)
        if current not in self.spinners:
            self.spinners[current] = self.function("spin_ns")
        for _ in range(times):
            self.launch(self.spinners[current], c.c_uint64(ns), stream=stream)

    def hold(self, stream=None):
        """Keeps a stream from going on until the gate, which is returned, is set."""
        gate = threading.Event()
        self.functions.append(FUNCTION(lambda data: (gate.wait(), None)[1]))
        self("cuLaunchHostFunc", stream, self.functions[-1], None)
        return gate

    def word(self, pointer):
        """What a copy, which waits for the legacy stream's turn, finds at an address."""
        found = c.c_uint32()
        self("cuMemcpyDtoH_v2", c.byref(found), pointer, 4)
        return found.value

    def alloc(self, size):
        return self("cuMemAlloc_v2", c.c_uint64, size)

    def create(self, size, **prop):
        """A handle of physical memory."""
        return self("cuMemCreate", c.c_uint64, size, c.byref(Prop(**prop)), 0)

    def map(self, handle, size, at=None):
        """Its memory at an address, which device 0 may read and write."""
        at = self("cuMemAddressReserve", c.c_uint64, size, 0, 0, 0) if at is None else at
        self("cuMemMap", at, size, 0, handle, 0)
        self("cuMemSetAccess", at, size, c.byref(Access(Location(1, 0), 3)), 1)
        return at

    def export(self, handle):
        return self("cuMemExportToShareableHandle", c.c_int, handle, 1, 0)

    def from_process(self, pid, fd):
        """A handle of what another process exported: its descriptor, as if it had been sent here."""
        own = os.open(f"/proc/{pid}/fd/{fd}", os.O_RDWR)
        try:
            return self("cuMemImportFromShareableHandle", c.c_uint64, own, 1)
        finally:
            os.close(own)

    def ipc(self, pointer):
        """A handle of linear memory, as bytes."""
        found = Data()
        self("cuIpcGetMemHandle", c.byref(found), pointer)
        return bytes(found)

    def open(self, handle, flags=1):
        return self("cuIpcOpenMemHandle_v2", c.c_uint64, Data.from_buffer_copy(handle), flags)

    def export_pointer(self, pointer):
        found = Data()
        self("cuMemPoolExportPointer", c.byref(found), pointer)
        return bytes(found)

    def import_pointer(self, pool, data):
        return self("cuMemPoolImportPointer", c.c_uint64, pool, c.byref(Data.from_buffer_copy(data)))

    def array(self, *shape, **more):
        return self("cuArray3DCreate_v2", c.c_void_p, c.byref(Shape(*shape, **more)))

    def copy(self, call, **members):
        """A copy in two or three dimensions, of the addresses of bytes where a host is meant."""
        for name, value in members.items():
            if name.endswith("_host") and not isinstance(value, int):
                members[name] = c.cast(value, c.c_void_p)
        self(call, c.byref((Plane if "2D" in call else Box)(**members)))

    def write(self, at, data):
        self("cuMemcpyHtoD_v2", at, data, len(data))

    def read(self, at, size):
        found = c.create_string_buffer(size)
        self("cuMemcpyDtoH_v2", found, at, size)
        return found.raw

    def capture(self, stream, mode=GLOBAL):
        self("cuStreamBeginCapture_v2", stream, mode)
        return stream

    def captured(self, stream):
        return self("cuStreamEndCapture", stream, c.c_void_p)

    def status(self, stream):
        return self("cuStreamIsCapturing", stream, c.c_int)

    def exchange(self, mode):
        """The calling thread's mode until now."""
        found = c.c_int(mode)
        self("cuThreadExchangeStreamCaptureMode", c.byref(found))
        return found.value

    def listed(self, call, about, lists=1):
        """What a function lists, first asked for how much it is; of more lists tuples."""
        count = c.c_size_t()
        self(call, about, *[None] * lists, c.byref(count))
        found = [(c.c_void_p * (count.value + 1))() for _ in range(lists)]
        self(call, about, *found, c.byref(count))
        return list(found[0])[: count.value] if lists == 1 else [*zip(*found)][: count.value]

    def nodes(self, graph):
        return self.listed("cuGraphGetNodes", graph)

    def types(self, graph):
        return [self("cuGraphNodeGetType", node, c.c_int) for node in self.nodes(graph)]

    def edges(self, graph):
        """Pairs of nodes' numbers, in the order in which they were added."""
        numbers = {node: i for i, node in enumerate(self.nodes(graph))}
        return sorted((numbers[a], numbers[b]) for a, b in self.listed("cuGraphGetEdges", graph, 2))

    def in_thread(self, function):
        """What it returns in a thread of its own, with this one's context."""
        context, found = self("cuCtxGetCurrent", c.c_void_p), []
        thread = threading.Thread(target=lambda: (self("cuCtxSetCurrent", context), found.append(function())))
        thread.start()
        thread.join()
        return found[0]

    def free(self):
        return self("cuMemGetInfo_v2", c.c_size_t, c.c_size_t)[0]


class Client:
    """Another process with the library: says(code) is the value of a Python expression there; `cu` is its Cuda, `c` ctypes."""

    def __init__(self, machine, *before, **env):
        self.process = subprocess.Popen(
            [*before, sys.executable, __file__], env=dict(machine.env, PYTHONPATH=os.pathsep.join(sys.path), **env), text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )
        self.pid = self.process.pid

    def starts(self, code):
        self.process.stdin.write(code + "\n")
        self.process.stdin.flush()

    def says(self, code):
        self.starts(code)
        return eval(self.process.stdout.readline())

    def does(self, code):
        """Runs statements there."""
        assert self.says(f"exec({code!r})") is None

    def kill(self):
        self.process.kill()
        self.end()

    def end(self):
        self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()


def serve():
    """Answers each line with the value of its expression, or the number of CUDA's code, negative."""
    known = {"cu": Cuda(), "c": c, "os": os, "threading": threading, "FOREVER": FOREVER, "Location": Location, "Access": Access}
    known.update(PoolProps=PoolProps, Prop=Prop, Data=Data, Shape=Shape, Flat=Flat, Box=Box, Plane=Plane, External=External, Buffer=Buffer, Team=Team)
    known.update(Kernel=Kernel, Setting=Setting, Allocation=Allocation)
    for line in sys.stdin:
        try:
            answer = eval(line, known)
        except CudaError as error:
            answer = -error.args[0]
        except Exception:
            answer = traceback.format_exc()
        print(None if isinstance(answer, Cuda) else repr(answer), flush=True)


if __name__ == "__main__":
    serve()
