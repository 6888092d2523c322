# SPDX-License-Identifier: Apache-2.0
"""What came of a run, in a form in which runs can be compared, and what must hold at every step of each.

End states are compared field by field with the undisturbed run's, except for fields in which two undisturbed runs
differ from each other. Names, UUIDs and times are put in place of what they stand for.
"""

import json
import re
import signal
import time
from collections import Counter

import library
from invariants import (
    NOTED_S,
    bindings_of,
    disturbed,
    granted_twice,
    half_undone,
    history_of,
    leaderless,
    lies,
    limits_of,
    offers_of,
    overbound,
    overdrawn,
    overshared,
    oversold,
    restless,
    seconds,
    silent_hangs,
    statuses,
    taken_away,
    unconditional,
    ungranted,
    unrecorded,
    unserved,
    what,
    withdrawn,
)

TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
UID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
# Of a history, not of a state: who was away saw fewer changes.
UNSAID = ("uid", "resourceVersion", "managedFields", "creationTimestamp", "generation", "observedGeneration", "gpu.cleave.dev/room")
# What Kubernetes' own controllers say of a Node, each in its own time.
THEIRS = re.compile(r"node(\.alpha)?\.kubernetes\.io/")
# In the order of UUIDs, which are other ones each time.
UNORDERED = ("partitions", "conditions", "inUseBy", "devices")
NUMBERS = ("giID", "ciID", "id")  # that the driver gives, or the kubelet by its choice of a slot
CHANGES = ("nvmlDeviceCreateGpuInstanceWithPlacement", "nvmlGpuInstanceDestroy", "nvmlDeviceSetMigMode")


def is_theirs(value):
    return isinstance(value, dict) and "effect" in value and bool(THEIRS.match(value.get("key", "")))


class Outcome:
    def __init__(self, world, mark):
        self.world = world
        rig = world.rig
        self.trace = [r for r in world.proxy.trace]
        self.writes = [e for e in rig.writes(mark) if e["responseStatus"]["code"] < 300]
        self.words = self.dictionary(world)
        self.state = self.plain(self.end_state(world))
        self.counts = Counter(tuple(map(self.translate, what(e))) for e in self.writes if e["verb"] in ("create", "delete"))
        self.log = {node.name: node.changes() for node in world.nodes}
        self.calls = [library.calls_between(library.log_of(node), after, world.done_ns) for node, after in zip(world.nodes, world.sequences)]
        self.deaths = [(by, status) for by, program in world.programs.items() for status in program.deaths]
        self.counts.update(self.hardware_counts(world))
        self.broken = [text for check in self.checks() for text in check(world)]

    # --- the end ---

    def end_state(self, world):
        api, rig = world.rig.api, world.rig
        group = "/apis/gpu.cleave.dev/v1alpha1"
        objects = {path: api.find(path) for path in rig.objects if path.startswith(group)}
        for node in world.nodes:
            objects[node.path] = api.find(node.path)
            objects[f"/api/v1/nodes/{node.name}"] = api.find(f"/api/v1/nodes/{node.name}")
        return {
            "objects": objects,
            "hardware": {n.name: [[n.layout(i), n.placements(i)] for i in range(len(n.cards()))] + list(map(as_set, n.hardware()["metax"])) for n in world.nodes},
            "journals": {n.name: sorted(p.name for p in (n.folder / "state").iterdir() if p.name != "lock") for n in world.nodes},
        }

    def dictionary(self, world):
        words = {**world.workload.words(), world.rig.id: "T"}
        for n, node in enumerate(world.nodes):
            hardware = node.hardware()
            words |= {card["uuid"]: f"GPU-{n}-{i}" for i, card in enumerate(hardware["gpus"] + hardware["metax"])}
        return words

    def translate(self, text):
        for word, meaning in self.words.items():
            text = re.sub(rf"\b{re.escape(word)}\b", meaning, text)
        return UID.sub("UID", TIME.sub("TIME", text))

    def plain(self, value, key=""):
        if isinstance(value, dict):
            said = {self.translate(k): self.plain(v, k) for k, v in value.items() if k not in UNSAID and not THEIRS.match(k)}
            return {k: v for k, v in said.items() if k not in ("taints", "annotations") or v}
        if isinstance(value, list):
            items = [self.plain(v) for v in value if not is_theirs(v)]
            return sorted(items, key=lambda i: json.dumps(i, sort_keys=True)) if key in UNORDERED else items
        if isinstance(value, str):
            return "TIME" if key.endswith("timestamp") else self.translate(value)
        return "N" if key in NUMBERS else value

    def hardware_counts(self, world):
        """What was made and destroyed. Who is killed in the middle of a change goes back and makes it again."""
        names = {node.name: self.translate(node.name) for node in world.nodes}
        return Counter(
            (r["call"], names[node], f"card {r['gpu']}") for node, log in self.log.items() for r in log if r["call"] in CHANGES and r["result"] == 0
        )

    # --- at every step ---

    def checks(self):
        return (self.consumers, self.grants, self.slots, self.preconditions, self.leadership, self.truth, self.neighbours, self.rest, self.candour)

    def consumers(self, world):
        """S1"""
        for node in world.nodes:
            yield from taken_away(holds_on(world, node), self.log[node.name], offset())

    def grants(self, world):
        """S2"""
        for node in world.nodes:
            yield from granted_twice(holds_on(world, node), history_of(self.log[node.name], offset()), node.name)
            for at, said in statuses(self.writes, node.name):
                yield from oversold(said, at, node.name)
                yield from overshared(said, at, node.name)
        cards = {card["uuid"]: limits_of(card) for node in world.nodes for card in node.cards_told()}
        yield from overbound(bindings_of(world.rig.writes()), world.workload.ended, cards)

    def slots(self, world):
        """S2, S5, of what agents write for pods with shares."""
        bound = {pod: {s["u"] for c in record["c"] for s in c["s"]} for _, pod, record in bindings_of(world.rig.writes()) if record}
        granted = world.workload.granted()
        pods = {uid: {"slots": slots, "cards": bound.get(pod, ()), "asks": asks} for uid, (pod, slots, asks) in granted.items()}
        running = {slot: uid for uid in world.workload.live.values() for slot in pods[uid]["slots"]}
        for node in world.nodes:
            files = world.workload.slot_files(node)
            yield from ungranted(files, pods, node.name)
            yield from unrecorded(files, {card["uuid"]: card["index"] for card in node.cards_told()}, node.name)
            yield from unserved(files, running, node.name)

    def preconditions(self, world):
        """S3"""
        return unconditional(self.writes)

    def leadership(self, world):
        """S4. The Lease was taken before people began to act."""
        return leaderless(world.cluster.audit(world.rig.mark))

    def truth(self, world):
        """S5, S6: each status, each Node's resources and each list of its kubelet, against what the hardware was just before
        and, for resources, until the next."""
        for node in world.nodes:
            history = history_of(self.log[node.name], offset())
            before = [state for at, state in history if at <= world.marked][-1]
            for at, said in statuses(self.writes, node.name):
                yield from lies(said, history, at, node.name)
                yield from half_undone(said, before, at, node.name)
            yield from overdrawn(world.workload.offers(node), history, node.name, NOTED_S)
            yield from overdrawn([(world.marked, world.offered[node.name]), *offers_of(self.writes, node.name)], history, node.name, *world.lag)

    def neighbours(self, world):
        """S7. Every workload says which cards it does not ask to change, and what they offer."""
        for node in world.nodes:
            since = world.marked - offset()
            log = [r for r in self.log[node.name] if r["startNs"] / 1e9 > since]
            yield from disturbed(world.workload.spared, log, node.name)
            if world.cards_answer:
                yield from withdrawn(world.workload.spared_offer, offers_of(self.writes, node.name), node.name)

    def rest(self, world):
        """L1"""
        times = [seconds(e["stageTimestamp"]) for e in self.writes]
        return restless(times, world.calm_since, world.DONE_S, world.watched)

    def candour(self, world):
        """L2, of calls that do not return."""
        for node in world.nodes:
            pids = world.programs[world.by(node)].pids
            log = library.log_of(node)
            yield from silent_hangs(log, pids, world.deadline_s, list(statuses(self.writes, node.name)), offset(), node.name)


