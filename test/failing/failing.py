# SPDX-License-Identifier: Apache-2.0
"""Runs a program again and again, each time with another of its calls made to fail (fail.c).

A path is a program with what it starts from and what it must come to. sweep() counts the calls of a
class in an undisturbed run, then runs the path once for every call (or, in a sample, for some) and
judges each run: no report of a sanitizer, no death but the one that base/xalloc.h promises when
memory runs out, no hang, and then what the path itself checks, which always ends in a clean run.
"""

import concurrent.futures
import dataclasses
import errno
import os
import re
import shutil
import signal
import subprocess
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / "build" / "san"
LIBRARY = BUILD / "test" / "failing" / "fail.so"
MEMORY = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
WORKERS = max(2, os.cpu_count() or 2)
HANG_S = 120
SAMPLE = 4

# What each class of calls is made to fail with. Interrupted or partial calls must go unnoticed.
HOWS = {
    "alloc": ["ENOMEM"],
    "map": ["ENOMEM"],
    "open": ["EMFILE", "EIO"],
    "read": ["EIO", "EINTR", "short"],
    "write": ["ENOSPC", "EIO", "EINTR", "short"],
    "sync": ["EIO"],
    "name": ["EIO", "ENOSPC"],
    "stat": ["EIO"],
    "connect": ["ECONNREFUSED", "ENOBUFS"],
    "accept": ["EMFILE", "ECONNABORTED", "EINTR"],
    "poll": ["ENOMEM"],
    "wait": ["EINTR"],
    "spawn": ["EAGAIN"],
}
# Before which calls a program may be killed: those that change what others see.
KILL_HOWS = {kind: ["kill"] for kind in ("open", "write", "sync", "name", "connect")}
SOCKET_HOWS = {"read": ["ECONNRESET", "end"], "write": ["EPIPE"]}
INTERRUPTIBLE = re.compile(r"^failed (p?read|p?write|recv|recvfrom|send|sendto|poll|epoll_wait|accept4?)(64)? ")


@dataclasses.dataclass
class Run:
    """How one disturbed run ended."""

    where: str
    code: int
    out: str
    err: str
    failed: str  # the call, "" when the run did not come so far
    calls: int  # of the class; 0 when the run did not end by itself
    blind: bool = False  # the sanitizer could not watch it

    @property
    def gave_up(self):
        """Did it end as xalloc.h says that it does?"""
        return self.code == -signal.SIGABRT and bool(re.search(r"^out of (memory|descriptors: .*)\n\Z", self.err, re.M))

    @property
    def unnoticed(self):
        """Must it have ended as the undisturbed one?"""
        interrupted = self.where.endswith(("EINTR", "short")) and INTERRUPTIBLE.match(self.failed)
        return not self.failed or bool(interrupted)

    def __str__(self):
        return f"{self.where} [{self.failed.strip()}{source_of(self.failed)}]: {self.code}\n{self.out[-500:]}{self.err[-2000:]}"


def source_of(failed):
    """Where in the sources the call stands, for those of our own programs."""
    offset = re.search(r" in program\+(0x[0-9a-f]+)", failed)
    program = re.search(r"^program (.*)$", failed, re.M)
    if not offset or not program:
        return ""
    tool = subprocess.run(["addr2line", "-e", program[1], offset[1]], text=True, capture_output=True, check=False)
    return f" at {tool.stdout.strip()}"


# The sanitizer itself cannot go on: of a thread whose stack it could not be told of, it sees nothing.
BLIND = "AddressSanitizer: CHECK failed: sanitizer_linux"


def is_openssls(report, failed):
    """OpenSSL loses what it has got so far when an allocation of its own fails: leaks of nothing but its memory, and only then."""
    taken = re.findall(r"^ +#2 .*$", report, re.M)
    own = re.compile(r"lib(crypto|ssl)\.so")
    return bool("LeakSanitizer" in report and own.search(failed) and taken and all(own.search(frame) for frame in taken))


def spec(kind, n, how):
    return f"{kind}:{n}:{getattr(errno, how) if how.startswith('E') else how}"


