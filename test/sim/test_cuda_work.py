# SPDX-License-Identifier: Apache-2.0
"""The simulated CUDA driver: streams, events, launches, copies in streams, and whose kernels a card runs."""
import json
import random

import pynvml as nv
import pytest
from cuda import DESTROYED, ILLEGAL_ADDRESS, INVALID_CONTEXT, INVALID_HANDLE, INVALID_VALUE, LEGACY, NOT_PERMITTED, NOT_READY, OUT_OF_RESOURCES
from cuda import ALREADY_REGISTERED, NOT_REGISTERED, PER_THREAD, TOO_LARGE, UNKNOWN

MS = 1_000_000
SLICE = 2 * MS


@pytest.fixture
def spins(worker):
    """worker, which has two streams that wait for nothing else: one that is never done, `busy`, and one with nothing, `idle`."""
    worker.does("busy, idle = cu.stream(1), cu.stream(1); cu.spins(FOREVER, busy)")
    return worker


@pytest.fixture
def slices(h100):
    """slices(gpu): what the simulator has of a card's time."""
    return lambda gpu=0: [json.loads(line) for line in h100.ctl("timeslices", "--json").stdout.splitlines()][gpu]


# --- Streams ---


def test_a_stream_is_what_was_asked_for(worker):
    assert worker.says("cu('cuCtxGetStreamPriorityRange', c.c_int, c.c_int)") == (0, -5)
    for asked, got in ((-3, -3), (7, 0), (-99, -5)):
        worker.does(f"s = cu.stream(1, {asked})")
        assert worker.says("cu('cuStreamGetPriority', s, c.c_int), cu('cuStreamGetFlags', s, c.c_uint)") == (got, 1)
    assert worker.says("cu('cuStreamGetCtx', s, c.c_void_p) == cu('cuCtxGetCurrent', c.c_void_p)")
    assert [worker.says(f"cu('cuStreamGetFlags', {s}, c.c_uint)") for s in (0, LEGACY, PER_THREAD)] == [0, 0, 0]
    assert worker.says("cu.stream(4)") == -INVALID_VALUE


OF_STREAMS = [
    "'cuStreamSynchronize', {}",
    "'cuStreamQuery', {}",
    "'cuStreamGetPriority', {}, c.c_int",
    "'cuStreamGetFlags', {}, c.c_uint",
    "'cuStreamGetCtx', {}, c.c_void_p",
    "'cuStreamDestroy_v2', {}",
    "'cuEventRecord', cu.event(), {}",
    "'cuStreamWaitEvent', {}, cu.event(), 0",
    "'cuMemsetD8Async', cu.alloc(1), 0, 1, {}",
    "'cuLaunchHostFunc', {}, 1, None",
    "'cuLaunchKernel', cu.function('nothing'), 1, 1, 1, 1, 1, 1, 0, {}, None, None",
]


@pytest.mark.parametrize("call", OF_STREAMS)
def test_what_is_no_stream_is_refused(worker, call):
    worker.does("gone = cu.stream(); cu('cuStreamDestroy_v2', gone)")
    for stream in ("gone", "cu.event()", "4096", "2**64 - 1"):
        assert worker.says(f"cu({call.format(stream)})") == -INVALID_HANDLE
    assert worker.says("cu('cuCtxSetCurrent', None)") is None
    assert worker.says("cu('cuStreamQuery', 0)") == -INVALID_CONTEXT


def test_the_default_streams_are_nobodys_to_destroy(worker):
    assert [worker.says(f"cu('cuStreamDestroy_v2', {s})") for s in (0, LEGACY, PER_THREAD)] == [-INVALID_HANDLE] * 3


def test_work_is_done_in_its_order_and_the_program_goes_on(worker):
    worker.does("s, p = cu.stream(1), cu.alloc(4)")
    worker.does(f"gate = cu.hold(s); cu.spins({MS}, s); cu('cuMemsetD32Async', p, 7, 1, s); asked = cu.code('cuStreamQuery', s); before = cu.word(p)")
    assert worker.says("asked, before") == (NOT_READY, 0)
    assert worker.says("[gate.set(), cu('cuStreamSynchronize', s), cu.code('cuStreamQuery', s), cu.word(p)]") == [None, None, 0, 7]


def test_streams_do_not_wait_for_each_other(spins):
    assert spins.says(f"[cu.spins({5 * MS}, idle), cu('cuStreamSynchronize', idle), cu.code('cuStreamQuery', busy)]") == [None, None, NOT_READY]


