# SPDX-License-Identifier: Apache-2.0
"""The simulated CUDA driver: streams whose work is captured, and what must not be done meanwhile."""
import pytest
from cuda import CAPTURED_EVENT, GLOBAL, HOST, ILLEGAL_STATE, IMPLICIT, INVALID_HANDLE, INVALID_VALUE, INVALIDATED, ISOLATION, KERNEL, MEMCPY
from cuda import LEGACY, MEMSET, MERGE, NOT_READY, PER_THREAD, RELAXED, THREAD_LOCAL, UNJOINED, UNMATCHED, UNSUPPORTED, WRONG_THREAD

NONE, ACTIVE, INVALID = 0, 1, 2


@pytest.fixture
def captures(worker):
    """worker, with a non-blocking stream `s` that is captured, others (`t`, `u`, and `blocking`), events, memory, and a function."""
    worker.does("s, t, u, blocking = cu.stream(1), cu.stream(1), cu.stream(1), cu.stream()")
    worker.does("e, f, before, p, host = cu.event(), cu.event(), cu.event(), cu.alloc(64), c.create_string_buffer(64); cu('cuEventRecord', before, t)")
    worker.does("nothing, function = cu.function('nothing'), c.CFUNCTYPE(None, c.c_void_p)(lambda data: None); cu.capture(s)")
    return worker


def fails(worker, call, code, stream="s"):
    """The call fails, and the stream's capture with it."""
    assert worker.says(f"cu({call})") == -code
    assert worker.says(f"cu.status({stream})") == INVALID
    assert worker.says(f"cu.captured({stream})") == -INVALIDATED
    assert worker.says(f"cu.status({stream})") == NONE


# --- What is captured ---


def test_work_is_captured_in_its_order_and_not_done(captures):
    captures.does("cu.launch(nothing, stream=s); cu('cuMemsetD8Async', p, 7, 4, s); cu('cuMemcpyDtoHAsync_v2', host, p, 4, s); cu('cuLaunchHostFunc', s, function, None)")
    captures.does("g = cu.captured(s)")
    assert captures.says("cu.types(g), cu.edges(g)") == ([KERNEL, MEMSET, MEMCPY, HOST], [(0, 1), (1, 2), (2, 3)])
    assert captures.says("cu('cuStreamQuery', s), cu.word(p), host.raw[0], cu('cuGraphDestroy', g)") == (None, 0, 0, None)


def test_copies_of_all_forms_are_captured(captures):
    captures.does("cu('cuMemcpyHtoDAsync_v2', p, host, 4, s); cu('cuMemcpyAsync', p, p + 8, 4, s); cu('cuMemcpyDtoDAsync_v2', p, p + 8, 4, s)")
    captures.does("cu('cuMemcpy2DAsync_v2', c.byref(Plane(to_type=2, to_device=p, to_pitch=8, from_type=2, from_device=p + 32, from_pitch=8, width=4, height=2)), s)")
    captures.does("cu('cuMemsetD2D8Async', p, 8, 1, 4, 2, s); cu('cuMemsetD32Async', p, 1, 2, s)")
    assert captures.says("cu.types(cu.captured(s))") == [MEMCPY] * 4 + [MEMSET] * 2


def test_each_thread_can_capture_its_default_stream(worker):
    worker.does("p = cu.alloc(4)")
    assert worker.says("cu('cuStreamBeginCapture_v2_ptsz', None, 0)") is None
    assert worker.says("cu('cuMemsetD8Async_ptsz', p, 7, 4, None), cu('cuStreamIsCapturing_ptsz', None, c.c_int), cu.status(2)") == (None, ACTIVE, ACTIVE)
    assert worker.says("cu.types(cu('cuStreamEndCapture_ptsz', None, c.c_void_p))") == [MEMSET]


def test_what_was_submitted_before_is_done_all_the_same(worker):
    worker.does("s, p = cu.stream(1), cu.alloc(4); gate = cu.hold(s); cu('cuMemsetD32Async', p, 7, 1, s); cu.capture(s); cu('cuMemsetD32Async', p, 9, 1, s)")
    assert worker.says("[cu.captured(s) > 0, cu.code('cuStreamQuery', s), gate.set(), cu('cuStreamSynchronize', s), cu.word(p)]") == [True, NOT_READY, None, None, 7]


def test_an_empty_capture_is_an_empty_graph(captures):
    assert captures.says("cu.nodes(cu.captured(s))") == []


