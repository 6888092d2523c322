# SPDX-License-Identifier: Apache-2.0
"""Arrays of the simulated CUDA driver, and copies and settings in two and three dimensions."""
import itertools
import random

import pytest
from conftest import listed, used
from cuda import CONTEXT, GRANULE, INVALID_CONTEXT, INVALID_DEVICE, INVALID_HANDLE, INVALID_VALUE, MIB, NOT_SUPPORTED, OUT_OF_MEMORY

INT8, INT16, INT32, HALF, FLOAT = 1, 2, 3, 0x10, 0x20
LAYERED, SURFACE, CUBEMAP, GATHER, SPARSE, DEFERRED, VIDEO = 1, 2, 4, 8, 0x40, 0x80, 0x100
HOST, DEVICE, ARRAY, ANY = 1, 2, 3, 4


def array(worker, *shape, **more):
    words = ", ".join([*map(str, shape), *(f"{name}={value}" for name, value in more.items())])
    return worker.says(f"cu.array({words})")


def destroy(worker, handle):
    return worker.says(f"cu.code('cuArrayDestroy', {handle})")


# --- Memory ---


def test_an_array_takes_memory_of_its_context(worker):
    large = array(worker, 4096, 4096, 0, FLOAT, 4)
    assert listed() == {worker.pid: CONTEXT + 256 * MIB}
    small = [array(worker, 64, 8) for _ in range(20)]
    assert used() == CONTEXT + 256 * MIB + GRANULE
    assert destroy(worker, large) == 0 and destroy(worker, large) == INVALID_HANDLE and used() == CONTEXT + GRANULE
    assert [destroy(worker, one) for one in small] == [0] * 20 and used() == CONTEXT


def test_rows_and_planes_are_padded(worker):
    array(worker, 1, 8 * 4096)
    assert used() == CONTEXT + GRANULE  # 64 bytes a row
    array(worker, 64, 1 + 8 * 4096)
    assert used() == CONTEXT + 3 * GRANULE


def test_arrays_end_with_their_context_and_their_process(worker, client):
    other = client()
    other.says("cu.init(0)")
    array(other, 2048, 2048, 0, FLOAT, 4)
    one = array(worker, 2048, 2048, 0, FLOAT, 4)
    worker.says("cu('cuMipmappedArrayCreate', c.c_void_p, c.byref(Shape(1024, 1024)), 4)")
    worker.does("cu('cuDevicePrimaryCtxReset_v2', 0); cu.init(0)")
    assert used() == 2 * CONTEXT + 64 * MIB and destroy(worker, one) == INVALID_HANDLE
    other.kill()
    assert used() == CONTEXT


def test_what_does_not_fit_is_refused(worker):
    left = worker.says("cu.free()")
    assert array(worker, 16384, 16384, 16384, FLOAT, 4) == array(worker, 32768, 32768, 2048, FLOAT, 4, LAYERED) == -OUT_OF_MEMORY
    worker.says(f"cu.alloc({left - 4 * GRANULE})")
    assert array(worker, 2048, 4097) == -OUT_OF_MEMORY and array(worker, 2048, 4096) > 0 and array(worker, 1) == -OUT_OF_MEMORY


def test_an_array_needs_a_context(client):
    one = client()
    one.says("cu.init()")
    assert array(one, 1) == -INVALID_CONTEXT


# --- What can be made ---


@pytest.mark.parametrize(
    ("good", "shape"),
    [
        (True, (131072,)), (False, (131073,)), (False, (0,)), (False, (0, 1)), (True, (131072, 4)), (True, (4, 65536)), (False, (4, 65537)), (False, (131073, 4)),
        (True, (4, 4, 16384)), (True, (4, 4, 32768)), (False, (8193, 4, 32768)), (False, (16385, 4, 4)), (False, (4, 0, 4)), (True, (1, 1, 1)),
        (True, (32768, 0, 4, INT8, 1, LAYERED)), (False, (32769, 0, 4, INT8, 1, LAYERED)), (True, (4, 4, 2048, INT8, 1, LAYERED)), (False, (4, 4, 2049, INT8, 1, LAYERED)),
        (False, (4, 4, 0, INT8, 1, LAYERED)), (True, (8, 8, 6, INT8, 1, CUBEMAP)), (False, (8, 9, 6, INT8, 1, CUBEMAP)), (False, (8, 8, 12, INT8, 1, CUBEMAP)),
        (True, (8, 8, 12, INT8, 1, CUBEMAP | LAYERED)), (False, (8, 8, 13, INT8, 1, CUBEMAP | LAYERED)), (False, (8, 8, 2052, INT8, 1, CUBEMAP | LAYERED)),
        (True, (32768, 0, 0, INT8, 1, SURFACE)), (False, (32769, 0, 0, INT8, 1, SURFACE)), (False, (4, 4, 16385, INT8, 1, SURFACE)),
        (True, (32768, 8, 0, INT8, 1, GATHER)), (False, (32769, 8, 0, INT8, 1, GATHER)), (False, (8, 0, 0, INT8, 1, GATHER)), (False, (8, 8, 0, INT8, 1, 0x200)),
        (False, (2**64 - 1, 2**64 - 1, 2**64 - 1)), (False, (2**63, 2, 0)),
    ],
)  # fmt: skip
def test_extents_are_those_of_textures_and_surfaces(worker, good, shape):
    handle = array(worker, *shape)
    assert handle > 0 if good else handle == -INVALID_VALUE
    assert good or used() == CONTEXT


