# SPDX-License-Identifier: Apache-2.0
"""A container as the limiter sees one: a mount namespace with the libraries under their names, the real one under its private path,
and the folder of the share, written here as the agent writes it (limiter/region.h)."""
import os
import pathlib
import struct
import uuid

from cuda import MIB, Client

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILT = ROOT / "build" / os.environ.get("VARIANT", "release")

# The system's libraries are seen as they are, with three files more. What it changes is gone with its last process.
ENTER = """
set -e
mount -t tmpfs container "$1/scratch"
mkdir "$1/scratch/upper" "$1/scratch/work"
mount -t overlay container -o "lowerdir=/usr/lib,upperdir=$1/scratch/upper,workdir=$1/scratch/work" /usr/lib
mkdir -p /usr/lib/cleave/real
place() { [ ! -e "$1" ] || { touch "$2"; mount --bind "$1" "$2"; }; }
place "$2/limiter/libcleave-cuda.so" /usr/lib/x86_64-linux-gnu/libcuda.so.1
place "$2/limiter/libcleave-nvml.so" /usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1
place "$2/sim/libcuda.so.1" /usr/lib/cleave/real/libcuda.so.1
place "$2/sim/libnvidia-ml.so.1" /usr/lib/cleave/real/libnvidia-ml.so.1
mount -t tmpfs container /run
mkdir /run/cleave
mount --bind "$1/share" /run/cleave
mount -o remount,bind,ro /run/cleave
[ ! -e /run/cleave/usage ] || mount --bind "$1/share/usage" /run/cleave/usage
shift 2
exec "$@"
"""

MAX_CARDS, MAX_PROCESSES = 16, 1024
HEAD, CARD = "<QIIIIII12Q", "<16sQQIIIIIIQ8Q"
TERMS_BYTES, USAGE_BYTES = 128 + MAX_CARDS * 128, 128 + MAX_PROCESSES * 64 + MAX_CARDS * MAX_PROCESSES * 8
MAGIC = {"terms": b"CVterms1", "usage": b"CVusage1"}
TAKEN = 128 + MAX_PROCESSES * 64


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


class Container:
    def __init__(self, machine, path, shares):
        self.machine, self.path, self.clients = machine, path, []
        self.share = path / "share"
        for folder in (self.share, path / "scratch"):
            folder.mkdir(parents=True)
        uuids = [gpu["uuid"] for gpu in machine.show()["gpus"]]
        self.cards = [(one, t if isinstance(t, dict) else {"mib": t}) for one, t in zip(uuids, shares)]
        (self.share / "terms").write_bytes(terms(self.cards))
        (self.share / "usage").write_bytes(usage())

    @property
    def enter(self):
        """The words before a command that runs it in the container."""
        return ["unshare", "--mount", "sh", "-c", ENTER, "container", str(self.path), str(BUILT)]

    def client(self, **env):
        self.clients.append(Client(self.machine, *self.enter, LIBCUDA="libcuda.so.1", **env))
        return self.clients[-1]

    def worker(self, card=0):
        """A process with the primary context of a card."""
        one = self.client()
        answer = one.says(f"cu.init({card})")
        assert answer is None, answer
        return one

    def taken(self, card=0):
        """{slot: bytes} as the container's processes have written it."""
        words = struct.unpack_from(f"<{MAX_PROCESSES}Q", (self.share / "usage").read_bytes(), TAKEN + card * MAX_PROCESSES * 8)
        return {slot: n for slot, n in enumerate(words) if n}

    def change(self, card, **t):
        """Writes other terms in place, as the agent does."""
        name, old = self.cards[card]
        self.cards[card] = (name, {**old, **t})
        with (self.share / "terms").open("r+b") as file:
            file.write(terms(self.cards))

    def end(self):
        for one in self.clients:
            one.kill()
