# SPDX-License-Identifier: Apache-2.0
"""Work goes to a card as the agent's gate says. The test is the agent."""
import select
import time

import pytest
from container import CLOSED, DRAINED, HELLO, IDLE, OPEN, SERVES, TELL, TURN, WANT
from cuda import MIB

WORK = "cu('cuMemsetD8_v2', p, c.c_uint8(1), c.c_size_t(64))"


@pytest.fixture
def shared(h100, container):
    """A container with a share of two cards, and its agent."""
    one = container(h100, 3000, 3000)
    return one, one.agent()


def worker(shared, card=0):
    one, agent = shared
    found = one.worker(card)
    assert agent.hears()[0] == HELLO
    assert agent.hears()[:2] == (SERVES, card)
    found.says(f"globals().update(p=cu.alloc({MIB}))")
    return found


def answers(client):
    return bool(select.select([client.process.stdout], [], [], 0)[0])


def hears_while_it_beats(agent, within):
    """What the agent is told next; None: nothing in so many seconds."""
    end = time.monotonic() + within
    while not select.select([agent.socket], [], [], 0.2)[0]:
        if time.monotonic() > end:
            return None
        agent.beat()
    return agent.hears()


def test_while_all_gates_are_open_nothing_is_said(shared):
    one = worker(shared)
    for _ in range(3):
        assert one.says(WORK) is None
    assert shared[1].is_quiet()


def test_the_first_work_of_an_idle_share_is_told_and_goes_on(shared):
    one, agent = worker(shared), shared[1]
    turn = agent.sets(0, TELL)
    assert one.says(WORK) is None and one.says(WORK) is None
    assert agent.hears() == (WANT, 0, turn) and agent.is_quiet()


def test_work_waits_at_a_closed_gate_and_is_told(shared):
    one, agent = worker(shared), shared[1]
    turn = agent.sets(0, CLOSED)
    assert agent.hears() == (IDLE, 0, turn)
    one.starts(WORK)
    assert agent.hears() == (WANT, 0, turn)
    for _ in range(3):
        agent.beat()
        assert not answers(one)
    agent.sets(0, OPEN)
    assert one.process.stdout.readline() == "None\n"


def test_who_waits_when_a_gate_is_closed_again_says_so(shared):
    one, agent = worker(shared), shared[1]
    turn = agent.sets(0, CLOSED)
    assert agent.hears() == (IDLE, 0, turn)
    one.starts(WORK)
    assert agent.hears() == (WANT, 0, turn)
    turn = agent.sets(0, CLOSED)
    said = {agent.hears(), agent.hears()}
    assert said == {(WANT, 0, turn), (DRAINED, 0, turn)} or said == {(WANT, 0, turn), (IDLE, 0, turn)}


def test_a_turn_without_work_is_given_back_once(shared):
    one, agent = worker(shared), shared[1]
    turn = agent.sets(0, TURN)
    assert agent.hears() == (IDLE, 0, turn)
    agent.beat()
    assert one.says(WORK) is None
    assert agent.hears() == (WANT, 0, turn)
    assert agent.hears() == (IDLE, 0, turn)


def test_a_gate_of_another_card_stops_nothing(shared):
    one, agent = worker(shared), shared[1]
    agent.sets(1, CLOSED)
    assert one.says(WORK) is None
    assert agent.is_quiet()


def test_an_agent_that_is_silent_for_a_second_is_not_waited_for(shared):
    one, agent = worker(shared), shared[1]
    turn = agent.sets(0, CLOSED)
    assert one.says(WORK) is None
    assert one.says(WORK) is None
    assert (WANT, 0, turn) in {agent.hears(), agent.hears()}
    # It is back.
    agent.beat()
    one.starts(WORK)
    agent.sets(0, OPEN)
    assert one.process.stdout.readline() == "None\n"


def test_a_killed_process_leaves_the_others_their_gate(shared):
    one, other, agent = worker(shared), worker(shared), shared[1]
    turn = agent.sets(0, CLOSED)
    one.starts(WORK)
    other.starts(WORK)
    said = [agent.hears() for _ in range(4)]
    assert said.count((WANT, 0, turn)) == 2
    one.kill()
    agent.sets(0, OPEN)
    assert other.process.stdout.readline() == "None\n"


def test_the_childs_work_after_a_fork_is_its_own(shared):
    one, agent = worker(shared), shared[1]
    code = "(lambda pid: os._exit(cu.code('cuInit', 0)) if pid == 0 else os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))(os.fork())"
    assert one.says(code) == 3
    agent.sets(0, TELL)
    assert one.says(WORK) is None


# --- Nobody is waited for who cannot come ---

ASYNC = "cu('cuMemsetD8Async', p, 1, 64, s)"


def test_a_stream_that_waits_for_its_own_program_is_given_more(shared):
    one, agent = worker(shared), shared[1]
    agent.sets(0, TURN)
    one.does("s = cu.stream(1); gate = cu.hold(s)")
    assert one.says(f"[{ASYNC} for _ in range(40)]") == [None] * 40
    assert one.says("gate.set(), cu('cuStreamSynchronize', s)") == (None, None)


