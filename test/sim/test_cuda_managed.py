# SPDX-License-Identifier: Apache-2.0
"""Managed memory of the simulated CUDA driver, and what a program can ask about an address."""
import pytest
from conftest import used
from cuda import CONTEXT, DESTROYED, GRANULE, INVALID_CONTEXT, INVALID_DEVICE, INVALID_HANDLE, INVALID_VALUE, MIB, OUT_OF_MEMORY

GLOBAL, HOST = 1, 2
READ_MOSTLY, PREFERRED, UNSET_PREFERRED, ACCESSED_BY = 1, 3, 4, 5
CONTEXT_OF, MEMORY_TYPE, DEVICE_POINTER, HOST_POINTER, SYNC_MEMOPS, BUFFER, IS_MANAGED, ORDINAL, IPC, START, SIZE, MAPPED = 1, 2, 3, 4, 6, 7, 8, 9, 10, 11, 12, 13


def managed(worker, size=MIB, flags=GLOBAL):
    return worker.says(f"cu('cuMemAllocManaged', c.c_uint64, {size}, {flags})")


# --- Memory ---


def test_managed_memory_is_on_the_card_of_its_context_and_the_host_sees_it(worker):
    pointer = managed(worker, 3 * GRANULE, HOST)
    assert used() == CONTEXT + 3 * GRANULE and used(1) == 0
    worker.says(f"cu('cuMemsetD8_v2', {pointer}, 7, 2)")
    assert worker.says(f"c.string_at({pointer}, 3)") == b"\7\7\0"
    worker.says(f"c.memmove({pointer}, b'abc', 3)")
    assert worker.says(f"[b := c.create_string_buffer(3), cu('cuMemcpyDtoH_v2', b, {pointer}, 3), b.raw][-1]") == b"abc"
    worker.says(f"cu('cuMemFree_v2', {pointer})")
    assert used() == CONTEXT


def test_managed_memory_that_does_not_fit_is_refused(worker):
    left = worker.says("cu.free()")
    assert managed(worker, left + 1) == -OUT_OF_MEMORY and managed(worker, 2**64 - 1) == -OUT_OF_MEMORY
    assert managed(worker, 0) == managed(worker, 1, 0) == managed(worker, 1, 3) == managed(worker, 1, 4) == -INVALID_VALUE
    assert worker.says(f"cu('cuMemAllocManaged', None, 1, 1)") == -INVALID_VALUE
    assert worker.says("cu.free()") == left
    assert managed(worker, left) > 0 and worker.says("cu.free()") == 0


def test_managed_memory_ends_with_its_context_and_its_process(worker, client):
    other = client()
    other.says("cu.init(0)")
    managed(other, 5 * GRANULE)
    managed(worker, 3 * GRANULE)
    worker.says("cu('cuDevicePrimaryCtxReset_v2', 0)")
    assert used() == CONTEXT + 5 * GRANULE and managed(worker) == -DESTROYED
    other.kill()
    assert used() == 0


def test_it_needs_a_context(client):
    one = client()
    one.says("cu.init()")
    assert managed(one) == -INVALID_CONTEXT


# --- Advice ---


def test_advice_is_checked_and_changes_nothing(worker):
    pointer = managed(worker)
    linear = worker.says("cu.alloc(4096)")

    def advise(at, size, advice, device):
        return worker.says(f"cu.code('cuMemAdvise', {at}, {size}, {advice}, c.c_int({device}))")

    before = worker.says("cu.free()")
    for advice in range(1, 7):
        assert [advise(pointer, MIB, advice, device) for device in (0, 1, -1)] == [0, 0, 0]
    assert advise(pointer, MIB, READ_MOSTLY, 99) == advise(pointer, MIB, UNSET_PREFERRED, 99) == 0
    assert advise(pointer, MIB, PREFERRED, 2) == advise(pointer, MIB, ACCESSED_BY, -2) == INVALID_DEVICE
    assert advise(pointer, MIB, 0, 0) == advise(pointer, MIB, 7, 0) == INVALID_VALUE
    assert advise(pointer, MIB + 1, 1, 0) == advise(pointer, 0, 1, 0) == advise(linear, 4096, 1, 0) == advise(4096, 1, 1, 0) == INVALID_VALUE
    assert worker.says("cu.free()") == before


@pytest.mark.parametrize(
    ("advice", "kind", "number", "code"),
    [(PREFERRED, 1, 1, 0), (PREFERRED, 1, 2, INVALID_DEVICE), (PREFERRED, 2, 99, 0), (PREFERRED, 3, 0, 0), (PREFERRED, 4, 99, 0), (PREFERRED, 0, 0, INVALID_VALUE),
     (PREFERRED, 5, 0, INVALID_VALUE), (ACCESSED_BY, 1, 0, 0), (ACCESSED_BY, 2, 0, 0), (ACCESSED_BY, 3, 0, INVALID_VALUE), (READ_MOSTLY, 0, 0, 0)],
)  # fmt: skip
def test_advice_names_a_place(worker, advice, kind, number, code):
    pointer = managed(worker)
    assert worker.says(f"cu.code('cuMemAdvise_v2', {pointer}, {MIB}, {advice}, Location({kind}, {number}))") == code


