#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Strangers at the ports of both programs: connections made of test/fuzz/corpus/http_server, mutated.

    test/fuzz/http_strangers.py [--connections N] [--seed S] [--tls] [--token] PROGRAM...

PROGRAM is a cleave-agent or a cleave-controller; it is started by itself, without cards, on an API
server that has nothing. Each must be up and serving all the time, and so must the process that serves HTTP
for it, which may end by its limit of processor time alone. Prints one line for each program;
the same seed makes the same connections. --tls: metrics come over TLS, and most of those who connect to that port make a
handshake first; the others talk as before. --token: besides, they are for bearers of a token, of which the API server knows none.
"""

import argparse
import contextlib
import http.client
import http.server
import json
import os
import random
import re
import select
import signal
import socket
import ssl
import struct
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
CORPUS = HERE / "corpus" / "http_server"
KUBECONFIG = """{apiVersion: v1, kind: Config, current-context: x, contexts: [{name: x, context: {cluster: c, user: u}}],
clusters: [{name: c, cluster: {server: "http://127.0.0.1:%d"}}], users: [{name: u, user: {token: t}}]}"""
ESCAPE = 0xFE
RESET = struct.pack("ii", 1, 0)
WORDS = [b"GET ", b"HEAD ", b"POST ", b" HTTP/1.1\r\n", b"\r\n", b"\r\n\r\n", b"Host: x\r\n", b"Content-Length: ", b"Transfer-Encoding: chunked\r\n", b"Connection: ", b"Upgrade: h2c\r\n", b"/metrics", b"/healthz", b"Authorization: Bearer good\r\n",
         b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b"\x00\x00\x00\x04\x00\x00\x00\x00\x00", b"Expect: 100-continue\r\n", b"0\r\n\r\n", b"4294967296", b"-1", b"\xfe.", b"\xfeu", b"\xfew", b"\xfet", b"\xfen", b"\xfer", b"\xfeh", b"\xfec"]  # fmt: skip


class Empty(http.server.BaseHTTPRequestHandler):
    """An API server with nothing in it, where nothing happens: without one a controller gives up after two minutes."""

    protocol_version = "HTTP/1.1"

    def do_GET(self):
        watch = "watch=" in self.path
        code = 400 if "sendInitialEvents" in self.path else 200
        kind = {"kind": "List", "apiVersion": "v1", "metadata": {"resourceVersion": "1"}, "items": []}
        if code == 400:
            kind = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Invalid", "code": 400}
        body = json.dumps(kind).encode()
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        if watch and code == 200:
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            self.rfile.read(1)  # until the program hangs up
            return
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self):
        self.send_error(403)
        self.close_connection = True

    def log_message(self, *_):
        pass


@contextlib.contextmanager
def empty_server():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Empty)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server.server_address[1]
    server.shutdown()
    server.server_close()


class Strangers:
    """A script of http_server_fuzz.c, played to a program: what is said there of waiting is only a look here."""

    def __init__(self, addresses, rng, tls=None):
        self.addresses, self.rng, self.tls = addresses, rng, tls
        self.made = 0
        self.open = {}
        self.at = 0

    def dial(self):
        listener = self.at % len(self.addresses)
        connection = socket.create_connection(self.addresses[listener], 30)
        self.made += 1
        if self.tls and listener == 1 and self.rng.random() < 0.8:
            try:
                connection = self.tls.wrap_socket(connection)
            except OSError:  # the child ended at its limit meanwhile
                return
        self.open[self.at] = connection
        connection.setblocking(False)

    def say(self, what):
        if self.at not in self.open:
            self.dial()
        with contextlib.suppress(OSError, KeyError):
            self.open[self.at].send(what)

    def hang_up(self, reset):
        connection = self.open.pop(self.at, None)
        if connection and reset:
            with contextlib.suppress(OSError):
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
        if connection:
            connection.close()

    def hear(self):
        connection = self.open.get(self.at)
        if not connection or not select.select([connection], [], [], 0.0005)[0]:
            return
        with contextlib.suppress(OSError):
            got = connection.recv(65536)
            assert not re.match(rb"HTTP/1\.. 101", got), got[:200]

    def act(self, deed, bytes_of):
        if deed in "0123":
            self.at = int(deed)
        elif deed == "n":
            self.at = (self.at + 1) % 4
            self.hang_up(False)
            self.dial()
        elif deed == ".":
            self.hear()
        elif deed == "h" and self.at in self.open:
            with contextlib.suppress(OSError):
                self.open[self.at].shutdown(socket.SHUT_WR)
        elif deed in "cr":
            self.hang_up(deed == "r")
        elif deed in bytes_of:
            self.say(bytes_of[deed])

    def play(self, script, bytes_of):
        self.at = 0
        for i, piece in enumerate(script.split(b"\xfe")):
            if i and piece:
                self.act(chr(piece[0]), bytes_of)
                piece = piece[1:]
            if piece:
                self.say(piece)
        for self.at in list(self.open):
            if self.rng.random() < 0.5:
                self.hear()
            self.hang_up(self.rng.random() < 0.5)


def mutate(rng, corpus):
    script = bytearray(rng.choice(corpus))
    for _ in range(rng.choice((0, 1, 1, 2, 4, 8))):
        at = rng.randrange(len(script) + 1)
        how = rng.randrange(6)
        if how == 0 and script:
            script[at % len(script)] ^= 1 << rng.randrange(8)
        elif how == 1:
            script[at:at] = rng.choice(WORDS)
        elif how == 2:
            del script[at : at + rng.randrange(1, 32)]
        elif how == 3:
            other = rng.choice(corpus)
            script[at:at] = other[rng.randrange(len(other) + 1) :][:4096]
        elif how == 4:
            script[at:at] = script[at : at + 64] * rng.randrange(1, 8)
        else:
            script[at:at] = rng.randbytes(rng.randrange(1, 16))
    return bytes(script[:30000])


class Program:
    """One of ours, by itself."""

    def __init__(self, path, folder, api_port, tls=False, token=False):
        self.path = Path(path)
        self.tls = trusting() if tls else None
        self.log = Path(folder) / "log"
        kubeconfig = Path(folder) / "kubeconfig"
        kubeconfig.write_text(KUBECONFIG % api_port)
        # The program takes what ports are free, and says by its sockets which: nobody can be there first.
        self.hosts = ("127.0.0.1", "127.0.0.2")
        self.addresses = []
        verb = ["run", "--node-name=n", f"--state-dir={folder}", f"--kubelet-dir={folder}", f"--cdi-dir={folder}"] if "agent" in self.path.name else []
        argv = [path, *verb, f"--kubeconfig={kubeconfig}", f"--health-addr={self.hosts[0]}:0", f"--metrics-addr={self.hosts[1]}:0"]
        if tls:
            argv += pair(folder)
        if token:
            argv.append("--metrics-auth=token")
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(argv, stderr=log, stdout=log)

    def get(self, listener, page):
        if self.tls and listener == 1:
            connection = http.client.HTTPSConnection(*self.addresses[listener], timeout=30, context=self.tls)
        else:
            connection = http.client.HTTPConnection(*self.addresses[listener], timeout=30)
        connection.request("GET", page)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()

    def wait(self):
        for _ in range(600):
            assert self.process.poll() is None, self.log.read_text()
            ports = listening_ports(self.process.pid)
            if all(host in ports for host in self.hosts):
                self.addresses = [(host, ports[host]) for host in self.hosts]
                return self.get(0, "/healthz")
            time.sleep(0.05)
        raise AssertionError("it does not serve")

    def expect_well(self):
        assert self.process.poll() is None, f"{self.path} ended with {self.process.returncode}:\n{self.log.read_text()[-6000:]}"
        try:
            health = self.get(0, "/healthz")
        except (OSError, http.client.HTTPException):
            health = self.get(0, "/healthz")  # the child ended at its limit meanwhile, and this connection with it
        assert health == (200, "ok\n"), health

    def ends(self):
        """How the process that serves HTTP ended, each time."""
        return re.findall(r'The process that serves HTTP ended.*ended="([^"]*)"', self.log.read_text())

    def restarts(self):
        """What the program counts of them."""
        return int(re.search(r"^cleave_http_restarts_total (\d+)$", self.get(1, "/metrics")[1], re.M).group(1))

    def expect_counted(self):
        """Each is logged first, and counted then: once nothing ends meanwhile the two agree."""
        for _ in range(100):
            before = len(self.ends())
            counted = self.restarts()
            if before == counted == len(self.ends()):
                return
            time.sleep(0.1)
        raise AssertionError(f"{counted} restarts are counted, {before} are in the log")

    def expect_no_metrics(self):
        code, text = self.get(1, "/metrics")
        assert code == 401 and "cleave" not in text, (code, text[-500:])

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(60)


def trusting():
    """Visitors who take any certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def pair(folder):
    """The flags for a certificate of our own."""
    cert, key = Path(folder) / "tls.crt", Path(folder) / "tls.key"
    words = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "1", "-subj", "/CN=x"]
    subprocess.run([*words, "-keyout", key, "-out", cert], check=True, capture_output=True, timeout=60)
    return [f"--metrics-tls-cert-file={cert}", f"--metrics-tls-key-file={key}"]


