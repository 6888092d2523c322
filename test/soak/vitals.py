# SPDX-License-Identifier: Apache-2.0
"""What a process of ours costs, over time: memory, descriptors, threads, children; and whether that grows."""

import os
import statistics
from pathlib import Path

KIB = 1024
WARM_UP = 0.4  # of the time watched, at most WARM_UP_S: caches fill, arenas and stacks are touched for the first time
WARM_UP_S = 3600
# What may come on top within the time watched, whatever its length: tables with a bound that are not full yet, as that of
# Events, which are remembered for half an hour.
SLACK = 2 << 20
COUNT_SLACK = 16  # descriptors and threads: a replica that leads has more of both
SLOPE_PER_HOUR = 0.01  # of what the process has (R23 of the bars: below 1 % an hour after the first one)


def status(pid):
    """/proc/PID/status as a dict; {} when it is gone."""
    try:
        text = Path(f"/proc/{pid}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return {}
    return dict(line.split(":\t", 1) for line in text.splitlines() if ":\t" in line)


def children(pid):
    """The pids of all children of all threads."""
    found = set()
    try:
        for task in Path(f"/proc/{pid}/task").iterdir():
            found |= set(map(int, (task / "children").read_text().split()))
    except (FileNotFoundError, ProcessLookupError):
        pass
    return found


def descendants_of(folder):
    """{pid: argv} of every living process whose hardware lies in this folder."""
    found = {}
    for proc in Path("/proc").glob("[0-9]*"):
        try:
            if str(folder).encode() in (proc / "environ").read_bytes():
                found[int(proc.name)] = (proc / "cmdline").read_bytes().replace(b"\0", b" ").decode()
        except (FileNotFoundError, PermissionError, ProcessLookupError):
            continue
    return found


class Sample:
    def __init__(self, at, pid):
        said = status(pid)
        self.at, self.pid = at, pid
        self.anonymous = int(said["RssAnon"].split()[0]) * KIB
        self.resident = int(said["VmRSS"].split()[0]) * KIB
        self.threads = int(said["Threads"])
        self.descriptors = len(os.listdir(f"/proc/{pid}/fd"))


def sample(at, pid):
    """None when the process ends meanwhile, or has ended."""
    try:
        return Sample(at, pid)
    except (KeyError, FileNotFoundError, ProcessLookupError):
        return None


def slope(points):
    """Of (x, y) pairs, by Theil and Sen: the median of the slopes between pairs, which few outliers do not move."""
    if len(points) > 200:
        points = points[:: len(points) // 200 + 1]
    slopes = [(y2 - y1) / (x2 - x1) for i, (x1, y1) in enumerate(points) for x2, y2 in points[i + 1 :] if x2 > x1]
    return statistics.median(slopes) if slopes else 0.0


class Record:
    """One program's samples: those at rest, which are compared, and the most it ever had."""

    def __init__(self, name):
        self.name = name
        self.rest, self.most, self.lives = [], 0, set()

    def add(self, taken, at_rest):
        if not taken:
            return
        self.lives.add(taken.pid)
        self.most = max(self.most, taken.resident)
        if at_rest:
            self.rest.append(taken)

    def warm(self):
        """The samples at rest of the newest life, without its beginning; of those in which it led or those in which it did
        not, which its threads tell, the more."""
        life = [s for s in self.rest if s.pid == self.rest[-1].pid] if self.rest else []
        if not life:
            return []
        begin, end = life[0].at, life[-1].at
        warm = [s for s in life if s.at >= begin + min(WARM_UP_S, WARM_UP * (end - begin))]
        role = statistics.mode(s.threads for s in warm)
        return [s for s in warm if s.threads == role]

    def growth(self, what):
        """(a second's, of the whole time watched)"""
        life = self.warm()
        if len(life) < 3:
            return 0.0, 0.0
        per_second = slope([(s.at, getattr(s, what)) for s in life])
        return per_second, per_second * (life[-1].at - life[0].at)

    def judge(self):
        """What is wrong with it."""
        yield from self.judge_counts()
        life = self.warm()
        if len(life) < 3:
            return
        hours = (life[-1].at - life[0].at) / 3600
        _, grown = self.growth("anonymous")
        if grown > SLACK + SLOPE_PER_HOUR * hours * life[0].resident:
            yield f"{self.name} grew by {grown / KIB:.0f} KiB within {hours * 60:.0f} min: {[s.anonymous // KIB for s in life]}"

    def judge_counts(self):
        life = [s for s in self.rest if s.pid == self.rest[-1].pid]
        for what in ("descriptors", "threads"):
            counts = [getattr(s, what) for s in life]
            if counts and counts[-1] > counts[0] + COUNT_SLACK:
                yield f"{self.name} has ever more {what}: {counts}"
