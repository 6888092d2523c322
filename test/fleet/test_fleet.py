# SPDX-License-Identifier: Apache-2.0
"""What a fleet's audit log is judged by, fed with what is right and what is not."""

import sys
from pathlib import Path

sys.path[:0] = [str(Path(__file__).resolve().parent)]

from fleet import idle_writes, most_in_change  # noqa: E402


def write(at, name, resource, version, generation=1, observed=1, ready=True, subresource=""):
    conditions = [{"type": "Ready", "status": str(ready)}]
    return {
        "verb": "patch",
        "stageTimestamp": f"2026-01-01T00:00:{at:02d}Z",
        "objectRef": {"resource": resource, "name": name, "subresource": subresource},
        "responseStatus": {"code": 200},
        "responseObject": {
            "metadata": {"resourceVersion": str(version), "generation": generation},
            "status": {"observedGeneration": observed, "conditions": conditions},
        },
    }


def ordered(at, name):
    return write(at, name, "devices", at, generation=2)


def done(at, name, ready=True):
    return write(at, name, "devices", at, generation=2, observed=2, ready=ready, subresource="status")


def test_nodes_in_change_are_those_told_and_not_done():
    assert most_in_change([ordered(1, "a"), done(2, "a"), ordered(3, "b"), done(4, "b")]) == 1
    assert most_in_change([ordered(1, "a"), ordered(2, "b"), done(3, "a"), ordered(4, "c")]) == 2


def test_a_node_that_failed_is_still_in_change():
    assert most_in_change([ordered(1, "a"), done(2, "a", ready=False), ordered(3, "b")]) == 2


def test_a_write_that_leaves_the_version_changed_nothing():
    again = [write(1, "a", "nodes", 5, subresource="status"), write(2, "a", "nodes", 5, subresource="status")]
    assert idle_writes(again) == {"patch nodes/status": 1}
    assert idle_writes([write(1, "a", "nodes", 5), write(2, "a", "nodes", 6), write(3, "b", "nodes", 6)]) == {}
