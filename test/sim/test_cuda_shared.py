# SPDX-License-Identifier: Apache-2.0
"""Memory that processes of the simulated CUDA driver share by handles that are plain data, and by pools."""
import os
import random
import subprocess

import pytest
from conftest import listed, used
from cuda import CONTEXT, GRANULE, INVALID_CONTEXT, INVALID_DEVICE, INVALID_HANDLE, INVALID_VALUE, MAP_FAILED, MIB, NOT_SUPPORTED

SLAB = 32 * MIB


@pytest.fixture
def pair(worker, client):
    """The exporter, and the importer."""
    other = client()
    other.says("cu.init(0)")
    return worker, other


def close(other, at):
    return other.says(f"cu.code('cuIpcCloseMemHandle', {at})")


# --- Linear memory ---


def test_an_opened_handle_shows_the_exporters_bytes_and_takes_nothing(pair):
    worker, other = pair
    before, at = worker.says("cu.alloc(1000), cu.alloc(5 << 21)")
    handle = worker.says(f"cu.ipc({at})")
    there = other.says(f"cu.open({handle})")
    worker.says(f"cu.write({at}, b'from here')")
    assert other.says(f"cu.read({there}, 9)") == b"from here"
    other.says(f"cu.write({there + (5 << 21) - 3}, b'end')")
    assert worker.says(f"cu.read({at + (5 << 21) - 3}, 3)") == b"end"
    assert listed() == {worker.pid: CONTEXT + 6 * GRANULE, other.pid: CONTEXT} and used() == 2 * CONTEXT + 6 * GRANULE
    assert other.says(f"cu('cuMemGetAddressRange_v2', c.c_uint64, c.c_size_t, {there + 9})") == (there, 5 << 21)
    assert other.says(f"cu.code('cuMemFree_v2', {there})") == INVALID_VALUE and close(other, there + 1) == INVALID_VALUE
    assert close(other, there) == 0 and close(other, there) == INVALID_VALUE
    assert other.says(f"cu('cuMemcpyDtoH_v2', c.create_string_buffer(1), {there}, 1)") == -INVALID_VALUE
    assert worker.says(f"cu.read({at}, 4)") == b"from" and before > 0


def test_small_pieces_are_shared_each_for_itself(pair):
    worker, other = pair
    one, two = worker.says("cu.alloc(100), cu.alloc(100)")
    worker.says(f"cu.write({one}, b'one'), cu.write({two}, b'two')")
    handles = worker.says(f"[cu.ipc({one}), cu.ipc({two})]")
    there = other.says(f"[cu.open(h) for h in {handles}]")
    assert other.says(f"[cu.read(at, 3) for at in {there}]") == [b"one", b"two"]
    worker.says(f"cu('cuMemFree_v2', {one})")
    assert other.says(f"cu.open({handles[0]})") == -INVALID_HANDLE and other.says(f"cu.open({handles[1]})") == there[1]
    again = worker.says("cu.alloc(100)")
    assert worker.says(f"cu.ipc({again})") != handles[0]
    assert listed() == {worker.pid: CONTEXT + GRANULE, other.pid: CONTEXT}


def test_a_handle_that_is_opened_again_is_the_same_address_and_closed_as_often(pair):
    worker, other = pair
    handle = worker.says("cu.ipc(cu.alloc(100))")
    at = other.says(f"cu.open({handle})")
    assert other.says(f"cu.open({handle})") == other.says(f"cu('cuIpcOpenMemHandle', c.c_uint64, Data.from_buffer_copy({handle}), 1)") == at
    assert [close(other, at) for _ in range(4)] == [0, 0, 0, INVALID_VALUE]


def test_memory_that_its_exporter_freed_stays_with_who_has_it_open(pair):
    worker, other = pair
    at = worker.says("cu.alloc(1 << 22)")
    worker.says(f"cu.write({at}, b'kept')")
    handle = worker.says(f"cu.ipc({at})")
    there = other.says(f"cu.open({handle})")
    worker.says(f"cu('cuMemFree_v2', {at})")
    assert listed() == {worker.pid: CONTEXT, other.pid: CONTEXT + 2 * GRANULE}
    worker.says("cu('cuMemsetD8_v2', cu.alloc(1 << 22), 255, 1 << 22)")
    assert other.says(f"cu.read({there}, 4)") == b"kept" and other.says(f"cu.open({handle})") == -INVALID_HANDLE
    assert close(other, there) == 0 and listed() == {worker.pid: CONTEXT + 2 * GRANULE, other.pid: CONTEXT}


