# SPDX-License-Identifier: Apache-2.0
"""The API server is not there: connections that are dead without a word, and an outage.

The program is in a network namespace of its own; its only way out is a pair of interfaces and a relay to the API server.
CLEAVE_TORTURE=1: these take minutes.
"""

import contextlib
import os
import re
import select
import socket
import struct
import subprocess
import threading
import time

import pytest
from conftest import wait_for
from namespaces import Inside
from stack import rig  # noqa: F401

pytestmark = pytest.mark.skipif(not os.environ.get("CLEAVE_TORTURE"), reason="CLEAVE_TORTURE is not set")

CUT = {"mode": "mig", "mig": {"profiles": {"1g.10gb": 7}}}
HALVES = {"mode": "mig", "mig": {"profiles": {"3g.40gb": 2}}}
NOTICED_S = 45  # R9
CURRENT_S = 60  # R10
OUTAGE_S = int(os.environ.get("CLEAVE_OUTAGE_S", 60))
KINDS = {"controller": 4, "agent": 1}  # that it watches
RATE = 0.25  # requests a second and kind, R10


def run(*words):
    subprocess.run([*map(str, words)], check=True, capture_output=True)


class Island:
    """A network namespace, and the relay that is its way to the API server."""

    def __init__(self, cluster):
        host, port = re.match(r"https://([\d.]+):(\d+)", cluster.server).groups()
        self.upstream = (host, int(port))
        self.holder = subprocess.Popen(["unshare", "--net", "sleep", "infinity"])
        self.there, self.here = f"ca{self.holder.pid}", f"cb{self.holder.pid}"
        self.net = f"10.{self.holder.pid >> 8 & 255}.{self.holder.pid & 255}"
        self.accepted, self.live, self.rules, self.away = [], set(), [], False
        wait_for(lambda: os.readlink(f"/proc/{self.holder.pid}/ns/net") != os.readlink("/proc/self/ns/net"), 10, "the namespace")
        run("ip", "link", "add", self.here, "type", "veth", "peer", "name", self.there, "netns", self.holder.pid)
        run("ip", "addr", "add", f"{self.net}.1/24", "dev", self.here)
        run("ip", "link", "set", self.here, "up")
        for words in (["addr", "add", f"{self.net}.2/24", "dev", self.there], ["link", "set", self.there, "up"], ["link", "set", "lo", "up"]):
            run("nsenter", "--net", "-t", self.holder.pid, "ip", *words)
        self.listener = socket.create_server((f"{self.net}.1", 0))
        threading.Thread(target=self.accept, daemon=True).start()

    def where(self):
        return Inside(lambda: self.holder.pid, "net")

    def kubeconfig(self, path):
        """The same credentials by way of the relay."""
        text = path.read_text()
        host, port = self.upstream
        made = path.with_name(f"island-{path.name}")
        port_here = self.listener.getsockname()[1]
        text = text.replace(f'"https://{host}:{port}"', f'"https://{self.net}.1:{port_here}", "tls-server-name": "{host}"')
        made.write_text(text)
        return made

    def accept(self):
        with contextlib.suppress(OSError):
            while True:
                theirs, _ = self.listener.accept()
                self.accepted.append(theirs.getpeername()[1])
                if self.away:
                    theirs.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                    theirs.close()
                else:
                    threading.Thread(target=self.relay, args=(theirs,), daemon=True).start()

    def relay(self, theirs):
        with contextlib.suppress(OSError, ValueError), theirs, socket.create_connection(self.upstream) as ours:
            other = {theirs: ours, ours: theirs}
            self.live.add(theirs)
            while True:
                for end in select.select([theirs, ours], [], [])[0]:
                    data = end.recv(65536)
                    if not data:
                        return
                    other[end].sendall(data)

    def drop_established(self):
        """From now on each packet of each connection that there is gets lost, without a word."""
        for port in set(self.accepted):
            for chain, way, ours in (("INPUT", "-i", "--sport"), ("OUTPUT", "-o", "--dport")):
                rule = (chain, way, self.here, "-p", "tcp", ours, port, "-j", "DROP")
                run("iptables", "-w", "-I", *rule)
                self.rules.append(rule)

    def go_away(self):
        """Nobody answers behind the port any more."""
        self.away = True
        self.accepted.clear()
        for theirs in list(self.live):
            with contextlib.suppress(OSError):
                theirs.shutdown(socket.SHUT_RDWR)

    def end(self):
        for rule in self.rules:
            run("iptables", "-w", "-D", *rule)
        self.listener.shutdown(socket.SHUT_RDWR)  # ends accept() too
        self.listener.close()
        self.go_away()
        self.holder.kill()
        self.holder.wait()


@pytest.fixture
def island(cluster):
    made = Island(cluster)
    yield made
    made.end()


def castaway(rig, island, who):
    """A node, an agent and a controller, of which one is on the island. Returns the node and that one."""
    node = rig.node(start=False)
    if who == "agent":
        node.where, node.kubeconfig = island.where(), island.kubeconfig(node.kubeconfig)
    agent = node.start()
    if who == "controller":
        rig.where = island.where()
        kubeconfig = island.kubeconfig(rig.controller_kubeconfig("controller"))
        # A leader would end with its lease, and be current as a new process. So the Lease is given to its pod by hand.
        rig.give_lease("controller")
        return node, rig.controller(kubeconfig=kubeconfig, wait=False, leader_elect="false")
    rig.controller()
    return node, agent


def resident_kib(process):
    return int(re.search(r"VmRSS:\s+(\d+)", open(f"/proc/{process.pid}/status", encoding="ascii").read())[1])


@pytest.mark.parametrize("who", ("controller", "agent"))
def test_connections_that_are_dead_without_a_word_are_noticed(rig, island, who):
    node, program = castaway(rig, island, who)
    rig.wait_ready(rig.profile("p", CUT), 60)
    island.drop_established()
    begin = time.monotonic()
    profile = rig.profile("p", HALVES)
    wait_for(lambda: node.layout() == {"3g.40gb": 2}, NOTICED_S, "the change to be noticed")
    took = time.monotonic() - begin
    rig.wait_ready(profile, NOTICED_S)
    print(f"{who}: {took:.1f} s to the change, {time.monotonic() - begin:.1f} s until all was told")
    assert program.running()


@pytest.mark.parametrize("who", ("controller", "agent"))
def test_an_outage_is_sat_out_quietly(rig, island, who):
    node, program = castaway(rig, island, who)
    rig.wait_ready(rig.profile("p", CUT), 60)
    before = resident_kib(program)
    island.go_away()
    profile = rig.profile("p", HALVES)
    end = time.monotonic() + OUTAGE_S
    wait_for(lambda: time.monotonic() > end, OUTAGE_S + 5, "the outage to be over")
    tries, after = len(island.accepted), resident_kib(program)
    assert node.layout() == {"1g.10gb": 7}
    island.away = False
    begin = time.monotonic()
    rig.wait_ready(profile, CURRENT_S)
    took = time.monotonic() - begin
    rate = tries / OUTAGE_S / KINDS[who]
    print(f"{who}: {tries} tries in {OUTAGE_S} s ({rate:.2f}/s a kind), memory {before} -> {after} KiB, current {took:.1f} s after")
    assert rate <= RATE and after <= before * 1.1 and program.running()