def listening_ports(pid):
    """The ports on which a process listens, by address of this machine."""
    with contextlib.suppress(OSError):  # it may end meanwhile, and descriptors may be closed
        sockets = {os.readlink(fd) for fd in Path(f"/proc/{pid}/fd").iterdir()}
        lines = [line.split() for line in Path(f"/proc/{pid}/net/tcp").read_text(encoding="ascii").splitlines()[1:]]
        ours = [words[1].split(":") for words in lines if words[3] == "0A" and f"socket:[{words[9]}]" in sockets]
        return {socket.inet_ntoa(struct.pack("=I", int(host, 16))): int(port, 16) for host, port in ours}
    return {}


def canned():
    """The deeds that are bytes, as the fuzz target has them."""
    source = (HERE / "http_server_fuzz.c").read_text()
    texts = {name: "".join(re.findall(r'"((?:[^"\\]|\\.)*)"', body)) for name, body in re.findall(r"static const char (\w+)\[\] =(.*?);", source, re.S)}
    deeds = {deed: texts[name].encode().decode("unicode_escape").encode("latin-1") for deed, name in (("u", "h2c"), ("w", "websocket"), ("t", "tls"))}
    return {**deeds, "b": b"x" * 65536}


def assail(path, connections, seed, tls, token):
    rng = random.Random(seed)
    corpus = [f.read_bytes() for f in sorted(CORPUS.iterdir())]
    bytes_of = canned()
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder, empty_server() as api_port:
        program = Program(path, folder, api_port, tls, token)
        try:
            program.wait()
            strangers = Strangers(program.addresses, rng, program.tls)
            checked = 0
            while strangers.made < connections:
                strangers.play(mutate(rng, corpus), bytes_of)
                if strangers.made - checked >= 200:
                    checked = strangers.made
                    program.expect_well()
            program.expect_well()
            pid = program.process.pid
            if token:
                program.expect_no_metrics()
            else:
                program.expect_counted()
        finally:
            rc = program.stop()
        ends = program.ends()
        others = [how for how in ends if how != "signal XCPU"]
        assert rc == 0, f"{path} ended with {rc}:\n{program.log.read_text()[-6000:]}"
        assert not others, f"{path}: {others}\n{program.log.read_text()[-6000:]}"
    print(f"ok - {path}: {strangers.made} connections in {time.monotonic() - began:.0f} s, process {pid} up and serving throughout, {len(ends)} restarts by processor time")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--connections", type=int, default=3000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--tls", action="store_true")
    parser.add_argument("--token", action="store_true")
    parser.add_argument("programs", nargs="+", metavar="PROGRAM")
    args = parser.parse_args()
    failed = 0
    if args.token and not args.tls:
        parser.error("--token takes --tls")
    for path in args.programs:
        try:
            assail(path, args.connections, args.seed, args.tls, args.token)
        except (AssertionError, OSError) as error:
            print(f"not ok - {path}: {error}")
            failed = 1
    return failed


if __name__ == "__main__":
    sys.exit(main())