def test_memory_whose_exporter_died_stays_with_who_has_it_open(pair):
    worker, other = pair
    at = worker.says("cu.alloc(1 << 22)")
    worker.says(f"cu.write({at}, b'kept')")
    handle = worker.says(f"cu.ipc({at})")
    there = other.says(f"cu.open({handle})")
    worker.kill()
    assert used() == CONTEXT + 2 * GRANULE and other.says(f"cu.read({there}, 4)") == b"kept"
    assert other.says(f"cu.open({handle})") == -INVALID_HANDLE
    other.says("cu('cuDevicePrimaryCtxReset_v2', 0)")
    assert used() == 0


def test_whoever_dies_with_a_handle_open_gives_it_back(pair):
    worker, other = pair
    at = worker.says("cu.alloc(1 << 22)")
    other.says(f"cu.open({worker.says(f'cu.ipc({at})')})")
    other.kill()
    worker.says(f"cu('cuMemFree_v2', {at})")
    assert used() == CONTEXT


def test_an_opened_handle_ends_with_its_context(pair):
    worker, other = pair
    handle = worker.says("cu.ipc(cu.alloc(1 << 22))")
    other.does("two = cu('cuCtxCreate_v2', c.c_void_p, 0, 0)")
    at = other.says(f"cu.open({handle})")
    assert other.says(f"cu('cuPointerGetAttribute', c.c_uint64, 1, {at}) == two")
    other.does("cu('cuCtxDestroy_v2', two)")
    assert close(other, at) == INVALID_VALUE and other.says(f"cu.open({handle})") > 0


def test_what_cannot_be_exported_is_refused(worker):
    at, managed, pooled, physical = worker.says("cu.alloc(100), cu('cuMemAllocManaged', c.c_uint64, 100, 1), cu('cuMemAllocAsync', c.c_uint64, 9, 0), cu.map(cu.create(1 << 21), 1 << 21)")
    for pointer in (at + 1, managed, pooled, physical, 4096, 0):
        assert worker.says(f"cu.ipc({pointer})") == -INVALID_VALUE
    assert worker.says(f"cu.code('cuIpcGetMemHandle', None, {at})") == INVALID_VALUE


def test_a_process_does_not_open_its_own_handle(worker):
    assert worker.says("cu.open(cu.ipc(cu.alloc(100)))") == -INVALID_CONTEXT


def test_a_card_that_is_not_seen_cannot_be_opened(worker, client):
    other = client(CUDA_VISIBLE_DEVICES="1")
    other.says("cu.init(0)")
    assert other.says(f"cu.open({worker.says('cu.ipc(cu.alloc(100))')})") == -INVALID_DEVICE


def test_a_process_that_is_not_seen_cannot_be_opened(worker, client):
    if subprocess.run(["unshare", "--pid", "--fork", "--mount-proc", "true"], capture_output=True).returncode != 0:
        pytest.skip("no PID namespace can be made here")
    inside = client("unshare", "--pid", "--fork", "--kill-child", "--mount-proc")
    inside.says("cu.init(0)")
    handle = worker.says("cu.ipc(cu.alloc(100))")
    assert inside.says(f"cu.open({handle})") == -MAP_FAILED and used() == 2 * CONTEXT + GRANULE


def test_nonsense_is_refused_and_takes_nothing(pair):
    worker, other = pair
    handle = worker.says("cu.ipc(cu.alloc(1 << 22))")
    assert other.says(f"cu.open({handle}, 0)") == other.says(f"cu.open({handle}, 2)") == -INVALID_VALUE
    assert other.says(f"cu.open({bytes(64)})") == other.says(f"cu.open({b'x' * 64})") == -INVALID_HANDLE
    dice = random.Random(5)
    for _ in range(300):
        broken = bytearray(handle)
        broken[dice.randrange(len(broken))] ^= 1 << dice.randrange(8)
        at = other.says(f"cu.open({bytes(broken)})")
        assert at < 0 or (other.says(f"len(cu.read({at}, 1))") == 1 and close(other, at) == 0)
    assert listed() == {worker.pid: CONTEXT + 2 * GRANULE, other.pid: CONTEXT}


