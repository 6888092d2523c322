# SPDX-License-Identifier: Apache-2.0
"""Each way to memory of the card counts, is refused past the share, and is given back: what is taken is what the card has given."""
import pynvml as nv
import pytest
from container import CLOSED, IDLE, OPEN, WANT
from cuda import MIB, OUT_OF_MEMORY

SHARE, SLAB = 100, 32 * MIB
FILE = "[f := os.memfd_create('graphics'), os.ftruncate(f, {size})][0]"

# name: (makes `x` of {size} bytes, lets go of it)
PATHS = {
    "linear": ("x = cu.alloc({size})", "cu('cuMemFree_v2', x)"),
    "linear that a stream frees": ("x = cu.alloc({size})", "cu('cuMemFreeAsync', x, s), cu('cuStreamSynchronize', s)"),
    "pitched": ("x = cu('cuMemAllocPitch_v2', c.c_uint64, c.c_size_t, 4096, {size} // 4096, 4)[0]", "cu('cuMemFree_v2', x)"),
    "managed": ("x = cu('cuMemAllocManaged', c.c_uint64, {size}, 1)", "cu('cuMemFree_v2', x)"),
    "physical": ("x = cu.create({size})", "cu('cuMemRelease', x)"),
    "physical, mapped, and released before": (
        "x = cu.create({size}); a = cu.map(x, {size}); cu('cuMemRelease', x)", "cu('cuMemUnmap', a, {size})",
    ),
    "an array": ("x = cu.array({size} // 4096, 1024, format=32)", "cu('cuArrayDestroy', x)"),
    "external": ("x = cu('cuImportExternalMemory', c.c_void_p, c.byref(External(fd=" + FILE + ", size={size}, type=1)))", "cu('cuDestroyExternalMemory', x)"),
    "a heap of kernels": ("cu('cuCtxSetLimit', 2, {size} + (8 << 20))", "cu('cuCtxSetLimit', 2, 8 << 20)"),
    "a pool": ("x = cu('cuMemAllocAsync', c.c_uint64, {size}, s)", "cu('cuMemFreeAsync', x, s), cu('cuStreamSynchronize', s)"),
    "a pool, freed at once": ("x = cu('cuMemAllocAsync', c.c_uint64, {size}, s)", "cu('cuStreamSynchronize', s), cu('cuMemFree_v2', x), cu('cuCtxSynchronize')"),
    "a pool of its own": (
        "x = cu('cuMemAllocFromPoolAsync', c.c_uint64, {size}, o, s)", "cu('cuMemFreeAsync', x, s), cu('cuStreamSynchronize', s)",
    ),
}

# How it makes another one, where doing the same once more changes nothing.
AGAIN = {"a heap of kernels": "cu('cuCtxSetLimit', 2, 2 * {size} + (8 << 20))"}


@pytest.fixture
def card():
    """card(): what the card has given since."""
    handle = nv.nvmlDeviceGetHandleByIndex(0)

    def given():
        return nv.nvmlDeviceGetMemoryInfo(handle, version=nv.nvmlMemory_v2).used

    return given


@pytest.fixture
def shared(h100, container, card):
    """(container, worker, taken): taken() is what the container has taken, which is what the card has given."""
    one = container(h100, SHARE)
    worker = one.worker()
    worker.does("s, o = cu.stream(1), cu('cuMemPoolCreate', c.c_void_p, c.byref(PoolProps()))")
    before = card()

    def taken():
        worker.says("cu.free()")
        total = sum(one.taken().values())
        assert total == card() - before
        return total

    return one, worker, taken


def makes(worker, code, size):
    """0, or the code of what went wrong."""
    return worker.says(f"(lambda: exec({code.format(size=size)!r}, globals()) or 0)()")


@pytest.mark.parametrize("path", PATHS)
def test_it_counts_is_refused_past_the_share_and_given_back(shared, path):
    _, worker, taken = shared
    make, free = PATHS[path]
    for _ in range(2):
        assert makes(worker, make, 64 * MIB) == 0
        assert 64 * MIB <= taken() <= SHARE * MIB
        assert makes(worker, AGAIN.get(path, make).replace("x =", "y ="), 64 * MIB) == -OUT_OF_MEMORY
        assert 64 * MIB <= taken() <= SHARE * MIB
        worker.does(free.format(size=64 * MIB))
        assert taken() == 0