@pytest.mark.parametrize(
    ("code", "of", "channels"),
    [(0, INT8, 1), (0, INT16, 2), (0, FLOAT, 4), (0, HALF, 4), (INVALID_VALUE, INT8, 3), (INVALID_VALUE, INT8, 0), (INVALID_VALUE, INT8, 5), (INVALID_VALUE, 4, 1),
     (INVALID_VALUE, 0, 1), (INVALID_VALUE, -1, 1), (0, 0x50, 4), (INVALID_VALUE, 0x50, 1), (0, 0xC5, 4), (INVALID_VALUE, 0xC5, 2), (0, 0x91, 4), (0, 0x98, 1),
     (INVALID_VALUE, 0x98, 4), (NOT_SUPPORTED, 0xB0, 1), (NOT_SUPPORTED, 0x9F, 1), (INVALID_VALUE, 0xCC, 4)],
)  # fmt: skip
def test_formats_are_checked(worker, code, of, channels):
    handle = array(worker, 64, 64, 0, of, channels)
    assert handle == -code if code else handle > 0


def test_compressed_formats_take_blocks(worker):
    array(worker, 4096, 4096, 0, 0x91, 4)
    assert used() == CONTEXT + 8 * MIB
    array(worker, 4097, 1, 0, 0x9D, 4)
    assert used() == CONTEXT + 8 * MIB + GRANULE


def test_an_array_tells_what_it_is(worker):
    flat = worker.says("cu('cuArrayCreate_v2', c.c_void_p, c.byref(Flat(100, 50, 2, 4)))")
    deep = array(worker, 10, 20, 30, FLOAT, 2, SURFACE)
    for handle, shape in ((flat, (100, 50, 0, 2, 4, 0)), (deep, (10, 20, 30, 32, 2, 2))):
        worker.does(f"s = Shape(); cu('cuArray3DGetDescriptor_v2', c.byref(s), {handle})")
        assert worker.says("s.width, s.height, s.depth, s.format, s.channels, s.flags") == shape
        worker.does(f"s = Flat(); cu('cuArrayGetDescriptor_v2', c.byref(s), {handle})")
        assert worker.says("s.width, s.height, s.format, s.channels") == (*shape[:2], *shape[3:5])
    assert worker.says("cu('cuArrayGetDescriptor_v2', c.byref(Flat()), 4096)") == -INVALID_HANDLE
    assert worker.says(f"cu('cuArrayGetDescriptor_v2', None, {flat})") == worker.says(f"cu('cuArray3DGetDescriptor_v2', None, {flat})") == -INVALID_VALUE
    assert worker.says("cu('cuArrayCreate_v2', c.c_void_p, None)") == worker.says("cu('cuArray3DCreate_v2', None, c.byref(Shape(1)))") == -INVALID_VALUE


def test_an_array_that_is_mapped_later_has_no_memory(worker):
    later, now = array(worker, 4096, 4096, 0, FLOAT, 4, DEFERRED), array(worker, 8)
    assert used() == CONTEXT + GRANULE and array(worker, 4096, 4096, 0, FLOAT, 4, SPARSE) > 0 and used() == CONTEXT + GRANULE
    worker.does("r = (c.c_uint64 * 4)()")
    assert worker.says(f"[cu('cuArrayGetMemoryRequirements', r, {later}, 0), list(r)][1]") == [256 * MIB, 65536, 0, 0]
    assert worker.says(f"cu('cuArrayGetMemoryRequirements', r, {now}, 0)") == worker.says(f"cu('cuArrayGetMemoryRequirements', None, {later}, 0)") == -INVALID_VALUE
    assert worker.says(f"cu('cuArrayGetMemoryRequirements', r, {later}, 2)") == -INVALID_DEVICE
    assert worker.says(f"cu.copy('cuMemcpy2D_v2', from_type={ARRAY}, from_array={later}, to_type={HOST}, to_host=c.create_string_buffer(16), width=16, height=1)") == -INVALID_VALUE
    many = worker.says(f"cu('cuMipmappedArrayCreate', c.c_void_p, c.byref(Shape(64, 64, flags={DEFERRED})), 9)")
    assert worker.says(f"[cu('cuMipmappedArrayGetMemoryRequirements', r, {many}, 0), list(r)][1]") == [65536, 65536, 0, 0]