# --- Pools ---


@pytest.fixture
def pools(pair):
    """Exporter, importer, and the pool in each."""
    worker, other = pair
    of = worker.says("cu('cuMemPoolCreate', c.c_void_p, c.byref(PoolProps(handleTypes=1)))")
    fd = worker.says(f"cu('cuMemPoolExportToShareableHandle', c.c_int, {of}, 1, 0)")
    there = other.says(f"[f := os.open('/proc/{worker.pid}/fd/{fd}', os.O_RDWR), cu('cuMemPoolImportFromShareableHandle', c.c_void_p, f, 1, 0), os.close(f)][1]")
    return worker, other, of, there


def alloc(one, pool, size):
    return one.says(f"cu('cuMemAllocFromPoolAsync', c.c_uint64, {size}, {pool}, 0)")


def test_memory_of_a_pool_is_shared_pointer_by_pointer_and_counts_once(pools):
    worker, other, of, there = pools
    one, two = alloc(worker, of, 1000), alloc(worker, of, 40 * MIB)
    data = worker.says(f"[cu.export_pointer({one}), cu.export_pointer({two})]")
    at = other.says(f"[cu.import_pointer({there}, d) for d in {data}]")
    worker.says(f"cu.write({one}, b'one'), cu.write({two + 39 * MIB}, b'two')")
    assert other.says(f"cu.read({at[0]}, 3), cu.read({at[1] + 39 * MIB}, 3)") == (b"one", b"two")
    assert listed() == {worker.pid: CONTEXT + SLAB + 40 * MIB, other.pid: CONTEXT}
    assert [other.says(f"cu('cuPointerGetAttribute', c.c_uint64, {a}, {at[0]})") for a in (1, 2, 9, 11, 12, 17)] == [0, 2, 0, at[0], 1000, there]
    worker.says(f"cu('cuMemFreeAsync', {two}, 0), cu('cuCtxSynchronize')")
    assert listed() == {worker.pid: CONTEXT + SLAB, other.pid: CONTEXT + 40 * MIB}
    worker.kill()
    assert other.says(f"cu.read({at[0]}, 3)") == b"one" and used() == CONTEXT + SLAB + 40 * MIB
    other.says(f"cu('cuMemFreeAsync', {at[1]}, 0), cu('cuMemFree_v2', {at[0]})")
    assert used() == CONTEXT and other.says(f"cu.code('cuMemFree_v2', {at[0]})") == INVALID_VALUE


def test_an_imported_pointer_is_freed_in_its_streams_order(pools):
    worker, other, of, there = pools
    at = other.says(f"cu.import_pointer({there}, {worker.says(f'cu.export_pointer({alloc(worker, of, 4)})')})")
    other.does(f"s = cu.stream(1); cu.spins(10**7, s); cu('cuMemsetD32Async', {at}, 7, 1, s); p = cu.alloc(4); cu('cuMemcpyDtoDAsync_v2', p, {at}, 4, s)")
    other.does(f"cu('cuMemFreeAsync', {at}, s)")
    assert other.says(f"cu('cuMemFreeAsync', {at}, s)") == other.says(f"cu('cuMemFree_v2', {at})") == -INVALID_VALUE
    other.does("cu('cuStreamSynchronize', s)")
    assert other.says("cu.word(p)") == 7 and other.says(f"cu.code('cuMemsetD8_v2', {at}, 0, 1)") == INVALID_VALUE


def test_an_imported_pool_allocates_nothing(pools):
    worker, other, of, there = pools
    assert alloc(other, there, 1) == other.says(f"cu('cuDeviceSetMemPool', 0, {there})") == -INVALID_VALUE
    assert other.says(f"cu('cuMemPoolExportToShareableHandle', c.c_int, {there}, 1, 0)") == -INVALID_VALUE
    data = worker.says(f"cu.export_pointer({alloc(worker, of, 4)})")
    at = other.says(f"cu.import_pointer({there}, {data})")
    other.says(f"cu('cuMemPoolDestroy', {there})")
    assert other.says(f"cu.read({at}, 4)") == bytes(4) and other.says(f"cu.import_pointer({there}, {data})") == -INVALID_VALUE
    assert other.says(f"cu.code('cuMemFree_v2', {at})") == 0


