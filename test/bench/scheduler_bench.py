# SPDX-License-Identifier: Apache-2.0
"""cleave-scheduler with a fleet of cards that are given out in shares: how long kube-scheduler waits for its answers.

BENCH_NODES (5000) and BENCH_PODS (20000) change the sizes.
"""

import json
import os
import socket
import time

from rig import BIN, GROUP, NODES, Stack, anonymous_mib, free_port, in_parallel, quantile, ready, resident_mib, show, until

PODS = int(os.environ.get("BENCH_PODS", "20000"))
CARDS, MIB = 8, 81559
QUESTIONS = 1000
NAMED = 500  # what kube-scheduler asks for at most in a large cluster, by its sampling


def node_name(i):
    return f"node-{i:05d}"


def uuid(i, card):
    return f"GPU-{i:08x}-0000-4000-8000-{card:012x}"


def make_devices(stack, nodes):
    fractional = {"memoryMiB": MIB, "computePercent": 100, "maxShares": 10, "enforcement": "none"}

    def card(i, k):
        return {
            "uuid": uuid(i, k), "index": k, "vendor": "nvidia", "model": "NVIDIA H100 80GB HBM3", "pciBusId": f"0000:{k:02x}:00.0",
            "numaNode": k // 4, "memoryMiB": MIB, "healthy": True, "mode": "native", "inUse": False, "fractional": fractional,
        }

    def make(api, i):
        name = node_name(i)
        api.call("POST", f"{GROUP}/devices", {"apiVersion": "gpu.cleave.dev/v1alpha1", "kind": "Device", "metadata": {"name": name}})
        api.merge(f"{GROUP}/devices/{name}/status", {"status": {"devices": [card(i, k) for k in range(CARDS)]}})

    in_parallel(nodes, make)(stack.api)


def pod(name, uid=None, **bound):
    limits = {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "3000", "nvidia.com/gpucores": "10"}
    metadata = {"name": name, "namespace": "default", **({"uid": uid} if uid else {})}
    spec = {"containers": [{"name": "main", "image": "none", "resources": {"limits": limits}}], **bound}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def make_pods(stack):
    """Each with a record, as its Binding would have brought it: four on every node."""

    def make(api, i):
        record = {"v": 1, "c": [{"n": "main", "s": [{"u": uuid(i % NODES, i % CARDS), "m": 3000, "c": 10}]}], "p": 0}
        one = pod(f"pod-{i:05d}", nodeName=node_name(i % NODES), serviceAccountName="default", automountServiceAccountToken=False)
        one["metadata"]["annotations"] = {"gpu.cleave.dev/allocation": json.dumps(record)}
        api.call("POST", "/api/v1/namespaces/default/pods", one)

    in_parallel(PODS, make)(stack.api)


class Asker:
    """kube-scheduler's side: one kept connection, and as little as possible of its own time in the figures."""

    def __init__(self, port):
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def ask(self, request):
        begin = time.perf_counter()
        self.socket.sendall(request)
        head, _, body = self.read_head()
        left = int(next(line for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:")).split(b":")[1]) - len(body)
        while left:
            left -= len(self.socket.recv(min(left, 1 << 16)))
        return time.perf_counter() - begin, head

    def read_head(self):
        got = b""
        while b"\r\n\r\n" not in got:
            piece = self.socket.recv(1 << 16)
            if not piece:
                raise ConnectionError("the scheduler closed the connection")
            got += piece
        return got.partition(b"\r\n\r\n")


def question(i, names):
    body = json.dumps({"Pod": pod(f"asked-{i}", uid=f"00000000-0000-4000-8000-{i:012x}"), "Nodes": None, "NodeNames": names}).encode()
    return b"POST /filter HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)


def ask_paced(port, n_names, n, a_second):
    """The times of n questions, so many a second (0: one after the other), each with other names of nodes."""
    asker, times = Asker(port), []
    questions = [question(i, [node_name((i * 7 + k) % NODES) for k in range(min(n_names, NODES))]) for i in range(n)]
    begin = time.monotonic()
    for i, request in enumerate(questions):
        if a_second:
            time.sleep(max(0, begin + i / a_second - time.monotonic()))  # the pace is what is asked for
        took, head = asker.ask(request)
        if b" 200 " not in head.split(b"\r\n")[0]:
            raise RuntimeError(head)
        times.append(took)
    return times


def ms(seconds):
    return f"{seconds * 1e3:.2f} ms"


def scheduler():
    print(f"\ncleave-scheduler with {NODES} nodes of {CARDS} cards and {PODS} pods with shares")
    with Stack("scheduler") as stack:
        begin = time.monotonic()
        make_devices(stack, NODES)
        make_pods(stack)
        show("scheduler", "objects made (the bench's own time)", f"{time.monotonic() - begin:.0f} s")
        port, health = free_port(), free_port()
        begin = time.monotonic()
        proc = stack.start("scheduler", [BIN / "cleave-scheduler", "--kubeconfig", stack.kubeconfig, "--listen", f"127.0.0.1:{port}",
                                         "--health-addr", f"127.0.0.1:{health}"])
        until(lambda: ready(health), 300, "the scheduler to be ready")
        show("scheduler", "cold start → ready", f"{time.monotonic() - begin:.2f} s")
        pid = proc.popen.pid
        show("scheduler", "resident / anonymous memory, synced", f"{resident_mib(pid):.0f} / {anonymous_mib(pid):.0f} MiB", "aim 60")
        none = ask_paced(port, 0, QUESTIONS, 500)
        show("scheduler", "filter of no names, p50, at 500 a second: the way there and back", ms(quantile(none, 0.5)))
        busy = ask_paced(port, NAMED, QUESTIONS, 0)
        show("scheduler", f"filter of {NAMED} names, p50, one after the other", ms(quantile(busy, 0.5)), "aim 0.2")
        few = ask_paced(port, NAMED, QUESTIONS, 500)
        show("scheduler", f"filter of {NAMED} names, p50, at 500 a second", ms(quantile(few, 0.5)))
        show("scheduler", f"filter of {NAMED} names, p99, at 500 a second", ms(quantile(few, 0.99)), "aim 1")
        many = ask_paced(port, NODES, QUESTIONS // 5, 100)
        show("scheduler", f"filter of {NODES} names, p50", ms(quantile(many, 0.5)))
        show("scheduler", f"filter of {NODES} names, p99", ms(quantile(many, 0.99)), "aim 3")
        show("scheduler", "resident / anonymous memory after it", f"{resident_mib(pid):.0f} / {anonymous_mib(pid):.0f} MiB", "aim 60")
