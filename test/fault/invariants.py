# SPDX-License-Identifier: Apache-2.0
"""What must hold at every step, each as a function of plain records that yields what is wrong.

Records are those of the audit log (writes that were done), of the simulator's log of calls, and what a workload says of
its pods. No I/O here: test_oracle.py feeds each of them what is right and what is not.
"""

import json
import re
import time
from collections import Counter

# nvmlGpuInstanceProfileInfo ids of the H100 80GB, the card of all workloads (reference: NVIDIA's MIG user guide).
PROFILES = {19: "1g.10gb", 20: "1g.10gb+me", 15: "1g.20gb", 14: "2g.20gb", 9: "3g.40gb", 5: "4g.40gb", 0: "7g.80gb"}
CLAIM_S = 10
LAG_S = 0.5
NOTED_S = 0.25  # a kubelet acknowledges no list, and its stub's thread, on a busy machine, notes one so late; grants are refused at once
CONTROLLER = "system:serviceaccount:cleave-system:cleave-controller"
SCHEDULER = "system:serviceaccount:cleave-system:cleave-scheduler"
RECORD = "gpu.cleave.dev/allocation"


def what(event):
    """Of an audit record: (verb, resource, name)."""
    ref = event["objectRef"]
    return event["verb"], "/".join(filter(None, (ref["resource"], ref.get("subresource")))), ref.get("name", "")


def seconds(text):
    """An audit log's time as a Unix time."""
    whole, _, part = text.rstrip("Z").partition(".")
    return time.mktime(time.strptime(whole, "%Y-%m-%dT%H:%M:%S")) - time.timezone + float(f"0.{part or 0}")


def statuses(writes, name):
    """(time, status) of each write of a node's Device."""
    for e in writes:
        verb, resource, of = what(e)
        if of == name and resource == "devices/status" and verb != "delete":
            yield seconds(e["stageTimestamp"]), e.get("responseObject", {}).get("status", {})


def offers_of(writes, name):
    """(time, allocatable) of each write of a Node."""
    for e in writes:
        verb, resource, of = what(e)
        if of == name and resource in ("nodes", "nodes/status") and verb != "delete":
            yield seconds(e["stageTimestamp"]), e.get("responseObject", {}).get("status", {}).get("allocatable", {})


def bindings_of(writes):
    """(time, pod, record) of each pod that the scheduler bound; None: without a record."""
    for e in writes:
        verb, resource, name = what(e)
        if (verb, resource, e["user"].get("username")) == ("create", "pods/binding", SCHEDULER) and e["responseStatus"]["code"] < 300:
            notes = e["requestObject"]["metadata"].get("annotations", {})
            yield seconds(e["stageTimestamp"]), name, json.loads(notes.get(RECORD, "null"))


def shares_of(card):
    """[(MiB, percent, pods)]: the shares that a status shows of a card. An agent that has just started may know a pod by its uid alone."""
    shares = [p for p in card.get("partitions", []) if p.get("profile") == "share"]
    return [(p["slice"]["memoryMiB"], p["slice"]["computePercent"], [user.get("name", user.get("uid")) for user in p.get("inUseBy", [])]) for p in shares]


def limits_of(card):
    """What all its shares together may have, as a status says it, and no more than a card has."""
    return {"memoryMiB": card["memoryMiB"], "computePercent": 100, "maxShares": card.get("fractional", {}).get("maxShares", 0)}


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


# --- S1 ---


def taken_away(holds, log, offset):
    """Nothing is destroyed while a pod holds it. holds: of one node, {start, since, until}, with "gpu" where cards are
    several; start None: the whole card."""
    for held in holds:
        for r in log:
            at = r["endNs"] / 1e9 + offset
            if r["result"] == 0 and held["since"] < at < held["until"] and held.get("gpu", r["gpu"]) == r["gpu"] and ends(r, held["start"]):
                yield f"S1: what a pod holds was destroyed at {at:.3f}, {held['until'] - at:.3f} s before it ended"


def ends(record, start):
    """Does this call end the instance that begins there, or the card as a whole?"""
    if start is None:
        return record["call"] == "nvmlDeviceSetMigMode" and "mode=1" in record["args"]
    return record["call"] == "nvmlGpuInstanceDestroy" and f"start={start} " in record["args"]


