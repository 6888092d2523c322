# SPDX-License-Identifier: Apache-2.0
"""A second API server on the same etcd, whose view of it can be stopped in time.

    twin = Twin(cluster);  twin.start()
    twin.freeze()          from now on what it serves from its cache is the past
    twin.thaw()

Its connection to etcd goes through a relay that stops passing bytes on. Reads that ask for no more than the cache has are
answered from the past; others wait or are refused, as by a real API server that has lost its etcd.
"""

import contextlib
import signal
import socket
import ssl
import subprocess
import threading
import urllib.request

from conftest import note_pid, wait_for

PORTS = 3  # are tried


class Relay:
    """Passes TCP connections on to a port of this machine, while its gate is open."""

    def __init__(self, port):
        self.port_of_etcd = port
        self.gate = threading.Event()
        self.gate.set()
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        with contextlib.suppress(OSError):
            while True:
                near, _ = self.listener.accept()
                far = socket.create_connection(("127.0.0.1", self.port_of_etcd))
                for a, b in ((near, far), (far, near)):
                    threading.Thread(target=self.pump, args=(a, b), daemon=True).start()

    def pump(self, source, sink):
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                self.gate.wait()
                sink.sendall(data)
        for s in (source, sink):
            with contextlib.suppress(OSError):
                s.shutdown(socket.SHUT_RDWR)

    def close(self):
        self.gate.set()
        self.listener.close()


class Twin:
    def __init__(self, cluster):
        self.cluster = cluster
        self.process = None

    def start(self):
        """Returns when it answers."""
        pid = int((self.cluster.rundir / "kube-apiserver.pid").read_text().split()[0])
        argv = open(f"/proc/{pid}/cmdline", encoding="utf-8").read().rstrip("\0").split("\0")
        words = dict(zip(argv[1:], argv[2:]))
        self.relay = Relay(int(words["--etcd-servers"].rpartition(":")[2]))
        etcd = f"http://127.0.0.1:{self.relay.port}"
        argv = [etcd if before == "--etcd-servers" else word for before, word in zip([""] + argv, argv)]
        audits = {i + k for i, word in enumerate(argv) if word.startswith("--audit-") for k in (0, 1)}
        argv = [word for i, word in enumerate(argv) if i not in audits]
        for _ in range(PORTS):
            self.begin(argv)
            wait_for(lambda: self.answers() or self.process.poll() is not None, 90, "the second API server to be ready")
            if self.process.poll() is None:
                break
        assert self.process.poll() is None, f"the second API server ended: {self.cluster.rundir}/twin.log"
        return self

    def begin(self, argv):
        """Another process may take the port before it is this one's."""
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        argv = [str(port) if before == "--secure-port" else word for before, word in zip([""] + argv, argv)]
        self.where = ("127.0.0.1", port)
        with open(self.cluster.rundir / "twin.log", "ab") as log:
            self.process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        note_pid(self.process.pid, self.cluster.rundir / "kube-apiserver-twin.pid")

    def answers(self):
        context = ssl.create_default_context(cafile=str(self.cluster.rundir / "certs" / "apiserver.crt"))
        with contextlib.suppress(OSError):
            with urllib.request.urlopen(f"https://127.0.0.1:{self.where[1]}/readyz", context=context, timeout=5) as answer:
                return answer.read() == b"ok"
        return False

    def freeze(self):
        self.relay.gate.clear()

    def thaw(self):
        self.relay.gate.set()

    def stop(self):
        if self.process:
            self.relay.close()
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(20)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
