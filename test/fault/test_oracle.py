# SPDX-License-Identifier: Apache-2.0
"""The judge, judged: each invariant is fed one record that is right and one that is not, and must tell them apart."""

import json
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

sys.path[:0] = [str(Path(__file__).resolve().parent), str(Path(__file__).resolve().parent.parent / "e2e")]

import invariants as inv  # noqa: E402
import library  # noqa: E402
import oracle  # noqa: E402
import plans  # noqa: E402
from library import Call, CallHarm  # noqa: E402
from proxy import Harm  # noqa: E402
from slot_files import SlotFiles  # noqa: E402

T = "2026-01-02T03:04:{:09.6f}Z"
BASE = inv.seconds(T.format(0))
NODE = "n0"


def at(second):
    return BASE + second


def only(texts, *invariants):
    """Exactly these invariants speak, once each."""
    texts = list(texts)
    assert [t.split(":")[0] for t in texts] == list(invariants), texts


def call(name, second, args="", gpu=0, result=0, pid=7, lasts=0.0):
    ns = int((second + lasts) * 1e9)
    return {"call": name, "args": args, "gpu": gpu, "result": result, "pid": pid, "startNs": int(second * 1e9), "endNs": ns, "mutating": True}


def created(second, gi, start, profile=9, **more):
    return call("nvmlDeviceCreateGpuInstanceWithPlacement", second, f"profile={profile} gi={gi} start={start} size=4", **more)


def destroyed(second, gi, start, **more):
    return call("nvmlGpuInstanceDestroy", second, f"gi={gi} start={start} size=4", **more)


def write(second, verb, resource, name=NODE, user=inv.CONTROLLER, code=200, **more):
    resource, _, sub = resource.partition("/")
    ref = {"resource": resource, "name": name, **({"subresource": sub} if sub else {})}
    times = {"requestReceivedTimestamp": T.format(second), "stageTimestamp": T.format(second + 0.001)}
    return {"verb": verb, "objectRef": ref, "user": {"username": user}, "responseStatus": {"code": code}, **times, **more}


def lease(second, holder="controller_1", seconds=15):
    return write(second, "update", "leases", "cleave-controller", responseObject={"spec": {"holderIdentity": holder, "leaseDurationSeconds": seconds}})


HALVES = [created(1, 1, 0), created(2, 2, 4)]
HISTORY = inv.history_of(HALVES, BASE)
HALF = "nvidia.com/mig-3g.40gb"


# --- S1 ---


def held(start=4, since=3.0, until=float("inf"), **more):
    return {"node": NODE, "start": start, "since": at(since), "until": at(until), **more}


def test_s1_what_a_pod_holds_is_not_destroyed():
    only(inv.taken_away([held()], [*HALVES, destroyed(5, 2, 4)], BASE), "S1")


def test_s1_what_no_pod_holds_may_be():
    log = [*HALVES, destroyed(5, 1, 0), destroyed(5, 2, 4, result=19), destroyed(9, 2, 4)]
    only(inv.taken_away([held(until=8.0)], log, BASE))


# --- S2 ---

PROFILES = [
    {"name": "3g.40gb", "size": 4, "slices": 3, "multiprocessors": 60, "memoryMiB": 40448},
    {"name": "7g.80gb", "size": 8, "slices": 7, "multiprocessors": 132, "memoryMiB": 80896},
]


def status(*places, profile="3g.40gb", memory=81559, **more):
    partitions = [{"profile": profile, "placement": place} for place in places]
    card = {"index": 0, "model": "H", "memoryMiB": memory, "partitions": partitions}
    return {"models": [{"name": "H", "migProfiles": PROFILES}], "devices": [card], **more}


def test_s2_what_fits_fits():
    only(inv.oversold(status("0:4", "4:4"), at(5), NODE))


def test_s2_partitions_do_not_overlap():
    only(inv.oversold(status("0:4", "2:4"), at(5), NODE), "S2")


