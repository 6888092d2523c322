# SPDX-License-Identifier: Apache-2.0
"""Memory of graphics libraries in the simulated CUDA driver, and multicast objects."""
import pytest
from conftest import used
from cuda import CONTEXT, GRANULE, INVALID_DEVICE, INVALID_HANDLE, INVALID_VALUE, NOT_SUPPORTED, OUT_OF_MEMORY, Client

# --- External memory ---


@pytest.fixture
def file(worker):
    """file(size): a descriptor there of memory as a graphics library has it."""

    def make(size):
        return worker.says(f"[f := os.memfd_create('graphics'), os.ftruncate(f, {size})][0]")

    return make


def imported(worker, fd, size, **more):
    words = ", ".join(f"{name}={value}" for name, value in {"type": 1, **more}.items())
    return worker.says(f"cu('cuImportExternalMemory', c.c_void_p, c.byref(External(fd={fd}, size={size}, {words})))")


def buffer(worker, memory, offset, size, flags=0):
    return worker.says(f"cu('cuExternalMemoryGetMappedBuffer', c.c_uint64, {memory}, c.byref(Buffer({offset}, {size}, {flags})))")


def test_external_memory_has_the_bytes_that_its_maker_sees(worker, file):
    fd = file(3 << 20)
    worker.does(f"kept = os.dup({fd}); os.pwrite(kept, b'from here', 5000)")
    memory = imported(worker, fd, 3 << 20)
    assert used() == CONTEXT + 2 * GRANULE and "Bad file descriptor" in worker.says(f"os.fstat({fd})")  # It is the driver's now.
    at = buffer(worker, memory, 5000, 1 << 20)
    assert worker.says(f"cu.read({at}, 9)") == b"from here"
    worker.does(f"cu.write({at}, b'back')")
    assert worker.says("os.pread(kept, 4, 5000)") == b"back"
    assert worker.says(f"cu('cuMemGetAddressRange_v2', c.c_uint64, c.c_size_t, {at + 9})") == (at, 1 << 20)


def test_buffers_keep_the_memory_whose_handle_ended(worker, file):
    memory = imported(worker, file(GRANULE), GRANULE)
    one, two = buffer(worker, memory, 0, GRANULE), buffer(worker, memory, 0, 4096)
    worker.does(f"cu.write({one}, b'abc')")
    assert worker.says(f"cu.code('cuDestroyExternalMemory', {memory})") == 0 and buffer(worker, memory, 0, 1) == -INVALID_HANDLE
    assert worker.says(f"cu.code('cuDestroyExternalMemory', {memory})") == INVALID_HANDLE and worker.says(f"cu.read({two}, 3)") == b"abc"
    worker.says(f"cu('cuMemFree_v2', {one})")
    assert used() == CONTEXT + GRANULE
    worker.says(f"cu('cuMemFree_v2', {two})")
    assert used() == CONTEXT and worker.says(f"cu.code('cuMemFree_v2', {two})") == INVALID_VALUE


def test_external_memory_ends_with_its_context(worker, file):
    memory = imported(worker, file(GRANULE), GRANULE)
    buffer(worker, memory, 0, GRANULE)
    worker.does("cu('cuDevicePrimaryCtxReset_v2', 0); cu.init(0)")
    assert used() == CONTEXT and buffer(worker, memory, 0, 1) == -INVALID_HANDLE


def test_what_cuda_exported_is_not_counted_again(worker):
    handle = worker.says("cu.create(2 << 21, handles=1)")
    memory = imported(worker, worker.says(f"cu.export({handle})"), 2 << 21)
    assert used() == CONTEXT + 2 * GRANULE
    worker.does(f"cu.write(cu.map({handle}, 2 << 21), b'abc')")
    assert worker.says(f"cu.read({buffer(worker, memory, 0, 3)}, 3)") == b"abc"


def test_external_memory_that_does_not_fit_is_refused(worker, file):
    left = worker.says("cu.free()")
    fd = file(left + GRANULE)
    assert imported(worker, fd, left + GRANULE) == -OUT_OF_MEMORY and used() == CONTEXT
    assert worker.says(f"os.fstat({fd}).st_size") == left + GRANULE  # It stays the program's.
    assert imported(worker, fd, left) > 0 and worker.says("cu.free()") == 0


@pytest.mark.parametrize(
    ("code", "size", "more"),
    [(INVALID_VALUE, 0, {}), (INVALID_VALUE, 4096, {"flags": 2}), (0, 4096, {"flags": 1}), (NOT_SUPPORTED, 4096, {"type": 2}), (NOT_SUPPORTED, 4096, {"type": 9}), (INVALID_VALUE, 4096, {"type": 0}),
     (INVALID_VALUE, 4096, {"type": 10}), (INVALID_HANDLE, 4097, {}), (INVALID_VALUE, 2**63, {}), (INVALID_HANDLE, 2**62, {})],
)  # fmt: skip
def test_what_is_imported_is_checked(worker, file, code, size, more):
    memory = imported(worker, file(4096), size, **more)
    assert memory == -code if code else memory > 0


