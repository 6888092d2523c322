# SPDX-License-Identifier: Apache-2.0
"""Processes come, fork, are replaced, stopped and killed: the container's limit holds, and nothing is left of who has ended."""
import os
import signal
import struct
import subprocess

import pynvml as nv
import pytest
from compiled import SMALL_UUID, program, small_cuda
from conftest import OUT
from container import MAX_PROCESSES, Box
from cuda import CONTEXT, MIB, NOT_INITIALIZED, OUT_OF_MEMORY, Client

SHARE = {"mib": 3000, "context": CONTEXT}
LOCK, REACH = 24, 20  # of usage
GRANULE = 2 * MIB
SHARE_SOURCES = ["test/limiter/share_storm.c", *(f"limiter/{name}.c" for name in ("share", "word_lock", "peer", "proc_stat"))]


@pytest.fixture(scope="module")
def programs(tmp_path_factory):
    path = tmp_path_factory.mktemp("programs")
    (path / "libcuda.so").symlink_to(OUT / "libcuda.so.1")
    for name in ("storm", "attach", "forks"):
        program(path / name, f"test/limiter/{name}.c", last=[f"-L{path}", "-lcuda"])
    program(path / "share_storm", *SHARE_SOURCES)
    return path


@pytest.fixture
def shared(h100, container):
    return container(h100, SHARE)


def total(container):
    """What has been written. Of who has ended, until somebody needs the room."""
    return sum(container.taken().values())


def on_the_card():
    """{pid: bytes}, as the host sees it."""
    return {p.pid: p.usedGpuMemory for p in nv.nvmlDeviceGetComputeRunningProcesses(nv.nvmlDeviceGetHandleByIndex(0))}


def used():
    """Their sum, of one instant."""
    return nv.nvmlDeviceGetMemoryInfo(nv.nvmlDeviceGetHandleByIndex(0), version=nv.nvmlMemory_v2).used


# --- Forks ---

# A child's expression, and what it answered to waitpid.
FORK = "[(os._exit({}) if not (pid := os.fork()) else os.waitpid(pid, 0)[1] >> 8)][0]"
CALLS = "cu.code('cuInit', 0) * 36 + cu.code('cuDevicePrimaryCtxRetain', c.c_void_p, 0) * 6 + cu.code('cuMemAlloc_v2', c.c_uint64, 4096)"


def test_the_child_of_a_fork_has_no_cuda_as_with_the_real_library_and_takes_nothing(shared):
    parent = shared.worker()
    assert parent.says(f"cu.alloc({1000 * MIB}) > 0")
    assert parent.says(FORK.format(CALLS)) == NOT_INITIALIZED * 43
    assert total(shared) == CONTEXT + 1000 * MIB
    assert parent.says(f"cu.alloc({2 * MIB}) > 0") and total(shared) == CONTEXT + 1002 * MIB


def test_a_child_that_is_killed_takes_nothing_from_its_parent(shared):
    parent, other = shared.worker(), shared.worker()
    parent.says(f"cu.alloc({1000 * MIB})")
    assert parent.says("(os.kill(os.getpid(), 9) if not (pid := os.fork()) else os.waitpid(pid, 0)[1])") == signal.SIGKILL
    assert other.says("cu.free()") == 2000 * MIB - 2 * CONTEXT
    assert parent.says("cu.free()") == 2000 * MIB - 2 * CONTEXT and parent.says(f"cu.alloc({2001 * MIB})") == -OUT_OF_MEMORY


def test_a_child_that_lives_on_holds_nothing_of_its_parent(shared):
    parent, other = shared.worker(), shared.worker()
    parent.says(f"cu.alloc({1000 * MIB})")
    child = parent.says("[r := os.pipe(), pid := os.fork(), pid or (os.close(r[1]), os.read(r[0], 1), os._exit(0))][1]")
    parent.kill()
    try:
        assert other.says("cu.free()") == 3000 * MIB - CONTEXT
    finally:
        os.kill(child, signal.SIGKILL)


def test_a_child_of_a_process_that_had_not_begun_has_cuda_of_its_own(shared):
    parent = shared.client()
    child = f"[cu.init(0), cu.alloc({100 * MIB}), cu.free() >> 20][2] == {2900 - 448}"
    assert parent.says(FORK.format(child)) == 1, "and one that ends leaves nothing"
    assert parent.says("cu.init(0)") is None
    assert parent.says("cu.free()") == 3000 * MIB - CONTEXT


STARTED = "import os, sys; sys.path.append({!r}); from cuda import Cuda; cu = Cuda().init(0); cu.alloc({}); sys.exit(cu.free() >> 23)"