def test_s2_memory_slices_and_processors_are_not_given_out_twice():
    only(inv.oversold(status("0:4", "4:4", memory=80000), at(5), NODE), "S2")
    only(inv.oversold(status("0:4", "4:4", "8:4"), at(5), NODE), "S2", "S2", "S2", "S2")


def test_s2_a_grant_is_of_what_is_there_and_for_one_pod():
    only(inv.granted_twice([held(0), held(4)], HISTORY, NODE))
    only(inv.granted_twice([held(4, until=6.0), held(4, since=7.0)], HISTORY, NODE))
    only(inv.granted_twice([held(4), held(4, since=7.0)], HISTORY, NODE), "S2")
    only(inv.granted_twice([held(2)], HISTORY, NODE), "S2")


def shared(*shares, memory=80000, most=2):
    """A status of a card with shares of so many MiB and percent."""
    parts = [{"uuid": str(i), "profile": "share", "slice": {"memoryMiB": m, "computePercent": c}} for i, (m, c) in enumerate(shares)]
    return {"devices": [{"index": 0, "uuid": "U", "memoryMiB": memory, "fractional": {"maxShares": most}, "partitions": parts}]}


def test_s2_shares_fit_on_their_card():
    only(inv.overshared(shared((40000, 50), (40000, 50)), at(5), NODE))
    only(inv.overshared(status("0:4", "4:4"), at(5), NODE))
    only(inv.overshared(shared((40000, 50), (40001, 50)), at(5), NODE), "S2")
    only(inv.overshared(shared((40000, 50), (40000, 51)), at(5), NODE), "S2")
    only(inv.overshared(shared((1, 0), (1, 0), (1, 0)), at(5), NODE), "S2")


def test_a_pod_that_is_known_by_its_uid_alone_has_its_share():
    (card,) = shared((1, 0), (2, 0))["devices"]
    for part, user in zip(card["partitions"], ({"uid": "u"}, {"namespace": "default", "name": "a"}), strict=True):
        part["inUseBy"] = [user]
    assert inv.shares_of(card) == [(1, 0, ["u"]), (2, 0, ["a"])]


def bound(second, pod, *shares, user=inv.SCHEDULER, code=201, notes=None):
    """The record that a pod is bound with: (uuid, MiB, percent) each."""
    record = {"v": 1, "c": [{"n": "main", "s": [{"u": u, "m": m, "c": c} for u, m, c in shares]}], "p": 0}
    notes = {inv.RECORD: json.dumps(record)} if notes is None else notes
    return write(second, "create", "pods/binding", pod, user, code, requestObject={"metadata": {"annotations": notes}})


LIMITS = {card: {"memoryMiB": 80000, "computePercent": 100, "maxShares": 2} for card in ("U", "V")}


def overbound(*writes, **ended):
    return inv.overbound(inv.bindings_of(writes), {pod: at(second) for pod, second in ended.items()}, LIMITS)


def test_s2_records_of_bound_pods_fit_on_the_cards():
    only(overbound(bound(1, "a", ("U", 40000, 50)), bound(2, "b", ("U", 40000, 50)), bound(3, "c", ("V", 80000, 100))))
    only(overbound(bound(1, "a", ("U", 40000, 0)), bound(2, "b", ("U", 40001, 0))), "S2")
    only(overbound(bound(1, "a", ("U", 1, 50)), bound(2, "b", ("U", 1, 51))), "S2")
    only(overbound(bound(1, "a", ("U", 1, 0), ("V", 1, 0)), bound(2, "b", ("U", 1, 0)), bound(3, "c", ("U", 1, 0))), "S2")
    only(overbound(bound(1, "a", ("W", 1, 0))), "S2")


def test_s2_a_pod_counts_until_its_deletion_was_sent():
    pods = [bound(1, "a", ("U", 80000, 0)), bound(5, "b", ("U", 80000, 0))]
    only(overbound(*pods, a=4))
    only(overbound(*pods, a=6), "S2")


