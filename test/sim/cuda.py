# SPDX-License-Identifier: Apache-2.0
"""CUDA's driver API as a client sees it: its codes, and short ways to call it. Run as a program it is the other side of Client."""
import ctypes as c
import os
import pathlib
import subprocess
import sys
import traceback

# As conftest has it, which a client does without: it looks for NVIDIA's own client first.
OUT = pathlib.Path(__file__).resolve().parents[2] / "build" / os.environ.get("VARIANT", "release") / "sim"

INVALID_VALUE, OUT_OF_MEMORY, NOT_INITIALIZED, UNAVAILABLE, NO_DEVICE, INVALID_DEVICE = 1, 2, 3, 46, 100, 101
INVALID_CONTEXT, NOT_FOUND, DESTROYED = 201, 500, 709
MIB, GRANULE, CONTEXT = 1 << 20, 2 << 20, 448 << 20


class CudaError(Exception):
    """A call failed; the argument is its code."""


class Cuda:
    """The library in this process. Calls raise CudaError; an argument of a type gets what the call writes there."""

    def __init__(self):
        self.lib = c.CDLL(os.environ.get("LIBCUDA", str(OUT / "libcuda.so.1")))

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
        if device is not None:
            self("cuCtxSetCurrent", self("cuDevicePrimaryCtxRetain", c.c_void_p, device))
        return self

    def alloc(self, size):
        return self("cuMemAlloc_v2", c.c_uint64, size)

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

    def kill(self):
        self.process.kill()
        self.end()

    def end(self):
        self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()


def serve():
    """Answers each line with the value of its expression, or the number of CUDA's code, negative."""
    known = {"cu": Cuda(), "c": c, "os": os}
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