def test_the_legacy_stream_waits_for_blocking_ones_and_they_for_it(spins):
    spins.does(f"p, s, t = cu.alloc(8), cu.stream(), cu.stream(); gate = cu.hold(s); cu.spins({MS}, s); cu('cuMemsetD32Async', p, 7, 1, s)")
    assert spins.says("[cu.code('cuStreamQuery', 0), cu.code('cuStreamQuery', t), gate.set(), cu.word(p), cu.code('cuStreamQuery', s)]") == [NOT_READY, 0, None, 7, 0]
    spins.does(f"gate = cu.hold(); cu.spins({MS}); cu('cuMemsetD32Async', p + 4, 9, 1, s); cu('cuMemsetD32Async', p, 8, 1, idle)")
    assert spins.says("[cu.code('cuStreamQuery', s), cu.code('cuStreamQuery', idle), gate.set(), cu('cuStreamSynchronize', s)]") == [NOT_READY, 0, None, None]
    assert spins.says("cu.word(p), cu.word(p + 4), cu.code('cuStreamQuery', 0)") == (8, 9, 0)


def test_each_thread_has_a_default_stream_if_it_wants_one(worker):
    worker.does("cu.launch(cu.function('spin_ns'), c.c_uint64(FOREVER), call='cuLaunchKernel_ptsz')")
    worker.does("context, found = cu('cuCtxGetCurrent', c.c_void_p), []")
    ask = "cu.code('cuStreamQuery', 2), cu.code('cuStreamQuery_ptsz', None), cu.code('cuStreamQuery', 0)"
    assert worker.says(f"{ask}") == (NOT_READY, NOT_READY, NOT_READY)
    worker.does(f"t = threading.Thread(target=lambda: found.extend([cu('cuCtxSetCurrent', context), {ask}])); t.start(); t.join()")
    assert worker.says("found[1:]") == [0, 0, NOT_READY]
    assert worker.says("cu.code('cuCtxGetStreamPriorityRange', None, None)") == 0


def test_the_context_waits_for_all_of_its_streams(worker):
    worker.does(f"s = [cu.stream(i % 2) for i in range(4)]; [cu.spins({5 * MS}, i) for i in s]; cu('cuCtxSynchronize')")
    assert worker.says("[cu.code('cuStreamQuery', i) for i in s]") == [0] * 4


def test_a_stream_that_is_destroyed_does_what_it_has(worker):
    worker.does(f"s, p = cu.stream(1), cu.alloc(4); cu.spins({10 * MS}, s); cu('cuMemsetD32Async', p, 7, 1, s); cu('cuStreamDestroy_v2', s); cu('cuCtxSynchronize')")
    assert worker.says("cu.word(p)") == 7


def test_a_launch_waits_while_its_stream_is_full_and_ends_with_its_context(spins):
    spins.does("""
context, sent, end = cu('cuCtxGetCurrent', c.c_void_p), [], []
def fill():
    cu('cuCtxSetCurrent', context)
    while not end:
        code = cu.code('cuMemsetD8Async', p, 0, 1, busy)
        (end if code else sent).append(code)
p = cu.alloc(1)
thread = threading.Thread(target=fill)
thread.start()
""")
    spins.does("while len(sent) < 1023: pass")
    spins.does("cu('cuDevicePrimaryCtxReset_v2', 0); thread.join()")
    assert spins.says("len(sent), end") == (1023, [DESTROYED])


def test_functions_of_the_program_are_called_in_order_and_may_not_call_back(worker):
    worker.does(f"""
called, s, p = [], cu.stream(1), cu.alloc(4)
Function, Callback = c.CFUNCTYPE(None, c.c_void_p), c.CFUNCTYPE(None, c.c_void_p, c.c_int, c.c_void_p)
function = Function(lambda data: called.append((data, cu.code('cuStreamQuery', s), threading.get_ident() == main)))
callback = Callback(lambda stream, status, data: called.append((stream == s, status, data)))
main = threading.get_ident()
gate = cu.hold(s)
cu.spins({MS}, s)
cu('cuLaunchHostFunc', s, function, 5)
cu('cuStreamAddCallback', s, callback, 6, 0)
before = list(called)
gate.set()
cu('cuStreamSynchronize', s)
""")
    assert worker.says("before, called") == ([], [(5, NOT_PERMITTED, False), (True, 0, 6)])
    assert worker.says("cu('cuStreamAddCallback', s, callback, 6, 1)") == -INVALID_VALUE
    assert worker.says("cu('cuLaunchHostFunc', s, None, 5)") == -INVALID_VALUE


def test_a_function_holds_up_its_own_stream_alone(worker):
    worker.does(f"""
s, t = cu.stream(1), cu.stream(1)
gate = cu.hold(s)
cu.spins({MS}, s)
cu.spins({MS}, t)
cu('cuStreamSynchronize', t)
asked = cu.code('cuStreamQuery', s)
gate.set()
cu('cuStreamSynchronize', s)
""")
    assert worker.says("asked") == NOT_READY