def test_s2_a_pod_is_bound_once_and_with_a_record():
    a = ("U", 1, 0)
    only(overbound(bound(1, "a", a), bound(2, "a", a, code=409), bound(3, "b", a)))
    only(overbound(bound(1, "a", a), bound(2, "a", a)), "S2")
    only(overbound(bound(1, "a", notes={})), "S2")
    only(overbound(bound(1, "a", notes={}, user="system:kube-scheduler")))


# --- S2, S5, of what an agent writes for shares ---

PODS = {"a": {"slots": {"share.3"}, "cards": {"U"}, "asks": (40000, 50)}, "b": {"slots": {"share.3"}, "cards": {"V"}, "asks": (1000, 0)}}
CARDS = {"U": 0, "V": 1}
GONE, UNREAD = None, {}


def record(uid="a", slot=3, card="U", mib=40000, percent=50):
    return {"slot": slot, "card": card, "uid": uid, "memoryMiB": mib, "computePercent": percent}


def cdi(card=0, mib=40000, percent=50):
    env = ["NVIDIA_VISIBLE_DEVICES=void", f"CUDA_DEVICE_MEMORY_LIMIT_0={mib}m", f"CUDA_DEVICE_SM_LIMIT={percent}"]
    return {"devices": [{"name": "share.3", "containerEdits": {"env": env, "deviceNodes": [{"path": f"/dev/nvidia{card}"}]}}]}


def steps(*changes, slot="share.3"):
    """A log of changes, one a second."""
    return [(at(second), kind, slot, said) for second, (kind, said) in enumerate(changes, 1)]


MADE = [("record", record()), ("cdi", cdi())]
HANDED_ON = [("cdi", GONE), ("record", record("b", card="V", mib=1000, percent=0)), ("cdi", cdi(1, 1000, 0))]
RELEASED = [("cdi", GONE), ("record", GONE)]


def test_s2_one_share_a_slot():
    only(inv.ungranted(steps(*MADE, *HANDED_ON, *RELEASED), PODS, NODE))
    only(inv.ungranted(steps(("record", record(mib=39000, percent=0)), ("record", UNREAD)), PODS, NODE))
    only(inv.ungranted(steps(("record", record(slot=4))), PODS, NODE), "S2")
    only(inv.ungranted(steps(("record", record(slot=4)), slot="share.4"), PODS, NODE), "S2")
    only(inv.ungranted(steps(("record", record("stranger"))), PODS, NODE), "S2")


def test_s2_a_share_is_no_larger_than_its_pod_asks_for_and_on_the_card_that_was_chosen():
    for more in ({"mib": 40001}, {"percent": 51}, {"card": "V"}, {"card": "W"}):
        only(inv.ungranted(steps(("record", record(**more))), PODS, NODE), "S2")


def test_s5_the_record_is_what_runs():
    only(inv.unrecorded(steps(*MADE, *HANDED_ON, *RELEASED), CARDS, NODE))
    only(inv.unrecorded(steps(("record", UNREAD), ("cdi", cdi()), ("cdi", UNREAD)), CARDS, NODE))
    for other in (cdi(card=1), cdi(mib=40001), cdi(percent=0)):
        only(inv.unrecorded(steps(("record", record()), ("cdi", other)), CARDS, NODE), "S5")
    only(inv.unrecorded(steps(*MADE, *HANDED_ON[1:]), CARDS, NODE), "S5")


def test_s5_no_cdi_file_is_there_without_a_record():
    only(inv.unrecorded(steps(("record", record())), CARDS, NODE))
    only(inv.unrecorded(steps(*reversed(MADE)), CARDS, NODE), "S5")
    only(inv.unrecorded(steps(*MADE, *reversed(RELEASED)), CARDS, NODE), "S5")
    only(inv.unrecorded(steps(("cdi", UNREAD)), CARDS, NODE), "S5")


