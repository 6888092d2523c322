# SPDX-License-Identifier: Apache-2.0
"""Turns on a card: the agent's arbiter, the limiter and the simulated driver, in time as it passes."""
import mmap
import pathlib
import re
import select
import signal
import subprocess

import pytest
from container import BUILT, ROOT, TURN, Container

PROBE = ROOT / "test/e2e/cuda_probe.c"
SPUN = re.compile(r"spun (\d+) (\d+)\n")
BEAT = re.compile(r"beat \d+ (\d+) ")


@pytest.fixture(scope="session")
def probe(tmp_path_factory):
    """A program that keeps a card busy, and says what was done until when."""
    path = tmp_path_factory.mktemp("probe") / "probe"
    subprocess.run(["gcc", "-O2", f"-I{ROOT}", "-o", path, PROBE, BUILT / "sim/libcuda.so.1"], check=True, timeout=60)
    return path


class Shared(Container):
    """A container whose folder the agent made."""

    def __init__(self, machine, path, share):
        super().__init__(machine, path, [])
        for one in self.share.iterdir():
            one.unlink()
        self.share.rmdir()
        self.share.symlink_to(share)

    def environment(self, **more):
        return super().environment(LD_LIBRARY_PATH="/usr/lib/x86_64-linux-gnu", **more)


class Spinner:
    """A process of a container that keeps the card busy."""

    def __init__(self, box, probe, word, seconds, us):
        command = [*box.enter, str(probe), word, str(seconds), str(us)]
        self.process = subprocess.Popen(command, env=box.environment(), stdout=subprocess.PIPE, text=True)
        self.counts = {}  # ms of the steady clock: pieces done until then

    def reads(self):
        line = self.process.stdout.readline()
        found = SPUN.fullmatch(line)
        if found:
            self.counts[int(found[1])] = int(found[2])
        return line

    def reaches(self, n):
        """Waits until it has said n times how far it is."""
        while len(self.counts) < n:
            assert self.reads(), "it has ended"

    def ends(self):
        while self.reads():
            pass
        self.process.wait(60)

    def done(self, begin, end):
        """The pieces between two times, from the counts next to them."""
        at = sorted(self.counts)
        first, last = min(ms for ms in at if ms >= begin), max(ms for ms in at if ms <= end)
        return (self.counts[last] - self.counts[first]) * (end - begin) / (last - first)

    def done_until(self, at):
        """The pieces that were said to be done until then."""
        return self.counts[max(ms for ms in self.counts if ms <= at)]


class Host:
    """The agent's side of some containers with shares of the machine's first card: (percent, policy); or of both, in an order: (percent, policy, (1, 0))."""

    def __init__(self, machine, folder, probe, shares):
        self.machine, self.folder, self.probe, self.shares, self.spinners, self.terms = machine, folder, probe, shares, [], {}
        self.root = folder / "shares"
        self.uuids = [gpu["uuid"] for gpu in machine.show()["gpus"]]
        self.start()
        self.boxes = [Shared(machine, folder / f"box{i}", self.root / f"share.{i}") for i in range(len(shares))]

    def start(self):
        words = [self.words(i, *share) for i, share in enumerate(self.shares)]
        self.process = subprocess.Popen([BUILT / "test/limiter/shares_host", self.root, *words], stdout=subprocess.PIPE, text=True)
        assert self.process.stdout.readline() == "ready\n"

    def words(self, slot, percent, policy, cards=(0,)):
        return f"{slot} {','.join(self.uuids[i] for i in cards)} 3000 {percent} {policy}"

    def gates(self, share):
        """How the gates of its two cards stand."""
        at = [128 + i * 128 + 48 for i in range(2)]
        if share not in self.terms:
            with (self.root / f"share.{share}/terms").open("rb") as file:
                self.terms[share] = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        select.select([], [], [], 0.0005)
        return [self.terms[share][i] for i in at]

    def spins(self, share, seconds, us=1000, word="spin"):
        self.spinners.append(Spinner(self.boxes[share], self.probe, word, seconds, us))
        return self.spinners[-1]

    def end(self):
        for one in self.spinners:
            one.process.kill()
            one.process.wait(20)
        self.process.terminate()
        self.process.wait(20)


@pytest.fixture
def host(h100, tmp_path, probe):
    """host((percent, policy)...): containers with these shares."""
    made = []

    def start(*shares):
        made.append(Host(h100, tmp_path, probe, shares))
        return made[-1]

    yield start
    for one in made:
        one.end()