def disturbed(argv, env, kind, n, how, stdin=""):
    """Runs the program with its n-th call failing."""
    with tempfile.TemporaryDirectory(dir=MEMORY) as folder:
        report = Path(folder) / "report"
        logs = Path(folder) / "sanitizer"
        options = f"verify_asan_link_order=0:log_path={logs}:allocator_may_return_null=1:exitcode=0"  # the reports tell
        env = {
            **env,
            "LD_PRELOAD": str(LIBRARY),
            "CLEAVE_FAIL": spec(kind, n, how),
            "CLEAVE_FAIL_REPORT": str(report),
            "ASAN_OPTIONS": options,
            "UBSAN_OPTIONS": f"print_stacktrace=1:log_path={logs}",
        }
        where = f"{Path(argv[0]).name} {' '.join(map(str, argv[1:3]))}: {kind} {n} {how}"
        done = subprocess.run(
            [str(word) for word in argv], env=env, input=stdin, text=True, capture_output=True, timeout=HANG_S, cwd=ROOT
        )
        said = report.read_text() if report.exists() else ""
        failed = f"{said.splitlines()[0]}\nprogram {argv[0]}" if said.startswith("failed") else ""
        calls = int((re.search(r"^calls (\d+)", said, re.M) or [0, 0])[1])
        run = Run(where, done.returncode, done.stdout, done.stderr, failed, calls)
        reports = [text for f in Path(folder).glob("sanitizer*") if not is_openssls(text := f.read_text(), failed)]
        told = [text for text in reports if BLIND not in text]
        assert not told, f"{run}\n{told[0][:4000]}"
        run.blind = bool(reports)
        return run


def environment(**more):
    keep = {k: v for k, v in os.environ.items() if not k.startswith(("CLEAVE_", "MIG_PARTED_"))}
    return {**keep, **{k: str(v) for k, v in more.items()}}


class Path_:
    """A program, what it starts from, and what must be true afterwards."""

    hows = HOWS
    workers = WORKERS

    def start(self, folder):
        """Fills the folder; returns (argv, env)."""
        raise NotImplementedError

    def check(self, folder, run, clean):
        """Judges what the run left behind, then runs it clean."""
        raise NotImplementedError

    def go(self, folder, kind, n, how):
        argv, env = self.start(Path(folder))
        return disturbed(argv, env, kind, n, how)

    def count(self, kind):
        """The undisturbed run, and how many calls of the class it makes."""
        with tempfile.TemporaryDirectory(dir=MEMORY) as folder:
            run = self.go(folder, kind, 0, "EIO")
            assert run.code == 0, str(run)
            return run

    def point(self, kind, n, how, clean):
        """Returns whether the n-th call was reached."""
        with tempfile.TemporaryDirectory(dir=MEMORY) as folder:
            run = self.go(folder, kind, n, how)
            if run.blind:
                return False
            orderly = run.code == -signal.SIGKILL if how == "kill" and run.failed else run.code in (0, 1, 2)
            orderly |= kind in ("alloc", "open") and run.gave_up
            assert orderly, str(run)
            if run.unnoticed:
                assert run.code == 0, str(run)
            self.check(Path(folder), run, clean)
            return bool(run.failed)

    def sweep(self, kind, whole):
        """Every call of the class, or some. Returns how many points were reached."""
        clean = self.count(kind)
        numbers = range(1, clean.calls + 1)
        if not whole and clean.calls > SAMPLE:
            numbers = sorted({1 + i * (clean.calls - 1) // (SAMPLE - 1) for i in range(SAMPLE)})
        points = [(kind, n, how, clean) for how in self.hows[kind] for n in numbers]
        with concurrent.futures.ThreadPoolExecutor(self.workers) as pool:
            futures = [pool.submit(self.point, *p) for p in points]
            faults = [f.exception() for f in futures if f.exception()]
        if faults:
            text = "\n\n".join(str(f) for f in faults[:8])
            raise AssertionError(f"{len(faults)} of {len(points)} points: {text}")
        return sum(f.result() for f in futures)


def copy(template, folder):
    shutil.copytree(template, folder, dirs_exist_ok=True)