def test_s5_in_the_end_each_pod_has_its_slot_and_nobody_else_has_one():
    only(inv.unserved(steps(*MADE, *HANDED_ON), {"share.3": "b"}, NODE))
    only(inv.unserved(steps(*MADE, *RELEASED), {}, NODE))
    only(inv.unserved([], {"share.3": "a"}, NODE), "S5")
    only(inv.unserved(steps(*MADE), {"share.3": "b"}, NODE), "S5")
    only(inv.unserved(steps(*MADE), {}, NODE), "S5")
    only(inv.unserved(steps(*MADE, RELEASED[0]), {"share.3": "a"}, NODE), "S5")
    only(inv.unserved(steps(*MADE, RELEASED[0]), {}, NODE), "S5")


def put(path, said):
    """As an agent does it."""
    if said is GONE:
        path.unlink()
    else:
        draft = path.with_suffix(".tmp")
        draft.write_text(json.dumps(said))
        draft.rename(path)


def test_each_change_of_a_slots_files_is_seen_in_its_order(tmp_path):
    files = SlotFiles(tmp_path / "state", tmp_path / "cdi")
    paths = {"record": tmp_path / "state" / "slots" / "share.3.json", "cdi": tmp_path / "cdi" / "share.3.gpu.cleave.dev-nvidia-slot.json"}
    changes = [*MADE, *RELEASED, *MADE]
    for kind, said in changes:
        put(paths[kind], said)
    files.end()
    assert [(kind, slot) for _, kind, slot, _ in files.log] == [(kind, "share.3") for kind, _ in changes]
    assert [said for *_, said in files.log[2:4]] == [GONE, GONE]
    assert [(kind, said) for _, kind, _, said in files.log[4:]] == MADE


# --- S3 ---


def test_s3_deletes_and_evictions_name_a_uid():
    uid = {"preconditions": {"uid": "u"}}
    only(inv.unconditional([write(1, "delete", "devices", requestObject=uid), write(1, "create", "pods/eviction", requestObject={"deleteOptions": uid})]))
    only(inv.unconditional([write(1, "patch", "devices")]))
    only(inv.unconditional([write(1, "delete", "devices"), write(1, "create", "pods/eviction", requestObject={"deleteOptions": {}})]), "S3", "S3")


# --- S4 ---


def test_s4_who_holds_the_lease_writes():
    only(inv.leaderless([lease(0), write(1, "patch", "nodes/status"), lease(10), write(24, "patch", "devices")]))


def test_s4_nobody_else_does():
    other = {"username": inv.CONTROLLER, "extra": {"authentication.kubernetes.io/pod-name": ["other"]}}
    only(inv.leaderless([write(1, "patch", "devices"), lease(2)]), "S4")
    only(inv.leaderless([lease(0), {**write(1, "patch", "devices"), "user": other}]), "S4")
    only(inv.leaderless([lease(0), lease(5, holder=""), write(6, "patch", "devices")]), "S4")


def test_s4_not_after_the_lease_ran_out():
    only(inv.leaderless([lease(0), write(15.5, "patch", "devices")]), "S4")
    only(inv.leaderless([lease(0), {**lease(10), "responseStatus": {"code": 409}}, write(15.5, "create", "pods/eviction")]), "S4")


def test_s4_speaks_of_the_controller_alone_and_of_what_was_done():
    agent = "system:serviceaccount:cleave-node:cleave-agent"
    only(inv.leaderless([write(1, "patch", "devices/status", user=agent), write(1, "patch", "devices", code=403), write(1, "create", "events")]))


# --- S5, S6 ---


def test_s5_a_status_claims_what_is_there():
    only(inv.lies(status("0:4", "4:4"), HISTORY, at(5), NODE))
    only(inv.lies(status("0:4"), HISTORY, at(5), NODE))  # a moment ago it was
    only(inv.lies(status("0:4"), HISTORY, at(5 + inv.CLAIM_S), NODE), "S5")
    only(inv.lies(status("0:4", profile="7g.80gb"), HISTORY, at(5), NODE), "S5")


