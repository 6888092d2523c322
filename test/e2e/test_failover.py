# SPDX-License-Identifier: Apache-2.0
"""One leader after another, while profiles change: nobody acts beside another, and nothing is done twice.

CLEAVE_FAILOVERS says how many: every other leader is killed, the rest are asked to go.
"""

import itertools
import os
import sys
import time
from collections import Counter

from conftest import ROOT
from replicas import SHORT, holder, is_by, name_of, replica, transitions, wait_leads
from stack import rig  # noqa: F401

sys.path.append(str(ROOT / "test" / "fault"))
from oracle import CHANGES, seconds  # noqa: E402

FAILOVERS = int(os.environ.get("CLEAVE_FAILOVERS", 2))
LAYOUTS = ({"1g.10gb": 7}, {"3g.40gb": 2}, {"2g.20gb": 3})  # nothing of one stays in the next
RELEASED_S, EXPIRED_S = 3, 6 + 6  # the lease's duration, two tries, and four seconds until it is seen


def reigns(rig, mark):
    """[(who, when)]: each write of the Lease that made another one the holder."""
    found, last = [], ""
    for e in rig.cluster.audit(mark):
        if e.get("objectRef", {}).get("resource") == "leases" and e["verb"] in ("create", "update") and e["responseStatus"]["code"] < 300:
            who = name_of(e["requestObject"]["spec"].get("holderIdentity", ""))
            if who != last:
                found.append((who, seconds(e["stageTimestamp"])))
                last = who
    return found


def wrong_writes(rig, mark, everyone):
    """Writes that were taken from who did not hold the Lease then."""
    history = reigns(rig, mark)
    for e in rig.cluster.writes(mark, "cleave-controller"):
        at = seconds(e["stageTimestamp"])
        leader = [who for who, since in history if since <= at][-1:]
        author = [p.name for p in everyone if is_by(e, p)]
        if e["responseStatus"]["code"] < 300 and e["objectRef"]["resource"] != "events" and author != leader:
            yield f"{e['verb']} {e['objectRef']} by {author} under {leader} at {at:.3f}"


def made_and_destroyed(node):
    return Counter((r["call"], r["result"]) for r in node.changes() if r["call"] in CHANGES)


def test_one_leader_after_another(rig):
    node = rig.node()
    everyone = []
    names = (f"replica-{i}" for i in itertools.count())

    def add():
        everyone.append(replica(rig, next(names), **SHORT))
        return everyone[-1]

    mark = rig.cluster.audit_mark()
    leader = add()
    wait_leads(rig, leader)
    profile = rig.profile("p", {"mode": "mig", "mig": {"profiles": LAYOUTS[-1]}})
    rig.wait_ready(profile)
    before, hands, took = made_and_destroyed(node), transitions(rig), []
    expected = Counter()
    for i in range(FAILOVERS):
        other, layout = add(), LAYOUTS[i % len(LAYOUTS)]
        rig.profile("p", {"mode": "mig", "mig": {"profiles": layout}})
        begin = time.monotonic()
        if i % 2:
            assert leader.stop() == 0
        else:
            leader.kill()
        wait_leads(rig, other)
        took.append((bool(i % 2), time.monotonic() - begin))
        rig.wait_ready(profile)
        assert node.layout() == layout
        expected.update(made=sum(layout.values()), destroyed=sum(LAYOUTS[(i - 1) % len(LAYOUTS)].values()))
        leader = other
    assert list(wrong_writes(rig, mark, everyone)) == []
    assert holder(rig) == leader.name
    # Each change of the card was done once, whatever became of the leader that ordered it.
    done = made_and_destroyed(node) - before
    assert done == {(CHANGES[0], 0): expected["made"], (CHANGES[1], 0): expected["destroyed"]}
    # Given back, a lease is taken as often as it is written with nobody in it.
    assert transitions(rig) - hands == FAILOVERS
    released, expired = ([t for polite, t in took if polite == p] for p in (True, False))
    print(f"\n{FAILOVERS} failovers; released: {max(released, default=0):.2f} s at most, expired: {max(expired):.2f} s at most")
    assert max(released, default=0) <= RELEASED_S and max(expired) <= EXPIRED_S