# --- Events ---


def test_events_measure_the_cards_time(worker):
    worker.does(f"a, b, s = cu.event(), cu.event(), cu.stream(1); cu('cuEventRecord', a, s); gate = cu.hold(s); cu.spins({20 * MS}, s, 2); cu('cuEventRecord', b, s)")
    assert worker.says("cu.code('cuEventQuery', a), cu.code('cuEventQuery', b), cu.code('cuEventElapsedTime', c.c_float, a, b)") == (0, NOT_READY, NOT_READY)
    worker.does("gate.set(); cu('cuEventSynchronize', b)")
    assert worker.says("cu.code('cuEventQuery', b)") == 0
    assert 40 <= worker.says("cu('cuEventElapsedTime', c.c_float, a, b)") == worker.says("cu('cuEventElapsedTime_v2', c.c_float, a, b)") < 60_000


def test_an_event_that_was_never_recorded_is_nothing_to_wait_for(worker):
    worker.does("a, b = cu.event(), cu.event(2)")
    assert worker.says("[cu('cuEventSynchronize', a), cu('cuStreamWaitEvent', 0, a, 0), cu.code('cuEventQuery', a)]") == [None, None, 0]
    assert worker.says("cu('cuEventElapsedTime', c.c_float, a, a)") == -INVALID_HANDLE
    worker.does("cu('cuEventRecord', a, 0); cu('cuEventRecord', b, 0)")
    assert worker.says("cu('cuEventElapsedTime', c.c_float, a, b)") == -INVALID_HANDLE
    assert worker.says("cu('cuEventElapsedTime', None, a, a)") == -INVALID_VALUE
    assert worker.says("cu('cuEventRecordWithFlags', a, 0, 1)") == -INVALID_VALUE


def test_flags_of_events_that_do_not_go_together_are_refused(worker):
    assert [worker.says(f"cu.event({flags}) > 0") for flags in (0, 1, 2, 3, 6, 7)] == [True] * 6
    assert [worker.says(f"cu.code('cuEventCreate', c.c_void_p, {flags})") for flags in (4, 5, 8)] == [INVALID_VALUE] * 3
    worker.does("e = cu.event(); cu('cuEventDestroy_v2', e)")
    for call in ("'cuEventQuery', e", "'cuEventSynchronize', e", "'cuEventDestroy_v2', e", "'cuEventRecord', e, 0", "'cuEventQuery', 4096"):
        assert worker.says(f"cu({call})") == -INVALID_HANDLE


def test_a_stream_waits_for_the_record_that_there_was_and_no_later_one(spins):
    spins.does(f"e, s, p = cu.event(), cu.stream(1), cu.alloc(4); gate = cu.hold(s); cu.spins({MS}, s); cu('cuEventRecord', e, s)")
    spins.does("cu('cuStreamWaitEvent', idle, e, 0); cu('cuMemsetD32Async', p, 7, 1, idle); asked = cu.code('cuStreamQuery', idle)")
    spins.does("cu('cuEventRecord', e, busy); gate.set(); cu('cuStreamSynchronize', idle)")
    assert spins.says("asked, cu.word(p), cu.code('cuEventQuery', e)") == (NOT_READY, 7, NOT_READY)


def test_a_stream_waits_for_an_event_of_another_card_which_may_end(worker):
    worker.does("p, s, one = cu.alloc(4), cu.stream(1), cu('cuCtxGetCurrent', c.c_void_p)")
    worker.does(f"two = cu('cuCtxCreate_v2', c.c_void_p, 0, 1); e, t = cu.event(), cu.stream(1); gate = cu.hold(t); cu.spins({MS}, t); cu('cuEventRecord', e, t)")
    worker.does("cu('cuStreamWaitEvent', s, e, 0); cu('cuMemsetD32Async', p, 7, 1, s); asked = cu.code('cuStreamQuery', s); gate.set(); cu('cuStreamSynchronize', s)")
    assert worker.says("asked, cu.word(p)") == (NOT_READY, 7)
    assert worker.says("cu('cuEventRecord', e, s)") == -INVALID_HANDLE
    worker.does("cu.spins(FOREVER, t); cu('cuEventRecord', e, t); cu('cuStreamWaitEvent', s, e, 0); cu('cuMemsetD32Async', p, 8, 1, s)")
    worker.does("cu('cuCtxDestroy_v2', two); cu('cuCtxSetCurrent', one); cu('cuStreamSynchronize', s)")
    assert worker.says("cu.word(p)") == 8 and worker.says("cu('cuEventQuery', e)") == -INVALID_HANDLE


# --- Copies ---


