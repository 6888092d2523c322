# SPDX-License-Identifier: Apache-2.0
"""A container as the limiter sees one: a mount namespace with the libraries under their names, the real one under its private path,
and the folder of the share, written here as the agent writes it (limiter/region.h)."""
import ctypes
import mmap
import os
import pathlib
import select
import socket
import struct
import subprocess
import sys
import uuid

from cuda import MIB, Client

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILT = ROOT / "build" / os.environ.get("VARIANT", "release")

# The system's libraries are seen as they are, with a few files more. What it changes is gone with its last process.
ENTER = """
set -e
mount -t tmpfs container "$1/scratch"
mkdir "$1/scratch/upper" "$1/scratch/work"
mount -t overlay container -o "lowerdir=/usr/lib,upperdir=$1/scratch/upper,workdir=$1/scratch/work" /usr/lib
mkdir -p /usr/lib/cleave/real
place() { [ ! -e "$1" ] || { touch "$2"; mount --bind "$1" "$2"; }; }
place "$2/libcleave-cuda.so" /usr/lib/x86_64-linux-gnu/libcuda.so.1
place "$2/libcleave-cuda.so" /usr/lib/x86_64-linux-gnu/libcuda.so
place "$2/libcleave-nvml.so" /usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1
place "$3/libcuda.so.1" /usr/lib/cleave/real/libcuda.so.1
place "$3/libnvidia-ml.so.1" /usr/lib/cleave/real/libnvidia-ml.so.1
mount -t tmpfs container /run
mkdir /run/cleave
mount --bind "$1/share" /run/cleave
mount -o remount,bind,ro /run/cleave
[ ! -e /run/cleave/usage ] || mount --bind "$1/share/usage" /run/cleave/usage
shift 3
exec "$@"
"""

MAX_CARDS, MAX_PROCESSES = 16, 1024
HEAD, CARD = "<QIIIIII12Q", "<16sQQIIIIIIQ8Q"
TERMS_BYTES, USAGE_BYTES = 128 + MAX_CARDS * 128, 128 + MAX_PROCESSES * 64 + MAX_CARDS * MAX_PROCESSES * 24
MAGIC = {"terms": b"CVterms1", "usage": b"CVusage1"}
TAKEN = 128 + MAX_PROCESSES * 64
BY_CONTEXTS = TAKEN + MAX_CARDS * MAX_PROCESSES * 8


def magic(name):
    return int.from_bytes(MAGIC[name], "little")


def terms(cards):
    """The bytes of a file of terms. cards: (UUID, dict of what is not 0)."""
    text = struct.pack(HEAD, magic("terms"), 1, TERMS_BYTES, len(cards), 0, 0, 0, *[0] * 12)
    for name, t in cards:
        text += struct.pack(
            CARD, uuid.UUID(name.removeprefix("GPU-")).bytes, t.get("mib", 0) * MIB, t.get("context", 0), t.get("percent", 0),
            t.get("priority", 0), 1, 0, 0, 0, 0, *[0] * 8,
        )
    return text.ljust(TERMS_BYTES, b"\0")


def usage():
    return struct.pack("<QIIII", magic("usage"), 1, USAGE_BYTES, 0, 0).ljust(USAGE_BYTES, b"\0")


OPEN, TELL, CLOSED, TURN = range(4)
HELLO, SERVES, WANT, DRAINED, IDLE = range(1, 6)
SYS_FUTEX, FUTEX_WAKE = 202, 1


class Agent:
    """The agent's side of a container: its gates and its socket."""

    def __init__(self, share):
        self.path = share / "agent"
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(str(self.path))
        with (share / "terms").open("r+b") as file:
            self.terms = mmap.mmap(file.fileno(), TERMS_BYTES)
        self.word = ctypes.c_uint32.from_buffer
        self.turns = [0] * MAX_CARDS

    def hears(self, seconds=20):
        """The next message: (word, card, turn)."""
        assert select.select([self.socket], [], [], seconds)[0], "nobody said anything"
        _, word, card, turn, _, _ = struct.unpack("<6I", self.socket.recv(100))
        return word, card, turn

    def is_quiet(self):
        return not select.select([self.socket], [], [], 0)[0]

    def beat(self):
        beat = self.word(self.terms, 32 - 8)
        beat.value += 1
        ctypes.CDLL(None).syscall(SYS_FUTEX, ctypes.byref(beat), FUTEX_WAKE, 1 << 30, None, None, 0)

    def sets(self, card, gate):
        """Changes a gate; returns the turn, which is a new one."""
        at = 128 + card * 128
        self.turns[card] += 1
        self.word(self.terms, at + 52).value = self.turns[card]
        self.word(self.terms, at + 48).value = gate
        gates = [self.word(self.terms, 128 + i * 128 + 48).value for i in range(MAX_CARDS)]
        self.word(self.terms, 20).value = sum(one != OPEN for one in gates)
        self.beat()
        return self.turns[card]

    def sets_limit(self, card, limit):
        ctypes.c_uint64.from_buffer(self.terms, 128 + card * 128 + 16).value = limit


class Box:
    """The namespace and the folder of a share. drivers: the folder of the real libraries; cards: as terms() has them."""

    def __init__(self, path, drivers, cards):
        self.path, self.drivers, self.cards = path, drivers, cards
        self.share = path / "share"
        for folder in (self.share, path / "scratch"):
            folder.mkdir(parents=True)
        (self.share / "terms").write_bytes(terms(self.cards))
        (self.share / "usage").write_bytes(usage())

    @property
    def enter(self):
        """The words before a command that runs it in the container."""
        return ["unshare", "--mount", "sh", "-c", ENTER, "container", str(self.path), str(BUILT / "limiter"), str(self.drivers)]


class Container(Box):
    """One on a simulated machine."""

    def __init__(self, machine, path, shares):
        self.machine, self.clients = machine, []
        uuids = [gpu["uuid"] for gpu in machine.show()["gpus"]]
        super().__init__(path, BUILT / "sim", [(one, t if isinstance(t, dict) else {"mib": t}) for one, t in zip(uuids, shares)])

    def environment(self, **more):
        return dict(self.machine.env, PYTHONPATH=os.pathsep.join(sys.path), **more)

    def run(self, *words, stdin=None, **env):
        """A command in the container, to its end."""
        command = [*self.enter, *map(str, words)]
        return subprocess.run(command, env=self.environment(**env), text=True, input=stdin, capture_output=True, timeout=100)

    def client(self, **env):
        self.clients.append(Client(self.machine, *self.enter, LIBCUDA="libcuda.so.1", **env))
        return self.clients[-1]

    def worker(self, card=0):
        """A process with the primary context of a card."""
        one = self.client()
        answer = one.says(f"cu.init({card})")
        assert answer is None, answer
        return one

    def taken(self, card=0, table=TAKEN):
        """{slot: bytes} as the container's processes have written it; table BY_CONTEXTS: for their contexts."""
        words = struct.unpack_from(f"<{MAX_PROCESSES}Q", (self.share / "usage").read_bytes(), table + card * MAX_PROCESSES * 8)
        return {slot: n for slot, n in enumerate(words) if n}

    def change(self, card, **t):
        """Writes other terms in place, as the agent does."""
        name, old = self.cards[card]
        self.cards[card] = (name, {**old, **t})
        with (self.share / "terms").open("r+b") as file:
            file.write(terms(self.cards))

    def agent(self):
        return Agent(self.share)

    def end(self):
        for one in self.clients:
            one.kill()