# --- S2 ---


def oversold(status, at, name):
    """What a status shows of a card fits on it: places, compute slices, multiprocessors, memory."""
    models = {m["name"]: {p["name"]: p for p in m.get("migProfiles", [])} for m in status.get("models", [])}
    for card in status.get("devices", []):
        profiles = models.get(card.get("model"), {})
        parts = [(profiles[p["profile"]], *map(int, p["placement"].split(":"))) for p in card.get("partitions", []) if p.get("profile") in profiles]
        places = Counter(slot for _, start, size in parts for slot in range(start, start + size))
        if any(n > 1 for n in places.values()):
            yield f"S2: partitions of card {card['index']} of {name} overlap at {at:.3f}: {sorted(places.elements())}"
        limits = {k: max((p[k] for p in profiles.values()), default=0) for k in ("size", "slices", "multiprocessors")}
        sums = {k: sum(p[k] for p, _, _ in parts) for k in limits}
        limits["memoryMiB"], sums["memoryMiB"] = card.get("memoryMiB", 0), sum(p["memoryMiB"] for p, _, _ in parts)
        yield from (f"S2: card {card['index']} of {name} has {limits[k]} {k}, and {sums[k]} are given out at {at:.3f}" for k in limits if sums[k] > limits[k])


def overshared(status, at, name):
    """The shares that a status shows fit on their cards."""
    for card in status.get("devices", []):
        if shares := shares_of(card):
            yield from exceeded(limits_of(card), shares, f"card {card['index']} of {name}", at)


def exceeded(limits, shares, card, at):
    """shares: (MiB, percent, ...)."""
    sums = {"memoryMiB": sum(s[0] for s in shares), "computePercent": sum(s[1] for s in shares), "maxShares": len(shares)}
    yield from (f"S2: {card} has {limits[k]} {k} for shares, and {sums[k]} are given out at {at:.3f}" for k in sums if sums[k] > limits[k])


def overbound(bindings, ended, cards):
    """What records give to pods that are bound and not deleted yet fits on the cards, and each pod is bound once.
    bindings: (time, pod, record); ended: {pod: when its deletion was sent}; cards: {uuid: limits}."""
    given = {}  # pod: [(uuid, MiB, percent)]
    for at, pod, record in sorted(bindings, key=lambda b: b[0]):
        if pod in given:
            yield f"S2: {pod} is bound once more at {at:.3f}"
        if not record:
            yield f"S2: {pod} is bound without a record at {at:.3f}"
        given[pod] = [(s["u"], s["m"], s["c"]) for c in (record or {}).get("c", []) for s in c["s"]]
        live = [share for p, shares in given.items() if ended.get(p, at) >= at for share in shares]
        for uuid in sorted({share[0] for share in given[pod]}):
            if uuid not in cards:
                yield f"S2: {pod} is bound with a share of {uuid} at {at:.3f}; there is no such card"
            else:
                yield from exceeded(cards[uuid], [share[1:] for share in live if share[0] == uuid], f"card {uuid}", at)


def granted_twice(holds, history, name):
    """What pods hold at one time are different partitions, and they are there. holds: of one node, with "gpu"."""
    for i, held in enumerate(holds):
        standing = shown_between(history, held.get("gpu", 0), held["since"], held["since"])
        if not any(start == held["start"] for card in standing for _, start in card):
            yield f"S2: {name} granted what starts at {held['start']} at {held['since']:.3f}; there is {standing}"
        for other in holds[i + 1 :]:
            same = all(held.get(k, 0) == other.get(k, 0) for k in ("gpu", "start"))
            if same and held["since"] < other["until"] and other["since"] < held["until"]:
                yield f"S2: {name} granted what starts at {held['start']} to two at a time"


# --- S2, S5, of what an agent writes for shares ---


def replayed(files):
    """(time, kind, slot, the slot's record, its CDI file) after each change. files: as slot_files.py has them."""
    now = {"record": {}, "cdi": {}}
    for at, kind, slot, said in files:
        now[kind][slot] = said
        yield at, kind, slot, now["record"].get(slot), now["cdi"].get(slot)


