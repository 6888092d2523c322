#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Walks the state space that the schemas span, one property at a time, and says where the way matters.

    walk.py [--kind PLURAL...] [--jobs N] [--sample N] [--values N] [--list] [-k TEXT]

A case is an object that is valid as a whole, and the same with one property otherwise, as the API server takes it. The
ways other→good→other and good→other→good, each on hardware of its own, must end alike wherever they pass, a good
object must be Ready within READY_S of any other, and none of our programs may end. A card that nobody decides about is
as history left it: where there is one, and where an object does not come to be Ready, only what is said of the object
itself is compared.
"""

import argparse
import contextlib
import itertools
import json
import os
import queue
import re
import shutil
import sys
import threading
import time
from collections import namedtuple
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "e2e")]

import oracle  # noqa: E402
import schema  # noqa: E402
from conftest import RUNS, Cluster, Processes, remove_stale_runs, wait_for  # noqa: E402
from run import each, release  # noqa: E402
from stack import GROUP, ApiError, Rig, condition, install, is_current, layout_of  # noqa: E402

READY_S = 60  # a good object is Ready within this time, whatever there was before it
CALM_S = 0.5  # it has settled when nothing has been written for so long
SLOW_S = 2.5  # the same where no condition says that it is at an end
ALIKE_S = 20  # end states are alike after this time at the latest
HISTORY = ("placement", "giID", "ciID", "uuid", "pid", "id")
# Of a card of slices: it stays as it was where nobody says how it is to be.
STAYS = ("qosPolicy", "timesliceMilliseconds")
# The cards as a scheduler is told of them, in one text.
CARDS_TOLD = "metax-tech.com/node-gpu-devices"

HERE_ONLY = {"matchLabels": {"test": schema.LANE}}
HALVES = {"mode": "mig", "mig": {"profiles": {"3g.40gb": 2}}}
SLICES = [{"alias": "small", "memoryMiB": 1024, "computePercent": 10, "count": 4}, {"alias": "large", "memoryMiB": 32768, "computePercent": 50}]
SLICED = {"mode": "sgpu", "sgpu": {"qosPolicy": "fixed-share", "timesliceMilliseconds": 20, "slices": SLICES}}
# With no word of those that are refused while nothing holds a container to its share.
TERMS = {
    "maxShares": 4,
    "memoryOversubscriptionPercent": 100,
    "computeOversubscriptionPercent": 200,
    "enforcement": {"memory": "auto", "compute": "auto"},
    "qosPolicy": "best-effort",
    "allowDisable": False,
}
SHARED = {"mode": "native", "sharing": {"fractional": TERMS}}


def policy(*devices, selector=None):
    return {"nodeSelector": selector or HERE_ONLY, "devices": list(devices), "remainder": "native"}


def wanted(**card):
    return {"devices": [{"uuid": schema.UUID, **card}], "migStrategy": "mixed", "failurePolicy": "rollback"}


GOOD_POLICY = policy(HALVES)
GOOD_WANT = wanted(mode="mig", mig={"profiles": [{"profile": "3g.40gb", "count": 2}]})
EXPRESSION = {"matchExpressions": [{"key": "test", "operator": "In", "values": [schema.LANE]}]}
# Whole objects from which one property departs, and the good one that goes with each.
BASES = {
    "gpuprofiles": [
        (GOOD_POLICY, GOOD_POLICY),
        (policy({"mode": "mig", "mig": {"config": "all-balanced"}}),) * 2,
        (policy({"mode": "native", "selector": {"vendor": "nvidia"}, "sharing": {"timeSlicing": {"replicas": 4}}}),) * 2,
        (policy(HALVES, selector=EXPRESSION),) * 2,
        # These two need a kubelet to be served.
        (policy({"mode": "native", "sharing": {"mps": {"replicas": 4}}}), GOOD_POLICY),
        (policy(SHARED), GOOD_POLICY),
        (policy(SLICED),) * 2,
    ],
    "migconfigs": [
        ({"devices": [{"migEnabled": True, "migDevices": {"3g.40gb": 2}}]},) * 2,
        ({"devices": [{"migEnabled": False}]},) * 2,
    ],
    "devices": [
        (GOOD_WANT, GOOD_WANT),
        (wanted(mode="native", sharing={"timeSlicing": {"replicas": 4}}),) * 2,
        (wanted(mode="native", sharing={"mps": {"replicas": 4}}), GOOD_WANT),
        (wanted(**SHARED), GOOD_WANT),
        (wanted(**SLICED),) * 2,
    ],
}
KINDS = {"gpuprofiles": "GPUProfile", "migconfigs": "MIGConfig", "devices": "Device"}
# Reaches beyond the own node: alone on the control plane.
FAR = {("gpuprofiles", "nodeSelector")}
# Becomes a part of other names, where the run's own word is not known again.
PART_OF_NAMES = {"alias"}


class Case(namedtuple("Case", "plural path value other good")):
    def __str__(self):
        value = "absent" if self.value is schema.ABSENT else json.dumps(self.value)
        return f"{KINDS[self.plural]} {schema.name(self.path)} = {value[:60]}"

    def is_sliced(self):
        """Is it about slices, which need a card of another vendor?"""
        return "sgpu" in json.dumps(self.good)

    def is_far(self):
        return (self.plural, self.path[0]) in FAR


class Judge:
    """What the API server takes, asked without anything being made."""

    def __init__(self, rig):
        self.api = rig.api

    def refusal(self, plural, spec):
        """None, or why it is refused."""
        obj = {"apiVersion": "gpu.cleave.dev/v1alpha1", "kind": KINDS[plural], "metadata": {"name": "asked"}, "spec": spec}
        try:
            self.api.request("POST", f"{GROUP}/{plural}?dryRun=All&fieldValidation=Strict", obj)
        except ApiError as error:
            assert error.code in (400, 422), error
            return str(error)
        return None


def spread(todo, count):
    """So many, from the first property to the last."""
    return todo if not count else [todo[i * len(todo) // count] for i in range(min(count, len(todo)))]


def bases_of(plural, path):
    """Those that have the property or the object that holds it come first, and are the only ones then."""
    holding = [(base, good) for base, good in BASES[plural] if schema.found(base, path[:-1]) is not schema.ABSENT]
    return holding or BASES[plural]


def cases_of(judge, plural, whole, path, sub, required, first=0):
    """A property with every value that the API server takes in one of the bases, the first-th of all values first."""
    there = next((v for b, _ in bases_of(plural, path) if (v := schema.found(b, path)) is not schema.ABSENT), None)
    values = ([] if required else [schema.ABSENT]) + schema.good(sub, there)
    seen = []
    for value in values[first % len(values) :] + values[: first % len(values)]:
        for base, good in bases_of(plural, path):
            other = schema.changed(base, whole, path, value)
            if value == schema.LANE and path[-1] in PART_OF_NAMES:
                continue
            if other is None or other == good or other in seen or judge.refusal(plural, other):
                continue
            seen.append(other)
            yield Case(plural, path, value, other, good)
            break


def cases(judge, plural, sample=0, values=0, turn=7):
    """All of them, or so many values each of so many properties, from the first to the last."""
    whole = schema.spec_of(plural)
    chosen = spread(list(schema.properties(whole)), sample)
    found = (cases_of(judge, plural, whole, *p, first=i * turn * bool(values)) for i, p in enumerate(chosen, 1))
    return [case for some in found for case in itertools.islice(some, values or None)]


def past_the_schema(plural):
    """(path, value, spec) of what the API server must refuse."""
    whole = schema.spec_of(plural)
    for path, sub, required in schema.properties(whole):
        base = bases_of(plural, path)[0][0]
        for value in ([schema.ABSENT] if required else []) + list(schema.bad(sub)):
            spec = schema.changed(base, whole, path, value)
            if spec is not None:
                yield path, value, spec


# --- one way through the states ---


class Place:
    """A node of its own, whose cards one object decides about."""

    def __init__(self, cluster, folder, case):
        plural = self.plural = case.plural
        self.rig = Rig(cluster, Processes(folder), release)
        self.node = self.rig.node({"c500" if case.is_sliced() else "h100-80": 1 if plural == "devices" else 2})
        self.name = {"gpuprofiles": f"{self.rig.id}-p", "migconfigs": f"{self.rig.id}-c", "devices": self.node.name}[plural]
        self.path = f"{GROUP}/{plural}/{self.name}"
        if plural == "migconfigs":
            self.node.label(**{"nvidia.com/mig.config": self.name})
        card = self.cards()[0]
        bus = re.sub(r"^0000(?=.{4}:)", "", card.get("pciBusId", card.get("busId", card.get("bdf", ""))))
        self.words = {schema.LANE: self.rig.id, schema.UUID: card["uuid"], schema.BUS: bus or schema.BUS}
        self.pid = self.node.agent.pid

    def cards(self):
        shown = self.node.hardware()
        return shown["gpus"] or shown["metax"]

    def layouts(self):
        return [layout_of(card) if "migCurrent" in card else slices_of(card) for card in self.cards()]

    def own(self, spec):
        text = json.dumps(spec)
        for word, meaning in self.words.items():
            text = text.replace(json.dumps(word), json.dumps(meaning))
        return json.loads(text)

    def set(self, spec):
        if self.plural == "devices":
            self.rig.api.apply(self.path, {"apiVersion": "gpu.cleave.dev/v1alpha1", "kind": "Device", "spec": self.own(spec)}, "cleave-controller")
        else:
            self.rig.make(self.plural, self.name, self.own(spec))

    def objects(self):
        return [self.rig.api.get(p) for p in (self.path, self.node.path, f"/api/v1/nodes/{self.node.name}")]

    def is_ready(self):
        obj, device, node = self.objects()
        if self.plural == "migconfigs":
            told = node["metadata"]["labels"].get("nvidia.com/mig.config.state") == "success"
            return told and is_current(obj, "Accepted") and is_current(device)
        return is_current(obj) and is_current(device)

    def settle(self):
        """Until all has been said; whether it is Ready."""
        versions, since = None, time.monotonic()
        end = since + READY_S
        while True:
            now = self.objects()
            if versions != (versions := [o["metadata"]["resourceVersion"] for o in now]):
                since = time.monotonic()
            answered = all(o.get("status", {}).get("observedGeneration") == o["metadata"]["generation"] for o in now[:2])
            at_end = self.is_ready() or condition(now[0], "Stalled").get("status") == "True"
            if answered and time.monotonic() - since >= (CALM_S if at_end else SLOW_S):
                return self.is_ready()
            assert time.monotonic() < end, f"never at rest: {json.dumps([o.get('status', {}).get('conditions') for o in now[:2]])}"
            assert self.node.agent.running() and self.node.agent.pid == self.pid, f"the agent ended:\n{self.node.agent.tail()}"
            time.sleep(0.1)

    def state(self, ready):
        """What a state is compared by."""
        obj, device, node = self.objects()
        if not ready:
            return {"accepted": View(self).plain(condition(obj, "Accepted"))}
        obj = {**obj, "spec": None}  # what was asked for is not ours
        device = {**device, "spec": without_sources(device.get("spec", {}))}
        asked = {card["uuid"] for card in device.get("spec", {}).get("devices", [])}
        view = View(self, stays=[key for key in STAYS if key not in json.dumps(device["spec"])])
        if asked != {card["uuid"] for card in self.cards()}:
            return {"object": view.plain(obj if obj["kind"] != "Device" else condition(obj, "Ready"))}
        return view.plain({"object": obj, "device": device, "node": node, "hardware": self.layouts()})

    def end(self):
        self.rig.end()


def slices_of(card):
    """The layout of a card that can be cut into slices, without their ids."""
    terms = {"qosPolicy": card["schedClass"], "timesliceMilliseconds": card["timesliceMs"]}
    return {"sgpu": card["sgpu"], **terms, "slices": sorted((s["alias"], s["vramMiB"], s["computePct"]) for s in card["slices"])}


def without_sources(spec):
    """A card that an edit does not concern keeps the generation that it came from, and names its source for that."""
    lead = {**spec.get("source", {}), "generation": None}
    cards = [{k: v for k, v in c.items() if k != "source" or {**v, "generation": None} != lead} for c in spec.get("devices", [])]
    return {**spec, "devices": sorted(cards, key=lambda c: c["uuid"])}


def without_history(partition):
    kept = {k: v for k, v in partition.items() if k not in HISTORY}
    return {k: without_history(v) if k == "slice" else v for k, v in kept.items()}


class View(oracle.Outcome):
    """An end state without what is one run's own, and without where on a card history put what it asks for."""

    def __init__(self, place, stays=()):  # of a state, where Outcome is of a run
        self.words = {place.rig.id: "T"} | {card["uuid"]: f"GPU-{i}" for i, card in enumerate(place.cards())}
        self.stays = stays

    def plain(self, value, key=""):
        if key == CARDS_TOLD:
            value = json.loads(value)
        if isinstance(value, dict):
            value = {k: v for k, v in value.items() if k not in self.stays}
        if isinstance(value, dict) and key == "partitions":
            value = without_history(value)
        if key == "partitions" and isinstance(value, list):
            return sorted(json.dumps(without_history(p), sort_keys=True) for p in value)
        return super().plain(value, key)


