# SPDX-License-Identifier: Apache-2.0
"""A foreign client calls our server."""
import grpc
import pytest

MIB = 1 << 20


def refused(what):
    with pytest.raises(grpc.RpcError) as caught:
        what()
    return caught.value.code(), caught.value.details()


def test_a_call_is_answered(ours):
    assert ours.call("Echo", b"hello") == b"hello"
    assert ours.call("Echo", b"") == b""


def test_a_thousand_calls_at_once_are_answered(ours):
    echo = ours.channel.unary_unary("/test.Test/Echo")
    calls = [echo.future(b"%d" % i, timeout=20) for i in range(1000)]
    assert [c.result() for c in calls] == [b"%d" % i for i in range(1000)]


@pytest.mark.parametrize("size", [16383, 16384, 65535, MIB, 4 * MIB])
def test_messages_of_all_sizes_go_both_ways(ours, size):
    assert ours.call("Echo", b"m" * size) == b"m" * size


def test_a_message_too_large_is_refused_and_the_connection_lives(ours):
    code, text = refused(lambda: ours.call("Echo", b"m" * (4 * MIB + 1)))
    assert code == grpc.StatusCode.RESOURCE_EXHAUSTED, text
    assert ours.call("Echo", b"next") == b"next"


def test_an_error_brings_its_text(ours):
    text = "50% der Karte: größer\n日本"
    code, details = refused(lambda: ours.call("Fail", text.encode()))
    assert code == grpc.StatusCode.FAILED_PRECONDITION
    assert details == text


def test_an_unknown_method_is_unimplemented(ours):
    assert refused(lambda: ours.call("Nothing"))[0] == grpc.StatusCode.UNIMPLEMENTED


def test_a_compressed_request_is_refused_so_that_the_peer_understands(ours):
    code, text = refused(lambda: ours.call("Echo", b"m" * 1000, compression=grpc.Compression.Gzip))
    assert code == grpc.StatusCode.UNIMPLEMENTED, text


def test_a_stream_brings_its_messages_and_ends(ours):
    assert list(ours.stream("Count", b"1000")) == [b"%d" % i for i in range(1000)]
    assert list(ours.stream("Count", b"0")) == []


def test_a_stream_may_end_with_an_error(ours):
    assert refused(lambda: list(ours.stream("Count", b"many")))[0] == grpc.StatusCode.INVALID_ARGUMENT


def test_a_stream_that_is_given_up_is_ended(ours):
    for _ in range(3):
        stream = ours.stream("Hold", b"first")
        assert next(stream) == b"first"
        stream.cancel()
    while ours.call("Ended") != b"3":
        pass


def test_a_deadline_ends_a_stream_on_both_sides(ours):
    ours.call("Echo", b"")  # it is connected then
    stream = ours.stream("Hold", b"first", timeout=2)
    assert next(stream) == b"first"
    assert refused(lambda: next(stream))[0] == grpc.StatusCode.DEADLINE_EXCEEDED
    while ours.call("Ended") != b"1":
        pass


def test_a_client_that_goes_away_ends_its_streams(ours):
    other = ours.connect(**{"grpc.use_local_subchannel_pool": 1})
    stream = other.unary_stream("/test.Test/Hold")(b"first", timeout=10)
    assert next(stream) == b"first"
    other.close()
    while ours.call("Ended") != b"1":
        pass


def test_a_server_that_stops_ends_its_streams(ours):
    stream = ours.stream("Hold", b"first")
    assert next(stream) == b"first"
    ours.process.stdin.close()
    assert refused(lambda: next(stream))[0] == grpc.StatusCode.UNAVAILABLE
    ours.process.stdin = None


def test_keepalive_pings_are_answered(ours):
    other = ours.connect(
        **{"grpc.keepalive_time_ms": 10, "grpc.keepalive_timeout_ms": 20000, "grpc.http2.max_pings_without_data": 0}
    )
    stream = other.unary_stream("/test.Test/Hold")(b"first", timeout=2)
    assert next(stream) == b"first"
    assert refused(lambda: next(stream))[0] == grpc.StatusCode.DEADLINE_EXCEEDED
    other.close()
