# SPDX-License-Identifier: Apache-2.0
"""Pools of the simulated CUDA driver, and memory that is allocated and freed in the order of a stream."""
import random

import pynvml as nv
import pytest
from conftest import listed, used
from cuda import CONTEXT, GRANULE, INVALID_CONTEXT, INVALID_DEVICE, INVALID_HANDLE, INVALID_VALUE, MIB, NOT_PERMITTED, NOT_SUPPORTED, OUT_OF_MEMORY

SLAB = 32 * MIB
THRESHOLD, RESERVED, RESERVED_HIGH, USED, USED_HIGH = 4, 5, 6, 7, 8
NONE, READ, READ_WRITE = 0, 1, 3


def pool(worker, **props):
    words = ", ".join(f"{name}={value}" for name, value in props.items())
    return worker.says(f"cu('cuMemPoolCreate', c.c_void_p, c.byref(PoolProps({words})))")


def default(worker, device=0):
    return worker.says(f"cu('cuDeviceGetDefaultMemPool', c.c_void_p, {device})")


def attribute(worker, of, which):
    return worker.says(f"cu('cuMemPoolGetAttribute', {of}, {which}, c.c_uint64)")


def set_attribute(worker, of, which, value):
    return worker.says(f"cu.code('cuMemPoolSetAttribute', {of}, {which}, c.byref(c.c_uint64({value})))")


def alloc(worker, size, stream=0, of=None):
    if of is None:
        return worker.says(f"cu('cuMemAllocAsync', c.c_uint64, {size}, {stream})")
    return worker.says(f"cu('cuMemAllocFromPoolAsync', c.c_uint64, {size}, {of}, {stream})")


def free(worker, pointer, stream=0):
    return worker.says(f"cu.code('cuMemFreeAsync', {pointer}, {stream})")


# --- What a pool takes of the card ---


def test_what_a_pool_reserves_counts_until_somebody_waits_for_the_card(worker):
    of = default(worker)
    assert used() == CONTEXT
    one = alloc(worker, 1000)
    two = alloc(worker, MIB)
    assert listed() == {worker.pid: CONTEXT + SLAB}
    assert [attribute(worker, of, a) for a in (RESERVED, RESERVED_HIGH, USED, USED_HIGH)] == [SLAB, SLAB, 1024 + MIB, 1024 + MIB]
    assert free(worker, one) == free(worker, two) == 0
    assert [attribute(worker, of, a) for a in (RESERVED, USED, USED_HIGH)] == [SLAB, 0, 1024 + MIB] and used() == CONTEXT + SLAB
    worker.says("cu('cuCtxSynchronize')")
    assert [attribute(worker, of, a) for a in (RESERVED, RESERVED_HIGH)] == [0, SLAB] and used() == CONTEXT


@pytest.mark.parametrize("wait", ["cu('cuCtxSynchronize')", "cu('cuStreamSynchronize', 0)", "[e := cu.event(), cu('cuEventRecord', e, 0), cu('cuEventSynchronize', e)]"])
def test_what_is_below_the_threshold_stays_reserved(worker, wait):
    of = default(worker)
    assert set_attribute(worker, of, THRESHOLD, SLAB) == 0 and attribute(worker, of, THRESHOLD) == SLAB
    pieces = [alloc(worker, SLAB) for _ in range(3)]
    assert used() == CONTEXT + 3 * SLAB
    for piece in pieces:
        free(worker, piece)
    worker.says(wait)
    assert used() == CONTEXT + SLAB and attribute(worker, of, RESERVED) == SLAB


def test_a_pool_is_trimmed_to_what_is_in_use_or_to_be_kept(worker):
    of = pool(worker)
    set_attribute(worker, of, THRESHOLD, 2**64 - 1)
    pieces = [alloc(worker, SLAB, of=of) for _ in range(4)]
    free(worker, pieces[1])
    free(worker, pieces[2])
    worker.says("cu('cuCtxSynchronize')")
    assert used() == CONTEXT + 4 * SLAB
    worker.says(f"cu('cuMemPoolTrimTo', {of}, {3 * SLAB - 1})")
    assert attribute(worker, of, RESERVED) == 3 * SLAB
    worker.says(f"cu('cuMemPoolTrimTo', {of}, 0)")
    assert attribute(worker, of, RESERVED) == 2 * SLAB and used() == CONTEXT + 2 * SLAB
    worker.says(f"cu('cuMemPoolTrimTo', {of}, {2**64 - 1})")
    assert used() == CONTEXT + 2 * SLAB