def test_a_prefetch_takes_its_turn_in_a_stream(worker):
    pointer = managed(worker)
    worker.does("s = cu.stream(1); cu.spins(FOREVER, s)")
    assert worker.says(f"cu.code('cuMemPrefetchAsync', {pointer}, {MIB}, c.c_int(-1), s)") == 0
    assert worker.says(f"cu.code('cuMemPrefetchAsync_v2', {pointer}, {MIB}, Location(1, 1), 0, 0)") == 0
    assert worker.says(f"cu.code('cuMemPrefetchAsync_v2', {pointer}, {MIB}, Location(1, 1), 1, 0)") == INVALID_VALUE
    assert worker.says(f"cu.code('cuMemPrefetchAsync_ptsz', {pointer}, {MIB}, 2, 0)") == INVALID_DEVICE
    assert worker.says(f"cu.code('cuMemPrefetchAsync_v2_ptsz', {pointer}, {MIB + 1}, Location(1, 1), 0, 0)") == INVALID_VALUE
    assert worker.says(f"cu.code('cuMemPrefetchAsync', {pointer}, {MIB}, 0, 4096)") == INVALID_HANDLE


# --- Addresses ---


def asked(worker, pointer, *attributes):
    return [worker.says(f"cu('cuPointerGetAttribute', c.c_uint64, {a}, {pointer})") for a in attributes]


def test_an_address_tells_its_memory(worker):
    linear, other, host = worker.says("[cu.alloc(3000), cu('cuMemAllocManaged', c.c_uint64, 5000, 1), cu('cuMemHostAlloc', c.c_uint64, 100, 0)]")
    context = worker.says("cu('cuCtxGetCurrent', c.c_void_p)")
    assert asked(worker, linear + 9, CONTEXT_OF, MEMORY_TYPE, DEVICE_POINTER, HOST_POINTER) == [context, 2, linear + 9, -INVALID_VALUE]
    assert asked(worker, linear + 9, IS_MANAGED, ORDINAL, IPC, START, SIZE, MAPPED, SYNC_MEMOPS) == [0, 0, 1, linear, 3000, 1, 0]
    assert asked(worker, other + 9, CONTEXT_OF, MEMORY_TYPE, DEVICE_POINTER, HOST_POINTER) == [context, 2, other + 9, other + 9]
    assert asked(worker, other + 9, IS_MANAGED, ORDINAL, IPC, START, SIZE) == [1, 0, 0, other, 5000]
    assert asked(worker, host, MEMORY_TYPE, HOST_POINTER, IS_MANAGED) == [1, host, 0]
    assert asked(worker, linear + 3000, MEMORY_TYPE) == asked(worker, 4096, MEMORY_TYPE) == asked(worker, linear, 99) == [-INVALID_VALUE]


def test_no_two_allocations_have_one_buffers_number(worker):
    found = worker.says(f"[[p := cu.alloc(8), cu('cuPointerGetAttribute', c.c_uint64, {BUFFER}, p), cu('cuMemFree_v2', p)][1] for i in range(9)]")
    assert len(set(found)) == 9


def several(worker, pointer, *attributes):
    """What cuPointerGetAttributes writes, or the code with which it fails."""
    n = len(attributes)
    worker.does(f"a, b = (c.c_int * {n})(*{attributes}), [c.c_uint64(2**40 * k) for k in range({n})]")
    return worker.says(f"[cu('cuPointerGetAttributes', {n}, a, (c.c_void_p * {n})(*map(c.addressof, b)), {pointer}), [x.value & 2**32 - 1 for x in b]][1]")


def test_several_attributes_of_an_address_that_is_not_known_are_nothing_and_no_error(worker):
    pointer = managed(worker)
    assert several(worker, pointer, MEMORY_TYPE, IS_MANAGED, ORDINAL) == [2, 1, 0]
    assert several(worker, 4096, MEMORY_TYPE, IS_MANAGED, ORDINAL) == [0, 0, 2**32 - 2]
    linear = worker.says("cu.alloc(8)")
    assert several(worker, linear, HOST_POINTER, MAPPED) == [0, 1]
    worker.does("a = (c.c_int * 1)(99); b = c.c_uint64()")
    assert worker.says(f"cu('cuPointerGetAttributes', 1, a, (c.c_void_p * 1)(c.addressof(b)), {linear})") == -INVALID_VALUE
    assert worker.says(f"cu('cuPointerGetAttributes', 1, (c.c_int * 1)(2), (c.c_void_p * 1)(), {linear})") == -INVALID_VALUE
    assert worker.says(f"cu('cuPointerGetAttributes', 0, None, None, {linear})") == -INVALID_VALUE


def test_that_copies_wait_can_be_asked_for(worker):
    pointer = worker.says("cu.alloc(8)")
    worker.says(f"cu('cuPointerSetAttribute', c.byref(c.c_uint(1)), {SYNC_MEMOPS}, {pointer})")
    assert asked(worker, pointer, SYNC_MEMOPS) == [1]
    assert worker.says(f"cu('cuPointerSetAttribute', c.byref(c.c_uint(1)), {IS_MANAGED}, {pointer})") == -INVALID_VALUE
    assert worker.says(f"cu('cuPointerSetAttribute', c.byref(c.c_uint(1)), {SYNC_MEMOPS}, 4096)") == -INVALID_VALUE