def test_s5_rolled_back_is_what_stood_before():
    back = {"type": "Applied", "status": "False", "reason": "RolledBack"}
    said = status("0:4", "4:4")
    only(inv.half_undone(said, {0: []}, at(5), NODE))
    said["devices"][0]["conditions"] = [back]
    only(inv.half_undone(said, {0: [("3g.40gb", 0), ("3g.40gb", 4)]}, at(5), NODE))
    only(inv.half_undone(said, {0: [("3g.40gb", 0)]}, at(5), NODE), "S5")


def test_s6_a_node_offers_no_more_than_there_is():
    gone = inv.history_of([*HALVES, destroyed(10, 2, 4)], BASE)
    only(inv.overdrawn([(at(5), {HALF: "2"}), (at(9), {HALF: "1"})], gone, NODE))
    only(inv.overdrawn([(at(5), {HALF: "2"}), (at(10.3), {HALF: "1"})], gone, NODE))  # LAG_S
    only(inv.overdrawn([(at(5), {HALF: "2"}), (at(12), {HALF: "1"})], gone, NODE), "S6")
    only(inv.overdrawn([(at(5), {HALF: "3"}), (at(6), {HALF: "1"})], gone, NODE), "S6")
    only(inv.overdrawn([(at(11), {HALF: "2"})], gone, NODE), "S6")


def test_s6_what_is_ordered_away_is_taken_off_first():
    gone = inv.history_of([*HALVES, destroyed(10, 2, 4)], BASE)
    only(inv.overdrawn([(at(5), {HALF: "2"}), (at(9.9), {HALF: "1"})], gone, NODE, late_s=0.0))
    only(inv.overdrawn([(at(5), {HALF: "2"}), (at(10.1), {HALF: "1"})], gone, NODE, late_s=0.0), "S6")


def test_s6_leaves_time_where_a_change_is_tried_again_but_not_for_ever():
    gone = inv.history_of([*HALVES, destroyed(10, 2, 4)], BASE)
    only(inv.overdrawn([(at(5), {HALF: "2"}), (at(11.5), {HALF: "1"})], gone, NODE, 2.0, 2.0))
    only(inv.overdrawn([(at(10.1), {HALF: "2"}), (at(10.2), {HALF: "1"})], gone, NODE, 2.0, 2.0))
    only(inv.overdrawn([(at(5), {HALF: "2"}), (at(13), {HALF: "1"})], gone, NODE, 2.0, 2.0), "S6")
    only(inv.overdrawn([(at(10.1), {HALF: "2"})], gone, NODE, 2.0, 2.0), "S6")


def test_s6_a_list_that_a_kubelet_noted_late_and_that_was_replaced_at_once_is_none():
    gone = inv.history_of([*HALVES, destroyed(10, 2, 4)], BASE)
    only(inv.overdrawn([(at(10.05), {HALF: "2"}), (at(10.1), {HALF: "1"})], gone, NODE, inv.NOTED_S))
    only(inv.overdrawn([(at(10.05), {HALF: "2"}), (at(10.9), {HALF: "1"})], gone, NODE, inv.NOTED_S), "S6")
    only(inv.overdrawn([(at(10.05), {HALF: "2"})], gone, NODE, inv.NOTED_S), "S6")


# --- S7 ---


def test_s7_nobody_touches_the_other_card():
    only(inv.disturbed((1,), [*HALVES, destroyed(3, 1, 0, gpu=1, result=19)], NODE))
    only(inv.disturbed((1,), [*HALVES, destroyed(3, 1, 0, gpu=1)], NODE), "S7")


def test_s7_what_it_has_stays_on_offer():
    only(inv.withdrawn({HALF: 2}, [(at(1), {HALF: "4"}), (at(2), {HALF: "2"})], NODE))
    only(inv.withdrawn({HALF: 2}, [(at(1), {HALF: "4"}), (at(2), {HALF: "1"}), (at(3), {})], NODE), "S7", "S7")


# --- L1, L2 ---