# --- Levels ---


def test_a_mipmapped_array_has_levels_of_half_the_size(worker):
    many = worker.says(f"cu('cuMipmappedArrayCreate', c.c_void_p, c.byref(Shape(1000, 300, 0, {FLOAT}, 4)), 99)")
    levels = [worker.says(f"cu('cuMipmappedArrayGetLevel', c.c_void_p, {many}, {i})") for i in range(11)]
    assert levels[10] == -INVALID_VALUE and len(set(levels)) == 11
    shapes = [worker.says(f"[s := Flat(), cu('cuArrayGetDescriptor_v2', c.byref(s), {level}), (s.width, s.height)][-1]") for level in levels[:10]]
    assert shapes == [(1000, 300), (500, 150), (250, 75), (125, 37), (62, 18), (31, 9), (15, 4), (7, 2), (3, 1), (1, 1)]
    assert used() == CONTEXT + 8 * MIB and destroy(worker, levels[0]) == INVALID_HANDLE
    worker.says(f"cu('cuMipmappedArrayDestroy', {many})")
    assert used() == CONTEXT and worker.says(f"cu('cuMipmappedArrayGetLevel', c.c_void_p, {many}, 0)") == destroy(worker, levels[0]) * -1 == -INVALID_HANDLE
    assert worker.says(f"cu('cuMipmappedArrayDestroy', {many})") == -INVALID_HANDLE


def test_levels_have_bytes_of_their_own(worker):
    many = worker.says("cu('cuMipmappedArrayCreate', c.c_void_p, c.byref(Shape(16, 4)), 0xffffffff)")
    for level, size in enumerate((16, 8, 4)):
        worker.says(f"cu.copy('cuMemcpy2D_v2', from_type=1, from_host={bytes([level + 1]) * 64}, from_pitch=16, to_type=3, to_array=cu('cuMipmappedArrayGetLevel', c.c_void_p, {many}, {level}), width={size}, height={max(1, 4 >> level)})")
    found = [worker.says(f"[b := c.create_string_buffer(1), cu.copy('cuMemcpy2D_v2', to_type=1, to_host=b, from_type=3, from_array=cu('cuMipmappedArrayGetLevel', c.c_void_p, {many}, {i}), width=1, height=1), b.raw][-1]") for i in range(4)]
    assert found == [b"\1", b"\2", b"\3", b"\0"]


@pytest.mark.parametrize(("shape", "levels", "count"), [((8, 8), 0, 1), ((8, 8), 4, 4), ((8, 8), 5, 4), ((1, 0, 8, INT8, 1, LAYERED), 9, 1), ((2, 2, 16), 9, 5), ((9, 0), 9, 4)])
def test_there_are_as_many_levels_as_sizes(worker, shape, levels, count):
    many = worker.says(f"cu('cuMipmappedArrayCreate', c.c_void_p, c.byref(Shape(*{shape})), {levels})")
    assert [worker.says(f"cu.code('cuMipmappedArrayGetLevel', c.c_void_p, {many}, {i})") for i in (count - 1, count)] == [0, INVALID_VALUE]


def test_a_mipmapped_array_is_checked_like_an_array(worker):
    assert worker.says("cu('cuMipmappedArrayCreate', c.c_void_p, c.byref(Shape(0, 4)), 1)") == worker.says("cu('cuMipmappedArrayCreate', c.c_void_p, None, 1)") == -INVALID_VALUE
    assert worker.says(f"cu('cuMipmappedArrayCreate', c.c_void_p, c.byref(Shape(32768, 32768, 2048, {FLOAT}, 4, {LAYERED})), 9)") == -OUT_OF_MEMORY and used() == CONTEXT


# --- Copies ---


