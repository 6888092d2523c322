# SPDX-License-Identifier: Apache-2.0
"""A container that writes nonsense into `usage`, which it may write: its own processes go on, or are refused; others notice nothing.

Two things are its own doing, and are not held by the library. A container that writes less into its words than it has gets more than its
share: the agent sees that from outside, by what the driver says of each process (docs/limits.md). And one that shortens the file ends its
own processes, by SIGBUS, when they next look at it."""
import mmap
import random
import signal
import struct
import subprocess

import pynvml as nv
import pytest
from compiled import program
from conftest import OUT
from container import MAX_PROCESSES, TAKEN, USAGE_BYTES, usage
from cuda import CONTEXT, MIB

SHARE = {"mib": 9000, "context": CONTEXT}
HEAD, LOCK, REACH, SLOTS, SLOT_BYTES = 16, 24, 20, 128, 64
BURSTS, WRITES = 15, 1000


@pytest.fixture(scope="module")
def storm(tmp_path_factory):
    path = tmp_path_factory.mktemp("storm")
    (path / "libcuda.so").symlink_to(OUT / "libcuda.so.1")
    return program(path / "storm", "test/limiter/storm.c", last=[f"-L{path}", "-lcuda"])


def anywhere(rng):
    return rng.randrange(HEAD, USAGE_BYTES - 8), rng.randbytes(8)


def where_it_matters(rng):
    """The lock, the reach, and what processes say of themselves and of what they have: nonsense, and what might be true."""
    slot = rng.randrange(16)
    at = rng.choice([LOCK, LOCK + 4, REACH, *(SLOTS + slot * SLOT_BYTES + i for i in (0, 4, 8, 16)), *[TAKEN + slot * 8] * 4])
    value = rng.choice([0, 1, MIB, 1 << 31, 2**32 - 1, 2**63, 2**64 - 1, rng.randrange(2**32), rng.randrange(2**64)])
    return at, struct.pack("<Q", value)[: rng.choice([4, 8])]


def ends_within(process, seconds):
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        pass


@pytest.mark.parametrize("where", [anywhere, where_it_matters])
@pytest.mark.parametrize("seed", [1, 2])
def test_processes_of_a_container_that_scribbles_do_not_crash_and_others_notice_nothing(h100, container, storm, where, seed):
    rng = random.Random(seed)
    one, other = container(h100, SHARE), container(h100, SHARE)
    neighbour = other.worker()
    before = (one.share / "terms").read_bytes()
    process = subprocess.Popen([*one.enter, str(storm), str(seed), "8", "150", "10"], env=one.environment(), text=True, stdout=subprocess.PIPE)
    with (one.share / "usage").open("r+b") as file:
        words = mmap.mmap(file.fileno(), USAGE_BYTES)
    while not one.taken():
        assert process.poll() is None
    for _ in range(BURSTS):
        for _ in range(WRITES):
            at, data = where(rng)
            words[at : at + len(data)] = data
        ends_within(process, 0.1)
        words[HEAD:] = usage()[HEAD:]  # else there is no room for anything any more
        ends_within(process, 0.1)
    granted, _, odd = map(int, process.communicate(timeout=150)[0].split())
    assert process.returncode == 0 and granted > 0 and odd == 0
    assert neighbour.says("cu.free()") == 9000 * MIB - CONTEXT
    handle = nv.nvmlDeviceGetHandleByIndex(0)
    assert [p.pid for p in nv.nvmlDeviceGetComputeRunningProcesses(handle)] == [neighbour.pid], "nothing is left on the card"
    assert (one.share / "terms").read_bytes() == before
    (one.share / "usage").write_bytes(usage())
    assert one.worker().says("cu.free()") == 9000 * MIB - CONTEXT, "as the agent makes it for the next container"


def test_words_that_add_up_to_more_than_there_can_be_give_nothing(h100, container):
    one = container(h100, SHARE)
    worker = one.worker()
    with (one.share / "usage").open("r+b") as file:
        for slot in (MAX_PROCESSES - 1, MAX_PROCESSES - 2):
            file.seek(TAKEN + slot * 8)
            file.write(struct.pack("<Q", 2**63))
        file.seek(REACH)
        file.write(struct.pack("<I", 2**32 - 1))
    assert worker.says(f"cu.alloc({2 * MIB})") == -2


def test_a_container_that_shortens_its_file_ends_its_own_processes(h100, container):
    one, other = container(h100, SHARE), container(h100, SHARE)
    worker, neighbour = one.worker(), other.worker()
    (one.share / "usage").write_bytes(b"")
    worker.starts("cu.free()")
    assert worker.process.wait(20) == -signal.SIGBUS
    assert neighbour.says(f"cu.alloc({8000 * MIB}) > 0")
