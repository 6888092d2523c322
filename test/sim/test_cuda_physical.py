# SPDX-License-Identifier: Apache-2.0
"""Physical memory of the simulated CUDA driver: handles, addresses, access, and other processes."""
import random

import pytest
from conftest import listed, used
from cuda import CONTEXT, GRANULE, INVALID_DEVICE, INVALID_VALUE, NOT_FOUND, NOT_INITIALIZED, NOT_PERMITTED, NOT_SUPPORTED, OUT_OF_MEMORY

HOST, NUMA = {"type": 2}, {"type": 3}
EXPORTED = {"handles": 1}


def create(worker, size, **prop):
    words = ", ".join(f"{name}={value}" for name, value in prop.items())
    return worker.says(f"cu.create({size}, {words})")


def reserve(worker, size, alignment=0, hint=0):
    return worker.says(f"cu('cuMemAddressReserve', c.c_uint64, {size}, {alignment}, {hint}, 0)")


def mapped(worker, handle, size, at=None):
    return worker.says(f"cu.map({handle}, {size}, {at})")


def release(worker, handle):
    return worker.says(f"cu.code('cuMemRelease', {handle})")


def unmap(worker, at, size):
    return worker.says(f"cu.code('cuMemUnmap', {at}, {size})")


def grant(worker, at, size, device, flags, kind=1):
    return worker.says(f"cu.code('cuMemSetAccess', {at}, {size}, c.byref(Access(Location({kind}, {device}), {flags})), 1)")


def access(worker, at, device, kind=1):
    return worker.says(f"cu('cuMemGetAccess', c.c_uint64, c.byref(Location({kind}, {device})), {at})")


# --- Room ---


def test_physical_memory_counts_until_it_is_released_and_unmapped_everywhere(worker):
    handle = create(worker, 4 * GRANULE)
    assert listed() == {worker.pid: CONTEXT + 4 * GRANULE}
    one, two = mapped(worker, handle, 4 * GRANULE), mapped(worker, handle, 2 * GRANULE)
    assert release(worker, handle) == 0 and used() == CONTEXT + 4 * GRANULE
    assert unmap(worker, one, 4 * GRANULE) == 0 and used() == CONTEXT + 4 * GRANULE
    assert unmap(worker, two, 2 * GRANULE) == 0 and used() == CONTEXT


def test_physical_memory_belongs_to_no_context(client):
    one = client()
    one.says("cu.init()")
    handle = create(one, 3 * GRANULE, id=1)
    assert used(1) == 3 * GRANULE and listed(1) == {}
    one.says("cu.init(1)")
    assert listed(1) == {one.pid: CONTEXT + 3 * GRANULE}
    one.says("cu('cuDevicePrimaryCtxReset_v2', 1)")
    assert used(1) == 3 * GRANULE and release(one, handle) == 0 and used(1) == 0


def test_memory_of_the_host_takes_nothing_of_a_card(worker):
    for prop in (HOST, NUMA):
        handle = create(worker, 100 * GRANULE, **prop)
        at = mapped(worker, handle, 100 * GRANULE)
        worker.says(f"cu.write({at}, b'abc')")
        assert used() == CONTEXT and worker.says(f"cu('cuPointerGetAttribute', c.c_uint64, 2, {at})") == 1


