# SPDX-License-Identifier: Apache-2.0
"""The same libraries under sanitizers."""
import os
import subprocess
import sys

import pytest
from compiled import ROOT, program
from container import BUILT
from cuda import CONTEXT
from test_processes import SHARE_SOURCES

inner = os.environ.get("VARIANT", "release") != "release"


def build(variant):
    for folder in ("sim", "limiter"):
        subprocess.run(["make", "-s", "-j2", "-C", str(ROOT / folder), f"VARIANT={variant}"], check=True)


def entering(container, variant):
    """The words that enter a container with libraries of that variant."""
    return [word.replace(str(BUILT), str(ROOT / "build" / variant)) for word in container.enter]


@pytest.mark.skipif(inner, reason="of the plain libraries")
def test_threads_of_one_process_do_not_race(h100, container, tmp_path):
    """TSan; the program is the simulator's own (test/sim/threads_cuda.c), before which the limiter stands here."""
    build("tsan")
    out = ROOT / "build/tsan/sim"
    threads = program(tmp_path / "threads", "test/sim/threads_cuda.c", flags=["-fsanitize=thread"], last=[f"-L{out}", "-l:libcuda.so.1"])
    one = container(h100, {"mib": 20000, "context": CONTEXT}, {"mib": 20000, "context": CONTEXT})
    environment = one.environment(TSAN_OPTIONS="halt_on_error=1")
    result = subprocess.run([*entering(one, "tsan"), str(threads)], env=environment, text=True, capture_output=True, timeout=300)
    assert result.returncode == 0, result.stderr
    assert list(one.taken(0).values()) == [CONTEXT], "the one context that it kept"


@pytest.mark.skipif(inner, reason="of the plain libraries")
def test_threads_of_one_process_share_its_share_without_a_race(h100, container, tmp_path):
    storm = program(tmp_path / "storm", *SHARE_SOURCES, flags=["-fsanitize=thread"])
    one = container(h100, {"mib": 8})
    result = one.run(storm, 1, 2000, TSAN_OPTIONS="halt_on_error=1")
    assert result.returncode == 0, result.stderr


def runtime(name):
    out = subprocess.run(["gcc", f"-print-file-name={name}"], check=True, text=True, capture_output=True)
    return out.stdout.strip()


@pytest.mark.skipif(inner, reason="this is that run")
def test_the_suite_is_clean_under_sanitizers():
    build("san")
    env = dict(
        os.environ,
        VARIANT="san",
        LD_PRELOAD=f"{runtime('libasan.so')} {runtime('libubsan.so')}",
        # Python leaks on purpose, and one test waits for a SIGBUS.
        ASAN_OPTIONS="detect_leaks=0:handle_sigbus=0",
        UBSAN_OPTIONS="print_stacktrace=1",
    )
    words = ["test_memory.py", "test_nvml.py", "test_processes.py", "test_scribbled.py", "-k", "not 64_processes and not 1024 and not threads_of"]
    result = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *words], cwd=ROOT / "test/limiter", env=env, text=True, capture_output=True
    )
    assert result.returncode == 0, result.stdout[-4000:] + result.stderr[-4000:]