def test_large_pieces_take_their_granules_and_small_ones_what_is_left(worker):
    left = worker.says("cu.free()")
    large = alloc(worker, left - 3 * GRANULE - 1)
    assert large > 0 and worker.says("cu.free()") == 3 * GRANULE
    assert alloc(worker, GRANULE + 1) > 0 and worker.says("cu.free()") == GRANULE
    assert alloc(worker, GRANULE + 1) == -OUT_OF_MEMORY and worker.says("cu.free()") == GRANULE
    assert alloc(worker, GRANULE - 511) > 0 and worker.says("cu.free()") == 0
    assert alloc(worker, 1) == -OUT_OF_MEMORY or worker.says("cu.free()") == 0


@pytest.mark.parametrize("size", [2**64 - 1, 2**63, 2**62, 2**40])
def test_sizes_do_not_wrap(worker, size):
    assert alloc(worker, size) == -OUT_OF_MEMORY and alloc(worker, size, of=pool(worker, maxSize=2**63)) == -OUT_OF_MEMORY
    assert used() == CONTEXT


def test_a_pool_has_its_greatest_size(worker):
    of = pool(worker, maxSize=3 * GRANULE)
    assert attribute(worker, of, 13) == 3 * GRANULE
    assert alloc(worker, 2 * GRANULE, of=of) > 0 and alloc(worker, 2 * GRANULE, of=of) == -OUT_OF_MEMORY
    assert alloc(worker, GRANULE, of=of) > 0 and alloc(worker, 1, of=of) == -OUT_OF_MEMORY
    assert used() == CONTEXT + 3 * GRANULE


def test_marks_are_reset_to_what_is_now(worker):
    of = default(worker)
    one, two = alloc(worker, 512), alloc(worker, SLAB)
    free(worker, two)
    worker.says("cu('cuCtxSynchronize')")
    assert [attribute(worker, of, a) for a in (RESERVED_HIGH, USED_HIGH)] == [2 * SLAB, SLAB + 512]
    assert set_attribute(worker, of, RESERVED_HIGH, 1) == set_attribute(worker, of, USED_HIGH, 1) == INVALID_VALUE
    assert set_attribute(worker, of, RESERVED_HIGH, 0) == set_attribute(worker, of, USED_HIGH, 0) == 0
    assert [attribute(worker, of, a) for a in (RESERVED_HIGH, USED_HIGH)] == [SLAB, 512]
    assert set_attribute(worker, of, RESERVED, 0) == set_attribute(worker, of, USED, 0) == set_attribute(worker, of, 99, 0) == INVALID_VALUE
    assert attribute(worker, of, 99) == -INVALID_VALUE and free(worker, one) == 0


def test_switches_of_reuse_are_kept(worker):
    of = pool(worker)
    assert [worker.says(f"cu('cuMemPoolGetAttribute', {of}, {a}, c.c_int)") for a in (1, 2, 3)] == [1, 1, 1]
    worker.says(f"cu('cuMemPoolSetAttribute', {of}, 2, c.byref(c.c_int(0)))")
    assert [worker.says(f"cu('cuMemPoolGetAttribute', {of}, {a}, c.c_int)") for a in (1, 2, 3)] == [1, 0, 1]
    assert [worker.says(f"cu('cuMemPoolGetAttribute', {of}, {a}, c.c_int)") for a in (9, 10, 11, 12)] == [1, 0, 0, 1]


# --- The order of streams ---


def test_memory_that_is_freed_behind_work_is_that_streams_alone_until_the_work_is_done(worker):
    worker.does("s, t = cu.stream(1), cu.stream(1); cu.spins(1, s)")
    worker.does("spin = cu.spinners[cu('cuCtxGetCurrent', c.c_void_p)]; cu.spins(FOREVER, s)")
    piece = worker.says("cu('cuMemAllocAsync', c.c_uint64, 4096, s)")
    assert worker.says(f"cu.code('cuMemFreeAsync', {piece}, s)") == 0
    assert worker.says("cu('cuMemAllocAsync', c.c_uint64, 4096, t)") != piece
    assert worker.says("cu('cuMemAllocAsync', c.c_uint64, 8192, s)") != piece
    assert worker.says("cu('cuMemAllocAsync', c.c_uint64, 4096, s)") == piece
    assert attribute(worker, default(worker), RESERVED) == SLAB


