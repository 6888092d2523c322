# SPDX-License-Identifier: Apache-2.0
"""Our client calls a foreign server."""
import socket
import threading

import grpc
import pytest
from conftest import call

OK, UNKNOWN, DEADLINE_EXCEEDED, NOT_FOUND, RESOURCE_EXHAUSTED, UNIMPLEMENTED, UNAVAILABLE = 0, 2, 4, 5, 8, 12, 14
MIB = 1 << 20


def echo(request, context):
    return request


def test_a_call_is_answered(foreign):
    foreign.methods["Echo"] = echo
    reply = call(foreign.path, "Echo", b"hello")
    assert (reply.code, reply.message) == (OK, b"hello")
    assert call(foreign.path, "Echo", b"").code == OK


@pytest.mark.parametrize("size", [16384, 65536, MIB, 4 * MIB])
def test_messages_of_all_sizes_go_both_ways(foreign, size):
    foreign.methods["Echo"] = echo
    reply = call(foreign.path, "Echo", b"m" * size)
    assert (reply.code, len(reply.message)) == (OK, size)


def test_an_answer_too_large_is_refused(foreign):
    foreign.methods["Big"] = lambda request, context: b"m" * (4 * MIB + 1)
    assert call(foreign.path, "Big").code == RESOURCE_EXHAUSTED


def test_an_error_brings_its_text(foreign):
    text = "50% der Karte: nicht größer"
    foreign.methods["Fail"] = lambda request, context: context.abort(grpc.StatusCode.NOT_FOUND, text)
    reply = call(foreign.path, "Fail")
    assert (reply.code, reply.text, reply.message) == (NOT_FOUND, text, b"")


def test_a_server_that_breaks_is_an_unknown_error(foreign):
    def broken(request, context):
        raise ValueError("broken")

    foreign.methods["Broken"] = broken
    assert call(foreign.path, "Broken").code == UNKNOWN


def test_an_unknown_method_is_unimplemented(foreign):
    assert call(foreign.path, "Nothing").code == UNIMPLEMENTED


def test_a_deadline_is_told_and_kept(foreign):
    left = []
    release = threading.Event()

    def stuck(request, context):
        left.append(context.time_remaining())
        release.wait(20)
        return b""

    foreign.methods["Stuck"] = stuck
    reply = call(foreign.path, "Stuck", deadline_ms=2000)
    release.set()
    assert reply.code == DEADLINE_EXCEEDED
    assert 0 < left[0] <= 2


def test_nobody_is_unavailable(tmp_path):
    reply = call(tmp_path / "nobody.sock", "Echo")
    assert reply.code == UNAVAILABLE
    assert "No such file" in reply.text


def test_a_socket_that_refuses_is_unavailable(tmp_path):
    path = tmp_path / "left.sock"
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(path))
    reply = call(path, "Echo")
    assert reply.code == UNAVAILABLE
    assert "refused" in reply.text


def test_a_peer_that_never_answers_costs_the_deadline(tmp_path):
    path = tmp_path / "stuck.sock"
    with socket.socket(socket.AF_UNIX) as stuck:
        stuck.bind(str(path))
        stuck.listen()
        assert call(path, "Echo", deadline_ms=200).code == DEADLINE_EXCEEDED
