#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs plans of harm and says which came out otherwise than undisturbed.

    run.py [--workload NAME...] [--kind KIND...] [--shard K/N] [--jobs N] [--sample N] [--done OUTPUT...] [--list] [PLAN...]

Without PLAN files, all plans that follow from undisturbed runs of each workload, and those in test/fault/plans.
A plan that fails is written to build/fault/failed, to be run again alone. Ends with "N passed, N failed"; a plan
whose request never came ("not reached": how often a status is written depends on the time) is neither.
"""

import argparse
import os
import queue
import shutil
import sys
import threading
import time
import traceback
import zlib
from collections import Counter
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "e2e")]

import catalog  # noqa: E402
import library  # noqa: E402
import oracle  # noqa: E402
import plans  # noqa: E402
import world  # noqa: E402
from conftest import ROOT, RUNS, Cluster, remove_stale_runs  # noqa: E402

FAILED = ROOT / "build" / "fault" / "failed"
UNDISTURBED = 3  # runs that a reference is made of
LONG_QUIET_S = 30  # after one of them, and after each plan that is kept, nobody may write for so long


def release(name):
    return ROOT / "build" / "release" / name


class Lane:
    """A control plane; one run after the other."""

    def __init__(self, folder):
        self.folder = folder
        self.cluster = Cluster(folder / "kube")
        self.runs = 0

    def run(self, workload, harms=(), quiet_s=world.QUIET_S):
        self.runs += 1
        return world.run(self.cluster, release, self.folder / f"{self.runs:05d}-{workload}", workload, harms, quiet_s)


class Lanes:
    """Does jobs on several control planes at once."""

    def __init__(self, folder, count):
        self.lanes = [Lane(folder / f"lane-{i}") for i in range(count)]
        each(self.lanes, lambda lane: lane.cluster.start())

    def map(self, function, jobs):
        """function(lane, job) of all."""
        waiting, done = queue.SimpleQueue(), queue.SimpleQueue()
        for number, job in enumerate(jobs):
            waiting.put((number, job))

        def work(lane):
            while True:
                try:
                    number, job = waiting.get_nowait()
                except queue.Empty:
                    return
                done.put((number, function(lane, job)))

        each(self.lanes, work)
        return [done.get() for _ in range(done.qsize())]

    def stop(self, purge):
        for lane in self.lanes:
            if hasattr(lane.cluster, "twin"):
                lane.cluster.twin.stop()
        each(self.lanes, lambda lane: lane.cluster.stop(purge))


def each(items, function):
    """In a thread each; the first error is raised."""
    errors = []

    def guarded(item):
        try:
            function(item)
        except BaseException as error:  # noqa: BLE001 - it is raised again
            errors.append(error)

    threads = [threading.Thread(target=guarded, args=(item,)) for item in items]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    if errors:
        raise errors[0]


def references(lanes, names, patiently):
    """What each workload ends in, undisturbed. patiently: after one run of each it is watched for LONG_QUIET_S."""
    outcomes = {}
    lock = threading.Lock()

    def undisturbed(lane, job):
        name, number = job
        outcome = lane.run(name, quiet_s=LONG_QUIET_S if patiently and number == 0 else world.QUIET_S)
        assert not outcome.broken, f"{name}, undisturbed: {outcome.broken}"
        with lock:
            outcomes.setdefault(name, []).append(outcome)

    lanes.map(undisturbed, [(name, number) for name in names for number in range(UNDISTURBED)])
    return {name: oracle.Reference(found) for name, found in outcomes.items()}


def judge(lane, reference, workload, harms, quiet_s=world.QUIET_S):
    """"ok", "not reached", or what is wrong."""
    try:
        wrong = reference.judge(lane.run(workload, harms, quiet_s), harms)
    except world.NotReached:
        return "not reached"
    except BaseException as error:  # pytest.fail of wait_for is none of Exception
        if isinstance(error, KeyboardInterrupt):
            raise
        # Of what no test said itself, the way there matters.
        expected = isinstance(error, AssertionError) or not isinstance(error, Exception)
        wrong = [str(error) if expected and str(error) else traceback.format_exc()]
    return "\n".join(wrong) if wrong else "ok"


def tell(workload, text, harms, said, took):
    word = said if said in ("ok", "not reached") else "not ok"
    lines = [f"{word} - {workload}: {text} ({took:.1f} s)"]
    if word == "not ok":
        lines += ["    " + line for line in said.splitlines()]
        plans.write(FAILED / f"{workload}-{text.replace(' ', '-').replace('/', '.')}.json", workload, harms)
    print("\n".join(lines), flush=True)


def enumerated(known, simulator):
    """{workload: [(kind, harms)]}, all of them; an order that the simulator does not take is an error before anything is run."""
    every = {name: list(plans.enumerate_plans(known[name].trace, known[name].calls)) for name in known}
    refused = [f"{name}: {why}" for name in every for why in plans.refused(every[name], simulator)]
    if refused:
        raise AssertionError("the simulator would refuse:\n" + "\n".join(refused))
    return every


def chosen(options, known, simulator):
    """(kind, workload, harms, text) of everything to be run."""
    for path in map(Path, options.plan):
        workload, harms, _ = plans.read(path)
        yield "kept", workload, harms, path.stem
    every = enumerated(known, simulator) if not options.plan else {}
    every = {name: [p for p in found if not options.kind or p[0] in options.kind] for name, found in every.items()}
    for name, found in (plans.sample(every, options.sample, simulator) if options.sample else every).items():
        yield from ((kind, name, harms, plans.label(kind, harms)) for kind, harms in found)
    for path in plans.kept() if not (options.plan or options.kind) else ():
        workload, harms, _ = plans.read(path)
        if workload in known:
            yield "kept", workload, harms, path.stem


def in_shard(plan, k, n):
    """By what it is called: enumerations on several machines need not agree on every plan."""
    _, workload, _, text = plan
    return zlib.crc32(f"{workload} {text}".encode()) % n == k - 1


def shard(text):
    k, n = map(int, text.split("/"))
    if not 1 <= k <= n:
        raise ValueError(text)
    return k, n


def done_before(outputs):
    """The lines of --list for the plans that came out well in these outputs of earlier runs."""
    said = (line.partition(" - ") for path in outputs for line in path.read_text().splitlines())
    return {text.rpartition(" (")[0] for word, _, text in said if word in ("ok", "not reached")}


def run_all(lanes, options, simulator):
    names = {plans.read(Path(p))[0] for p in options.plan} or options.workload or catalog.ALL
    known = references(lanes, names, patiently=not (options.sample or options.plan))
    done = done_before(options.done)
    todo = [plan for plan in chosen(options, known, simulator) if in_shard(plan, *options.shard) and f"{plan[1]}: {plan[3]}" not in done]
    tally = Counter()

    def one(lane, plan):
        kind, workload, harms, text = plan
        begin = time.monotonic()
        said = judge(lane, known[workload], workload, harms, LONG_QUIET_S if kind == "kept" and not options.sample else world.QUIET_S)
        tell(workload, text, harms, said, time.monotonic() - begin)
        tally[kind, said if said in ("ok", "not reached") else "failed"] += 1

    if options.list:
        for _, workload, _, text in todo:
            print(f"{workload}: {text}")
    else:
        lanes.map(one, todo)
    return tally


def report(tally):
    for kind in sorted({k for k, _ in tally}):
        print(f"  {kind}: " + ", ".join(f"{tally[kind, s]} {s}" for s in ("ok", "not reached", "failed")))
    passed, failed = (sum(n for (_, s), n in tally.items() if s == word) for word in ("ok", "failed"))
    print(f"{passed} passed, {failed} failed")
    return failed


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workload", action="append", choices=catalog.ALL)
    parser.add_argument("--kind", action="append", choices=plans.KINDS)
    parser.add_argument("--jobs", type=int, default=1, help="so many at once, each on a control plane of its own")
    parser.add_argument("--sample", type=int, default=0, help="only so many plans of each workload, and one of each kind, library and class of calls")
    parser.add_argument("--shard", type=shard, default=(1, 1), metavar="K/N", help="only the K-th of N parts of all plans")
    parser.add_argument("--done", action="append", type=Path, default=[], metavar="OUTPUT", help="what an earlier run printed: its plans that came out well are left out")
    parser.add_argument("--list", action="store_true", help="say what would be run")
    parser.add_argument("plan", nargs="*")
    options = parser.parse_args()
    remove_stale_runs()
    folder = RUNS / f"run-{os.getpid()}"
    folder.mkdir(parents=True)
    lanes = Lanes(folder, options.jobs)
    failed = 1
    try:
        failed = report(run_all(lanes, options, library.ask_simulator(release("sim/cleave-simctl"), folder)))
    finally:
        lanes.stop(purge=not failed)
        if not failed:
            shutil.rmtree(folder, ignore_errors=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