def test_what_does_not_fit_is_refused(worker):
    left = worker.says("cu.free()")
    assert create(worker, left // GRANULE * GRANULE + GRANULE) == create(worker, 2**64 - GRANULE) == create(worker, 2**63) == -OUT_OF_MEMORY
    assert create(worker, 2**63, **HOST) == -OUT_OF_MEMORY
    assert create(worker, left // GRANULE * GRANULE) > 0 and worker.says("cu.free()") == left % GRANULE
    assert create(worker, GRANULE) == -OUT_OF_MEMORY


def test_who_is_killed_leaves_nothing_mapped(client):
    dice = random.Random(3)
    crowd = [client() for _ in range(4)]
    for one in crowd:
        assert one.says("cu.init(0)") is None
        one.does("def turn(n):\n    h = cu.create(n, handles=1); at = cu.map(h, n); os.close(cu.export(h)); cu('cuMemRelease', h); cu('cuMemUnmap', at, n); cu('cuMemAddressFree', at, n)")
        one.says(f"turn({GRANULE})")
        one.starts(f"[turn({dice.randrange(1, 9)} << 21) for i in range(10**9)]")
    for one in dice.sample(crowd, len(crowd)):
        one.kill()
        assert one.pid not in listed()
    assert used() == 0


# --- Handles ---


@pytest.mark.parametrize(
    ("code", "prop"),
    [(INVALID_VALUE, {"kind": 0}), (NOT_SUPPORTED, {"kind": 2}), (INVALID_VALUE, {"type": 0}), (INVALID_VALUE, {"type": 4}), (INVALID_DEVICE, {"id": 2}),
     (INVALID_DEVICE, {"id": -1}), (INVALID_VALUE, {"handles": 2}), (NOT_PERMITTED, {"handles": 8}), (INVALID_VALUE, {"type": 2, "handles": 1}), (0, {"type": 3, "handles": 1}),
     (INVALID_VALUE, {"compression": 2}), (0, {"compression": 1}), (INVALID_VALUE, {"usage": 4}), (0, {"rdma": 1})],
)  # fmt: skip
def test_properties_are_checked_and_kept(worker, code, prop):
    handle = create(worker, GRANULE, **prop)
    assert handle == -code if code else handle > 0
    granularity = worker.says(f"cu('cuMemGetAllocationGranularity', c.c_size_t, c.byref(Prop(**{prop})), 0)")
    assert granularity == (-code if code else GRANULE)
    if not code:
        worker.does(f"p = Prop(); cu('cuMemGetAllocationPropertiesFromHandle', c.byref(p), {handle})")
        assert worker.says(f"bytes(p) == bytes(Prop(**{prop}))")


def test_sizes_are_multiples_of_the_granularity(worker):
    for size in (0, 1, GRANULE - 1, GRANULE + 4096):
        assert create(worker, size) == -INVALID_VALUE
    for arguments in (f"c.c_uint64, {GRANULE}, c.byref(Prop()), 1", f"None, {GRANULE}, c.byref(Prop()), 0", f"c.c_uint64, {GRANULE}, None, 0"):
        assert worker.says(f"cu('cuMemCreate', {arguments})") == -INVALID_VALUE
    assert worker.says("cu('cuMemGetAllocationGranularity', c.c_size_t, c.byref(Prop()), 2)") == -INVALID_VALUE


def test_a_handle_is_released_as_often_as_it_was_retained(worker):
    handle = create(worker, GRANULE)
    at = mapped(worker, handle, GRANULE)
    assert worker.says(f"cu('cuMemRetainAllocationHandle', c.c_uint64, c.c_void_p({at + 4096}))") == handle
    assert release(worker, handle) == release(worker, handle) == 0 and release(worker, handle) == INVALID_VALUE
    # It is known as long as it is mapped.
    assert worker.says(f"cu('cuMemRetainAllocationHandle', c.c_uint64, c.c_void_p({at}))") == handle
    assert unmap(worker, at, GRANULE) == 0 and used() == CONTEXT + GRANULE and release(worker, handle) == 0 and used() == CONTEXT
    assert worker.says(f"cu('cuMemRetainAllocationHandle', c.c_uint64, c.c_void_p({at}))") == -INVALID_VALUE
    assert release(worker, 0) == release(worker, 4096) == INVALID_VALUE


def test_a_released_handle_maps_nothing(worker):
    handle = create(worker, GRANULE)
    at = mapped(worker, handle, GRANULE)
    release(worker, handle)
    assert worker.says(f"cu.code('cuMemMap', {reserve(worker, GRANULE)}, {GRANULE}, 0, {handle}, 0)") == INVALID_VALUE
    assert worker.says(f"cu.read({at}, 1)") == b"\0"


# --- Addresses ---


def test_addresses_are_reserved_as_they_are_asked_for(worker):
    at = reserve(worker, 10 * GRANULE)
    assert at % GRANULE == 0 and reserve(worker, GRANULE, 2**30) % 2**30 == 0 and used() == CONTEXT
    assert worker.says(f"cu.code('cuMemAddressFree', {at}, {GRANULE})") == worker.says(f"cu.code('cuMemAddressFree', {at + GRANULE}, {9 * GRANULE})") == INVALID_VALUE
    assert worker.says(f"cu.code('cuMemAddressFree', {at}, {10 * GRANULE})") == 0 and worker.says(f"cu.code('cuMemAddressFree', {at}, {10 * GRANULE})") == INVALID_VALUE
    assert reserve(worker, 10 * GRANULE, 0, at) == at != reserve(worker, 10 * GRANULE, 0, at)
    assert reserve(worker, 0) == reserve(worker, 4097) == reserve(worker, GRANULE, 3) == reserve(worker, GRANULE, 0, 1) == -INVALID_VALUE
    assert reserve(worker, 2**60) == reserve(worker, 2**64 - 4096) == reserve(worker, GRANULE, 2**63) == -OUT_OF_MEMORY
    assert worker.says(f"cu('cuMemAddressReserve', c.c_uint64, {GRANULE}, 0, 0, 1)") == -INVALID_VALUE


def test_memory_is_mapped_where_addresses_are_reserved_and_free(worker):
    handle, at = create(worker, 2 * GRANULE), reserve(worker, 4 * GRANULE)

    def code(pointer, size, offset=0, of=handle, flags=0):
        return worker.says(f"cu.code('cuMemMap', {pointer}, {size}, {offset}, {of}, {flags})")

    assert code(at + GRANULE, 2 * GRANULE) == 0
    for pointer, size in ((at, 2 * GRANULE), (at + GRANULE, GRANULE), (at + 2 * GRANULE, 2 * GRANULE), (at + 3 * GRANULE, 2 * GRANULE), (at + 4 * GRANULE, GRANULE)):
        assert code(pointer, size) == INVALID_VALUE
    for pointer, size in ((at, 0), (at, 4096), (at + 4096, GRANULE), (at, 3 * GRANULE), (worker.says("cu.alloc(1 << 22)"), GRANULE), (at, 2**64 - GRANULE)):
        assert code(pointer, size) == INVALID_VALUE
    assert code(at, GRANULE, offset=GRANULE) == code(at, GRANULE, of=4096) == code(at, GRANULE, flags=1) == INVALID_VALUE
    assert code(at, GRANULE) == code(at + 3 * GRANULE, GRANULE) == 0
    assert worker.says(f"cu.code('cuMemAddressFree', {at}, {4 * GRANULE})") == INVALID_VALUE


def test_whole_mappings_are_unmapped(worker):
    at = reserve(worker, 8 * GRANULE)
    for i in range(3):
        mapped(worker, create(worker, 2 * GRANULE), 2 * GRANULE, at + 2 * i * GRANULE)
    for pointer, size in ((at, GRANULE), (at + GRANULE, GRANULE), (at, 3 * GRANULE), (at + GRANULE, 3 * GRANULE), (at, 8 * GRANULE), (at, 0), (at + 6 * GRANULE, GRANULE)):
        assert unmap(worker, pointer, size) == INVALID_VALUE
    assert unmap(worker, at, 4 * GRANULE) == 0 and unmap(worker, at, 4 * GRANULE) == INVALID_VALUE
    assert worker.says(f"cu.code('cuMemFree_v2', {at + 4 * GRANULE})") == INVALID_VALUE
    assert mapped(worker, create(worker, GRANULE), GRANULE, at) == at and worker.says(f"cu.read({at}, 8)") == bytes(8)


def test_memory_waits_for_the_work_that_it_is_unmapped_behind(worker):
    handle = create(worker, GRANULE)
    worker.does(f"at = cu.map({handle}, {GRANULE}); s = cu.stream(1); p = cu.alloc(4); cu.spins(10**7, s)")
    worker.does(f"cu('cuMemsetD32Async', at, 7, 1, s); cu('cuMemcpyDtoDAsync_v2', p, at, 4, s); cu('cuMemUnmap', at, {GRANULE})")
    assert worker.says("cu.word(p)") == 7


# --- Bytes ---


def test_two_mappings_of_one_handle_have_the_same_bytes(worker):
    handle = create(worker, 2 * GRANULE)
    one, two = mapped(worker, handle, 2 * GRANULE), mapped(worker, handle, GRANULE)
    worker.says(f"cu.write({one + 5}, b'abc')")
    assert worker.says(f"cu.read({two + 4}, 5)") == b"\0abc\0"
    unmap(worker, one, 2 * GRANULE)
    assert worker.says(f"cu.read({mapped(worker, handle, GRANULE)} + 5, 3)") == b"abc"


def test_a_copy_goes_over_mappings_that_are_neighbours(worker):
    at = reserve(worker, 3 * GRANULE)
    first, second = create(worker, GRANULE), create(worker, GRANULE)
    mapped(worker, first, GRANULE, at)
    mapped(worker, second, GRANULE, at + GRANULE)
    worker.says(f"cu.write({at + GRANULE - 2}, b'abcd')")
    assert worker.says(f"cu.read({mapped(worker, second, GRANULE)}, 2)") == b"cd"
    assert worker.says(f"cu.code('cuMemsetD8_v2', {at + 2 * GRANULE - 2}, 1, 4)") == INVALID_VALUE
    unmap(worker, at, GRANULE)
    assert worker.says(f"cu.code('cuMemsetD8_v2', {at + GRANULE - 2}, 1, 4)") == worker.says(f"cu.code('cuMemsetD8_v2', {at}, 1, 4)") == INVALID_VALUE


# --- Access ---


def test_nobody_has_access_until_it_is_given(worker):
    handle, at = create(worker, 2 * GRANULE), reserve(worker, 2 * GRANULE)
    worker.says(f"cu('cuMemMap', {at}, {2 * GRANULE}, 0, {handle}, 0)")
    assert access(worker, at, 0) == 0 and worker.says(f"cu.code('cuMemsetD8_v2', {at}, 1, 1)") == INVALID_VALUE
    assert grant(worker, at, 2 * GRANULE, 1, 1) == 0 and (access(worker, at, 0), access(worker, at + GRANULE, 1)) == (0, 1)
    assert worker.says(f"cu.code('cuMemsetD8_v2', {at}, 1, 1)") == INVALID_VALUE and worker.says(f"cu.read({at}, 1)") == b"\0"
    assert grant(worker, at, 2 * GRANULE, 0, 3) == 0 and worker.says(f"cu.code('cuMemsetD8_v2', {at}, 1, 1)") == 0
    assert grant(worker, at, 2 * GRANULE, 0, 0) == 0 and grant(worker, at, 2 * GRANULE, 1, 0) == 0
    assert worker.says(f"cu('cuMemcpyDtoH_v2', c.create_string_buffer(1), {at}, 1)") == -INVALID_VALUE


def test_access_is_given_for_whole_mappings(worker):
    handle, at = create(worker, 2 * GRANULE), reserve(worker, 4 * GRANULE)
    mapped(worker, handle, 2 * GRANULE, at)
    assert grant(worker, at, GRANULE, 0, 3) == grant(worker, at, 4 * GRANULE, 0, 3) == grant(worker, at + GRANULE, GRANULE, 0, 3) == INVALID_VALUE
    assert grant(worker, at, 2 * GRANULE, 0, 2) == grant(worker, at, 2 * GRANULE, 0, 4) == grant(worker, at, 2 * GRANULE, 0, 3, kind=0) == INVALID_VALUE
    assert grant(worker, at, 2 * GRANULE, 2, 3) == INVALID_DEVICE and access(worker, at, 2) == -INVALID_DEVICE
    assert grant(worker, at, 2 * GRANULE, 0, 3, kind=3) == INVALID_VALUE  # A card's memory is not the host's.
    assert access(worker, at + 2 * GRANULE, 0) == access(worker, at, 0, kind=9) == -INVALID_VALUE
    assert worker.says(f"cu.code('cuMemSetAccess', {at}, {2 * GRANULE}, None, 1)") == INVALID_VALUE
    own = mapped(worker, create(worker, GRANULE, **NUMA), GRANULE)
    assert grant(worker, own, GRANULE, 0, 3, kind=3) == 0 and access(worker, own, 0, kind=3) == 3


def test_a_new_mapping_starts_without_access(worker):
    handle = create(worker, GRANULE)
    at = mapped(worker, handle, GRANULE)
    unmap(worker, at, GRANULE)
    worker.says(f"cu('cuMemMap', {at}, {GRANULE}, 0, {handle}, 0)")
    assert access(worker, at, 0) == 0


def test_an_address_tells_its_reservation_and_its_mapping(worker):
    at = reserve(worker, 4 * GRANULE)
    handle = create(worker, 2 * GRANULE, **EXPORTED, rdma=1)
    mapped(worker, handle, 2 * GRANULE, at + GRANULE)

    def asked(pointer, *attributes):
        return [worker.says(f"cu('cuPointerGetAttribute', c.c_uint64, {a}, {pointer})") for a in attributes]

    inside = at + 2 * GRANULE + 7
    assert asked(inside, 1, 2, 9, 8, 10, 11, 12, 13, 14, 15, 16, 18, 19) == [0, 2, 0, 0, 0, at, 4 * GRANULE, 1, 1, 1, 3, 2 * GRANULE, at + GRANULE]
    assert asked(at, 11, 12, 13, 2) == [at, 4 * GRANULE, 0, -INVALID_VALUE]
    other = mapped(worker, handle, GRANULE)
    assert asked(inside, 20) == asked(other, 20) != asked(worker.says("cu.alloc(1)"), 20) and asked(inside, 7) != asked(other, 7)
    assert worker.says(f"cu('cuMemGetAddressRange_v2', c.c_uint64, c.c_size_t, {inside})") == (at + GRANULE, 2 * GRANULE)
    assert worker.says(f"cu('cuMemGetAddressRange_v2', c.c_uint64, c.c_size_t, {at})") == -NOT_FOUND


# --- Other processes ---


@pytest.fixture
def pair(worker, client):
    other = client()
    other.says("cu.init(0)")
    return worker, other


def exported(worker, size, **prop):
    """A handle, and a descriptor of its memory."""
    handle = create(worker, size, **{**EXPORTED, **prop})
    return handle, worker.says(f"cu.export({handle})")


def imported(worker, other, fd):
    return other.says(f"cu.from_process({worker.pid}, {fd})")


def test_memory_of_two_processes_has_the_same_bytes_and_counts_once(pair):
    worker, other = pair
    handle, fd = exported(worker, 2 * GRANULE)
    at = mapped(worker, handle, 2 * GRANULE)
    theirs = imported(worker, other, fd)
    there = mapped(other, theirs, 2 * GRANULE)
    worker.says(f"cu.write({at + GRANULE}, b'from here')")
    assert other.says(f"cu.read({there + GRANULE}, 9)") == b"from here"
    other.says(f"cu.write({there}, b'from there')")
    assert worker.says(f"cu.read({at}, 10)") == b"from there"
    assert listed() == {worker.pid: CONTEXT + 2 * GRANULE, other.pid: CONTEXT} and used() == 2 * CONTEXT + 2 * GRANULE
    assert worker.says("cu.free()") == other.says("cu.free()")
    other.does(f"p = Prop(); cu('cuMemGetAllocationPropertiesFromHandle', c.byref(p), {theirs})")
    assert other.says("p.type, p.id, p.handles") == (1, 0, 1)


def test_memory_stays_until_the_last_process_has_let_it_go(pair):
    worker, other = pair
    handle, fd = exported(worker, 2 * GRANULE)
    at = mapped(worker, handle, 2 * GRANULE)
    worker.says(f"cu.write({at}, b'kept')")
    there = imported(worker, other, fd)
    there_at = mapped(other, there, 2 * GRANULE)
    release(worker, handle)
    unmap(worker, at, 2 * GRANULE)
    assert listed() == {worker.pid: CONTEXT, other.pid: CONTEXT + 2 * GRANULE}
    worker.kill()
    assert listed() == {other.pid: CONTEXT + 2 * GRANULE} and other.says(f"cu.read({there_at}, 4)") == b"kept"
    release(other, there)
    assert used() == CONTEXT + 2 * GRANULE
    unmap(other, there_at, 2 * GRANULE)
    assert used() == CONTEXT


def test_whoever_is_killed_leaves_what_others_have(pair):
    worker, other = pair
    _, fd = exported(worker, 2 * GRANULE)
    there = imported(worker, other, fd)
    worker.kill()
    assert used() == CONTEXT + 2 * GRANULE
    at = mapped(other, there, 2 * GRANULE)
    other.says(f"cu.write({at}, b'x')")
    other.kill()
    assert used() == 0


def test_a_descriptor_alone_keeps_the_bytes(pair):
    worker, other = pair
    handle, fd = exported(worker, 2 * GRANULE)
    at = mapped(worker, handle, 2 * GRANULE)
    worker.says(f"cu.write({at}, b'kept')")
    fds = [other.says(f"os.open('/proc/{worker.pid}/fd/{fd}', os.O_RDWR)") for _ in range(2)]
    worker.kill()
    assert used() == CONTEXT
    left = other.says("cu.free()")
    full = other.says(f"cu.alloc({left})")
    assert other.says(f"cu('cuMemImportFromShareableHandle', c.c_uint64, {fds[0]}, 1)") == -OUT_OF_MEMORY
    other.says(f"cu('cuMemFree_v2', {full})")
    one, two = (other.says(f"cu('cuMemImportFromShareableHandle', c.c_uint64, {one}, 1)") for one in fds)
    assert used() == CONTEXT + 2 * GRANULE and other.says(f"cu.read({mapped(other, two, GRANULE)}, 4)") == b"kept"
    release(other, one)
    assert used() == CONTEXT + 2 * GRANULE


def test_a_process_imports_its_own_memory(worker):
    handle, fd = exported(worker, 2 * GRANULE)
    again = worker.says(f"cu('cuMemImportFromShareableHandle', c.c_uint64, {fd}, 1)")
    at = mapped(worker, handle, GRANULE)
    worker.says(f"cu.write({at}, b'abc')")
    release(worker, handle)
    unmap(worker, at, GRANULE)
    assert used() == CONTEXT + 2 * GRANULE and worker.says(f"cu.read({mapped(worker, again, GRANULE)}, 3)") == b"abc"


def test_memory_of_the_host_is_shared_too(pair):
    worker, other = pair
    handle, fd = exported(worker, GRANULE, **NUMA)
    worker.says(f"cu.write({mapped(worker, handle, GRANULE)}, b'abc')")
    assert other.says(f"cu.read({mapped(other, imported(worker, other, fd), GRANULE)}, 3)") == b"abc" and used() == 2 * CONTEXT


def test_memory_of_a_card_that_is_not_seen_is_not_imported(worker, client):
    _, fd = exported(worker, GRANULE, id=1)
    other = client(CUDA_VISIBLE_DEVICES="0")
    other.says("cu.init(0)")
    assert imported(worker, other, fd) == -NOT_SUPPORTED
    swapped = client(CUDA_VISIBLE_DEVICES="1,0")
    swapped.says("cu.init(0)")
    swapped.does(f"p = Prop(); cu('cuMemGetAllocationPropertiesFromHandle', c.byref(p), cu.from_process({worker.pid}, {fd}))")
    assert swapped.says("p.id") == 0


def test_only_what_was_made_for_it_is_exported(worker):
    plain, (handle, fd) = create(worker, GRANULE), exported(worker, GRANULE)
    assert worker.says(f"cu('cuMemExportToShareableHandle', c.c_int, {plain}, 1, 0)") == -INVALID_VALUE
    for arguments in (f"c.c_int, {handle}, 0, 0", f"c.c_int, {handle}, 8, 0", f"c.c_int, {handle}, 1, 1", f"None, {handle}, 1, 0", "c.c_int, 4096, 1, 0"):
        assert worker.says(f"cu('cuMemExportToShareableHandle', {arguments})") == -INVALID_VALUE
    assert worker.says(f"cu('cuMemImportFromShareableHandle', c.c_uint64, {fd}, 8)") == worker.says(f"cu('cuMemImportFromShareableHandle', None, {fd}, 1)") == -INVALID_VALUE


def test_a_descriptor_of_anything_else_is_refused(worker, tmp_path):
    _, fd = exported(worker, GRANULE)
    (tmp_path / "file").write_bytes(bytes(8192))
    worker.does(f"others = [-1, 0, 9999, os.open('/dev/null', os.O_RDWR), os.open('{tmp_path / 'file'}', os.O_RDWR), os.memfd_create('x'), os.pipe()[0]]")
    worker.does("os.ftruncate(others[5], 1 << 22)")
    assert set(worker.says("[cu.code('cuMemImportFromShareableHandle', c.c_uint64, c.c_void_p(o & 2**64 - 1), 1) for o in others]")) == {INVALID_VALUE}
    # Whoever has it can write nonsense at its head, and not make it shorter.
    assert "PermissionError" in worker.says(f"os.ftruncate({fd}, 0)")
    dice = random.Random(4)
    for _ in range(200):
        worker.does(f"os.pwrite({fd}, bytes({[dice.randrange(256) for _ in range(8)]}), {dice.randrange(0, 200)})")
        assert worker.says(f"cu('cuMemImportFromShareableHandle', c.c_uint64, {fd}, 1)") != 0 and used() <= CONTEXT + 400 * GRANULE


def test_nothing_is_answered_before_it_is_initialised(client):
    one = client()
    for call in (f"'cuMemCreate', c.c_uint64, {GRANULE}, c.byref(Prop()), 0", "'cuMemRelease', 1", f"'cuMemAddressReserve', c.c_uint64, {GRANULE}, 0, 0, 0", "'cuMemUnmap', 0, 0"):
        assert one.says(f"cu({call})") == -NOT_INITIALIZED