def test_a_box_goes_from_anywhere_to_anywhere(worker):
    """Through all pairs of host, linear memory and arrays; each end has its own place and pitch."""
    data = bytes(random.Random(8).randrange(256) for _ in range(5 * 3 * 2))
    worker.does(f"data = {data}; h = [c.create_string_buffer(4096) for _ in range(2)]; d = [cu.alloc(4096), cu.alloc(4096)]; a = [cu.array(32, 16, 8), cu.array(32, 16, 8)]")
    worker.does("m = cu('cuMemAllocManaged', c.c_uint64, 4096, 1)")
    ends = {
        "host": dict(type=HOST, host="h[{}]", pitch=13, height=5), "device": dict(type=DEVICE, device="d[{}]", pitch=17, height=7), "array": dict(type=ARRAY, array="a[{}]"),
        "any": dict(type=ANY, device="c.addressof(h[{}])", pitch=40, height=9), "managed": dict(type=ANY, device="m", pitch=19, height=6),
    }  # fmt: skip

    def words(side, end, k, x, y, z):
        return ", ".join(f"{side}_{name}={str(value).format(k)}" for name, value in {**ends[end], "x": x, "y": y, "z": z}.items())

    tight = "{0}_type=1, {0}_host={1}, {0}_pitch=5, {0}_height=3"
    for source, target in itertools.permutations(ends, 2):
        worker.does(f"cu.copy('cuMemcpy3D_v2', {tight.format('from', 'data')}, {words('to', source, 0, 3, 2, 1)}, width=5, height=3, depth=2)")
        worker.does(f"cu.copy('cuMemcpy3D_v2', {words('from', source, 0, 3, 2, 1)}, {words('to', target, 1, 1, 1, 2)}, width=5, height=3, depth=2)")
        worker.does(f"back = c.create_string_buffer(30); cu.copy('cuMemcpy3D_v2', {words('from', target, 1, 1, 1, 2)}, {tight.format('to', 'back')}, width=5, height=3, depth=2)")
        assert worker.says("back.raw") == data, (source, target)


def test_a_plane_is_copied_line_by_line_and_nothing_beside_it(worker):
    worker.does("p = cu.alloc(40); cu('cuMemsetD8_v2', p, 46, 40)")
    worker.does("cu.copy('cuMemcpy2D_v2', from_type=1, from_host=b'abcdefgh', from_pitch=4, to_type=2, to_device=p, to_pitch=10, to_x=2, to_y=1, width=3, height=2)")
    assert worker.says("cu.read(p, 40)") == b"." * 12 + b"abc" + b"." * 7 + b"efg" + b"." * 15
    worker.does("cu.copy('cuMemcpy2DUnaligned_v2', from_type=2, from_device=p, from_pitch=10, from_x=2, from_y=1, to_type=2, to_device=p, to_pitch=9, width=3, height=2)")
    assert worker.says("cu.read(p, 12)") == b"abc......efg"


@pytest.mark.parametrize(
    "broken",
    ["width=11", "height=5", "to_x=8", "to_y=3", "to_pitch=9", "to_pitch=0", "from_type=0", "from_type=5", "to_type=9", "to_device=p + 30", "to_device=4096", "to_device=0",
     "width=2**64 - 1", "height=2**63", "to_x=2**64 - 1", "to_y=2**60", "to_pitch=2**31", "from_pitch=2**40", "from_pitch=3", "to_type=3, to_array=4096"],
)  # fmt: skip
def test_what_reaches_beyond_is_refused(worker, broken):
    worker.does("p = cu.alloc(40); good = dict(from_type=1, from_host=b'x' * 40, from_pitch=10, to_type=2, to_device=p, to_pitch=10, width=10, height=4)")
    assert worker.says("cu.copy('cuMemcpy2D_v2', **good)") is None
    for call in ("cuMemcpy2D_v2", "cuMemcpy2DUnaligned_v2", "cuMemcpy2D_v2_ptds"):
        assert worker.says(f"cu.copy('{call}', **dict(good, {broken}))") == -INVALID_VALUE
    assert worker.says("cu('cuMemcpy2D_v2', None)") == worker.says("cu('cuMemcpy3D_v2', None)") == -INVALID_VALUE