def test_what_came_before_the_free_in_the_stream_still_reaches_the_memory(worker):
    worker.does("s, p = cu.stream(1), cu('cuMemAllocAsync', c.c_uint64, 4, 0); cu.spins(10 * 10**6, s)")
    worker.does("cu('cuMemsetD32Async', p, 7, 1, s); q = cu.alloc(4); cu('cuMemcpyDtoDAsync_v2', q, p, 4, s); cu('cuMemFreeAsync', p, s)")
    assert worker.says("cu('cuMemFreeAsync', p, s)") == -INVALID_VALUE and worker.says("cu('cuMemFree_v2', p)") == -INVALID_VALUE
    worker.says("cu('cuStreamSynchronize', s)")
    assert worker.says("cu.word(q)") == 7 and used() == CONTEXT + GRANULE


def test_linear_memory_is_freed_in_the_order_of_a_stream_too(worker):
    worker.does(f"s, p = cu.stream(1), cu.alloc({GRANULE}); gate = cu.hold(s); cu('cuMemsetD32Async', p, 7, 1, s); cu('cuMemFreeAsync', p, s)")
    assert used() == CONTEXT + GRANULE
    assert worker.says("cu('cuMemFreeAsync', p, s)") == -INVALID_VALUE
    worker.does("gate.set(); cu('cuStreamSynchronize', s)")
    assert used() == CONTEXT and worker.says("cu('cuMemFree_v2', p)") == -INVALID_VALUE
    assert worker.says("cu('cuMemsetD32Async', p, 7, 1, s)") == -INVALID_VALUE
    worker.does("pitched = cu('cuMemAllocPitch_v2', c.c_uint64, c.c_size_t, 4, 4, 4)[0]; cu('cuMemFreeAsync', pitched, s)")
    assert used() == CONTEXT


def test_linear_memory_whose_context_ends_before_the_stream_is_there_is_freed_once(worker):
    worker.does("s = cu.stream(1); gate = cu.hold(s); two = cu('cuCtxCreate_v2', c.c_void_p, 0, 0); p = cu.alloc(4); cu('cuMemFreeAsync', p, s)")
    worker.does(f"cu('cuCtxDestroy_v2', two); again = [cu.alloc({GRANULE}) for i in range(4)]; gate.set(); cu('cuStreamSynchronize', s)")
    assert used() == CONTEXT + 4 * GRANULE and worker.says("[cu('cuMemFree_v2', i) for i in again]") == [None] * 4


def test_memory_of_a_stream_that_ends_with_its_context_is_free(worker):
    worker.does("two = cu('cuCtxCreate_v2', c.c_void_p, 0, 0); s = cu.stream(1); cu.spins(FOREVER, s)")
    worker.does("p = cu('cuMemAllocAsync', c.c_uint64, 4096, s); q = cu('cuMemAllocAsync', c.c_uint64, 4096, s); cu('cuMemFreeAsync', p, s)")
    worker.says("cu('cuCtxDestroy_v2', two)")
    assert attribute(worker, default(worker), USED) == 4096 and used() == CONTEXT + SLAB  # A pool's memory is no context's.
    worker.does("cu('cuDevicePrimaryCtxReset_v2', 0); cu('cuCtxSetCurrent', cu('cuDevicePrimaryCtxRetain', c.c_void_p, 0))")
    assert attribute(worker, default(worker), USED) == 4096
    worker.does("cu('cuMemFree_v2', q); cu('cuCtxSynchronize')")
    assert used() == CONTEXT