@pytest.mark.parametrize("how", ["fork", "vfork", "posix_spawn"])
def test_a_program_that_is_started_has_its_own_part_of_the_share(shared, how):
    code = STARTED.format(os.path.dirname(__file__).replace("limiter", "sim"), 100 * MIB)
    parent = shared.worker()
    parent.says(f"cu.alloc({1000 * MIB})")
    run = "__import__('subprocess').run([__import__('sys').executable, '-c', {!r}], close_fds={}).returncode"
    starts = {
        "vfork": run.format(code, True),
        "fork": FORK.format(f"os.execv(__import__('sys').executable, ['python3', '-c', {code!r}])"),
        "posix_spawn": f"os.waitpid(os.posix_spawn(__import__('sys').executable, ['python3', '-c', {code!r}], os.environ), 0)[1] >> 8",
    }
    assert parent.says(starts[how]) == (3000 - 1000 - 100 - 2 * 448) >> 3
    assert parent.says("cu.free()") == 2000 * MIB - CONTEXT


def test_a_program_in_the_place_of_another_has_only_its_own(shared):
    """exec keeps the process, by its pid and by when it started; what the program before it had is the card's again."""
    one, other = shared.worker(), shared.worker()
    one.says(f"cu.alloc({1500 * MIB})")
    again = "echo 1; exec python3 " + one.says("__import__('sys').argv[0]")
    assert one.says(f"os.execv('/bin/sh', ['sh', '-c', {again!r}])") == 1
    assert one.says("os.getpid()") == one.pid and one.says("cu.init(0)") is None
    assert total(shared) == 2 * CONTEXT
    assert other.says(f"cu.alloc({2000 * MIB}) > 0")