def test_only_pools_that_were_made_for_it_are_exported(pools):
    worker, other, of, there = pools
    plain = worker.says("cu('cuMemPoolCreate', c.c_void_p, c.byref(PoolProps()))")
    assert worker.says(f"cu('cuMemPoolExportToShareableHandle', c.c_int, {plain}, 1, 0)") == -INVALID_VALUE
    for arguments in (f"c.c_int, {of}, 0, 0", f"c.c_int, {of}, 1, 1", f"None, {of}, 1, 0", "c.c_int, 4096, 1, 0"):
        assert worker.says(f"cu('cuMemPoolExportToShareableHandle', {arguments})") == -INVALID_VALUE
    assert worker.says(f"cu.export_pointer({alloc(worker, plain, 4)})") == worker.says("cu.export_pointer(cu.alloc(4))") == -INVALID_VALUE
    piece = alloc(worker, of, 4096)
    assert worker.says(f"cu.export_pointer({piece + 512})") == -INVALID_VALUE
    data = worker.says(f"cu.export_pointer({piece})")
    assert worker.says(f"cu.import_pointer({of}, {data})") == other.says(f"cu.import_pointer({there}, {bytes(64)})") == -INVALID_VALUE
    worker.kill()
    assert other.says(f"cu.import_pointer({there}, {data})") == -INVALID_VALUE


def test_a_descriptor_of_anything_else_is_no_pool(worker):
    handle = worker.says("cu.export(cu.create(1 << 21, handles=1))")
    for fd in (handle, os.pidfd_open(os.getpid()), 9999):
        assert worker.says(f"cu('cuMemPoolImportFromShareableHandle', c.c_void_p, {fd}, 1, 0)") == -INVALID_VALUE
    of = worker.says("cu('cuMemPoolCreate', c.c_void_p, c.byref(PoolProps(handleTypes=1, type=3)))")
    fd = worker.says(f"cu('cuMemPoolExportToShareableHandle', c.c_int, {of}, 1, 0)")
    assert worker.says(f"cu('cuMemPoolImportFromShareableHandle', c.c_void_p, {fd}, 1, 0)") == -NOT_SUPPORTED
    assert worker.says(f"cu('cuMemImportFromShareableHandle', c.c_uint64, {fd}, 1)") == -INVALID_VALUE


def test_broken_data_of_a_pointer_are_refused_and_take_nothing(pools):
    worker, other, of, there = pools
    data = worker.says(f"cu.export_pointer({alloc(worker, of, 4096)})")
    dice = random.Random(6)
    for _ in range(300):
        broken = bytearray(data)
        broken[dice.randrange(48)] ^= 1 << dice.randrange(8)
        at = other.says(f"cu.import_pointer({there}, {bytes(broken)})")
        assert at < 0 or (other.says(f"len(cu.read({at}, 1))") == 1 and other.says(f"cu.code('cuMemFree_v2', {at})") == 0)
    assert listed() == {worker.pid: CONTEXT + SLAB, other.pid: CONTEXT}


# --- Chance ---


def test_whoever_is_killed_while_it_shares_leaves_nothing(client):
    dice = random.Random(7)
    for _ in range(2):
        crowd = [client() for _ in range(4)]
        for one in crowd:
            assert one.says("cu.init(0)") is None
        handles = [one.says(f"[cu.ipc(cu.alloc({dice.randrange(1, 5)} << 20)) for _ in range(3)]") for one in crowd]
        for one, own in zip(crowd, handles):
            others = [h for list_of in handles if list_of is not own for h in list_of]
            one.does("def turn(h):\n    at = cu.open(h); p = cu.alloc(9); cu.ipc(p); cu('cuIpcCloseMemHandle', at); cu('cuMemFree_v2', p)")
            one.says(f"turn({others[0]})")
            one.starts(f"[turn(h) for i in range(10**9) for h in {others}]")
        for one in dice.sample(crowd, len(crowd)):
            one.kill()
            assert one.pid not in listed()
        assert used() == 0
