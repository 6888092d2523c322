# SPDX-License-Identifier: Apache-2.0
"""Our gRPC and a foreign one (gRPC's own, by way of Python) on both ends of a unix socket.

Ours is test/grpc/peer.c, built with sanitizers: it must end with 0, or something leaked.
"""
import os
import pathlib
import subprocess
import sys
from concurrent import futures

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PEER = ROOT / "build/san/test/grpc/peer"

sys.path.insert(
    0, subprocess.run([str(ROOT / "test/venv.sh"), str(ROOT / "test/grpc/requirements.txt")], check=True, text=True, capture_output=True).stdout.strip()
)
os.environ["GRPC_VERBOSITY"] = "NONE"

import grpc  # noqa: E402

MAX_BYTES = 8 << 20


class Ours:
    """A server of ours, and a foreign client of it."""

    def __init__(self, path):
        self.path = path
        self.process = subprocess.Popen(
            [PEER, "serve", path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        assert self.process.stdout.readline() == b"ready\n"
        self.channel = self.connect()

    def connect(self, **options):
        size = [("grpc.max_receive_message_length", MAX_BYTES), ("grpc.max_send_message_length", MAX_BYTES)]
        return grpc.insecure_channel(f"unix:{self.path}", options=size + list(options.items()))

    def call(self, method, message=b"", **options):
        return self.channel.unary_unary(f"/test.Test/{method}")(message, **{"timeout": 10, **options})

    def stream(self, method, message=b"", **options):
        return self.channel.unary_stream(f"/test.Test/{method}")(message, **{"timeout": 10, **options})

    def stop(self):
        self.channel.close()
        _, errors = self.process.communicate(timeout=20)
        assert self.process.returncode == 0, errors.decode()
        assert not self.path.exists()


@pytest.fixture
def ours(tmp_path):
    server = Ours(tmp_path / "ours.sock")
    yield server
    server.stop()


class Foreign(grpc.GenericRpcHandler):
    """A foreign server; methods are functions of the request and the context, by name."""

    def __init__(self, path):
        self.path = path
        self.methods = {}
        self.metadata = []
        self.server = grpc.server(
            futures.ThreadPoolExecutor(8),
            options=[("grpc.max_receive_message_length", MAX_BYTES), ("grpc.max_send_message_length", MAX_BYTES)],
        )
        self.server.add_generic_rpc_handlers([self])
        self.server.add_insecure_port(f"unix:{path}")
        self.server.start()

    def service(self, details):
        self.metadata = details.invocation_metadata
        function = self.methods.get(details.method.rpartition("/")[2])
        return function and grpc.unary_unary_rpc_method_handler(function)


class Reply:
    def __init__(self, output):
        code, text, self.message = output.split(b"\n", 2)
        self.code, self.text = int(code), text.decode()


def call(path, method, message=b"", deadline_ms=10000):
    """A call by our client."""
    done = subprocess.run(
        [PEER, "call", path, f"/test.Test/{method}", str(deadline_ms)], input=message, capture_output=True, timeout=30
    )
    assert done.returncode == 0, done.stderr.decode()
    return Reply(done.stdout)


@pytest.fixture
def foreign(tmp_path):
    server = Foreign(tmp_path / "foreign.sock")
    yield server
    server.server.stop(None).wait()