def test_a_capture_can_add_to_a_graph(worker):
    worker.does("s, p, g = cu.stream(1), cu.alloc(4), cu('cuGraphCreate', c.c_void_p, 0); a = cu('cuGraphAddEmptyNode', c.c_void_p, g, None, 0)")
    worker.does("cu('cuStreamBeginCaptureToGraph', s, g, (c.c_void_p * 1)(a), None, 1, 0); cu('cuMemsetD8Async', p, 0, 1, s)")
    assert worker.says("cu('cuGraphDestroy', g)") == -INVALID_VALUE
    assert worker.says("cu.captured(s) == g, cu.edges(g)") == (True, [(0, 1)])
    assert worker.says("cu('cuStreamBeginCaptureToGraph', s, 4096, None, None, 0, 0)") == -INVALID_VALUE


# --- Beginning and ending ---


def test_a_capture_is_begun_once_and_not_in_the_legacy_stream(captures):
    assert captures.says("cu('cuStreamBeginCapture_v2', s, 0)") == -ILLEGAL_STATE
    assert [captures.says(f"cu('cuStreamBeginCapture_v2', {stream}, 0)") for stream in (0, LEGACY)] == [-UNSUPPORTED] * 2
    assert captures.says("cu('cuStreamBeginCapture_v2', t, 3)") == -INVALID_VALUE
    assert captures.says("cu('cuStreamBeginCapture_v2', 4096, 0)") == -INVALID_HANDLE
    assert captures.says("cu.status(s), cu.status(t)") == (ACTIVE, NONE)


def test_a_capture_is_ended_where_it_began(captures):
    assert captures.says("cu.captured(t)") == -ILLEGAL_STATE
    assert captures.says("cu('cuStreamEndCapture', s, None)") == -INVALID_VALUE
    assert captures.says("cu.in_thread(lambda: cu.code('cuStreamEndCapture', s, c.c_void_p))") == WRONG_THREAD
    captures.does("cu('cuEventRecord', e, s); cu('cuStreamWaitEvent', t, e, 0)")
    assert captures.says("cu.captured(t)") == -UNMATCHED
    assert captures.says("cu.captured(s)") == -INVALIDATED


def test_a_relaxed_capture_is_ended_by_any_thread(worker):
    worker.does("s = cu.capture(cu.stream(1), 2)")
    assert worker.says("cu.in_thread(lambda: cu.types(cu.captured(s)))") == []


def test_no_graph_comes_of_an_invalid_capture(captures):
    captures.says("cu('cuStreamSynchronize', s)")
    captures.does("g = c.c_void_p(1); code = cu.code('cuStreamEndCapture', s, c.byref(g))")
    assert captures.says("code, g.value, cu.status(s)") == (INVALIDATED, None, NONE)
    assert captures.says("cu('cuStreamQuery', s), cu.types(cu.captured(cu.capture(s)))") == (None, [])


@pytest.mark.parametrize(
    "call",
    [
        "'cuMemsetD8Async', p, 0, 1, s",
        "'cuStreamSynchronize', s",
        "'cuEventRecord', e, s",
        "'cuStreamWaitEvent', t, f, 0",
        "'cuLaunchKernel', nothing, 1, 1, 1, 1, 1, 1, 0, s, None, None",
    ],
)
def test_an_invalid_capture_is_good_for_nothing(captures, call):
    captures.does("cu('cuEventRecord', f, s); cu.code('cuStreamSynchronize', s)")
    assert captures.says(f"cu({call})") == -INVALIDATED


def test_a_stream_that_is_destroyed_ends_its_capture(captures):
    captures.does("cu('cuEventRecord', e, s); cu('cuStreamWaitEvent', t, e, 0); cu('cuStreamDestroy_v2', s)")
    assert captures.says("cu.status(t), cu('cuMemAlloc_v2', c.c_uint64, 1) > 0") == (NONE, True)


def test_a_context_that_is_reset_ends_its_captures(captures):
    captures.does("cu('cuDevicePrimaryCtxReset_v2', 0); cu.init(0)")
    assert captures.says("cu.alloc(1) > 0") is True


# --- Asking ---


def test_a_capture_tells_of_itself(captures):
    captures.does("cu('cuMemsetD8Async', p, 0, 1, s); found = cu('cuStreamGetCaptureInfo_v2', s, c.c_int, c.c_uint64, c.c_void_p, c.POINTER(c.c_void_p), c.c_size_t)")
    assert captures.says("found[0], found[4], found[3][0] == cu.nodes(found[2])[0]") == (ACTIVE, 1, True)
    assert captures.says("cu('cuStreamGetCaptureInfo', s, c.c_int, c.c_uint64) == found[:2]")
    assert captures.says("cu('cuStreamGetCaptureInfo_v3', s, c.c_int, c.c_uint64, None, None, None, None) == found[:2]")
    assert captures.says("cu.captured(s) == found[2], cu.capture(s) and cu('cuStreamGetCaptureInfo', s, c.c_int, c.c_uint64)[1] > found[1]") == (True, True)
    assert captures.says("cu('cuStreamIsCapturing', s, None)") == -INVALID_VALUE