def test_threads_allocate_while_another_forks_and_no_byte_is_lost(shared, programs):
    """The program waits at its end, with its context and nothing more."""
    process = subprocess.Popen(
        [*shared.enter, str(programs / "forks"), "200"], env=shared.environment(), text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    shared.clients.append(Process(process))
    assert process.stdout.readline() == "200\n"
    assert shared.worker().says("cu.free()") == 3000 * MIB - 2 * CONTEXT
    process.communicate("\n")
    assert process.returncode == 0


class Process:
    """Ends with its container."""

    def __init__(self, process):
        self.process = process

    def kill(self):
        self.process.kill()
        self.process.wait()


# --- Descriptors ---


def test_the_limiter_keeps_no_descriptor_and_goes_on_when_a_program_closes_all(shared):
    """The simulated library keeps some, without which the card takes a process for dead: only the limiter's words are looked at."""
    one = shared.client()
    one.says("cu.init(0)")
    assert not one.says("[f for f in os.listdir('/proc/self/fd') if 'cleave' in (os.readlink('/proc/self/fd/' + f) if os.path.islink('/proc/self/fd/' + f) else '')]")
    one.says("os.closerange(3, 4096)")
    assert one.says(f"cu.alloc({3000 * MIB})") == -OUT_OF_MEMORY and total(shared) == CONTEXT
    early = shared.client()
    early.says("os.closerange(3, 4096)")
    assert early.says("cu.init(0)") is None and early.says("cu.free()") == 3000 * MIB - 2 * CONTEXT


# --- Who stands still, or ends where it should not ---


def test_a_process_that_is_stopped_holds_up_nobody_and_keeps_what_it_has(shared):
    one, other = shared.worker(), shared.worker()
    one.says(f"cu.alloc({1000 * MIB})")
    os.kill(one.pid, signal.SIGSTOP)
    os.waitpid(one.pid, os.WUNTRACED)
    for _ in range(100):
        assert other.says(f"cu('cuMemFree_v2', cu.alloc({100 * MIB}))") is None
    assert other.says("cu.free()") == 2000 * MIB - 2 * CONTEXT
    os.kill(one.pid, signal.SIGCONT)
    assert one.says("cu.free()") == 2000 * MIB - 2 * CONTEXT


def write_word(container, at, value):
    with (container.share / "usage").open("r+b") as file:
        file.seek(at)
        file.write(value.to_bytes(8, "little"))


def lock_of(pid):
    """The word that a process writes when it takes the lock (limiter/word_lock.h)."""
    with open(f"/proc/{pid}/stat") as stat:
        started = int(stat.read().rsplit(")", 1)[1].split()[19])
    namespace = int(os.readlink(f"/proc/{pid}/ns/pid")[5:-1])
    return ((started & 0xFFFFF) << 12 | namespace & 0xFFF) << 32 | pid


def test_the_lock_of_a_process_that_was_killed_inside_it_is_taken_over(shared):
    one, other = shared.worker(), shared.worker()
    word = lock_of(one.pid)
    one.kill()
    write_word(shared, LOCK, word)
    assert other.says(f"cu.alloc({2000 * MIB}) > 0")
    assert (shared.share / "usage").read_bytes()[LOCK : LOCK + 8] == bytes(8)


def test_the_lock_of_a_process_that_lives_is_waited_for(shared):
    one, other = shared.worker(), shared.worker()
    write_word(shared, LOCK, lock_of(one.pid))
    other.starts(f"cu.alloc({2000 * MIB}) > 0")
    with pytest.raises(subprocess.TimeoutExpired):
        other.process.wait(0.2)
    assert total(shared) == 2 * CONTEXT
    one.kill()
    assert other.process.stdout.readline() == "True\n", "and taken over once that has ended"


def test_a_process_that_was_killed_while_it_took_its_slot_leaves_it_to_the_next(shared):
    """With its pid written and the reach not, or with what a killed one had before it."""
    dead = shared.worker()
    dead.kill()
    write_word(shared, REACH - 4, 0)  # the word before it is spare
    assert struct.unpack_from("<I", (shared.share / "usage").read_bytes(), REACH) == (0,)
    assert shared.worker().says("cu.free()") == 3000 * MIB - CONTEXT and list(shared.taken()) == [0]


# --- Other PID namespaces ---


@pytest.fixture
def sandboxed(shared):
    """sandboxed(*more): a process with CUDA in a PID namespace of its own, as a sandbox makes it."""
    if subprocess.run(["unshare", "--pid", "--fork", "true"], capture_output=True).returncode != 0:
        pytest.skip("no PID namespace can be made here")

    def start(*more):
        shared.clients.append(Client(shared.machine, *shared.enter, "unshare", "--pid", "--fork", "--kill-child", *more, LIBCUDA="libcuda.so.1"))
        assert shared.clients[-1].says("[cu.init(0), os.getpid()][1]") == 1
        return shared.clients[-1]

    return start


@pytest.mark.parametrize("more", [[], ["--mount-proc"]])
def test_processes_of_pid_namespaces_of_their_own_are_not_taken_for_each_other(shared, sandboxed, more):
    """Their pids are the same, and where /proc was not mounted anew it shows neither of them by its own."""
    outside, first = shared.worker(), sandboxed(*more)
    first.says(f"cu.alloc({1000 * MIB})")
    second = sandboxed(*more)
    for one in (outside, second, first):
        assert one.says("cu.free()") == 2000 * MIB - 3 * CONTEXT
    assert second.says(f"cu.alloc({1000 * MIB})") == -OUT_OF_MEMORY and outside.says(f"cu.alloc({1000 * MIB})") == -OUT_OF_MEMORY


def test_what_a_process_of_another_pid_namespace_had_stays_taken_when_it_has_ended(shared, sandboxed):
    """Nobody can see that it has: a limit of this way to count (limiter/share.h)."""
    outside, inside = shared.worker(), sandboxed()
    inside.says(f"cu.alloc({1000 * MIB})")
    inside.kill()
    assert outside.says("cu.free()") == 2000 * MIB - 2 * CONTEXT


# --- Many ---


@pytest.fixture
def attach(tmp_path, programs):
    """attach(N, M): attach.c in a container, before a library that takes no time of its own."""
    box = Box(tmp_path / "container", small_cuda(tmp_path / "drivers"), [(SMALL_UUID, {"mib": 3000})])

    def run(*words):
        return subprocess.run([*box.enter, str(programs / "attach"), *map(str, words)], text=True, capture_output=True)

    return run


def test_1024_processes_have_cuda_at_once_and_one_more_is_told_why_not(attach):
    result = attach(MAX_PROCESSES + 1)
    assert result.stdout == f"{MAX_PROCESSES} 0\n"
    assert result.stderr == "cleave: no share of a GPU in this container: /run/cleave/usage: the container has as many processes with CUDA as there can be\n"


def test_a_slot_of_a_process_that_has_ended_is_given_to_the_next(attach):
    assert attach(MAX_PROCESSES, 20).stdout == f"{MAX_PROCESSES} 20\n"


def test_threads_of_processes_never_have_more_than_the_limit_together(h100, container, programs):
    """By a count that they keep themselves, without a card: many more tries than with one."""
    one = container(h100, {"mib": 8})
    taken, refused, past = map(int, one.run(programs / "share_storm", 6, 4000).stdout.split())
    assert taken > 2000 and refused > 100 and past == 0
    assert total(one) == 0


@pytest.mark.parametrize("seed", [1, 2])
def test_64_processes_that_allocate_and_are_killed_never_have_more_than_the_limit_and_leave_nothing(h100, container, programs, seed):
    """Looked at from outside, all at one instant: what the card gave to them."""
    limit = 40000 * MIB
    one = container(h100, {"mib": 40000, "context": CONTEXT})
    storm = subprocess.Popen(
        [*one.enter, str(programs / "storm"), str(seed), "64", "300", "10"], env=one.environment(), text=True, stdout=subprocess.PIPE
    )
    one.clients.append(Process(storm))
    most = looks = 0
    while storm.poll() is None:
        most, looks = max(most, used()), looks + 1
    granted, refused, odd = map(int, storm.stdout.read().split())
    assert looks > 50 and granted > 1000 and refused > 100, "it was a storm"
    assert limit - 4000 * MIB < most <= limit + GRANULE
    assert odd == 0 and on_the_card() == {}
    assert one.worker().says("cu.free()") == limit - CONTEXT
    assert one.worker().says(f"cu.alloc({limit - 2 * CONTEXT}) > 0") and len(one.taken()) == 2
