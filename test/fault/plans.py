# SPDX-License-Identifier: Apache-2.0
"""Plans: files that say what goes wrong in which workload, and all of them that an undisturbed run gives rise to.

A plan is a JSON file of {"workload": NAME, "harms": [{...}]} (the fields of proxy.Harm, or, with a "call" into the vendor's
library, of library.CallHarm), with "why" where it is kept for a bug that it found.
"""

import json
from collections import Counter
from pathlib import Path

import library
from library import CallHarm
from proxy import WRITES, Harm

KEPT = Path(__file__).parent / "plans"
# Of an event stream, at most so many events in a row are withheld: a longer blindness is a longer hold of one more.
LONGEST = 6
PAST_S = 2
BLACKHOLE_S = 90

KINDS = {
    "killed-before-answer": "killed when the API server has done a write and before the program knows",
    "killed-after-answer": "killed as soon as it knows",
    "answer-lost": "the write is done, and the connection ends instead of an answer",
    "truncated": "the write is done, and the connection ends in the middle of the answer",
    "blackholed": "the write is done or not, and no answer comes, nor an end of the connection",
    "refused": "a write is answered 409, 429, 500, 503 or 504, or with a page of HTML, and not done",
    "missed": "events withheld from the n-th to the m-th, then 410: seen is only what has become of it",
    "twice": "an event comes twice",
    "killed-at-event": "killed when an event is about to come",
    "time-travel": "killed when an event is about to come, and started again on an API server that is in the past",
    "reconnected-to-the-past": "the same, not killed: its watches go on there",
    "call-fails": "a call into the vendor's library is answered with an error, once",
    "call-hangs": "one does not return until the agent has given it up for some seconds",
    "call-hangs-for-long": "one returns after a minute, with the deadline that agents have",
    "killed-before-call": "the agent, or its child that waits for events, is killed in a call that has done nothing yet",
    "killed-after-call": "killed when the hardware has changed and before it knows",
}


def is_write(r):
    return r.verb in WRITES and r.code < 300 and r.resource not in ("leases", "events", "tokenreviews", "subjectaccessreviews")


def enumerate_plans(trace, calls=()):
    """All plans that follow from an undisturbed run, as (kind, harms); the last harm is the one that a plan is about.
    trace: what went by the proxy; calls: into the vendor's library, of each node."""
    yield from library.enumerate_plans(calls)
    yield from plans_of_writes(trace)
    streams = Counter((r.by, r.resource) for r in trace if r.verb == "event")
    for (by, resource), n in sorted(streams.items()):
        yield from plans_of_events(dict(by=by, verb="event", resource=resource), n)


def plans_of_writes(trace):
    seen = Counter()
    for r in filter(is_write, trace):
        key = (r.by, r.verb, r.resource, r.subresource)
        seen[key] += 1
        at = dict(by=r.by, verb=r.verb, resource=r.resource, subresource=r.subresource, nth=seen[key])
        yield "killed-before-answer", [Harm(**at, at="committed", do="kill")]
        yield "killed-after-answer", [Harm(**at, at="answered", do="kill")]
        yield "answer-lost", [Harm(**at, at="committed", do="reset")]
        yield "truncated", [Harm(**at, at="committed", do="truncate")]
        if seen[key] == 1:
            yield from (("blackholed", [Harm(**at, at=when, do="blackhole", seconds=BLACKHOLE_S)]) for when in ("before", "committed"))
        for code in ("409", "429", "500", "503", "504", "html"):
            yield "refused", [Harm(**at, at="before", do=code)]


def plans_of_events(at, n):
    for first in range(1, n + 1):
        yield "twice", [Harm(**at, nth=first, do="duplicate")]
        yield "killed-at-event", [Harm(**at, nth=first, do="kill")]
        for many in range(1, min(LONGEST, n - first + 1) + 1):
            yield "missed", [Harm(**at, nth=first, do="hold", until=many)]
        yield "time-travel", [Harm(**at, nth=first, do="travel", seconds=PAST_S)]
        yield "reconnected-to-the-past", [Harm(**at, nth=first, do="reconnect", seconds=PAST_S)]
        for frozen in range(1, first):
            yield "time-travel", [Harm(**at, nth=frozen, do="freeze"), Harm(**at, nth=first, do="travel", seconds=PAST_S)]


def harms_of(plan):
    return [(CallHarm if "call" in words else Harm)(**words) for words in plan["harms"]]


def read(path):
    plan = json.loads(path.read_text())
    return plan["workload"], harms_of(plan), plan.get("why", "")


def write(path, workload, harms, why=""):
    path.parent.mkdir(parents=True, exist_ok=True)
    plan = {"workload": workload, **({"why": why} if why else {}), "harms": [h.words() for h in harms]}
    path.write_text(json.dumps(plan, indent=1) + "\n")


def kept():
    """The plans that found a bug once."""
    return sorted(KEPT.glob("*.json"))


def refused(every, names):
    """What of these [(kind, harms)] the simulator would refuse, and why. names: library.Names."""
    calls = (h for _, harms in every for h in harms if isinstance(h, CallHarm))
    return [why for why in map(names.refuses, calls) if why]


def stratum(plan, names):
    """What a sample has one of at least: each kind and, of calls, each library's and class's in each kind."""
    kind, harms = plan
    return (kind, *names.stratum(harms[-1])) if isinstance(harms[-1], CallHarm) else (kind,)


def spread(every, count):
    """So many of them, from the first to the last."""
    return [every[i * len(every) // count] for i in range(min(count, len(every)))]


def sample(every, count, names):
    """Of {workload: [(kind, harms)]} for each workload so many as count, and more where there are more strata than that: of
    each stratum one at least, of the workload that has fewest by then."""
    strata = {}
    for workload, found in every.items():
        for plan in found:
            strata.setdefault(stratum(plan, names), {}).setdefault(workload, []).append(plan)
    picked = {workload: [] for workload in every}
    for _, found in sorted(strata.items(), key=lambda item: (len(item[1]), item[0])):
        workload = min(found, key=lambda w: len(picked[w]))
        picked[workload].append(found[workload][len(found[workload]) // 2])
    for workload, found in every.items():
        rest = [plan for plan in sorted(found, key=lambda plan: plan[0]) if plan not in picked[workload]]
        picked[workload] += spread(rest, max(count - len(picked[workload]), 0)) if rest else []
    return picked


def label(kind, harms):
    harm = harms[-1]
    if isinstance(harm, CallHarm):
        return f"{kind} {harm.label()}"
    words = [kind, harm.by, harm.verb, "/".join(filter(None, (harm.resource, harm.subresource))), f"#{harm.nth}", harm.do]
    words += [f"x{harm.until}"] if harm.do == "hold" else []
    words += [f"{harm.at}"] if harm.do == "blackhole" else []
    return " ".join(words + [f"frozen-at-#{h.nth}" for h in harms[:-1]])