def unlike(place, ready, expected):
    """Paths at which a state is not as expected, once it has had time to be."""
    end = time.monotonic() + ALIKE_S
    while True:
        found = list(oracle.differences(expected, place.state(ready)))
        if not found or time.monotonic() > end:
            return [f"{path} is {b!r}, not {a!r}" for path, a, b in found]
        time.sleep(0.25)


class Fresh:
    """What objects end in on new hardware, each found out once."""

    def __init__(self):
        self.known = {}

    def of(self, place, spec, ready):
        """The first to ask has just come there from nothing."""
        return self.known.setdefault(json.dumps(spec, sort_keys=True), (ready, place.state(ready)))


def pass_by(place, spec, must_be_ready, fresh, wrong, way):
    """Goes to a state, and compares it with what it should be."""
    place.set(spec)
    ready = place.settle()
    if must_be_ready and not ready:
        with contextlib.suppress(BaseException):
            ready = wait_for(place.is_ready, READY_S, "Ready")
    if must_be_ready and not ready:
        wrong.append(f"{way}: not Ready: {json.dumps(place.objects()[0].get('status'))}")
        return
    was_ready, expected = fresh.of(place, spec, ready)
    if was_ready and not ready:
        with contextlib.suppress(BaseException):
            ready = wait_for(place.is_ready, READY_S, "Ready")
    if was_ready and not ready:
        wrong.append(f"{way}: not Ready, which it is on new hardware: {json.dumps(place.objects()[0].get('status'))}")
    elif was_ready:
        wrong += [f"{way}: {text}" for text in unlike(place, True, expected)]
    else:
        # It may agree by history with what it could not bring about.
        wrong += [f"{way}: {text}" for text in unlike(place, False, expected)]