def parts(spinners, after=1000, before=300):
    """What each had, in percent of all, while all of them ran."""
    for one in spinners:
        one.ends()
    begin, end = max(min(one.counts) for one in spinners) + after, min(max(one.counts) for one in spinners) - before
    assert end - begin > 2000, "all ran at the same time"
    had = [one.done(begin, end) for one in spinners]
    return [100 * n / sum(had) for n in had]


def test_thirty_and_seventy_percent_are_thirty_and_seventy(host):
    one = host((30, "lent"), (70, "lent"))
    small, _ = parts([one.spins(0, 8), one.spins(1, 8)])
    assert 25 < small < 35, small


def test_the_processes_of_a_container_have_its_share_together(host):
    one = host((50, "lent"), (50, "lent"))
    had = parts([one.spins(share, 8) for share in (0, 1, 1, 1)])
    assert 42 < had[0] < 58, had


def test_containers_with_two_cards_have_their_turns_on_both_at_once(host):
    """Beside others that have only one of them: a collective's kernel on one card would wait there for that on the other."""
    one = host((50, "lent", (0, 1)), (20, "lent"), (80, "lent", (1,)))
    spinners = [one.spins(0, 8, word="pair"), one.spins(1, 8), one.spins(2, 8, word="second")]
    for spinner in spinners:
        spinner.reaches(10)
    seen = [one.gates(0) for _ in range(4000)]
    had, alone = sum(TURN in gates for gates in seen), sum(gates.count(TURN) == 1 for gates in seen)
    assert had > 1000 and alone < had / 10, (had, alone)
    for spinner in spinners:
        spinner.ends()
    begin, end = max(min(s.counts) for s in spinners) + 1000, min(max(s.counts) for s in spinners) - 300
    assert spinners[0].done(begin, end) > 0.15 * (end - begin), "of the steps of a millisecond that the cards could do"


def test_who_is_capped_has_no_more_also_alone(host):
    one = host((20, "capped"))
    spinner = one.spins(0, 6)
    spinner.ends()
    begin, end = min(spinner.counts) + 1000, max(spinner.counts) - 300
    assert 0 < spinner.done(begin, end) / (end - begin) < 0.24


def test_high_priority_has_the_card_first_and_low_what_is_left_and_a_little(host):
    one = host((0, "lent"), (100, "low"))
    had = parts([one.spins(0, 8), one.spins(1, 8)])
    assert 0.2 < had[1] < 5, "a turn of 10 ms in a second"


def test_high_priority_waits_for_one_kernel_of_low_priority_not_for_two(host):
    one = host((0, "lent"), (0, "low"))
    low, high = one.spins(1, 8, us=12000, word="feed"), one.spins(0, 6, word="beat")
    low.reaches(1)
    median = next(int(found[1]) for line in iter(high.reads, "") if (found := BEAT.match(line)))
    assert median < 12000, "7 ms, or 19 where the next kernel is behind the first"


def test_low_priority_has_all_of_it_while_nobody_else_wants_it(host):
    one = host((0, "lent"), (0, "low"))
    first, low = one.spins(0, 5), one.spins(1, 10)
    first.ends()
    low.ends()
    end = max(first.counts)
    beside, alone = (low.done_until(at + 3000) - low.done_until(at) for at in (end - 3000, end + 500))
    assert alone > 5 * beside


def test_a_killed_holder_and_a_stopped_one_leave_the_card_to_the_other(host):
    one = host((50, "lent"), (50, "lent"))
    first, killed, stopped = one.spins(0, 9), one.spins(1, 9), one.spins(1, 9)
    for spinner in (killed, stopped, first):
        spinner.reaches(15)
    begin = max(first.counts)
    killed.process.kill()
    stopped.process.send_signal(signal.SIGSTOP)
    first.ends()
    assert first.done(begin + 1500, begin + 2500) > 1.3 * first.done(begin - 1000, begin)


def test_another_agent_goes_on_with_the_containers_that_are_there(host):
    one = host((30, "lent"), (70, "lent"))
    spinners = [one.spins(0, 12), one.spins(1, 12)]
    for spinner in spinners:
        spinner.reaches(20)
    one.process.kill()
    one.process.wait()
    one.start()
    small, _ = parts(spinners, after=5000)
    assert 24 < small < 36, small


def switches(host):
    """How often the agent's side has waited, and was woken."""
    text = pathlib.Path(f"/proc/{host.process.pid}/status").read_text()
    return int(re.search(r"^voluntary_ctxt_switches:\s+(\d+)", text, re.M)[1])


def test_nobody_wakes_an_agent_whose_containers_are_alone(host):
    one = host((30, "lent"), (70, "lent"))
    spinner = one.spins(0, 4)
    spinner.reaches(10)
    before = switches(one)
    spinner.reaches(25)
    assert switches(one) == before