def test_other_descriptors_are_no_memory(worker):
    for fd in (-1, 9999, "os.open('/dev/null', os.O_RDWR)", "os.pipe()[0]"):
        assert imported(worker, fd, 4096) == -INVALID_HANDLE
    assert worker.says("cu('cuImportExternalMemory', c.c_void_p, None)") == worker.says("cu('cuImportExternalMemory', None, c.byref(External()))") == -INVALID_VALUE


def test_buffers_lie_within_the_memory(worker, file):
    memory = imported(worker, file(8192), 8192)
    for offset, size, flags in ((0, 8193, 0), (8192, 1, 0), (4096, 4097, 0), (2**64 - 1, 2, 0), (1, 2**64 - 1, 0), (0, 0, 0), (0, 1, 1)):
        assert buffer(worker, memory, offset, size, flags) == -INVALID_VALUE
    assert buffer(worker, 4096, 0, 1) == -INVALID_HANDLE and buffer(worker, memory, 8191, 1) > 0


# --- Multicast objects ---


def team(worker, devices=2, size=4 * GRANULE, handles=0, flags=0):
    return worker.says(f"cu('cuMulticastCreate', c.c_uint64, c.byref(Team({devices}, {size}, {handles}, {flags})))")


def add(worker, handle, device):
    return worker.says(f"cu.code('cuMulticastAddDevice', {handle}, {device})")


def bind(worker, handle, offset, memory, memory_offset, size, flags=0):
    return worker.says(f"cu.code('cuMulticastBindMem', {handle}, {offset}, {memory}, {memory_offset}, {size}, {flags})")


def unbind(worker, handle, device, offset, size):
    return worker.says(f"cu.code('cuMulticastUnbind', {handle}, {device}, {offset}, {size})")


@pytest.fixture
def pair(worker):
    """An object of both cards, and memory of each."""
    handle = team(worker)
    assert add(worker, handle, 0) == add(worker, handle, 1) == 0
    return handle, *worker.says("[cu.create(4 << 21, id=i) for i in range(2)]")


def test_what_is_bound_stays_until_it_is_unbound_and_released(worker, pair):
    handle, one, two = pair
    assert bind(worker, handle, 0, one, 0, 4 * GRANULE) == bind(worker, handle, 0, two, GRANULE, GRANULE) == 0
    assert bind(worker, handle, GRANULE, two, 0, GRANULE) == 0 and (used(0), used(1)) == (CONTEXT + 4 * GRANULE, 4 * GRANULE)
    worker.says(f"cu('cuMemRelease', {one}), cu('cuMemRelease', {two})")
    assert (used(0), used(1)) == (CONTEXT + 4 * GRANULE, 4 * GRANULE)
    assert unbind(worker, handle, 0, 0, 4 * GRANULE) == 0 and (used(0), used(1)) == (CONTEXT, 4 * GRANULE)
    assert unbind(worker, handle, 1, 0, GRANULE) == 0 and used(1) == 4 * GRANULE
    worker.says(f"cu('cuMemRelease', {handle})")
    assert used(1) == 0


def test_an_object_is_no_memory_of_a_card(worker):
    handle = team(worker, size=2**40)
    assert handle > 0 and used() == CONTEXT and worker.says(f"cu('cuMemRelease', {handle})") is None
    assert add(worker, handle, 0) == INVALID_VALUE


def test_mapped_and_pooled_memory_is_bound_by_its_address(worker, pair):
    handle, one, two = pair
    at = worker.says(f"cu.map({one}, 4 << 21)")
    pooled = worker.says("cu('cuMemAllocAsync', c.c_uint64, 2 << 21, 0)")

    def code(offset, pointer, size, device=""):
        call = "cuMulticastBindAddr_v2" if device else "cuMulticastBindAddr"
        return worker.says(f"cu.code('{call}', {handle}, {device}{offset}, {pointer}, {size}, 0)")

    assert code(0, at + GRANULE, 2 * GRANULE) == 0 and code(2 * GRANULE, pooled, 2 * GRANULE, "0, ") == 0
    assert code(0, at, GRANULE) == INVALID_VALUE  # Something of the card is bound there.
    assert unbind(worker, handle, 0, 0, 2 * GRANULE) == 0 and code(0, at, GRANULE, "1, ") == code(0, at, 5 * GRANULE) == code(0, at + 4096, GRANULE) == INVALID_VALUE
    assert code(0, 0, GRANULE) == code(0, worker.says("cu.alloc(4 << 21)"), GRANULE) == INVALID_VALUE
    worker.does(f"cu('cuMemFree_v2', {pooled}); cu('cuCtxSynchronize')")
    assert used() == CONTEXT + 8 * GRANULE + 16 * GRANULE


