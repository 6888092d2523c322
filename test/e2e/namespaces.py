# SPDX-License-Identifier: Apache-2.0
"""Work in the namespaces of another process: a socket opened, or a program started, within

    with inside(pid, "net"):

belongs to that process' network namespace. Only the calling thread moves, and it comes back.
"""

import contextlib
import ctypes
import os

LIBC = ctypes.CDLL(None, use_errno=True)


def enter(descriptor):
    """Moves the calling thread into the namespace behind the descriptor (setns(2))."""
    if LIBC.setns(descriptor, 0) != 0:
        raise OSError(ctypes.get_errno(), f"setns: {os.strerror(ctypes.get_errno())}")


@contextlib.contextmanager
def opened(pid, *kinds):
    """Descriptors of a process' namespaces: "net", "mnt", "pid"."""
    with contextlib.ExitStack() as stack:
        files = []
        for kind in kinds:
            files.append(os.open(f"/proc/{pid}/ns/{kind}", os.O_RDONLY))
            stack.callback(os.close, files[-1])
        yield files


@contextlib.contextmanager
def inside(pid, *kinds):
    """In these namespaces of a process; costs nothing, and needs no rights, where they are our own.

    "pid" counts for processes that are started meanwhile. "mnt" cannot be entered by a program with
    threads: a child does that (Where.before_exec).
    """
    kinds = [k for k in kinds if os.readlink(f"/proc/{pid}/ns/{k}") != os.readlink(f"/proc/self/ns/{k}")]
    with opened(pid, *kinds) as theirs, opened("thread-self", *kinds) as ours:
        try:
            for descriptor in theirs:
                enter(descriptor)
            yield
        finally:
            for descriptor in ours:
                enter(descriptor)


class Where:
    """Where programs are started: on this machine, as it is."""

    before_exec = None  # called in the child, with the folder to be in; None: nothing is to be done there

    def around(self):
        """What the thread that starts one is to be within."""
        return contextlib.nullcontext()


class Inside(Where):
    """In the namespaces of a process; of a node's first one, that is on the node."""

    def __init__(self, pid, *kinds):
        """pid is a function: a node that was started again has another one. Without kinds: net, pid and mnt."""
        self.pid, self.kinds = pid, kinds or ("net", "pid", "mnt")

    def around(self):
        return inside(self.pid(), *(k for k in self.kinds if k != "mnt"))

    def before_exec(self, cwd):
        if "mnt" not in self.kinds:
            return
        with opened(self.pid(), "mnt") as (mounts,):
            enter(mounts)
        # Entering has put the child at the node's root.
        os.chdir(cwd)
