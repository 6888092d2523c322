# SPDX-License-Identifier: Apache-2.0
"""What must hold in a world that lasts: at every step between two pauses, and at each pause.

Judged from the audit log, from the simulators' logs of what was done to the hardware, and from what kubelets were offered.
"""

import bisect
import time
from collections import Counter, defaultdict

from invariants import granted_twice, history_of, leaderless, lies, offers_of, oversold, statuses, taken_away, unconditional, what
from world import DONE_S

OVERDRAFT_S = 20  # as long as another replica may take to lead
TICK_S = 0.1


class Broken(Exception):
    """What must hold did not."""


# --- at every step ---


def overdrafts(offers, history):
    """S6: (from, until, resource) of each time in which more was on offer than there was; both lists are [(since, what)].

    A change that nobody ordered (a rollback, its repetition) is known to the one who offers a little later than it is
    made; while that one is dead, stands still or hears nothing, later still. So such times have a bound."""
    times = sorted({at for at, _ in offers} | {at for at, _ in history if at >= offers[0][0]})
    since = {}
    for at in times:
        (_, offer), (_, state) = last_before(offers, at), last_before(history, at)
        have = Counter(f"nvidia.com/mig-{profile.replace('+', '.')}" for card in state.values() for profile, _ in card)
        over = {name for name, count in offer.items() if name.startswith("nvidia.com/mig-") and int(count) > have[name]}
        for name in over:
            since.setdefault(name, at)
        for name in set(since) - over:
            yield since.pop(name), at, name
    for name, begin in since.items():
        yield begin, time.time(), name


def last_before(history, at):
    return history[max(0, bisect.bisect_right(history, at, key=lambda item: item[0]) - 1)]


def standing(log):
    """The records of a log that made what stands at its end."""
    made = {}
    for r in log:
        args = dict(w.split("=") for w in r["args"].split() if "=" in w)
        if r["result"] != 0:
            continue
        if r["call"].startswith("nvmlDeviceCreateGpuInstance"):
            made[r["gpu"], args["gi"]] = r
        elif r["call"] == "nvmlGpuInstanceDestroy":
            made.pop((r["gpu"], args["gi"]), None)
    return sorted(made.values(), key=lambda r: r["sequence"])


class Judge:
    """Looks at each stretch between two pauses once."""

    def __init__(self, world, people):
        self.world, self.people = world, people
        self.logs = defaultdict(list)  # what made the instances that stand, and what came since
        self.seen = defaultdict(lambda: -1)
        self.leases = []
        self.longest, self.overdraft, self.written = 0.0, 0.0, Counter()

    def begin(self):
        self.mark, self.since = self.world.cluster.audit_mark(), time.time()
        self.offered = {node.name: node.node_object()["status"]["allocatable"] for node in self.world.nodes}
        for kubelet in self.world.kubelets.values():
            del kubelet.offered[:-1]
        for node in self.world.nodes:
            self.read(node)
            self.logs[node.name] = standing(self.logs[node.name])

    def read(self, node):
        """What its hardware's log says that is new. The log is a ring, and long enough for a stretch."""
        new = [r for r in node.changes() if r["sequence"] > self.seen[node.name]]
        self.logs[node.name] += new
        self.seen[node.name] = max((r["sequence"] for r in new), default=self.seen[node.name])

    def judge(self):
        """Of the stretch that ends here; the next one begins."""
        writes = [e for e in self.world.rig.writes(self.mark) if e["responseStatus"]["code"] < 300]
        self.written.update(" ".join(what(e)[:2]) for e in writes)
        wrong = [*unconditional(writes), *self.judge_leaders()]
        for node in self.world.nodes:
            self.read(node)
            wrong += self.judge_node(node, [e for e in writes if what(e)[2] == node.name])
        if wrong:
            raise Broken("\n".join(wrong))
        self.people.holds = [p.held for p in self.people.pods]
        self.begin()

    def judge_leaders(self):
        """S4. The last write of the Lease before this stretch says who led when it began."""
        audit = self.leases[-1:] + self.world.cluster.audit(self.mark)
        self.leases = [e for e in audit if e.get("objectRef", {}).get("resource") == "leases" and e["verb"] in ("create", "update", "patch") and e["responseStatus"]["code"] < 300]
        return leaderless([e for e in audit if e.get("objectRef")]) if self.leases else ()

    def judge_node(self, node, writes):
        offset, log = time.time() - time.monotonic(), self.logs[node.name]
        history = history_of(log, offset)
        holds = [h for h in self.people.holds if h["node"] == node.name]
        yield from taken_away(holds, log, offset)
        yield from granted_twice([h for h in holds if h["start"] is not None], history, node.name)
        for at, status in statuses(writes, node.name):
            yield from oversold(status, at, node.name)
            yield from lies(status, history, at, node.name)
        for begin, end, resource in overdrafts(self.offers(node, writes), history):
            self.overdraft = max(self.overdraft, end - begin)
            if end - begin > OVERDRAFT_S:
                yield f"S6: from {begin:.3f} on, for {end - begin:.1f} s, {node.name} offers more {resource} than there are"

    def offers(self, node, writes):
        """[(since when, {resource: count})], by the kubelet or by the Node."""
        if node in self.world.kubelets:
            return list(self.world.kubelets[node].offered)
        return [(self.since, self.offered[node.name]), *offers_of(writes, node.name)]

    # --- at a pause ---

    def converge(self):
        """L1: until all is as wanted. Returns the seconds it took, and what came last."""
        begin, unlike, last = time.monotonic(), ["?"], []
        while unlike and time.monotonic() - begin < DONE_S:
            self.world.tick()
            self.people.obey()
            last, unlike = unlike, list(self.people.unlike())
        if unlike:
            raise Broken(f"L1: {DONE_S} s after the last fault: {'; '.join(unlike)}\n{self.world.standing()}")
        took = time.monotonic() - begin
        self.longest = max(self.longest, took)
        return took, last

    def still(self, quiet_s):
        """L1: nobody writes for so long, before DONE_S are over."""
        end, since, count = time.monotonic() + DONE_S, time.monotonic(), None
        while time.monotonic() - since < quiet_s:
            writes = self.world.rig.writes(self.mark)
            if len(writes) != count:
                count, since = len(writes), time.monotonic()
            if time.monotonic() > end:
                raise Broken(f"L1: the writing never ends: {[what(e) for e in writes[-10:]]}")
            time.sleep(TICK_S)
        unlike = list(self.people.unlike())
        if unlike:
            raise Broken(f"L1: what was reached was left again: {'; '.join(unlike)}")
