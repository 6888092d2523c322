# SPDX-License-Identifier: Apache-2.0
"""What a soak run is judged by, fed with what is right and what is not."""

import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "fault"), str(HERE.parent / "e2e")]

import pytest  # noqa: E402
import vitals  # noqa: E402
from judge import overdrafts, standing  # noqa: E402
from people import resources  # noqa: E402

SMALL = "nvidia.com/mig-1g.10gb"


def made(sequence, gi, start, gpu=0, result=0):
    return {"sequence": sequence, "call": "nvmlDeviceCreateGpuInstanceWithPlacement", "args": f"profile=19 gi={gi} start={start} size=1", "gpu": gpu, "result": result}


def destroyed(sequence, gi, gpu=0, result=0):
    return {"sequence": sequence, "call": "nvmlGpuInstanceDestroy", "args": f"gi={gi} start=0 size=1", "gpu": gpu, "result": result}


def test_what_stands_is_what_was_made_and_not_destroyed():
    log = [made(1, 7, 0), made(2, 8, 1), destroyed(3, 7), made(4, 7, 0, gpu=1), destroyed(5, 8, result=19), made(6, 9, 2, result=8)]
    assert [(r["sequence"], r["gpu"]) for r in standing(log)] == [(2, 0), (4, 1)]


def has(count):
    return {0: [("1g.10gb", i) for i in range(count)]}


def test_what_is_on_offer_and_not_there_is_told_with_its_time():
    history = [(0, {}), (10, has(2)), (20, has(0)), (30, has(2))]
    assert list(overdrafts([(12, {SMALL: "2"}), (23, {SMALL: "0"})], history)) == [(20, 23, SMALL)]


def test_an_offer_that_goes_first_is_no_overdraft():
    history = [(0, {}), (10, has(2)), (20, has(0))]
    assert list(overdrafts([(12, {SMALL: "2"}), (19, {})], history)) == []


def test_an_overdraft_that_lasts_is_told():
    ((begin, end, resource),) = overdrafts([(12, {SMALL: "2"})], [(0, {}), (10, has(1))])
    assert (begin, resource) == (12, SMALL) and end > 12


def test_whole_cards_and_partitions_are_what_a_layout_offers():
    assert resources("native") == {"nvidia.com/gpu": 1}
    assert resources({"1g.10gb": 7}) == {SMALL: 7}


class Taken:
    def __init__(self, at, anonymous=1 << 20, pid=1, threads=5, descriptors=30):
        self.at, self.anonymous, self.pid, self.threads, self.descriptors = at, anonymous, pid, threads, descriptors
        self.resident = 14 << 20


def record(*samples):
    r = vitals.Record("agent1")
    for s in samples:
        r.add(s, at_rest=True)
    return r


def test_the_slope_does_not_follow_an_outlier():
    assert vitals.slope([(0, 0), (1, 1), (2, 2), (3, 99), (4, 4)]) == pytest.approx(1, abs=0.5)


def test_memory_that_grows_without_end_is_told():
    hour = [Taken(60 * i, (1 << 20) + i * (64 << 10)) for i in range(60)]
    assert [t for t in record(*hour).judge() if "grew by" in t]
    assert list(record(*[Taken(60 * i) for i in range(60)]).judge()) == []


def test_memory_that_fills_at_the_beginning_is_not():
    assert list(record(*[Taken(60 * i, min(i, 10) << 20) for i in range(60)]).judge()) == []


def test_descriptors_and_threads_that_are_never_given_back_are_told():
    both = " ".join(record(*[Taken(i, descriptors=30 + i, threads=5 + i) for i in range(40)]).judge())
    assert "ever more descriptors" in both and "ever more threads" in both


def test_a_replica_that_begins_to_lead_does_not_leak():
    standby = [Taken(60 * i, 2 << 20, threads=9, descriptors=39) for i in range(20)]
    leader = [Taken(60 * i, 4 << 20, threads=22, descriptors=52) for i in range(20, 60)]
    assert list(record(*standby, *leader).judge()) == []


def test_only_the_newest_life_counts():
    killed = [Taken(60 * i, i << 20, pid=1) for i in range(30)]
    assert list(record(*killed, *[Taken(60 * i, pid=2) for i in range(30, 60)]).judge()) == []