def test_copies_in_streams_come_after_what_is_before_them(worker):
    worker.does(f"""
s, p, host = cu.stream(1), cu.alloc(16), cu('cuMemAllocHost_v2', c.c_void_p, 16)
seen = (c.c_uint32 * 4).from_address(host)
seen[:] = [1, 2, 3, 4]
gate = cu.hold(s)
cu.spins({MS}, s)
cu('cuMemcpyHtoDAsync_v2', p, host, 16, s)
cu('cuMemcpyDtoDAsync_v2', p, p + 8, 4, s)
cu('cuMemsetD16Async', p + 4, 0x1234, 2, s)
cu('cuMemsetD8Async', p + 12, 0xff, 2, s)
cu('cuMemcpyAsync', host, p, 16, s)
before = list(seen)
gate.set()
cu('cuStreamSynchronize', s)
""")
    assert worker.says("before, list(seen)") == ([1, 2, 3, 4], [3, 0x12341234, 3, 0xFFFF])


def test_pages_that_the_driver_does_not_know_are_read_at_once_or_waited_for(worker):
    worker.does(f"""
s, p, large = cu.stream(1), cu.alloc(1 << 20), c.create_string_buffer(b'b' * (1 << 20))
little, out = c.create_string_buffer(b'abcd', 4), c.create_string_buffer(4)
gate = cu.hold(s)
cu('cuMemcpyHtoDAsync_v2', p, little, 4, s)
little.raw = b'zzzz'
first = cu.code('cuStreamQuery', s)
gate.set()
cu('cuMemcpyDtoHAsync_v2', out, p, 4, s)
second = cu.code('cuStreamQuery', s)
cu.spins({10 * MS}, s)
cu('cuMemcpyHtoDAsync_v2', p, large, 1 << 20, s)
third = cu.code('cuStreamQuery', s)
""")
    assert worker.says("first, second, third, out.raw, cu.word(p + 1000)") == (NOT_READY, 0, 0, b"abcd", 0x62626262)


def test_a_copy_finds_out_by_the_addresses_what_it_copies(worker):
    worker.does("p, a, b = cu.alloc(8), c.create_string_buffer(b'abcd', 4), c.create_string_buffer(4)")
    worker.does("at = lambda buffer: c.cast(buffer, c.c_void_p).value")
    worker.does("cu('cuMemcpy', p, at(a), 4); cu('cuMemcpy', p + 4, p, 4); cu('cuMemcpy', at(b), p + 4, 4)")
    assert worker.says("b.raw") == b"abcd"
    assert worker.says("cu('cuMemcpy', p + 5, p, 4)") == -INVALID_VALUE and worker.says("cu('cuMemcpy', 0, p, 4)") == -INVALID_VALUE


BAD_COPIES = [
    "'cuMemsetD16Async', p + 1, 0, 1, None",
    "'cuMemsetD32Async', p + 2, 0, 1, None",
    "'cuMemsetD32Async', p, 0, 2**63, None",
    "'cuMemsetD8Async', p, 0, 17, None",
    "'cuMemsetD16_v2', p, 0, 2**64 - 1",
    "'cuMemcpyDtoDAsync_v2', p, p + 8, 9, None",
    "'cuMemcpyHtoDAsync_v2', p, None, 4, None",
    "'cuMemcpyHtoDAsync_v2', 4096, b'ab', 2, None",
    "'cuMemcpyDtoHAsync_v2', b'abc', p, 2**64 - 1, None",
]


@pytest.mark.parametrize("call", BAD_COPIES)
def test_a_copy_beyond_an_allocation_is_refused_before_it_is_submitted(worker, call):
    worker.does("p = cu.alloc(16); cu.spins(FOREVER, cu.stream(1))")
    assert worker.says(f"cu({call})") == -INVALID_VALUE
    assert worker.says("cu.code('cuStreamQuery', 0)") == 0


def test_memory_is_freed_when_the_work_before_is_done(worker):
    worker.does(f"s, p = cu.stream(1), cu.alloc(4); cu.spins({10 * MS}, s); cu('cuMemsetD32Async', p, 7, 1, s); cu('cuMemFree_v2', p)")
    assert worker.says("cu.code('cuStreamQuery', s)") == 0


def test_an_error_of_work_is_the_contexts_until_its_end(worker):
    worker.does("one = cu('cuCtxGetCurrent', c.c_void_p); s, p, gate = cu.stream(1), cu.alloc(4), None; gate = cu.hold(s)")
    worker.does("two = cu('cuCtxCreate_v2', c.c_void_p, 0, 1); q = cu.alloc(4); cu('cuCtxSetCurrent', one)")
    worker.does("cu('cuMemcpyDtoDAsync_v2', p, q, 4, s); cu('cuCtxDestroy_v2', two); gate.set()")
    for call in ("'cuStreamSynchronize', s", "'cuCtxSynchronize'", "'cuStreamQuery', s", "'cuMemsetD8Async', p, 0, 1, s", "'cuMemFree_v2', p"):
        assert worker.says(f"cu({call})") == -ILLEGAL_ADDRESS
    worker.does("cu('cuDevicePrimaryCtxReset_v2', 0); cu.init(0)")
    assert worker.says("cu.word(cu.alloc(4))") == 0


