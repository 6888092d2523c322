# SPDX-License-Identifier: Apache-2.0
"""Captures of streams, which a thread breaks that waits for what is captured: the limiter breaks none."""
import itertools

import pytest
from container import CLOSED, DRAINED, HELLO, IDLE, OPEN, SERVES, TURN
from cuda import GLOBAL, MEM_ALLOC, MEMSET, MIB, RELAXED, THREAD_LOCAL

MODES = [GLOBAL, THREAD_LOCAL, RELAXED]
SET = "cu('cuMemsetD8Async', p, 7, 4, {})"


@pytest.fixture
def shared(h100, container):
    """A worker with a stream `s` that stands apart, one `b` that does not, and one `t` for other work; and the agent."""
    one = container(h100, 3000)
    agent, worker = one.agent(), one.worker()
    assert [agent.hears()[0] for _ in range(2)] == [HELLO, SERVES]
    worker.does(f"p = cu.alloc({MIB}); s, b, t = cu.stream(1), cu.stream(), cu.stream(1)")
    return worker, agent


def answered(agent, turn):
    """Whatever is said of earlier turns, that this one is over is said, too."""
    while agent.hears() not in ((IDLE, 0, turn), (DRAINED, 0, turn)):
        pass


def ends(worker, stream, n):
    """The capture ends well, with so many nodes."""
    assert worker.says(f"cu.types(cu.captured({stream}))") == [MEMSET] * n


@pytest.mark.parametrize(("stream", "mode"), itertools.product("sb", MODES))
def test_a_gate_that_opens_and_closes_meanwhile_breaks_no_capture(shared, stream, mode):
    worker, agent = shared
    worker.does(f"cu.capture({stream}, {mode})")
    for _ in range(3):
        agent.sets(0, TURN)
        assert worker.says(SET.format(stream)) is None
        answered(agent, agent.sets(0, CLOSED))
    agent.sets(0, OPEN)
    ends(worker, stream, 3)


@pytest.mark.parametrize("mode", MODES)
def test_other_work_beside_a_capture_is_bounded_and_breaks_none(shared, mode):
    """By relaxed calls: in the thread of the capture the driver itself allows others only in that mode."""
    worker, agent = shared
    agent.sets(0, TURN)
    worker.does(f"cu.capture(s, {mode})")
    assert worker.says(f"[{SET.format('t')} for _ in range(40)]") == [None] * 40
    assert worker.says(SET.format("s")) is None
    ends(worker, "s", 1)


def test_work_in_flight_is_waited_for_beside_a_capture(shared):
    worker, agent = shared
    worker.does("gate = cu.hold(t); cu.capture(s)")
    agent.sets(0, TURN)
    assert worker.says(SET.format("t")) is None
    turn = agent.sets(0, CLOSED)
    assert agent.is_quiet()
    worker.does("gate.set()")
    assert agent.hears()[1:] == (0, turn)
    agent.sets(0, OPEN)
    assert worker.says(SET.format("s")) is None
    ends(worker, "s", 1)


def test_a_capture_that_ends_badly_is_over(shared):
    worker, agent = shared
    worker.does("cu.capture(s)")
    assert worker.says("cu.code('cuCtxSynchronize') != 0 and cu.code('cuStreamEndCapture', s, c.byref(c.c_void_p())) != 0")
    worker.does("gate = cu.hold(b)")
    turn = agent.sets(0, CLOSED)
    assert agent.is_quiet(), "the default stream's work is known again"
    worker.does("gate.set()")
    assert agent.hears()[2] == turn


def test_a_capture_ends_with_its_stream(shared):
    worker, agent = shared
    worker.does("cu.capture(s); cu('cuStreamDestroy_v2', s); gate = cu.hold(b)")
    turn = agent.sets(0, CLOSED)
    assert agent.is_quiet()
    worker.does("gate.set()")
    assert agent.hears()[2] == turn

@pytest.mark.parametrize("mode", MODES)
def test_memory_in_a_captured_stream_is_the_graphs(shared, mode):
    worker, _ = shared
    worker.does(f"cu.capture(s, {mode}); a = cu('cuMemAllocAsync', c.c_uint64, {MIB}, s); cu('cuMemFreeAsync', a, s)")
    assert worker.says("cu.types(cu.captured(s))[0]") == MEM_ALLOC
