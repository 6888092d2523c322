# SPDX-License-Identifier: Apache-2.0
"""A monitor in a container: NVIDIA's Python client, in a process that uses no CUDA. Run as a program it is the other side of Monitor."""
import ctypes as c
import os
import subprocess
import sys
import traceback

HELLO = "is initialised"


class Monitor:
    """says(code): the value of a Python expression there; `nv` is pynvml, `h` the handle of the first card, `c` ctypes, and
    forked(code) the value of an expression in the child of a fork."""

    def __init__(self, container, init=True):
        container.clients.append(self)
        self.process = subprocess.Popen(
            [*container.enter, sys.executable, __file__], env=container.environment(), text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        self.pid = self.process.pid
        if init:
            assert self.says("start()") == HELLO

    def says(self, code):
        self.process.stdin.write(code + "\n")
        self.process.stdin.flush()
        return eval(self.process.stdout.readline())

    def memory(self):
        """(total, used, free) of the first card, in MiB."""
        return self.says("[x >> 20 for x in (lambda m: (m.total, m.used, m.free))(nv.nvmlDeviceGetMemoryInfo(h))]")

    def processes(self):
        """{pid: bytes} of the first card."""
        return self.says("{p.pid: p.usedGpuMemory for p in nv.nvmlDeviceGetComputeRunningProcesses(h)}")

    def kill(self):
        """Ends it; what it wrote to stderr."""
        self.process.kill()
        return self.process.communicate()[1]


def start(known):
    known["nv"].nvmlInit()
    known["h"] = known["nv"].nvmlDeviceGetHandleByIndex(0)
    return HELLO


def value(code, known):
    try:
        return repr(eval(code, known))
    except known["nv"].NVMLError as error:
        return repr(-error.value)
    except Exception:
        return repr(traceback.format_exc())


def forked(code, known):
    reads, writes = os.pipe()
    if os.fork() == 0:
        os.write(writes, value(code, known).encode())
        os._exit(0)
    os.close(writes)
    os.wait()
    with os.fdopen(reads) as answer:
        return eval(answer.read())


def serve():
    """Answers each line with the value of its expression, or with the number of NVML's code, negative."""
    import pynvml as nv

    known = {"nv": nv, "c": c}
    known["start"] = lambda: start(known)
    known["forked"] = lambda code: forked(code, known)
    for line in sys.stdin:
        print(value(line, known), flush=True)


if __name__ == "__main__":
    serve()