def test_the_host_has_memory_that_the_card_knows(worker):
    worker.does("p = cu('cuMemHostAlloc', c.c_void_p, 4096, 7)")
    assert worker.says("cu('cuMemHostGetDevicePointer_v2', c.c_uint64, p + 8, 0)") == worker.says("p + 8")
    assert worker.says("cu('cuMemHostGetFlags', c.c_uint, p)") == 7
    worker.does("cu('cuMemsetD32_v2', p, 9, 1)")
    assert worker.says("c.c_uint32.from_address(p).value") == 9
    assert worker.says("cu('cuMemFreeHost', p + 1)") == -INVALID_VALUE and worker.says("cu('cuMemHostUnregister', p)") == -NOT_REGISTERED
    worker.does("cu('cuMemFreeHost', p)")
    assert worker.says("cu('cuMemFreeHost', p)") == -INVALID_VALUE
    for call in ("'cuMemHostAlloc', c.c_void_p, 0, 0", "'cuMemHostAlloc', c.c_void_p, 1, 8", "'cuMemAllocHost_v2', None, 1"):
        assert worker.says(f"cu({call})") == -INVALID_VALUE


def test_a_program_registers_its_own_memory_once(worker):
    worker.does("b = c.create_string_buffer(8192); at = c.cast(b, c.c_void_p).value; cu('cuMemHostRegister_v2', at, 8192, 0)")
    assert worker.says("cu('cuMemHostRegister_v2', at + 100, 8192, 0)") == -ALREADY_REGISTERED
    assert worker.says("cu('cuMemHostUnregister', at + 1)") == -NOT_REGISTERED
    assert worker.says("[cu('cuMemHostUnregister', at), cu.code('cuMemHostUnregister', at)]") == [None, NOT_REGISTERED]
    for call in ("at, 0, 0", "None, 1, 0", "at, 1, 16", "at, 2**64 - 1, 0", "4096, 4096, 0"):
        assert worker.says(f"cu('cuMemHostRegister_v2', {call})") == -INVALID_VALUE


def test_an_address_tells_what_it_is(worker):
    worker.does("p, h = cu.alloc(1000), cu('cuMemAllocHost_v2', c.c_void_p, 100)")
    ask = "[cu('cuPointerGetAttribute', c.c_uint64, {}, {}) for i in {}]"
    assert worker.says(ask.format("i", "p + 10", "(2, 3, 8, 9, 11, 12, 13)")) == worker.says("[2, p + 10, 0, 0, p, 1000, 1]")
    assert worker.says(ask.format("i", "h + 10", "(2, 4, 9, 11, 12)")) == worker.says("[1, h + 10, 0, h, 100]")
    assert worker.says("cu('cuPointerGetAttribute', c.c_void_p, 1, p) == cu('cuCtxGetCurrent', c.c_void_p)")
    for call in ("c.c_uint64, 2, 4096", "c.c_uint64, 4, p", "c.c_uint64, 99, p", "None, 2, p", "c.c_uint64, 12, p + 1000"):
        assert worker.says(f"cu('cuPointerGetAttribute', {call})") == -INVALID_VALUE


# --- Launches ---


def test_a_launch_beyond_the_cards_limits_is_refused(worker):
    worker.does("f = cu.function('nothing')")
    for grid in ((0, 1, 1), (1, 65536, 1), (1, 1, 65536), (2**31, 1, 1)):
        assert worker.says(f"cu.launch(f, grid={grid})") == -INVALID_VALUE
    for block in ((0, 1, 1), (1025, 1, 1), (1, 1, 65), (32, 33, 1), (1024, 1024, 64)):
        assert worker.says(f"cu.launch(f, block={block})") == -INVALID_VALUE
    assert worker.says("cu.launch(f, shared=49153)") == -INVALID_VALUE
    assert worker.says("cu.launch(f, grid=(2**31 - 1, 1, 1), block=(1024, 1, 1), stream=cu.stream(1))") is None
    for handle in ("None", "cu.stream()", "4096"):
        assert worker.says(f"cu.launch({handle})") == -INVALID_HANDLE