def walk(cluster, folder, case):
    """What is wrong with a case."""
    wrong, fresh = [], Fresh()
    for number, ways in enumerate(([case.other, case.good, case.other], [case.good, case.other, case.good])):
        place = Place(cluster, folder / str(number), case)
        try:
            for step, spec in enumerate(ways):
                way = "→".join("good" if s is case.good else "other" for s in ways[: step + 1])
                pass_by(place, spec, spec is case.good, fresh, wrong, way)
        finally:
            place.end()
    return wrong


# --- many ways ---


class Walkers:
    """Walks cases on one control plane, several at once, each on a node of its own."""

    def __init__(self, cluster, folder, jobs):
        self.cluster, self.folder, self.jobs = cluster, folder, jobs
        install(cluster)
        self.rig = Rig(cluster, Processes(folder / "controller"), release)
        self.done, self.numbers = queue.SimpleQueue(), iter(range(10**6))
        self.lock = threading.Lock()

    def cases(self, plurals, sample=0, values=0):
        judge = Judge(self.rig)
        return [case for plural in plurals for case in cases(judge, plural, sample, values)]

    def run(self, todo, tell=lambda case, wrong, took: None):
        """[(case, what is wrong with it)]. A Device's spec has no second writer: those come before the controller."""
        self.map([c for c in todo if c.plural == "devices"], self.jobs, tell)
        rest = [c for c in todo if c.plural != "devices"]
        if rest:
            controller = self.rig.controller()
            self.map([c for c in rest if not c.is_far()], self.jobs, tell)
            self.map([c for c in rest if c.is_far()], 1, tell)
            assert controller.running(), f"the controller ended:\n{controller.tail()}"
            assert controller.stop() == 0
        return [self.done.get() for _ in range(self.done.qsize())]

    def map(self, todo, jobs, tell):
        waiting = queue.SimpleQueue()
        for case in todo:
            waiting.put(case)

        def work(_):
            while True:
                try:
                    case = waiting.get_nowait()
                except queue.Empty:
                    return
                self.one(case, tell)

        each(range(jobs), work)

    def one(self, case, tell):
        begin = time.monotonic()
        with self.lock:
            folder = self.folder / f"{next(self.numbers):05d}"
        try:
            wrong = walk(self.cluster, folder, case)
        except BaseException as error:  # pytest.fail of wait_for is none of Exception
            if isinstance(error, KeyboardInterrupt):
                raise
            wrong = [f"{type(error).__name__}: {error}"]
        if not wrong:
            shutil.rmtree(folder, ignore_errors=True)
        self.done.put((case, wrong))
        tell(case, wrong, time.monotonic() - begin)

    def end(self):
        self.rig.end()