def test_a_stream_allocates_from_the_current_pool_of_its_device(worker):
    of, other = pool(worker), pool(worker, id=1)
    assert worker.says("cu('cuDeviceGetMemPool', c.c_void_p, 0)") == default(worker)
    worker.says(f"cu('cuDeviceSetMemPool', 0, {of})")
    assert worker.says("cu('cuDeviceGetMemPool', c.c_void_p, 0)") == of != default(worker)
    assert worker.says(f"cu('cuDeviceSetMemPool', 1, {of})") == worker.says("cu('cuDeviceSetMemPool', 0, 4096)") == -INVALID_VALUE
    piece = alloc(worker, 4)
    assert attribute(worker, of, USED) == 512 and worker.says(f"cu('cuPointerGetAttribute', c.c_uint64, 17, {piece})") == of
    far = alloc(worker, 4, of=other)
    assert used(1) == SLAB and [worker.says(f"cu('cuPointerGetAttribute', c.c_uint64, {a}, {far})") for a in (1, 2, 9)] == [0, 2, 1]
    worker.says(f"cu('cuMemPoolDestroy', {of})")
    assert worker.says("cu('cuDeviceGetMemPool', c.c_void_p, 0)") == default(worker)


# --- Pools ---


def test_a_pool_that_is_destroyed_goes_with_its_last_piece(worker):
    of = pool(worker)
    one, two = alloc(worker, 4096, of=of), alloc(worker, SLAB, of=of)
    set_attribute(worker, of, THRESHOLD, 2**64 - 1)
    worker.says(f"cu('cuMemPoolDestroy', {of})")
    assert attribute(worker, of, USED) == alloc(worker, 1, of=of) == worker.says(f"cu('cuMemPoolDestroy', {of})") == -INVALID_VALUE
    free(worker, two)
    assert used() == CONTEXT + 2 * SLAB
    free(worker, one)
    assert used() == CONTEXT


def test_the_default_pool_cannot_be_destroyed(worker):
    assert worker.says(f"cu('cuMemPoolDestroy', {default(worker)})") == -INVALID_VALUE


def test_a_pool_of_the_host_takes_nothing_of_a_card(worker):
    for kind in (2, 3):
        of = pool(worker, type=kind)
        piece = alloc(worker, 100 * GRANULE, of=of)
        assert used() == CONTEXT and worker.says(f"cu('cuPointerGetAttribute', c.c_uint64, 2, {piece})") == 1
        worker.says(f"c.memmove({piece}, b'abc', 3)")
        assert worker.says(f"cu.code('cuDeviceSetMemPool', 0, {of})") == INVALID_VALUE


@pytest.mark.parametrize(
    ("code", "props"),
    [(INVALID_VALUE, {"allocType": 0}), (NOT_SUPPORTED, {"allocType": 2}), (INVALID_VALUE, {"handleTypes": 2}), (NOT_PERMITTED, {"handleTypes": 8}),
     (INVALID_DEVICE, {"id": 2}), (INVALID_DEVICE, {"id": -1}), (INVALID_VALUE, {"type": 0}), (INVALID_VALUE, {"type": 4}), (INVALID_VALUE, {"usage": 1}),
     (INVALID_VALUE, {"type": 2, "handleTypes": 1}), (0, {"handleTypes": 1}), (0, {"usage": 2})],
)  # fmt: skip
def test_properties_of_pools_are_checked(worker, code, props):
    words = ", ".join(f"{name}={value}" for name, value in props.items())
    assert worker.says(f"cu.code('cuMemPoolCreate', c.c_void_p, c.byref(PoolProps({words})))") == code


def test_a_pool_is_reached_by_the_devices_that_are_allowed(worker):
    of = pool(worker)

    def access(device, kind=1):
        return worker.says(f"cu('cuMemPoolGetAccess', c.c_int, {of}, c.byref(Location({kind}, {device})))")

    def allow(device, flags, kind=1):
        return worker.says(f"cu.code('cuMemPoolSetAccess', {of}, c.byref(Access(Location({kind}, {device}), {flags})), 1)")

    assert (access(0), access(1)) == (READ_WRITE, NONE)
    assert allow(1, READ) == 0 and access(1) == READ
    assert allow(0, NONE) == allow(0, READ) == allow(1, 2) == allow(0, READ_WRITE, kind=2) == INVALID_VALUE
    assert allow(2, READ) == INVALID_DEVICE and access(2) == -INVALID_DEVICE
    assert worker.says(f"cu.code('cuMemPoolSetAccess', {of}, None, 1)") == INVALID_VALUE