def test_l1_all_is_written_in_time_and_then_nothing():
    only(inv.restless([at(1), at(50)], at(0), 60, (at(50), at(53))))
    only(inv.restless([at(1), at(61)], at(0), 60, (at(61), at(64))), "L1")
    only(inv.restless([at(1), at(52)], at(0), 60, (at(50), at(53))), "L1")


def test_l2_a_call_that_does_not_return_is_told_of():
    log = [call("nvmlGpuInstanceDestroy", 10, lasts=4)]
    says = status(conditions=[{"type": "Stalled", "status": "True", "reason": "NVMLTimeout"}])
    only(inv.silent_hangs(log, [7], 1, [(at(11.2), says)], BASE, NODE))
    only(inv.silent_hangs(log, [8], 1, [], BASE, NODE))  # of another process
    only(inv.silent_hangs(log, [7], 1, [(at(11.2), status()), (at(14.5), says)], BASE, NODE), "L2")


# --- end states and counts ---


def outcome(state=None, counts=None, deaths=(), broken=()):
    counts = Counter({("create", "devices", "T-n0"): 1, ("nvmlGpuInstanceDestroy", "T-n0", "card 0"): 2} if counts is None else counts)
    return SimpleNamespace(state=state or {"a": [1, 2], "t": 1}, counts=counts, deaths=deaths, broken=list(broken), trace=[], calls=[])


def judged(other, *harms):
    return list(oracle.Reference([outcome(), outcome(state={"a": [1, 2], "t": 2})]).judge(other, harms))


def test_the_end_is_compared_field_by_field():
    assert judged(outcome(state={"a": [1, 2], "t": 3})) == []  # undisturbed runs differ in t
    assert judged(outcome(state={"a": [1, 3], "t": 1})) == ["/a/1 is 3, not 2"]
    assert judged(outcome(state={"a": [1], "t": 1})) == ["/a is [1], not [1, 2]"]
    assert judged(outcome(broken=["S1: x"])) == ["S1: x"]


def test_creates_and_deletes_are_counted():
    device, card = ("create", "devices", "T-n0"), ("nvmlGpuInstanceDestroy", "T-n0", "card 0")
    killed = Harm(by="agent0", verb="patch", resource="devices", do="kill")
    assert judged(outcome(counts={device: 2, card: 2}), killed) == ["create devices T-n0: 2 times, not 1"]
    assert judged(outcome(counts={device: 1, card: 3})) == ["nvmlGpuInstanceDestroy T-n0 card 0: 3 times, not 2"]
    assert judged(outcome(counts={device: 1, card: 4}), killed) == []  # back, and once more
    assert judged(outcome(counts={device: 1, card: 1}), killed) == []  # what failed undisturbed did not
    assert judged(outcome(counts={device: 1, card: 5}), killed) == ["nvmlGpuInstanceDestroy T-n0 card 0: 5 times, not 2"]


def test_nobody_dies_of_an_error():
    kills, fails = CallHarm(0, "nvmlGpuInstanceDestroy", 1, "kill-after"), CallHarm(0, "nvmlGpuInstanceDestroy", 1, "fail:IN_USE")
    once = [("agent0", -signal.SIGKILL)]
    assert judged(outcome(deaths=once), kills) == []
    assert len(judged(outcome(deaths=once * 2), kills)) == 1
    assert len(judged(outcome(deaths=once), fails)) == 1
    assert len(judged(outcome(deaths=[("agent0", -signal.SIGSEGV)]), kills)) == 1
    assert len(judged(outcome(deaths=[("controller", 1)]))) == 1


# --- plans of calls ---