def test_memory_is_bound_where_it_fits(worker, pair):
    handle, one, two = pair
    for offset, memory, memory_offset, size, flags in (
        (0, one, 0, 0, 0), (0, one, 0, 4096, 0), (4096, one, 0, GRANULE, 0), (0, one, 4096, GRANULE, 0), (0, one, GRANULE, 4 * GRANULE, 0), (GRANULE, one, 0, 4 * GRANULE, 0),
        (2**64 - GRANULE, one, 0, GRANULE, 0), (0, one, 2**64 - GRANULE, GRANULE, 0), (0, one, 0, GRANULE, 1), (0, 4096, 0, GRANULE, 0), (0, handle, 0, GRANULE, 0),
    ):  # fmt: skip
        assert bind(worker, handle, offset, memory, memory_offset, size, flags) == INVALID_VALUE
    host = worker.says("cu.create(1 << 21, type=3)")
    assert bind(worker, handle, 0, host, 0, GRANULE) == bind(worker, one, 0, two, 0, GRANULE) == INVALID_VALUE
    assert worker.says(f"cu.code('cuMulticastBindMem_v2', {handle}, 1, 0, {one}, 0, {GRANULE}, 0)") == INVALID_VALUE
    assert worker.says(f"cu.code('cuMulticastBindMem_v2', {handle}, 2, 0, {one}, 0, {GRANULE}, 0)") == INVALID_DEVICE
    assert worker.says(f"cu.code('cuMulticastBindMem_v2', {handle}, 0, 0, {one}, 0, {GRANULE}, 0)") == 0
    assert unbind(worker, handle, 0, 0, 2 * GRANULE) == unbind(worker, handle, 1, 0, GRANULE) == unbind(worker, one, 0, 0, GRANULE) == INVALID_VALUE
    assert unbind(worker, handle, 2, 0, GRANULE) == INVALID_DEVICE


def test_devices_are_added_once_and_as_many_as_wanted(worker):
    handle = team(worker, devices=1)
    assert [add(worker, handle, device) for device in (2, 0, 0, 1)] == [INVALID_DEVICE, 0, INVALID_VALUE, INVALID_VALUE]
    assert add(worker, worker.says("cu.create(1 << 21)"), 0) == add(worker, 4096, 0) == INVALID_VALUE


def test_to_bind_and_to_map_is_to_wait_for_all_devices(worker):
    handle, memory = team(worker), worker.says("cu.create(1 << 21)")
    add(worker, handle, 0)
    worker.does(f"at = cu('cuMemAddressReserve', c.c_uint64, 4 << 21, 0, 0, 0); found = []; calls = [('cuMulticastBindMem', {handle}, 0, {memory}, 0, 1 << 21, 0), ('cuMemMap', at, 4 << 21, 0, {handle}, 0)]")
    worker.does("threads = [threading.Thread(target=lambda call=call: found.append(cu.code(*call))) for call in calls]; [t.start() for t in threads]; threads[0].join(0.05)")
    assert worker.says("found") == [] and add(worker, handle, 1) == 0
    worker.does("[t.join() for t in threads]; cu('cuMemSetAccess', at, 4 << 21, c.byref(Access(Location(1, 0), 3)), 1)")
    assert worker.says("found, cu.code('cuMemsetD8_v2', at, 1, 4 << 21)") == ([0, 0], 0)


def test_who_waits_for_an_object_that_ends_is_told(worker):
    handle, memory = team(worker), worker.says("cu.create(1 << 21)")
    worker.does(f"found = []; t = threading.Thread(target=lambda: found.append(cu.code('cuMulticastBindMem', {handle}, 0, {memory}, 0, 1 << 21, 0))); t.start(); t.join(0.05)")
    worker.does(f"assert not found; cu('cuMemRelease', {handle}); t.join()")
    assert worker.says("found") == [INVALID_VALUE]


def test_granularities(worker):
    assert [worker.says(f"cu('cuMulticastGetGranularity', c.c_size_t, c.byref(Team(2, 1 << 21, 0, 0)), {option})") for option in (0, 1, 2)] == [GRANULE, 256 * GRANULE, -INVALID_VALUE]
    assert team(worker, size=GRANULE + 4096) == team(worker, size=0) == team(worker, devices=0) == team(worker, flags=1) == -INVALID_VALUE
    assert team(worker, handles=1) == -NOT_SUPPORTED


@pytest.mark.parametrize(("model", "switched"), [("h100-80", True), ("b200", True), ("a100-80", False), ("h100-nvl", False), ("l4", False)])
def test_only_cards_at_switches_that_can_have_multicast(machine, model, switched):
    one = Client(machine(f"gpus: [{{model: {model}, count: 2}}]"))
    one.says("cu.init()")
    handle = team(one)
    one.kill()
    assert handle > 0 if switched else handle == -NOT_SUPPORTED