def test_a_function_tells_what_it_can_and_takes_more_shared_memory(worker):
    worker.does("f = cu.function('mixed'); a = lambda which: cu('cuFuncGetAttribute', c.c_int, which, f)")
    assert worker.says("[a(i) for i in (0, 1, 5, 6, 8)]") == [256, 1024, 75, 90, 48 * 1024 - 1024]
    assert worker.says("cu('cuFuncSetAttribute', f, 8, 227 * 1024)") == -INVALID_VALUE
    assert worker.says("[cu('cuFuncSetAttribute', f, 8, 226 * 1024), a(8)]") == [None, 226 * 1024]
    params = "c.c_uint8(1), c.c_uint64(2), (c.c_char * 12)(), c.c_uint16(3)"
    assert worker.says(f"cu.launch(f, {params}, shared=226 * 1024)") is None
    assert worker.says(f"cu.launch(f, {params}, block=(257, 1, 1))") == -OUT_OF_RESOURCES
    assert worker.says("cu('cuFuncSetAttribute', f, 0, 1)") == -INVALID_VALUE and worker.says("cu('cuFuncGetAttribute', c.c_int, 99, f)") == -INVALID_VALUE


def test_parameters_come_as_a_list_or_in_a_buffer(worker):
    worker.does("""
f, ns, s = cu.function('spin_ns'), c.c_uint64(0), cu.stream(1)
one = (c.c_void_p * 1)(c.addressof(ns))
def extra(size):
    size = c.c_size_t(size)
    words = (c.c_void_p * 5)(1, c.addressof(ns), 2, c.addressof(size), 0)
    words.kept = size
    return words
launch = lambda params, extra: cu.code('cuLaunchKernel', f, 1, 1, 1, 1, 1, 1, 0, s, params, extra)
""")
    assert worker.says("launch(one, None), launch(None, extra(8))") == (0, 0)
    assert worker.says("launch(one, extra(8)), launch(None, None), launch(None, extra(7))") == (INVALID_VALUE,) * 3
    assert worker.says("launch(None, (c.c_void_p * 3)(7, 7, 0))") == INVALID_VALUE
    worker.does("ns.value = FOREVER; launch(None, extra(8)); ns.value = 0; asked = cu.code('cuStreamQuery', s)")
    assert worker.says("asked") == NOT_READY


def test_launches_have_faults_and_are_counted(h100, worker):
    h100.ctl("fault", "add", "--call", "cuLaunchKernel", "--nth", 2, "--action", "fail:LAUNCH_FAILED")
    worker.does("f = cu.function('nothing')")
    assert [worker.says("cu.launch(f)") for _ in range(3)] == [None, -719, None]
    assert [r["result"] for r in h100.log() if r["call"] == "cuLaunchKernel"] == [0, 719, 0]


def test_a_cooperative_grid_must_fit_onto_the_card(worker):
    worker.does("f = cu.function('nothing')")
    launch = "cu('cuLaunchCooperativeKernel', f, {}, 1, 1, 1024, 1, 1, 0, None, None)"
    assert worker.says(launch.format(132 * 2)) is None and worker.says(launch.format(132 * 2 + 1)) == -TOO_LARGE


def test_a_launch_by_a_configuration_has_attributes(worker):
    worker.does("""
class Attribute(c.Structure):
    _fields_ = [('id', c.c_int), ('pad', c.c_char * 4), ('value', c.c_int), ('rest', c.c_char * 60)]
class Config(c.Structure):
    _fields_ = [('dims', c.c_uint * 7), ('stream', c.c_void_p), ('attrs', c.POINTER(Attribute)), ('count', c.c_uint)]
f = cu.function('nothing')
def launch(blocks, *attrs):
    config = Config((c.c_uint * 7)(blocks, 1, 1, 1024, 1, 1, 0), None, (Attribute * len(attrs))(*attrs), len(attrs))
    return cu.code('cuLaunchKernelEx', c.byref(config), f, None, None)
""")
    assert worker.says("launch(1000), launch(1000, Attribute(4, b'', 1), Attribute(8, b'', 0))") == (0, 0)
    assert worker.says("launch(1000, Attribute(2, b'', 1)), launch(264, Attribute(2, b'', 1)), launch(1000, Attribute(2, b'', 0))") == (TOO_LARGE, 0, 0)
    assert worker.says("launch(1, Attribute(-1)), launch(1, Attribute(99))") == (INVALID_VALUE,) * 2
    assert worker.says("cu.code('cuLaunchKernelEx', None, f, None, None)") == INVALID_VALUE


def test_a_kernel_costs_by_its_waves(worker, slices):
    worker.does("f = cu.function('nothing'); cu.launch(f, grid=(264 * 1000, 1, 1), block=(1024, 1, 1)); cu('cuCtxSynchronize')")
    worker.does("cu.launch(f); cu('cuCtxSynchronize')")
    assert slices()["usedNs"] == (2000 + 1000 * 5000) + (2000 + 5000)


# --- Whose kernels a card runs ---