def test_what_is_captured_next_can_depend_on_something_else(captures):
    captures.does("cu('cuMemsetD8Async', p, 0, 1, s); first = cu('cuStreamGetCaptureInfo_v2', s, c.c_int, None, None, c.POINTER(c.c_void_p), None)[1][0]")
    captures.does("cu('cuMemsetD8Async', p, 0, 1, s); cu('cuStreamUpdateCaptureDependencies', s, (c.c_void_p * 1)(first), 1, 1); cu('cuMemsetD8Async', p, 0, 1, s)")
    captures.does("cu('cuStreamUpdateCaptureDependencies_v2', s, (c.c_void_p * 1)(first), None, 1, 0); cu('cuMemsetD8Async', p, 0, 1, s)")
    assert captures.says("cu.edges(cu.captured(s))") == [(0, 1), (0, 2), (0, 3), (2, 3)]
    assert captures.says("cu('cuStreamUpdateCaptureDependencies', t, None, 0, 0)") == -ILLEGAL_STATE


# --- Streams that are captured together ---


def test_a_stream_that_waits_for_a_captured_event_is_captured_too(captures):
    captures.does("cu.launch(nothing, stream=s); cu('cuEventRecord', e, s); cu('cuStreamWaitEvent', t, e, 0); cu.launch(nothing, stream=t); cu.launch(nothing, stream=s)")
    assert captures.says("cu.status(t)") == ACTIVE
    captures.does("cu('cuEventRecord', f, t); cu('cuStreamWaitEvent', s, f, 0); cu.launch(nothing, stream=s)")
    assert captures.says("cu.edges(cu.captured(s)), cu.status(t)") == ([(0, 1), (0, 2), (1, 3), (2, 3)], NONE)


def test_a_fork_is_to_be_joined(captures):
    captures.does("cu('cuEventRecord', e, s); cu('cuStreamWaitEvent', t, e, 0); cu.launch(nothing, stream=t)")
    assert captures.says("cu.captured(s)") == -UNJOINED
    assert captures.says("cu.status(s), cu.status(t)") == (NONE, NONE)


def test_a_fork_that_did_nothing_is_joined(captures):
    captures.does("cu.launch(nothing, stream=s); cu('cuEventRecord', e, s); cu('cuStreamWaitEvent', t, e, 0)")
    assert captures.says("cu.types(cu.captured(s))") == [KERNEL]


def test_captured_work_does_not_wait_for_other_work(captures):
    fails(captures, "'cuStreamWaitEvent', s, before, 0", ISOLATION)


def test_two_captures_do_not_become_one(captures):
    captures.does("cu.capture(t); cu('cuEventRecord', e, t)")
    assert captures.says("cu('cuStreamWaitEvent', s, e, 0)") == -MERGE
    assert captures.says("cu.status(s), cu.status(t)") == (INVALID, INVALID)


def test_the_event_of_a_capture_that_ended_is_nothing_to_wait_for(captures):
    captures.does("cu('cuEventRecord', e, s); cu.captured(s)")
    for call in ("'cuStreamWaitEvent', t, e, 0", "'cuEventQuery', e", "'cuEventSynchronize', e", "'cuEventElapsedTime', c.c_float, e, before"):
        assert captures.says(f"cu({call})") == -CAPTURED_EVENT
    assert captures.says("[cu('cuEventRecord', e, t), cu('cuEventSynchronize', e), cu('cuStreamWaitEvent', s, e, 0)]") == [None] * 3


# --- What must not be done meanwhile ---


@pytest.mark.parametrize("call", ["'cuStreamSynchronize', s", "'cuStreamQuery', s", "'cuCtxSynchronize'", "'cuStreamAddCallback', s, 1, None, 0"])
@pytest.mark.parametrize("mode", [GLOBAL, THREAD_LOCAL, RELAXED])
def test_nobody_waits_for_what_is_captured(captures, call, mode):
    captures.does(f"cu.captured(s); cu.capture(s, {mode})")
    fails(captures, call, UNSUPPORTED)