def test_a_heap_takes_the_difference_to_what_it_was(shared):
    _, worker, taken = shared
    for mib in (80, 30, 96, 1, 0, 60):
        assert makes(worker, f"cu('cuCtxSetLimit', 2, {mib * MIB} + (8 << 20))", 0) == 0
        assert mib * MIB <= taken() < (mib + 2) * MIB


@pytest.mark.parametrize("path", PATHS)
def test_it_ends_with_its_process(shared, path):
    one, worker, _ = shared
    assert makes(worker, PATHS[path][0], 64 * MIB) == 0
    worker.kill()
    other = one.worker()
    assert other.says("cu.free()") == SHARE * MIB and makes(other, PATHS["linear"][0], SHARE * MIB) == 0


# --- Pools ---


def test_a_pool_that_is_destroyed_counts_until_its_memory_is_freed(shared):
    _, worker, taken = shared
    assert makes(worker, PATHS["a pool of its own"][0], 40 * MIB) == 0
    worker.does("cu('cuMemPoolDestroy', o)")
    assert taken() >= 40 * MIB
    worker.does("cu('cuMemFreeAsync', x, s), cu('cuStreamSynchronize', s)")
    assert taken() == 0


def test_a_pool_that_is_destroyed_counts_until_the_stream_has_freed_its_memory(shared):
    _, worker, taken = shared
    assert makes(worker, PATHS["a pool of its own"][0], 64 * MIB) == 0
    worker.does("gate = cu.hold(s); cu('cuMemFreeAsync', x, s); cu('cuMemPoolDestroy', o)")
    assert taken() == 64 * MIB and worker.says(f"cu.alloc({64 * MIB})") == -OUT_OF_MEMORY
    worker.does("gate.set(); cu('cuStreamSynchronize', s)")
    assert taken() == 0


def test_a_stream_takes_of_its_own_devices_pool(h100, container):
    one = container(h100, SHARE, SHARE)
    worker = one.worker(0)
    worker.does("first = cu('cuCtxGetCurrent', c.c_void_p); cu.init(1); s = cu.stream(1); cu('cuCtxSetCurrent', first)")
    worker.does(f"x = cu('cuMemAllocAsync', c.c_uint64, {SLAB}, s)")
    assert one.taken(0) == {} and sum(one.taken(1).values()) == SLAB


def test_many_pools_are_all_counted(shared):
    _, worker, taken = shared
    worker.does("pools = [cu('cuMemPoolCreate', c.c_void_p, c.byref(PoolProps())) for _ in range(300)]")
    worker.does(f"x = cu('cuMemAllocFromPoolAsync', c.c_uint64, {SLAB}, pools[-1], s)")
    assert taken() == SLAB
    assert worker.says(f"cu('cuMemAllocFromPoolAsync', c.c_uint64, {70 * MIB}, pools[-2], s)") == -OUT_OF_MEMORY


def test_a_pool_that_kept_memory_gives_it_up_when_it_is_wanted(shared):
    _, worker, taken = shared
    worker.does("d = cu('cuDeviceGetDefaultMemPool', c.c_void_p, 0); cu('cuMemPoolSetAttribute', d, 4, c.byref(c.c_uint64(2**64 - 1)))")
    worker.does(f"x = cu('cuMemAllocAsync', c.c_uint64, {2 * SLAB}, s); cu('cuMemFreeAsync', x, s); cu('cuStreamSynchronize', s)")
    assert taken() == 2 * SLAB
    assert makes(worker, PATHS["a pool of its own"][0], 64 * MIB) == 0
    assert taken() == 64 * MIB


# --- A stream that is not there yet ---


def test_linear_memory_counts_until_the_stream_frees_it(shared):
    _, worker, taken = shared
    worker.does(f"x = cu.alloc({64 * MIB}); gate = cu.hold(s); cu('cuMemFreeAsync', x, s)")
    assert taken() == 64 * MIB
    assert worker.says(f"cu.alloc({64 * MIB})") == -OUT_OF_MEMORY
    worker.does("gate.set(); cu('cuStreamSynchronize', s)")
    assert taken() == 0


# --- Graphs ---