def tell(case, wrong, took):
    print("\n".join([f"{'not ok' if wrong else 'ok'} - {case} ({took:.1f} s)", *(f"    {text}" for text in wrong)]), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kind", action="append", choices=BASES)
    parser.add_argument("--jobs", type=int, default=4, help="so many at once, on one control plane")
    parser.add_argument("--sample", type=int, default=0, help="only so many properties of each kind")
    parser.add_argument("--values", type=int, default=0, help="only so many values of each property")
    parser.add_argument("--list", action="store_true", help="say what would be walked")
    parser.add_argument("-k", default="", help="only cases with this text")
    options = parser.parse_args()
    remove_stale_runs()
    folder = RUNS / f"run-{os.getpid()}"
    folder.mkdir(parents=True)
    cluster = Cluster(folder / "kube")
    failed = True
    try:
        cluster.start()
        failed = run(cluster, folder, options)
    finally:
        cluster.stop(purge=not failed)
        if not failed:
            shutil.rmtree(folder, ignore_errors=True)
    return 1 if failed else 0


def run(cluster, folder, options):
    walkers = Walkers(cluster, folder, options.jobs)
    try:
        todo = [c for c in walkers.cases(options.kind or BASES, options.sample, options.values) if options.k in str(c)]
        if options.list:
            print("\n".join(map(str, todo)))
            return False
        failed = sum(bool(wrong) for _, wrong in walkers.run(todo, tell))
    finally:
        walkers.end()
    print(f"{len({(c.plural, c.path) for c in todo})} properties\n{len(todo) - failed} passed, {failed} failed")
    return failed


if __name__ == "__main__":
    sys.exit(main())