def share_in(spec):
    """What a slot's CDI file gives a container of one share: the card's number, MiB, percent."""
    (edits,) = (d["containerEdits"] for d in spec["devices"])
    (card,) = (int(n["path"].removeprefix("/dev/nvidia")) for n in edits["deviceNodes"])
    env = dict(e.split("=", 1) for e in edits["env"])
    return card, int(env["CUDA_DEVICE_MEMORY_LIMIT_0"].removesuffix("m")), int(env["CUDA_DEVICE_SM_LIMIT"])


def ungranted(files, pods, name):
    """One share a slot: its record is of a pod that the kubelet gave the slot, with no more than the pod asks for, of a card that it
    was bound with. pods: {uid: {"slots", "cards", "asks": (MiB, percent)}}."""
    for at, kind, slot, record, _ in replayed(files):
        if kind == "record" and record and not is_granted(slot, record, pods.get(record["uid"])):
            yield f"S2: {slot} of {name} is {record} at {at:.3f}; its pod has {pods.get(record['uid'])}"


def is_granted(slot, record, pod):
    if pod is None or slot != f"share.{record['slot']}":
        return False
    mib, percent = pod["asks"]
    return slot in pod["slots"] and record["card"] in pod["cards"] and record["memoryMiB"] <= mib and record["computePercent"] <= percent


def unrecorded(files, cards, name):
    """The record is what runs: a slot's CDI file, by which its container gets the share, is there only beside the slot's record, and
    says the same. A record may be alone. cards: {uuid: number}."""
    for at, _, slot, record, spec in replayed(files):
        if spec is not None and record is None:
            yield f"S5: {slot} of {name} has a CDI file and no record at {at:.3f}"
        elif spec and record and share_in(spec) != (cards.get(record["card"]), record["memoryMiB"], record["computePercent"]):
            yield f"S5: the CDI file of {slot} of {name} gives {share_in(spec)} at {at:.3f}; its record is {record}"


def unserved(files, slots, name):
    """In the end each slot of a pod that runs has its record and its CDI file, and no other slot has anything. slots: {slot: uid}."""
    last = {slot: (record, spec) for _, _, slot, record, spec in replayed(files)}
    found = {slot: record["uid"] if record and spec else None for slot, (record, spec) in last.items() if (record, spec) != (None, None)}
    if found != slots:
        yield f"S5: in the end the slots of {name} are of {found}; pods that run have {slots}"


# --- S3 ---


def unconditional(writes):
    """Nothing is deleted or evicted but the one that was meant."""
    for e in writes:
        verb, resource, name = what(e)
        body = e.get("requestObject", {})
        options = body.get("deleteOptions", body) or {}
        if (verb == "delete" or resource == "pods/eviction") and not options.get("preconditions", {}).get("uid"):
            yield f"S3: {verb} {resource} {name} without a uid"


# --- S4 ---


def leaderless(audit):
    """The controller writes while it holds the Lease, and within the Lease's time after a renewal. audit: since before the
    first renewal, leases too. A replica whose token names no pod is any."""
    holder, until = "", float("-inf")
    for e in sorted(audit, key=lambda e: e["requestReceivedTimestamp"]):
        if e["user"].get("username") != CONTROLLER or e["verb"] not in ("create", "update", "patch", "delete") or e["responseStatus"]["code"] >= 300:
            continue
        at = seconds(e["requestReceivedTimestamp"])
        verb, resource, name = what(e)
        if resource == "leases":
            lease = e["responseObject"]["spec"]
            holder, until = lease.get("holderIdentity", ""), at + lease.get("leaseDurationSeconds", 0)
        elif resource not in ("events", "tokenreviews", "subjectaccessreviews"):
            pod = e["user"].get("extra", {}).get("authentication.kubernetes.io/pod-name", [""])[0]
            if not holder or (pod and not holder.startswith(f"{pod}_")):
                yield f"S4: {verb} {resource} {name} by {pod or 'a replica'} at {at:.3f}, when {holder or 'nobody'} leads"
            elif at > until:
                yield f"S4: {verb} {resource} {name} at {at:.3f}, {at - until:.3f} s after the lease of {holder} had run out"