def as_set(card):
    """What was set of one of MetaX's cards: all but what its library counts and measures."""
    slices = sorted((s["alias"], s["vramMiB"], s["computePct"]) for s in card["slices"])
    return [card["sgpu"], card["schedClass"], card["timesliceMs"], slices]


def offset():
    """Of Unix time from the clock of the simulator's log."""
    return time.time() - time.monotonic()


def holds_on(world, node):
    return [held for held in getattr(world.workload, "holds", ()) if held["node"] == node.name]


def differences(a, b, path=""):
    """The paths at which two states differ."""
    if isinstance(a, dict) and isinstance(b, dict):
        for k in sorted(set(a) | set(b)):
            yield from differences(a.get(k), b.get(k), f"{path}/{k}")
    elif isinstance(a, list) and isinstance(b, list) and len(a) == len(b):
        for i, (x, y) in enumerate(zip(a, b)):
            yield from differences(x, y, f"{path}/{i}")
    elif a != b:
        yield path, a, b


class Reference:
    """What undisturbed runs end in, and the fields in which they differ."""

    def __init__(self, outcomes):
        self.first = outcomes[0]
        self.masked = {path for other in outcomes[1:] for path, _, _ in differences(self.first.state, other.state)}
        self.loose = {k for other in outcomes[1:] for k in set(self.first.counts) | set(other.counts) if self.first.counts[k] != other.counts[k]}
        self.trace, self.calls = self.first.trace, self.first.calls

    def judge(self, outcome, harms):
        """What is wrong with a disturbed run."""
        calls = [h for h in harms if isinstance(h, library.CallHarm)]
        wrong = list(outcome.broken)
        wrong += [f"{path} is {b!r}, not {a!r}" for path, a, b in differences(self.first.state, outcome.state) if path not in self.masked]
        wrong += self.miscounted(outcome, calls or any(h.do == "kill" and h.by.startswith("agent") for h in harms))
        wrong += unasked_deaths(outcome.deaths, calls)
        return wrong

    def miscounted(self, outcome, begins_anew):
        """What was created and deleted more or less often. A change of a card that fails, or whose agent is killed, is undone
        and made again: then at worst the new is made twice, and the old once. Where one fails anyhow, it may also be less."""
        for key in set(self.first.counts) | set(outcome.counts):
            expected, seen = self.first.counts[key], outcome.counts[key]
            if key in self.loose or expected == seen:
                continue
            if begins_anew and key[0] in CHANGES:
                worst = 2 * sum(n for k, n in self.first.counts.items() if k[0] in CHANGES and k[1:] == key[1:])
                if seen <= worst:
                    continue
            yield f"{' '.join(key)}: {seen} times, not {expected}"


def unasked_deaths(deaths, calls):
    """A program ends by itself at no harm; by a call that kills only the one whose call it is, once."""
    killers = [h.by for h in calls if h.kills()]
    for by, status in deaths:
        if by in killers and status == -signal.SIGKILL:
            killers.remove(by)
        else:
            yield f"{by} ended by itself, {status}"
