# SPDX-License-Identifier: Apache-2.0
"""A proxy in front of the API server that hands answers on, or spoils them.

    proxy = Spoiler(cluster)            plain HTTP on a port of this machine, at proxy.url
    with proxy.spoils(HUGE): ...        inside: no answer is right; the connections that stood are cut

Requests for Leases are always handed on: a controller that loses its Lease ends, and that is another test.
"""

import contextlib
import http.client
import socket
import ssl
import threading
import urllib.parse
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

MIB = 1 << 20
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n"


def hundred_mib(write):
    for _ in range(100):
        write(b"a" * MIB)


def one_object_of_100_mib(write):
    write(HEAD + b'\r\n{"kind":"DeviceList","apiVersion":"v1","metadata":{"resourceVersion":"1"},"items":[{"metadata":{"name":"')
    hundred_mib(write)
    write(b'"}}]}')


def one_event_of_100_mib(write):
    write(HEAD + b'\r\n{"type":"ADDED","object":{"metadata":{"name":"')
    hundred_mib(write)
    write(b'"}}}\n')


def headers_of_100_mib(write):
    write(HEAD)
    for i in range(100 * MIB // 8192):
        write(b"X-Filler-%d: " % i + b"a" * 8160 + b"\r\n")
    write(b"\r\n{}")


def an_error_of_100_mib(write):
    write(HEAD.replace(b"200 OK", b"500 Internal Server Error") + b"\r\n")
    hundred_mib(write)


def json_that_ends_early(write):
    write(HEAD + b'\r\n{"kind":"DeviceList","metadata":{"resourceVersion":"1"},"items":[{"metadata":{"na')


def wrong_types(write):
    write(HEAD + b'\r\n{"kind":[],"type":7,"object":null,"metadata":"x","items":{"a":[null,{"metadata":0}]}}\n')


def null_for_objects(write):
    write(HEAD + b'\r\n{"kind":"DeviceList","apiVersion":"v1","metadata":{"resourceVersion":"1"},"items":[null,7,[],{"metadata":null}]}\n')


def a_hundred_thousand_levels(write):
    write(HEAD + b'\r\n{"items":' + b"[" * 100_000)


def not_json(write):
    write(HEAD + b"\r\n<html>\0\xff\xfe you are not signed in</html>")


SPOILED = (
    one_object_of_100_mib,
    one_event_of_100_mib,
    headers_of_100_mib,
    an_error_of_100_mib,
    json_that_ends_early,
    wrong_types,
    null_for_objects,
    a_hundred_thousand_levels,
    not_json,
)


class Spoiler:
    def __init__(self, cluster):
        upstream = urllib.parse.urlparse(cluster.server)
        self.where = (upstream.hostname, upstream.port)
        self.tls = ssl.create_default_context(cafile=str(cluster.rundir / "certs" / "apiserver.crt"))
        self.spoil = None
        self.spoiled = Counter()  # answers, by the program that asked
        self.streams = set()  # sockets to the API server
        self.lock = threading.Lock()
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), self.handler())
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def stop(self):
        self.server.shutdown()
        self.cut()
        self.server.server_close()

    def kubeconfig(self, path):
        """The same credentials by way of the proxy."""
        spoiled = path.with_name(f"spoiled-{path.name}")
        cluster = f"https://{self.where[0]}:{self.where[1]}"
        text = path.read_text()
        assert cluster in text
        spoiled.write_text(text.replace(cluster, self.url))
        return spoiled

    @contextlib.contextmanager
    def spoils(self, how):
        self.spoiled.clear()
        self.spoil = how
        self.cut()
        try:
            yield
        finally:
            self.spoil = None

    def cut(self):
        with self.lock:
            for stream in self.streams:
                with contextlib.suppress(OSError):
                    stream.shutdown(socket.SHUT_RDWR)

    def handler(proxy):  # noqa: N805 - self is the request's
        class Handler(BaseHTTPRequestHandler):
            def answer(self):
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                self.close_connection = True
                with contextlib.suppress(OSError, http.client.HTTPException):
                    if proxy.spoil and "/leases" not in self.path:
                        program = self.headers.get("User-Agent", "").split("/")[0]
                        proxy.spoil(self.wfile.write)
                        proxy.spoiled[program] += 1
                    else:
                        self.hand_on(body)
                    return
                if proxy.spoil:  # the client had enough
                    proxy.spoiled[self.headers.get("User-Agent", "").split("/")[0]] += 1

            def hand_on(self, body):
                upstream = http.client.HTTPSConnection(*proxy.where, context=proxy.tls, timeout=600)
                upstream.connect()
                with proxy.lock:
                    proxy.streams.add(upstream.sock)
                stream = upstream.sock
                try:
                    headers = {k: v for k, v in self.headers.items() if k.lower() not in ("host", "connection", "accept-encoding")}
                    upstream.request(self.command, self.path, body or None, headers)
                    self.relay(upstream.getresponse())
                finally:
                    with proxy.lock:
                        proxy.streams.discard(stream)
                    upstream.close()

            def relay(self, answer):
                self.wfile.write(f"HTTP/1.1 {answer.status} {answer.reason}\r\n".encode())
                for name, value in answer.getheaders():
                    if name.lower() not in ("transfer-encoding", "connection", "content-length"):
                        self.wfile.write(f"{name}: {value}\r\n".encode())
                self.wfile.write(b"Connection: close\r\n\r\n")
                while part := answer.read1(65536):
                    self.wfile.write(part)

            do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = answer

            def log_message(self, *_):
                pass

        return Handler
