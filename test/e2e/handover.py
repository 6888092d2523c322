# SPDX-License-Identifier: Apache-2.0
"""Two agents on one node, of which one hands it over to the other.

    new = stand_by(node, start)       another agent, which waits for the node
    hand_over(old, new)               SIGTERM to the old one; returns when the new one has the node
"""

import signal

from conftest import wait_for
from stack import serve

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