# --- S5, S6 ---


def claim_of(card):
    """Of a card as a status has it: sorted [(profile, start)]."""
    return sorted((p["profile"], int(re.match(r"\d+", str(p["placement"]))[0])) for p in card.get("partitions", []) if "placement" in p)


def lies(status, history, at, name):
    """A status claims of each card what it was a moment ago."""
    for card in status.get("devices", []):
        whole = shown_between(history, card["index"], at - CLAIM_S, at)
        if claim_of(card) not in whole:
            yield f"S5: the status of {name} claims {claim_of(card)} of card {card['index']} at {at:.3f}; it was {whole}"


def half_undone(status, before, at, name):
    """A card that is said to be rolled back is what it was before. before: {gpu: [(profile, start)]}."""
    for card in status.get("devices", []):
        reason = next((c["reason"] for c in card.get("conditions", []) if c["type"] == "Applied"), "")
        stands = before.get(card["index"], [])
        if reason == "RolledBack" and claim_of(card) != stands:
            yield f"S5: the status of {name} says that card {card['index']} is rolled back at {at:.3f}: {claim_of(card)}, not {stands}"


def overdrawn(offers, history, name, early_s=0.0, late_s=LAG_S):
    """What a Node offered, and what there was, from early_s after each offer until late_s before the next. What the controller
    orders away it takes off first; of what changes without an order it learns by the status, and late_s is for that; early_s
    for what it wrote before it learned, and for a kubelet's list that was noted late."""
    for (at, offer), (until, _) in zip(offers, offers[1:] + [(float("inf"), {})]):
        begin, end = at + early_s, until - late_s
        if early_s and begin >= end:
            continue
        for t, state in [s for s in history if s[0] <= begin][-1:] + [s for s in history if begin < s[0] < end]:
            have = Counter(f"nvidia.com/mig-{p.replace('+', '.')}" for card in state.values() for p, _ in card)
            for resource, count in offer.items():
                if resource.startswith("nvidia.com/mig-") and int(count) > have[resource]:
                    yield f"S6: {name} offers {count} {resource} from {at:.3f} to {until:.3f}; at {max(t, at):.3f} there are {have[resource]}"
                    return


# --- S7 ---


def disturbed(spared, log, name):
    """Cards that nobody asked to change stay as they are."""
    for r in log:
        if r["gpu"] in spared and r["result"] == 0:
            yield f"S7: {r['call']} on card {r['gpu']} of {name}"


def withdrawn(least, offers, name):
    """What they have stays allocatable throughout. least: {resource: count}; offers: (time, {resource: count})."""
    for at, offer in offers:
        for resource, n in least.items():
            if int(offer.get(resource, 0)) < n:
                yield f"S7: {name} offers {offer.get(resource, 0)} {resource} at {at:.3f}; cards that nobody touches have {n}"


# --- L1, L2 ---


def restless(times, since, bound_s, watched):
    """After the last fault or change (since) all is written within bound_s, and then nothing: watched is (from, to)."""
    late = [t for t in times if t > since + bound_s]
    if late:
        yield f"L1: {len(late)} writes later than {bound_s} s after the last fault, the last after {late[-1] - since:.3f} s"
    begin, end = watched
    again = [t for t in times if begin < t <= end]
    if again:
        yield f"L1: {len(again)} writes in the {end - begin:.1f} s in which all was as wanted"


def silent_hangs(log, pids, deadline_s, said, offset, name):
    """While a call of the agent does not return, the status says so, once its deadline is over. said: (time, status)."""
    for r in log:
        begin, end = r["startNs"] / 1e9 + offset, r["endNs"] / 1e9 + offset
        if r["pid"] not in pids or end - begin < deadline_s + 1:
            continue
        told = [at for at, status in said if begin + deadline_s <= at <= end and stalled_by(status) == "NVMLTimeout"]
        if not told:
            yield f"L2: {r['call']} of {name} did not return for {end - begin:.1f} s, and no status said NVMLTimeout"


def stalled_by(status):
    return next((c["reason"] for c in status.get("conditions", []) if c["type"] == "Stalled" and c["status"] == "True"), "")
