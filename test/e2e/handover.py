# SPDX-License-Identifier: Apache-2.0
"""Two agents on one node, of which one hands it over to the other.

    new = stand_by(start)             another agent, which waits for the node
    hand_over(old, new)               SIGTERM to the old one; returns when the new one has the node
    with NodeWatch(cluster, name):    every version of a Node, to see whether one of them lacks a resource
"""

import contextlib
import http.client
import json
import signal
import socket
import threading
import time
import uuid

from conftest import wait_for
from stack import Api, serve

WORKS = "Has this node's cards"


def readiness(agent):
    code, body = serve(agent, "/readyz")
    return code, body.splitlines()


def stands_by(agent):
    code, lines = readiness(agent)
    return code == 200 and lines[0].startswith("standby:")


def works(agent):
    code, lines = readiness(agent)
    return code == 200 and lines == ["ok"] and WORKS in agent.text()


def stand_by(start):
    """Starts another agent on a node where one works, and waits until it is ready to take over. Returns it."""
    agent = start()
    wait_for(lambda: agent.running() and stands_by(agent), 60, lambda: f"a standby:\n{agent.tail()}")
    return agent


def hand_over(old, new, timeout=60):
    """Asks the old agent to end, and waits until the new one is alone on the node and settled."""
    old.signal(signal.SIGTERM)
    assert old.popen.wait(timeout) == 0, old.tail()
    wait_for(lambda: works(new), timeout, lambda: f"the new agent to have the node:\n{new.tail()}")


class NodeWatch:
    """Every version of a Node's allocatable resources from its making on, as the API server tells it."""

    def __init__(self, cluster, name):
        self.api, self.path = Api(cluster), f"/api/v1/nodes/{name}"
        self.versions, self.times = [self.api.get(self.path)], [time.monotonic()]
        self.name, self.over, self.socket = name, False, None
        self.reader = threading.Thread(target=self.read, args=[self.ask()], daemon=True)
        self.reader.start()

    def ask(self):
        """A watch from the newest version on."""
        query = f"watch=true&fieldSelector=metadata.name={self.name}&resourceVersion={self.versions[-1]['metadata']['resourceVersion']}"
        connection = self.api.connect()
        connection.request("GET", f"/api/v1/nodes?{query}", headers={"Authorization": f"Bearer {self.api.token}"})
        answer = connection.getresponse()
        self.socket = connection.sock
        self.socket.settimeout(None)
        return answer

    def read(self, answer):
        """An API server ends a watch after half an hour or more."""
        with contextlib.suppress(OSError, ValueError, http.client.HTTPException, AttributeError):
            while not self.over:
                for line in answer:
                    self.times.append(time.monotonic())
                    self.versions.append(json.loads(line)["object"])
                answer = self.ask()

    def end(self):
        """Returns the versions, once the watch has told of a change that is made now: a mark that no watch before has left."""
        mark = str(uuid.uuid4())
        self.api.merge(self.path, {"metadata": {"annotations": {"test/mark": mark}}})
        wait_for(lambda: self.versions[-1]["metadata"].get("annotations", {}).get("test/mark") == mark, 30, "the watch to tell the newest version")
        self.close()
        return self.versions

    def close(self):
        """Once more is the same; a test that fails before end() leaves no reader behind."""
        self.over = True
        with contextlib.suppress(OSError):  # it is closed, or the API server has gone
            self.socket.shutdown(socket.SHUT_RDWR)
        self.reader.join(10)
        self.api.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def absent(self, offer):
        """For how many seconds, after end(), the Node has offered less than {resource: "count"}."""
        lacking = {version for version, _ in without(self.versions, offer)}
        spans = zip(self.versions, self.times, self.times[1:])
        return sum(until - since for version, since, until in spans if version["metadata"]["resourceVersion"] in lacking)


def without(versions, offer):
    """The versions of a Node that offer something else than {resource: "count"}, as (version, what it has of these)."""
    given = [(v["metadata"]["resourceVersion"], v["status"]["allocatable"]) for v in versions]
    return [(version, {k: a.get(k) for k in offer}) for version, a in given if {k: a.get(k) for k in offer} != offer]