@pytest.mark.parametrize("broken", ["depth=3", "to_z=1", "to_z=2**63", "depth=2**62", "to_height=3", "from_height=3", "to_height=2**62", "to_level=1", "from_level=1", "to_x=1", "to_type=3, to_array=a", "to_type=3, to_array=a, to_x=1, width=4, height=1"])
def test_what_reaches_beyond_is_refused_in_three_dimensions(worker, broken):
    worker.does("p = cu.alloc(80); a = cu.array(5, 4, 2, 2)")
    worker.does("good = dict(from_type=1, from_host=b'x' * 80, from_pitch=10, from_height=4, to_type=2, to_device=p, to_pitch=10, to_height=4, width=10, height=4, depth=2)")
    assert worker.says("cu.copy('cuMemcpy3D_v2', **good)") is None
    wrong = worker.says(f"cu.copy('cuMemcpy3D_v2', **dict(good, {broken}))")
    assert wrong == (None if broken == "to_type=3, to_array=a" else -INVALID_VALUE)


def test_nothing_is_copied_from_nowhere(worker):
    for size in ("width=0, height=9", "width=9, height=0"):
        assert worker.says(f"cu.copy('cuMemcpy2D_v2', from_type=2, to_type=2, {size})") is None


def test_copies_have_their_turn_in_a_stream(worker):
    worker.does("p, q, s = cu.alloc(64), cu.alloc(64), cu.stream(1); cu('cuMemsetD8_v2', p, 0, 64); cu.spins(10**7, s); cu('cuMemsetD8Async', p, 7, 64, s)")
    worker.does("cu('cuMemcpy2DAsync_v2', c.byref(Plane(from_type=2, from_device=p, from_pitch=8, to_type=2, to_device=q, to_pitch=8, width=4, height=2)), s)")
    worker.does("cu('cuMemcpy3DAsync_v2', c.byref(Box(from_type=2, from_device=p, from_pitch=8, to_type=2, to_device=q, to_x=4, to_pitch=8, width=4, height=2, depth=1)), s)")
    assert worker.says("cu.code('cuStreamQuery', s)") == 600
    worker.does("cu('cuStreamSynchronize', s)")
    assert worker.says("cu.read(q, 16)") == b"\7" * 16


def test_an_array_waits_for_the_work_that_it_is_destroyed_behind(worker):
    worker.does("two = cu('cuCtxCreate_v2', c.c_void_p, 0, 0); s = cu.stream(1); cu.spins(10**7, s); p = cu.alloc(64); a = cu.array(64)")
    worker.does("cu('cuMemcpy2DAsync_v2', c.byref(Plane(from_type=2, from_device=p, to_type=3, to_array=a, width=4, height=1)), s)")
    assert worker.says("cu('cuArrayDestroy', a)") is None and worker.says("cu.code('cuStreamSynchronize', s)") == 0


# --- Settings ---


@pytest.mark.parametrize(("call", "value", "row"), [("cuMemsetD2D8", 0x41, b"AAA."), ("cuMemsetD2D16", 0x4241, b"ABABAB.."), ("cuMemsetD2D32", 0x44434241, b"ABCDABCDABCD....")])
def test_rows_are_set_and_nothing_beside_them(worker, call, value, row):
    worker.does("p, s = cu.alloc(80), cu.stream(1)")
    for form, stream in (("_v2", ""), ("_v2_ptds", ""), ("Async", ", s"), ("Async_ptsz", ", 0")):
        worker.does(f"cu('cuMemsetD8_v2', p, 46, 80); cu('{call}{form}', p, {len(row)}, {value}, 3, 2{stream}); cu('cuCtxSynchronize')")
        assert worker.says(f"cu.read(p, {3 * len(row)})") == row * 2 + b"." * len(row)


def test_rows_that_reach_beyond_are_refused(worker):
    worker.does("p = cu.alloc(80)")
    refused = ["'cuMemsetD2D8_v2', p, 40, 0, 41, 1 + 1", "'cuMemsetD2D8_v2', p, 40, 0, 40, 3", "'cuMemsetD2D8_v2', p, 39, 0, 40, 2", "'cuMemsetD2D32_v2', p + 2, 40, 0, 1, 1"]
    refused += ["'cuMemsetD2D32_v2', p, 38, 0, 1, 2", "'cuMemsetD2D16_v2', p, 39, 0, 1, 2", "'cuMemsetD2D8_v2', p, 2**63, 0, 1, 3", "'cuMemsetD2D32_v2', p, 40, 0, 2**62, 1", "'cuMemsetD2D8_v2', p, 1, 0, 1, 2**64 - 1"]
    for call in refused:
        assert worker.says(f"cu({call})") == -INVALID_VALUE
    assert worker.says("cu('cuMemsetD2D8_v2', p, 0, 0, 80, 1)") is None and worker.says("cu('cuMemsetD2D8_v2', 4096, 0, 0, 0, 9)") is None
