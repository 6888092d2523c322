# SPDX-License-Identifier: Apache-2.0
"""What came of a run, in a form in which runs can be compared, and what must hold at every step of each.

End states are compared field by field with the undisturbed run's, except for fields in which two undisturbed runs
differ from each other. Names, UUIDs and times are put in place of what they stand for.
"""

import json
import re
import time
from collections import Counter

TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
UID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
# Of a history, not of a state: who was away saw fewer changes.
UNSAID = ("uid", "resourceVersion", "managedFields", "creationTimestamp", "generation", "observedGeneration")
# What Kubernetes' own controllers say of a Node, each in its own time.
THEIRS = re.compile(r"node(\.alpha)?\.kubernetes\.io/")
# In the order of UUIDs, which are other ones each time.
UNORDERED = ("partitions", "conditions", "inUseBy", "devices")
CHANGES = ("nvmlDeviceCreateGpuInstanceWithPlacement", "nvmlGpuInstanceDestroy", "nvmlDeviceSetMigMode")
# nvmlGpuInstanceProfileInfo ids of the H100 80GB, the card of all workloads (reference: NVIDIA's MIG user guide).
PROFILES = {19: "1g.10gb", 20: "1g.10gb+me", 15: "1g.20gb", 14: "2g.20gb", 9: "3g.40gb", 5: "4g.40gb", 0: "7g.80gb"}
CLAIM_S = 10
LAG_S = 0.5


def what(event):
    """Of an audit record: (verb, resource, name)."""
    ref = event["objectRef"]
    return event["verb"], "/".join(filter(None, (ref["resource"], ref.get("subresource")))), ref.get("name", "")


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
        self.counts.update(self.hardware_counts(world))
        self.broken = [text for check in (self.consumers, self.preconditions, self.truth, self.neighbours) for text in check(world)]

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
            "hardware": {n.name: [[n.layout(i), n.placements(i)] for i in range(len(n.cards()))] for n in world.nodes},
            "journals": {n.name: sorted(p.name for p in (n.folder / "state").iterdir() if p.name != "lock") for n in world.nodes},
        }

    def dictionary(self, world):
        words = {world.rig.id: "T"}
        for n, node in enumerate(world.nodes):
            words |= {card["uuid"]: f"GPU-{n}-{i}" for i, card in enumerate(node.cards())}
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
        return "N" if key in ("giID", "ciID") else value

    def hardware_counts(self, world):
        """What was made and destroyed. Who is killed in the middle of a change goes back and makes it again."""
        names = {node.name: self.translate(node.name) for node in world.nodes}
        return Counter(
            (r["call"], names[node], f"card {r['gpu']}") for node, log in self.log.items() for r in log if r["call"] in CHANGES and r["result"] == 0
        )

    # --- at every step ---

    def consumers(self, world):
        """S1: nothing is destroyed while a pod holds it."""
        offset = time.time() - time.monotonic()
        for held in getattr(world.workload, "holds", ()):
            for r in self.log[held["node"]]:
                at = r["endNs"] / 1e9 + offset
                if r["call"] == "nvmlGpuInstanceDestroy" and r["result"] == 0 and held["since"] < at < held["until"] and f"start={held['start']} " in r["args"]:
                    yield f"S1: what a pod holds was destroyed at {at:.3f}, {held['until'] - at:.3f} s before it ended"

    def preconditions(self, world):
        """S3: nothing is deleted or evicted but the one that was meant."""
        for e in self.writes:
            verb, resource, name = what(e)
            body = e.get("requestObject", {})
            options = body.get("deleteOptions", body) or {}
            if (verb == "delete" or resource == "pods/eviction") and not options.get("preconditions", {}).get("uid"):
                yield f"S3: {verb} {resource} {name} without a uid"

    def truth(self, world):
        """S5, S6: each status, and each Node's resources, against what the hardware was just before and, for resources, until the next."""
        offset = time.time() - time.monotonic()
        mark_time = world.marked
        for node in world.nodes:
            history = history_of(self.log[node.name], offset)
            offers = [(mark_time, world.offered[node.name])]
            for e in self.writes:
                verb, resource, name = what(e)
                said = e.get("responseObject", {}).get("status", {})
                at = seconds(e["stageTimestamp"])
                if name != node.name or verb == "delete":
                    continue
                if resource == "devices/status":
                    yield from lies(said, history, at, name)
                if resource in ("nodes/status", "nodes"):
                    offers.append((at, said.get("allocatable", {})))
            yield from overdrawn(offers, history, node.name)

    def neighbours(self, world):
        """S7: cards that nobody asked to change stay as they are. Every workload says which it asks."""
        spared = getattr(world.workload, "spared", ())
        for node in world.nodes:
            for record in self.log[node.name]:
                if record["gpu"] in spared and record["result"] == 0:
                    yield f"S7: {record['call']} on card {record['gpu']} of {node.name}"