def test_each_change_is_harmed_in_each_way_and_each_reading_in_one():
    destroy, read = "nvmlGpuInstanceDestroy", "nvmlDeviceGetUUID"
    log = [Call(name, name == destroy) for name in (read, destroy, destroy, read, destroy, read)]
    found = [(kind, harms[0].call, harms[0].nth, harms[0].do) for kind, harms in library.enumerate_plans([log])]
    assert len(found) == len(set(found))
    for nth in (1, 2, 3):
        assert {p[3] for p in found if p[1:3] == (destroy, nth)} >= {"kill", "kill-after", "hang:4"}
        codes = {p[3] for p in found if p[:3] == ("call-fails", destroy, nth)}
        assert len(codes) == (1 if nth == 2 else len(library.DESTROY))
    assert {(p[0], p[2]) for p in found if p[1] == read} == {("call-fails", n) for n in (1, 2, 3)} | {("call-hangs", 2), ("killed-before-call", 2)}
    assert [p for p in found if p[0] == "call-hangs-for-long"] == [("call-hangs-for-long", destroy, 1, "hang:60")]


SIMCTL = Path(__file__).resolve().parents[2] / "build" / "release" / "sim" / "cleave-simctl"


def every_call(names):
    """A run in which each call of each library is made, some more than once."""
    return [Call(call, how == "mutating") for call, (_, how) in names.calls.items() for _ in range(3)]


def test_no_plan_of_any_call_is_one_that_the_simulator_refuses(tmp_path):
    names = library.ask_simulator(SIMCTL, tmp_path)
    assert set(names.codes) == {"NVML", "MXSML"}
    every = list(library.enumerate_plans([every_call(names)]))
    assert {h.call for _, harms in every for h in harms} == set(names.calls)
    assert plans.refused(every, names) == []
    assert plans.refused([("kept", plans.read(path)[1]) for path in plans.kept()], names) == []
    strange = [("call-fails", [CallHarm(0, "mxSmlInit", 1, "fail:UNKNOWN")]), ("call-hangs", [CallHarm(0, "nvmlNone", 1, "hang:4")])]
    assert plans.refused(strange, names) == ["agent0 mxSmlInit #1 fail:UNKNOWN: MXSML has no such code", "agent0 nvmlNone #1 hang:4: no library has this call"]


def test_what_the_simulator_is_said_to_refuse_it_refuses(tmp_path):
    library.ask_simulator(SIMCTL, tmp_path)
    env = {"CLEAVE_SIM_STATE": str(tmp_path / "names")}
    for call, code, taken in (("mxSmlInit", "UNKNOWN", 0), ("mxSmlInit", "Failure", 1), ("nvmlInit_v2", "Failure", 0), ("nvmlInit_v2", "UNKNOWN", 1)):
        words = [SIMCTL, "fault", "add", "--call", call, "--action", f"fail:{code}"]
        done = subprocess.run(words, env=env, text=True, capture_output=True)
        assert (done.returncode == 0) == bool(taken), (call, code, done.stderr)


def test_a_sample_has_every_kind_of_every_class_of_each_library(tmp_path):
    names = library.ask_simulator(SIMCTL, tmp_path)
    calls = {w: list(library.enumerate_plans([every_call(names)])) for w in ("A", "B")}
    writes = [("refused", [Harm(by="a", verb="patch", resource="nodes", do=code)]) for code in ("409", "500")]
    every = {**calls, "C": writes, "D": []}
    picked = plans.sample(every, 3, names)
    strata = {plans.stratum(plan, names) for found in every.values() for plan in found}
    assert strata == {plans.stratum(plan, names) for found in picked.values() for plan in found}
    assert {s[1:] for s in strata if s[0] == "call-fails"} == {(of, how) for of in ("NVML", "MXSML") for how in ("life", "query", "mutating")}
    assert len(picked["C"]) == len(writes) and picked["D"] == [] and len(picked["A"]) + len(picked["B"]) == len(strata) - 1
    assert len(plans.sample({"A": calls["A"]}, 40, names)["A"]) == 40


def test_plans_are_written_down_and_read_again(tmp_path):
    for harms in ([CallHarm(0, "nvmlGpuInstanceDestroy", 2, "fail:IN_USE")], [Harm(by="a", verb="patch", resource="nodes", do="hold", until=3)]):
        plans.write(tmp_path / "plan.json", "FirstProfile", harms, "why")
        assert plans.read(tmp_path / "plan.json") == ("FirstProfile", harms, "why")