def shares(slices, start=0):
    """{pid: nanoseconds} of the slices since the time."""
    found = {}
    for one in slices["slices"]:
        found[one["pid"]] = found.get(one["pid"], 0) + max(0, one["endNs"] - max(start, one["startNs"]))
    return found


def all_at_work(slices, *clients, turns=40):
    """The slices of a card once it gave each client so many after the last one began; none asked for a wait."""
    while True:
        now = slices()
        if all(sum(one["pid"] == client.pid for one in now["slices"]) >= turns for client in clients):
            first = max(min(one["startNs"] for one in now["slices"] if one["pid"] == client.pid) for client in clients)
            return dict(now, slices=[one for one in now["slices"] if one["startNs"] >= first])


def test_contexts_of_two_processes_take_turns(worker, client, slices):
    other = client()
    other.says("cu.init(0)")
    for one in (worker, other):
        one.does("cu.spins(FOREVER, cu.stream(1))")
    seen = all_at_work(slices, worker, other)
    mine, others = shares(seen)[worker.pid], shares(seen)[other.pid]
    assert 0.2 < mine / (mine + others) < 0.8
    assert all(a["endNs"] <= b["startNs"] for a, b in zip(seen["slices"], seen["slices"][1:]))
    assert all(0 <= one["endNs"] - one["startNs"] <= SLICE for one in seen["slices"])
    turns = sum(a["pid"] != b["pid"] for a, b in zip(seen["slices"], seen["slices"][1:]))
    assert turns >= len(seen["slices"]) / 10


def test_a_context_alone_has_the_whole_card(worker, slices):
    worker.does(f"s, a, b = cu.stream(1), cu.event(), cu.event(); cu('cuEventRecord', a, s); cu.spins({50 * MS}, s); cu('cuEventRecord', b, s); cu('cuEventSynchronize', b)")
    assert slices()["usedNs"] == 50 * MS and slices(1)["usedNs"] == 0
    assert [(one["pid"], one["hasCard"]) for one in slices()["contexts"]] == [(worker.pid, False)]


def test_cards_do_not_wait_for_each_other(worker, slices):
    worker.does(f"cu.spins(FOREVER, cu.stream(1)); cu('cuCtxCreate_v2', c.c_void_p, 0, 1); cu.spins({10 * MS}); cu('cuCtxSynchronize')")
    assert slices(1)["usedNs"] == 10 * MS


@pytest.mark.parametrize("end", ["kill", "stop"])
def test_who_is_killed_or_stopped_holds_nobody_up(worker, client, slices, end):
    others = [client() for _ in range(3)]
    for one in others:
        one.says("cu.init(0)")
        one.does("cu.spins(FOREVER, cu.stream(1))")
    all_at_work(slices, *others, turns=3)
    for one in others:
        one.process.send_signal({"kill": 9, "stop": 19}[end])
    worker.does(f"s, a, b = cu.stream(1), cu.event(), cu.event(); cu('cuEventRecord', a, s); cu.spins({40 * MS}, s); cu('cuEventRecord', b, s); cu('cuEventSynchronize', b)")
    assert worker.says("cu('cuEventElapsedTime', c.c_float, a, b)") < 2000
    for one in others:
        one.process.send_signal(18) if end == "stop" else None


def test_whoever_is_killed_in_a_storm_of_launches_leaves_the_card_to_others(worker, client, slices):
    dice = random.Random(1)
    crowd = [client() for _ in range(6)]
    for one in crowd:
        one.says("cu.init(0)")
        one.does("s = cu.stream(1)")
        one.starts(f"[(cu.spins({dice.randrange(10_000, 5 * MS)}, s, 3), cu('cuStreamSynchronize', s)) for i in range(10**9)]")
    all_at_work(slices, *crowd, turns=5)
    for one in dice.sample(crowd, len(crowd)):
        one.kill()
        worker.does(f"cu.spins({3 * MS}); cu('cuCtxSynchronize')")
    assert [one["pid"] for one in slices()["contexts"]] == [worker.pid]


def test_nvml_shows_how_busy_a_card_is_and_with_whose_kernels(worker, client, slices):
    device, idle = (nv.nvmlDeviceGetHandleByIndex(i) for i in range(2))
    assert nv.nvmlDeviceGetUtilizationRates(device).gpu == 0
    other = client()
    other.says("cu.init(0)")
    other.does("cu.spins(FOREVER, cu.stream(1))")
    all_at_work(slices, other, turns=520)
    assert nv.nvmlDeviceGetUtilizationRates(device).gpu >= 50 and nv.nvmlDeviceGetUtilizationRates(idle).gpu == 0
    shown = {p.pid: p.smUtil for p in nv.nvmlDeviceGetProcessUtilization(device, 0)}
    assert shown[worker.pid] == 0 and shown[other.pid] >= 50
    other.kill()
    while nv.nvmlDeviceGetUtilizationRates(device).gpu > 0:
        pass