def seconds(text):
    """An audit log's time as a Unix time."""
    whole, _, part = text.rstrip("Z").partition(".")
    return time.mktime(time.strptime(whole, "%Y-%m-%dT%H:%M:%S")) - time.timezone + float(f"0.{part or 0}")


def history_of(log, offset):
    """[(time, {gpu: sorted [(profile, start)]})]: what stood from then on, from the simulator's log of changes."""
    standing, history = {}, [(0, {})]
    for r in log:
        args = dict(w.split("=") for w in r["args"].split() if "=" in w)
        card = standing.setdefault(r["gpu"], {})
        if r["result"] != 0:
            continue
        if r["call"].startswith("nvmlDeviceCreateGpuInstance"):
            card[args["gi"]] = (PROFILES.get(int(args["profile"]), args["profile"]), int(args["start"]))
        elif r["call"] == "nvmlGpuInstanceDestroy":
            card.pop(args["gi"], None)
        history.append((r["endNs"] / 1e9 + offset, {gpu: sorted(c.values()) for gpu, c in standing.items()}))
    return history


def shown_between(history, gpu, begin, end):
    """All that the card was in this time."""
    before = [s for t, s in history if t <= begin][-1:]
    return [s.get(gpu, []) for s in before + [s for t, s in history if begin < t <= end]]


def lies(status, history, at, name):
    for card in status.get("devices", []):
        claim = sorted((p["profile"], int(re.match(r"\d+", str(p["placement"]))[0])) for p in card.get("partitions", []) if "placement" in p)
        whole = [[profile_start for profile_start in state] for state in shown_between(history, card["index"], at - CLAIM_S, at)]
        if claim not in whole:
            yield f"S5: the status of {name} claims {claim} of card {card['index']} at {at:.3f}; it was {whole}"


def overdrawn(offers, history, name):
    """What a Node offered, and what there was. The controller takes off what it orders away first; of what changes without
    an order it learns by the status, LAG_S is for that."""
    for (at, offer), (until, _) in zip(offers, offers[1:] + [(float("inf"), {})]):
        for t, state in [s for s in history if s[0] <= at][-1:] + [s for s in history if at < s[0] < until - LAG_S]:
            have = Counter(f"nvidia.com/mig-{p.replace('+', '.')}" for card in state.values() for p, _ in card)
            for resource, count in offer.items():
                if resource.startswith("nvidia.com/mig-") and int(count) > have[resource]:
                    yield f"S6: {name} offers {count} {resource} from {at:.3f} to {until:.3f}; at {max(t, at):.3f} there are {have[resource]}"
                    return


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
        self.trace = self.first.trace

    def judge(self, outcome, harms):
        """What is wrong with a disturbed run. An agent that is killed in the middle of a change goes back, and begins anew."""
        begins_anew = any(h.do == "kill" and h.by.startswith("agent") for h in harms)
        wrong = list(outcome.broken)
        wrong += [f"{path} is {b!r}, not {a!r}" for path, a, b in differences(self.first.state, outcome.state) if path not in self.masked]
        for key in set(self.first.counts) | set(outcome.counts):
            if key not in self.loose and not (begins_anew and key[0] in CHANGES) and self.first.counts[key] != outcome.counts[key]:
                wrong.append(f"{' '.join(key)}: {outcome.counts[key]} times, not {self.first.counts[key]}")
        return wrong