@pytest.fixture
def graph(shared):
    """graph(n bytes): an executable graph `e` that was captured, with memory that it frees again."""
    _, worker, _ = shared

    def make(size, instantiate="cu('cuGraphInstantiateWithFlags', c.c_void_p, {g}, {flags})", flags=0, name="e"):
        worker.does(f"cu.capture(s); x = cu('cuMemAllocAsync', c.c_uint64, {size}, s); cu('cuMemsetD32Async', x, 7, 1, s); cu('cuMemFreeAsync', x, s)")
        return makes(worker, f"g = cu.captured(s); {name} = {instantiate.format(g='g', flags=flags)}", 0)

    return make


LAUNCH = "cu('cuGraphLaunch', e, s); cu('cuStreamSynchronize', s)"


def test_memory_of_a_graph_counts_from_its_launch_until_it_is_trimmed(shared, graph):
    _, worker, taken = shared
    assert graph(64 * MIB) == 0 and taken() == 0
    worker.does(LAUNCH)
    assert taken() == 64 * MIB
    worker.does(LAUNCH)
    assert taken() == 64 * MIB
    worker.does("cu('cuGraphExecDestroy', e); cu('cuDeviceGraphMemTrim', 0)")
    assert taken() == 0


def test_a_launch_past_the_share_is_out_of_memory(shared, graph):
    _, worker, taken = shared
    assert graph(64 * MIB) == 0
    worker.does(f"y = cu.alloc({64 * MIB})")
    assert makes(worker, LAUNCH, 0) == -OUT_OF_MEMORY and taken() == 64 * MIB
    worker.does("cu('cuMemFree_v2', y)")
    assert makes(worker, LAUNCH, 0) == 0 and taken() == 64 * MIB


WAYS = {
    "at once": ("cu('cuGraphInstantiateWithParams', c.c_void_p, {g}, (c.c_uint64 * 4)(2))", ""),
    "later": ("cu('cuGraphInstantiateWithFlags', c.c_void_p, {g}, 0)", "cu('cuGraphUpload', e, s)"),
}


@pytest.mark.parametrize("way", WAYS)
def test_an_upload_takes_the_memory_and_is_refused_past_the_share(shared, graph, way):
    _, worker, taken = shared
    instantiate, then = WAYS[way]
    worker.does(f"y = cu.alloc({64 * MIB})")
    code = graph(64 * MIB, instantiate)
    assert (code or makes(worker, then, 0)) == -OUT_OF_MEMORY and taken() == 64 * MIB
    worker.does("cu('cuMemFree_v2', y)")
    assert graph(64 * MIB, instantiate) == 0 and makes(worker, then, 0) == 0 and taken() == 64 * MIB


def test_a_launch_that_is_captured_takes_nothing(shared, graph):
    _, worker, taken = shared
    assert graph(64 * MIB) == 0
    worker.does("t = cu.stream(1); cu.capture(t)")
    worker.says("cu.code('cuGraphLaunch', e, t)")
    worker.says("cu.code('cuStreamEndCapture', t, c.byref(c.c_void_p()))")
    assert taken() == 0


def test_a_graph_is_launched_at_the_gate(h100, container):
    one = container(h100, SHARE)
    agent, worker = one.agent(), one.worker()
    worker.does(f"p, s = cu.alloc({MIB}), cu.stream(1); cu.capture(s); cu('cuMemsetD8Async', p, 7, 4, s); e = cu('cuGraphInstantiateWithFlags', c.c_void_p, cu.captured(s), 0)")
    turn = agent.sets(0, CLOSED)
    while agent.hears() != (IDLE, 0, turn):
        pass
    worker.starts("cu('cuGraphLaunch', e, s)")
    assert agent.hears() == (WANT, 0, turn)
    agent.sets(0, OPEN)
    assert worker.process.stdout.readline() == "None\n"


# --- Contexts ---


def test_a_primary_context_that_was_reset_is_not_taken_for_the_next(h100, container):
    one = container(h100, SHARE)
    worker = one.worker()
    worker.does(f"cu('cuDevicePrimaryCtxReset_v2', 0); x = cu('cuCtxCreate_v2', c.c_void_p, 0, 0); p = cu.alloc({64 * MIB})")
    worker.says("cu.code('cuDevicePrimaryCtxRelease_v2', 0)")
    assert sum(one.taken().values()) == 64 * MIB
    worker.does("cu('cuCtxDestroy_v2', c.c_void_p(x))")
    assert one.taken() == {}