ENDS = ["cu('cuDevicePrimaryCtxReset_v2', 0)", "cu('cuDevicePrimaryCtxRelease_v2', 0)"]


@pytest.mark.parametrize("end", ENDS)
def test_kernels_end_with_their_context(spins, slices, end):
    spins.does(f"h = cu('cuMemAllocHost_v2', c.c_void_p, 8); cu('cuMemcpyHtoDAsync_v2', cu.alloc(8), h, 8, busy); {end}")
    assert spins.says("cu('cuStreamQuery', busy)") in (-INVALID_CONTEXT, -DESTROYED)
    assert spins.says(f"[cu.init(0), cu.spins({MS}), cu('cuCtxSynchronize')][1:]") == [None, None]


def test_who_waits_for_a_context_that_ends_is_told(spins):
    spins.does("""
context, found = cu('cuCtxGetCurrent', c.c_void_p), []
def wait():
    cu('cuCtxSetCurrent', context)
    started.set()
    found.append(cu.code('cuStreamSynchronize', busy))
started, thread = threading.Event(), threading.Thread(target=wait)
thread.start()
started.wait()
cu('cuDevicePrimaryCtxReset_v2', 0)
thread.join()
""")
    assert spins.says("found[0]") in (DESTROYED, INVALID_HANDLE)


@pytest.mark.parametrize("how", ["sys.exit()", "os._exit(0)"])
def test_a_process_ends_while_its_kernels_run(spins, slices, how):
    spins.does("import sys")
    spins.starts(f"exec({how!r})")
    spins.process.wait(timeout=60)
    assert slices()["contexts"] == []


def test_a_fork_has_nothing_of_its_parents_work(spins, slices):
    child = "(os._exit(cu.code('cuStreamSynchronize', busy)) if not (pid := os.fork()) else os.waitpid(pid, 0)[1] >> 8)"
    assert spins.says(child) == 3
    assert [one["pid"] for one in slices()["contexts"]] == [spins.pid]
    assert spins.says(f"[cu.spins({MS}, idle), cu('cuStreamSynchronize', idle)]") == [None, None]


def test_no_thread_is_there_before_there_is_work_for_it(worker):
    threads = "len(os.listdir('/proc/self/task'))"
    worker.does("p, s, e = cu.alloc(4), cu.stream(), cu.event(); cu('cuMemsetD32Async', p, 1, 1, s); cu('cuEventRecord', e, s); cu('cuStreamSynchronize', s)")
    assert worker.says(threads) == 1
    worker.does("cu.spins(1)")
    assert worker.says(threads) == 2


# --- A card that is lost ---


def test_a_kernel_ends_when_its_card_is_lost_and_whoever_waits_hears_of_it(h100, spins):
    spins.does("hears, context = [], cu('cuCtxGetCurrent', c.c_void_p)")
    spins.does("t = threading.Thread(target=lambda: (cu('cuCtxSetCurrent', context), hears.append(cu.code('cuStreamSynchronize', busy)))); t.start()")
    h100.ctl("lost", "--gpu", 0, "set")
    assert spins.says("t.join(), hears") == (None, [UNKNOWN])


OF_A_LOST_CARD = [
    "'cuStreamSynchronize', idle",
    "'cuStreamQuery', idle",
    "'cuCtxSynchronize'",
    "'cuMemsetD8Async', p, 0, 1, idle",
    "'cuMemcpyDtoH_v2', host, p, 4",
    "'cuMemFree_v2', p",
    "'cuLaunchKernel', nothing, 1, 1, 1, 1, 1, 1, 0, idle, None, None",
]


@pytest.mark.parametrize("call", OF_A_LOST_CARD)
def test_work_on_a_lost_card_fails_and_its_context_stays_so(h100, worker, call):
    worker.does("idle, p, host, nothing = cu.stream(1), cu.alloc(4), c.create_string_buffer(4), cu.function('nothing')")
    h100.ctl("lost", "--gpu", 0, "set")
    assert worker.says(f"cu({call})") == -UNKNOWN
    h100.ctl("lost", "--gpu", 0, "clear")
    assert worker.says(f"cu({call})") == -UNKNOWN
    assert worker.says("cu('cuDevicePrimaryCtxReset_v2', 0), cu.init(0) and cu('cuCtxSynchronize')") == (None, None)


def test_the_other_cards_go_on(h100, spins):
    h100.ctl("lost", "--gpu", 1, "set")
    assert spins.says("cu('cuStreamSynchronize', idle), cu.code('cuStreamQuery', busy)") == (None, NOT_READY)