@pytest.mark.parametrize("call", ["'cuEventQuery', e", "'cuEventSynchronize', e", "'cuEventElapsedTime', c.c_float, before, e"])
def test_nobody_waits_for_a_captured_event(captures, call):
    captures.does("cu('cuEventRecord', e, s)")
    fails(captures, call, CAPTURED_EVENT)


UNSAFE = [
    "'cuMemAlloc_v2', c.c_uint64, 1",
    "'cuMemFree_v2', p",
    "'cuMemAllocManaged', c.c_uint64, 1, 1",
    "'cuMemHostAlloc', c.c_void_p, 1, 0",
    "'cuModuleLoadData', c.c_void_p, cu.SPIN",
    "'cuMemcpyHtoD_v2', p, host, 4",
    "'cuStreamSynchronize', t",
    "'cuStreamQuery', t",
    "'cuEventQuery', before",
    "'cuEventSynchronize', before",
]


@pytest.mark.parametrize("call", UNSAFE)
def test_what_no_capture_sees_is_refused(captures, call):
    fails(captures, call, UNSUPPORTED)


@pytest.mark.parametrize("call", UNSAFE)
def test_what_no_capture_sees_is_done_by_who_wants_it(captures, call):
    captures.does("kept = cu.exchange(2)")
    assert captures.says(f"cu.code({call})") == 0
    assert captures.says("kept, cu.exchange(0), cu.status(s)") == (GLOBAL, RELAXED, ACTIVE)


@pytest.mark.parametrize(
    ("capture", "own", "others"),
    [(GLOBAL, UNSUPPORTED, UNSUPPORTED), (THREAD_LOCAL, UNSUPPORTED, 0), (RELAXED, 0, 0)],
)
def test_whom_a_capture_keeps_from_it_is_its_modes_matter(captures, capture, own, others):
    ask = "cu.code('cuMemAlloc_v2', c.c_uint64, 1)"
    captures.does(f"cu.captured(s); cu.capture(s, {capture})")
    assert captures.says(f"cu.in_thread(lambda: {ask})") == others
    captures.does(f"cu.code('cuStreamEndCapture', s, c.c_void_p); cu.capture(s, {capture})")
    assert captures.says(f"{ask}, cu.status(s)") == (own, INVALID if own else ACTIVE)


def test_a_thread_that_looks_at_its_own_captures_alone_does_it_beside_others(captures):
    assert captures.says("cu.in_thread(lambda: [cu.exchange(1), cu.code('cuMemAlloc_v2', c.c_uint64, 1)])") == [GLOBAL, 0]
    assert captures.says("cu.exchange(1), cu.code('cuMemAlloc_v2', c.c_uint64, 1)") == (GLOBAL, UNSUPPORTED)


def test_a_mode_is_one_of_three(worker):
    assert [worker.says(f"cu.exchange({mode})") for mode in (-1, 3)] == [-INVALID_VALUE] * 2
    assert worker.says("cu('cuThreadExchangeStreamCaptureMode', None)") == -INVALID_VALUE


def test_what_changes_no_memory_and_waits_for_nothing_goes_on(captures):
    assert captures.says("[cu.stream(1) > 0, cu.event() > 0, cu.free() > 0, cu('cuMemsetD8Async', p, 0, 1, t), cu('cuEventRecord', before, t), cu.status(s)]") == [
        True, True, True, None, None, ACTIVE,
    ]  # fmt: skip


LEGACY_WORK = [
    "'cuMemsetD8_v2', p, 0, 1",
    "'cuMemcpyHtoD_v2', p, host, 4",
    "'cuLaunchKernel', nothing, 1, 1, 1, 1, 1, 1, 0, None, None, None",
    "'cuStreamSynchronize', None",
    "'cuStreamQuery', 1",
    "'cuEventRecord', before, None",
]


@pytest.mark.parametrize("call", LEGACY_WORK)
def test_the_legacy_stream_is_not_for_use_beside_a_captured_blocking_stream(captures, call):
    captures.does("cu.captured(s); cu.capture(blocking, 2)")
    assert captures.says("cu.status(0)") == -IMPLICIT
    assert captures.says("cu.status(blocking)") == ACTIVE
    fails(captures, call, IMPLICIT, "blocking")


def test_the_legacy_stream_goes_on_beside_a_stream_that_does_not_block_it(captures):
    assert captures.says("cu.status(0), cu('cuMemsetD8_v2', p, 7, 1), cu.status(s)") == (NONE, None, ACTIVE)
    assert captures.says(f"cu.status({PER_THREAD})") == NONE