def test_nonsense_is_refused(worker, client):
    piece = alloc(worker, 4096)
    assert alloc(worker, 0) == -INVALID_VALUE and worker.says("cu('cuMemAllocAsync', None, 1, 0)") == -INVALID_VALUE
    assert alloc(worker, 1, stream=4096) == -INVALID_HANDLE and alloc(worker, 1, of=4096) == -INVALID_VALUE
    managed = worker.says("cu('cuMemAllocManaged', c.c_uint64, 1, 1)")
    assert free(worker, piece + 512) == free(worker, 0) == free(worker, managed) == INVALID_VALUE
    assert free(worker, piece, stream=4096) == INVALID_HANDLE and free(worker, piece) == 0 and free(worker, piece) == INVALID_VALUE
    for call in ("'cuMemPoolTrimTo', 4096, 0", "'cuMemPoolDestroy', None", "'cuMemPoolCreate', None, None", f"'cuMemPoolGetAttribute', {default(worker)}, 5, None"):
        assert worker.says(f"cu.code({call})") == INVALID_VALUE
    assert default(worker, 2) == -INVALID_DEVICE
    other = client()
    other.says("cu.init()")
    assert alloc(other, 1) == -INVALID_CONTEXT and default(other) > 0


def test_pools_of_a_place(worker):
    assert worker.says("cu('cuMemGetDefaultMemPool', c.c_void_p, c.byref(Location(1, 0)), 1)") == default(worker)
    of = pool(worker)
    assert worker.says(f"cu.code('cuMemSetMemPool', c.byref(Location(1, 0)), 1, {of})") == 0
    assert worker.says("cu('cuMemGetMemPool', c.c_void_p, c.byref(Location(1, 0)), 1)") == of
    assert worker.says("cu('cuMemGetMemPool', c.c_void_p, c.byref(Location(1, 2)), 1)") == -INVALID_DEVICE
    assert worker.says("cu('cuMemGetMemPool', c.c_void_p, c.byref(Location(2, 0)), 1)") == -NOT_SUPPORTED
    assert worker.says("cu('cuMemGetMemPool', c.c_void_p, None, 1)") == worker.says("cu('cuMemGetMemPool', c.c_void_p, c.byref(Location(1, 0)), 0)") == -INVALID_VALUE


# --- Chance ---


def test_after_any_order_of_calls_all_of_it_comes_back(worker):
    worker.does("import random; streams = [0] + [cu.stream(i % 2) for i in range(3)]")
    worker.does(
        """
def storm(seed, rounds):
    dice, held = random.Random(seed), []
    for _ in range(rounds):
        if held and dice.random() < 0.5:
            at, size, mark = held.pop(dice.randrange(len(held)))
            s = dice.choice(streams)
            assert (cu.word(at) if size >= 4 else mark) == mark
            dice.choice([lambda: cu('cuMemFreeAsync', at, s), lambda: cu('cuMemFree_v2', at)])()
        else:
            size = dice.choice([1, 511, 4096, 10**6, 5 * 10**6, 40 * 10**6]) + dice.randrange(64) * 4
            at, mark = cu('cuMemAllocAsync', c.c_uint64, size, dice.choice(streams)), dice.randrange(2**32)
            if size >= 4:
                cu('cuMemsetD32_v2', at, mark, 1)
            assert not any(at < b + n and b < at + size for b, n, _ in held)
            held.append((at, size, mark))
        if dice.random() < 0.05:
            cu('cuCtxSynchronize')
    for at, size, mark in held:
        cu('cuMemFreeAsync', at, 0)
    cu('cuCtxSynchronize')
""".replace("\\n", "\n")
    )  # fmt: skip
    for seed in range(3):
        worker.does(f"storm({seed}, 300)")
        assert used() == CONTEXT and attribute(worker, default(worker), USED) == 0


def test_whoever_is_killed_in_a_storm_of_pools_leaves_nothing(client):
    dice = random.Random(2)
    crowd = [client() for _ in range(4)]
    for one in crowd:
        assert one.says("cu.init(0)") is None
        one.starts(f"[cu('cuMemFreeAsync', cu('cuMemAllocAsync', c.c_uint64, {dice.randrange(1, 80)} << 20, 0), 0) or cu('cuCtxSynchronize') for i in range(10**9)]")
    for one in dice.sample(crowd, len(crowd)):
        one.kill()
        assert one.pid not in listed()
    assert used() == 0 and nv.nvmlDeviceGetComputeRunningProcesses(nv.nvmlDeviceGetHandleByIndex(0)) == []