def test_work_that_is_not_done_is_not_said_to_be_drained(shared):
    one, agent = worker(shared), shared[1]
    one.does("s = cu.stream(1); gate = cu.hold(s)")
    one.says(ASYNC)
    turn = agent.sets(0, CLOSED)
    assert agent.is_quiet()
    one.does("gate.set()")
    assert agent.hears()[1:] == (0, turn)


def test_a_closed_gate_lets_go_of_who_waits_for_work_in_flight(shared):
    one, agent = worker(shared), shared[1]
    agent.sets(0, TURN)
    one.does("s = cu.stream(1); gate = cu.hold(s)")
    one.starts(f"[{ASYNC} for _ in range(9)]")
    agent.sets(0, CLOSED)
    agent.sets(0, OPEN)
    assert one.process.stdout.readline() == f"{[None] * 9}\n"
    one.does("gate.set()")


@pytest.mark.parametrize("call", ["cuDevicePrimaryCtxRelease_v2", "cuDevicePrimaryCtxReset_v2"])
def test_a_context_ends_while_its_work_is_waited_for(shared, call):
    one, agent = worker(shared), shared[1]
    one.does("s = cu.stream(1); cu.spins(FOREVER, stream=s)")
    agent.sets(0, CLOSED)
    assert one.says(f"cu('{call}', 0)") is None
    assert agent.hears()[0] in (IDLE, DRAINED)


def test_letting_go_of_a_context_that_goes_on_waits_for_nothing(shared):
    one, agent = worker(shared), shared[1]
    one.does("cu('cuDevicePrimaryCtxRetain', c.c_void_p, 0); s = cu.stream(1); gate = cu.hold(s)")
    agent.sets(0, CLOSED)
    assert one.says("cu('cuDevicePrimaryCtxRelease_v2', 0)") is None
    assert agent.is_quiet(), "its work is still known"
    one.does("gate.set()")
    assert agent.hears()[0] in (IDLE, DRAINED)


def test_signals_do_not_make_it_wait_longer_for_an_agent_that_is_gone(shared):
    one, agent = worker(shared), shared[1]
    one.does("import signal; signal.signal(signal.SIGALRM, lambda *_: None); signal.setitimer(signal.ITIMER_REAL, 0.1, 0.1)")
    agent.sets(0, CLOSED)
    one.starts(WORK)
    assert select.select([one.process.stdout], [], [], 20)[0] and one.process.stdout.readline() == "None\n"


def test_who_waits_says_so_again(shared):
    one, agent = worker(shared), shared[1]
    turn = agent.sets(0, CLOSED)
    assert agent.hears() == (IDLE, 0, turn)
    one.starts(WORK)
    for _ in range(2):
        assert hears_while_it_beats(agent, within=20) == (WANT, 0, turn)
    agent.sets(0, OPEN)
    assert one.process.stdout.readline() == "None\n"


def test_who_cannot_say_anything_is_not_waiting_for_ever(shared):
    """It has no descriptor left to tell the agent with."""
    one, agent = worker(shared), shared[1]
    turn = agent.sets(0, CLOSED)
    assert agent.hears() == (IDLE, 0, turn)
    one.does("import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (3, 3))")
    one.starts(WORK)
    while not answers(one):
        agent.beat()
    assert one.process.stdout.readline() == "None\n" and agent.is_quiet()


def test_streams_that_wait_for_each_other_do_not_wait_for_ever(shared):
    """One goes on when the program has seen another one done: nothing of the limiter's stands between them."""
    one, agent = worker(shared), shared[1]
    one.does("s, b, e = cu.stream(), cu.stream(), cu.event(); gate = cu.hold(s)")
    agent.sets(0, TURN)
    one.says(ASYNC)
    turn = agent.sets(0, CLOSED)
    assert one.says("cu('cuEventRecord', e, b), cu('cuEventSynchronize', e), gate.set(), cu('cuStreamSynchronize', s)") == (None,) * 4
    while agent.hears() not in ((DRAINED, 0, turn), (IDLE, 0, turn)):
        pass


def test_work_of_very_many_streams_is_waited_for(shared):
    one, agent = worker(shared), shared[1]
    agent.sets(0, TURN)
    one.does("streams = [cu.stream(1) for _ in range(300)]")
    assert one.says("[cu('cuMemsetD8Async', p, 1, 64, s) for s in streams]") == [None] * 300
    one.does("gate = cu.hold(streams[-1])")
    turn = agent.sets(0, CLOSED)
    assert (DRAINED, 0, turn) not in said(agent) and (IDLE, 0, turn) not in said(agent)
    one.does("gate.set()")
    while agent.hears() not in ((DRAINED, 0, turn), (IDLE, 0, turn)):
        pass


def said(agent):
    """What was said by now."""
    words = []
    while not agent.is_quiet():
        words.append(agent.hears())
    return words
